"""Simulation of a fleet over a day, in steps of one autoscaler poll: capacity, cost and SLO attainment."""

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

#: Metric of an autoscaler.
Policy = Literal["in_flight", "rate", "utilization"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
#: Seed of spot interruptions.
_SEED = 20260101
#: Grid of loads for interpolated concurrency, relative to the SLO capacity [1].
_PER_SHARE = 100
_SHARES = np.arange(3 * _PER_SHARE + 1) / _PER_SHARE
#: Autoscaler targets to try, highest first: shares of the SLO capacity [1].
TARGETS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4)


@dataclass(frozen=True, slots=True)
class SimulatedDay:
    """Result of a simulated day.

    Attributes
    ----------
    serving : ndarray, shape (lots, hours)
        Mean number of rental units (lots) that serve requests [1].
    gpu_hours, dollars : ndarray, shape (hours,)
        Rented GPU-hours [h] and cost [USD]; rental units that are starting are included.
    kept : ndarray, shape (hours,)
        Share of requests that arrive while the capacity is sufficient for the SLOs [1]; 1 for hours without requests.
    slo_met_share : float
        Value of ``kept`` over all requests of the day [1].
    most_accelerators : int
        Maximum number of accelerators rented at the same time [1].
    fewest, most : ndarray of int, shape (lots,)
        Minimum and maximum number of rental units at the same time [1].
    """

    serving: Array
    gpu_hours: Array
    dollars: Array
    kept: Array
    slo_met_share: float
    most_accelerators: int
    fewest: Array
    most: Array

    def of(self, places: Indices) -> SimulatedDay:
        """Copy with only the rental units at some places; the other units must be unused."""
        return replace(self, serving=self.serving[places], fewest=self.fewest[places], most=self.most[places])


def cheapest_first(lots: Sequence[CapacityBlock]) -> list[int]:
    """Order in which rental units are used: reserved units first, then by cost per request."""

    def rank(place: int) -> tuple[bool, float]:
        lot = lots[place]
        return not lot.stays, lot.dollars_per_hour / lot.carried

    return sorted(range(len(lots)), key=rank)


class RentedFleet:
    """Fleet whose rental units are added and removed; reserved units are rented all day.

    Parameters
    ----------
    lots : sequence of CapacityBlock
        Available rental units.
    reserved : sequence of int
        Number of rental units of each type that is always rented [1].
    stock : mapping of str to int
        Maximum number of accelerators at the same time, by chip [1].
    elasticity : Elasticity
        Start-up times.
    min_replicas : int
        Minimum number of replicas [1].
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
        # Autoscalers of several variants use the one with the lowest cost per request first.
        self._order = [index for index in cheapest_first(lots) if not lots[index].stays]

    def _of(self, values: Sequence[float]) -> float:
        """Sum of a value over all rental units that are reserved."""
        return sum(count * value for count, value in zip(self._reserved, values, strict=True))

    def wanted(self, requests_per_second: float) -> list[int]:
        """Rental units needed for a request rate within the SLOs: reserved ones, then the cheapest available ones."""
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
    """State of the fleet at an autoscaler poll.

    Attributes
    ----------
    second : float
        Time of day [s].
    arriving, served : float
        Arriving and served requests [1/s].
    promised : float
        SLO capacity of the serving rental units [1/s].
    in_flight, in_flight_at_target : float
        Running and queued requests, and their number at the target [1].
    """

    second: float
    arriving: float
    served: float
    promised: float
    in_flight: float
    in_flight_at_target: float


#: Function that returns the wanted number of each unit at a poll.
Decide = Callable[[Look], Sequence[int]]


def autoscaler(policy: Policy, target: float, fleet: RentedFleet, most: float = math.inf) -> Decide:
    """Kubernetes horizontal pod autoscaler, or KEDA, which provides its request metrics.

    Parameters
    ----------
    policy : {'in_flight', 'rate', 'utilization'}
        Metric: running and queued requests per replica, arriving requests per second and replica, or utilization, which
        is at most 1.
    target : float
        Target of the metric, as a share of the SLO capacity [1].
    fleet : RentedFleet
        Fleet to scale.
    most : float
        Maximum capacity that the autoscaler orders [1/s].

    Notes
    -----
    Desired capacity = current capacity * metric / target. Changes within the tolerance are ignored. Scaling down uses
    the largest desired capacity within the stabilization window (Kubernetes, "Algorithm details").
    """
    elasticity = fleet.elasticity
    looks = max(1, round(elasticity.scale_down_seconds / elasticity.polling_seconds))
    recent: deque[float] = deque(maxlen=looks)

    def decide(look: Look) -> Sequence[int]:
        now = look.in_flight if policy == "in_flight" else look.arriving if policy == "rate" else look.served
        at_target = look.in_flight_at_target if policy == "in_flight" else target * look.promised
        # Without serving replicas, no metric per replica exists, so the arrival rate is used.
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
) -> SimulatedDay:
    """Simulate a day.

    Parameters
    ----------
    rates : callable
        Request rate at times of the day [s], shape (n,) [1/s].
    hours : int
        Length of the day [h].
    fleet : RentedFleet
        Fleet.
    decide : callable
        Autoscaler.
    start : sequence of int
        Number of rental units of each type that serve requests at the start [1].
    target : float
        Target of the autoscaler as a share of the SLO capacity [1].
    foreseen : bool
        True if rental units are ordered early enough to be ready when they are needed.
    longest_wait : float
        Maximum queueing time within the SLOs [s].

    Returns
    -------
    SimulatedDay
        Simulated day. Requests are treated as a continuous flow: arrivals are shared in proportion to capacity, and the
        excess queues. Between two polls, either all requests meet the SLOs or none do. Latencies are those of the
        steady load.
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
    # Units that are starting: ready time, type and number.
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
            # Units that become ready start to serve while the old ones still serve.
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
    return SimulatedDay(serving, chips @ rented, bill @ rented, shares, whole, chips_at_once, least, most)


def _taken_back(
    orders: Sequence[tuple[int, int, int]], index: int, count: int
) -> tuple[list[tuple[int, int, int]], int]:
    """Cancel rental units of a type that are starting, the latest first. Return the remaining orders and excess."""
    left: list[tuple[int, int, int]] = []
    for ready, which, ordered in reversed(orders):
        back = min(count, ordered) if which == index else 0
        count -= back
        if ordered > back:
            left.append((ready, which, ordered - back))
    return left[::-1], count
