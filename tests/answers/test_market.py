"""Candidate deployments: engines with their recipes, aggregated and disaggregated, and options that restrict them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.deployments import serving_options as market_module
from inference_econ.answers.deployments.deployment import layout_of
from inference_econ.answers.deployments.serving_options import Candidate, market, recipes_to_try
from inference_econ.engine import MACHINE, Space
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Requests, ServingEngine, engines_for, practices

SMALL = ("llama_3_8b", "h100_sxm")
REQUESTS = Requests(1000, 200)
SPACE = ie.Space(max_accelerators=2)


def candidates(model: str = SMALL[0], hardware: str = SMALL[1], **settings: Any) -> tuple[Candidate, ...]:
    """Return the candidate deployments of a request on a few chips."""
    apart = {name: settings.pop(name) for name in ("arrangement", "speculation", "slots", "among") if name in settings}
    requests, space = settings.pop("requests", REQUESTS), settings.pop("space", SPACE)
    return market(ie.Setup.of(model, hardware, **settings), requests, space, **apart)


def labels(*names: str, **settings: Any) -> list[str]:
    return [candidate.label for candidate in candidates(*names, **settings)]


def able() -> tuple[ServingEngine, ...]:
    """Return the engines that support the small model in 16 bits on its chip."""
    setup = ie.Setup.of(*SMALL)
    return engines_for(setup.model, setup.hardware, setup.precision)


def engines(found: tuple[Candidate, ...]) -> set[str]:
    return {candidate.engine for candidate in found}


def test_every_practice_of_every_engine_competes_together_and_apart() -> None:
    """Compare with the recipes of each engine alone; a recipe without a cache format has a 16-bit cache."""
    setup = ie.Setup.of(*SMALL)
    expected = []
    for engine in able():
        for practice in practices(engine.name, setup.model, setup.hardware):
            proposes = "" if practice.proposer is None else f", {practice.proposer.upper()} {practice.draft_length}"
            recipe = f"{engine.label} ({practice.kv or 'bf16'} cache{proposes}"
            expected += [f"{recipe})", f"{recipe}, disaggregated)"]
    assert sorted(labels()) == sorted(set(expected))
    assert len(expected) > 6


def test_nobody_serves_as_the_mean_of_all_engines() -> None:
    """Each engine has its own profile, and no candidate uses the profile of the GPU generation."""
    found = candidates()
    assert ie.Setup.of(*SMALL).assumptions.name == "profiles/hopper"
    profiles = {candidate.engine: candidate.setup.assumptions.name for candidate in found}
    assert profiles == {engine.label: f"profiles/{engine.name}_hopper" for engine in able()}
    assert all(len(candidate.setup.engines) == 1 for candidate in found)


def test_recipes_give_the_cache_and_the_proposer() -> None:
    """TensorRT-LLM's recipes on B200 have a narrow cache without speculation and a wide cache with EAGLE."""
    found = candidates("gpt_oss_120b", "b200", engine="trtllm", arrangement="aggregated", space=ie.Space(ie.Pins(tp=2)))
    assert [(candidate.setup.precision.kv, candidate.practice) for candidate in found] == [
        ("fp8", "fp8 cache"),
        ("bf16", "bf16 cache, EAGLE 3"),
    ]
    assert found[0].speculation is None
    assert found[1].speculation is not None and found[1].speculation.longest == 3


@pytest.mark.parametrize(
    ("arrangement", "apart"), [("aggregated", {False}), ("disaggregated", {True}), ("both", {False, True})]
)
def test_arrangements(arrangement: Any, apart: set[bool]) -> None:
    found = candidates(engine="sglang", arrangement=arrangement)
    assert {candidate.pools is not None for candidate in found} == apart
    with pytest.raises(InputError, match=r"arrangement: got 'beside'; allowed: both, aggregated, disaggregated"):
        candidates(arrangement="beside")


# Engines that are named


def test_an_engine_that_is_named_is_alone_and_named_twice_competes_once() -> None:
    alone = labels(engine="vllm")
    assert alone == labels(engine=["vllm"]) == labels(engine=["vllm", "vllm", "vllm@0.33.0"])
    assert all(label.startswith("vllm 0.33.0 (") for label in alone)


def test_versions_of_an_engine_compete() -> None:
    assert engines(candidates(engine=["vllm", "vllm@0.24.0"])) == {"vllm 0.33.0", "vllm 0.24.0"}


@pytest.mark.rows
def test_engines_that_cannot_be_named(names: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        candidates(engine=names)


def test_an_engine_that_cannot_start_what_is_pinned_leaves_it_to_others() -> None:
    """Only SGLang supports experts on half of the ranks of attention-DP groups."""
    space = ie.Space(ie.Pins(tp=2, dp=4, ep=2))
    assert engines(candidates("qwen3_235b_a22b", "h200_sxm", space=space)) == {"sglang 0.5.23"}


def test_where_all_fail_one_message_says_why() -> None:
    with pytest.raises(InputError, match=r"is replicas in sglang 0\.5\.23, trtllm \S+, vllm 0\.33\.0, each") as caught:
        candidates(space=ie.Space(ie.Pins(tp=2, dp=2)))
    assert str(caught.value).count("replicas") == 1
    message = r"nothing fits: the weights of Llama 3\.1 70B \(bf16\) alone need 2 acc"
    with pytest.raises(NothingFitsError, match=message):
        candidates("llama_3_70b", space=ie.Space(max_accelerators=1))


def test_an_engine_that_hands_no_cache_on_serves_together_only() -> None:
    found = candidates("llama_3_8b", "rtx_3090", weights="q4_k_m")
    assert [candidate.label for candidate in found] == ["llama_cpp 2026-10 (bf16 cache)"]


def test_chips_without_engines_are_served_by_no_engine() -> None:
    found = candidates("llama_3_8b", "tpu_v5e", arrangement="aggregated")
    assert engines(found) == {""}
    assert [candidate.label for candidate in found] == ["deployable (bf16 cache)"]


def test_any_layout_is_tried_under_every_profile() -> None:
    found = candidates(engine="any", arrangement="aggregated", speculation=None)
    assert [candidate.label for candidate in found] == [
        f"profiles/{engine.name}_hopper (bf16 cache)" for engine in able()
    ]


# Options that restrict the candidates


def test_what_ifs_of_assumptions_hold_under_every_profile() -> None:
    half, usual = (
        candidates(changes=[f"assumptions.chip.product_efficiency={share}"], arrangement="aggregated")
        for share in (0.4, 0.8)
    )
    assert {candidate.engine for candidate in half} == {engine.label for engine in able()}
    assert {candidate.setup.assumptions.chip.product_efficiency for candidate in half} == {0.4}
    # Steps of one request read the weights, so they are slower.
    for slow, quick in zip(half, usual, strict=True):
        assert slow.label == quick.label
        assert slow.metrics.tpot_seconds[0, 0] > 1.2 * quick.metrics.tpot_seconds[0, 0]
    versions = candidates(changes=["assumptions.capacity.usable_memory=0.5"], engine="vllm", arrangement="aggregated")
    assert {candidate.setup.assumptions.capacity.usable_memory for candidate in versions} == {0.5}


def test_assumptions_that_are_given_are_those_of_every_engine() -> None:
    found = candidates(assumptions="profiles/hopper", arrangement="aggregated")
    assert {candidate.setup.assumptions.name for candidate in found} == {"profiles/hopper"}
    assert {candidate.speculation for candidate in found} == {None}
    assert labels(assumptions="profiles/hopper", arrangement="aggregated") == [
        f"{engine.label} (bf16 cache)" for engine in able()
    ]
    (own,) = candidates(assumptions="profiles/hopper", engine="vllm", arrangement="aggregated")
    assert own.label == "vllm 0.33.0 (bf16 cache)"


@pytest.mark.parametrize("assumptions", [None, "deployable", "profiles/hopper"])
@pytest.mark.parametrize("engine", [None, "any"])
def test_no_candidate_has_facts_of_two_engines(assumptions: str | None, engine: str | None) -> None:
    """Only SGLang and TensorRT-LLM delay prefill of attention-DP groups."""
    setup = ie.Setup.of(*SMALL, assumptions=assumptions, engine=engine)
    held = {
        practised.setup.engines[0].name: practised.setup.held_steps
        for practised in recipes_to_try(setup)
        if practised.setup.engines
    }
    assert held == ({} if engine else {"sglang": 30, "trtllm": 50, "vllm": 0})
    # Without an engine, layouts are limited by the engine of their profile, if there is one.
    free = {practised.setup.held_steps for practised in recipes_to_try(setup) if not practised.setup.engines}
    bounds = {None: {0, 30, 50}, "deployable": {50}, "profiles/hopper": {0}}
    assert free == (bounds[assumptions] if engine else set())


def test_a_version_of_an_engine_has_its_own_facts() -> None:
    setup = ie.Setup.of(*SMALL, engine="sglang@0.5.6.post2")
    assert setup.assumptions.host.engine == "sglang"
    assert setup._engine_facts is setup.engines[0].facts
    several = ie.Setup.of(*SMALL, assumptions="deployable")
    assert (len(several.engines), several.held_steps, several.admission) == (3, 0, None)


def test_a_cache_that_is_given_is_that_of_all() -> None:
    usual = candidates("gpt_oss_120b", "b200", arrangement="aggregated", space=ie.Space(ie.Pins(tp=1)))
    wide = candidates("gpt_oss_120b", "b200", kv="bf16", arrangement="aggregated", space=ie.Space(ie.Pins(tp=1)))
    assert {candidate.setup.precision.kv for candidate in usual} == {"bf16", "fp8"}
    assert {candidate.setup.precision.kv for candidate in wide} == {"bf16"}


def test_a_proposer_that_is_given_is_that_of_all() -> None:
    proposer = ie.Speculation.of("ngram", 0.5)
    assert {candidate.speculation for candidate in candidates(speculation=None)} == {None}
    assert {candidate.speculation for candidate in candidates(speculation=proposer)} == {proposer}
    usual = list(recipes_to_try(ie.Setup.of(*SMALL)))
    assert {practised.speculation is None for practised in usual} == {True, False}
    # Recipes that differ only by speculation method are one candidate then.
    assert len(list(recipes_to_try(ie.Setup.of(*SMALL), None))) == len(able()) < len(usual)


def test_only_those_of_some_labels() -> None:
    wanted = labels()[1::3]
    assert labels(among=wanted) == wanted
    message = r"^no candidate is called nobody; there are sglang 0\.5\.23 \(bf16 cache\)"
    with pytest.raises(NothingFitsError, match=message):
        candidates(among=["nobody"])


@pytest.mark.parametrize("settings", [{"space": ie.Space(ie.Pins(tp=2))}, {"slots": 4}])
def test_without_open_degrees_and_slots_there_are_no_pools(settings: dict[str, Any]) -> None:
    assert {candidate.pools for candidate in candidates(**settings)} == {None}
    with pytest.raises(NothingFitsError, match=r"^no disaggregated deployment of Llama 3\.1 8B on .* is possible"):
        candidates(arrangement="disaggregated", **settings)


def test_an_answer_of_one_token_needs_no_pools() -> None:
    requests = Requests(1000, 1)
    assert {candidate.pools for candidate in candidates(requests=requests)} == {None}
    with pytest.raises(InputError, match=r"^an answer of 1 token needs no decode pool; give answers \(osl\) of 2"):
        candidates(arrangement="disaggregated", requests=requests)


# Sizes


def test_instances_stay_on_one_machine_that_holds_the_model() -> None:
    both, apart = candidates("qwen3_30b_a3b", engine="sglang", space=None, speculation=None)
    assert both.plans.accelerators.max() == apart.plans.accelerators.max() == MACHINE
    both, apart = candidates("deepseek_v3", "h200_sxm", engine="vllm", space=None, speculation=None)
    assert both.plans.accelerators.max() == apart.plans.accelerators.max() == MACHINE
    (pinned,) = candidates("qwen3_30b_a3b", engine="sglang", space=ie.Space(max_accelerators=16), speculation=None)[:1]
    assert pinned.plans.accelerators.max() == 16


def test_a_model_of_several_machines_is_served_on_the_fewest() -> None:
    """Weights of 671 GB on chips of 80 GB need two machines of eight."""
    (both,) = candidates("deepseek_v3", engine="sglang", space=None, speculation=None, arrangement="aggregated")
    assert set(both.plans.accelerators.tolist()) == {16.0}


def test_pools_decode_as_layouts_that_are_asked_for_apart() -> None:
    setup, requests = ie.Setup.of("deepseek_v3", "h200_sxm"), Requests(isl=2000, osl=500)
    shared = 0
    for practised in recipes_to_try(setup):
        layouts = market_module._usual(practised, requests, Space(), apart=False)
        alike = market_module._alike(practised, layouts, Space())
        if alike is None:
            continue
        shared += 1
        alone = market_module._usual(practised, requests, Space(), apart=True)
        assert alike.setup == alone.setup
        for name in ("decode_seconds", "concurrency", "tpot_seconds"):
            np.testing.assert_array_equal(getattr(alike.states, name), getattr(alone.states, name))
        np.testing.assert_array_equal(alike.decoding()[1], alone.decoding()[1])
    assert shared >= 3


@pytest.mark.parametrize(("model", "chip"), [("gpt_oss_120b", "b200"), ("qwen3_32b", "h100_sxm")])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_load_of_what_is_recommended_says_the_same(model: str, chip: str, engine: str) -> None:
    """Both commands use the cache format of the recipe without an option."""
    setup, requests = ie.Setup.of(model, chip, engine=engine), ie.Requests(isl=2000, osl=500)
    usual = practices(engine, setup.model, setup.hardware)[0].kv or "bf16"
    assert setup.precision.kv == usual
    offers = ie.candidates(setup, requests, speculation=None, arrangement="aggregated")
    (choice, *_) = ie.recommend(offers, 10.0, ie.Targets(), play=False).choices
    tp, dp, pp, ep = (int(layout_of(choice.service)[name]) for name in ("tp", "dp", "pp", "ep"))
    space = ie.Space(ie.Pins(tp=tp, dp=dp, pp=pp, ep=ep))
    same = ie.candidates(setup, requests, space, speculation=None, arrangement="aggregated")
    (point,) = ie.load(same, [10.0], replicas=choice.replicas, simulate=False).points
    assert point.closed.ttft_seconds["p90"] == pytest.approx(choice.load.ttft_seconds["p90"], rel=1e-9)
    # Another engine, or a word, may have it otherwise.
    assert ie.Setup.of(model, chip, engine=engine, kv="bf16").precision.kv == "bf16"
