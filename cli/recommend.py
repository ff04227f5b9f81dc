"""The ``recommend`` command."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ.errors import InputError
from inference_econ.requests import Request, prices, subject, workload
from inference_econ.requests.request import refuse

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
        return ie.most_traffic(
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
            from inference_econ.answers.deployments.recommend import recommend_for_users

            return recommend_for_users(offers, users, targets, **options)
        return ie.recommend(offers, rate, targets, **options)

    deployments, started = answer(request), subject.among_startable(request, answer)
    return replace(deployments, startable=started[0] if started else None)
