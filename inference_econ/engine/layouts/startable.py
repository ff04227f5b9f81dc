"""Layouts that an engine can start, and the rules that exclude all other layouts."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine.layouts.pins import Pins, divisors, nearest
from inference_econ.engine.layouts.plans import Plans, copied_by_groups, expert_slots, has_experts
from inference_econ.engine.served import Served
from inference_econ.errors import InputError
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


#: Values to search for degrees that are not fixed, and for alternatives to fixed values that no engine can start [1].
_DEGREES = (1, 2, 4, 8, 16, 32, 64)
#: Weights in the distance between layouts [1]: of a factor of two in instance size, and of a factor of two in pipeline
#: stages that are not fixed. A factor of two in a fixed degree has the weight 1.
_SIZE_WEIGHT, _STAGES_WEIGHT = 4.0, 2.0


def check_startable(setup: Served, pins: Pins, cut: TensorLayout = "1d") -> None:
    """Reject fixed parallelism degrees that no engine can start for any values of the other degrees.

    Parameters
    ----------
    setup : Served
        Engines, model and chip; if no engines are given, all degrees are accepted.
    pins : Pins
        Fixed parallelism degrees, as integers.
    cut : {'1d', '2d'}
        Split of weight matrices, along one dimension (1D) or along both (2D).

    Raises
    ------
    InputError
        If no engine can start the fixed degrees. The message names the violated rules and the nearest layout that an
        engine can start.
    """
    if not setup.engines or not _degrees(pins):
        return
    if setup.assumptions.cpu.layers and (pins.size or pins.chips) > 1:
        raise InputError(f"--cpu-layers: layers on the CPU are modeled for one GPU (got {pins.text})", option="tp")
    if cut != "1d":
        text = rule_text("cut", setup.engines, setup.model)
        raise InputError(
            f"cut {cut}: {text}; nearest that can be started: 1d; any is answered with --any-layout", option="cut"
        )
    kept = _layouts(setup, {name: (int(value),) for name, value in _degrees(pins).items()}, pins.dcp)
    if kept is None or _able(setup, kept).any():
        return
    # For each engine, the message names the rule that most plans violate.
    broken: dict[RuleCode, list[ServingEngine]] = {}
    for engine in setup.engines:
        rules = rules_of(engine, setup.model, setup.hardware.generation, kept)
        worst = max(rules, key=lambda rule: np.broadcast_to(rule.where, kept.shape).sum())
        broken.setdefault(worst.code, []).append(engine)
    why = "; ".join(rule_text(code, engines, setup.model) for code, engines in broken.items())
    free = _layouts(setup, {name: (*_DEGREES, int(value)) for name, value in _degrees(pins).items()}, 1)
    raise InputError(
        f"{_text(_degrees(pins), pins.dcp)}: no layout with that can be started; {why}. "
        f"{_nearest(setup, free, pins)}; any layout is answered with --any-layout",
        option=next(iter(_degrees(pins)), "any_layout"),
    )


def _degrees(pins: Pins) -> dict[str, float]:
    return {name: value for name, value in pins.given().items() if name in ("tp", "dp", "pp", "ep")}


def _text(degrees: dict[str, float], dcp: float | None) -> str:
    listed = [f"{name}={value:g}" for name, value in degrees.items()]
    return ", ".join([*listed, *([f"dcp={dcp:g}"] if dcp and dcp > 1 else [])])


def _layouts(setup: Served, degrees: dict[str, Sequence[int]], dcp: float | None) -> Plans | None:
    """Plans with the given parallelism degrees that split the model evenly; None if no such plan exists."""
    axes = (dict.fromkeys(degrees.get(name, _DEGREES)) for name in ("tp", "dp", "pp"))
    rows = [
        (tp * dp * pp, tp, pp, ep)
        for tp, dp, pp in itertools.product(*axes)
        for ep in degrees.get("ep", divisors(tp, dp) if has_experts(setup.model) else (1,))
        if tp * dp % ep == 0 and pp <= setup.model.layers
    ]
    if not rows:
        return None
    size, ranks, pp, ep = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    plans = Plans(size, size * pp, pp, ranks, ep, whole=True, dcp=float(dcp or 1))
    uneven = [problem.where for problem in indivisible(setup.model, plans, "1d", setup.assumptions)]
    whole = ~np.any(np.broadcast_arrays(*uneven), axis=0)
    return plans.at((np.flatnonzero(np.broadcast_to(whole, plans.shape)),)) if whole.any() else None


def _able(setup: Served, plans: Plans) -> Array:
    """True for plans that at least one of the setup's engines can start."""
    able = any_can_start(setup.engines, setup.model, setup.hardware.generation, plans)
    return np.asarray(np.broadcast_to(able, plans.shape))


def _nearest(setup: Served, plans: Plans | None, pins: Pins) -> str:
    """Text with the most similar layout that an engine can start."""
    able = np.zeros(0, dtype=bool) if plans is None else _able(setup, plans)
    if plans is None or not able.any():
        return "None like it can be"
    some = plans.at((np.flatnonzero(able),))
    columns = {"tp": some.attention_ranks, "dp": some.stage / some.attention_ranks, "pp": some.pp, "ep": some.ep}
    wanted = _degrees(pins)
    chips = float(pins.chips)
    far = _SIZE_WEIGHT * np.abs(np.log2(some.accelerators / chips)) + sum(
        np.abs(np.log2(np.asarray(columns[name]) / value)) for name, value in wanted.items()
    )
    far = far + (wanted.get("pp", 1.0) == 1.0) * _STAGES_WEIGHT * np.log2(some.pp)
    best = int(np.argmin(far))
    shown = {name: float(np.asarray(column)[best]) for name, column in columns.items()}
    if not has_experts(setup.model):
        del shown["ep"]
    return f"Nearest that can be: {_text(shown, None)}"


def check_pins(model: ModelSpec, pins: Pins) -> None:
    """Reject parallelism degrees that a model does not support at any instance size.

    Parameters
    ----------
    model : ModelSpec
        Model that is served.
    pins : Pins
        Fixed parallelism degrees.

    Raises
    ------
    InputError
        If there are more pipeline stages than layers, or a stage cannot be divided into the expert-parallel ranks. If
        there are more context-parallel ranks than copies of the KV cache.
    """
    if pins.pp is not None and pins.pp > model.layers:
        raise InputError(
            f"pp={pins.pp}: the {model.layers} layers of {model.name} fill at most {model.layers} pipeline stages"
        )
    if pins.ep is not None and pins.tp is not None and pins.dp is not None:
        stage = int(pins.tp * pins.dp)
        if stage % pins.ep:
            raise InputError(
                f"ep={pins.ep}: the {stage} accelerators of a stage, tp x dp, do not split over {pins.ep} "
                f"expert-parallel ranks; nearest: {nearest(int(pins.ep), divisors(int(pins.tp), int(pins.dp)))}"
            )
    if pins.dcp is None or pins.tp is None:
        return
    dcp, specs, ranks = pins.dcp, [block.attention for block in model.blocks], np.asarray(float(pins.tp))
    problems = {
        degree: [problem for spec in specs for problem in indivisible_context(spec, ranks, degree)]
        for degree in divisors(pins.tp)
    }
    possible = [
        degree
        for degree, found in problems.items()
        if degree == 1 or not any(np.any(problem.where) for problem in found)
    ]
    if dcp not in possible:
        heads = max(spec.cache.heads for spec in specs)
        copies = max(pins.tp // heads, 1.0)
        raise InputError(
            f"dcp={dcp} on tp={pins.tp}: {model.name} has {heads:g} KV head{'' if heads == 1 else 's'}, so that its "
            f"ranks hold {copies:g} cop{'y' if copies == 1 else 'ies'} of a sequence's cache to share; "
            f"nearest: {nearest(dcp, possible)}"
        )
