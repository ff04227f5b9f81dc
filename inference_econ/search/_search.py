"""Search for the fastest layout of instances. Layouts with a high lower bound on their step time are skipped."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from inference_econ._types import Array, Indices
from inference_econ.engine import (
    DEPTH_TOLERANCE,
    Collective,
    Layouts,
    Memory,
    Network,
    Operator,
    Plans,
    Setup,
    Work,
    collective_floor,
    collective_seconds,
    expert_thresholds,
    has_experts,
    launch_seconds,
    memory,
    operator_roofline,
    step_seconds,
)
from inference_econ.inputs import Assumptions


def hold(assumptions: Assumptions) -> bool:
    """True if the lower bounds of this module are valid under the assumptions.

    Parameters
    ----------
    assumptions : Assumptions
        Assumptions about layouts and operators.

    Notes
    -----
    The bounds require three conditions. Work per chip is smallest if every chip of a pipeline stage computes attention.
    With more chips in a stage, work per chip falls and communication grows. Work does not overlap with communication.
    These conditions hold under the following assumptions:

    - ``layout.attention_groups: idle``: attention groups that share the batch communicate less and have separate
    caches;
    - ``layout.kv_placement: spread``: if KV heads determine the cache placement, fewer ranks have fewer cache copies;
    - ``experts.parallel_counts: requests``: expert parallelism starts at a number of sequences, not at a number of new
    tokens;
    - ``experts.all_to_all_traffic: as_all_reduce``: the bound on a collective does not include traffic over a rank's
    own link;
    - ``experts.replicated_tokens: exchanged``: otherwise fewer attention ranks turn an all-reduce into an all-to-all;
    - ``experts.imbalance: 1`` and ``experts.spread: even``: otherwise the busiest rank's work grows with the number of
    ranks;
    - ``network.link_domains: whole`` or ``exact``: with ``placed``, ranks may span fewer link domains in larger stages;
    - ``experts.redundant: null``: otherwise work grows with the number of chips that have copies of experts;
    - ``layout.residual_stream: whole``: otherwise the work of norms falls with the number of ranks that share it;
    - ``network.two_batch_overlap: never``: otherwise half of the communication may overlap with work;
    - ``network.hidden: 0`` and ``chip.prefetched_bytes: 0``: otherwise communication overlaps with work.
    """
    layout, experts = assumptions.layout, assumptions.experts
    return (
        (layout.attention_groups, layout.kv_placement, layout.residual_stream) == ("idle", "spread", "whole")
        and (experts.parallel_counts, experts.all_to_all_traffic) == ("requests", "as_all_reduce")
        and (experts.replicated_tokens, experts.spread, experts.imbalance) == ("exchanged", "even", 1)
        and (assumptions.network.two_batch_overlap, experts.redundant) == ("never", None)
        and (assumptions.network.hidden, assumptions.chip.prefetched_bytes) == (0, 0)
        and assumptions.network.link_domains != "placed"
    )


def attention_floor(setup: Setup, smallest: Plans, largest: Plans) -> Array:
    """Lower bound on the attention time for all numbers of attention ranks and all stage sizes in a range [s].

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions.
    smallest, largest : Plans
        Plans with the smallest and the largest stage of the range, one row per number of attention ranks, shape
        (variants, ...). The bound is also valid for larger micro-batches, because no part of the attention time
        decreases with the micro-batch.

    Returns
    -------
    ndarray, shape (sums, ...)
        Time of work plus communication [s]. Under ``overlap: step``, the first row is for arithmetic and the second for
        memory traffic; otherwise there is a single row.
    """
    large = setup.work(largest)
    communication = _least_communication(setup, setup.work(smallest), large, on_attention_ranks=True)
    sums = _sums(setup, large, [operator for operator in large.operators if operator.on_attention_ranks])
    return np.stack([(work + communication).min(axis=0) for work in sums])


def range_bound(setup: Setup, smallest: Plans, largest: Plans, attention_floor: Array | float = 0.0) -> Array:
    """Lower bound on the step time for a range of stage sizes, with the given micro-batch or a larger one [s].

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions.
    smallest, largest : Plans
        Plans with the smallest and the largest stage of the range, shape (...). Both plans have no pipeline
        parallelism, attention on every chip and equal batches. The bound is valid for any pipeline depth. If the given
        micro-batch is too small for expert parallelism, the bound is not valid for micro-batches with expert
        parallelism.
    attention_floor : ndarray, shape (sums, ...)
        Result of :func:`attention_floor` for the same range [s].

    Returns
    -------
    ndarray, broadcastable to (...)
        Lower bound on the step time [s]: the work of the largest stage plus the communication of the smallest stage.
    """
    large = setup.work(largest)
    communication = _least_communication(setup, setup.work(smallest), large, on_attention_ranks=False)
    everything = _sums(setup, large, large.operators)
    elsewhere = _sums(setup, large, [operator for operator in large.operators if not operator.on_attention_ranks])
    floors = np.broadcast_to(attention_floor, (len(everything), *np.shape(attention_floor)[1:]))
    least = [*everything, *(other + floor for other, floor in zip(elsewhere, floors, strict=True))]
    alone = launch_seconds(setup, large) + setup.assumptions.host.step_overhead
    return np.asarray(functools.reduce(np.maximum, least) + communication + alone)


def _sums(setup: Setup, work: Work, operators: Iterable[Operator]) -> list[Array]:
    """Total time of some operators, for arithmetic and memory traffic separately if both overlap within a step [s]."""
    rooflines = [operator_roofline(setup, operator, work) for operator in operators]
    if setup.assumptions.chip.overlap == "step":
        sums = [[roofline.compute, roofline.memory] for roofline in rooflines]
    elif setup.assumptions.chip.overlap == "none":
        sums = [[roofline.compute + roofline.memory] for roofline in rooflines]
    else:
        sums = [[np.maximum(roofline.compute, roofline.memory)] for roofline in rooflines]
    return [np.asarray(sum(column)) for column in zip(*sums, strict=True)]


def _least_communication(setup: Setup, small: Work, large: Work, *, on_attention_ranks: bool) -> Array:
    """Lower bound on the communication time in a range of stages: of attention, or of all other operators [s].

    The bound is the smaller of the bounds for 1D and 2D splits of weight matrices.
    """
    totals, network = [], Network.of(setup.hardware, setup.assumptions.network)
    for layout in setup.assumptions.layout.tensor_layouts:
        total = np.zeros(())
        for low, high in zip(small.operators, large.operators, strict=True):
            if low.on_attention_ranks == on_attention_ranks:
                pairs = zip(low.collectives.get(layout, ()), high.collectives.get(layout, ()), strict=True)
                for first, last in pairs:
                    repeats = low.repeats * first.repeats
                    total = total + repeats * collective_floor(network, first, last, small.tokens)
        totals.append(total)
    return functools.reduce(np.minimum, totals)


def _least_handoff(setup: Setup) -> float:
    """Lower bound on the transfer time between two pipeline stages [s]: the latency, which bounds of steps exclude."""
    assumed = setup.assumptions.network
    domains = np.array([2.0, 1.0 if assumed.pipeline_hop == "nearest" else 2.0])
    hop = Collective("point_to_point", np.full(2, 2.0), domains, np.zeros(2))
    return float(collective_seconds(Network.of(setup.hardware, assumed), hop, np.ones(2)).min())


#: Number of instances that are evaluated together [1]; their arrays fit in the processor's cache.
_CHUNK = 4096
#: Smallest number of instances that differ only in their batch and are evaluated as a row [1].
_ROW = 32
#: Smallest number of plans for which a table of bounds is faster than a separate bound for each plan [1].
_TABLE_FROM = 20000
#: Number of ranges in the table per doubling of the stage size, and per doubling of the micro-batch [1].
_STAGES_PER_DOUBLING, _BATCHES_PER_DOUBLING = 8, 4
#: Relative tolerance of the bounds, for rounding errors [1].
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Fastest:
    """Fastest layout of each instance.

    Attributes
    ----------
    seconds : ndarray, shape (...)
        Step time, plus the additional time of the search if it has one [s]; ``inf`` if no layout fits in memory or all
        layouts exceed the time limit.
    cut : ndarray, shape (...)
        Split of the weight matrices, as an index in ``assumptions.layout.tensor_layouts``.
    plans : Plans
        Fastest layouts as a flat array; arbitrary where ``seconds`` is infinite.
    """

    seconds: Array
    cut: Indices
    plans: Plans


class Search:
    """Search for the fastest plan (layout with its batch) of each instance in a grid.

    Plans are stored in one array per pipeline depth. Except for transfers between pipeline stages, the step time
    depends only on the stage size T and the micro-batch u. A single table of lower bounds over ranges of (T, u) is
    therefore valid for all depths. If a bound is below the time limit, all layouts of the plan are evaluated.

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions.
    accelerators, batch : ndarray
        Instance sizes and batches [1], broadcastable to a common shape (...). An open grid (``numpy.ix_``) is faster
        than a list of pairs.
    layouts : Layouts
        Layouts from which the fastest is selected.
    needed : callable, optional
        Function that returns the memory of plans, if it exceeds the memory of the model, for example with a draft
        model. The memory must be smallest if every chip computes attention.
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
        self.cuts, self.tables = len(setup.assumptions.layout.tensor_layouts), dict[int, _Table]()
        single = np.ones(1)
        # Bounds assume the number of expert ranks that the assumptions determine. They are not valid for other numbers.
        ruled = layouts.variants(setup.model, setup.assumptions, Plans.of(single, single, single)).ep is None
        self.bounded = hold(setup.assumptions) and (ruled or not has_experts(setup.model))
        self.tabled = self.bounded and len(self.depths) * int(np.prod(self.shape)) >= _TABLE_FROM
        if self.tabled:
            # Ranges end where collectives change (at full link domains), and where expert parallelism starts.
            domains = setup.hardware.link_domain * np.arange(1.0, 9.0)
            around = [*domains * (1.0 - 1e-9), *domains * (1.0 + 1e-9)]
            starts = [start for start in expert_thresholds(setup.model, setup.assumptions.experts) if start >= 1.0]
            self.edges = (
                _edges(accelerators.max(), _STAGES_PER_DOUBLING, around),
                _edges(batch.max(), _BATCHES_PER_DOUBLING, starts),
            )
            self.cells = [self._cells(depth) for depth in self.depths]

    def _cells(self, depth: Array) -> Indices:
        """Table index of each plan of one pipeline depth; 0 if the instance is too small for this depth."""
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
        """Lower bound on the step time of each instance [s]; 0 if the search uses no table of bounds."""
        if not self.tabled:
            return np.zeros(self.shape)
        table = self._table(new_tokens)
        for cells in self.cells:
            table.refine(cells[table.bound[cells] <= ceiling])
        return functools.reduce(np.minimum, (table.bound[cells] for cells in self.cells))

    def fastest(
        self, new_tokens: int, ceiling: Array | float, added: Callable[[Plans], Array] | None = None
    ) -> Fastest:
        """Find the plan with the shortest step time for each instance.

        Parameters
        ----------
        new_tokens : int
            Tokens per sequence and step [1].
        ceiling : ndarray, broadcastable to (...)
            Time limit; layouts with a longer step time may be skipped [s].
        added : callable, optional
            Function that returns the time of a plan that is added to the step time, for example to draft tokens [s].

        Returns
        -------
        Fastest
            Fastest plans; each plan is exact if its ``seconds`` do not exceed ``ceiling``.
        """
        # Plans with more stages than chips or sequences have an infinite bound. They are skipped even without a
        # ceiling.
        limit = np.minimum(np.broadcast_to(ceiling, self.shape).ravel(), np.finfo(float).max)
        best = np.full(limit.size, np.inf)
        cuts = np.zeros(limit.size, dtype=np.intp)
        ones = np.ones(limit.size)
        layouts, chosen = Plans.of(ones, ones, ones, new_tokens), defaultdict[str, Array](ones.copy)
        for level, depth in enumerate(self.depths):
            index, instances = self._promising(level, depth, new_tokens, np.minimum(limit, best))
            for part in _parts(instances):
                plans, seconds = self._evaluate(instances, part, added)
                least, first = seconds.min(axis=0), seconds.argmin(axis=0)
                better = np.nonzero(least < best[index[part]])
                improved = index[part[better]]
                cut, *variant = np.unravel_index(first[better], (self.cuts, *plans.shape[:-2]))
                layouts = plans.at((*variant, *better))
                best[improved], cuts[improved] = least[better], cut
                for name, array in layouts.arrays().items():
                    chosen[name][improved] = array
        plans = replace(layouts, **chosen)  # type: ignore[arg-type]
        return Fastest(best.reshape(self.shape), cuts.reshape(self.shape), plans)

    def _promising(self, level: int, depth: Array, new_tokens: int, limit: Array) -> tuple[Indices, Plans]:
        """Plans of one pipeline depth that fit in memory and may be within ``limit``, and their instances' indices."""
        if self.tabled:
            table, cells = self._table(new_tokens), self.cells[level].ravel()
            if depth.max() > 1.0:
                handoffs = np.broadcast_to(np.maximum(depth - 1.0, 0.0), self.shape).ravel()
                limit = limit - handoffs * _least_handoff(self.setup)
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
        kept = np.flatnonzero(self.needed(plans).fits & ~memory.too_deep(plans))
        return index[kept], plans.at((kept,))

    def _evaluate(self, instances: Plans, part: Indices, added: Callable[[Plans], Array] | None) -> tuple[Plans, Array]:
        """Plans of some instances, shape (..., n, k), and their step times, shape (cuts x variants, n, k) [s].

        ``part`` has the indices of the instances, see :func:`_parts`.
        """
        setup, row = self.setup, part[:, :1]
        grid = Plans.of(instances.accelerators[row], instances.batch[part], instances.pp[row], instances.new_tokens)
        plans = self.layouts.variants(setup.model, setup.assumptions, grid)
        needed = self.needed(plans)
        codes = (setup.reasons(plans, cut, needed) for cut in setup.assumptions.layout.tensor_layouts)
        possible = np.stack([np.broadcast_to(code == memory.FITS, plans.shape) for code in codes])
        if possible.all() or not plans.whole:
            seconds = np.where(possible, _seconds(setup, plans, added), np.inf)
        else:
            # Most variants with integer degrees do not divide the model evenly. They are not evaluated.
            seconds = np.full(possible.shape, np.inf)
            where = np.nonzero(possible.any(axis=0))
            evaluated = _seconds(setup, plans.at(where), added)
            flat = np.ravel_multi_index(where, plans.shape)
            of_cuts = seconds.reshape(self.cuts, -1)
            of_cuts[:, flat] = np.where(possible.reshape(self.cuts, -1)[:, flat], evaluated, np.inf)
        return plans, seconds.reshape(-1, *part.shape)


def _parts(instances: Plans) -> Iterator[Indices]:
    """Yield the indices of flat instances in groups that are evaluated together, shape (n, k).

    The instances of a row differ only in their batch, so that most quantities of a step have one value per row. Short
    rows repeat their last instance.
    """
    sizes, depths = instances.accelerators, instances.pp
    starts = np.flatnonzero((np.diff(sizes, prepend=0.0) != 0.0) | (np.diff(depths, prepend=0.0) != 0.0))
    lengths = np.diff(starts, append=sizes.size)
    alone = np.flatnonzero(np.repeat(lengths < _ROW, lengths))[:, None]
    yield from (alone[start : start + _CHUNK] for start in range(0, alone.size, _CHUNK))
    # Rows of similar length are evaluated together.
    order = np.argsort(lengths)[np.count_nonzero(lengths < _ROW) :]
    chunks = lengths[order].cumsum() // _CHUNK
    for chunk in np.unique(chunks).tolist():
        rows = order[chunks == chunk]
        yield starts[rows, None] + np.minimum(np.arange(lengths[rows[-1]]), lengths[rows, None] - 1)


def _seconds(setup: Setup, plans: Plans, added: Callable[[Plans], Array] | None) -> Array:
    """Time of plans for each split of weight matrices (1D, 2D) [s], shape (cuts, ...)."""
    seconds = np.stack(step_seconds(setup, plans))
    return seconds if added is None else seconds + added(plans)


class _Table:
    """Table of lower bounds on the step time, by ranges of stage size and micro-batch.

    Row 0 is for stages below one chip, and column 0 for micro-batches below one sequence.

    Attributes
    ----------
    bound : ndarray, shape (ranges,)
        Lower bound on the step time of all plans in each range [s].
    """

    def __init__(self, setup: Setup, layouts: Layouts, stage_edges: Array, batch_edges: Array, new_tokens: int) -> None:
        self.setup, self.layouts, self.new_tokens = setup, layouts, new_tokens
        self.stage_edges, self.batch_edges = stage_edges, batch_edges
        ends = np.append(stage_edges, stage_edges[-1] * 2.0)
        self.least, self.most = ends[:-1] * (1.0 - _ROUNDING), ends[1:] * (1.0 + _ROUNDING)
        bound = np.full((stage_edges.size + 1, batch_edges.size + 1), np.inf)
        smallest, largest = (self._plans(end[:, None], batch_edges[None, :]) for end in (self.least, self.most))
        bound[1:, 1:] = range_bound(setup, smallest, largest) * (1.0 - _ROUNDING)
        self.bound = bound.ravel()
        self.known = np.isinf(self.bound)

    def _plans(self, stage: Array, micro_batch: Array) -> Plans:
        return Plans.of(stage, micro_batch, np.ones((1,) * stage.ndim), self.new_tokens)

    def refine(self, cells: Indices) -> None:
        """Raise the bounds of some ranges by the attention time, which is slower to compute."""
        unknown = np.zeros(self.bound.size, dtype=bool)
        unknown[cells] = True
        unknown &= ~self.known
        self.known |= unknown
        new = np.flatnonzero(unknown)
        setup = self.setup
        for start in range(0, new.size, _CHUNK):
            part = new[start : start + _CHUNK]
            row, column = np.divmod(part, self.batch_edges.size + 1)
            ends, batch = np.stack([self.least[row - 1], self.most[row - 1]]), self.batch_edges[column - 1]
            ranks = self.layouts.attention_ranks(setup.model, setup.assumptions, ends)
            smallest, largest = (self._plans(end, batch) for end in ends)
            first = replace(smallest, attention_ranks=ranks[:, 0])
            last = replace(largest, attention_ranks=ranks[:, 1])
            floors = attention_floor(setup, first, last)
            self.bound[part] = range_bound(setup, smallest, largest, floors) * (1.0 - _ROUNDING)


def _edges(largest: float, per_doubling: int, further: list[float]) -> Array:
    """Borders of ranges: a geometric series up to the largest value, and the additional borders ``further``."""
    steps = int(np.ceil(np.log2(max(largest, 1.0)) * per_doubling)) + 1
    # The first border is below 1 by the tolerance of the pipeline depth.
    regular = (1.0 - 2.0 * DEPTH_TOLERANCE) * 2.0 ** (np.arange(steps) / per_doubling)
    return np.unique(np.concatenate([regular, further]))
