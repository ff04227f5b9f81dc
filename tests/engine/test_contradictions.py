"""No setup contradicts itself: random setups of every kind, and setups that once did.

``benchmarks/random_setups.py`` draws models, chips, formats, presets and layouts. ``benchmarks/comparisons.py`` has the
conditions, and the exceptions with their reasons and bounds. ``sh run.sh validate contradictions`` tries more setups.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inference_econ as ie
from benchmarks import contradictions
from benchmarks.comparisons import EXCEPTIONS, Comparison, bound, domain, seconds
from benchmarks.random_setups import Case
from inference_econ.engine import Plans, Setup
from inference_econ.engine.layouts.plans import fullest_group
from inference_econ.engine.step import halved
from inference_econ.inputs import ServingEngine, catalog
from tests.planned import plan_of, setup_of

#: Accelerators that share the fast link [1].
DOMAINS = (1, 2, 4, 8, 9, 12, 16, 24, 36, 64, 72, 100, 128, 1000)


def _setup(model: str, chip: str, preset: str, weights: str | None = None, context: float = 17.0) -> Setup:
    return setup_of(model, chip, context, preset=preset, weights=weights)


@pytest.mark.parametrize("first", range(0, 40, 8))
def test_random_setups_do_not_contradict_themselves(first: int) -> None:
    found = contradictions.tallies(seed=7, indices=range(first, first + 8))
    assert not [tally.examples for tally in found.values() if tally.examples]
    assert sum(tally.tried for tally in found.values()) > 5000
    assert {name for tally in found.values() for name in tally.excused} <= EXCEPTIONS.keys()


def test_a_contradiction_is_counted_and_an_exception_is_bounded() -> None:
    setup, one = _setup("llama_3_8b", "h100_sxm", "paper"), np.ones((1, 2))
    tally, case = contradictions.Tally(), Case(setup, plan_of(1, 1, batch=1).at((np.array([0, 0]),)))
    tally.add(case, Comparison("kind", "a change", one, np.array([[1.0, 1.5]]), 1.5, "groups"))
    assert (tally.tried, tally.violated, tally.excused) == (2, 0, {"groups": (1, 1.5)})
    tally.add(case, Comparison("kind", "a change", one, np.array([[0.9, 1.6]]), 1.5, "groups"))
    assert (tally.tried, tally.violated, tally.worst) == (4, 1, 1.6)
    assert "a change; accelerators 1, batch 1" in tally.examples[0][1]
    written = contradictions.page({"kind": tally})
    assert "| kind | 4 | 0 | 1, up to 1.60 x | groups: 1, up to 1.50 x |" in written
    assert all(f"**{name}**" in written for name in EXCEPTIONS)


@pytest.mark.rows
def test_nothing_beats_the_ideal_that_once_did(
    model: str, chip: str, preset: str, weights: str | None, batch: float
) -> None:
    real, ideal = (_setup(model, chip, name, weights) for name in (preset, "ideal"))
    plan = plan_of(1, 8, batch=batch)
    assert (seconds(ideal, plan) < seconds(real, plan)).all()


@pytest.mark.parametrize(
    ("model", "chip", "preset", "plan"),
    [
        # Shared experts are spread over ranks, although each rank should store one.
        ("llama_4_scout", "paper/h100", "paper_may22", plan_of(1, 16, ep=16, batch=1)),
        # Projections of an indexer are not included.
        ("glm_5", "paper/tpu_v4", "paper_text", plan_of(1, 1, 2, batch=10060)),
    ],
)
def test_the_study_is_bound_by_the_ideal_that_counts_its_parts(model: str, chip: str, preset: str, plan: Plans) -> None:
    setup, ideal = (_setup(model, chip, name, context=0.0) for name in (preset, "ideal"))
    assert (seconds(ideal, plan) > seconds(setup, plan)).any()
    (comparison,) = bound(Case(setup, plan), np.random.default_rng(1))
    assert not comparison.violated.any()


def test_the_ideal_shares_a_batch_evenly() -> None:
    layout = catalog.assumptions("ideal").layout
    assert fullest_group(plan_of(1, 2, batch=5), layout) == 1.0
    assert fullest_group(plan_of(1, 2, batch=5), catalog.assumptions("deployable").layout) == pytest.approx(1.2)


def test_the_fastest_unit_is_that_of_either_operand() -> None:
    for chip, weights, unit in (("b300", "int4", "bf16"), ("b200", "int4", "int8"), ("h100_sxm", "fp8", "fp8")):
        assert _setup("llama_3_8b", chip, "ideal", weights).rates.unit(weights) == unit


@pytest.mark.parametrize("preset", [name for name in catalog.names("assumptions") if not name.startswith("paper")])
@pytest.mark.parametrize(
    ("chip", "tp", "dp", "ep"), [("gb200_nvl72", 16, 9, 1), ("h100_sxm", 12, 8, 96), ("b200", 1, 64, 64)]
)
def test_a_larger_domain_is_never_slower(preset: str, chip: str, tp: float, dp: float, ep: float) -> None:
    times = _by_domain(_setup("deepseek_v3", chip, preset), plan_of(tp, dp, ep=ep, batch=64.0 * dp))
    assert times == sorted(times, reverse=True) or times == pytest.approx(sorted(times, reverse=True), rel=1e-12)


def _by_domain(setup: Setup, plan: Plans) -> list[float]:
    """Return the step time in larger and larger link domains [s]."""
    chips = (setup.hardware.model_copy(update={"link_domain": size}) for size in DOMAINS)
    return [float(seconds(replace(setup, hardware=chip), plan)[0, 0]) for chip in chips]


@given(
    model=st.sampled_from(["deepseek_v3", "gpt_oss_20b", "minimax_m2_5", "glm_4_5_air", "nemotron_3_nano_30b_a3b"]),
    chip=st.sampled_from(["a100_sxm_80", "h100_sxm", "h100_pcie", "b300", "gb200_nvl72"]),
    engine=st.sampled_from([None, "vllm", "sglang", "trtllm"]),
    degrees=st.sampled_from([(1, 16, 16), (1, 16, 8), (1, 16, 1), (2, 8, 16), (4, 2, 8), (8, 1, 8), (1, 32, 32)]),
    batch=st.integers(1, 4096),
    tokens=st.sampled_from([0, 100, 4096]),
)
def test_a_mixture_in_a_larger_domain_is_never_slower(
    model: str, chip: str, engine: str | None, degrees: tuple[int, int, int], batch: int, tokens: int
) -> None:
    setup = _setup(model, chip, "deployable")
    if engine is not None:
        setup = replace(setup, engines=(ServingEngine(engine, catalog.engine(engine).at()),))
    tp, dp, ep = degrees
    plan = plan_of(tp, dp, ep=ep, batch=batch)
    step = replace(plan, prefill=True, new_tokens=tokens) if tokens else plan
    times = _by_domain(setup, step)
    assert times == sorted(times, reverse=True) or times == pytest.approx(sorted(times, reverse=True), rel=1e-12)


def test_a_mixture_in_a_larger_domain_is_never_dearer_at_a_speed() -> None:
    # 8 was $0.0443 and 72 $0.0694: halves took turns between link domains only.
    costs = []
    for size in (4, 8, 72):
        change = f"hardware.link_domain={size}"
        setup = ie.Setup.of("gpt_oss_20b", "gb200_nvl72", price=2.0, changes=[change])
        requests = ie.Requests.model_validate({"isl": 1000, "osl": 100})
        front = ie.frontier(setup, requests, ie.Space(ie.Pins(tp=1, dp=16, pp="any")))
        costs.append(float(front.dollars[front.tokens_per_second >= 30.0].min()))
    assert costs == sorted(costs, reverse=True)


def test_the_study_keeps_its_own_domains() -> None:
    case = Case(_setup("llama_3_70b", "paper/h100", "paper"), plan_of(64, 1, batch=1))
    slower = [one for one in domain(case, np.random.default_rng(1)) if one.violated.any()]
    assert slower
    assert all(one.exception == "study" and one.excused[one.violated].all() for one in slower)


def test_halves_have_a_sequence_for_every_group() -> None:
    setup = _setup("deepseek_v3", "h800_sxm", "deployable")
    steps = [plan_of(1, 32, ep=32, batch=1.0 * batch) for batch in (1, 32, 33, 64)]
    # Idle groups of a half process no real requests: 32 sequences equal 1, and 33 equal 64.
    assert [float(halved(setup, step).batch[0]) for step in steps] == [32.0, 32.0, 32.0, 32.0]
    times = [float(seconds(setup, step)[0, 0]) for step in steps]
    assert times == sorted(times)
    prompts = replace(steps[1], prefill=True, new_tokens=1000)
    assert float(halved(setup, prompts).batch[0]) == 16.0
