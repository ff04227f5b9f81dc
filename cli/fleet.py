"""The command that plans the fleet of a day, and plays it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import inference_econ as ie
from inference_econ.errors import InputError, of_option
from inference_econ.inputs import catalog

from . import agents, extras, market, options, prices
from .help import question


@question("fleet")
def fleet(further: tuple[str, ...], progress: options.Progress | None, **choices: Any) -> options.Shown:
    """The cheapest fleet of a day: chips, reserved, on demand and spot, and what an autoscaler makes of it.

    A mixture of chips is found for traffic by hour that is known before, proven to be the cheapest, and played beside
    an autoscaler that does not know it. Replicas and their capacity are those of 'recommend --together': instances
    that do both; what the day would cost with pools is said where that is less.
    """
    work = agents.work(choices)
    if work is None:
        requests, targets = options.requests(choices, fitted=True), options.targets(choices)
        day = _day(choices, requests)
        # By hour, so that within an hour they come as if it went on.
        if requests.arrivals is not None:
            requests = requests.replace(arrivals=requests.arrivals.replace(rates=()))
    else:
        day = agents.day(choices)
    chips = tuple(dict.fromkeys((choices["hardware"], *further)))
    choices["price"] = prices.of_chips(choices["price"], chips)
    stock = _stock(choices["stock"])
    rules = {
        "startup_seconds": choices["start_up"],
        "interruptions_per_hour": choices["interruptions"],
        "spot_share": choices["spot_share"],
    }
    settings: dict[str, Any] = {
        "stock": stock,
        "ways": choices["pay"] or ("reserved", "on_demand", "spot"),
        "elasticity": catalog.elasticity().replace(
            **{name: value for name, value in rules.items() if value is not None}
        ),
        "progress": progress,
        **{name: choices[name] for name in ("policy", "target", "min_replicas")},
    }
    with extras.needed("studies", "scipy"):
        if work is not None:
            offers = market.of_chips(choices, work.requests, chips)
            return work.fleet(offers, day, **agents.played(choices, **agents.usual()), **settings)
        offers = market.of_chips(choices, requests, chips)
        return ie.fleet(offers, day, targets, arrival_scv=choices["arrival_scv"], **settings)


def _day(choices: options.Choices, requests: ie.Requests) -> Sequence[float]:
    """Requests per second of each hour.

    Raises
    ------
    InputError
        If nobody says it.
    """
    from inference_econ.answers.fleet import rates_by_hour

    if choices["rates"] is not None:
        return tuple(choices["rates"])
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
