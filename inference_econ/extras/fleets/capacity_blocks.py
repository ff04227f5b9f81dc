"""Parts of a fleet: replicas of a layout on a chip, rented together and paid for in one way."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.deployments.deployment import Deployment
from inference_econ.answers.deployments.most_traffic import most_of_one
from inference_econ.answers.deployments.recommend import natural_rate, recommend
from inference_econ.answers.deployments.service_record import bounded_load, service_record
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.disaggregated.load import rented
from inference_econ.answers.slo import Targets
from inference_econ.engine import Setup, pricing
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import queueing
from inference_econ.inputs import HourPrice, prices
from inference_econ.serving import Loaded, Service, loaded

#: How a machine is paid for: at all hours, by the hour, by the hour until somebody else wants it, or once.
Way = Literal["reserved", "on_demand", "spot", "owned"]
EVERY_WAY: tuple[Way, ...] = get_args(Way)
#: Ways to rent one.
WAYS: tuple[Way, ...] = EVERY_WAY[:3]
#: Ways of the kinds of prices; others are by the hour.
_WAY_OF: Mapping[str, Way] = {"reserved": "reserved", "tco": "reserved", "spot": "spot", prices.OWNED: "owned"}
#: Loads of an instance between which its requests in flight are interpolated, over the largest that keeps promises [1].
_LOADS = np.array([0.02, 0.1, 0.25, 0.5, 0.75, 1.0])

#: Traffic for which whole numbers of instances matter little, over what fills an instance or a group of pools [1].
_MANY = 10.0


@dataclass(frozen=True, slots=True)
class CapacityBlock:
    """Replicas that are rented together, as few as fill their machines; of pools one that decodes, and those that read.

    Attributes
    ----------
    service : Service
        One replica; of pools an instance that decodes.
    load : Loaded
        Of one replica: the largest that keeps the promises.
    replicas : int
        In a lot [1].
    way : str
        How it is paid for, of :data:`EVERY_WAY`.
    price : HourPrice
        Of one accelerator.
    pools : Deployment or None
        The whole of pools that prefill and decode apart.
    """

    service: Service
    load: Loaded
    replicas: int
    way: Way
    price: HourPrice
    pools: Deployment | None = None

    @property
    def setup(self) -> Setup:
        """Model, chip and formats."""
        return self.service.setup

    @property
    def stays(self) -> bool:
        """Whether it is paid for at all hours."""
        return self.way in ("reserved", "owned")

    @property
    def chip(self) -> str:
        """The name of its accelerators."""
        return self.setup.hardware.name

    @property
    def accelerators(self) -> int:
        """Rented for a lot [1]."""
        return self.rented(1)

    @property
    def dollars_per_hour(self) -> float:
        """Of a lot [USD/h]."""
        return self.accelerators * self.price.dollars

    @property
    def requests_per_second(self) -> float:
        """Most that a lot serves within the promises [1/s]."""
        return self.replicas * self.load.requests_per_second

    @property
    def most_requests_per_second(self) -> float:
        """Most that a lot completes, late or not [1/s]."""
        return self.replicas * self.service.most_requests_per_second

    @property
    def counted(self) -> str:
        """Unit that a day consists of, in words."""
        return "requests/s"

    @property
    def carried(self) -> float:
        """Most of what a day consists of that a lot carries within the promises: requests per second [1/s]."""
        return self.requests_per_second

    @property
    def most_carried(self) -> float:
        """Most of what a day consists of that a lot carries, late or not: requests per second [1/s]."""
        return self.most_requests_per_second

    def in_flight(self, shares: Array) -> Array:
        """Requests in flight in a lot at shares of what it serves within the promises, up to its slots, shape (n,) [1].

        Between some loads by interpolation.
        """
        rates = (_LOADS[:-1] * self.load.requests_per_second).tolist()
        states = [loaded(self.service, rate, arrivals=self.load.arrivals).in_flight for rate in rates]
        full = max(self.most_requests_per_second / self.requests_per_second, 1.0 + 1e-9)
        slots = max(self.service.slots, self.load.in_flight)
        return self.replicas * np.interp(shares, (0.0, *_LOADS, full), (0.0, *states, self.load.in_flight, slots))

    @property
    def parts(self) -> int:
        """Lots that carry as much as the whole of the pools [1]; one where there are none."""
        return 1 if self.pools is None or self.pools.fleet is None else self.pools.fleet.decode_instances

    def rented(self, lots: int) -> int:
        """Chips of some lots [1]; of pools with as many instances that read as their part of the whole needs."""
        if self.pools is None or self.pools.fleet is None:
            return lots * int(self.setup.rented(self.replicas, self.service.accelerators))
        fleet = self.pools.fleet
        readers = -(-lots * fleet.prefill_instances // fleet.decode_instances)
        return sum(rented(fleet.pools, (fleet.prefill, fleet.decode), (readers, lots)))

    def fleet(self, carried: float) -> tuple[int, float]:
        """Chips of as many lots as some of what a day consists of needs [1], and how much these carry."""
        lots = max(math.ceil(carried / self.carried - 1e-9), 1)
        return self.rented(lots), lots * self.carried

    def record(self, targets: Targets) -> dict[str, Any]:
        """Return it under its load as plain data, with what is promised among its latencies; of pools all of them."""
        paid = {"paid": self.way, "dollars_per_accelerator_hour": self.price.dollars}
        if self.pools is None:
            served = service_record(self.service, self.replicas, self.load)
            bounded = bounded_load(self.service, self.load, self.replicas, targets)
            return {**served, **bounded, **paid, "dollars_per_hour": self.dollars_per_hour}
        apart = self.pools.served_record(targets)
        # What tokens cost at the price of the setup: lots may be paid for in other ways.
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
    """The instances of the best fleet of each chip, in every way that they can be paid for.

    Parameters
    ----------
    best : mapping of str to Deployment
        The best fleet of each chip (:func:`best_of_chips`).
    targets : Targets
        What is promised.
    arrival_scv : float
        See :func:`inference_econ.serving.load.loaded` [1].
    ways : collection of str
        How machines may be paid for. The price of a setup is that of its kind; of other kinds the chip's file lists.
    note : callable
        Told of chips that may be owned at no known price.

    Returns
    -------
    tuple of Lot
        Layouts and loads are those of :func:`inference_econ.answers.deployments.recommend.recommend` and
        :func:`inference_econ.answers.deployments.most_traffic.most_traffic`: there is one capacity of a replica.

    Raises
    ------
    NothingFitsError
        If no chip has a price of the ways.
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
    rented = dict.fromkeys(lot.chip for lot in every_lot if "owned" in ways)
    unpriced = [chip for chip in rented if not any(lot.chip == chip and lot.way == "owned" for lot in every_lot)]
    if unpriced:
        note(
            f"owned {', '.join(unpriced)}, of which no price of a purchase is listed: "
            "'inference-econ gpu-cost HARDWARE --purchase USD' says what an hour costs, which --price takes"
        )
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
    """The first of ``recommend`` by name of the chip, for each of them alone.

    Parameters
    ----------
    candidates, targets, arrival_scv, play
        See there.
    requests_per_second : float or None
        The whole traffic [1/s]; None for so much that whole numbers of instances of each chip matter little.
    note : callable, optional
        Told of each chip that nothing keeps the promises on; by default its error is raised.

    Raises
    ------
    InputError, NothingFitsError
        The error of the first chip that nothing keeps the promises on, if that is so of all or nobody is told.
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
    """The error where chips are paid for in none of the ways."""
    return NothingFitsError(
        f"no chip has a price that is {' or '.join(ways)}: allow another way to pay"
        + ("" if set(ways) == {"owned"} else ", or give --price")
    )


def lots_of(choice: Deployment, ways: Collection[Way]) -> list[CapacityBlock]:
    """A replica of a fleet, or of pools an instance that decodes, in every way that its chip can be paid for.

    Replicas are rented with others as long as that is cheaper.
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
    """The price of a setup by how it is paid for, and what the chip's file lists of other ways, of its seller first."""
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
        # Its idle hours are counted: whoever plans how many there are says when they have nothing to do.
        by_way["owned"] = pricing.owned_price(chip, utilisation=1.0)
    return by_way
