"""What is said of fleets that nobody would rent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inference_econ.answers.deployments.recommend import recommend
from inference_econ.answers.slo import Targets
from inference_econ.records.texts import dollars
from inference_econ.report.questions.recommend import recommend_charts, recommend_table
from tests.offered import offer_of


@pytest.mark.parametrize(
    ("busy", "binding", "said"), [(0.01, "ttft", True), (0.01, "instance", False), (0.3, "ttft", False)]
)
def test_a_fleet_that_is_idle_for_the_sake_of_a_promise_is_said_to_be(busy: float, binding: str, said: bool) -> None:
    targets = Targets(ttft_seconds=1.0)
    choice = recommend([offer_of(most=1)], 5.0, targets, most=1)[0]
    assert choice.fleet is None
    idle = replace(choice, binding=binding, load=replace(choice.load, utilization=busy))
    text = "The first fleet is 1 % busy: the TTFT SLO is all but that of an idle server"
    assert any(note.startswith(text) for note in recommend_table([idle], targets).notes) is said


def test_the_picture_marks_the_cheapest_and_what_is_promised() -> None:
    targets = Targets(tpot_seconds=0.05)
    choices = recommend([offer_of(most=2)], 5.0, targets, most=4)
    waits, speeds = recommend_charts(choices, targets)
    assert (waits.marks, speeds.marks) == ({}, {"TPOT SLO p90: 50 ms": 50.0})
    best, *others = speeds.lines
    assert best.label.startswith("the cheapest: ")
    assert list(best.y) == [choices[0].dollars_per_hour]
    assert best.details["$/M output"] == [dollars(choices[0].dollars_per_million_output_tokens)]
    assert list(best.x) == [1e3 * choices[0].load.tpot_seconds["p90"]]
    assert [cost for line in others for cost in line.y] == [choice.dollars_per_hour for choice in choices[1:]]
    assert all(line.points and len(line.details["layout"]) == len(line.y) for line in speeds.lines)
