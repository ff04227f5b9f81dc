"""Layouts that an engine can start, and the rules that exclude all other layouts."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine.layouts.plans import Plans, copied_by_groups, expert_slots, has_experts
from inference_econ.inputs import (
    Assumptions,
    Attention,
    EngineFacts,
    ExpertAssumptions,
    FeedForward,
    ModelSpec,
    ServingEngine,
    TensorLayout,
)

#: Codes of the rules that exclude layouts.
RuleCode = Literal[
    "model", "cut", "replicas", "single_ranks", "expert_groups", "stages", "uneven_stages", "context_ranks"
]
#: Texts of the rules for users. Placeholders are {engines}, {model} and the requirement.
RULES: Mapping[RuleCode, str] = {
    "model": "{model} is not known to be in {engines} there",
    "cut": "matrices are cut in one dimension in {engines}",
    "replicas": "data parallelism of {model} is replicas in {engines}, each an instance of its own: dp must be 1",
    "single_ranks": "ranks attend alone or all together in {engines}: tp or dp must be 1",
    "expert_groups": "experts lie on all tp x dp ranks of a stage in {engines}, or are cut over them: ep must be "
    "tp x dp, or 1",
    "stages": "there is no pipeline parallelism of {model} in {engines}: pp must be 1",
    "uneven_stages": "stages have equally many layers in {engines}: pp must divide them",
    "context_ranks": "there is no decode context parallelism inside of tp in {engines}: dcp must be 1",
}


class Rule(NamedTuple):
    """Rule of an engine that excludes layouts, with the plans that violate the rule."""

    code: RuleCode
    """Identifier of the rule."""
    where: npt.NDArray[np.bool_]
    """True for plans that violate the rule, broadcastable to the shape of the plans."""


def rule_text(code: RuleCode, engines: Sequence[ServingEngine], model: ModelSpec) -> str:
    """Text for users that explains a rule of some engines for a model."""
    return RULES[code].format(engines=", ".join(engine.label for engine in engines), model=model.name)


def rules_of(
    engine: ServingEngine, model: ModelSpec, generation: str, plans: Plans, cut: TensorLayout = "1d"
) -> Iterator[Rule]:
    """Yield the rules by which an engine excludes layouts of a model.

    Parameters
    ----------
    engine : ServingEngine
        Engine version.
    model : ModelSpec
        Model that is served.
    generation : str
        Generation of the chips that run the model.
    plans : Plans
        Deployments with integer parallelism degrees, shape (...).
    cut : {'1d', '2d'}
        Split of weight matrices, along one dimension (1D) or along both (2D).

    Yields
    ------
    Rule
        Each rule that concerns the model, with the plans that violate the rule; possibly none.

    Examples
    --------
    >>> from inference_econ.inputs import catalog
    >>> vllm, llama = ServingEngine("vllm", catalog.engine("vllm").at()), catalog.model("llama_3_70b")
    >>> one = np.ones(2)
    >>> pairs = Plans(4.0 * one, one, one, np.array([4.0, 2.0]), one, whole=True)
    >>> [rule.where.tolist() for rule in rules_of(vllm, llama, "hopper", pairs) if rule.code == "replicas"]
    [[False, True]]
    """
    facts, stage, ranks = engine.facts, np.asarray(plans.stage), np.asarray(plans.attention_ranks)
    support, apart = facts.support(model.architecture, generation), stage != ranks
    if support is None:
        yield Rule("model", np.ones((), dtype=bool))
        return
    yield Rule("cut", np.asarray(cut != "1d"))
    if not groups_share_work(facts, model, generation):
        yield Rule("replicas", apart)
    elif facts.attention_groups == "single_ranks":
        yield Rule("single_ranks", apart & (ranks != 1))
    if has_experts(model) and plans.ep is not None and facts.expert_groups == "dp_x_tp":
        yield Rule("expert_groups", (plans.ep != 1) & (plans.ep != stage))
    if not support.pipeline:
        yield Rule("stages", np.asarray(plans.pp != 1))
    elif facts.uneven_pipeline == "refused":
        yield Rule("uneven_stages", np.asarray(np.mod(model.layers, plans.pp) != 0))
    if plans.dcp > 1 and facts.decode_context_parallel != "within_tp":
        yield Rule("context_ranks", np.ones((), dtype=bool))


def groups_share_work(facts: EngineFacts, model: ModelSpec, generation: str) -> bool:
    """True if the attention-DP groups of an engine share work; False if each group is a replica of the full model.

    Groups share the computation of experts. Groups also share dense layers if the engine splits dense layers over all
    groups.
    """
    support = facts.support(model.architecture, generation)
    cut = has_experts(model) or "dense_layers" not in facts.replicated_under_attention_dp
    return support is not None and support.attention_dp and cut


def can_start(
    engine: ServingEngine, model: ModelSpec, generation: str, plans: Plans, cut: TensorLayout = "1d"
) -> npt.NDArray[np.bool_]:
    """True for plans that an engine can start, broadcastable to the shape of the plans; see :func:`rules_of`."""
    rules = rules_of(engine, model, generation, plans, cut)
    return np.asarray(~functools.reduce(np.logical_or, (rule.where for rule in rules)))


def any_takes_turns(
    engines: Sequence[ServingEngine], model: ModelSpec, generation: str, plans: Plans
) -> npt.NDArray[np.bool_]:
    """True for plans for which an engine supports two-batch overlap, broadcastable to the shape of the plans.

    Engines can overlap all-to-alls if each stage spreads the experts over all of its ranks. If no engines are given,
    the result is True for all such plans.
    """
    if plans.ep is None:
        return np.zeros((), dtype=bool)
    exchanging = (plans.ep > 1.0) & (plans.ep == plans.stage) & (plans.attention_ranks < plans.stage)
    if not engines or not exchanging.any():
        return np.asarray(exchanging)
    prefill = plans.prefill or bool(np.any(plans.riding))
    able = np.zeros((), dtype=bool)
    for engine in engines:
        ways = [way for way in engine.facts.overlap if way.kind == "two_batch"]
        if any(way.holds(model.architecture, generation, prefill=prefill) for way in ways):
            able = able | can_start(engine, model, generation, plans)
    return np.asarray(exchanging & able)


def any_can_start(
    engines: Sequence[ServingEngine], model: ModelSpec, generation: str, plans: Plans, cut: TensorLayout = "1d"
) -> npt.NDArray[np.bool_]:
    """True for plans that at least one engine can start; True for all plans if no engines are given."""
    if not engines:
        return np.ones((), dtype=bool)
    return functools.reduce(np.logical_or, (can_start(engine, model, generation, plans, cut) for engine in engines))


#: Largest number of copies of experts in default searches, as a share of all experts [1]; 32 copies of 256 experts are
#: common.
_MOST_COPIES = 1 / 8
#: Number of chips in a typical machine [1]. Layouts with copies of experts have a multiple of this number of ranks.
MACHINE = 8

#: Identifiers of the parts of a model or batch that integer degrees may split unevenly.
ProblemCode = Literal[
    "batch", "layers", "stages", "accelerators", "stage", "square", "query_heads", "state_heads", "kv_heads",
    "context_ranks", "experts", "expert_ranks", "width", "blocks",
]  # fmt: skip
#: Texts of the uneven splits for users, with placeholders for numbers.
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


class UnevenSplit(NamedTuple):
    """Part of a model or batch that some plans would split unevenly, with these plans."""

    code: ProblemCode
    """Identifier of the part that is split unevenly."""
    numbers: tuple[float, ...]
    """Numbers for the placeholders in the text [1]."""
    where: npt.NDArray[np.bool_]
    """True for plans that split the part unevenly, broadcastable to the shape of the plans."""

    @property
    def text(self) -> str:
        """Text for users that describes the uneven split."""
        return PROBLEMS[self.code].format(*self.numbers)


def indivisible(
    model: ModelSpec, plans: Plans, layout: TensorLayout, assumed: Assumptions, blocks: tuple[int, int] = (1, 1)
) -> list[UnevenSplit]:
    """Check whether the parallelism degrees of plans divide the model and the batch evenly.

    Parameters
    ----------
    model : ModelSpec
        Model that is served.
    plans : Plans
        Deployments, shape (...).
    layout : {'1d', '2d'}
        Split of weight matrices, along one dimension (1D) or along both (2D).
    assumed : Assumptions
        Assumptions about attention-DP groups, uneven stages, and copies of experts.
    blocks : (int, int)
        Number of weights that share a quantization scale and must stay together, in dense matrices and in experts [1].

    Returns
    -------
    list of UnevenSplit
        All divisibility rules, each with the plans that violate the rule.
    """
    stage, ranks, layers = plans.stage, plans.attention_ranks, model.layers
    filled = UnevenSplit("layers", (layers,), _uneven(layers, plans.pp))
    if assumed.layout.pipeline_stages != "even":
        # Each pipeline stage must have at least one layer.
        filled = UnevenSplit("stages", (layers,), (plans.pp > layers) | (np.mod(plans.pp, 1) != 0))
    problems = [
        UnevenSplit("batch", (), _uneven(plans.batch, plans.pp)),
        filled,
        UnevenSplit("accelerators", (), _uneven(plans.accelerators, plans.pp)),
        UnevenSplit("stage", (), _uneven(stage, ranks)),
    ]
    if layout == "2d":
        problems += [UnevenSplit("square", (), np.sqrt(size) % 1 > 0) for size in (ranks, stage)]
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


def _indivisible_feed_forward(
    spec: FeedForward, plans: Plans, assumed: ExpertAssumptions, blocks: tuple[int, int], *, mixture: bool
) -> list[UnevenSplit]:
    """Uneven splits of a feed-forward block; blocks with a shared scale do not limit dense layers of MoE models."""
    problems, ranks, experts = [], plans.stage, spec.routed_experts
    if experts and plans.ep is not None:
        without = _uneven(experts, plans.ep)
        if assumed.redundant is not None:
            # Copies of experts make the number of experts per rank equal, if each rank has at least one expert of its
            # own.
            without = np.asarray((np.mod(plans.ep, 1) != 0) | (plans.ep > experts + assumed.redundant))
        problems.append(UnevenSplit("experts", (experts,), without))
        problems.append(UnevenSplit("expert_ranks", (), _uneven(ranks, plans.ep)))
        ranks = ranks / plans.ep
    width, unit = spec.cut_width, blocks[bool(experts)]
    if unit > 1 and not width % unit and not (mixture and not experts):
        return [*problems, UnevenSplit("blocks", (width, unit), _uneven(width / unit, ranks))]
    return [*problems, UnevenSplit("width", (width,), _uneven(width, ranks))]


def _indivisible_heads(spec: Attention, ranks: Array) -> list[UnevenSplit]:
    if spec.absent:
        return []
    code: ProblemCode = "state_heads" if spec.cache.has_state else "query_heads"
    problems = [UnevenSplit(code, (spec.heads,), _uneven(spec.heads, ranks))]
    heads = spec.cache.heads
    if heads > 1:
        problems.append(UnevenSplit("kv_heads", (heads,), _uneven(heads, ranks) & _uneven(ranks, heads)))
    return problems


def indivisible_context(spec: Attention, ranks: Array, dcp: float) -> list[UnevenSplit]:
    """Check the number of ranks that share the tokens of a sequence (vLLM's ``--decode-context-parallel-size``).

    Context-parallel ranks replace copies of the KV cache, so their number is at most the number of copies of a KV head.
    """
    if not spec.caches:
        return []
    heads = spec.cache.heads
    wrong = _uneven(ranks, dcp) | (np.asarray(ranks) < dcp * heads) | bool(spec.heads / heads % dcp)
    return [UnevenSplit("context_ranks", (dcp, dcp * heads), wrong)]


def _uneven(whole: npt.ArrayLike, parts: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """True if ``whole`` is not a multiple of ``parts``, or if ``parts`` is not a positive integer."""
    return np.asarray((np.mod(whole, parts) != 0) | (np.mod(parts, 1) != 0) | (np.asarray(parts) < 1))


def attention_degrees(model: ModelSpec) -> Array:
    """Numbers of chips that divide the heads of all layers, including 1, shape (n,) [1]."""
    specs = [block.attention for block in model.blocks]
    most = max(1.0, *(spec.heads for spec in specs))
    return _even([where for spec in specs for _, _, where in _indivisible_heads(spec, _up_to(most))], most)


def expert_degrees(model: ModelSpec, assumed: ExpertAssumptions) -> Array:
    """Numbers of ranks that divide the experts of all layers, including 1, shape (n,).

    If experts have copies, the numbers also include multiples of full machines that need few copies. For example, 72
    ranks store 288 experts, of which 256 are different.
    """
    experts = [mixture.experts for mixture in model.mixtures]
    most = max(experts, default=1)
    ranks, uneven = _up_to(most), []
    for count in experts:
        where = _uneven(count, ranks)
        if assumed.redundant is not None:
            copies = expert_slots(count, ranks, assumed) - count - assumed.redundant
            where = where & ~((copies <= _MOST_COPIES * count) & (ranks % MACHINE == 0))
        uneven.append(where)
    return _even(uneven, most)


def _up_to(most: float) -> Array:
    return np.arange(1.0, np.floor(most) + 1.0)


def _even(uneven: list[npt.NDArray[np.bool_]], most: float) -> Array:
    """Integers up to ``most`` that split every layer evenly, shape (n,) [1]."""
    possible = ~np.any([np.zeros(_up_to(most).shape, dtype=bool), *uneven], axis=0)
    possible[0] = True  # if no number divides all layers, the number 1 remains, so that one plan reports the problem
    return np.asarray(_up_to(most)[possible])
