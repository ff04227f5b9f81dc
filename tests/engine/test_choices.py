"""Each choice of the study, edited one at a time: fields of the assumptions against edits of the published code.

The expected values were printed by the published code of Erdil (2025) with one statement edited, without pipelines,
on its grid of 400 x 400 instances, so that the alternatives to the ``paper`` preset have a second oracle too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from inference_econ.engine import Plans, Setup, Speculation, memory, paper_grid, step_seconds
from inference_econ.inputs import Precision, catalog
from inference_econ.search import Frontier, Sampling, compute

#: Experts over active experts, as the study's grids take it.
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

LL = "{LL: {base: 6.8 us, per_rank: 0.6 us, per_domain_doubling: 5 us, bandwidth_factor: 0.5}}"
ONLY_LL = f"network.collectives={{kind: nccl_tree, version: '2.19', protocols: {LL}}}"


def _question(model: str, weights: str | None, context: float, changes: tuple[str, ...]) -> Setup:
    spec, assumed = catalog.model(f"paper/{model}"), catalog.assumptions("paper", changes=changes)
    return Setup(
        spec,
        catalog.hardware("paper/h100"),
        Precision.of(spec, weights, embeddings=assumed.capacity.embedding_format),
        context,
        assumed,
    )


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
    """Cheapest cost at or above a speed [USD per 1e6 tokens]."""
    return float(front.dollars[front.tokens_per_second >= speed].min())


@pytest.mark.parametrize(
    ("place", "costs"),
    [
        (("llama_3_70b", 0), (0.1085, 0.3714, 1.404)),
        (("deepseek_v3", 0), (0.4474, 1.421, 5.069)),
        (("mixtral_8x22b", 0), (0.1429, 0.4560, 1.904)),
        (("deepseek_v3", 100_000), (3.066, 5.361, 12.07)),
        (("mistral_large_2", 100_000), (16.02, 34.87)),
    ],
)
def test_costs_before_any_edit(place: tuple[str, int], costs: tuple[float, ...]) -> None:
    front = _frontier(place[0], context=place[1])
    for speed, cost in zip(SPEEDS[place], costs, strict=True):
        # Four printed digits.
        assert _cost(front, speed) == pytest.approx(cost, rel=5e-4)


@pytest.mark.parametrize(
    ("change", "place", "ratios"),
    [
        # Traffic inside and between domains one after the other, as eqs. (28) and (39) have it.
        ("network.collectives.domains_overlap=false", ("deepseek_v3", 0), (1.17, 1.08, 1.04)),
        ("network.collectives.domains_overlap=false", ("llama_3_70b", 0), (1.0, 1.0, 1.37)),
        ("network.collectives.domains_overlap=false", ("mistral_large_2", 100_000), (1.05, 1.08)),
        # The protocol LL only, as the text has it.
        (ONLY_LL, ("llama_3_70b", 0), (1.14, 1.0, 1.0)),
        (ONLY_LL, ("deepseek_v3", 0), (1.31, 1.16, 1.0)),
        (ONLY_LL, ("mixtral_8x22b", 0), (1.23, 1.15, 1.0)),
        # Attention on every chip of a stage.
        ("layout.attention_scale_down_steps=0", ("llama_3_70b", 0), (1.0, 1.0, 1.40)),
        ("layout.attention_scale_down_steps=0", ("deepseek_v3", 0), (1.43, 2.62, 2.87)),
        ("layout.attention_scale_down_steps=0", ("deepseek_v3", 100_000), (1.23, 1.97, 1.51)),
        ("layout.attention_scale_down_steps=0", ("mixtral_8x22b", 0), (1.13, 1.63, 15.7)),
        # The rule for activation traffic before 22 May 2025.
        ("chip.activation_traffic=unbalanced", ("llama_3_70b", 0), (1.28, 1.24, 1.28)),
        ("chip.activation_traffic=unbalanced", ("deepseek_v3", 0), (1.20, 1.28, 1.17)),
        ("chip.activation_traffic=unbalanced", ("mixtral_8x22b", 0), (1.11, 1.22, 1.15)),
        # No expert parallelism.
        ("experts.parallel=false", ("deepseek_v3", 0), (8.1, 6.4, 2.7)),
        ("experts.parallel=false", ("mixtral_8x22b", 0), (2.7, 3.5, 9.5)),
        # All-to-all over the whole expert-parallel group.
        ("experts.all_to_all_ranks=expert_parallel", ("deepseek_v3", 0), (1.24, 2.99, 2.66)),
        ("experts.all_to_all_ranks=expert_parallel", ("deepseek_v3", 100_000), (1.27, 2.17, 1.41)),
        ("experts.all_to_all_ranks=expert_parallel", ("mixtral_8x22b", 0), (1.10, 1.23, 1.75)),
        # The up-projections of latent attention as the parameter count has them.
        ("attention.latent_traffic=exact", ("deepseek_v3", 0), (0.96, 0.92, 0.86)),
        # The 16-bit rate beside 16-bit activations.
        ("chip.math_unit_follows=widest", ("llama_3_70b", 0), (1.53, 1.0, 1.0)),
    ],
)
def test_costs_at_fixed_speeds(change: str, place: tuple[str, int], ratios: tuple[float, ...]) -> None:
    before, after = _frontier(place[0], context=place[1]), _frontier(place[0], (change,), place[1])
    for speed, ratio in zip(SPEEDS[place], ratios, strict=True):
        # Ratios of rounded costs, to two or three digits: 2 %.
        assert _cost(after, speed) / _cost(before, speed) == pytest.approx(ratio, rel=0.02)


@pytest.mark.parametrize(
    ("change", "model", "fastest", "accelerators"),
    [
        ("", "llama_3_70b", 152.0, 23.6),
        ("", "deepseek_v3", 214.5, 13.3),
        ("", "mixtral_8x22b", 196.2, 31.5),
        ("network.collectives.domains_overlap=false", "llama_3_70b", 151.8, None),
        ("network.collectives.domains_overlap=false", "deepseek_v3", 212.4, None),
        (ONLY_LL, "llama_3_70b", 152.0, 23.6),
        ("layout.attention_scale_down_steps=0", "llama_3_70b", 140.9, 15.6),
        ("layout.attention_scale_down_steps=0", "deepseek_v3", 205.6, None),
        ("layout.attention_scale_down_steps=0", "mixtral_8x22b", 175.3, None),
        ("experts.parallel_min_requests_per_sparsity=0", "deepseek_v3", 240.0, 178.0),
        ("experts.parallel_min_requests_per_sparsity=0", "mixtral_8x22b", 225.4, 63.7),
        ("attention.latent_traffic=exact", "deepseek_v3", 222.8, None),
        ("experts.sparsity=exact", "deepseek_v3", 215.0, None),
        ("chip.math_unit_follows=widest", "llama_3_70b", 152.0, 23.6),
        ("host.launch=0 us", "llama_3_70b", 188.8, None),
        ("host.launch=0 us", "deepseek_v3", 267.8, None),
        ("host.launch=0 us", "mixtral_8x22b", 238.0, None),
    ],
)
def test_largest_speeds(change: str, model: str, fastest: float, accelerators: float | None) -> None:
    front = _frontier(model, (change,) if change else ())
    # To the printed digit.
    assert round(float(front.tokens_per_second[-1]), 1) == fastest
    if accelerators is not None:
        assert float(front.accelerators[-1]) == pytest.approx(accelerators, rel=0.003)


@pytest.mark.parametrize(
    ("changes", "model", "speed", "cost"),
    [
        ((), "llama_3_70b", 99.1, 0.371),
        ((), "deepseek_v3", 105.2, 1.421),
        ((), "mixtral_8x22b", 103.9, 0.454),
        (("network.collectives.domains_overlap=false",), "deepseek_v3", 107.2, 1.63),
        ((ONLY_LL,), "deepseek_v3", 127.7, 2.75),
        ((ONLY_LL,), "mixtral_8x22b", 118.8, 0.748),
        (("layout.attention_scale_down_steps=0",), "deepseek_v3", 83.4, 1.48),
        (("chip.activation_traffic=single_copy",), "llama_3_70b", 98.7, 0.339),
        (("chip.activation_traffic=single_copy",), "deepseek_v3", 105.2, 1.31),
        (("chip.activation_traffic=single_copy",), "mixtral_8x22b", 103.1, 0.401),
    ],
)
def test_preferred_points(changes: tuple[str, ...], model: str, speed: float, cost: float) -> None:
    front = _frontier(model, changes, sampled=True)
    index = front.preferred_index(3.0)
    assert round(float(front.tokens_per_second[index]), 1) == speed
    assert float(front.dollars[index]) == pytest.approx(cost, rel=3e-3)  # three printed digits


@pytest.mark.parametrize(
    ("changes", "model", "cheapest"),
    [
        ((), "llama_3_70b", 0.0589),
        ((), "deepseek_v3", 0.0714),
        ((), "mixtral_8x22b", 0.0716),
        (("network.collectives.domains_overlap=false",), "deepseek_v3", 0.0872),
        ((ONLY_LL,), "deepseek_v3", 0.1048),
        (("experts.parallel=false",), "deepseek_v3", 0.192),
        (("chip.math_efficiency=1", "chip.hbm_efficiency=1"), "llama_3_70b", 0.0412),
        (("chip.math_unit_follows=widest",), "llama_3_70b", 0.1178),
        (("chip.embedding_flop=output",), "llama_3_70b", 0.0589 * (1 - 0.015)),
        (("chip.embedding_flop=output",), "deepseek_v3", 0.0714 * (1 - 0.011)),
    ],
)
def test_smallest_costs(changes: tuple[str, ...], model: str, cheapest: float) -> None:
    # Three printed digits.
    assert float(_frontier(model, changes, sampled=True).dollars[0]) == pytest.approx(cheapest, rel=2e-3)


def test_without_caps() -> None:
    front = _frontier("llama_3_70b", ("chip.math_efficiency=1", "chip.hbm_efficiency=1"))
    assert round(float(front.tokens_per_second[-1]), 1) == 164.9
    assert float(front.accelerators[-1]) == pytest.approx(15.6, rel=0.003)


@pytest.mark.parametrize(
    ("series", "model", "fastest", "speed", "cost"),
    [
        ("draft_length", "llama_3_70b", 188.9, 110.7, 0.311),
        ("draft_length_plus_one", "llama_3_70b", 220.3, 122.9, 0.272),
        ("draft_length_plus_one", "deepseek_v3", 237.7, 121.9, 1.36),
    ],
)
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
    # Largest speed unchanged, the cheap end 0.3 to 1.5 % dearer.
    assert after.tokens_per_second[-1] == before.tokens_per_second[-1]
    assert 1.003 < after.dollars[0] / before.dollars[0] < 1.015


# Choices that no edit was printed for: what they say, word by word.


def _seconds(model: str, changes: tuple[str, ...], context: float, plans: Plans) -> float:
    return float(step_seconds(_question(model, None, context, changes), plans)[0][0])


@pytest.mark.parametrize("tokens", [1, 4])
def test_a_verification_sees_the_context_of_its_start_or_of_its_middle(tokens: int) -> None:
    # A long context, so that the cache counts.
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
