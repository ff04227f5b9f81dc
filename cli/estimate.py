"""The ``estimate`` command."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from inference_econ import answers
from inference_econ.errors import InputError
from inference_econ.requests import Request, prices, refuse, subject, workload

if TYPE_CHECKING:
    from inference_econ._answer import Shown

#: Options that apply to a request rate, but not to a concurrency.
_OF_RATES = ("ttft", "tpot", "e2e", "confidence", "arrival_scv", "percentile")


def estimate(request: Request, concurrency: tuple[int, ...] | None, replicas: int | None) -> Shown:
    """Estimate latency, speed, cost and energy of one deployment at a load.

    The load is a number of concurrent requests or a request rate. Without a layout (--tp, ...), the command selects the
    aggregated layout with the fewest GPUs for this load. MODEL and HARDWARE are names or paths of YAML files.
    """
    request = prices.optional(request)
    requests = workload.requests(request)
    candidates = subject.candidates(replace(request, aggregated=True), requests)
    if request.request_rate is None:
        refuse(filter(request.is_given, _OF_RATES), "{} goes with --request-rate")
        return answers.estimate.estimate(candidates, concurrency or (), replicas=replicas or 1)
    if concurrency is not None:
        raise InputError("give either --concurrency or --request-rate, not both", option="concurrency")
    targets, scv = workload.targets(request), request.arrival_scv
    return answers.estimate.estimate_rate(
        candidates, request.request_rate, targets, arrival_scv=scv, replicas=replicas, progress=request.progress
    )
