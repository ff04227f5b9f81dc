"""Which deployments could be: arrays of plans.

The arrays of a :class:`Plans` broadcast against each other, so that what depends on one
axis is stored, and later computed, once on that axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.inputs import (
    Assumptions,
    Attention,
    DenseFeedForward,
    ExpertAssumptions,
    ExpertFeedForward,
    LayoutAssumptions,
    ModelSpec,
    TensorLayout,
)

#: The study writes depths as rounded powers, so an exact comparison would lose the deepest one.
DEPTH_TOLERANCE = 1e-9

#: Copies of experts that a layout is offered with unasked, over all experts: 32 of 256 are common [1].
_MOST_COPIES = 1 / 8
#: Chips of a usual machine: where experts do not divide, layouts are offered for whole ones [1].
MACHINE = 8

#: What whole-number plans may have to split unevenly, by code.
ProblemCode = Literal[
    "batch", "layers", "stages", "accelerators", "stage", "square", "query_heads", "state_heads", "kv_heads",
    "context_ranks", "experts", "expert_ranks", "width", "blocks",
]  # fmt: skip
#: The same for people, with room for numbers.
PROBLEMS: Mapping[ProblemCode, str] = {
    "batch": "the batch does not split into micro-batches",
    "layers": "{} layers do not split into the pipeline's stages",
    "stages": "{0} layers fill at most {0} pipeline stages",
    "accelerators": "the accelerators do not split into the pipeline's stages",
    "stage": "the stage does not split into groups of attention ranks",
    "square": "a 2-D cut needs a square number of ranks",
    "query_heads": "{:g} query heads do not split over the attention ranks",
    "state_heads": "{:g} state heads do not split over the attention ranks",
    "kv_heads": "{:g} KV heads neither split over nor repeat on the attention ranks",
    "context_ranks": "{:g} ranks that share the tokens of a sequence need a tp that they divide, {:g} at least, and to "
    "divide the queries of a KV head",
    "experts": "{} experts do not split over the expert-parallel ranks",
    "expert_ranks": "the stage does not split over the expert-parallel ranks",
    "width": "a feed-forward width of {:g} does not split over the ranks",
    "blocks": "a feed-forward width of {:g} does not split over the ranks in whole quantisation blocks of {}",
}


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
    new_tokens : float
        Tokens per sequence in one step: 1, or more when a draft is verified or a prompt is read [1].
    prefill : bool
        The step reads prompts: only the last token of each sequence needs logits.
    whole : bool
        Degrees must be whole numbers that divide heads, layers and experts.
    dcp : float
        Attention ranks that split the tokens of each sequence's cache among them, of all plans alike [1].
    fullest : ndarray, float or None
        Sequences of the fullest group of attention ranks over the mean [1]; None if they are dealt out one by one, see
        :func:`fullest_group`.
    riding, riding_fullest : ndarray or float
        Prompt tokens of a micro-batch that are read beside its sequences [tokens]: all but attention works on them too;
        and those of the fullest group over the mean [1].
    """

    accelerators: Array
    batch: Array
    pp: Array
    attention_ranks: Array
    ep: Array | None
    new_tokens: float = 1
    whole: bool = False
    prefill: bool = False
    dcp: float = 1.0
    fullest: Array | float | None = None
    riding: Array | float = 0.0
    riding_fullest: Array | float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the arrays broadcast to."""
        return np.broadcast_shapes(*(np.shape(array) for array in self.arrays().values()))

    def arrays(self) -> dict[str, Array]:
        """The fields that are arrays, by name."""
        values = ((entry.name, getattr(self, entry.name)) for entry in fields(self))
        return {name: np.asarray(value) for name, value in values if isinstance(value, (np.ndarray, np.generic))}

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

        picked = {name: np.broadcast_to(array, shape)[index] for name, array in self.arrays().items()}
        return replace(self, **picked)  # type: ignore[arg-type]

    def row(self, index: int) -> Plans:
        """One of n flat plans, as arrays of shape (1,)."""
        return self.at((np.array([index]),))

    def column(self, batch: Array) -> Plans:
        """Plans of shape (...) with batches of their own beside each.

        Parameters
        ----------
        batch : ndarray, shape (..., k)
            Sequences decoded at the same time by each instance, in the place of its own [1].

        Examples
        --------
        >>> one = np.ones(3)
        >>> Plans.of(8.0 * one, one, one).column(np.array([[1.0, 2.0]] * 3)).shape
        (3, 2)
        """
        layouts = {name: array[..., None] for name, array in self.arrays().items() if name != "batch"}
        return replace(self, batch=batch, **layouts)  # type: ignore[arg-type]

    @classmethod
    def joined(cls, parts: Sequence[Plans]) -> Plans:
        """Flat plans one after the other; at least one part, and all with the same fields."""
        names = parts[0].arrays()
        joined = {name: np.concatenate([part.arrays()[name] for part in parts]) for name in names}
        return replace(parts[0], **joined)  # type: ignore[arg-type]

    def verifying(self, new_tokens: int) -> Plans:
        """The same deployments, with another number of tokens per sequence and step."""
        return replace(self, new_tokens=new_tokens)


def attention_groups(plans: Plans, assumed: LayoutAssumptions) -> Array | float:
    """Groups of attention ranks of a stage that work on sequences of their own [1]."""
    return plans.stage / plans.attention_ranks if assumed.attention_groups == "data_parallel" else 1.0


def fullest_group(plans: Plans, assumed: LayoutAssumptions) -> Array | float:
    """Sequences of the fullest group of attention ranks over the mean: all groups wait for it [1].

    Parameters
    ----------
    plans : Plans
        Deployments, shape (...).
    assumed : LayoutAssumptions
        Whether groups share the batch.

    Returns
    -------
    ndarray or float, broadcastable to (...)
        ceil(u / G) G / u for a micro-batch of u sequences over G groups that are dealt out one by one: 1 where G
        divides u, G for a lone sequence. Of a mean that is no whole number, as of the two numbers around it. 1 for
        layouts of real-valued degrees.

    Examples
    --------
    >>> from inference_econ.inputs import catalog
    >>> one, layout = np.ones(4), catalog.assumptions("deployable").layout
    >>> batch = np.array([1.0, 4.0, 5.0, 8.0])
    >>> fullest_group(Plans(4.0 * one, batch, one, one, one, whole=True), layout).tolist()
    [4.0, 1.0, 1.6, 1.0]
    """
    if assumed.attention_groups != "data_parallel":
        return 1.0
    if plans.fullest is not None:
        return plans.fullest
    groups = plans.stage / plans.attention_ranks
    if not plans.whole or np.all(groups == 1.0):
        return 1.0
    return dealt(plans.micro_batch, groups) * groups / plans.micro_batch


def dealt(sequences: Array, groups: Array) -> Array:
    """Sequences of the fullest of some groups to which they are dealt out one by one; of a mean, on average [1]."""
    below = np.floor(sequences)
    fewer, more = np.ceil(below / groups), np.ceil((below + 1.0) / groups)
    return np.asarray(fewer + (sequences - below) * (more - fewer))


def expert_ranks(plans: Plans, experts: int, sparsity: float, assumed: ExpertAssumptions) -> Array:
    """Expert-parallel ranks of one stage for a block with ``experts`` experts [1], shape (...).

    With ``plans.ep`` given, it is that number. Otherwise experts are spread as far as there are chips and
    experts, unless the micro-batch is too small (Erdil 2025, published code; its text has no such limit).
    """
    if experts == 1:
        return np.ones(())
    if plans.ep is not None:
        return plans.ep
    if not assumed.parallel:
        return np.ones(())
    spread = np.minimum(plans.stage, experts)
    threshold = assumed.parallel_min_requests_per_sparsity * sparsity
    counted = plans.micro_batch
    if assumed.parallel_counts == "tokens":
        counted = counted * plans.new_tokens
    return np.where(counted < threshold, 1.0, spread)


def expert_slots(experts: float, ranks: npt.ArrayLike, assumed: ExpertAssumptions) -> Array:
    """Experts that expert-parallel ranks hold together, copies included [1].

    Parameters
    ----------
    experts : float
        Different ones of a layer [1].
    ranks : array_like, shape (...)
        Expert-parallel ranks, each of which holds equally many [1].
    assumed : ExpertAssumptions
        Whether copies are held, and how many at least.

    Returns
    -------
    ndarray, shape (...)
        [1]; a multiple of the ranks wherever there are several and copies are held.

    Examples
    --------
    256 experts on 72 ranks take 288 places, four on each:

    >>> from inference_econ.inputs import catalog
    >>> expert_slots(256, [1, 8, 72], catalog.assumptions("deployable").experts)
    array([256., 256., 288.])
    """
    several = np.asarray(ranks, dtype=float)
    if assumed.redundant is None:
        return np.full(several.shape, float(experts))
    filled = np.ceil((experts + assumed.redundant) / several) * several
    return np.where(several > 1.0, filled, float(experts))


def has_experts(model: ModelSpec) -> bool:
    """Whether any layer is a mixture of experts."""
    return any(block.feed_forward.kind == "experts" for block in model.blocks)


def copied_by_groups(model: ModelSpec, assumed: LayoutAssumptions) -> bool:
    """Whether each group of attention ranks holds dense layers, embeddings and routers of its own."""
    held = assumed.attention_groups == "data_parallel" and assumed.group_copies == "held"
    return held and has_experts(model)


class Problem(NamedTuple):
    """Something that plans would have to split unevenly."""

    code: ProblemCode
    """What it is."""
    numbers: tuple[float, ...]
    """What its text is about [1]."""
    where: npt.NDArray[np.bool_]
    """The plans that have it, broadcastable to their shape."""

    @property
    def text(self) -> str:
        """For people."""
        return PROBLEMS[self.code].format(*self.numbers)


def indivisible(
    model: ModelSpec,
    plans: Plans,
    layout: TensorLayout,
    assumed: Assumptions,
    blocks: tuple[int, int] = (1, 1),
) -> list[Problem]:
    """What whole-number plans would have to split unevenly.

    Parameters
    ----------
    model : ModelSpec
        What is served.
    plans : Plans
        Deployments, shape (...).
    layout : {'1d', '2d'}
        How weight matrices are cut.
    assumed : Assumptions
        Whether groups of attention ranks share the batch, stages may differ by a layer, and copies of experts are held.
    blocks : (int, int)
        Elements that share a scale and must stay together, of dense matrices and of experts [1].

    Returns
    -------
    list of Problem
        Everything that has to divide, with where it does not.
    """
    stage, ranks = plans.stage, plans.attention_ranks
    problems = [
        Problem("batch", (), _uneven(plans.batch, plans.pp)),
        _unfilled_stages(model.layers, plans.pp, assumed.layout),
        Problem("accelerators", (), _uneven(plans.accelerators, plans.pp)),
        Problem("stage", (), _uneven(stage, ranks)),
    ]
    if layout == "2d":
        problems += [Problem("square", (), np.sqrt(size) % 1 > 0) for size in (ranks, stage)]
    for block in model.blocks:
        problems += _indivisible_heads(block.attention, ranks)
        if plans.dcp > 1:
            problems += indivisible_context(block.attention, ranks, plans.dcp)
        if block.feed_forward.kind != "none":
            dense = block.feed_forward.kind == "dense" and copied_by_groups(model, assumed.layout)
            cut = replace(plans, accelerators=ranks * plans.pp) if dense else plans
            problems += _indivisible_feed_forward(
                block.feed_forward, cut, assumed.experts, blocks, mixture=has_experts(model)
            )
    return problems


def _unfilled_stages(layers: int, depth: Array, assumed: LayoutAssumptions) -> Problem:
    """Depths of a pipeline that some layers do not split into, or leave without a layer in some stage."""
    if assumed.pipeline_stages == "even":
        return Problem("layers", (layers,), _uneven(layers, depth))
    return Problem("stages", (layers,), (depth > layers) | (np.mod(depth, 1) != 0))


def _indivisible_feed_forward(
    spec: DenseFeedForward | ExpertFeedForward,
    plans: Plans,
    assumed: ExpertAssumptions,
    blocks: tuple[int, int],
    *,
    mixture: bool,
) -> list[Problem]:
    """What a feed-forward part would have to split unevenly; engines keep dense layers of a mixture whole."""
    problems, ranks, unit = [], plans.stage, blocks[spec.kind == "experts"]
    if spec.kind == "experts" and plans.ep is not None:
        problems.append(Problem("experts", (spec.experts,), _without_expert(spec.experts, plans.ep, assumed)))
        problems.append(Problem("expert_ranks", (), _uneven(ranks, plans.ep)))
        ranks = ranks / plans.ep
    width = float(spec.intermediate_size)
    if unit > 1 and not width % unit and not (spec.kind == "dense" and mixture):
        return [*problems, Problem("blocks", (width, unit), _uneven(width / unit, ranks))]
    return [*problems, Problem("width", (width,), _uneven(width, ranks))]


def _without_expert(experts: int, ranks: Array, assumed: ExpertAssumptions) -> npt.NDArray[np.bool_]:
    """Whether experts do not split over ranks; copies fill what is left, while each has one of its own."""
    if assumed.redundant is None:
        return _uneven(experts, ranks)
    return np.asarray((np.mod(ranks, 1) != 0) | (ranks > experts + assumed.redundant))


def _heads(spec: Attention) -> float:
    if spec.kind == "none":
        return 1.0
    return float(spec.value_heads if spec.kind == "recurrent" else spec.query_heads)


def _indivisible_heads(spec: Attention, ranks: Array) -> list[Problem]:
    if spec.kind == "none":
        return []
    heads = _heads(spec)
    code: ProblemCode = "state_heads" if spec.kind == "recurrent" else "query_heads"
    problems = [Problem(code, (heads,), _uneven(heads, ranks))]
    if spec.kind == "grouped_query":
        uneven = _uneven(spec.kv_heads, ranks) & _uneven(ranks, spec.kv_heads)
        problems.append(Problem("kv_heads", (spec.kv_heads,), uneven))
    return problems


def indivisible_context(spec: Attention, ranks: Array, dcp: float) -> list[Problem]:
    """Ranks that cannot share the tokens of a sequence: vLLM's ``--decode-context-parallel-size``.

    It takes the place of copies of the cache, of which there are as many as ranks for each KV head.
    """
    if spec.kind in ("none", "recurrent"):
        return []
    heads, queries = kv_heads(spec), _heads(spec)
    wrong = _uneven(ranks, dcp) | (np.asarray(ranks) < dcp * heads) | bool(queries / heads % dcp)
    return [Problem("context_ranks", (dcp, dcp * heads), wrong)]


def kv_heads(spec: Attention) -> float:
    """Heads whose cache can lie on ranks of their own; a latent is one [1]."""
    return float(spec.kv_heads) if spec.kind == "grouped_query" else 1.0


def _uneven(whole: npt.ArrayLike, parts: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Whether ``whole`` does not split into a whole number of ``parts``, or their number is no whole one."""
    return np.asarray((np.mod(whole, parts) != 0) | (np.mod(parts, 1) != 0) | (np.asarray(parts) < 1))


def attention_degrees(model: ModelSpec) -> Array:
    """Numbers of chips that the heads of all layers split over, 1 at least [1], shape (n,)."""
    specs = [block.attention for block in model.blocks if block.attention.kind != "none"]
    most = max((_heads(spec) for spec in specs), default=1.0)
    return _even([where for spec in specs for _, _, where in _indivisible_heads(spec, _up_to(most))], most)


def expert_degrees(model: ModelSpec, assumed: ExpertAssumptions) -> Array:
    """Numbers of ranks that the experts of all layers split over, 1 at least [1], shape (n,).

    Where copies are held, also whole machines that need few of them: 72 ranks hold 288 of 256 experts.
    """
    experts = [block.feed_forward.experts for block in model.blocks if block.feed_forward.kind == "experts"]
    most = max(experts, default=1)
    return _even([_uneven(count, _up_to(most)) & ~_few_copies(count, _up_to(most), assumed) for count in experts], most)


def _few_copies(experts: int, ranks: Array, assumed: ExpertAssumptions) -> npt.NDArray[np.bool_]:
    if assumed.redundant is None:
        return np.zeros(ranks.shape, dtype=bool)
    copies = expert_slots(experts, ranks, assumed) - experts - assumed.redundant
    return np.asarray((copies <= _MOST_COPIES * experts) & (ranks % MACHINE == 0))


def _up_to(most: float) -> Array:
    return np.arange(1.0, np.floor(most) + 1.0)


def _even(uneven: list[npt.NDArray[np.bool_]], most: float) -> Array:
    """Numbers up to the largest where nothing is uneven."""
    possible = ~np.any([np.zeros(_up_to(most).shape, dtype=bool), *uneven], axis=0)
    possible[0] = True  # where nothing divides, one plan is left to say so
    return np.asarray(_up_to(most)[possible])
