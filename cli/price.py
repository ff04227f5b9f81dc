"""The ``price`` and ``fits`` commands."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import inference_econ as ie
from inference_econ.requests import Request, prices, subject, workload

if TYPE_CHECKING:
    from inference_econ._answer import Shown


def price(request: Request, api_prices: str | None, replicas: int | None, input_price: float | None) -> Shown:
    """Compute the cost of input, cached input and output tokens at a load.

    The command selects the cheapest deployment that meets the SLOs, and the cost includes idle time. Without an SLO,
    the deployment must reach the median speed of recorded API offers of the model. If no deployment reaches the median
    speed, or no offer has a speed, 20 tokens/s per user are required. MODEL and HARDWARE are names or paths of YAML
    files.
    """
    requests, targets = workload.requests(request), workload.usual_targets(request)
    layouts, rate = subject.candidates(request, requests), workload.request_rate(request, requests)
    # Reject invalid prices before the calculation.
    api, offer = (None, None) if api_prices is None else prices.offered(layouts[0].setup.model, api_prices)
    used = request.most_utilization
    sheet = ie.price(
        layouts,
        rate,
        targets=targets,
        progress=request.progress,
        replicas=replicas,
        arrival_scv=request.arrival_scv,
        utilization=None if used is None else used / 100.0,
    )
    return replace(sheet, api=api, offer=offer, input_price=input_price)


def fits(request: Request, concurrency: int) -> ie.Fits:
    """Check whether a model fits on a GPU, and how many GPUs it needs.

    The table lists instance sizes with their concurrent requests and longest request. By default, an instance runs on
    one machine; --instance-gpus, --max-instance-gpus and degrees set other sizes. If no instance fits on one machine,
    the command reports how many GPUs are needed. The exit code is 0 if the model fits, else 1. MODEL and HARDWARE are
    names or paths of YAML files.
    """
    space = subject.space(request)
    return ie.fits(subject.setup(request), workload.requests(request), space, concurrency=concurrency)
