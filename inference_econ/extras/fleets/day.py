"""Plan of a fleet for a day: the cheapest chips and contracts by an integer program, and a simulated autoscaler."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np

from inference_econ._answer import Shown
from inference_econ._types import Array, Indices, Progress
from inference_econ.answers.deployments.default_slo import UsualSpeed, with_default_slo
from inference_econ.answers.deployments.deployment import Deployment
from inference_econ.answers.deployments.recommend import as_candidates, fleets
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.disaggregated.load import DisaggregationTerms, PooledFleet
from inference_econ.answers.disaggregated.size_pools import smallest
from inference_econ.answers.simplest import SIMPLER
from inference_econ.answers.slo import Targets
from inference_econ.engine import Setup
from inference_econ.errors import InputError, NothingFitsError, TooMuchError
from inference_econ.extras.fleets.capacity_blocks import (
    EVERY_WAY,
    WAYS,
    CapacityBlock,
    Way,
    best_of_chips,
    lots,
    lots_of,
)
from inference_econ.formulas import money
from inference_econ.inputs import Arrivals, Elasticity, catalog
from inference_econ.serving import Services

#: Metric of an autoscaler.
Policy = Literal["in_flight", "rate", "utilization"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
#: Seed of spot interruptions.
_SEED = 20260101
#: Grid points per SLO capacity. Concurrency is computed for loads from zero to three times the SLO capacity [1].
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
        """Copy with only the types of rental units at the given indices; all other types must be unused."""
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
        # Autoscalers of several variants use the variant with the lowest cost per request first.
        self._order = [index for index in cheapest_first(lots) if not lots[index].stays]

    def _of(self, values: Sequence[float]) -> float:
        """Sum of a value per rental unit over all reserved units."""
        return sum(count * value for count, value in zip(self._reserved, values, strict=True))

    def wanted(self, requests_per_second: float) -> list[int]:
        """Rental units needed for a request rate within the SLOs: reserved units, then the cheapest available units."""
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
        Rates of arriving and of served requests [1/s].
    promised : float
        SLO capacity of the serving rental units [1/s].
    in_flight, in_flight_at_target : float
        Number of running and queued requests, and its target value for the autoscaler [1].
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
    """Simulate a fleet over a day, in steps of one autoscaler poll.

    Parameters
    ----------
    rates : callable
        Request rate at times of the day [s], shape (n,) [1/s].
    hours : int
        Length of the day [h].
    fleet : RentedFleet
        Simulated fleet.
    decide : callable
        Autoscaler: function that returns the wanted rental units at a poll.
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
        excess queues. Between two polls, either all requests meet the SLOs or none do. Latencies are those of a steady
        load.
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
    """Cancel ``count`` starting rental units of a type, latest first. Return the other orders and the excess count."""
    left: list[tuple[int, int, int]] = []
    for ready, which, ordered in reversed(orders):
        back = min(count, ordered) if which == index else 0
        count -= back
        if ordered > back:
            left.append((ready, which, ordered - back))
    return left[::-1], count


#: Relative optimality gap [1].
_GAP = 5e-3
#: Time limit of the solver [s].
_SECONDS = 6.0
#: Solver status after a timeout without a solution.
_OUT_OF_TIME = 1


class Plan(NamedTuple):
    """Planned numbers of rental units in every hour."""

    counts: Array
    """Number of rental units of each type in each hour, shape (lots, hours) [1]."""
    dollars: float
    """Cost of the day, including start-ups [USD]."""
    bound: float
    """Lower bound on the cost of any plan [USD]."""

    @property
    def gap(self) -> float:
        """Relative gap between the cost of the plan and its lower bound, at least the gap that ends the search [1]."""
        return max(1.0 - self.bound / self.dollars, _GAP) if self.dollars else 0.0


def spot_share_up(lot: CapacityBlock, elasticity: Elasticity) -> float:
    """Share of time in which a rental unit serves, given interruptions and restarts of spot machines [1]."""
    if lot.way != "spot":
        return 1.0
    return 1.0 / (1.0 + elasticity.interruptions_per_hour * elasticity.startup_seconds / 3600.0)


def plan(
    lots: Sequence[CapacityBlock],
    needed: Sequence[float],
    elasticity: Elasticity,
    *,
    stock: Mapping[str, int],
    min_replicas: int = 1,
    constant: bool = False,
) -> Plan:
    """Find the cheapest numbers of rental units that serve every hour within the SLOs.

    Parameters
    ----------
    lots : sequence of CapacityBlock
        Available rental units.
    needed : sequence of float
        Largest load of each hour [1/s]; the day repeats.
    elasticity : Elasticity
        Startup time, which is paid; availability of spot rental units; and maximum share of spot units in the capacity.
    stock : mapping of str to int
        Maximum number of accelerators at the same time, by chip; unlimited if missing [1].
    min_replicas : int
        Minimum number of replicas in every hour [1].
    constant : bool
        True for equal numbers of rental units in every hour.

    Returns
    -------
    Plan
        Plan with its lower bound.

    Raises
    ------
    InputError
        If the solver finds no solution in time.
    NothingFitsError
        If too few GPUs are available; the message contains the capacity of the available GPUs.

    Notes
    -----
    For types i of rental units and hours h, minimize sum_ih c_i (x_ih + T s_ih). A type has x_ih units, each with the
    hourly cost c_i and the capacity q_i. The start-ups are s_ih >= x_ih - x_i,h-1, and T is the start-up time [h].
    Reserved types have equal x_ih in all hours. The constraint is sum_i q_i x_ih >= needed_h.

    The problem equals the unit commitment problem of power plants (Padhy, 2004), solved by HiGHS.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    serving = [lot.carried * spot_share_up(lot, elasticity) for lot in lots]
    taken = [index for index in range(len(lots)) if not _is_dominated(index, lots, serving, stock)]
    hours = 1 if constant else len(needed)
    demand = np.array([max(needed)] if constant else needed)
    # One variable per reserved unit, or per other unit and hour, followed by the startups of the other units.
    columns, starts, count = dict[tuple[int, int], int](), dict[tuple[int, int], int](), 0
    for index in taken:
        stays = lots[index].stays
        columns |= {(index, hour): count + (0 if stays else hour) for hour in range(hours)}
        count += 1 if stays else hours
    if hours > 1:
        moving = [key for key in columns if not lots[key[0]].stays]
        starts = {key: count + number for number, key in enumerate(moving)}
    size = count + len(starts)
    bill = np.zeros(size)
    for (index, hour), column in columns.items():
        bill[column] += lots[index].dollars_per_hour
        if (index, hour) in starts:
            bill[starts[index, hour]] = lots[index].dollars_per_hour * elasticity.startup_seconds / 3600.0
    rows: list[dict[int, float]] = []
    least: list[float] = []
    for hour in range(hours):
        at = {index: columns[index, hour] for index in taken}
        rows.append({at[index]: serving[index] for index in at})
        least.append(demand[hour])
        rows.append({at[index]: float(lots[index].replicas) for index in at})
        least.append(float(min_replicas))
        rows.append({at[index]: serving[index] * (elasticity.spot_share - (lots[index].way == "spot")) for index in at})
        least.append(0.0)
        for chip, chips in stock.items():
            rows.append({at[index]: -float(lots[index].accelerators) for index in taken if lots[index].chip == chip})
            least.append(-float(chips))
    for (index, hour), column in starts.items():
        rows.append({column: 1.0, columns[index, hour]: -1.0, columns[index, (hour - 1) % hours]: 1.0})
        least.append(0.0)
    entries = [(number, column, value) for number, row in enumerate(rows) for column, value in row.items()]
    where, which, values = zip(*entries, strict=True)
    # HiGHS in SciPy 1.13 accepts only 32-bit integers.
    places = np.array(where, np.int32), np.array(which, np.int32)
    matrix = coo_array((values, places), shape=(len(rows), size)).tocsr()
    # No hour needs more units of a type than the number that serves the whole load of the busiest hour.
    upper = np.full(size, np.inf)
    for (index, hour), column in columns.items():
        lot, busiest = lots[index], max(demand) if lots[index].stays else demand[hour]
        most = max(math.ceil(busiest / serving[index]), math.ceil(min_replicas / lot.replicas))
        upper[column] = min(most, stock.get(lot.chip, math.inf) // lot.accelerators)
    solved = milp(
        bill,
        integrality=(np.arange(size) < count).astype(int),
        bounds=Bounds(0.0, upper),
        constraints=LinearConstraint(matrix, np.array(least)),
        options={"time_limit": _SECONDS, "mip_rel_gap": _GAP},
    )
    if solved.x is None and solved.status == _OUT_OF_TIME:
        raise InputError(f"no plan was found in {_SECONDS:g} s; name fewer chips or hours", option="rates")
    if solved.x is None:
        raise NothingFitsError(_too_few(lots, serving, float(max(demand)), stock, elasticity, min_replicas))
    counts = np.zeros((len(lots), hours), dtype=int)
    for key, column in columns.items():
        counts[key] = round(solved.x[column])
    whole = len(needed) if constant else 1
    return Plan(np.repeat(counts, whole, axis=1), float(solved.fun) * whole, float(solved.mip_dual_bound) * whole)


def _is_dominated(
    index: int, lots: Sequence[CapacityBlock], serving: Sequence[float], stock: Mapping[str, int]
) -> bool:
    """Check whether an unlimited rental unit in the same pricing model serves the same load at a lower cost."""
    lot, served = lots[index], serving[index]
    return any(
        other.way == lot.way
        and other.chip not in stock
        and other.replicas >= lot.replicas
        and (other.dollars_per_hour, -serving[place], place) < (lot.dollars_per_hour, -served, index)
        and serving[place] >= served
        for place, other in enumerate(lots)
    )


def _too_few(
    lots: Sequence[CapacityBlock],
    serving: Sequence[float],
    demand: float,
    stock: Mapping[str, int],
    elasticity: Elasticity,
    min_replicas: int,
) -> str:
    """Reason why the constraints cannot be met, with advice."""
    if all(lot.way == "spot" for lot in lots) and elasticity.spot_share < 1.0:
        return (
            f"only spot machines are allowed, and at most {100 * elasticity.spot_share:g} % of the capacity may be "
            "spot: allow another way to pay (--pricing), or --spot-share 1"
        )
    carried, replicas = 0.0, 0
    for chip, chips in stock.items():
        lacking = [
            (chips // lot.accelerators, lot, served)
            for lot, served in zip(lots, serving, strict=True)
            if lot.chip == chip
        ]
        carried += max((count * served for count, _, served in lacking), default=0.0)
        replicas += max((count * lot.replicas for count, lot, _ in lacking), default=0)
    listed = ", ".join(f"{chips} {chip}" for chip, chips in stock.items())
    if replicas < min_replicas and carried >= demand:
        return f"the stock of {listed} has room for {replicas} replicas, fewer than --min-replicas {min_replicas}"
    return (
        f"the stock of {listed} serves about {carried:.3g} {lots[0].counted} within the SLOs, and {demand:.3g} come in "
        "the busiest hour (at most a share may be spot: --spot-share); raise --stock, add chips with --on, or relax "
        "the SLOs"
    )


class PooledDay(NamedTuple):
    """Number of prefill and decode instances that a day needs."""

    fleet: PooledFleet
    """Deployment of the busiest hour, whose layouts are used in all hours."""
    readers: tuple[int, ...]
    """Prefill instances of each hour [1]."""
    writers: tuple[int, ...]
    """Decode instances of each hour [1]."""
    question: str
    """Option with which 'recommend' shows the deployment of the busiest hour."""

    @classmethod
    def of(
        cls, candidates: Sequence[Candidate], needed: Sequence[float], targets: Targets, limit: float,
        arrival_scv: float,
    ) -> PooledDay | None:  # fmt: skip
        """Disaggregated deployment for the largest load of each hour [1/s].

        The result is None if the deployment costs at least ``limit`` in the busiest hour [USD/h], or needs too many
        instances for a quick search.
        """
        busiest = max(needed)
        try:
            apart = fleets(candidates, busiest, targets, limit, arrival_scv)
            if not apart:
                return None
            fleet, terms = min(apart, key=_dollars), DisaggregationTerms(targets, arrival_scv)
            layouts = fleet.prefill, fleet.decode
            of_hours = [smallest(fleet.pools, rate, terms, layouts=layouts) if rate else None for rate in needed]
        except TooMuchError:
            return None
        counts = [(0, 0) if fleet is None else (fleet.prefill_instances, fleet.decode_instances) for fleet in of_hours]
        readers, writers = zip(*counts, strict=True)
        return cls(fleet, readers, writers, f"--request-rate {busiest:.4g}")

    @classmethod
    def shared(cls, fleet: PooledFleet, shares: Sequence[float], question: str) -> PooledDay:
        """Day on which each hour needs a share of the instances of a deployment [1]."""
        readers, writers = (
            tuple(math.ceil(count * share - 1e-9) for share in shares)
            for count in (fleet.prefill_instances, fleet.decode_instances)
        )
        return cls(fleet, readers, writers, question)

    def sentences(
        self, dollars: float, ways: Collection[Way], elasticity: Elasticity, stock: Mapping[str, int], min_replicas: int
    ) -> list[str]:
        """Text on the cost of disaggregated compared with aggregated serving [USD]; empty if it is not lower.

        Prefill and decode instances are planned separately with :func:`inference_econ.extras.fleets.day.plan`.
        """
        fleet, planned = self.fleet, 0.0
        sides = (
            (fleet.pools.prefill, fleet.prefill, self.readers),
            (fleet.pools.decode, fleet.decode, self.writers),
        )
        chips = sum(max(counts) * int(pool.accelerators[layout]) for pool, layout, counts in sides)
        if any(chips > stock.get(pool.setup.hardware.name, math.inf) for pool, _, _ in sides):
            return []
        for pool, layout, counts in sides:
            # If the rate of an instance is 1, the capacity of a unit is its number of instances.
            service, single = pool.services.service(layout), replace(fleet.load, requests_per_second=1.0)
            dollars_per_hour = float(service.setup.dollars_per_hour(1, service.accelerators))
            lots = lots_of(Deployment(service, 1, single, dollars_per_hour, binding="instance"), ways)
            if not lots:
                return []
            planned += plan(lots, counts, elasticity, stock={}, min_replicas=min_replicas).dollars
        if planned * (1.0 + SIMPLER) >= dollars:
            return []
        reading, decoding = (f"{min(counts)} to {max(counts)}" for _, _, counts in sides)
        return [
            f"disaggregated deployments, which would cost ${planned:,.2f} instead of ${dollars:,.2f} ({reading} "
            f"prefill and {decoding} decode instances). See 'recommend {self.question}'"
        ]


def _dollars(fleet: PooledFleet) -> float:
    return fleet.dollars_per_hour


#: Default share of requests for which the autoscaler must meet the SLOs [1].
KEPT = 0.99
#: Longest day, a week [h].
MOST_HOURS = 168


@dataclass(frozen=True, slots=True, repr=False)
class DayOfFleet(Shown):
    """Cheapest fleet for a day, with its simulated runs.

    Attributes
    ----------
    lots : tuple of CapacityBlock
        Rental units that are used in at least one of the simulated days.
    rates : tuple of float
        Mean request rate of each hour [1/s].
    targets : Targets
        SLOs.
    plan : Plan
        Cheapest numbers of rental units with a perfect forecast.
    policy : str
        Metric of the autoscaler.
    target : float
        Target of the autoscaler, as a share of the SLO capacity [1].
    runs : mapping of str to SimulatedDay
        Simulated days: ``constant``, ``autoscaled`` and ``planned``.
    elasticity : Elasticity
        Scaling behavior of replicas.
    left_out : tuple of str
        Messages on chips that cannot meet the SLOs, and on disaggregated deployments that would be cheaper.
    usual : UsualSpeed or None
        Speed that the default TPOT SLO requires; None if the query sets the SLOs.
    """

    page = "extras.fleets.day_page:FleetPage"
    #: Name of the hourly load.
    counted: ClassVar[str] = "request_rate"

    lots: tuple[CapacityBlock, ...]
    rates: tuple[float, ...]
    targets: Targets
    plan: Plan
    policy: Policy
    target: float
    runs: Mapping[str, SimulatedDay]
    elasticity: Elasticity
    left_out: tuple[str, ...] = ()
    usual: UsualSpeed | None = None

    @property
    def saved_by_knowing(self) -> float:
        """Share of the autoscaler's cost that a perfect forecast saves [1]."""
        autoscaled, planned = (float(self.runs[run].dollars.sum()) for run in ("autoscaled", "planned"))
        return 1.0 - planned / autoscaled

    @property
    def output_tokens(self) -> float:
        """Output tokens of the day [tokens]."""
        return 3600.0 * sum(self.rates) * self.lots[0].service.requests.osl.mean

    @property
    def setups(self) -> Sequence[Setup]:
        """Setups of all chips."""
        return list({lot.chip: lot.setup for lot in self.lots}.values())

    def record(self) -> dict[str, Any]:
        """Result as plain data."""
        return {
            "targets": self.targets.record(),
            "rental_units": self.lot_records(),
            "runs": self.run_records(),
            "policy": self.policy,
            "target_share": self.target,
            "autoscaler": {
                "polling_seconds": self.elasticity.polling_seconds,
                "scale_down_seconds": self.elasticity.scale_down_seconds,
            },
            "proven_gap": self.plan.gap,
            "saved_by_knowing": self.saved_by_knowing,
            "hours": self.records(),
            **({"left_out": list(self.left_out)} if self.left_out else {}),
        }

    def records(self) -> list[Mapping[str, Any]]:
        """One record per hour."""
        runs = {name: self.runs[name] for name in ("planned", "autoscaled")}
        return [
            {"hour": hour, self.counted: rate}
            | {
                f"{name}_{field}": float(values[hour])
                for name, run in runs.items()
                for field, values in (("gpus", run.gpu_hours), ("dollars", run.dollars), ("slo_met_share", run.kept))
            }
            for hour, rate in enumerate(self.rates)
        ]

    def lot_records(self) -> list[dict[str, Any]]:
        """One record per type of rental unit in the fleet."""
        return [
            {**lot.record(self.targets), "rental_units_by_hour": counts.tolist(), "scaling": scaling}
            for lot, counts, scaling in zip(self.lots, self.plan.counts, self._scaling(), strict=True)
        ]

    def _scaling(self) -> list[dict[str, Any]]:
        """Autoscaler settings of each type of rental unit, with the load that the types used before it serve."""
        day, before, told = self.runs["autoscaled"], 0.0, dict[int, dict[str, Any]]()
        for place in cheapest_first(self.lots):
            lot = self.lots[place]
            at_target = float(lot.in_flight(np.array([self.target]))[0])
            held = (at_target if self.policy == "in_flight" else self.target * lot.requests_per_second) / lot.replicas
            fewest, most = (int(counts[place]) * lot.replicas for counts in (day.fewest, day.most))
            told[place] = {"fewest": fewest, "most": most, "per_replica": held, "held_before": before}
            before += most * held
        return [told[place] for place in range(len(self.lots))]

    def run_records(self) -> list[dict[str, Any]]:
        """One record for each simulated day."""
        return [
            {
                "run": run,
                "gpu_hours": float(day.gpu_hours.sum()),
                "most_accelerators": day.most_accelerators,
                "dollars_per_day": float(day.dollars.sum()),
                **self.unit_cost(float(day.dollars.sum())),
                "slo_met_share": day.slo_met_share,
            }
            for run, day in self.runs.items()
        ]

    def unit_cost(self, dollars: float) -> dict[str, float]:
        """Cost of a day divided by its load, as a field of the result [USD]."""
        return {"dollars_per_million_output_tokens": float(money.dollars_per_million(dollars, self.output_tokens))}


def fleet(
    offers: Sequence[Candidate | Services],
    rates: Sequence[float],
    targets: Targets | None = None,
    *,
    stock: Mapping[str, int] | None = None,
    ways: Collection[Way] = WAYS,
    policy: Policy = "in_flight",
    target: float | None = None,
    min_replicas: int = 1,
    arrival_scv: float = 1.0,
    elasticity: Elasticity | None = None,
    progress: Progress | None = None,
) -> DayOfFleet:
    """Find the cheapest combination of chips and contracts for a day, and simulate its autoscaler.

    Parameters
    ----------
    offers : sequence of Candidate or Services
        Candidates on one or several chips (``market``): aggregated instances. For disaggregated candidates, only the
        planned cost is reported.
    rates : sequence of float
        Mean request rate of each hour [1/s], interpolated between the middles of hours; the day repeats.
    targets : Targets, optional
        SLOs; by default, the default TPOT SLO of the model (:func:`.default_slo.usual_speed`). ``Targets()`` sets no
        SLO.
    stock : mapping of str to int, optional
        Maximum number of accelerators at the same time, by chip [1]; unlimited by default.
    ways : collection of {'reserved', 'on_demand', 'spot', 'owned'}
        Pricing models; all kinds of rent by default.
    policy : {'in_flight', 'rate', 'utilization'}
        Metric of the autoscaler (:func:`inference_econ.extras.fleets.day.autoscaler`).
    target : float, optional
        Target of the metric, as a share of the SLO capacity [1]. By default, the target of the cheapest day that meets
        the SLOs for 99% of the requests, or else for the largest share.
    min_replicas : int
        Minimum number of replicas at any hour [1].
    arrival_scv : float
        Squared coefficient of variation of interarrival times within a minute [1]; see
        :func:`inference_econ.serving.load.loaded`.
    elasticity : Elasticity, optional
        Scaling behavior of replicas; by default ``scenarios/assumptions/elasticity``.
    progress : callable, optional
        Function that receives the completed share of the work [1].

    Returns
    -------
    DayOfFleet
        Plan, and three simulated days: a constant fleet, an autoscaler that adds to the reserved part of the plan, and
        the plan itself.

    Raises
    ------
    InputError
        If a rate, share or number is out of range, or ``stock`` names a chip that is not a candidate.
    NothingFitsError
        If no deployment meets the SLOs, or too few GPUs are available.
    """
    day = tuple(map(float, rates))
    check_day(day, policy, target, min_replicas, ways)
    left_out: list[str] = []
    busiest = max(needed(day))
    candidates = as_candidates(offers)
    together = [candidate for candidate in candidates if candidate.pools is None]

    def best_within(promised: Targets) -> dict[str, Deployment]:
        left_out.clear()
        return best_of_chips(together, busiest, promised, arrival_scv=arrival_scv, play=False, note=left_out.append)

    best, targets, usual = with_default_slo(candidates, targets, best_within)
    offered = lots(best, targets, arrival_scv=arrival_scv, ways=ways, note=left_out.append)
    whole = min(choice.dollars_per_hour for choice in best.values())
    apart = PooledDay.of(candidates, needed(day), targets, whole / (1.0 + SIMPLER), arrival_scv)
    found = planned(
        offered, day, targets, offers, ways=ways, stock=stock, policy=policy, target=target, min_replicas=min_replicas,
        elasticity=elasticity, left_out=left_out, apart=apart, progress=progress,
    )  # fmt: skip
    return replace(found, usual=usual)


def planned(
    offered: Sequence[CapacityBlock],
    day: Sequence[float],
    targets: Targets,
    offers: Sequence[Candidate | Services],
    *,
    ways: Collection[Way],
    stock: Mapping[str, int] | None,
    policy: Policy,
    target: float | None,
    min_replicas: int,
    elasticity: Elasticity | None,
    left_out: Sequence[str],
    apart: PooledDay | None,
    progress: Progress | None,
    kind: type[DayOfFleet] = DayOfFleet,
) -> DayOfFleet:
    """Find the cheapest numbers of rental units for a day, and simulate the day; see :func:`fleet`.

    Parameters
    ----------
    offered : sequence of CapacityBlock
        Available rental units.
    day : sequence of float
        Load of each hour: request rate [1/s], or number of agents [1].
    targets, offers, ways, stock, policy, target, min_replicas, elasticity, progress
        See :func:`fleet`.
    left_out : sequence of str
        See :class:`DayOfFleet`.
    apart : PooledDay, optional
        Disaggregated deployment that may be cheaper.
    kind : type
        Class of the result.
    """
    usual = catalog.elasticity() if elasticity is None else elasticity
    demand, hours = needed(day), np.arange(len(day))

    def curve(seconds: Array) -> Array:
        """Request rate at times of the day, interpolated between the middles of hours [1/s]."""
        return np.asarray(np.interp(seconds / 3600.0 - 0.5, hours, np.array(day), period=len(day)))

    room = _stock(stock or {}, offers)
    tell = progress or (lambda *_: None)
    tell(0.4, "the cheapest mixture")
    chosen = plan(offered, demand, usual, stock=room, min_replicas=min_replicas)
    constant = plan(offered, demand, usual, stock=room, min_replicas=min_replicas, constant=True)
    tell(0.7, "the day")
    reserved = [counts[0] if lot.stays else 0 for lot, counts in zip(offered, chosen.counts, strict=True)]
    playing = partial(play, curve, len(day), longest_wait=targets.ttft_seconds)
    scaled = RentedFleet(offered, reserved, room, usual, min_replicas)
    largest = usual.most_of_peak * max(demand)

    def autoscaled(share: float) -> SimulatedDay:
        start = scaled.wanted(float(curve(np.zeros(1))[0]) / share)
        return playing(scaled, autoscaler(policy, share, scaled, largest / share), start, target=share)

    # Cheapest day that meets the SLOs for enough requests, or else the day that meets them for most requests.
    days = [(share, autoscaled(share)) for share in (TARGETS if target is None else (target,))]
    enough = min(KEPT, max(day_played.slo_met_share for _, day_played in days))
    kept = [tried for tried in days if tried[1].slo_met_share >= enough]
    share, best = min(kept, key=lambda tried: float(tried[1].dollars.sum()))

    def fixed(counts: Array) -> SimulatedDay:
        def decide(look: Look) -> Sequence[int]:
            return [int(count) for count in counts[:, int(look.second // 3600.0)]]

        return playing(scaled, decide, [int(count) for count in counts[:, -1]], foreseen=True)

    played = {"constant": fixed(constant.counts), "autoscaled": best, "planned": fixed(chosen.counts)}
    busiest = np.flatnonzero(np.any([run_played.most for run_played in played.values()], axis=0))
    played = {run: run_played.of(busiest) for run, run_played in played.items()}
    chosen = chosen._replace(counts=chosen.counts[busiest])
    mixture = tuple(offered[index] for index in busiest.tolist())
    pools = [] if apart is None else apart.sentences(chosen.dollars, ways, usual, room, min_replicas)
    return kind(mixture, tuple(day), targets, chosen, policy, share, played, usual, (*left_out, *pools))


def rates_by_hour(arrivals: Arrivals) -> tuple[float, ...]:
    """Mean request rate of each hour in a workload [1/s].

    Raises
    ------
    InputError
        If the workload has no rates, or its intervals do not divide an hour.

    Notes
    -----
    An incomplete last hour is dropped if its rates cover less than half an hour.

    Examples
    --------
    >>> rates_by_hour(Arrivals(rates=(1.0, 3.0, 5.0, 7.0, 6.0), interval=1800.0))
    (2.0, 6.0, 6.0)
    """
    if not arrivals.rates:
        raise InputError(
            "the workload has no request rates by hour (a trace whose times restart with each session has none); also "
            "give --rates R,R,...",
            option="rates",
        )
    parts = round(3600.0 / arrivals.interval)
    hours = max(round(len(arrivals.rates) / max(parts, 1) + 1e-9), 1)
    if parts < 1 or parts * arrivals.interval != 3600.0 or len(arrivals.rates) < parts:
        raise InputError(
            f"a day needs hourly rates (interval: 1 h), but the workload has {len(arrivals.rates)} rates for "
            f"intervals of {arrivals.interval:g} s; also give --rates R,R,...",
            option="rates",
        )
    return tuple(float(np.mean(arrivals.rates[hour * parts : (hour + 1) * parts])) for hour in range(hours))


def check_day(
    day: Sequence[float], policy: str, target: float | None, min_replicas: int, ways: Collection[str],
    counted: str = "requests/s", option: str = "rates", policies: Sequence[str] = POLICIES,
) -> None:  # fmt: skip
    """Reject invalid hourly loads, which come from ``option``, and invalid settings of a day.

    Raises
    ------
    InputError
        If a value is invalid; the message names the setting.
    """
    if not 2 <= len(day) <= MOST_HOURS:
        entry = "a rate" if option == "rates" else option
        raise InputError(f"a day has from 2 to {MOST_HOURS} hours with {entry} each, got {len(day)}", option=option)
    if not all(0.0 <= count <= 1e9 for count in day) or not any(day):
        raise InputError(f"{option} by hour must be {counted} from 0 to 1e9, one above 0", option=option)
    if policy not in policies:
        raise InputError(f"policy: got {policy!r}; allowed: {', '.join(policies)}", option="policy")
    if target is not None and not 0.0 < target <= 1.0:
        raise InputError(f"target: a share above 0 and at most 1 is needed, got {target:g}", option="target")
    if min_replicas < 0 or min_replicas != int(min_replicas):
        raise InputError(f"min_replicas must be an integer >= 0, got {min_replicas}", option="min_replicas")
    if not ways or set(ways) - set(EVERY_WAY):
        raise InputError(
            f"pricing: got {', '.join(ways) or 'nothing'}; allowed: {', '.join(EVERY_WAY)}", option="pricing"
        )


def _stock(stock: Mapping[str, int], offers: Sequence[Candidate | Services]) -> dict[str, int]:
    """Available accelerators by the catalog name of the chip.

    Raises
    ------
    InputError
        If a chip is not a candidate, or a number is negative.
    """
    competing = {offer.setup.hardware.name for offer in offers}
    limits: dict[str, int] = {}
    for name, count in stock.items():
        chip = name if name in competing else catalog.hardware(name).name
        if chip not in competing:
            raise InputError(
                f"stock: {name} is not among the hardware: {', '.join(sorted(competing))}; add it with --on",
                option="stock",
            )
        if count < 0 or count != int(count):
            raise InputError(f"stock of {name} must be an integer >= 0, got {count}", option="stock")
        limits[chip] = int(count)
    return limits


def needed(day: Sequence[float]) -> list[float]:
    """Largest load within each hour, if the load changes linearly between the middles of hours."""
    rates = np.array(day)
    before, after = ((rates + np.roll(rates, shift)) / 2.0 for shift in (1, -1))
    return [float(rate) for rate in np.maximum(np.maximum(before, after), rates)]
