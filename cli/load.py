"""The command that puts a fleet under load."""

from __future__ import annotations

from typing import Any

import click

from . import agents, options, proposals, show
from .help import Command, example
from .parameters import COUNT, Rates


@click.command(
    cls=Command, epilog=example("inference-econ load llama_3_70b h100_sxm --tp 8 --rates 1,2,5 --ttft 500 --tpot 30")
)
@options.subject
@options.lengths
@options.trace
@agents.sessions_of_load
@options.burstiness
@options.promises
@options.carbon
@options.rent
@options.scheduler
@options.layout
@proposals.proposer
@click.option(
    "--rates",
    type=Rates(),
    help="Requests/s in all, between commas [those of the traffic; up to 1.2 x what it completes].",
)
@click.option("--replicas", type=COUNT, default=1, show_default=True, help="Instances that share the load.")
@click.option(
    "--simulate/--no-simulate",
    default=None,
    help="Play every load in a simulation too, request by request, or none [where closed forms are doubtful].",
)
@options.picture("Write a picture of latencies and cost: .svg, .png, .pdf or .html.")
@options.yes
@options.output
def load(rates: tuple[float, ...] | None, output: options.Output, **choices: Any) -> None:
    """Utilisation, TTFT, TPOT, goodput and dollars per million tokens of one fleet against the offered load.

    Of layouts that are left open, the one that completes most per dollar is taken, and named. With --ttft, --tpot or
    --e2e, 'kept' is the share of requests that keep all of them. MODEL and HARDWARE as in 'frontier'.
    """
    from inference_econ.answers.load import load

    ready = agents.work(choices)
    if ready is not None:
        agents.load(choices, ready, rates, output)
        return
    requests = options.requests(choices)
    if rates is None and requests.arrivals is not None and requests.arrivals.rate is not None:
        rates = (requests.arrivals.rate,)
    layouts = options.offer(choices, requests, speculation=proposals.speculation(choices))
    asked = {name: choices[name] for name in ("replicas", "arrival_scv", "simulate")}
    with show.progress_bar(quiet=output.quiet) as progress:
        curve = load(layouts, rates, targets=options.targets(choices), progress=progress, **asked)
    show.answer(curve, output)
