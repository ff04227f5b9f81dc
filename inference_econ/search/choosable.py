"""Choose from points that nothing beats: by a speed that is needed, or by a preference."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

import numpy as np

from inference_econ._types import Array
from inference_econ.engine import Instances, power
from inference_econ.errors import InputError
from inference_econ.formulas import money
from inference_econ.search.summary import FrontierSummary, summarise

PointT = TypeVar("PointT")
#: What is held against speed: dollars per million output tokens, or per million of input and output; tokens per second
#: of an accelerator, or of a megawatt of the facility; joules of the boards per output token; chips of an instance;
#: useful arithmetic over the peak.
Metric = Literal["cost", "blended", "throughput", "power", "joules", "gpus", "mfu"]
METRICS: tuple[Metric, ...] = get_args(Metric)
#: Largest exponent of the preference rule; beyond, speed^a leaves the range of numbers.
_LARGEST_EXPONENT = 100


class Choosable(ABC, Generic[PointT]):
    """Points of a frontier, the slowest and cheapest first: of decode steps, or of services."""

    __slots__ = ()

    saving: Saving | None

    @abstractmethod
    def axes(self) -> tuple[Array, Array]:
        """Speed of a user [tokens/s] and cost [USD per 1e6 tokens] of every point, shape (n,) each."""

    @abstractmethod
    def metrics(self) -> Mapping[Metric, Callable[[], Array | None]]:
        """Functions of what can be held against speed, shape (n,) each; None without watts in the hardware file."""

    def metric(self, name: Metric) -> Array:
        """Values of what is held against speed [USD per 1e6 tokens], [tokens/s], [tokens/s/MW], [J per token] or [1].

        Raises
        ------
        InputError
            If it takes watts and the hardware file has none, or it is no metric of such points.
        """
        metrics = self.metrics()
        if name not in metrics:
            counted = "decode steps alone (--decode-only)" if name == "mfu" else "services"
            other = f", which is said of {counted}" if name in METRICS else ""
            raise InputError(f"y: got {name!r}{other}; allowed: {', '.join(metrics)}", option="y")
        values = metrics[name]()
        if values is None:
            raise power.no_watts(
                ", ".join(dict.fromkeys(instances.setup.hardware.name for instances in self.subjects()))
            )
        return values

    @abstractmethod
    def points(self, chosen: Sequence[int] | None = None) -> list[PointT]:
        """Every point with its layout, the fastest last; or some of them, by position."""

    @abstractmethod
    def subjects(self, points: Sequence[PointT] | None = None) -> tuple[Instances, ...]:
        """Every point as an instance that may be unlike what was measured, or some points of it."""

    def preferred_subjects(self) -> tuple[Instances, ...]:
        """Return the preferred point as an instance that may be unlike what was measured."""
        return self.subjects([self.preferred()])

    def point(self, index: int) -> PointT:
        """One point with its layout."""
        return self.points([range(self.axes()[0].size)[index]])[0]

    def fastest(self) -> PointT:
        """The fastest point."""
        return self.point(-1)

    def preferred(self, exponent: float = 3.0) -> PointT:
        """The point that maximises speed^exponent / cost (eq. 45)."""
        return self.point(self.preferred_index(exponent))

    def preferred_index(self, exponent: float = 3.0) -> int:
        """Where :meth:`preferred` is.

        Raises
        ------
        InputError
            If the exponent is not from 0 to 100.
        """
        if not 0 <= exponent <= _LARGEST_EXPONENT:
            raise InputError(f"the exponent must be from 0 to {_LARGEST_EXPONENT}, got {exponent:g}")
        return int(np.argmax(money.preference(*self.axes(), exponent)))

    def summary(self) -> FrontierSummary:
        """The frontier in three numbers: A (1 - x / x_m)^-beta with its error.

        Raises
        ------
        InputError
            If it has fewer than four points.
        """
        return summarise(*self.axes())

    def summary_record(self) -> dict[str, float] | None:
        """The three numbers with their errors as plain data; None where the frontier has too few points."""
        try:
            return self.summary().record()
        except InputError:
            return None

    def saving_record(self) -> dict[str, object]:
        """Savings of any layout as a part of a record; nothing where they were not asked for."""
        return {} if self.saving is None else {"any_layout": self.saving._asdict()}

    def cheapest(self, tokens_per_second: float = 0.0) -> PointT:
        """The cheapest point at or above a speed.

        Raises
        ------
        InputError
            If no point is that fast.
        """
        return self.point(self.place(tokens_per_second))

    def fastest_at(self, dollars: float) -> PointT | None:
        """The fastest point at or below a cost [USD per 1e6 output tokens]; None where no point is as cheap."""
        _, costs = self.axes()
        cheap = np.flatnonzero(costs <= dollars * (1.0 + 1e-9))
        return self.point(int(cheap[-1])) if cheap.size else None

    def place(self, tokens_per_second: float) -> int:
        """Where the cheapest point at or above a speed is; see :meth:`cheapest`."""
        speeds, _ = self.axes()
        fast_enough = np.flatnonzero(speeds >= tokens_per_second * (1.0 - 1e-9))
        if fast_enough.size == 0:
            raise InputError(
                f"no deployment reaches {tokens_per_second:g} tokens/s per user; the fastest has {speeds[-1]:.1f}"
            )
        return int(fast_enough[0])


class Saving(NamedTuple):
    """The most that any layout saves over those that can be started, at equal speed."""

    share: float
    """Of the cost [1]; 0 if nothing is saved."""
    tokens_per_second: float
    """Where [tokens/s per user]."""


def saved_by(bound: Choosable[Any], startable: Choosable[Any] | None) -> Saving | None:
    """Saving of a frontier of any layout over one of layouts that can be started, if there is one."""
    return None if startable is None else most_saved(*startable.axes(), *bound.axes())


def most_saved(speeds: Array, costs: Array, bound_speeds: Array, bound_costs: Array) -> Saving:
    """Hold a frontier of layouts that can be started against that of any layout.

    Parameters
    ----------
    speeds, costs : ndarray, shape (n,)
        Of layouts that can be started [tokens/s per user], [USD per 1e6 tokens].
    bound_speeds, bound_costs : ndarray, shape (m,)
        The same of any layout.

    Examples
    --------
    >>> most_saved(np.array([10.0, 50.0]), np.array([1.0, 4.0]), np.array([12.0, 50.0]), np.array([1.0, 3.0]))
    Saving(share=0.25, tokens_per_second=50.0)
    """
    reached = bound_speeds[None, :] >= speeds[:, None] * (1.0 - 1e-9)
    cheapest = np.where(reached, bound_costs[None, :], np.inf).min(axis=1)
    shares = np.maximum(1.0 - cheapest / costs, 0.0)
    best = int(np.argmax(shares))
    return Saving(float(shares[best]), float(speeds[best]))
