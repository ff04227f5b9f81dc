"""List of all plans of a grid, including dominated plans, and the reasons why other plans cannot run."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array, Indices
from inference_econ.engine import (
    InstanceGrid,
    Instances,
    Plans,
    Setup,
    Speculation,
    WholeLayouts,
    bounds,
    indivisible,
    layout_keys,
    memory,
    needed_memory,
    rounds,
    step_seconds,
)
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money, pareto
from inference_econ.inputs import TensorLayout

if TYPE_CHECKING:
    import pandas as pd


#: Number of instances that are evaluated together [1].
_CHUNK = 2048
#: Maximum number of plans in a list [1]; it limits memory.
_MOST_PLANS = 1_000_000


@dataclass(frozen=True, slots=True)
class PlanTable:
    """Every feasible plan of a grid of instance sizes and batches, in arrays of shape (n,).

    Attributes
    ----------
    setup : Setup
        Model, chip, formats, assumptions and price.
    plans : Plans
        Instance sizes, batches and parallelism degrees.
    cut : ndarray of str
        Split of weight matrices, along one dimension (1D) or along both (2D).
    drafted : ndarray
        Fastest draft length of each plan [1]; 0 without speculation.
    seconds, dollars : ndarray
        Time per token [s] and cost [USD per 1e6 tokens].
    dominated : ndarray of bool
        True for a plan if another plan is at least as fast and as cheap, and faster or cheaper.
    infeasible : mapping of str to int
        Number of plans that cannot run, by reason.
    """

    setup: Setup
    plans: Plans
    cut: npt.NDArray[np.str_]
    drafted: Indices
    seconds: Array
    dollars: Array
    dominated: npt.NDArray[np.bool_]
    infeasible: Mapping[str, int]

    def __len__(self) -> int:
        return self.seconds.size

    @property
    def tokens_per_second(self) -> Array:
        """Output speed of one user [tokens/s]."""
        return 1.0 / self.seconds

    def subjects(self) -> tuple[Instances]:
        """All plans as instances, for a comparison with measured servers."""
        sizes, batches = self.plans.accelerators.tolist(), self.plans.batch.tolist()
        layouts = layout_keys(self.plans, self.setup.assumptions.layout)
        return (Instances(self.setup, sizes, batches, speculates=bool(self.drafted.any()), layouts=layouts),)

    def records(self) -> list[dict[str, object]]:
        """Return one record of plain data per plan."""
        columns = self._columns()
        layout = self.setup.layout_columns(self.plans, self.cut)
        rows: list[dict[str, object]] = []
        for index, (drafted, dominated) in enumerate(zip(self.drafted.tolist(), self.dominated.tolist(), strict=True)):
            record: dict[str, object] = {name: values[index] for name, values in layout.items()}
            if drafted:
                record["draft_tokens"] = drafted
            row = {name: values[index] for name, values in columns.items()}
            rows.append({**row, "layout": record, "dominated": dominated})
        return rows

    def to_frame(self) -> pd.DataFrame:
        """Plans as a data frame with one row per plan, including interval ends of speed and cost."""
        import pandas as pd

        (instances,) = self.subjects()
        numbers = {name: np.array(values) for name, values in self._columns().items()}
        columns = {
            **bounds.bounded(numbers, bounds.ends(instances, bounds.STEP)),
            **self.setup.layout_columns(self.plans, self.cut),
        }
        if self.drafted.any():
            columns["draft_tokens"] = self.drafted.tolist()
        return pd.DataFrame({**columns, "dominated": self.dominated})

    def _columns(self) -> dict[str, list[float] | list[str]]:
        return {
            "tokens_per_second_per_user": self.tokens_per_second.tolist(),
            "dollars_per_million_output_tokens": self.dollars.tolist(),
            "accelerators": self.plans.accelerators.tolist(),
            "batch": self.plans.batch.tolist(),
        }


def every_plan(
    setup: Setup,
    grid: InstanceGrid,
    *,
    speculation: Speculation | None = None,
    max_tokens_per_second: float | None = None,
) -> PlanTable:
    """Evaluate every plan of an integer grid.

    Parameters
    ----------
    setup : Setup
        Model, chip, formats, assumptions and price.
    grid : InstanceGrid
        Instance sizes, batches and layouts to evaluate.
    speculation : Speculation, optional
        Speculation method, which is used only where it is faster.
    max_tokens_per_second : float, optional
        Demand [tokens/s]. Instances whose fastest layout exceeds the demand are left out.

    Returns
    -------
    PlanTable
        Feasible plans of all instances, including dominated plans.

    Raises
    ------
    InputError
        If the grid has fractional degrees, as in the published study, or more feasible plans than a list may have.
    NothingFitsError
        If no plan is feasible.
    """
    if not isinstance(grid.layouts, WholeLayouts):
        raise InputError("plans can be listed on the grid 'whole'; the study's has millions of them")
    infeasible: Counter[str] = Counter()
    parts: list[_FeasiblePlans] = []
    for portion in candidates(setup, grid, speculation):
        infeasible += portion.infeasible()
        feasible = np.nonzero(portion.codes == memory.FITS)
        plans, cut = portion.plans.at(feasible), portion.cut
        if speculation is None:
            seconds = step_seconds(setup, plans)[setup.assumptions.layout.tensor_layouts.index(cut)]
            drafted = np.zeros(seconds.shape, dtype=np.intp)
        else:
            best = rounds(setup, plans, speculation, cut=cut, layouts=grid.layouts.unpinned()).best()
            seconds, drafted = best.seconds, best.length
        parts.append(_FeasiblePlans(portion.instances[feasible[-1]], plans, cut, seconds, drafted))
        if sum(part.seconds.size for part in parts) > _MOST_PLANS:
            raise InputError(
                f"more than {_MOST_PLANS:,} plans are feasible; pin a degree (tp, dp, pp, ep, batch, accelerators) or "
                "lower max_accelerators to list fewer"
            )
    if max_tokens_per_second is not None:
        quickest = np.full(grid.accelerators.size * grid.batch.size, np.inf)
        for part in parts:
            np.minimum.at(quickest, part.instances, part.seconds)
        sold = [part.plans.batch <= max_tokens_per_second * quickest[part.instances] for part in parts]
        infeasible[too_much(max_tokens_per_second)] = sum(int((~kept).sum()) for kept in sold)
        parts = [part.at(np.flatnonzero(kept)) for part, kept in zip(parts, sold, strict=True)]
    seconds = np.concatenate([np.empty(0), *(part.seconds for part in parts)])
    if seconds.size == 0:
        raise NothingFitsError(why_nothing_fits(setup, grid, max_tokens_per_second, speculation))
    plans = Plans.joined([part.plans for part in parts])
    dollars = money.dollars_per_million_tokens(
        plans.accelerators, seconds, plans.batch, setup.dollars_per_accelerator_hour
    )
    return PlanTable(
        setup,
        plans,
        np.concatenate([np.full(part.seconds.shape, part.cut) for part in parts]),
        np.concatenate([part.drafted for part in parts]),
        seconds,
        dollars,
        pareto.dominated(seconds, dollars),
        +infeasible,
    )


class Candidates(NamedTuple):
    """Feasible and infeasible plans of a grid with one split of weight matrices (1D or 2D)."""

    instances: Indices
    """Indices of the instances in the flattened grid, shape (n,)."""
    plans: Plans
    """Plans, shape (..., n)."""
    cut: TensorLayout
    """How weight matrices are split."""
    codes: Indices
    """Index in :data:`inference_econ.engine.memory.REASONS` of the reason why a plan cannot run, shape (..., n)."""

    def infeasible(self) -> Counter[str]:
        """Number of infeasible plans by reason, without plans whose degrees do not divide a pipeline stage."""
        plans = self.plans
        if plans.whole:
            made = np.mod(plans.stage, plans.attention_ranks) == 0
            if plans.ep is not None:
                made = made & (np.mod(plans.stage, plans.ep) == 0)
            codes = self.codes[np.broadcast_to(made, self.codes.shape)]
        else:
            codes = self.codes.ravel()
        counts = np.bincount(codes, minlength=len(memory.REASONS)).tolist()
        return Counter({memory.REASONS[code]: n for code, n in enumerate(counts) if n and code != memory.FITS})


def candidates(setup: Setup, grid: InstanceGrid, speculation: Speculation | None = None) -> Iterator[Candidates]:
    """Yield all plans of a grid in groups; the plans of a group have one pipeline depth.

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions.
    grid : InstanceGrid
        Instance sizes, batches and layouts to evaluate.
    speculation : Speculation, optional
        Speculation method; a draft model needs additional memory.

    Yields
    ------
    Candidates
        Plans, with the reasons why infeasible plans cannot run.
    """
    sizes, batches = grid.pairs()
    shape = (grid.accelerators.size, grid.batch.size)
    model, assumptions = setup.model, setup.assumptions
    for depth in grid.layouts.depths(model, assumptions, sizes, batches):
        index = np.flatnonzero(np.broadcast_to(depth > 0, shape))
        for start in range(0, index.size, _CHUNK):
            part = index[start : start + _CHUNK]
            size, batch, pp = (np.broadcast_to(axis, shape).ravel()[part] for axis in (sizes, batches, depth))
            plans = grid.layouts.variants(model, assumptions, Plans.of(size, batch, pp))
            needed = needed_memory(setup, plans, speculation)
            for cut in assumptions.layout.tensor_layouts:
                codes = np.broadcast_to(setup.reasons(plans, cut, needed), plans.shape)
                yield Candidates(part, plans, cut, codes)


class _FeasiblePlans(NamedTuple):
    """Feasible plans with their times per output token, as flat arrays."""

    instances: Indices
    plans: Plans
    cut: TensorLayout
    seconds: Array
    drafted: Indices

    def at(self, index: Indices) -> _FeasiblePlans:
        return _FeasiblePlans(
            self.instances[index], self.plans.at((index,)), self.cut, self.seconds[index], self.drafted[index]
        )


def why_nothing_fits(
    setup: Setup, grid: InstanceGrid, max_tokens_per_second: float | None = None, speculation: Speculation | None = None
) -> str:
    """Error message with the number of infeasible plans by reason, and the smallest sufficient instance size."""
    infeasible: Counter[str] = Counter()
    fitting = 0
    for portion in candidates(setup, grid, speculation):
        infeasible += portion.infeasible()
        fitting += int((portion.codes == memory.FITS).sum())
    listed = [f"{reason}: {infeasible[reason]}" for reason in memory.REASONS if infeasible[reason]]
    if max_tokens_per_second is not None and fitting:
        listed.append(f"{too_much(max_tokens_per_second)}: {fitting}")
    ones = np.ones(1)
    needed = needed_memory(setup, Plans.of(ones, ones, ones), speculation)
    weights, cache, available = needed.of_one_plan()
    message = (
        f"nothing fits: {setup.model.name} ({setup.precision.weights}) on {setup.hardware.name}, "
        f"{infeasible.total() + fitting} plans considered; {'; '.join(listed) or 'the grid is empty'}. "
    )
    if fitting:
        return f"{message}Every deployment that fits in memory produces more than is asked for"
    if available <= 0:
        return message + no_room(setup, needed, 1)
    return (
        f"{message}Weights need {weights / 1e9:.1f} GB, a sequence of {setup.context:g} tokens {cache / 1e9:.2f} GB, "
        f"an accelerator has {available / 1e9:.1f} GB for them: at least {int(np.ceil((weights + cache) / available))} "
        "accelerators are needed"
    )


def no_room(setup: Setup, needed: memory.Memory, accelerators: float) -> str:
    """Error text for a workspace of activations that leaves no memory for weights and KV cache, with advice."""
    workspace = float(np.ravel(needed.workspace_bytes)[0]) / accelerators
    assumed = setup.assumptions
    usable = setup.hardware.hbm_bytes * assumed.capacity.usable_memory
    return (
        f"The workspace of a step of {assumed.capacity.workspace_tokens:g} tokens takes {workspace / 1e9:.3g} GB, and "
        f"an accelerator has {usable / 1e9:.3g} GB: assumptions.capacity.workspace_tokens can be lowered"
    )


def too_much(max_tokens_per_second: float) -> str:
    """Text of the reason that plans produce more tokens than the demand."""
    return f"more than {max_tokens_per_second:g} tokens/s are produced"


def common_problems(setup: Setup, grid: InstanceGrid) -> list[str]:
    """Divisibility rules that every plan of a grid violates; empty if at least one plan meets all rules.

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions.
    grid : InstanceGrid
        Instance sizes, batches and layouts to evaluate.

    Returns
    -------
    list of str
        Rules that all plans violate. If no single rule is violated by all plans, the rule that most plans violate.
    """
    blocks = setup.precision.blocks
    total, counts = 0, Counter[str]()
    for portion in candidates(setup, grid):
        problems: dict[str, npt.NDArray[np.bool_]] = {}
        for problem in indivisible(setup.model, portion.plans, portion.cut, setup.assumptions, blocks):
            problems[problem.text] = problem.where | problems.get(problem.text, np.zeros((), dtype=bool))
        if not np.all(np.broadcast_to(functools.reduce(np.logical_or, problems.values()), portion.codes.shape)):
            return []
        total += portion.codes.size
        for text, uneven in problems.items():
            counts[text] += int(np.broadcast_to(uneven, portion.codes.shape).sum())
    if not total:
        return [f"no number of stages divides the {setup.model.layers} layers, the accelerators and the batch"]
    return [text for text, count in counts.items() if count == total] or [counts.most_common(1)[0][0]]
