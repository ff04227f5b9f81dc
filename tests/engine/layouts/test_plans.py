"""Arrays of plans, and their divisibility."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from inference_econ.engine import Plans, indivisible
from inference_econ.engine.layouts.plans import fullest_group
from inference_econ.engine.layouts.startable import PROBLEMS, ProblemCode
from inference_econ.inputs import catalog
from tests.planned import plan_of


def _codes(
    model: str, plan: Plans, cut: str = "1d", blocks: tuple[int, int] = (1, 1), changes: tuple[str, ...] = ()
) -> set[str]:
    assumed = catalog.assumptions("deployable", changes=("experts.redundant=null", *changes))
    problems = indivisible(catalog.model(model), plan, "2d" if cut == "2d" else "1d", assumed, blocks)
    return {problem.code for problem in problems if np.any(problem.where)}


@pytest.mark.rows
def test_what_does_not_divide_has_a_code(model: str, plan: dict[str, Any], code: str | None) -> None:
    found = _codes(model, plan_of(**plan))
    assert found == set() if code is None else code in found


@pytest.mark.rows
def test_sequences_are_dealt_out_to_groups(batch: float, fullest: float) -> None:
    layout = catalog.assumptions("deployable").layout
    assert fullest_group(plan_of(1, 4, batch=batch), layout) == pytest.approx(fullest)
    # Each of two micro-batches has half.
    assert fullest_group(plan_of(1, 4, 2, batch=2 * batch), layout) == pytest.approx(fullest)
    assert fullest_group(plan_of(4, batch=batch), layout) == 1.0
    assert fullest_group(plan_of(1, 4, batch=batch), catalog.assumptions("paper").layout) == 1.0


def test_cuts_and_blocks_have_codes_too() -> None:
    assert _codes("llama_3_70b", plan_of(8, batch=64), "2d") == {"square"}
    assert _codes("llama_3_70b", plan_of(4, batch=64), "2d") == set()
    # 28,672 is 224 blocks of 128.
    assert _codes("llama_3_70b", plan_of(64, batch=64), blocks=(128, 128)) == {"blocks"}


def test_copies_of_experts_fill_what_does_not_divide_while_every_rank_has_one_of_its_own() -> None:
    assumed, model = catalog.assumptions("deployable"), catalog.model("deepseek_v3")

    def codes(ranks: int) -> set[str]:
        problems = indivisible(model, plan_of(1, ranks, ep=ranks, batch=float(ranks)), "1d", assumed)
        return {str(problem.code) for problem in problems if np.any(problem.where)} - {"micro_batch"}

    assert codes(72) == set()
    assert codes(256) == set()
    assert "experts" in codes(264)


def test_stages_may_have_to_be_even() -> None:
    plan, even = plan_of(1, pp=3, batch=63), ("layout.pipeline_stages=even",)
    assert (_codes("llama_3_70b", plan), _codes("llama_3_70b", plan, changes=even)) == (set(), {"layers"})


def test_every_code_has_a_text() -> None:
    assert set(PROBLEMS) == set(get_args(ProblemCode))
    model, assumed = catalog.model("deepseek_v3"), catalog.assumptions("deployable")
    texts = {problem.code: problem.text for problem in indivisible(model, plan_of(8, ep=3, batch=64), "1d", assumed)}
    assert texts["experts"] == "256 experts do not split over the expert-parallel ranks"
    assert texts["stages"] == "61 layers fill at most 61 pipeline stages"
    assert not any("{" in text for text in texts.values())
