"""The command that says which deployment to take."""

from __future__ import annotations

from typing import Any

import click

from inference_econ.errors import InputError

from . import options, proposals, provenance, show
from .parameters import Name


@click.command()
@options.subject
@options.traffic
@options.layout
@proposals.proposer
@click.option("--on", "further", multiple=True, type=Name("hardware"), help="Further hardware to choose from (repeat).")
@click.option("--choices", "most", type=click.IntRange(1, 50), default=5, show_default=True, help="How many to show.")
@options.output
def recommend(further: tuple[str, ...], most: int, output: options.Output, **choices: Any) -> None:
    """The cheapest deployments that keep TTFT and TPOT at a request rate: GPUs, layout, instances, cost.

    With --on, of several kinds of hardware. What no deployment can keep is answered with the best that can be reached.
    """
    from inference_econ.answers.recommend import recommend
    from inference_econ.report.recommend import RecommendationPage

    if further and choices["price"] is not None:
        raise InputError("--price is for one kind of hardware; with --on each file's own price is taken")
    requests, targets, speculation = options.requests(choices), options.targets(choices), proposals.speculation(choices)
    chips = dict.fromkeys((choices["hardware"], *further))
    offers = [options.offer(choices, requests, chip, speculation) for chip in chips]
    rate = options.request_rate(choices, requests)
    deployments = recommend(offers, rate, targets, arrival_scv=choices["arrival_scv"], most=most)
    show.emit(RecommendationPage(deployments, targets), output, provenance.asked())
