"""Each modeling choice alone: its effect and direction, and ``deployable`` without all of them is ``paper``."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import inference_econ as ie
from inference_econ.engine import Plans, Setup, evaluate, step_seconds
from inference_econ.inputs import Assumptions, HardwareSpec, ModelSpec, Precision, catalog, value_of
from inference_econ.inputs.presets.assumptions import field_names
from tests.planned import plan_of
from tests.reading import scalar, tables

Array = npt.NDArray[np.float64]

#: Sums in another order may differ in the last places.
ROUNDING = 1e-12
few = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])

#: Dense, parallel, windowed, in chunks, experts with and without shared ones, latent attention, all of it or picked.
MODELS: list[str] = tables(Path(__file__))["MODELS"]
CHIPS = ("h100_sxm", "a100_sxm_80", "b200", "tpu_v5p")
models, chips = st.sampled_from(MODELS), st.sampled_from(CHIPS)
presets = st.sampled_from(["paper", "deployable"])
contexts = st.sampled_from([0.0, 1.0, 777.0, 20_000.0])


@cache
def _served(model: str, chip: str) -> tuple[ModelSpec, HardwareSpec, Precision]:
    spec = catalog.model(model)
    return spec, catalog.hardware(chip), Precision.of(spec)


def _question(model: str, chip: str, context: float, assumptions: Assumptions) -> Setup:
    spec, hardware, precision = _served(model, chip)
    return Setup(spec, hardware, precision, context, assumptions)


@cache
def _preset(name: str, changes: tuple[str, ...] = ()) -> Assumptions:
    return catalog.assumptions(name, changes=changes)


def _asked(model: str, chip: str, context: float, preset: str, *changes: str) -> Setup:
    return _question(model, chip, context, _preset(preset, changes))


@st.composite
def plans(draw: st.DrawFn) -> Plans:
    """Draw a few integer plans of decode, verification or prefill."""
    powers = st.integers(0, 3)
    drawn = draw(st.lists(st.tuples(powers, powers, st.integers(0, 2), st.integers(0, 12)), min_size=1, max_size=4))
    tp, dp, pp, batch = 2.0 ** np.array(drawn, dtype=float).T
    ep = np.minimum(tp * dp, 16.0)
    prefill = draw(st.booleans())
    new_tokens = draw(st.sampled_from([100, 3000]) if prefill else st.integers(1, 5))
    return Plans(tp * dp * pp, batch * dp * pp, pp, tp, ep, new_tokens=new_tokens, prefill=prefill)


# From ``deployable`` to ``paper``, one field at a time.

#: Names that several parts of a step have together, in :data:`EFFECTS`.
PARTS = {
    "work": {"compute", "weights", "activations", "kv_cache"},
    "reduce": {"all_reduce_latency", "all_reduce_bandwidth"},
    "exchange": {"all_to_all_latency", "all_to_all_bandwidth"},
}
#: Parts that a field may change, and in which direction.
EFFECTS: dict[str, tuple[str, str]] = tables(Path(__file__))["EFFECTS"]
ELSEWHERE: set[str] = set(tables(Path(__file__))["ELSEWHERE"])
WITH: dict[str, list[str]] = tables(Path(__file__))["WITH"]
#: Contexts at which a field matters, if not after a thousand tokens: between the middle and the end of the first chunk
#: [tokens].
CONTEXTS = {"attention.chunk_position": 6000.0}
#: Chips on which a field matters, if not on the first ones.
WHERE = {"network.mesh_links": ("mi300x",)}
#: Deployments in which every field matters somewhere.
DEPLOYMENTS = (
    plan_of(8, ep=8, batch=64),
    plan_of(2, 8, ep=16, batch=64),
    plan_of(4, pp=2, batch=64, new_tokens=3),
    plan_of(8, pp=4, ep=8, batch=128),
    plan_of(2, 8, ep=4, batch=64),
    plan_of(),
)


def _differing() -> list[str]:
    paper, deployable = _preset("paper"), _preset("deployable")
    return [name for name in (*field_names(), "per_family") if _value(paper, name) != _value(deployable, name)]


def _value(assumptions: Assumptions, field: str) -> object:
    return assumptions.per_family if field == "per_family" else value_of(assumptions, field)


def _like_paper(assumptions: Assumptions, field: str) -> Assumptions:
    """Return assumptions with one field as in the published study."""
    value = _value(_preset("paper"), field)
    if field == "per_family":
        return assumptions.model_copy(update={field: value})
    return assumptions.changed({field: value})


def _measures(setup: Setup, plan: Plans) -> dict[str, float]:
    costs, memory = evaluate(setup, plan, "1d"), setup.memory(plan)
    parts = {name: scalar(part) for name, part in costs.parts.items()}
    held = {name: scalar(getattr(memory, name)) for name in ("weight_bytes", "kv_bytes", "available_bytes")}
    return {**parts, **held, "seconds": scalar(costs.seconds)}


@cache
def _before(model: str, chip: str, context: float, changes: tuple[str, ...], deployment: int) -> dict[str, float]:
    """Return the shared baseline of most fields."""
    return _measures(_asked(model, chip, context, "deployable", *changes), DEPLOYMENTS[deployment])


def test_every_choice_of_the_deployable_preset_is_looked_at() -> None:
    assert set(_differing()) <= set(EFFECTS) | ELSEWHERE, "say above what a choice changes"


@pytest.mark.long
@pytest.mark.parametrize("field", sorted(set(EFFECTS) & {*_differing(), *WITH}))
def test_a_choice_changes_what_it_is_about_and_nothing_else(field: str) -> None:
    names, direction = EFFECTS[field]
    allowed = {part for name in names.split() for part in PARTS.get(name, {name})}
    # With all parts of a step shown, unless the field decides on that.
    shown: tuple[str, ...] = () if field == "chip.overlap" else ("chip.overlap=none",)
    # Two-batch overlap changes every part.
    shown += () if field == "network.two_batch_overlap" else ("network.two_batch_overlap=never",)
    changes = (*shown, *WITH.get(field, ()))
    after = _like_paper(_preset("deployable", changes), field)
    context = CONTEXTS.get(field, 1000.0)
    changed = set()
    for model in MODELS:
        for chip in WHERE.get(field, CHIPS[:3]):
            for deployment, plan in enumerate(DEPLOYMENTS):
                first = _before(model, chip, context, changes, deployment)
                second = _measures(_question(model, chip, context, after), plan)
                changed |= {
                    name for name, value in first.items() if not math.isclose(value, second[name], rel_tol=ROUNDING)
                } - {"seconds"}
                if direction == "more":
                    assert second["seconds"] >= first["seconds"] * (1 - ROUNDING), (model, chip)
                if direction == "less":
                    assert second["seconds"] <= first["seconds"] * (1 + ROUNDING), (model, chip)
    assert changed, "it has an effect"
    assert changed <= allowed


@pytest.mark.parametrize("field", sorted(ELSEWHERE & set(_differing())))
def test_other_choices_leave_a_step_alone(field: str) -> None:
    before = _preset("deployable")
    after = _like_paper(before, field)
    for model in MODELS:
        first, second = (
            _measures(_question(model, "h100_sxm", 1000.0, one), DEPLOYMENTS[2]) for one in (before, after)
        )
        assert first == second


@few
@given(model=models, chip=chips, context=contexts, at=plans())
def test_deployable_without_its_choices_is_the_published_study(
    model: str, chip: str, context: float, at: Plans
) -> None:
    paper, mended = _preset("paper"), _preset("deployable")
    for field in _differing():
        mended = _like_paper(mended, field)
    one, other = _question(model, chip, context, paper), _question(model, chip, context, mended)
    # Bit for bit, in every cut.
    for first, second in zip(step_seconds(one, at), step_seconds(other, at), strict=True):
        assert np.array_equal(first, second)
    assert np.array_equal(one.memory(at).fits, other.memory(at).fits)


# Directions, whatever the model, chip, preset and plan.

#: Choices of which the second is never slower, in every preset.
QUICKER: dict[str, tuple[list[str], list[str]]] = tables(Path(__file__))["QUICKER"]


@settings(few, max_examples=8)
@pytest.mark.parametrize("choice", list(QUICKER))
@given(model=models, chip=chips, preset=presets, context=contexts, at=plans())
def test_never_slower(choice: str, model: str, chip: str, preset: str, context: float, at: Plans) -> None:
    slow, quick = (_asked(model, chip, context, preset, *changes) for changes in QUICKER[choice])
    for before, after in zip(step_seconds(slow, at), step_seconds(quick, at), strict=True):
        assert (after <= before * (1 + ROUNDING)).all()


#: Choices of which the second never leaves more memory.
FULLER: dict[str, tuple[str, str]] = tables(Path(__file__))["FULLER"]


def _left(setup: Setup, at: Plans) -> Array:
    memory = setup.memory(at)
    return np.asarray(memory.available_bytes - memory.kv_bytes - memory.weight_bytes)


@few
@pytest.mark.parametrize("choice", list(FULLER))
@given(model=models, chip=chips, preset=presets, context=st.floats(0.0, 1e5), at=plans())
def test_never_leaves_more_memory(choice: str, model: str, chip: str, preset: str, context: float, at: Plans) -> None:
    before, after = (_left(_asked(model, chip, context, preset, change), at) for change in FULLER[choice])
    assert (after <= before + 1e-9 * np.abs(before)).all()


@few
@given(model=models, preset=presets, context=contexts, at=plans(), host=st.sampled_from(["1 ms", "30 us"]))
def test_the_host_adds_its_time_to_every_step(model: str, preset: str, context: float, at: Plans, host: str) -> None:
    free, paid = (_asked(model, "h100_sxm", context, preset, f"host.step_overhead={one}") for one in ("0 us", host))
    added = 1e-3 if host == "1 ms" else 30e-6
    for before, after in zip(step_seconds(free, at), step_seconds(paid, at), strict=True):
        assert after - before == pytest.approx(np.full(at.shape, added), rel=1e-6)


@few
@given(
    model=models,
    context=contexts,
    at=plans(),
    changes=st.sampled_from(
        [
            ("network.two_batch_overlap=when_faster",),
            ("network.two_batch_overlap=when_faster", "chip.overlap=none"),
            ("host.cuda_graphs=false", "host.launch=20 us"),
            (
                "host.cuda_graphs=false",
                "host.launch=20 us",
                "network.two_batch_overlap=when_faster",
                "host.step_overhead=100 us",
            ),
            ("attention.math_efficiency=0.2", "experts.hbm_efficiency=0.4", "attention.kv_hbm_efficiency=0.3"),
            ("attention.latent=decompressed",),
            ("attention.latent=decompressed_per_step",),
            ("experts.imbalance=2", "experts.dispatch=eight_bit", "experts.all_to_all_crossing=per_domain"),
        ]
    ),
)
def test_parts_add_up_under_every_choice(model: str, context: float, at: Plans, changes: tuple[str, ...]) -> None:
    setup = _asked(model, "h100_sxm", context, "deployable", *changes)
    costs = evaluate(setup, at, "1d")
    assert costs.seconds == pytest.approx(step_seconds(setup, at)[0], rel=ROUNDING)
    assert sum(costs.parts.values()) == pytest.approx(costs.seconds, rel=ROUNDING)
    assert all((part >= 0).all() for part in costs.parts.values())


def test_labels_of_the_choices_are_fields() -> None:
    changes = [change for pair in QUICKER.values() for one in pair for change in one]
    changes += [change for pair in FULLER.values() for change in pair]
    named = {".".join(change.partition("=")[0].split(".")[:2]) for change in changes}
    assert named | set(EFFECTS) | ELSEWHERE <= {*field_names(), "per_family"}
    assert ie.assumptions("deployable") == _preset("deployable")
