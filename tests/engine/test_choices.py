"""Each choice of the study, edited one at a time: fields of the assumptions against edits of the published code.

The expected values come from the published code of Erdil (2025) with one statement edited, without pipelines, on its
grid of 400 x 400 instances. They are a second oracle for the alternatives to the ``paper`` preset.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from inference_econ.engine import Plans, Setup, Speculation, memory, paper_grid, step_seconds
from inference_econ.inputs import catalog
from inference_econ.search import Frontier, Sampling, compute
from tests.planned import setup_of

#: Experts over active experts, as in the study's grids.
SPARSITY = {"mixtral_8x22b": 4.0, "deepseek_v3": 28.0}
#: The study serves Llama 3 70B with 8-bit weights here.
WEIGHTS = {"llama_3_70b": "int8"}
#: Context, and speeds at which costs are compared [tokens/s].
SPEEDS = {
    ("llama_3_70b", 0): (60, 99, 130),
    ("deepseek_v3", 0): (60, 105, 150),
    ("mixtral_8x22b", 0): (60, 104, 150),
    ("deepseek_v3", 100_000): (60, 105, 150),
    ("mistral_large_2", 100_000): (40, 70),
}


def _question(model: str, weights: str | None, context: float, changes: tuple[str, ...]) -> Setup:
    return setup_of(f"paper/{model}", "paper/h100", context, *changes, preset="paper", weights=weights)


@cache
def _frontier(
    model: str, changes: tuple[str, ...] = (), context: float = 0.0, *, speculate: bool = False, sampled: bool = False
) -> Frontier:
    setup = _question(model, WEIGHTS.get(model), context, changes)
    smallest = memory.weight_bytes(setup.model, setup.precision) / setup.hardware.hbm_bytes
    grid = paper_grid(smallest, SPARSITY.get(model, 1.0), pipeline=False)
    speculation = Speculation.of("draft", 0.8, 5, model=catalog.model("paper/llama_3_8b")) if speculate else None
    sampling = Sampling(1000, 2.0) if sampled else None
    return compute(replace(setup, price=2.1), grid, speculation=speculation, sampling=sampling)


def _cost(front: Frontier, speed: float) -> float:
    """Return the cheapest cost at or above a speed [USD per 1e6 tokens]."""
    return float(front.dollars[front.tokens_per_second >= speed].min())


@pytest.mark.rows
def test_costs_before_any_edit(model: str, context: int, costs: list[float]) -> None:
    front = _frontier(model, context=context)
    for speed, cost in zip(SPEEDS[model, context], costs, strict=True):
        # Four printed digits.
        assert _cost(front, speed) == pytest.approx(cost, rel=5e-4)


@pytest.mark.rows
def test_costs_at_fixed_speeds(change: str, model: str, context: int, ratios: list[float]) -> None:
    before, after = _frontier(model, context=context), _frontier(model, (change,), context)
    for speed, ratio in zip(SPEEDS[model, context], ratios, strict=True):
        # Ratios of rounded costs, to two or three digits: 2 %.
        assert _cost(after, speed) / _cost(before, speed) == pytest.approx(ratio, rel=0.02)


@pytest.mark.rows
def test_largest_speeds(change: str, model: str, fastest: float, accelerators: float | None) -> None:
    front = _frontier(model, (change,) if change else ())
    # To the printed digit.
    assert round(float(front.tokens_per_second[-1]), 1) == fastest
    if accelerators is not None:
        assert float(front.accelerators[-1]) == pytest.approx(accelerators, rel=0.003)


@pytest.mark.rows
def test_preferred_points(changes: list[str], model: str, speed: float, cost: float) -> None:
    front = _frontier(model, tuple(changes), sampled=True)
    index = front.preferred_index(3.0)
    assert round(float(front.tokens_per_second[index]), 1) == speed
    assert float(front.dollars[index]) == pytest.approx(cost, rel=3e-3)  # three printed digits


@pytest.mark.rows
def test_smallest_costs(changes: list[str], model: str, cheapest: float, factor: float) -> None:
    # Three printed digits.
    found = float(_frontier(model, tuple(changes), sampled=True).dollars[0])
    assert found == pytest.approx(cheapest * factor, rel=2e-3)


def test_without_caps() -> None:
    front = _frontier("llama_3_70b", ("chip.math_efficiency=1", "chip.hbm_efficiency=1"))
    assert round(float(front.tokens_per_second[-1]), 1) == 164.9
    assert float(front.accelerators[-1]) == pytest.approx(15.6, rel=0.003)


@pytest.mark.rows
def test_series_of_accepted_tokens(series: str, model: str, fastest: float, speed: float, cost: float) -> None:
    front = _frontier(model, (f"serving.expected_tokens={series}",), speculate=True, sampled=True)
    index = front.preferred_index(3.0)
    assert round(float(front.tokens_per_second[-1]), 1) == fastest
    assert round(float(front.tokens_per_second[index]), 1) == speed
    assert float(front.dollars[index]) == pytest.approx(cost, rel=3e-3)


def test_a_draft_in_memory_costs_little() -> None:
    before, after = (
        _frontier("llama_3_70b", (f"capacity.draft={counted}",), speculate=True, sampled=True)
        for counted in ("false", "true")
    )
    # The largest speed is unchanged, and the cheap end costs 0.3% to 1.5% more.
    assert after.tokens_per_second[-1] == before.tokens_per_second[-1]
    assert 1.003 < after.dollars[0] / before.dollars[0] < 1.015


# Choices without a printed edit: their definition.


def _seconds(model: str, changes: tuple[str, ...], context: float, plans: Plans) -> float:
    return float(step_seconds(_question(model, None, context, changes), plans)[0][0])


@pytest.mark.parametrize("tokens", [1, 4])
def test_a_verification_sees_the_context_of_its_start_or_of_its_middle(tokens: int) -> None:
    # A long context, so that the cache matters.
    plan = Plans.of(np.array([64.0]), np.array([64.0]), np.ones(1), tokens)
    mean = _seconds("llama_3_70b", ("serving.verify_context=mean",), 1000.0, plan)
    assert mean == _seconds("llama_3_70b", ("serving.verify_context=start",), 1000.0 + (tokens - 1) / 2, plan)
    assert (mean == _seconds("llama_3_70b", ("serving.verify_context=start",), 1000.0, plan)) == (tokens == 1)


def test_a_pipeline_inside_one_domain_may_use_its_link() -> None:
    inside, across = (Plans.of(np.array([size]), np.array([64.0]), np.array([2.0])) for size in (8.0, 16.0))
    between, nearest = ("network.pipeline_hop=between_domains",), ("network.pipeline_hop=nearest",)
    assert _seconds("llama_3_70b", nearest, 0.0, inside) < _seconds("llama_3_70b", between, 0.0, inside)
    assert _seconds("llama_3_70b", nearest, 0.0, across) == _seconds("llama_3_70b", between, 0.0, across)


def test_an_all_reduce_carries_every_active_expert_or_their_sum() -> None:
    plan = Plans.of(np.array([64.0]), np.array([1000.0]), np.ones(1))
    each, once = ("experts.all_reduce=every_active_expert",), ("experts.all_reduce=once",)
    assert _seconds("mixtral_8x22b", once, 0.0, plan) < _seconds("mixtral_8x22b", each, 0.0, plan)
    assert _seconds("llama_3_70b", once, 0.0, plan) == _seconds("llama_3_70b", each, 0.0, plan)


def test_the_cache_of_the_whole_batch_may_be_read_per_micro_batch() -> None:
    plan = Plans.of(np.array([64.0]), np.array([512.0]), np.array([4.0]))
    one, whole = (f"attention.kv_reads={what}" for what in ("micro_batch", "batch"))
    assert _seconds("llama_3_70b", (one,), 20000.0, plan) < _seconds("llama_3_70b", (whole,), 20000.0, plan)
    flat = Plans.of(np.array([64.0]), np.array([512.0]), np.ones(1))
    assert _seconds("llama_3_70b", (one,), 20000.0, flat) == _seconds("llama_3_70b", (whole,), 20000.0, flat)


def test_the_embedding_may_stay_on_all_chips_where_attention_scales_down() -> None:
    plan = Plans(np.array([64.0]), np.array([4000.0]), np.ones(1), np.array([8.0]), None)
    here, there = (f"layout.scale_down_repeats_embedding={flag}" for flag in ("true", "false"))
    assert _seconds("llama_3_8b", (there,), 0.0, plan) < _seconds("llama_3_8b", (here,), 0.0, plan)
    full = Plans.of(np.array([64.0]), np.array([4000.0]), np.ones(1))
    assert _seconds("llama_3_8b", (there,), 0.0, full) == _seconds("llama_3_8b", (here,), 0.0, full)
