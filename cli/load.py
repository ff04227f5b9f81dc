"""The command that puts a fleet under load."""

from __future__ import annotations

from typing import Any

from . import agents, options, proposals, show
from .help import command


@command(
    "load",
    "subject lengths trace sessions arrival_scv promises carbon rent batching layout proposer rates replicas "
    "simulate plot yes",
    "inference-econ load llama_3_70b h100_sxm --tp 8 --rates 1,2,5 --ttft 500 --tpot 30",
)
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
    settings = {name: choices[name] for name in ("replicas", "arrival_scv", "simulate")}
    with show.progress_bar(quiet=output.quiet) as progress:
        curve = load(layouts, rates, targets=options.targets(choices), progress=progress, **settings)
    show.answer(curve, output)
