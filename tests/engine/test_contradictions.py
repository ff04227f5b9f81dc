"""No setup contradicts itself: random ones of every kind, and those that once did.

Models, chips, formats, presets and layouts are drawn by ``benchmarks/random_setups.py``; what must hold, and the
exceptions with their reasons and bounds, is ``benchmarks/comparisons.py``. ``sh run.sh contradictions`` tries more.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import contradictions
from benchmarks.comparisons import EXCEPTIONS, Comparison, domain, seconds
from benchmarks.random_setups import Case
from inference_econ.engine import Plans, Setup
from inference_econ.engine.layouts.plans import fullest_group
from inference_econ.engine.step import takes_turns
from inference_econ.inputs import Precision, catalog


def _setup(model: str, chip: str, preset: str, weights: str | None = None, context: float = 17.0) -> Setup:
    spec = catalog.model(model)
    precision = Precision.of(spec, weights)
    return Setup(spec, catalog.hardware(chip), precision, context, catalog.assumptions(preset))


def _plan(tp: float, dp: float, batch: float, *, ep: float = 1.0, pp: float = 1.0) -> Plans:
    one = np.ones(1)
    return Plans(one * tp * dp * pp, one * batch, one * pp, one * tp, one * ep, whole=True)


@pytest.mark.parametrize("first", range(0, 40, 8))
def test_random_setups_do_not_contradict_themselves(first: int) -> None:
    found = contradictions.tallies(seed=7, indices=range(first, first + 8))
    assert not [tally.examples for tally in found.values() if tally.examples]
    assert sum(tally.tried for tally in found.values()) > 5000
    assert {name for tally in found.values() for name in tally.excused} <= EXCEPTIONS.keys()


def test_a_contradiction_is_counted_and_an_exception_is_bounded() -> None:
    setup, one = _setup("llama_3_8b", "h100_sxm", "paper"), np.ones((1, 2))
    tally, case = contradictions.Tally(), Case(setup, _plan(1, 1, 1).at((np.array([0, 0]),)))
    tally.add(case, Comparison("kind", "a change", one, np.array([[1.0, 1.5]]), 1.5, "groups"))
    assert (tally.tried, tally.violated, tally.excused) == (2, 0, {"groups": (1, 1.5)})
    tally.add(case, Comparison("kind", "a change", one, np.array([[0.9, 1.6]]), 1.5, "groups"))
    assert (tally.tried, tally.violated, tally.worst) == (4, 1, 1.6)
    assert "a change; accelerators 1, batch 1" in tally.examples[0][1]
    written = contradictions.page({"kind": tally})
    assert "| kind | 4 | 0 | 1, up to 1.60 x | groups: 1, up to 1.50 x |" in written
    assert all(f"**{name}**" in written for name in EXCEPTIONS)


@pytest.mark.parametrize(
    ("model", "chip", "preset", "weights", "batch"),
    [
        # Next to no integer units, on which the bound ran while kernels widen to 16 bits.
        ("llama_2_70b", "gb300_nvl72", "profiles/blackwell", "int4", 6232),
        # Popular experts, of which fewer are read.
        ("glm_4_5", "b200", "profiles/vllm", None, 68),
        ("kimi_k2", "gh200_144", "profiles/trtllm", None, 224),
    ],
)
def test_nothing_beats_the_ideal_that_once_did(
    model: str, chip: str, preset: str, weights: str | None, batch: float
) -> None:
    real, ideal = (_setup(model, chip, name, weights) for name in (preset, "ideal"))
    plan = _plan(1, 8, batch)
    assert (seconds(ideal, plan) < seconds(real, plan)).all()


def test_the_ideal_shares_a_batch_evenly() -> None:
    layout = catalog.assumptions("ideal").layout
    assert fullest_group(_plan(1, 2, 5), layout) == 1.0
    assert fullest_group(_plan(1, 2, 5), catalog.assumptions("deployable").layout) == pytest.approx(1.2)


def test_the_fastest_unit_is_that_of_either_operand() -> None:
    for chip, weights, unit in (("b300", "int4", "bf16"), ("b200", "int4", "int8"), ("h100_sxm", "fp8", "fp8")):
        assert _setup("llama_3_8b", chip, "ideal", weights).unit(weights) == unit


@pytest.mark.parametrize("preset", [name for name in catalog.names("assumptions") if not name.startswith("paper")])
@pytest.mark.parametrize(
    ("chip", "tp", "dp", "ep"), [("gb200_nvl72", 16, 9, 1), ("h100_sxm", 12, 8, 96), ("b200", 1, 64, 64)]
)
def test_a_larger_domain_is_never_slower(preset: str, chip: str, tp: float, dp: float, ep: float) -> None:
    setup, plan = _setup("deepseek_v3", chip, preset), _plan(tp, dp, 64.0 * dp, ep=ep)
    still = replace(setup, assumptions=setup.assumptions.changed({"network.two_batch_overlap": "never"}))
    times = []
    for size in (1, 2, 4, 8, 9, 12, 16, 24, 36, 64, 72, 100, 128, 1000):
        wider = setup.hardware.model_copy(update={"link_domain": size})
        times.append(float(seconds(replace(still, hardware=wider), plan)[0, 0]))
    assert times == sorted(times, reverse=True) or times == pytest.approx(sorted(times, reverse=True), rel=1e-12)


def test_the_study_keeps_its_own_domains() -> None:
    case = Case(_setup("llama_3_70b", "paper/h100", "paper"), _plan(64, 1, 1))
    slower = [one for one in domain(case, np.random.default_rng(1)) if one.violated.any()]
    assert slower
    assert all(one.exception == "study" and one.excused[one.violated].all() for one in slower)


def test_groups_of_one_sequence_have_nothing_to_take_turns_with() -> None:
    setup = _setup("deepseek_v3", "h800_sxm", "deployable")
    few, many = _plan(1, 32, 32, ep=32), _plan(1, 32, 64, ep=32)
    assert takes_turns(setup, few) is None
    assert takes_turns(setup, many) is not None
    assert (seconds(setup, few) <= seconds(setup, many)).all()
    # Prompts are halved by their tokens.
    assert takes_turns(setup, replace(few, prefill=True, new_tokens=1000)) is not None
