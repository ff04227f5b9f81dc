"""Which deployments could be: arrays of plans, and the grids they come from (floor 4).

The arrays of a :class:`Plans` broadcast against each other, so that what depends on one
axis is stored, and later computed, once on that axis.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from inference_econ.formulas.pipeline import logarithmic_degrees
from inference_econ.spec.assumptions import Assumptions, TensorLayout
from inference_econ.spec.model import Attention, ModelSpec

Array = npt.NDArray[np.float64]

#: The study writes depths as rounded powers, so an exact comparison would lose the deepest one.
DEPTH_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Plans:
    """Deployments of one instance, as arrays that broadcast to one shape (...).

    Attributes
    ----------
    accelerators : ndarray
        Chips of the instance, N [1].
    batch : ndarray
        Sequences decoded at the same time by the instance, b [1].
    pp : ndarray
        Pipeline stages; each holds N / pp chips and works on b / pp sequences at a time [1].
    attention_ranks : ndarray
        Chips of a stage that share the attention weights, at most N / pp [1].
    ep : ndarray or None
        Expert-parallel ranks of a stage [1]; None leaves the choice to the assumptions' rule.
    new_tokens : int
        Tokens per sequence in one step: 1, or more when a draft is verified [1].
    whole : bool
        Degrees must be whole numbers that divide heads, layers and experts.
    """

    accelerators: Array
    batch: Array
    pp: Array
    attention_ranks: Array
    ep: Array | None
    new_tokens: int = 1
    whole: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the arrays broadcast to."""
        arrays = (self.accelerators, self.batch, self.pp, self.attention_ranks, self.ep)
        return np.broadcast_shapes(*(np.shape(array) for array in arrays if array is not None))

    @property
    def stage(self) -> Array:
        """Chips of one pipeline stage, T = N / pp [1]."""
        return self.accelerators / self.pp

    @property
    def micro_batch(self) -> Array:
        """Sequences that a stage works on at a time, u = b / pp [1]."""
        return self.batch / self.pp

    @classmethod
    def of(cls, accelerators: Array, batch: Array, pp: Array, new_tokens: int = 1) -> Plans:
        """Plans with attention on every chip of a stage, and experts by the assumptions' rule."""
        return cls(accelerators, batch, pp, accelerators / pp, None, new_tokens)

    def at(self, index: tuple[npt.NDArray[np.intp], ...]) -> Plans:
        """The plans at some positions of :attr:`shape`, as arrays of equal length."""
        shape = self.shape

        def pick(array: Array) -> Array:
            return np.broadcast_to(array, shape)[index]

        return replace(
            self,
            accelerators=pick(self.accelerators),
            batch=pick(self.batch),
            pp=pick(self.pp),
            attention_ranks=pick(self.attention_ranks),
            ep=None if self.ep is None else pick(self.ep),
        )

    def verifying(self, new_tokens: int) -> Plans:
        """The same deployments, with another number of tokens per sequence and step."""
        return replace(self, new_tokens=new_tokens)


def expert_ranks(plans: Plans, experts: int, sparsity: float, assumptions: Assumptions) -> Array:
    """Expert-parallel ranks of one stage for a block with ``experts`` experts [1], shape (...).

    With ``plans.ep`` given, it is that number. Otherwise experts are spread as far as there are chips and
    experts, unless the micro-batch is too small (Erdil 2025, published code; its text has no such limit).
    """
    if experts == 1:
        return np.ones(())
    if plans.ep is not None:
        return plans.ep
    if not assumptions.expert_parallel:
        return np.ones(())
    spread = np.minimum(plans.stage, experts)
    threshold = assumptions.expert_parallel_min_requests_per_sparsity * sparsity
    counted = plans.micro_batch
    if assumptions.expert_parallel_counts == "tokens":
        counted = counted * plans.new_tokens
    return np.where(counted < threshold, 1.0, spread)


def pipeline_depths(batch: Array, layers: int, assumptions: Assumptions) -> Array:
    """Real-valued pipeline depths of the study for each batch [1], shape (steps + 1, *batch.shape)."""
    deepest = np.full(batch.shape, float(layers))
    if assumptions.pipeline_deepest == "layers_or_batch":
        deepest = np.minimum(np.maximum(batch, 1.0), layers)
    return logarithmic_degrees(deepest, assumptions.pipeline_steps)


class Layouts(Protocol):
    """A family of layouts to choose from for each instance."""

    def depths(self, model: ModelSpec, assumptions: Assumptions, accelerators: Array, batch: Array) -> list[Array]:
        """Pipeline depths to try [1], each broadcastable to the instances; 0 where one has no such depth."""

    def variants(self, model: ModelSpec, assumptions: Assumptions, plans: Plans) -> Plans:
        """The same instances with a leading axis over where attention and experts run."""


@dataclass(frozen=True, slots=True)
class ContinuousLayouts:
    """The published study's layouts: every degree is a real number.

    Attributes
    ----------
    pipeline : bool
        Try pipeline depths other than 1.
    """

    pipeline: bool

    def depths(self, model: ModelSpec, assumptions: Assumptions, accelerators: Array, batch: Array) -> list[Array]:
        """1, then the study's logarithmic list."""
        del accelerators
        if not self.pipeline or assumptions.pipeline_steps == 0:
            return [np.ones([1] * batch.ndim)]
        return list(pipeline_depths(batch, model.layers, assumptions))

    def variants(self, model: ModelSpec, assumptions: Assumptions, plans: Plans) -> Plans:
        """Attention on T^(1 - j/steps) chips."""
        del model
        steps = assumptions.attention_scale_down_steps
        if steps == 0:
            return replace(plans, attention_ranks=plans.attention_ranks[None])
        shares = (np.arange(steps + 1) / steps).reshape(-1, *([1] * len(plans.shape)))
        return replace(plans, attention_ranks=plans.stage / plans.stage**shares)


@dataclass(frozen=True, slots=True)
class WholeLayouts:
    """Layouts in whole numbers that divide what they must.

    Attributes
    ----------
    pipeline : bool
        Try pipeline depths other than 1.
    """

    pipeline: bool

    def depths(self, model: ModelSpec, assumptions: Assumptions, accelerators: Array, batch: Array) -> list[Array]:
        """Depths that divide the layers of the model and the chips of the instance."""
        del assumptions
        deepest = model.layers if self.pipeline else 1
        found = []
        for depth in (depth for depth in range(1, deepest + 1) if model.layers % depth == 0):
            possible = (accelerators % depth == 0) & (batch % depth == 0)
            if possible.any():
                found.append(np.where(possible, float(depth), 0.0))
        return found

    def variants(self, model: ModelSpec, assumptions: Assumptions, plans: Plans) -> Plans:
        """Attention on T, T/2, ... chips, experts over T, T/2, ... ranks."""
        stage = plans.stage
        column = [-1, *([1] * len(plans.shape))]
        halvings = 2.0 ** np.arange(int(np.log2(stage.max())) + 1)
        parts = halvings if assumptions.attention_scale_down_steps else np.ones(1)
        spreads = halvings if has_experts(model) and assumptions.expert_parallel else None
        if spreads is None:
            return replace(plans, attention_ranks=stage / parts.reshape(column), ep=np.ones(()), whole=True)
        # Nearest pairs first: what a position means must not depend on how many halvings the largest stage has.
        pairs = sorted(itertools.product(parts, spreads), key=lambda pair: (max(pair), pair))
        shared, spread = np.array(pairs).T
        return replace(
            plans,
            attention_ranks=stage / shared.reshape(column),
            ep=stage / spread.reshape(column),
            whole=True,
        )


def has_experts(model: ModelSpec) -> bool:
    """Whether any layer is a mixture of experts."""
    return any(block.feed_forward.kind == "experts" for block in model.blocks)


def indivisible(
    model: ModelSpec, plans: Plans, layout: TensorLayout, assumptions: Assumptions
) -> list[tuple[str, npt.NDArray[np.bool_]]]:
    """What whole-number plans would have to split unevenly.

    Parameters
    ----------
    model : ModelSpec
        What is served.
    plans : Plans
        Deployments, shape (...).
    layout : {'1d', '2d'}
        How weight matrices are cut.
    assumptions : Assumptions
        Whether groups of attention ranks share the batch.

    Returns
    -------
    list of (str, ndarray of bool)
        What does not divide, and where, broadcastable to ``plans.shape``.
    """
    stage, ranks = plans.stage, plans.attention_ranks
    found = [
        ("the batch does not split into micro-batches", _uneven(plans.batch, plans.pp)),
        (f"{model.layers} layers do not split into the pipeline's stages", _uneven(model.layers, plans.pp)),
        ("the accelerators do not split into the pipeline's stages", _uneven(plans.accelerators, plans.pp)),
    ]
    if assumptions.attention_groups == "data_parallel":
        uneven = _uneven(plans.micro_batch, stage / ranks)
        found.append(("the micro-batch does not split over the groups of attention ranks", uneven))
    if layout == "2d":
        found.append(("a 2-D cut needs a square number of ranks", np.sqrt(ranks) % 1 > 0))
        found.append(("a 2-D cut needs a square number of ranks", np.sqrt(stage) % 1 > 0))
    for block in model.blocks:
        found += _indivisible_heads(block.attention, ranks)
        part = stage
        if block.feed_forward.kind == "none":
            continue
        if block.feed_forward.kind == "experts" and plans.ep is not None:
            experts = block.feed_forward.experts
            found.append((f"{experts} experts do not split over the expert-parallel ranks", _uneven(experts, plans.ep)))
            found.append(("the stage does not split over the expert-parallel ranks", _uneven(stage, plans.ep)))
            part = stage / plans.ep
        width = block.feed_forward.intermediate_size
        found.append((f"a feed-forward width of {width:g} does not split over the ranks", _uneven(width, part)))
    return found


def _indivisible_heads(spec: Attention, ranks: Array) -> list[tuple[str, npt.NDArray[np.bool_]]]:
    if spec.kind == "none":
        return []
    heads = spec.value_heads if spec.kind == "recurrent" else spec.query_heads
    name = "state" if spec.kind == "recurrent" else "query"
    found = [(f"{heads:g} {name} heads do not split over the attention ranks", _uneven(heads, ranks))]
    if spec.kind == "grouped_query":
        uneven = _uneven(spec.kv_heads, ranks) & _uneven(ranks, spec.kv_heads)
        found.append((f"{spec.kv_heads:g} KV heads neither split over nor repeat on the attention ranks", uneven))
    return found


def _uneven(whole: npt.ArrayLike, parts: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Whether ``whole`` does not split into a whole number of ``parts``, or their number is no whole one."""
    return np.asarray((np.mod(whole, parts) != 0) | (np.mod(parts, 1) != 0) | (np.asarray(parts) < 1))


@dataclass(frozen=True, slots=True)
class Grid:
    """Instances to consider: every pair of a size and a batch.

    Attributes
    ----------
    accelerators, batch : ndarray, shapes (n,) and (m,)
        [1]
    layouts : Layouts
        What to choose from for each pair.
    """

    accelerators: Array
    batch: Array
    layouts: Layouts

    def pairs(self) -> tuple[Array, Array]:
        """Every pair as an open grid: shapes (n, 1) and (1, m)."""
        return self.accelerators[:, None], self.batch[None, :]


def paper_grid(
    smallest: float, sparsity: float, *, pipeline: bool, points: int = 400, largest: float | None = None
) -> Grid:
    """The published study's grid, equal ratios in both directions.

    Parameters
    ----------
    smallest : float
        Instance that the weights just fill, p P / M; fractions of a chip allowed [1].
    sparsity : float
        Experts over active experts [1].
    pipeline : bool
        Try pipeline depths other than 1.
    points : int
        Sizes, and batches [1].
    largest : float, optional
        Drop larger instances [1].

    Notes
    -----
    Erdil (2025), published code: sizes 2^linspace(log2(smallest), 18), batches 2^linspace(0, 18 + log2(s)).
    """
    sizes = 2.0 ** np.linspace(np.log2(smallest), 18.0, points)
    batches = 2.0 ** np.linspace(0.0, 18.0 + np.log2(sparsity), points)
    return Grid(sizes if largest is None else sizes[sizes <= largest], batches, ContinuousLayouts(pipeline))


def whole_grid(smallest: float, *, pipeline: bool, largest: int | None = None, largest_batch: int = 65536) -> Grid:
    """Whole instances and batches that somebody could start.

    Parameters
    ----------
    smallest : float
        Instance that the weights just fill [1].
    pipeline : bool
        Try pipeline depths other than 1.
    largest : int, optional
        Largest instance [1]; by default 64, or four times the smallest if that is more.
    largest_batch : int
        Largest batch [1].
    """
    top = max(64, 4 * int(np.ceil(smallest))) if largest is None else largest
    sizes = _whole_steps(21)
    # Eight per doubling, with many divisors: micro-batches and attention groups split them.
    steps = _whole_steps(17)
    batches = steps[steps <= largest_batch].astype(float)
    sizes = np.unique(np.append(sizes, [int(np.ceil(smallest)), top]))
    chosen = sizes[(sizes >= smallest) & (sizes <= top)]
    return Grid(chosen.astype(float), batches, WholeLayouts(pipeline))


def _whole_steps(doublings: int) -> npt.NDArray[np.intp]:
    """Whole numbers from 1 on, eight in every doubling once there are as many."""
    return np.concatenate([np.arange(2**k, 2 ** (k + 1), max(1, 2**k // 8)) for k in range(doublings)])
