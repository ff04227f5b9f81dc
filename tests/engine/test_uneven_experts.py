"""Experts on ranks as chance has it, against routers that are simulated."""

from __future__ import annotations

import numpy as np
import pytest

from inference_econ import catalog
from inference_econ.plans import Plans
from inference_econ.precision import Precision
from inference_econ.question import Question
from inference_econ.rows import Operator

#: Of Qwen3 30B A3B.
EXPERTS, ACTIVE = 128, 8


def _experts(spread: str, *, ep: int, batch: float, scv: float = 0.0) -> Operator:
    changes = (f"expert_spread={spread}", f"expert_popularity_scv={scv}")
    assumptions = catalog.assumptions("deployable", changes=changes)
    model = catalog.model("qwen3_30b_a3b")
    question = Question.of(model, catalog.hardware("h100_sxm"), Precision.of(model), 0.0, assumptions)
    one = np.ones(1)
    plans = Plans(8 * one, batch * one, one, 8 * one, ep * one, whole=True)
    return next(row for row in question.work(plans).operators if row.name == "experts in")


def _number(value: object) -> float:
    return float(np.ravel(np.asarray(value, dtype=float))[0])


def _simulated(ranks: int, tokens: int) -> tuple[float, float]:
    """Touched experts of the rank that touches most, and tokens of the one that gets most, over the mean rank's."""
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
    assert _number(random.weight_bytes) / _number(even.weight_bytes) == pytest.approx(touched, rel=0.08)
    assert _number(random.flop_per_token) / _number(even.flop_per_token) == pytest.approx(routed, rel=0.12)


def test_one_rank_waits_for_nobody() -> None:
    even, random = (_experts(spread, ep=1, batch=16) for spread in ("even", "random"))
    assert _number(random.weight_bytes) == pytest.approx(_number(even.weight_bytes))
    assert _number(random.flop_per_token) == pytest.approx(_number(even.flop_per_token))


def test_no_rank_touches_more_than_it_holds() -> None:
    every, random = (_experts(spread, ep=8, batch=4096) for spread in ("even", "random"))
    assert _number(random.weight_bytes) == pytest.approx(_number(every.weight_bytes), rel=1e-6)


def test_popular_experts_are_touched_by_many_and_crowd_their_rank() -> None:
    alike, popular = (_experts("random", ep=8, batch=64, scv=scv) for scv in (0.0, 1.0))
    assert _number(popular.weight_bytes) < _number(alike.weight_bytes)
    assert _number(popular.flop_per_token) > _number(alike.flop_per_token)
