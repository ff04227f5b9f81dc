"""Random distribution of tokens over expert ranks, compared with simulated routers."""

from __future__ import annotations

import numpy as np
import pytest

from inference_econ.engine import Operator, evaluate, step_seconds
from inference_econ.engine.operator_costs import operator_costs
from tests.planned import plan_of, row_of, setup_of
from tests.reading import scalar

#: Dimensions of Qwen3 30B A3B.
EXPERTS, ACTIVE = 128, 8
#: Only arithmetic and memory, without kernel curves.
_ALONE = ("experts.kernels={}", "network.collectives=free", "host.graph_launch=0 us")


def _experts(spread: str, *, ep: int, batch: float, scv: float = 0.0, tile: int = 0) -> Operator:
    chosen = (f"experts.spread={spread}", f"experts.popularity_scv={scv}", f"experts.tile={tile}")
    setup = setup_of("qwen3_30b_a3b", "h100_sxm", 0.0, *chosen, "experts.kernels={}")
    return row_of(setup, plan_of(8, ep=ep, batch=batch), "experts in")


def _simulated(ranks: int, tokens: int) -> tuple[float, float]:
    """Return the most distinct experts and the most tokens of a rank, each over the mean of the ranks."""
    draw, touched, routed = np.random.default_rng(11), [], []
    for _ in range(2000):
        chosen = np.stack([draw.permutation(EXPERTS)[:ACTIVE] for _ in range(tokens)])
        held = chosen // (EXPERTS // ranks)
        each = [np.unique(chosen[held == rank]).size for rank in range(ranks)]
        touched.append(max(each) / np.mean(each))
        routed.append(np.bincount(held.ravel(), minlength=ranks).max() / (tokens * ACTIVE / ranks))
    return float(np.mean(touched)), float(np.mean(routed))


@pytest.mark.parametrize(("ranks", "tokens"), [(8, 2), (8, 16), (4, 8), (2, 4)])
def test_a_step_waits_for_the_rank_that_has_most(ranks: int, tokens: int) -> None:
    even, random = (_experts(spread, ep=ranks, batch=tokens) for spread in ("even", "random"))
    touched, routed = _simulated(ranks, tokens)
    assert scalar(random.weight_bytes) / scalar(even.weight_bytes) == pytest.approx(touched, rel=0.08)
    assert scalar(random.flop_per_token) / scalar(even.flop_per_token) == pytest.approx(routed, rel=0.12)


def test_one_rank_waits_for_nobody() -> None:
    even, random = (_experts(spread, ep=1, batch=16) for spread in ("even", "random"))
    assert scalar(random.weight_bytes) == pytest.approx(scalar(even.weight_bytes))
    assert scalar(random.flop_per_token) == pytest.approx(scalar(even.flop_per_token))


def test_no_rank_touches_more_than_it_holds() -> None:
    every, random = (_experts(spread, ep=8, batch=4096) for spread in ("even", "random"))
    assert scalar(random.weight_bytes) == pytest.approx(scalar(every.weight_bytes), rel=1e-6)


def test_popular_experts_are_touched_by_many_and_crowd_their_rank() -> None:
    alike, popular = (_experts("random", ep=8, batch=64, scv=scv) for scv in (0.0, 1.0))
    assert scalar(popular.weight_bytes) < scalar(alike.weight_bytes)
    assert scalar(popular.flop_per_token) > scalar(alike.flop_per_token)


def test_the_last_tile_of_an_expert_is_half_empty() -> None:
    whole, tiled = (_experts("even", ep=1, batch=batch, tile=tile) for batch, tile in ((16, 0), (16, 128)))
    touched = EXPERTS * (1.0 - (1.0 - ACTIVE / EXPERTS) ** 16)
    assert scalar(tiled.flop_per_token) == scalar(whole.flop_per_token)
    assert scalar(tiled.padding) == pytest.approx(1.0 + 64.0 * touched / (16 * ACTIVE))
    assert scalar(whole.padding) == 1.0


@pytest.mark.parametrize("overlap", [0.0, 0.3, 1.0])
def test_what_of_experts_does_not_overlap_adds_up(overlap: float) -> None:
    changes = (f"experts.overlap={overlap}", "per_family={}", *_ALONE)
    setup, plans = setup_of("qwen3_30b_a3b", "h100_sxm", 0.0, *changes), plan_of(8, batch=4096)
    rows = {row.name: row for row in operator_costs(setup, plans, "1d")}
    row = rows["experts in"]
    longer, shorter = max(row.compute_seconds, row.memory_seconds), min(row.compute_seconds, row.memory_seconds)
    assert row.seconds == pytest.approx(longer + (1.0 - overlap) * shorter)
    costs = evaluate(setup, plans, "1d")
    assert scalar(costs.seconds) == pytest.approx(sum(one.seconds for one in rows.values()))
    assert scalar(costs.seconds) == pytest.approx(scalar(step_seconds(setup, plans)[0]))
    assert rows["qkv"].seconds == pytest.approx(max(rows["qkv"].compute_seconds, rows["qkv"].memory_seconds))


def test_the_overlap_of_experts_is_one_of_operators() -> None:
    """Under the roofline of the full step, and without any overlap, it has no effect."""
    for overlap, share in (("step", 0.0), ("none", 1.0)):
        changes = ("experts.overlap=0.3", f"chip.overlap={overlap}", *_ALONE)
        setup = setup_of("qwen3_30b_a3b", "h100_sxm", 0.0, *changes)
        row = next(row for row in operator_costs(setup, plan_of(8, batch=4096), "1d") if row.name == "experts in")
        longer, shorter = max(row.compute_seconds, row.memory_seconds), min(row.compute_seconds, row.memory_seconds)
        assert row.seconds == pytest.approx(longer + share * shorter)
