"""Degrees, batches and sizes from the user: tried exactly, or rejected with the reason."""

from __future__ import annotations

from typing import Any

import pytest

import inference_econ as ie
from inference_econ.errors import InputError
from tests import asking

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


@pytest.mark.rows
def test_experts_that_cannot_be_pinned(pins: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _front("deepseek_v3", "h200_sxm", **pins)
