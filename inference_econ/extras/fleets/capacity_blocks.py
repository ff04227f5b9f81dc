"""Rental units (lots) of a fleet: replicas that are rented together in one pricing model."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.deployments.deployment import Deployment, bounded_load, service_record
from inference_econ.answers.deployments.recommend import most_of_one, natural_rate, recommend
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.disaggregated.load import rented
from inference_econ.answers.slo import Targets
from inference_econ.engine import Setup, pricing
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import queueing
from inference_econ.inputs import HourPrice, prices
from inference_econ.serving import Loaded, Service, loaded

#: Pricing models: reserved, on demand, spot (preemptible), owned.
Way = Literal["reserved", "on_demand", "spot", "owned"]
EVERY_WAY: tuple[Way, ...] = get_args(Way)
#: Pricing models of rented machines.
WAYS: tuple[Way, ...] = EVERY_WAY[:3]
#: Pricing model by kind of price; other kinds are on demand.
_WAY_OF: Mapping[str, Way] = {"reserved": "reserved", "tco": "reserved", "spot": "spot", prices.OWNED: "owned"}
#: Grid of loads for interpolated concurrency, relative to the SLO capacity [1].
_LOADS = np.array([0.02, 0.1, 0.25, 0.5, 0.75, 1.0])

#: Advice for a chip without a listed purchase price.
_OWN_PRICE = "give --price the total of 'inference-econ gpu-cost HARDWARE --purchase USD'"

#: Request rate, relative to an instance or group, at which rounding to instances hardly matters [1].
_MANY = 10.0


@dataclass(frozen=True, slots=True)
class CapacityBlock:
    """Smallest rentable unit of a fleet: the minimum number of replicas that fill their machines.

    In a disaggregated deployment, a rental unit is one decode instance with its share of the prefill instances.

    Attributes
    ----------
    service : Service
        One replica; if disaggregated, a decode instance.
    load : Loaded
        Largest load of a replica within the SLOs.
    replicas : int
        Replicas per rental unit [1].
    way : str
        Pricing model, one of :data:`EVERY_WAY`.
    price : HourPrice
        Hourly price of one accelerator.
    pools : Deployment or None
        Complete disaggregated deployment; None if aggregated.
    """

    service: Service
    load: Loaded
    replicas: int
    way: Way
    price: HourPrice
    pools: Deployment | None = None

    @property
    def setup(self) -> Setup:
        """Model, chip, formats and assumptions."""
        return self.service.setup

    @property
    def stays(self) -> bool:
        """True if the rental unit is paid for around the clock."""
        return self.way in ("reserved", "owned")

    @property
    def chip(self) -> str:
        """Name of the chip."""
        return self.setup.hardware.name

    @property
    def accelerators(self) -> int:
        """Rented accelerators per rental unit [1]."""
        return self.rented(1)

    @property
    def dollars_per_hour(self) -> float:
        """Hourly cost of a rental unit [USD/h]."""
        return self.accelerators * self.price.dollars

    @property
    def requests_per_second(self) -> float:
        """Request rate that a rental unit serves within the SLOs [1/s]."""
        return self.replicas * self.load.requests_per_second

    @property
    def most_requests_per_second(self) -> float:
        """Request rate that a rental unit can complete, without SLOs [1/s]."""
        return self.replicas * self.service.most_requests_per_second

    @property
    def counted(self) -> str:
        """Name of the unit in which the load is given, for headings."""
        return "requests/s"

    @property
    def carried(self) -> float:
        """Capacity within the SLOs, in the unit of the load: requests per second [1/s]."""
        return self.requests_per_second

    @property
    def most_carried(self) -> float:
        """Capacity without SLOs, in the unit of the load: requests per second [1/s]."""
        return self.most_requests_per_second

    def in_flight(self, shares: Array) -> Array:
        """Concurrent requests of a rental unit at given shares of its capacity within the SLOs, shape (n,) [1].

        Values are at most the maximum concurrency of the unit, and are interpolated between several loads.
        """
        rates = (_LOADS[:-1] * self.load.requests_per_second).tolist()
        states = [loaded(self.service, rate, arrivals=self.load.arrivals).in_flight for rate in rates]
        full = max(self.most_requests_per_second / self.requests_per_second, 1.0 + 1e-9)
        slots = max(self.service.slots, self.load.in_flight)
        return self.replicas * np.interp(shares, (0.0, *_LOADS, full), (0.0, *states, self.load.in_flight, slots))

    @property
    def parts(self) -> int:
        """Number of rental units in the complete disaggregated deployment [1]; 1 if aggregated."""
        return 1 if self.pools is None or self.pools.fleet is None else self.pools.fleet.decode_instances

    def rented(self, lots: int) -> int:
        """Rented chips of a number of rental units [1], with the required prefill instances."""
        if self.pools is None or self.pools.fleet is None:
            return lots * int(self.setup.rented(self.replicas, self.service.accelerators))
        fleet = self.pools.fleet
        readers = -(-lots * fleet.prefill_instances // fleet.decode_instances)
        return sum(rented(fleet.pools, (fleet.prefill, fleet.decode), (readers, lots)))

    def fleet(self, carried: float) -> tuple[int, float]:
        """Chips of the rental units needed for a load [1], and the capacity of these units."""
        lots = max(math.ceil(carried / self.carried - 1e-9), 1)
        return self.rented(lots), lots * self.carried

    def record(self, targets: Targets) -> dict[str, Any]:
        """Rental unit, or the whole disaggregated deployment, at SLO capacity as plain data."""
        paid = {"paid": self.way, "dollars_per_accelerator_hour": self.price.dollars}
        if self.pools is None:
            served = service_record(self.service, self.replicas, self.load)
            bounded = bounded_load(self.service, self.load, self.replicas, targets)
            return {**served, **bounded, **paid, "dollars_per_hour": self.dollars_per_hour}
        apart = self.pools.served_record(targets)
        # The token cost is at the price of the setup, so it does not apply to other pricing models.
        del apart["dollars_per_million_output_tokens"]
        return {**apart, **paid, "dollars_per_hour": self.pools.rented * self.price.dollars}


def lots(
    best: Mapping[str, Deployment],
    targets: Targets,
    *,
    arrival_scv: float = 1.0,
    ways: Collection[Way] = WAYS,
    note: Callable[[str], None] = lambda _: None,
) -> tuple[CapacityBlock, ...]:
    """Create the rental units of the best fleet of each chip, in every pricing model.

    Parameters
    ----------
    best : mapping of str to Deployment
        Best fleet of each chip (:func:`best_of_chips`).
    targets : Targets
        SLOs.
    arrival_scv : float
        See :func:`inference_econ.serving.load.loaded` [1].
    ways : collection of str
        Allowed pricing models. The setup contains the price of one pricing model; the chip's file lists prices of other
        pricing models.
    note : callable
        Function that receives messages on chips without a known purchase price.

    Returns
    -------
    tuple of CapacityBlock
        Rental units. :func:`inference_econ.answers.deployments.recommend.recommend` and
        :func:`inference_econ.answers.deployments.recommend.most_traffic` determine layouts and loads, so all commands
        report the same capacity of a replica.

    Raises
    ------
    NothingFitsError
        If no chip has a price in the requested pricing models.
    """
    every_lot: list[CapacityBlock] = []
    for choice in best.values():
        full: Deployment | None = choice
        if choice.fleet is None:
            scv = float(queueing.split_scv(arrival_scv, choice.replicas))
            full = most_of_one(choice.service, targets, scv)
        every_lot += [] if full is None else lots_of(full, ways)
    if not every_lot:
        raise no_price(ways)
    owned = {lot.chip for lot in every_lot if lot.way == "owned"}
    unpriced = [chip for chip in best if chip not in owned]
    if unpriced and "owned" in ways:
        note(f"owned {', '.join(unpriced)} (no purchase price is listed; {_OWN_PRICE})")
    return tuple(every_lot)


def best_of_chips(
    candidates: Sequence[Candidate],
    requests_per_second: float | None,
    targets: Targets,
    *,
    arrival_scv: float = 1.0,
    play: bool = True,
    note: Callable[[str], None] | None = None,
) -> dict[str, Deployment]:
    """Find the best deployment of ``recommend`` for each chip separately.

    Parameters
    ----------
    candidates, targets, arrival_scv
        See ``recommend``.
    play : bool
        True to simulate requests; see ``recommend``.
    requests_per_second : float or None
        Total request rate [1/s]; None for a rate that is high enough to make rounding to instances unimportant.
    note : callable, optional
        Function that receives a message for each chip that cannot meet the SLOs. Without this function, an error is
        raised.

    Raises
    ------
    InputError, NothingFitsError
        If no chip meets the SLOs, or if a chip does not meet the SLOs and ``note`` is missing. The message is about the
        first chip that does not meet the SLOs.
    """
    chips: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        chips.setdefault(candidate.setup.hardware.name, []).append(candidate)
    best: dict[str, Deployment] = {}
    failures: list[InputError | NothingFitsError] = []
    for chip, several in chips.items():
        try:
            rate = _MANY * natural_rate(several, targets) if requests_per_second is None else requests_per_second
            best[chip] = recommend(several, rate, targets, arrival_scv=arrival_scv, most=1, play=play)[0]
        except (InputError, NothingFitsError) as error:
            if note is None:
                raise
            failures.append(error)
            note(f"{chip}: {error}")
    if failures and not best:
        raise failures[0]
    return best


def no_price(ways: Collection[Way]) -> NothingFitsError:
    """Error for pricing models in which no chip has a price."""
    other = f", and {_OWN_PRICE}, as no purchase price is listed" if set(ways) == {"owned"} else ", or give --price"
    return NothingFitsError(f"no chip has a price that is {' or '.join(ways)}: allow another way to pay{other}")


def lots_of(choice: Deployment, ways: Collection[Way]) -> list[CapacityBlock]:
    """Rental units of a replica, or of a decode instance if disaggregated, in every pricing model of the chip.

    Replicas are rented together if that is cheaper.
    """
    load, setup, size = choice.instance_load, choice.service.setup, choice.service.accelerators
    pools = None if choice.fleet is None else choice
    if pools is not None and pools.fleet is not None:
        rates = (load.requests_per_second, load.completed_per_second)
        requests, completed = (rate / pools.fleet.decode_instances for rate in rates)
        load, together = replace(load, requests_per_second=requests, completed_per_second=completed), 1
    else:
        bulk = float(setup.dollars_per_hour_in_bulk(size)) * (1.0 + 1e-9)
        together = next(count for count in range(1, 65) if float(setup.dollars_per_hour(count, size)) <= count * bulk)
    return [
        CapacityBlock(choice.service, load, together, way, price, pools)
        for way, price in prices_by_way(setup).items()
        if way in ways
    ]


def prices_by_way(setup: Setup) -> Mapping[Way, HourPrice]:
    """Hourly price by pricing model, from the setup and the chip's file, if possible of the setup's seller."""
    listed = setup.hour_price
    way = _WAY_OF.get(listed.kind, "on_demand")
    by_way: dict[Way, HourPrice] = {}
    for kind in WAYS:
        alike = f"{kind}:{listed.seller}"
        price = listed if kind == way else prices.of_kind(setup.hardware, alike) or prices.of_kind(setup.hardware, kind)
        if price is not None:
            by_way[kind] = price
    chip = setup.hardware
    if chip.purchase is not None and chip.watts is not None:
        by_way["owned"] = pricing.owned_price(chip)
    return by_way
