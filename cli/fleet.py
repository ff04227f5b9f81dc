"""The command that plans the fleet of a day, and plays it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ.errors import InputError, of_option
from inference_econ.inputs import catalog
from inference_econ.requests import Request, prices, sessions, subject, workload

from . import extras

if TYPE_CHECKING:
    from inference_econ._shown import Shown
    from inference_econ.answers.fleet_play import Policy
    from inference_econ.answers.lots import Way


def fleet(
    request: Request,
    rates: tuple[float, ...] | None,
    agents: tuple[float, ...] | None,
    stock: tuple[str, ...],
    pay: tuple[Way, ...],
    policy: Policy,
    target: float | None,
    min_replicas: int,
    start_up: float | None,
    interruptions: float | None,
    spot_share: float | None,
) -> Shown:
    """The cheapest fleet of a day: chips, reserved, on demand and spot, and what an autoscaler makes of it.

    A mixture of chips is found for traffic by hour that is known before, proven to be the cheapest, and played beside
    an autoscaler that does not know it. Replicas and their capacity are those of 'recommend --together': instances
    that do both; what the day would cost with pools is said where that is less.
    """
    work = sessions.work(request, agents=agents)
    if work is None:
        requests, targets = workload.requests(request, fitted=True), workload.targets(request)
        day = _day(rates, requests)
        # By hour, so that within an hour they come as if it went on.
        if requests.arrivals is not None:
            requests = requests.replace(arrivals=requests.arrivals.replace(rates=()))
    else:
        day = sessions.day(request, agents, rates)
    request = replace(request, price=prices.of_chips(request.price, request.chips))
    rules = {"startup_seconds": start_up, "interruptions_per_hour": interruptions, "spot_share": spot_share}
    given = {name: value for name, value in rules.items() if value is not None}
    settings: dict[str, Any] = {
        "stock": _stock(stock),
        "ways": pay or ("reserved", "on_demand", "spot"),
        "elasticity": catalog.elasticity().replace(**given),
        "progress": request.progress,
        "policy": policy,
        "target": target,
        "min_replicas": min_replicas,
    }
    with extras.needed("studies", "scipy"):
        if work is not None:
            offers = subject.of_chips(request, work.requests)
            return work.fleet(offers, day, **sessions.played(request, **sessions.usual()), **settings)
        offers = subject.of_chips(request, requests)
        return ie.fleet(offers, day, targets, arrival_scv=request.arrival_scv, **settings)


def _day(rates: Sequence[float] | None, requests: ie.Requests) -> Sequence[float]:
    """Requests per second of each hour.

    Raises
    ------
    InputError
        If nobody says it.
    """
    from inference_econ.answers.fleet import rates_by_hour

    if rates is not None:
        return tuple(rates)
    if requests.arrivals is None:
        raise InputError(
            "give the requests/s of each hour: --rates R,R,..., --traffic FILE or --trace FILE", option="rates"
        )
    return rates_by_hour(requests.arrivals)


def _stock(texts: Sequence[str]) -> Mapping[str, int]:
    """Accelerators by chip.

    Raises
    ------
    InputError
        If one is not written so, or given twice.
    """
    stock: dict[str, int] = {}
    for text in texts:
        name, sign, count = (part.strip() for part in text.partition("="))
        if not sign or not count.isdigit():
            raise InputError(f"--stock {text!r}: write HARDWARE=N, for example h100_sxm=64", option="stock")
        with of_option("stock"):
            chip = catalog.meaning("hardware", name).name
        if chip in stock:
            raise InputError(f"--stock {chip} is given twice; give it once", option="stock")
        stock[chip] = int(count)
    return stock
