"""Small sets of layouts that several tests share, each computed once."""

from __future__ import annotations

from functools import cache
from typing import Any

from benchmarks.validation import costs
from inference_econ.answers.deployments.serving_options import Arrangement
from inference_econ.engine import Pins
from inference_econ.inputs import Length, Requests, catalog
from inference_econ.serving import Service, Services
from tests import asking

ONE_CHIP = (("tp", 1), ("dp", 1), ("pp", 1))
EIGHT_CHIPS = (("tp", 8), ("dp", 1), ("pp", 1))


@cache
def offer_of(
    model: str = "llama_3_8b",
    isl: str = "1000",
    osl: str = "200",
    cached: float = 0.0,
    pins: tuple[tuple[str, int], ...] = (),
    changes: tuple[str, ...] = (),
    most: int = 4,
    hardware: str = "h100_sxm",
    preset: str = "deployable",
    engine: str | None = None,
) -> Services:
    """Return every layout of a model on a limited number of chips, or a fixed one, at 2 dollars per hour."""
    pinned = Pins(**dict(pins))  # type: ignore[arg-type]
    return asking.offer(
        model,
        hardware,
        Requests(isl=Length.parse(isl), osl=Length.parse(osl), cached=cached),
        assumptions=catalog.assumptions(preset, changes=list(changes)),
        price=2.0,
        pins=pinned,
        max_accelerators=None if pins else most,
        engine=engine,
    )


def service_of(*named: Any, pins: tuple[tuple[str, int], ...] = ONE_CHIP, **settings: Any) -> Service:
    """Return one layout as a service, with the settings of :func:`offer_of`."""
    return offer_of(*named, pins=pins, **settings).service(0)


@cache
def curves_of(
    asked: costs.Combination, assumptions: str | None, arrangement: Arrangement = "both"
) -> tuple[costs.Curves, ...]:
    """Return curves of the default frontier of a model on a chip."""
    return tuple(costs.default_market(asked, assumptions, arrangement))
