"""A day of a fleet, played look by look of its autoscaler: what is there, what it costs, and who is kept waiting."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from inference_econ._types import Array, Indices
from inference_econ.extras.fleets.capacity_blocks import CapacityBlock
from inference_econ.inputs import Elasticity

#: What an autoscaler looks at.
Policy = Literal["in_flight", "rate", "utilization"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
#: Of the interruptions of spot machines.
_SEED = 20260101
#: Loads at which requests in flight are known, over the largest that keeps promises [1].
_PER_SHARE = 100
_SHARES = np.arange(3 * _PER_SHARE + 1) / _PER_SHARE
#: Targets that are tried, the fullest first: shares of what replicas serve within the promises [1].
TARGETS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4)


@dataclass(frozen=True, slots=True)
class Played:
    """A day of a fleet.

    Attributes
    ----------
    serving : ndarray, shape (lots, hours)
        Lots that serve, on average [1].
    gpu_hours, dollars : ndarray, shape (hours,)
        Of all that is rented, starting or not [h, USD].
    kept : ndarray, shape (hours,)
        Share of the requests that come while the fleet can keep the promises; 1 where nobody comes [1].
    slo_met_share : float
        The same of all requests of the day [1].
    most_accelerators : int
        Rented at once [1].
    fewest, most : ndarray of int, shape (lots,)
        Lots at once [1].
    """

    serving: Array
    gpu_hours: Array
    dollars: Array
    kept: Array
    slo_met_share: float
    most_accelerators: int
    fewest: Array
    most: Array

    def of(self, places: Indices) -> Played:
        """Played day without other lots, of which there are none."""
        return replace(self, serving=self.serving[places], fewest=self.fewest[places], most=self.most[places])


def cheapest_first(lots: Sequence[CapacityBlock]) -> list[int]:
    """The places of lots in the order in which they are taken: reserved ones, then by dollars per request."""

    def rank(place: int) -> tuple[bool, float]:
        lot = lots[place]
        return not lot.stays, lot.dollars_per_hour / lot.carried

    return sorted(range(len(lots)), key=rank)


class RentedFleet:
    """Lots that come and go; reserved ones are there all day.

    Parameters
    ----------
    lots : sequence of Lot
        What there is.
    reserved : sequence of int
        How many of each are there whatever happens [1].
    stock : mapping of str to int
        Accelerators at once by chip [1].
    elasticity : Elasticity
        How quickly they start.
    min_replicas : int
        Replicas at least [1].
    """

    def __init__(
        self,
        lots: Sequence[CapacityBlock],
        reserved: Sequence[int],
        stock: Mapping[str, int],
        elasticity: Elasticity,
        min_replicas: int,
    ) -> None:
        self.lots, self.elasticity = lots, elasticity
        self._served = [lot.carried for lot in lots]
        self._chips, self._replicas = [lot.accelerators for lot in lots], [lot.replicas for lot in lots]
        self._reserved = [int(count) for count in reserved]
        self._capacity, self._missing = self._of(self._served), min_replicas - self._of(self._replicas)
        self._room = {lot.chip: stock.get(lot.chip, 10**9) for lot in lots}
        for lot, chips, count in zip(lots, self._chips, self._reserved, strict=True):
            self._room[lot.chip] -= count * chips
        # As autoscalers of several variants do: the cheapest request first.
        self._order = [index for index in cheapest_first(lots) if not lots[index].stays]

    def _of(self, values: Sequence[float]) -> float:
        """Of all reserved lots."""
        return sum(count * value for count, value in zip(self._reserved, values, strict=True))

    def wanted(self, requests_per_second: float) -> list[int]:
        """Lots for so much traffic within the promises: reserved ones, then the cheapest of which there are some."""
        counts, room = list(self._reserved), dict(self._room)
        missing, replicas = requests_per_second - self._capacity, self._missing
        spot = self.elasticity.spot_share * requests_per_second
        for index in self._order:
            served, chip = self._served[index], self.lots[index].chip
            count = max(math.ceil(missing / served - 1e-9), math.ceil(replicas / self._replicas[index]))
            if self.lots[index].way == "spot":
                count = min(count, int(spot / served + 1e-9))
            count = max(min(count, room[chip] // self._chips[index]), 0)
            if self.lots[index].way == "spot":
                spot -= count * served
            counts[index] = count
            room[chip] -= count * self._chips[index]
            missing -= count * served
            replicas -= count * self._replicas[index]
        return counts


@dataclass(frozen=True, slots=True)
class Look:
    """State of the fleet that an autoscaler sees.

    Attributes
    ----------
    second : float
        Of the day [s].
    arriving, served : float
        Requests per second that come, and that lots work on [1/s].
    promised : float
        What serving lots do within the promises [1/s].
    in_flight, in_flight_at_target : float
        Requests in flight and waiting, and those of the same lots at the target [1].
    """

    second: float
    arriving: float
    served: float
    promised: float
    in_flight: float
    in_flight_at_target: float


#: Wanted numbers of lots after a look.
Decide = Callable[[Look], Sequence[int]]


def autoscaler(policy: Policy, target: float, fleet: RentedFleet, most: float = math.inf) -> Decide:
    """The horizontal autoscaler of Kubernetes, or of KEDA, which hands it metrics of requests.

    Parameters
    ----------
    policy : {'in_flight', 'rate', 'utilization'}
        What it holds at its target: requests in flight and waiting per replica; requests that come per second and
        replica; or how busy replicas are, which is never more than all of the time.
    target : float
        Share of what a replica serves within the promises at which that is [1].
    fleet : Fleet
        What it orders from.
    most : float
        It orders for so much traffic at most [1/s].

    Notes
    -----
    It wants what there is, times the metric over its target; it does nothing while that is within the tolerance, and
    takes the most that it wanted within the time of scaling down: Kubernetes, "Algorithm details".
    """
    elasticity = fleet.elasticity
    looks = max(1, round(elasticity.scale_down_seconds / elasticity.polling_seconds))
    recent: deque[float] = deque(maxlen=looks)

    def decide(look: Look) -> Sequence[int]:
        now = look.in_flight if policy == "in_flight" else look.arriving if policy == "rate" else look.served
        at_target = look.in_flight_at_target if policy == "in_flight" else target * look.promised
        # Where nothing serves there is no metric per replica: as much as comes.
        ratio = now / at_target if at_target else 1.0
        capacity = look.promised * ratio if at_target else look.arriving / target
        recent.append(recent[-1] if recent and at_target and abs(ratio - 1.0) <= elasticity.tolerance else capacity)
        return fleet.wanted(min(max(recent), most))

    return decide


def play(
    rates: Callable[[Array], Array],
    hours: int,
    fleet: RentedFleet,
    decide: Decide,
    start: Sequence[int],
    *,
    target: float = 1.0,
    foreseen: bool = False,
    longest_wait: float = math.inf,
) -> Played:
    """Play a day.

    Parameters
    ----------
    rates : callable
        Requests per second at some times of the day [s], shape (n,) [1/s].
    hours : int
        Of the day [1].
    fleet : Fleet
        What there is.
    decide : callable
        How many lots are wanted.
    start : sequence of int
        Lots that serve when the day begins [1].
    target : float
        Share of what replicas serve within the promises that the autoscaler holds them at [1].
    foreseen : bool
        Lots are ordered so early that they serve when they are wanted.
    longest_wait : float
        A queue in which nobody waits longer breaks no promise [s].

    Returns
    -------
    Played
        The fluid limit of many requests: what comes is shared in proportion to what lots serve, what is too much waits.
        Within a look, lots serve within the promises or they do not; what users see then is that of their steady load.
    """
    elasticity, lots = fleet.elasticity, fleet.lots
    steps = math.ceil(3600.0 / elasticity.polling_seconds)
    step = 3600.0 / steps
    arriving = rates(np.asarray((np.arange(hours * steps) + 0.5) * step, dtype=float))
    served, full, chips, bill = (
        np.array([getattr(lot, name) for lot in lots])
        for name in ("carried", "most_carried", "accelerators", "dollars_per_hour")
    )
    flying = np.array([lot.in_flight(_SHARES) for lot in lots])
    at_target = np.array([float(lot.in_flight(np.array([target]))[0]) for lot in lots])
    interrupted = -math.expm1(-elasticity.interruptions_per_hour * step / 3600.0)
    draws, spots = np.random.default_rng(_SEED), [index for index, lot in enumerate(lots) if lot.way == "spot"]
    up, behind, backlog = np.array(start), math.ceil(elasticity.startup_seconds / step), 0.0
    # Lots that start: when they serve, which, and how many.
    orders: list[tuple[int, int, int]] = []
    serving, rented = np.zeros((2, len(lots), hours))
    kept, came = np.zeros((2, hours))
    least, most, chips_at_once = np.array(start), np.array(start), 0
    for number, rate in enumerate(arriving):
        hour = number // steps
        for _, index, count in (order for order in orders if order[0] <= number):
            up[index] += count
        orders = [order for order in orders if order[0] > number]
        promised, able = float(up @ served), float(up @ full)
        work = min(rate + backlog / step, able)
        place = min(round(work / promised * _PER_SHARE), _SHARES.size - 1) if promised else 0
        in_flight = float(up @ flying[:, place]) + backlog
        look = Look(number * step, rate, work, promised, in_flight, float(up @ at_target))
        missing = np.array(decide(look)) - up
        for _, index, count in orders:
            missing[index] -= count
        if foreseen:
            # What is about to serve starts beside what still serves.
            chips_at_once = max(chips_at_once, int((up + np.maximum(missing, 0)) @ chips))
        for index in np.flatnonzero(missing).tolist():
            count = int(missing[index])
            if count < 0:
                orders, left = _taken_back(orders, index, -count)
                up[index] -= left
            elif foreseen:
                up[index] += count
                rented[index, hour - 1] += count * behind / steps
            else:
                orders.append((number + behind, index, count))
        for index in spots:
            lost = int(draws.binomial(up[index], interrupted))
            if lost:
                up[index] -= lost
                orders.append((number + behind, index, lost))
        there = up.copy()
        for _, index, count in orders:
            there[index] += count
        promised, able = float(up @ served), float(up @ full)
        waits = backlog > longest_wait * able
        kept[hour] += rate * (rate <= promised * (1.0 + 1e-9) and not waits)
        came[hour] += rate
        backlog = max(backlog + (rate - able) * step, 0.0)
        serving[:, hour] += up / steps
        rented[:, hour] += there / steps
        least, most = np.minimum(least, there), np.maximum(most, there)
        chips_at_once = max(chips_at_once, int(there @ chips))
    shares = np.divide(kept, came, out=np.ones(hours), where=came > 0.0)
    whole = float(kept.sum() / came.sum())
    return Played(serving, chips @ rented, bill @ rented, shares, whole, chips_at_once, least, most)


def _taken_back(
    orders: Sequence[tuple[int, int, int]], index: int, count: int
) -> tuple[list[tuple[int, int, int]], int]:
    """Orders without some lots of a kind, the last ones first; and how many lots are still too many."""
    left: list[tuple[int, int, int]] = []
    for ready, which, ordered in reversed(orders):
        back = min(count, ordered) if which == index else 0
        count -= back
        if ordered > back:
            left.append((ready, which, ordered - back))
    return left[::-1], count
