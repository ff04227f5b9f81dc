"""The ``load`` command."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ.requests import Request, subject, workload

if TYPE_CHECKING:
    from inference_econ._answer import Shown

Numbers = tuple[float, ...] | None


def load(request: Request, rates: Numbers, replicas: int | None, simulate: bool | None) -> Shown:
    """Utilisation, TTFT, TPOT, goodput and dollars per million tokens of one fleet against the offered load.

    Of engines and layouts that are left open, the one that completes most per dollar is taken, and named. With --ttft,
    --tpot or --e2e, 'kept' is the share of requests that keep all of them. MODEL and HARDWARE as in 'frontier'.
    """
    requests = workload.requests(request)
    if rates is None and requests.arrivals is not None and requests.arrivals.rate is not None:
        rates = (requests.arrivals.rate,)
    offers = subject.candidates(replace(request, aggregated=True), requests)
    targets, scv = workload.targets(request), request.arrival_scv
    settings: dict[str, Any] = {
        "replicas": replicas, "gpus": request.gpus, "arrival_scv": scv, "simulate": simulate,
    }  # fmt: skip
    return ie.load(offers, rates, targets=targets, progress=request.progress, **settings)
