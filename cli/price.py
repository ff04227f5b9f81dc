"""The ``price`` and ``fits`` commands."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import inference_econ as ie
from inference_econ.requests import Request, prices, subject, workload

if TYPE_CHECKING:
    from inference_econ._answer import Shown


def price(request: Request, api_prices: str | None, replicas: int | None, input_price: float | None) -> Shown:
    """Dollars per million input, cached input and output tokens at a traffic.

    The cheapest deployment that meets the SLOs is priced; its idle time too. Without promises it is as fast as
    offers of the model usually are (the median of those that are recorded), or 20 tokens/s per user where there are
    none or nothing is as fast; --api-prices are compared at that speed. MODEL and HARDWARE as in 'frontier'.
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
    """Whether a model fits a chip: exit code 0 or 1, the GPUs it takes, slots, and the longest request.

    Instances of one machine are tried, or those of --instance-gpus, --max-instance-gpus and degrees; if none is enough,
    it is said how many GPUs of several machines are. MODEL and HARDWARE as in 'frontier'.
    """
    space = subject.space(request)
    return ie.fits(subject.setup(request), workload.requests(request), space, concurrency=concurrency)
