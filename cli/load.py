"""The ``load`` command."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ.requests import Request, prices, subject, workload

if TYPE_CHECKING:
    from inference_econ._answer import Shown

Numbers = tuple[float, ...] | None


def load(request: Request, rates: Numbers, replicas: int | None, simulate: bool | None) -> Shown:
    """Show latency, utilization, goodput and cost of one fleet at several loads.

    If you give no engine or layout, the command selects the layout with the most completed requests per dollar. With
    --ttft, --tpot or --e2e, the column 'SLO met %' is the share of requests that meet all SLOs. MODEL and HARDWARE are
    names or paths of YAML files.
    """
    if request.disaggregated:
        raise ie.InputError(
            "--disaggregated: load is of aggregated deployments only. Leave it out, or use 'recommend --request-rate'",
            option="disaggregated",
        )
    request = prices.optional(request)
    requests = workload.requests(request)
    if rates is None and requests.arrivals is not None and requests.arrivals.rate is not None:
        rates = (requests.arrivals.rate,)
    offers = subject.candidates(replace(request, aggregated=True), requests)
    targets, scv = workload.targets(request), request.arrival_scv
    settings: dict[str, Any] = {
        "replicas": replicas, "gpus": request.gpus, "arrival_scv": scv, "simulate": simulate,
    }  # fmt: skip
    return ie.load(offers, rates, targets=targets, progress=request.progress, **settings)
