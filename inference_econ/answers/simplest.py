"""Preference for simple deployments at similar cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array, Indices, distinct
from inference_econ.engine import Plans, attention_groups, node
from inference_econ.formulas import pareto
from inference_econ.inputs import HardwareSpec, LayoutAssumptions


class _Deployed(Protocol):
    """Interface that deployments must have in this module."""

    @property
    def service(self) -> Any: ...
    @property
    def complexity(self) -> int: ...
    @property
    def is_plain(self) -> bool: ...


DeploymentT = TypeVar("DeploymentT", bound=_Deployed)
#: Share of the cost that a deployment must save to be preferred over a simpler one [1].
SIMPLER = 0.10
#: Number of possible values of :func:`complexity` [1].
LEVELS = 8
#: Share by which a simpler deployment may be slower and still be preferred [1]; it is below the prediction error.
_SLOWER = 0.02
#: Relative difference of speed below which two points are the same [1].
_SAME_SPEED = 1e-3


def complexity(hardware: HardwareSpec, plans: Plans, *, disaggregated: bool) -> Indices:
    """Distance of deployments from the simplest kind: aggregated instances on one machine without a pipeline.

    Parameters
    ----------
    hardware : HardwareSpec
        GPU.
    plans : Plans
        Layouts, shape (n,); for disaggregated deployments, the decode layouts.
    disaggregated : bool
        True if separate instances prefill.

    Returns
    -------
    ndarray of int, shape (n,)
        Distance [1]; 0 for the simplest kind. Disaggregation adds 4, pipeline parallelism adds 2, and several machines
        add 1.
    """
    machine = max(node(hardware), hardware.link_domain)
    levels = 4 * disaggregated + 2 * (plans.pp > 1) + (plans.accelerators > machine)
    return np.broadcast_to(levels, np.shape(plans.accelerators)).astype(np.intp)


def is_plain(plans: Plans, layout: LayoutAssumptions) -> npt.NDArray[np.bool_]:
    """True for layouts that use only tensor parallelism, without attention DP and pipeline stages, shape (n,)."""
    return np.broadcast_to((attention_groups(plans, layout) == 1) & (plans.pp == 1), np.shape(plans.accelerators))


def simplest(costs: npt.ArrayLike, levels: npt.ArrayLike) -> int:
    """Index of the simplest deployment within 10% of the lowest cost; the cheapest of equally simple deployments.

    Parameters
    ----------
    costs, levels : array_like, shape (n,)
        Costs in any unit, and values of :func:`complexity` [1].

    Examples
    --------
    >>> simplest([1.00, 1.08, 1.20], [4, 0, 0]), simplest([1.00, 1.12], [4, 0])
    (1, 0)
    """
    paid, level = np.asarray(costs, dtype=float), np.asarray(levels)
    level = np.where(paid <= (1.0 + SIMPLER) * paid.min(), level, np.iinfo(np.intp).max)
    return int(np.lexsort((paid, level))[0])


def worth_their_complexity(choices: Sequence[DeploymentT], cost: Callable[[DeploymentT], float]) -> list[DeploymentT]:
    """Remove deployments that save at most 10% compared with a simpler deployment on the same GPU.

    Parameters
    ----------
    choices : sequence of Deployment
        Deployments, in any order; the result keeps this order.
    cost : callable
        Function that returns the cost of a deployment, in any unit.
    """
    seen = [(choice.complexity, choice.service.setup.hardware.name, cost(choice)) for choice in choices]

    def is_worth(level: int, chip: str, paid: float) -> bool:
        simpler = (other for below, beside, other in seen if below < level and beside == chip)
        return paid * (1.0 + SIMPLER) < min(simpler, default=math.inf)

    return [choice for choice, facts in zip(choices, seen, strict=True) if is_worth(*facts)]


def cost_limit(
    choices: Sequence[DeploymentT], cost: Callable[[DeploymentT], float], level: int, *, plain: bool, most: int
) -> float:
    """Cost above which a further layout is not among the best deployments on its GPU.

    Parameters
    ----------
    choices : sequence of Deployment
        Deployments found so far on the same kind of GPU.
    cost : callable
        Function that returns the cost of a deployment, in any unit.
    level : int
        Complexity of the layout [1].
    plain : bool
        True if the layout uses only tensor parallelism. The best such deployment is always included.
    most : int
        Number of deployments to select [1].
    """
    rivals = sorted(worth_their_complexity(choices, cost), key=cost)
    limit = cost(rivals[most - 1]) if len(rivals) >= most else math.inf
    if plain and most > 1:
        limit = max(limit, min((cost(choice) for choice in rivals if choice.is_plain), default=math.inf))
    simpler = (cost(choice) / (1.0 + SIMPLER) for choice in choices if choice.complexity < level)
    return min([limit, *simpler])


def frontier_points(seconds: Array, costs: Array, levels: Indices) -> Indices:
    """Indices of the Pareto-optimal points, ascending in seconds, with a preference for simple deployments.

    Parameters
    ----------
    seconds, costs : ndarray, shape (n,)
        Time per token [s], and costs in any unit.
    levels : ndarray of int, shape (n,)
        See :func:`complexity` [1].

    Notes
    -----
    A point is removed if a simpler deployment costs at most 10% more at about the same speed. A point is also removed
    if a cheaper point has the same speed within 0.1%.
    """
    kept = np.flatnonzero(levels == levels.min())
    for level in distinct(levels).tolist()[1:]:
        mine = np.flatnonzero(levels == level)
        order = kept[np.argsort(seconds[kept])]
        least = np.concatenate(([np.inf], np.minimum.accumulate(costs[order])))
        simpler = least[np.searchsorted(seconds[order], (1.0 + _SLOWER) * seconds[mine], side="right")]
        kept = np.concatenate([kept, mine[costs[mine] * (1.0 + SIMPLER) < simpler]])
    best = kept[pareto.undominated(seconds[kept], costs[kept])]
    slower = np.append(seconds[best][1:], np.inf)
    return best[slower > (1.0 + _SAME_SPEED) * seconds[best]]
