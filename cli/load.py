"""The command that puts a fleet under load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ.errors import InputError
from inference_econ.requests import Request, sessions, subject, workload

if TYPE_CHECKING:
    from inference_econ._shown import Shown

Numbers = tuple[float, ...] | None


def load(request: Request, agents: Numbers, rates: Numbers, replicas: int, simulate: bool | None) -> Shown:
    """Utilisation, TTFT, TPOT, goodput and dollars per million tokens of one fleet against the offered load.

    Of layouts that are left open, the one that completes most per dollar is taken, and named. With --ttft, --tpot or
    --e2e, 'kept' is the share of requests that keep all of them. MODEL and HARDWARE as in 'frontier'.
    """
    work, progress = sessions.work(request, agents=agents), request.progress
    if work is not None:
        counts = _whole(agents, rates)
        layouts = subject.offer(request, work.requests, speculation=subject.speculation(request))
        played = sessions.played(request)
        curve: Shown = work.load(layouts, counts, rates=rates, replicas=replicas, progress=progress, **played)
        return curve
    requests = workload.requests(request)
    if rates is None and requests.arrivals is not None and requests.arrivals.rate is not None:
        rates = (requests.arrivals.rate,)
    layouts = subject.offer(request, requests, speculation=subject.speculation(request))
    targets, scv = workload.targets(request), request.arrival_scv
    settings: dict[str, Any] = {"replicas": replicas, "arrival_scv": scv, "simulate": simulate}
    return ie.load(layouts, rates, targets=targets, progress=progress, **settings)


def _whole(agents: Numbers, rates: Numbers) -> list[int] | None:
    """Numbers of agents.

    Raises
    ------
    InputError
        If they are given with rates, or are no integers.
    """
    if agents is None:
        return None
    if rates is not None:
        raise InputError("give either --agents or --rates, not both", option="agents")
    if any(not number.is_integer() for number in agents):
        got = ", ".join(f"{number:g}" for number in agents)
        raise InputError(f"--agents are whole numbers, got {got}", option="agents")
    return [int(number) for number in agents]
