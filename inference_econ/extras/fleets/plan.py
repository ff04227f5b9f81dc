"""Integer program for the cheapest rental units (lots) of a day with a perfect forecast."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.fleets.capacity_blocks import CapacityBlock
from inference_econ.inputs import Elasticity

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
        """Relative gap to the lower bound [1]."""
        return max(1.0 - self.bound / self.dollars, 0.0) if self.dollars else 0.0


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
        Startup time, which is paid; availability of spot rental units; and their maximum share of the capacity.
    stock : mapping of str to int
        Maximum number of accelerators at the same time, by chip; unlimited if missing [1].
    min_replicas : int
        Minimum number of replicas in every hour [1].
    constant : bool
        True for equal numbers in every hour.

    Returns
    -------
    Plan
        Plan with its lower bound.

    Raises
    ------
    InputError
        If the solver finds no solution in time.
    NothingFitsError
        If too few GPUs are available; the message contains their capacity.

    Notes
    -----
    For rental units i and hours h, minimize sum_ih c_i (x_ih + T s_ih). The start-ups are s_ih >= x_ih - x_i,h-1, and
    T is the start-up time [h]. Reserved units have equal x_ih in all hours. The constraint is
    sum_i q_i x_ih >= needed_h.

    This is the unit commitment problem of power plants (Padhy, 2004), solved by HiGHS.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    serving = [lot.carried * spot_share_up(lot, elasticity) for lot in lots]
    taken = [index for index in range(len(lots)) if not _is_dominated(index, lots, serving, stock)]
    hours = 1 if constant else len(needed)
    demand = np.array([max(needed)] if constant else needed)
    # One variable per unit and hour, or per reserved unit, followed by the startups of the others.
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
    # HiGHS of SciPy 1.13 takes no other integers.
    places = np.array(where, np.int32), np.array(which, np.int32)
    matrix = coo_array((values, places), shape=(len(rows), size)).tocsr()
    # No hour needs more units of one type than serve the largest hour alone.
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
