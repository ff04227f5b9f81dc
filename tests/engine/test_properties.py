"""Properties of every model, chip and plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from inference_econ.engine import (
    ContinuousLayouts,
    Plans,
    Setup,
    Speculation,
    kv_bytes_per_sequence,
    memory,
    step_seconds,
)
from inference_econ.inputs import BYTES_PER_ELEMENT, HardwareSpec, Precision, catalog
from inference_econ.search.fastest import token_seconds
from tests.reading import present, tables

#: Sums in another order may differ in the last places.
ROUNDING = 1e-12

#: Dense, multi-query, parallel attention, experts, latent attention, windows and sinks.
MODELS: list[str] = tables(Path(__file__))["MODELS"]
#: Boxes, racks, meshes, and single chips as domains.
CHIPS = ("paper/h100", "paper/a100", "h100_sxm", "gb200_nvl72", "paper/tpu_v4", "paper/groq_lpu")
#: Presets except ``ideal``.
PRESETS = tuple(name for name in catalog.names("assumptions") if name != "ideal")

models, chips, presets = st.sampled_from(MODELS), st.sampled_from(CHIPS), st.sampled_from(PRESETS)
contexts = st.sampled_from([0.0, 1.0, 777.0, 1e5])
few = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


_ONE_CHIP = Plans(np.ones(1), np.ones(1), np.ones(1), np.ones(1), np.ones(1))


@cache
def _question(model: str, chip: str, context: float, preset: str = "paper", changes: tuple[str, ...] = ()) -> Setup:
    return _asked(model, catalog.hardware(chip), context, preset, changes)


def _asked(
    model: str, chip: HardwareSpec, context: float, preset: str = "paper", changes: tuple[str, ...] = ()
) -> Setup:
    spec = catalog.model(model)
    return Setup(spec, chip, Precision.of(spec), context, catalog.assumptions(preset, changes=changes))


@st.composite
def plans(draw: st.DrawFn) -> Plans:
    """Draw a few plans with every degree fixed, all real-valued."""
    share = st.floats(0.0, 1.0)
    drawn = draw(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 14), share, share, share), min_size=1, max_size=4))
    size_power, batch_power, depth, attention, experts = np.array(drawn).T
    size, batch = 2.0**size_power, 2.0**batch_power
    pp = np.minimum(size, batch) ** depth
    stage = size / pp
    ep = np.minimum(stage, 16.0) ** experts
    return Plans(size, batch, pp, stage**attention, ep, draw(st.integers(1, 5)))


def _never_slower(before: Setup, after: Setup, at: Plans) -> None:
    for slow, quick in zip(step_seconds(before, at), step_seconds(after, at), strict=True):
        assert (quick <= slow * (1 + ROUNDING)).all(), (slow, quick)


@few
@pytest.mark.parametrize("of", ["hbm", "dense_flops", "link", "nic"])
@given(model=models, chip=chips, preset=presets, context=contexts, at=plans(), factor=st.floats(1.0, 10.0))
def test_more_of_a_rate_of_a_chip_is_never_slower(
    of: str, model: str, chip: str, preset: str, context: float, at: Plans, factor: float
) -> None:
    spec = catalog.hardware(chip)
    rates = {name: rate for name, rate in spec.model_dump().items() if re.match(f"{of}_(bytes_)?per_second", name)}
    assert rates
    changes = {
        name: {unit: factor * peak for unit, peak in rate.items()} if isinstance(rate, Mapping) else factor * rate
        for name, rate in rates.items()
        if rate is not None
    }
    _never_slower(_asked(model, spec, context, preset), _asked(model, spec.replace(**changes), context, preset), at)


@few
@given(model=models, chip=chips, preset=presets, context=contexts, at=plans())
def test_step_overlap_is_fastest_and_none_is_slowest(
    model: str, chip: str, preset: str, context: float, at: Plans
) -> None:
    step, operator, none = (
        _question(model, chip, context, preset, (f"chip.overlap={overlap}",))
        for overlap in ("step", "operator", "none")
    )
    _never_slower(operator, step, at)
    _never_slower(none, operator, at)


@few
@given(model=models, chip=chips, preset=presets, context=contexts, at=plans())
# A shared expert modeled as a routed one is touched more often than one that is always read.
@example(model="deepseek_v3", chip="paper/h100", preset="deployable", context=0.0, at=_ONE_CHIP.verifying(2))
def test_nothing_beats_the_ideal(model: str, chip: str, preset: str, context: float, at: Plans) -> None:
    real, ideal = _question(model, chip, context, preset), _question(model, chip, context, "ideal")
    # The ideal has no communication, so all its cuts take the same time.
    bound = step_seconds(ideal, at)[0]
    for seconds in step_seconds(real, at):
        assert (bound <= seconds * (1 + ROUNDING)).all()


@few
@given(model=models, chip=chips, preset=presets, at=plans(), context=st.floats(0, 1e5), more=st.floats(0, 1e5))
def test_a_longer_context_is_never_faster(
    model: str, chip: str, preset: str, at: Plans, context: float, more: float
) -> None:
    spec = catalog.hardware(chip)
    _never_slower(_asked(model, spec, context + more, preset), _asked(model, spec, context, preset), at)


@few
@given(model=models, chip=chips, preset=presets, context=contexts, at=plans(), more=st.floats(1.0, 100.0))
def test_a_larger_batch_is_never_faster_at_a_fixed_plan(
    model: str, chip: str, preset: str, context: float, at: Plans, more: float
) -> None:
    setup = _question(model, chip, context, preset)
    larger = replace(at, batch=more * at.batch)
    for small, large in zip(step_seconds(setup, at), step_seconds(setup, larger), strict=True):
        assert (small <= large * (1 + ROUNDING)).all()


@few
@given(model=models, chip=chips, preset=presets, context=contexts, at=plans())
def test_more_new_tokens_are_never_faster_and_cheaper_than_one_by_one(
    model: str, chip: str, preset: str, context: float, at: Plans
) -> None:
    # Speculation pays because a step of s tokens takes at most as long as s steps.
    setup = _question(model, chip, context, preset, ("serving.verify_context=start",))
    one, several = (step_seconds(setup, at.verifying(tokens)) for tokens in (1, 4))
    for single, verified in zip(one, several, strict=True):
        assert (single <= verified * (1 + ROUNDING)).all()
        assert (verified <= 4 * single * (1 + ROUNDING)).all()


# Memory, and why a plan cannot run.


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("weights", [None, "int8", "bf16"])
def test_weight_bytes(name: str, weights: str | None) -> None:
    model = catalog.model(name)
    precision = Precision.of(model, weights)
    found = memory.weight_bytes(model, precision)
    if weights is not None or (model.expert_weights is None and model.embedding_weights is None):
        stored = BYTES_PER_ELEMENT[weights or model.weights]
        # In a 16-bit model in 8 bits, embeddings have two bytes; models of studies in one narrow format have one.
        kept_wide = weights == "int8" and (model.embedding_weights == "bf16" or BYTES_PER_ELEMENT[model.weights] > 1.5)
        kept = model.parameter_parts()["embeddings"] if kept_wide else 0.0
        assert found == pytest.approx(model.total_parameters * stored + kept, rel=1e-9)
    elif model.expert_weights is None:
        embedded = model.parameter_parts()["embeddings"]
        narrow, wide = BYTES_PER_ELEMENT[model.weights], BYTES_PER_ELEMENT[present(model.embedding_weights)]
        assert found == pytest.approx(embedded * wide + (model.total_parameters - embedded) * narrow, rel=1e-9)
    else:
        routed = sum(block.layers * block.feed_forward.parameters(model.hidden_size).routed for block in model.blocks)
        narrow, wide = BYTES_PER_ELEMENT[model.expert_weights], BYTES_PER_ELEMENT[model.weights]
        assert found == pytest.approx(routed * narrow + (model.total_parameters - routed) * wide, rel=1e-9)


@pytest.mark.rows
def test_cache_bytes(name: str, kv: str | None, per_token: int) -> None:
    model = catalog.model(name)
    precision = Precision.of(model, kv=kv)
    assert kv_bytes_per_sequence(model, precision, 1000.0) == per_token * 1000
    assert kv_bytes_per_sequence(model, precision, 0.0) == 0.0


def test_a_window_bounds_the_cache_of_its_layers() -> None:
    model = catalog.model("gpt_oss_20b")
    precision = Precision.of(model)
    # 12 full and 12 windowed layers (128 tokens) of 8 KV heads of 64, keys and values, 2 bytes.
    layer = 2 * 8 * 64 * 2
    for context in (0.0, 100.0, 128.0, 1000.0):
        expected = 12 * layer * (context + min(context, 128.0))
        assert kv_bytes_per_sequence(model, precision, context) == expected


def test_need_counts_micro_batches_or_the_whole_batch() -> None:
    plan = Plans.of(np.array([8.0]), np.array([64.0]), np.array([4.0]))
    for counted, sequences in (("micro_batch", 16), ("batch", 64)):
        setup = _question("llama_3_70b", "h100_sxm", 1000.0, "paper", (f"capacity.kv={counted}",))
        need = setup.memory(plan)
        one = kv_bytes_per_sequence(setup.model, setup.precision, 1000.0)
        assert need.kv_bytes.tolist() == [sequences * one]
        assert need.weight_bytes == memory.weight_bytes(setup.model, setup.precision)
        assert need.available_bytes.tolist() == [8 * setup.hardware.hbm_bytes]


def test_a_draft_takes_memory_where_the_assumptions_say_so() -> None:
    # Llama 3 70B in 8 bits leaves 9.4 GB of a paper H100; the 16-bit draft weighs 16.
    layouts, size = ContinuousLayouts(pipeline=False), np.array([1.0])
    for counted, fits in (("false", True), ("true", False)):
        changes = (f"capacity.draft={counted}",)
        target = catalog.model("paper/llama_3_70b")
        assumed = catalog.assumptions("paper", changes=changes)
        chip = catalog.hardware("paper/h100")
        setup = Setup(target, chip, Precision.of(target, "int8", embeddings="as_weights"), 0.0, assumed)
        speculation = Speculation.of("draft", 0.8, 5, model=catalog.model("paper/llama_3_8b"))
        assert bool(np.isfinite(token_seconds(setup, size, size, layouts, speculation=speculation).seconds[0])) is fits


def _reason(setup: Setup, size: float, batch: float, pp: float = 1.0, *, layout: str = "1d") -> int:
    plan = Plans.of(np.array([size]), np.array([batch]), np.array([pp]))
    return int(setup.reasons(plan, "2d" if layout == "2d" else "1d")[0])


def test_reasons() -> None:
    setup = _question("llama_3_70b", "h100_sxm", 8000.0)
    assert _reason(setup, 8, 16) == memory.FITS
    assert _reason(setup, 1, 16) == memory.WEIGHTS
    assert _reason(setup, 2, 1000) == memory.CACHE
    assert _reason(setup, 8, 2, pp=4) == memory.DEPTH
    assert _reason(setup, 8, 16, pp=8.0000001) == memory.DEPTH
    assert _reason(setup, 8, 16, pp=8 * (1 + 1e-10)) == memory.FITS  # rounding of a power
    assert len(memory.REASONS) == 7
    assert "weights exceed" in memory.REASONS[memory.WEIGHTS]
    assert "KV cache" in memory.REASONS[memory.CACHE]
    assert "do not divide" in memory.REASONS[memory.DIVIDE]
    assert "no serving engine" in memory.REASONS[memory.ENGINE]


@pytest.mark.rows
def test_whole_plans_must_divide(model: str, change: dict[str, float], layout: str, divides: bool) -> None:
    degrees = {"accelerators": 8.0, "batch": 64.0, "pp": 1.0, "attention_ranks": 8.0, "ep": 1.0, **change}
    arrays = {name: np.array([degree]) for name, degree in degrees.items()}
    setup = _question(model, "h100_sxm", 100.0)
    for whole in (True, False):
        plan = Plans(
            arrays["accelerators"], arrays["batch"], arrays["pp"], arrays["attention_ranks"], arrays["ep"], 1, whole
        )
        code = int(np.ravel(setup.reasons(plan, "2d" if layout == "2d" else "1d"))[0])
        # Real-valued plans need not divide.
        assert code == (memory.FITS if divides or not whole else memory.DIVIDE)


def test_math_unit_follows_the_weights_or_the_wider_operand() -> None:
    model, chip = catalog.model("llama_3_8b"), catalog.hardware("h100_sxm")
    for follows, unit in (("weights", "fp8"), ("widest", "bf16")):
        assumed = catalog.assumptions("paper", changes=[f"chip.math_unit_follows={follows}"])
        setup = Setup(model, chip, Precision.of(model, "fp8"), 0.0, assumed)
        assert setup.rates.unit("fp8") == unit
        assert setup.rates.flops_per_second("fp8") == pytest.approx(0.7 * chip.dense_flops_per_second[unit], rel=1e-15)  # type: ignore[index]
