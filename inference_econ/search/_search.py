"""Looking for the fastest layout of instances without looking at most of them."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from inference_econ._types import Array, Indices
from inference_econ.engine import (
    DEPTH_TOLERANCE,
    Layouts,
    Memory,
    Plans,
    Setup,
    expert_thresholds,
    has_experts,
    memory,
    step_seconds,
)
from inference_econ.search import _bounds as bounds

#: Instances evaluated together: their arrays stay in the processor's cache.
_CHUNK = 2048
#: Plans from which on a table of bounds is quicker than to bound each of them.
_TABLE_FROM = 20000
#: Ranges of the table per doubling, of stages and of micro-batches.
_STAGES_PER_DOUBLING, _BATCHES_PER_DOUBLING = 8, 4
#: Rounding that bounds allow for [1].
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Fastest:
    """The fastest layout of each instance.

    Attributes
    ----------
    seconds : ndarray, shape (...)
        Time of a step, with what was added to it [s]; ``inf`` where nothing fits or everything exceeds the ceiling.
    cut : ndarray, shape (...)
        How its matrices are cut, by position in ``assumptions.layout.tensor_layouts``.
    plans : Plans
        The layouts themselves, flat; they mean nothing where the time is infinite.
    """

    seconds: Array
    cut: Indices
    plans: Plans


class Search:
    """The plans of some instances, one array of them per pipeline depth.

    Time depends on stage T and micro-batch u but for the hand-offs, so one table over ranges of (T, u) bounds
    the plans of all depths, and each plan costs a look-up. What the table lets pass is evaluated in all variants and
    cuts.

    Parameters
    ----------
    setup : Setup
        What, on what, how.
    accelerators, batch : ndarray
        Instances [1], broadcastable to a common shape (...); an open grid is quicker than its pairs.
    layouts : Layouts
        What to choose from.
    needed : callable, optional
        The memory that plans need, if it is more than that of the model. Attention on every chip must need the least.
    """

    def __init__(
        self,
        setup: Setup,
        accelerators: Array,
        batch: Array,
        layouts: Layouts,
        needed: Callable[[Plans], Memory] | None = None,
    ) -> None:
        self.setup, self.layouts, self.needed = setup, layouts, needed or setup.memory
        self.accelerators, self.batch = accelerators, batch
        self.shape = np.broadcast_shapes(accelerators.shape, batch.shape)
        self.depths = layouts.depths(setup.model, setup.assumptions, accelerators, batch)
        self.tables: dict[int, _Table] = {}
        single = np.ones(1)
        # Bounds follow the assumptions' rule for expert parallelism; layouts with their own do not obey them.
        ruled = layouts.variants(setup.model, setup.assumptions, Plans.of(single, single, single)).ep is None
        self.bounded = bounds.hold(setup.assumptions) and (ruled or not has_experts(setup.model))
        self.tabled = self.bounded and len(self.depths) * int(np.prod(self.shape)) >= _TABLE_FROM
        if self.tabled:
            largest = accelerators.max(), batch.max()
            self.edges = _stage_edges(setup, largest[0]), _batch_edges(setup, largest[1])
            self.cells = [self._cells(depth) for depth in self.depths]

    def _cells(self, depth: Array) -> Indices:
        """Which range of the table each plan of one depth is in; 0 if it is too deep."""
        with np.errstate(divide="ignore"):
            stage = np.searchsorted(self.edges[0], self.accelerators / depth, side="right")
            micro_batch = np.searchsorted(self.edges[1], self.batch / depth, side="right")
        cells = np.where(micro_batch > 0, stage * (self.edges[1].size + 1) + micro_batch, 0)
        return np.broadcast_to(np.where((stage > 0) & (depth > 0), cells, 0), self.shape)

    def _table(self, new_tokens: int) -> _Table:
        if new_tokens not in self.tables:
            self.tables[new_tokens] = _Table(self.setup, self.layouts, *self.edges, new_tokens)
        return self.tables[new_tokens]

    def least(self, new_tokens: int, ceiling: Array) -> Array:
        """A time that no plan of an instance beats [s]; 0 if bounds are not worth the effort."""
        if not self.tabled:
            return np.zeros(self.shape)
        table = self._table(new_tokens)
        for cells in self.cells:
            table.refine(cells[table.bound[cells] <= ceiling])
        return functools.reduce(np.minimum, (table.bound[cells] for cells in self.cells))

    def fastest(
        self, new_tokens: int, ceiling: Array | float, added: Callable[[Plans], Array] | None = None
    ) -> Fastest:
        """The fastest plan of each instance.

        Parameters
        ----------
        new_tokens : int
            Tokens per sequence and step [1].
        ceiling : ndarray, broadcastable to (...)
            Slower than this does not matter [s]: such layouts may be skipped.
        added : callable, optional
            Time that a plan takes beside its step [s].

        Returns
        -------
        Fastest
            Exact wherever ``seconds`` is at most the ceiling.
        """
        # The bound of what is too deep is infinite, and not to be looked at even without a ceiling.
        limit = np.minimum(np.broadcast_to(ceiling, self.shape).ravel(), np.finfo(float).max)
        best = np.full(limit.size, np.inf)
        cuts = np.zeros(limit.size, dtype=np.intp)
        ones = np.ones(limit.size)
        layouts, chosen = Plans.of(ones, ones, ones, new_tokens), defaultdict[str, Array](ones.copy)
        for level, depth in enumerate(self.depths):
            index, plans = self._promising(level, depth, new_tokens, limit)
            for start in range(0, index.size, _CHUNK):
                part = np.arange(start, min(start + _CHUNK, index.size))
                seconds, cut, layouts = self._evaluate(plans.at((part,)), added)
                better = np.flatnonzero(seconds < best[index[part]])
                improved = index[part][better]
                best[improved], cuts[improved] = seconds[better], cut[better]
                for name, array in layouts.at((better,)).arrays().items():
                    chosen[name][improved] = array
        plans = replace(layouts, **chosen)  # type: ignore[arg-type]
        return Fastest(best.reshape(self.shape), cuts.reshape(self.shape), plans)

    def _promising(self, level: int, depth: Array, new_tokens: int, limit: Array) -> tuple[Indices, Plans]:
        """The plans of one depth that fit and may be as fast as the limit, and which instances they are of."""
        if self.tabled:
            table, cells = self._table(new_tokens), self.cells[level].ravel()
            index = np.flatnonzero(table.bound[cells] <= limit)
            table.refine(cells[index])
            index = index[table.bound[cells[index]] <= limit[index]]
        else:
            index = np.flatnonzero(np.broadcast_to(depth > 0, self.shape).ravel() & (limit > 0.0))
        size, batch, pp = (
            np.broadcast_to(array, self.shape).ravel()[index] for array in (self.accelerators, self.batch, depth)
        )
        plans = Plans.of(size, batch, pp, new_tokens)
        if not self.bounded:
            return index, plans
        kept = np.flatnonzero(memory.could_fit(self.needed(plans), plans))
        return index[kept], plans.at((kept,))

    def _evaluate(self, instances: Plans, added: Callable[[Plans], Array] | None) -> tuple[Array, Indices, Plans]:
        """Time, cut and layout of some instances."""
        setup = self.setup
        plans = self.layouts.variants(setup.model, setup.assumptions, instances)
        cuts, needed = setup.assumptions.layout.tensor_layouts, self.needed(plans)
        codes = (setup.reasons(plans, cut, needed) for cut in cuts)
        possible = np.stack([np.broadcast_to(code == memory.FITS, plans.shape) for code in codes])
        if possible.all():
            seconds = _seconds(setup, plans, added)
        else:
            # Most whole-number variants do not divide, and are not worth their arithmetic.
            seconds = np.full(possible.shape, np.inf)
            where = np.nonzero(possible.any(axis=0))
            evaluated = _seconds(setup, plans.at(where), added)
            flat = np.ravel_multi_index(where, plans.shape)
            of_cuts = seconds.reshape(len(cuts), -1)
            of_cuts[:, flat] = np.where(possible.reshape(len(cuts), -1)[:, flat], evaluated, np.inf)
        seconds = seconds.reshape(-1, *instances.shape)
        first = seconds.argmin(axis=0)
        cut, *variant = np.unravel_index(first, (len(cuts), *plans.shape[:-1]))
        rows = np.arange(first.size)
        return seconds[first, rows], cut, plans.at((*variant, rows))


def _seconds(setup: Setup, plans: Plans, added: Callable[[Plans], Array] | None) -> Array:
    """Time of some plans under each way to cut matrices [s], shape (cuts, ...)."""
    seconds = np.stack(step_seconds(setup, plans))
    return seconds if added is None else seconds + added(plans)


class _Table:
    """Bounds by ranges of stage and micro-batch; row and column 0 are below one chip or one sequence.

    Attributes
    ----------
    bound : ndarray, shape (ranges,)
        No plan in the range is faster [s].
    """

    def __init__(self, setup: Setup, layouts: Layouts, stage_edges: Array, batch_edges: Array, new_tokens: int) -> None:
        self.setup, self.layouts, self.new_tokens = setup, layouts, new_tokens
        self.stage_edges, self.batch_edges = stage_edges, batch_edges
        ends = np.append(stage_edges, stage_edges[-1] * 2.0)
        self.least, self.most = ends[:-1] * (1.0 - _ROUNDING), ends[1:] * (1.0 + _ROUNDING)
        bound = np.full((stage_edges.size + 1, batch_edges.size + 1), np.inf)
        smallest, largest = (self._plans(end[:, None], batch_edges[None, :]) for end in (self.least, self.most))
        bound[1:, 1:] = bounds.range_bound(setup, smallest, largest) * (1.0 - _ROUNDING)
        self.bound = bound.ravel()
        self.known = np.isinf(self.bound)

    def _plans(self, stage: Array, micro_batch: Array) -> Plans:
        return Plans.of(stage, micro_batch, np.ones((1,) * stage.ndim), self.new_tokens)

    def refine(self, cells: Indices) -> None:
        """Take attention into account in some ranges."""
        unknown = np.zeros(self.bound.size, dtype=bool)
        unknown[cells] = True
        unknown &= ~self.known
        self.known |= unknown
        new = np.flatnonzero(unknown)
        for start in range(0, new.size, _CHUNK):
            self._refine(new[start : start + _CHUNK])

    def _refine(self, cells: Indices) -> None:
        setup = self.setup
        row, column = np.divmod(cells, self.batch_edges.size + 1)
        ends, batch = np.stack([self.least[row - 1], self.most[row - 1]]), self.batch_edges[column - 1]
        ranks = self.layouts.attention_ranks(setup.model, setup.assumptions, ends)
        smallest, largest = (self._plans(end, batch) for end in ends)
        first, last = ranks[:, 0], ranks[:, 1]
        floors = bounds.attention_floor(
            setup, replace(smallest, attention_ranks=first), replace(largest, attention_ranks=last)
        )
        self.bound[cells] = bounds.range_bound(setup, smallest, largest, floors) * (1.0 - _ROUNDING)


def _stage_edges(setup: Setup, largest: float) -> Array:
    """Ranges in equal ratios, and around the whole link domains, where collectives change."""
    steps = int(np.ceil(np.log2(max(largest, 1.0)) * _STAGES_PER_DOUBLING)) + 1
    # From the smallest stage that the tolerance of the depth allows.
    regular = (1.0 - 2.0 * DEPTH_TOLERANCE) * 2.0 ** (np.arange(steps) / _STAGES_PER_DOUBLING)
    domains = setup.hardware.link_domain * np.arange(1.0, 9.0)
    around = np.concatenate([domains * (1.0 - 1e-9), domains * (1.0 + 1e-9)])
    return np.unique(np.concatenate([regular, around]))


def _batch_edges(setup: Setup, largest: float) -> Array:
    """Ranges in equal ratios, and where expert parallelism starts."""
    steps = int(np.ceil(np.log2(max(largest, 1.0)) * _BATCHES_PER_DOUBLING)) + 1
    regular = (1.0 - 2.0 * DEPTH_TOLERANCE) * 2.0 ** (np.arange(steps) / _BATCHES_PER_DOUBLING)
    starts = [start for start in expert_thresholds(setup.model, setup.assumptions.experts) if start >= 1.0]
    return np.unique(np.concatenate([regular, starts]))
