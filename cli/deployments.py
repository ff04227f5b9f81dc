"""Commands about deployments under load: recommend, load, estimate, price and fits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ import answers
from inference_econ.errors import InputError
from inference_econ.requests import Request, prices, refuse, subject, workload

if TYPE_CHECKING:
    from inference_econ._answer import Shown


def recommend(request: Request, most: int) -> Shown:
    """Find the cheapest deployments that meet latency SLOs at a request rate.

    Use --on to compare several GPU types. If no deployment meets the SLOs, the command reports the best reachable
    latencies.

    Aggregated and disaggregated deployments compete. With --decode-on, the decode pool of a disaggregated deployment
    runs on another GPU type.

    With --gpus, --budget or --power-budget, the command finds the largest load that these GPUs, this hourly cost or
    this facility power can serve within the SLOs. If --traffic has sessions, the load is a number of agents.
    """
    workload.check_sizes(request)
    means = workload.means(request)
    chips = tuple(dict.fromkeys((*request.chips, *filter(None, [request.decode_on]))))
    rates = prices.prices_of_chips(request.price, chips)
    request = replace(request, price=rates if request.budget is not None else prices.with_unpriced(rates, chips))
    requests, targets, scv = workload.requests(request), workload.targets(request), request.arrival_scv
    if means is not None:
        if request.plot is not None:
            raise InputError(
                "--plot draws deployments at a request rate; what --gpus, --budget or --power-budget carries has none",
                option="gpus",
            )
        stray = ("burst", "headroom", "spare", "think_time", "most_utilization")
        refuse(request.named(stray), "{} is of a deployment for a load; leave out --gpus, --budget or --power-budget")
        return answers.most_traffic.most_traffic(
            subject.candidates_on_chips(request, requests), means, targets, arrival_scv=scv, most=most
        )
    users, rate = workload.users(request), workload.request_rate(request, requests)
    options: dict[str, Any] = {
        "arrival_scv": scv,
        "most": most,
        "margin": workload.margin(request),
        "progress": request.progress,
    }

    def answer(chosen: Request) -> ie.Recommendation:
        offers = subject.candidates_on_chips(chosen, requests)
        if users is not None:
            return answers.recommend.recommend_for_users(offers, users, targets, **options)
        return answers.recommend.recommend(offers, rate, targets, **options)

    deployments, started = answer(request), subject.among_startable(request, answer)
    return replace(deployments, startable=started[0] if started else None)


Numbers = tuple[float, ...] | None


def load(request: Request, rates: Numbers, replicas: int | None, simulate: bool | None) -> Shown:
    """Show latency, utilization, goodput and cost of one fleet at several loads.

    If you give no engine or layout, the command selects the layout with the most completed requests per dollar. With
    --ttft, --tpot or --e2e, the column 'SLO met %' is the share of requests that meet all SLOs. MODEL and HARDWARE are
    names or paths of YAML files.
    """
    if request.disaggregated:
        raise InputError(
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
    return answers.load.load(offers, rates, targets=targets, progress=request.progress, **settings)


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
    sheet = answers.price.price(
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
    return answers.fits.fits(subject.setup(request), workload.requests(request), space, concurrency=concurrency)
