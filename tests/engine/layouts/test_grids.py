"""Layouts with integer degrees: grids, divisors, and degrees, batches and sizes from the user."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inference_econ as ie
from inference_econ.engine import ContinuousLayouts, Pins, Plans, Setup, WholeLayouts, instance_pins, memory, whole_grid
from inference_econ.engine.layouts.startable import attention_degrees, expert_degrees
from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from tests import asking
from tests.asking import pinned
from tests.planned import setup_of
from tests.reading import present

# Layouts with integer degrees: no divisor is omitted, and fixed degrees are tried exactly.


def _question(model: str, preset: str = "deployable", changes: tuple[str, ...] = ()) -> Setup:
    return setup_of(model, "h200_sxm", 1000.0, *changes, preset=preset)


def _all_pairs(size: int, batch: float, pp: int) -> Plans:
    """Return every integer pair of attention and expert-parallel ranks of a stage."""
    degrees = np.arange(1.0, size // pp + 1.0)
    one = np.ones((1, 1))
    return Plans(one * size, one * batch, one * pp, degrees[:, None], degrees[None, :], whole=True)


def _possible(setup: Setup, plans: Plans) -> set[tuple[float, float]]:
    """Return the attention and expert-parallel ranks of the plans that meet the divisibility rules."""
    codes = np.broadcast_to(setup.reasons(plans, "1d"), plans.shape)
    ranks, ep = (
        np.broadcast_to(axis, plans.shape)[codes != memory.DIVIDE]
        for axis in (plans.attention_ranks, present(plans.ep))
    )
    return set(zip(ranks.tolist(), ep.tolist(), strict=True))


@settings(max_examples=30, deadline=None)
@given(
    model=st.sampled_from(["llama_3_70b", "qwen3_32b", "deepseek_v3", "gpt_oss_120b", "mixtral_8x22b", "kimi_k2"]),
    size=st.integers(1, 96),
    batch=st.integers(1, 300),
    data=st.data(),
)
def test_no_layout_that_divides_is_left_out(model: str, size: int, batch: int, data: st.DataObject) -> None:
    setup = _question(model)
    (depths,) = (
        WholeLayouts(pipeline=True).depths(setup.model, setup.assumptions, np.array([size]), np.array([batch])),
    )
    assert depths
    depth = data.draw(st.sampled_from([int(one[0]) for one in depths]))
    pp = np.array([float(depth)])
    instance = Plans.of(np.array([float(size)]), np.array([float(batch)]), pp)
    tried = WholeLayouts(pipeline=True).variants(setup.model, setup.assumptions, instance)
    expected = _possible(setup, _all_pairs(size, batch, depth))
    if setup.model.name.startswith(("Llama", "Qwen3 32B")):
        expected = {(ranks, ep) for ranks, ep in expected if ep == 1}  # a dense model has no experts to spread
    # Ranks that need expert copies are tried as full machines with few copies.
    few = set(expert_degrees(setup.model, setup.assumptions.experts).tolist())
    expected = {(ranks, ep) for ranks, ep in expected if ep in few}
    assert _possible(setup, tried) == expected


@pytest.mark.rows
def test_degrees_divide_heads_and_experts(model: str, heads: list[int], experts: list[int] | None) -> None:
    spec = catalog.model(model)
    assert sorted(set(attention_degrees(spec).tolist())) == heads
    if experts is not None:
        degrees = expert_degrees(spec, catalog.assumptions("deployable").experts)
        assert sorted(set(degrees.tolist())) == experts


@pytest.mark.rows
def test_groups_of_three_five_and_nine_are_tried(size: float, batch: float, expected: list[list[float]]) -> None:
    # 2880 = 2^6 x 45 splits 3, 5 and 9 ways.
    setup = _question("gpt_oss_120b")
    instance = Plans.of(np.array([size]), np.array([batch]), np.ones(1))
    tried = WholeLayouts(pipeline=False).variants(setup.model, setup.assumptions, instance)
    assert {(ranks, size / ranks) for ranks, _ in _possible(setup, tried)} == set(map(tuple, expected))


@pytest.mark.parametrize("preset", ["paper", "deployable"])
def test_attention_stays_on_the_whole_stage_without_scaling_down(preset: str) -> None:
    setup = _question("llama_3_70b", preset, ("layout.attention_scale_down_steps=0",))
    sizes = np.array([4.0, 8.0])
    tried = WholeLayouts(pipeline=False).variants(setup.model, setup.assumptions, Plans.of(sizes, sizes, np.ones(2)))
    assert tried.attention_ranks.ravel().tolist() == sizes.tolist()


def test_bounds_see_attention_on_no_more_chips_than_a_stage_has() -> None:
    setup = _question("llama_3_8b", "paper")
    stage = np.array([[1.5, 40.0]])
    for layouts in (WholeLayouts(True), WholeLayouts(True, pinned(tp=4)), WholeLayouts(True, pinned(dp=2))):
        ranks = layouts.attention_ranks(setup.model, setup.assumptions, stage)
        assert ranks.shape[1:] == stage.shape
        assert (ranks <= stage).all()
        assert layouts.unpinned() == WholeLayouts(True)
    continuous = ContinuousLayouts(True)
    assert continuous.unpinned() == continuous


# Grids


def test_every_size_is_on_the_grid_and_the_largest_has_its_multiples() -> None:
    grid = whole_grid(5.5, pipeline=True, largest=72)
    assert grid.accelerators.tolist() == [*range(6, 73)]
    assert {72.0, 144.0, 216.0, 360.0, 72.0 * 15 * 32} <= set(grid.batch.tolist())
    assert grid.batch[0] == 1.0
    assert grid.batch[-1] <= 65536.0
    assert whole_grid(1.0, pipeline=True, largest=1000).accelerators[-1] == 1000.0


@pytest.mark.parametrize(
    ("pins", "sizes", "batches"),
    [
        (Pins(accelerators=9), [9.0], None),
        (Pins(tp=4, dp=3, pp=2), [24.0], None),
        (pinned(tp=8), [8.0 * n for n in range(1, 9)], None),
        (pinned(dp=3, ep=4), [12.0 * n for n in range(1, 6)], None),
        (Pins(batch=100), [float(n) for n in range(1, 65)], [100.0]),
        (Pins(tp=16, pp=10), [160.0], None),
        (Pins(tp=8), [8.0], None),
    ],
)
def test_grids_of_pins(pins: Pins, sizes: list[float], batches: list[float] | None) -> None:
    grid = whole_grid(1.0, pipeline=True, pins=pins)
    assert grid.accelerators.tolist() == sizes
    if batches is not None:
        assert grid.batch.tolist() == batches
    assert (grid.batch % pins.groups == 0).all() or pins.batch is not None


def test_an_expert_pin_does_not_change_a_dense_model() -> None:
    # A draft model may be dense; pins of the target are no business of a model without experts.
    setup = _question("llama_3_8b")
    one = Plans.of(np.array([8.0]), np.array([8.0]), np.ones(1))
    tried = WholeLayouts(pipeline=False, pins=Pins(ep=4)).variants(setup.model, setup.assumptions, one)
    assert set(present(tried.ep).ravel().tolist()) == {1.0}


# Fixed degrees alone


def test_pins_know_what_they_decide() -> None:
    assert Pins().given() == {}
    assert Pins(tp=8, batch=64).text == "tp=8, dp=1, pp=1, batch=64"
    assert pinned(tp=8, batch=64).text == "tp=8, batch=64"
    assert Pins(tp=8, dp=2, pp=4).size == Pins(tp=8, dp=2, pp=4).chips == 64
    assert (Pins(tp=8).size, Pins(tp=8, dp="any").size) == (8, None)
    assert pinned(tp=8, accelerators=24).size == 24
    assert pinned(tp=4, dp=3, ep=8).chips == 24
    assert Pins(dp=3, pp=2).groups == 6
    # Layouts are returned as given: as floats.
    layout = {"tp": 4.0, "dp": 2.0, "ep": 8.0}
    assert Pins(**layout) == Pins(tp=4, dp=2, ep=8)  # type: ignore[arg-type]
    assert Pins(**layout).chips == 8  # type: ignore[arg-type]


# Degrees, batches and sizes from the user: tried exactly, or rejected with the reason.

TRAFFIC = ie.Traffic(isl=2000, osl=500)


def _front(model: str = "llama_3_70b", hardware: str = "h100_sxm", **changes: object) -> ie.Frontier:
    return asking.frontier(model, hardware, TRAFFIC, **changes)


@pytest.mark.rows
def test_a_deployment_that_is_pinned_on_every_axis_is_the_one_that_explain_takes_apart(
    model: str, degrees: dict[str, Any]
) -> None:
    (point,) = _front(model, "h200_sxm", **degrees).points()
    explained = asking.explain(model, "h200_sxm", context=TRAFFIC.mean_context, **degrees)
    assert point.tokens_per_second_per_user == pytest.approx(explained.tokens_per_second, rel=1e-12)
    assert point.dollars_per_million_output_tokens == pytest.approx(explained.dollars, rel=1e-12)
    assert point.layout == explained.layout
    assert point.batch == degrees["batch"]


def test_a_pinned_batch_or_size_need_not_be_on_the_grid() -> None:
    assert set(_front(batch=100).batch) == {100.0}
    assert set(_front("gpt_oss_120b", accelerators=45).accelerators) == {45.0}
    (point,) = _front("gpt_oss_120b", accelerators=45, batch=135, tp=1, pp=1).points()
    assert (point.layout["dp"], point.batch) == (45.0, 135.0)


def test_pinned_degrees_hold_on_the_whole_frontier() -> None:
    for point in _front("gpt_oss_120b", tp=4, dp=3).points():
        assert (point.layout["tp"], point.layout["dp"]) == (4.0, 3.0)
        assert point.accelerators % 12 == 0
    for point in _front("deepseek_v3", "h200_sxm", ep=32, max_accelerators=64).points():
        assert point.layout["ep"] == 32.0
    for point in _front("gpt_oss_120b", tp=4, dp=3, pp=2, ep=2, engine="any").points():
        assert [point.layout[name] for name in ("tp", "dp", "pp", "ep")] == [4.0, 3.0, 2.0, 2.0]


def test_a_pinned_frontier_is_never_better() -> None:
    free = _front(max_accelerators=16, engine="any")
    for pins in ({"tp": 8}, {"pp": 2}, {"dp": 2}, {"accelerators": 8}, {"batch": 64}):
        pinned = _front(max_accelerators=16, engine="any", **pins)  # type: ignore[arg-type]
        for seconds, dollars in zip(pinned.seconds, pinned.dollars, strict=True):
            hair = 1 + 1e-12
            assert (free.dollars[free.seconds <= seconds * hair] <= dollars * hair).any()


def test_pins_may_need_more_than_the_largest_instance_of_the_grid() -> None:
    assert set(_front(tp=8, pp=16).accelerators) == {128.0, 256.0} or _front(tp=8, pp=16).accelerators.min() == 128.0


def test_a_draft_model_is_laid_out_as_it_likes() -> None:
    # The draft has 32 heads and 36 layers, which the target's fixed degrees would not divide.
    speculation = ie.Speculation.of("draft", 0.8, model=ie.model("qwen3_8b"))
    pinned = _front(tp=64, dp=1, pp=1, speculation=speculation, assumptions="paper")
    assert max(float(point.layout.get("draft_tokens", 0)) for point in pinned.points()) > 0


@pytest.mark.rows
def test_what_cannot_be_pinned_is_refused_with_the_reason(pins: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _front(**pins)  # type: ignore[arg-type]


# Degrees as users type them.


@pytest.mark.rows
def test_degrees_that_are_not_given_are_one_beside_others(
    degrees: dict[str, int | str | None], size: float | None, pins: dict[str, Any]
) -> None:
    assert instance_pins(degrees, size) == Pins(**pins)


def test_in_python_degrees_mean_what_they_mean_on_the_command_line() -> None:
    """Try all combinations of open, 1 and 4: if one degree is given, the others are 1."""
    for tp, dp, pp in itertools.product((None, "any", 1, 4), repeat=3):
        degrees = {"tp": tp, "dp": dp, "pp": pp}
        some = any(value is not None for value in degrees.values())
        expected = {
            name: 1 if value is None and some else None if value == "any" else value for name, value in degrees.items()
        }
        pins = Pins(tp=tp, dp=dp, pp=pp)  # type: ignore[arg-type]
        assert {name: getattr(pins, name) for name in degrees} == expected
        assert pins == instance_pins(degrees)
        # Unspecified degrees stay unspecified with other changes.
        changed = dataclasses.replace(pins, batch=8)
        assert {name: getattr(changed, name) for name in degrees} == expected
        assert changed.batch == 8
