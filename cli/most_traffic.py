"""The most traffic that some chips or a budget carry: ``recommend`` with ``--gpus`` or ``--budget``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from inference_econ.errors import InputError, NothingFitsError, TooMuchError

from . import options, provenance, show

if TYPE_CHECKING:
    from inference_econ.answers.disaggregated.load import Fleet
    from inference_econ.answers.means import Means
    from inference_econ.serving import Services


def run(choices: options.Choices, offers: Sequence[Services], means: Means, most: int, output: options.Output) -> None:
    """Find the deployments and show them."""
    from inference_econ.answers.most_traffic import most_traffic
    from inference_econ.report.most_traffic import MostTrafficPage

    targets = options.targets(choices)
    with show.progress_bar(quiet=output.quiet):
        together = most_traffic(offers, means, targets, arrival_scv=choices["arrival_scv"], most=most)
        page = MostTrafficPage(together, _disaggregated(choices, offers, means), means, targets)
    show.emit(page, output, provenance.asked())


def _disaggregated(choices: options.Choices, offers: Sequence[Services], means: Means) -> Fleet | None:
    """The best fleet of two pools; None if there is none, or the options ask for what pools do not have.

    That is several kinds of chips, fixed degrees or slots, answers of a single token, and a promised time to the last
    token.
    """
    from inference_econ.answers.disaggregated.budget import largest
    from inference_econ.answers.disaggregated.pools import pools
    from inference_econ.answers.disaggregated.terms import Terms
    from inference_econ.answers.most_traffic import fullest

    (first, *others), space = offers, options.space(choices)
    fixed = space.pins.given() or choices["slots"] is not None or choices["e2e"] is not None
    if others or fixed or first.requests.decode_steps <= 0:
        return None
    targets = options.targets(choices)
    terms = Terms(targets, choices["arrival_scv"], fullest(targets))
    try:
        every = pools(options.setup(choices), first.requests, space, speculation=first.speculation)
        return largest(every, means, terms)
    except TooMuchError:
        raise
    except (NothingFitsError, InputError):
        # Too few chips, promises that no pools keep, or no link between them; all else was refused before.
        return None
