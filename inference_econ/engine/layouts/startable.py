"""Which layouts an engine can start, and the rule that forbids each of the others."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ.engine.layouts.plans import Plans, has_experts
from inference_econ.inputs import EngineFacts, ModelSpec, ServingEngine, TensorLayout

#: Rules that forbid layouts, by code.
RuleCode = Literal[
    "model", "cut", "replicas", "single_ranks", "expert_groups", "stages", "uneven_stages", "context_ranks"
]
#: The same for people: {engines}, {model}, and what the layout needs to be.
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
    """A rule of an engine that plans may break."""

    code: RuleCode
    """Which."""
    where: npt.NDArray[np.bool_]
    """The plans that break it, broadcastable to their shape."""


def rule_text(code: RuleCode, engines: Sequence[ServingEngine], model: ModelSpec) -> str:
    """A rule that some engines have for a model, for people."""
    return RULES[code].format(engines=", ".join(engine.label for engine in engines), model=model.name)


def rules_of(
    engine: ServingEngine, model: ModelSpec, generation: str, plans: Plans, cut: TensorLayout = "1d"
) -> Iterator[Rule]:
    """The rules of an engine, with the plans that break each.

    Parameters
    ----------
    engine : ServingEngine
        At a version.
    model : ModelSpec
        What is served.
    generation : str
        Of the chips.
    plans : Plans
        Deployments in whole numbers, shape (...).
    cut : {'1d', '2d'}
        How weight matrices are cut.

    Yields
    ------
    Rule
        All rules there are for the model, broken by any plan or not.

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
    """Return whether groups of attention ranks of an engine are one instance, and not replicas of the whole model.

    They share work only in experts, or where the engine cuts dense parts over all of them.
    """
    support = facts.support(model.architecture, generation)
    cut = has_experts(model) or "dense_layers" not in facts.replicated_under_attention_dp
    return support is not None and support.attention_dp and cut


def can_start(
    engine: ServingEngine, model: ModelSpec, generation: str, plans: Plans, cut: TensorLayout = "1d"
) -> npt.NDArray[np.bool_]:
    """The plans that an engine can start, broadcastable to their shape; see :func:`rules_of`."""
    rules = rules_of(engine, model, generation, plans, cut)
    return np.asarray(~functools.reduce(np.logical_or, (rule.where for rule in rules)))


def any_takes_turns(
    engines: Sequence[ServingEngine], model: ModelSpec, generation: str, plans: Plans
) -> npt.NDArray[np.bool_]:
    """The plans whose steps some engine can run as two halves in turn, broadcastable to their shape.

    Engines hide exchanges of tokens with experts that lie on all ranks of a stage; any of them without engines.
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
    """The plans that at least one of some engines can start, broadcastable to their shape; all without engines."""
    if not engines:
        return np.ones((), dtype=bool)
    return functools.reduce(np.logical_or, (can_start(engine, model, generation, plans, cut) for engine in engines))
