"""Pages of single results: additions of a recommendation, a frontier and a comparison to their numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import inference_econ as ie
from inference_econ.answers.deployments.recommend import recommend
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.answers.slo import Targets
from inference_econ.report.notes import setup_warnings
from inference_econ.report.questions.recommend import recommend_table
from tests import asking
from tests.offered import offer_of
from tests.reading import of


@pytest.mark.parametrize(
    ("busy", "binding", "said"), [(0.01, "ttft", True), (0.01, "instance", False), (0.3, "ttft", False)]
)
def test_a_fleet_that_is_idle_for_the_sake_of_a_promise_is_said_to_be(busy: float, binding: str, said: bool) -> None:
    targets = Targets(ttft_seconds=1.0)
    choice = recommend([offer_of(most=1)], 5.0, targets, most=1)[0]
    assert choice.fleet is None
    idle = replace(choice, binding=binding, load=replace(choice.load, utilization=busy))
    text = "Even an idle server barely meets the TTFT SLO, so row 1 runs at 1% load."
    assert any(note.startswith(text) for note in recommend_table([idle], targets).notes) is said


@pytest.mark.parametrize(("weights", "bits", "bare"), [("int4", "4.12", "int4_channel"), ("nvfp4", "4.5", "fp4")])
def test_four_bits_with_scales_are_not_those_of_the_published_study(weights: str, bits: str, bare: str) -> None:
    def notes(assumptions: str | None, weights: str) -> list[str]:
        setup = asking.setup("paper/llama_3_70b", "paper/h100", weights=weights, assumptions=assumptions)
        return [note for note in setup_warnings(setup) if "published study" in note]

    # A 16-bit scale for every 128 weights, an 8-bit one for every 16.
    told = f"{weights} weights have {bits} bits each, scales included. The published study assumes 4 bits; "
    assert notes("paper", weights) == [f"{told}to match it, use --weights {bare}."]
    assert notes("deployable", weights) == notes("paper", bare) == notes("paper", "int8") == []


def test_a_cost_at_a_speed_has_the_ends_of_a_frontier_that_errors_move() -> None:
    """The interval at the speed of a point is that of the point; above the highest speed there is no cost."""
    result = ie.compare("llama_3_8b", "h100_sxm", isl=1000, osl=200, max_instance_gpus=2, speculate=False)
    front = of(ServiceFrontier, result.curves[0].frontier)
    speeds = [float(front.tokens_per_second[index]) for index in (0, len(front) // 2, len(front) - 1)]
    record = result.record([*speeds, 1e6])
    (*costs, none) = record["series"][0]["costs"]
    for speed, cost in zip(speeds, costs, strict=True):
        index = int(np.argmin(np.abs(front.tokens_per_second - speed)))
        assert cost["dollars"] == pytest.approx(front.dollars[index])
        ends = front.ends_each[index]
        slow, fast = (float(end) for end in ends["tokens_per_second_per_user"] if end is not None)
        assert slow < 1.0 < fast
        cheap, dear = ends["dollars_per_million_output_tokens"]
        assert cost["dollars_low"] == pytest.approx(cheap * cost["dollars"], rel=1e-6)
        assert cost["dollars_high"] == (None if dear is None else pytest.approx(dear * cost["dollars"], rel=1e-6))
    assert [cost["dollars_high"] is None for cost in costs] == [False, False, True]
    assert [none[name] for name in ("dollars", "dollars_low", "dollars_high")] == [None, None, None]
