"""The command that turns the question round: from prices and speeds to the sizes of a closed model."""

from __future__ import annotations

from inference_econ.errors import InputError

from . import options, show
from .help import command


@command(
    "infer",
    "offers recorded truth priors samples plot yes",
    "inference-econ infer --offer input=3,output=15,speed=60",
    "inference-econ infer --offer input=0.9,output=0.9,speed=90,on=h100_sxm --offer input=0.2,output=0.4,speed=35 \\",
    "    --plot infer.svg",
    "inference-econ infer --recorded meta-llama/llama-3.3-70b-instruct --truth llama_3_70b",
)
@options.output
def infer(
    offers: tuple[str, ...],
    recorded: str | None,
    truth: str | None,
    priors: str,
    samples: int,
    output: options.Output,
) -> None:
    """Sizes that a closed model could have, by what was seen of its offers: intervals and probabilities, never a point.

    Models of every size are drawn from priors, served in every way that the priors allow, and weighted by how well they
    explain the prices, speeds and times to the first token that were seen.
    """
    from inference_econ.inputs import observed_offer, recorded_offers
    from inference_econ.studies.inference.infer import infer

    if offers and recorded is not None:
        raise InputError("give either --offer or --recorded, not both")
    seen = [observed_offer(text) for text in offers] if recorded is None else recorded_offers(recorded)
    if not seen:
        raise InputError("nothing was observed; give --offer, for example --offer input=3,output=15,speed=60")
    with show.progress_bar(quiet=output.quiet) as progress:
        inferred = infer(seen, priors, samples=samples, truth=truth, progress=progress)
    show.answer(inferred, output)
