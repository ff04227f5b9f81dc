"""Parts of a fleet: replicas of a layout on a chip, rented together and paid for in one way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.candidates import Candidate
from inference_econ.answers.most_traffic import most_of_one
from inference_econ.answers.promises import Targets
from inference_econ.answers.recommend import as_candidates
from inference_econ.answers.service_record import bounded_load, service_record
from inference_econ.answers.together import cheapest
from inference_econ.engine import Setup, pricing
from inference_econ.errors import NothingFitsError
from inference_econ.formulas import queueing
from inference_econ.inputs import HourPrice, prices
from inference_econ.serving import Loaded, Service, Services, loaded

#: How a machine is paid for: at all hours, by the hour, by the hour until somebody else wants it, or once.
Way = Literal["reserved", "on_demand", "spot", "owned"]
EVERY_WAY: tuple[Way, ...] = get_args(Way)
#: Ways to rent one.
WAYS: tuple[Way, ...] = EVERY_WAY[:3]
#: Ways of the kinds of prices; others are by the hour.
_WAY_OF: Mapping[str, Way] = {"reserved": "reserved", "tco": "reserved", "spot": "spot", prices.OWNED: "owned"}
#: Loads of an instance between which its requests in flight are interpolated, over the largest that keeps promises [1].
_LOADS = np.array([0.02, 0.1, 0.25, 0.5, 0.75, 1.0])


@dataclass(frozen=True, slots=True)
class Lot:
    """Replicas that are rented together, as few as fill their machines.

    Attributes
    ----------
    service : Service
        One replica.
    load : Loaded
        Of one replica: the largest that keeps the promises.
    replicas : int
        In a lot [1].
    way : str
        How it is paid for, of :data:`EVERY_WAY`.
    price : HourPrice
        Of one accelerator.
    """

    service: Service
    load: Loaded
    replicas: int
    way: Way
    price: HourPrice

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
        return int(self.setup.rented(self.replicas, self.service.accelerators))

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
        """What a day consists of, in words."""
        return "requests/s"

    @property
    def carried(self) -> float:
        """Most of what a day consists of that a lot carries within the promises: requests per second [1/s]."""
        return self.requests_per_second

    @property
    def most_carried(self) -> float:
        """The same that a lot does, late or not."""
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

    def record(self, targets: Targets) -> dict[str, Any]:
        """Return it under its load as plain data, with what is promised among its latencies."""
        return {
            **service_record(self.service, self.replicas, self.load),
            **bounded_load(self.service, self.load, self.replicas, targets),
            "paid": self.way,
            "dollars_per_accelerator_hour": self.price.dollars,
            "dollars_per_hour": self.dollars_per_hour,
        }


def lots(
    offers: Sequence[Candidate | Services],
    requests_per_second: float,
    targets: Targets,
    *,
    arrival_scv: float = 1.0,
    ways: Collection[Way] = WAYS,
    note: Callable[[str], None] = lambda _: None,
) -> tuple[Lot, ...]:
    """The instances of each chip whose fleet is the cheapest at a rate, in every way that they can be paid for.

    Parameters
    ----------
    offers : sequence of Candidate or Services
        What competes (:func:`inference_econ.answers.market.market`); of pools nothing is taken.
    requests_per_second : float
        The largest traffic of the day [1/s].
    targets : Targets
        What is promised.
    arrival_scv : float
        See :func:`inference_econ.serving.load.loaded` [1].
    ways : collection of str
        How machines may be paid for. The price of a setup is that of its kind; of other kinds the chip's file lists.
    note : callable
        Told of each chip that nothing keeps the promises on, and of those that may be owned at no known price.

    Returns
    -------
    tuple of Lot
        Layouts and loads are those of :func:`inference_econ.answers.recommend.recommend` and
        :func:`inference_econ.answers.most_traffic.most_traffic`: there is one capacity of a replica.

    Raises
    ------
    NothingFitsError
        If nothing keeps the promises on any chip, or no chip has a price of the ways.
    """
    by_chip: dict[str, list[Services]] = {}
    for candidate in as_candidates(offers):
        if candidate.pools is None:
            by_chip.setdefault(candidate.setup.hardware.name, []).append(candidate.services)
    every_lot: list[Lot] = []
    failures: list[NothingFitsError] = []
    for chip, layouts in by_chip.items():
        try:
            best = cheapest(layouts, requests_per_second, targets, arrival_scv=arrival_scv, most=1, play=False)[0]
        except NothingFitsError as error:
            failures.append(error)
            note(f"{chip}: {error}")
            continue
        scv = float(queueing.split_scv(arrival_scv, best.replicas))
        every_lot += _of_service(best.service, targets, scv, ways)
    if not every_lot:
        raise failures[0] if failures else no_price(ways)
    rented = dict.fromkeys(lot.chip for lot in every_lot if "owned" in ways)
    unpriced = [chip for chip in rented if not any(lot.chip == chip and lot.way == "owned" for lot in every_lot)]
    if unpriced:
        note(
            f"owned {', '.join(unpriced)}, of which no price of a purchase is listed: "
            "'inference-econ hour-cost HARDWARE --purchase USD' says what an hour costs, which --price takes"
        )
    return tuple(every_lot)


def no_price(ways: Collection[Way]) -> NothingFitsError:
    """The error where chips are paid for in none of the ways."""
    return NothingFitsError(
        f"no chip has a price that is {' or '.join(ways)}: allow another way to pay"
        + ("" if set(ways) == {"owned"} else ", or give --price")
    )


def _of_service(service: Service, targets: Targets, arrival_scv: float, ways: Collection[Way]) -> list[Lot]:
    """A replica in every way that its chip can be paid for."""
    most = most_of_one(service, targets, arrival_scv)
    return [] if most is None else lots_of(service, most.load, ways)


def lots_of(service: Service, load: Loaded, ways: Collection[Way]) -> list[Lot]:
    """A replica under the largest load that keeps the promises, in every way that its chip can be paid for."""
    setup, size = service.setup, service.accelerators
    bulk = float(setup.dollars_per_hour_in_bulk(size))
    together = next(
        number for number in range(1, 65) if float(setup.dollars_per_hour(number, size)) <= number * bulk * (1.0 + 1e-9)
    )
    return [Lot(service, load, together, way, price) for way, price in prices_by_way(setup).items() if way in ways]


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
