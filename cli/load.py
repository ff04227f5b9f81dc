"""The command that puts a fleet under load."""

from __future__ import annotations

from typing import Any

import inference_econ as ie

from . import agents, options, proposals
from .help import question


@question("load")
def load(rates: tuple[float, ...] | None, progress: options.Progress | None, **choices: Any) -> options.Shown:
    """Utilisation, TTFT, TPOT, goodput and dollars per million tokens of one fleet against the offered load.

    Of layouts that are left open, the one that completes most per dollar is taken, and named. With --ttft, --tpot or
    --e2e, 'kept' is the share of requests that keep all of them. MODEL and HARDWARE as in 'frontier'.
    """
    work = agents.work(choices)
    if work is not None:
        return agents.load(choices, work, rates, progress)
    requests = options.requests(choices)
    if rates is None and requests.arrivals is not None and requests.arrivals.rate is not None:
        rates = (requests.arrivals.rate,)
    layouts = options.offer(choices, requests, speculation=proposals.speculation(choices))
    settings = {name: choices[name] for name in ("replicas", "arrival_scv", "simulate")}
    return ie.load(layouts, rates, targets=options.targets(choices), progress=progress, **settings)
