"""Parts that layouts in whole numbers would have to split unevenly, and the degrees that do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine.layouts.plans import Plans, copied_by_groups, expert_slots, has_experts
from inference_econ.inputs import (
    Assumptions,
    Attention,
    ExpertAssumptions,
    FeedForward,
    LayoutAssumptions,
    ModelSpec,
    TensorLayout,
)

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


class Problem(NamedTuple):
    """Something that plans would have to split unevenly."""

    code: ProblemCode
    """Kind of the problem."""
    numbers: tuple[float, ...]
    """Numbers that its text is about [1]."""
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
    """Return the parts that whole-number plans would have to split unevenly.

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
        if not block.feed_forward.absent:
            dense = not block.feed_forward.routed_experts and copied_by_groups(model, assumed.layout)
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
    spec: FeedForward,
    plans: Plans,
    assumed: ExpertAssumptions,
    blocks: tuple[int, int],
    *,
    mixture: bool,
) -> list[Problem]:
    """Return what a feed-forward part would have to split unevenly; engines keep dense layers of a mixture whole."""
    problems, ranks, experts = [], plans.stage, spec.routed_experts
    if experts and plans.ep is not None:
        problems.append(Problem("experts", (experts,), _without_expert(experts, plans.ep, assumed)))
        problems.append(Problem("expert_ranks", (), _uneven(ranks, plans.ep)))
        ranks = ranks / plans.ep
    width, unit = spec.cut_width, blocks[bool(experts)]
    if unit > 1 and not width % unit and not (mixture and not experts):
        return [*problems, Problem("blocks", (width, unit), _uneven(width / unit, ranks))]
    return [*problems, Problem("width", (width,), _uneven(width, ranks))]


def _without_expert(experts: int, ranks: Array, assumed: ExpertAssumptions) -> npt.NDArray[np.bool_]:
    """Return whether experts do not split over ranks; copies fill what is left, while each has one of its own."""
    if assumed.redundant is None:
        return _uneven(experts, ranks)
    return np.asarray((np.mod(ranks, 1) != 0) | (ranks > experts + assumed.redundant))


def _indivisible_heads(spec: Attention, ranks: Array) -> list[Problem]:
    if spec.absent:
        return []
    code: ProblemCode = "state_heads" if spec.cache.has_state else "query_heads"
    problems = [Problem(code, (spec.heads,), _uneven(spec.heads, ranks))]
    heads = spec.cache.heads
    if heads > 1:
        problems.append(Problem("kv_heads", (heads,), _uneven(heads, ranks) & _uneven(ranks, heads)))
    return problems


def indivisible_context(spec: Attention, ranks: Array, dcp: float) -> list[Problem]:
    """Ranks that cannot share the tokens of a sequence: vLLM's ``--decode-context-parallel-size``.

    It takes the place of copies of the cache, of which there are as many as ranks for each KV head.
    """
    if not spec.caches:
        return []
    heads = spec.cache.heads
    wrong = _uneven(ranks, dcp) | (np.asarray(ranks) < dcp * heads) | bool(spec.heads / heads % dcp)
    return [Problem("context_ranks", (dcp, dcp * heads), wrong)]


def _uneven(whole: npt.ArrayLike, parts: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return whether ``whole`` does not split into a whole number of ``parts``, or their number is no whole one."""
    return np.asarray((np.mod(whole, parts) != 0) | (np.mod(parts, 1) != 0) | (np.asarray(parts) < 1))


def attention_degrees(model: ModelSpec) -> Array:
    """Numbers of chips that the heads of all layers split over, 1 at least [1], shape (n,)."""
    specs = [block.attention for block in model.blocks]
    most = max(1.0, *(spec.heads for spec in specs))
    return _even([where for spec in specs for _, _, where in _indivisible_heads(spec, _up_to(most))], most)


def expert_degrees(model: ModelSpec, assumed: ExpertAssumptions) -> Array:
    """Numbers of ranks that the experts of all layers split over, 1 at least [1], shape (n,).

    Where copies are held, also whole machines that need few of them: 72 ranks hold 288 of 256 experts.
    """
    experts = [mixture.experts for mixture in model.mixtures]
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
