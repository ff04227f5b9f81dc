"""Ask for services by name: what a model on a chip can offer, and at what price."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inference_econ.answers.frontier import ask
from inference_econ.answers.price import Sheet, sheet
from inference_econ.answers.recommend import Choice, Targets, promised_rates, recommend
from inference_econ.engine import economics, memory
from inference_econ.engine.layouts.grids import whole_grid
from inference_econ.engine.layouts.pins import Pins
from inference_econ.engine.speculation import Speculation
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import profiles
from inference_econ.inputs.assumptions import Assumptions
from inference_econ.inputs.hardware import HardwareSpec
from inference_econ.inputs.model import ModelSpec
from inference_econ.inputs.traffic import Requests
from inference_econ.serving.services import Services, every_service

#: Share of what an instance can do that it is filled to where no request rate is given [1].
FILLED = 0.8


@dataclass(frozen=True, slots=True)
class Offer:
    """What one model on one kind of chip can offer.

    Attributes
    ----------
    deployments : Services
        Every layout as a service.
    dollars_per_accelerator_hour : float
        [USD/h]
    """

    deployments: Services
    dollars_per_accelerator_hour: float


def offer(
    model: ModelSpec | str,
    hardware: HardwareSpec | str,
    requests: Requests,
    *,
    assumptions: Assumptions | str | None = None,
    weights: str | None = None,
    activations: str | None = None,
    kv: str | None = None,
    price: float | None = None,
    pins: Pins | None = None,
    pipeline: bool = True,
    max_accelerators: float | None = None,
    speculation: Speculation | None = None,
) -> Offer:
    """Every layout of a model on a chip as a service.

    Parameters
    ----------
    model, hardware : spec, name or path
        What is served, on what.
    requests : Requests
        Lengths and cached tokens.
    assumptions : Assumptions, name or path, optional
        Opinions; by default the profile of the chip's generation (:func:`inference_econ.inputs.profiles.assumed`).
    weights, activations, kv : str, optional
        Number formats.
    price : float, optional
        Of one accelerator [USD/h]; by default the first of its file.
    pins : Pins, optional
        Degrees that are given.
    pipeline : bool
        Try pipeline depths other than 1.
    max_accelerators : float, optional
        Largest instance [1]; by default 64, or four times the smallest.
    speculation : Speculation, optional
        Who proposes tokens, on the same chips.

    Returns
    -------
    Offer
        With the price.

    Raises
    ------
    InputError
        If a name, format, degree, number or speculation cannot be used.
    NothingFitsError
        If no layout fits.
    """
    opinions = profiles.assumed(assumptions, hardware)
    setup = ask(
        model, hardware, requests.mean_context, assumptions=opinions, weights=weights, activations=activations, kv=kv
    )
    rate = economics.rate(setup.hardware, price)
    fixed = Pins() if pins is None else pins
    fixed.check_whole()
    usable = setup.hardware.hbm_bytes * setup.assumptions.capacity.usable_memory
    smallest = memory.weight_bytes(setup.model, setup.precision) / usable
    largest = None if max_accelerators is None else int(max_accelerators)
    grid = whole_grid(smallest, pipeline=pipeline, largest=largest, pins=fixed)
    if not grid.accelerators.size:
        raise NothingFitsError(
            f"nothing fits: the weights of {setup.model.name} ({setup.precision.weights}) alone need "
            f"{math.ceil(smallest)} accelerators ({setup.hardware.name}); {_allowed(fixed, largest)}"
        )
    return Offer(every_service(setup, requests, grid, speculation), rate)


def _allowed(pins: Pins, largest: int | None) -> str:
    if pins.given():
        return f"{pins.text} leaves no instance of that size"
    return f"at most {largest} are allowed"


def choose(
    offers: Sequence[Offer],
    requests_per_second: float | None,
    targets: Targets,
    *,
    arrival_scv: float = 1.0,
    most: int = 5,
) -> tuple[list[Choice], float]:
    """The cheapest deployments for a traffic, and the traffic.

    Parameters
    ----------
    offers : sequence of Offer
        To choose from.
    requests_per_second : float or None
        The whole traffic [1/s]; if none is given, what fills one instance of the cheapest layout to
        :data:`FILLED` of what it can do within the promises.
    targets : Targets
        Promises.
    arrival_scv : float
        Squared coefficient of variation of the times between arrivals [1].
    most : int
        Choices wanted [1].

    Returns
    -------
    (list of Choice, float)
        Cheapest first, and requests per second [1/s].

    Raises
    ------
    InputError
        If a rate or promise is impossible.
    NothingFitsError
        If no layout keeps the promises.
    """
    pairs = [(one.deployments, one.dollars_per_accelerator_hour) for one in offers]
    if requests_per_second is None:
        requests_per_second = _natural_rate(pairs, targets)
    return recommend(pairs, requests_per_second, targets, arrival_scv=arrival_scv, most=most), requests_per_second


def _natural_rate(pairs: Sequence[tuple[Services, float]], targets: Targets) -> float:
    """What fills an instance of the layout whose requests are the cheapest [1/s]."""
    best, rate = 0.0, FILLED
    for found, price in pairs:
        rates = promised_rates(found, targets)
        per_dollar = rates / (found.plans.accelerators * price)
        index = int(np.argmax(per_dollar))
        if per_dollar[index] > best:
            best, rate = float(per_dollar[index]), FILLED * float(rates[index])
    return rate


def price(
    one: Offer,
    requests_per_second: float | None = None,
    *,
    targets: Targets | None = None,
    replicas: int | None = None,
    arrival_scv: float = 1.0,
) -> Sheet:
    """What each kind of token costs at a traffic, on the cheapest deployment of an offer.

    Parameters
    ----------
    one : Offer
        Model, chip, lengths and layouts.
    requests_per_second : float, optional
        The whole traffic [1/s]; see :func:`choose` if none is given.
    targets : Targets, optional
        Promises that the deployment must keep.
    replicas : int, optional
        Instances [1]; the fewest that keep the promises if not given. Given ones may be saturated: the sheet says so.
    arrival_scv : float
        Squared coefficient of variation of the times between arrivals [1].

    Returns
    -------
    Sheet
        Tokens by kind, their costs, and the load.

    Raises
    ------
    InputError
        If a rate, number or promise is impossible.
    NothingFitsError
        If no layout keeps the promises.
    """
    promised = Targets() if targets is None else targets
    if replicas is None:
        choices, rate = choose([one], requests_per_second, promised, arrival_scv=arrival_scv, most=1)
        best = choices[0]
        return sheet(
            best.service, rate, one.dollars_per_accelerator_hour, replicas=best.replicas, arrival_scv=arrival_scv
        )
    if not (replicas >= 1 and float(replicas).is_integer()):
        raise InputError(f"replicas must be a whole number from 1 on, got {replicas:g}")
    found = one.deployments
    rates = promised_rates(found, promised)
    rate = requests_per_second or replicas * _natural_rate([(found, one.dollars_per_accelerator_hour)], promised)
    # Of the cheapest fleets of so many instances that complete the traffic, the one that completes most; the one of all
    # if none does.
    enough = replicas * rates > rate
    sizes = found.plans.accelerators
    smallest = enough & (sizes == sizes[enough].min()) if enough.any() else sizes > 0
    index = int(np.argmax(np.where(smallest, rates, -1.0)))
    return sheet(
        found.service(index), rate, one.dollars_per_accelerator_hour, replicas=int(replicas), arrival_scv=arrival_scv
    )
