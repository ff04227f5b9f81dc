"""The most traffic that some chips or a budget carry: ``recommend`` with ``--gpus`` or ``--budget``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import options, show

if TYPE_CHECKING:
    from inference_econ.answers.candidates import Candidate
    from inference_econ.answers.means import Means


def run(choices: options.Choices, offers: Sequence[Candidate], means: Means, most: int, output: options.Output) -> None:
    """Find the deployments and show them."""
    from inference_econ.answers.most_traffic import most_traffic

    targets = options.targets(choices)
    with show.progress_bar(quiet=output.quiet):
        most_carried = most_traffic(offers, means, targets, arrival_scv=choices["arrival_scv"], most=most)
    show.answer(most_carried, output)
