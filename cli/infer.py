"""The command that turns the question round: from prices and speeds to the sizes of a closed model."""

from __future__ import annotations

import inference_econ as ie
from inference_econ import inputs
from inference_econ.errors import InputError

from . import options
from .help import question


@question("infer")
def infer(
    offers: tuple[str, ...],
    recorded: str | None,
    truth: str | None,
    priors: str,
    samples: int,
    progress: options.Progress | None,
) -> ie.Inferred:
    """Sizes that a closed model could have, by what was seen of its offers: intervals and probabilities, never a point.

    Models of every size are drawn from priors, served in every way that the priors allow, and weighted by how well they
    explain the prices, speeds and times to the first token that were seen.
    """
    if offers and recorded is not None:
        raise InputError("give either --offer or --recorded, not both")
    seen = [inputs.observed_offer(text) for text in offers] if recorded is None else ie.recorded_offers(recorded)
    if not seen:
        raise InputError("nothing was observed; give --offer, for example --offer input=3,output=15,speed=60")
    return ie.infer(seen, priors, samples=samples, truth=truth, progress=progress)
