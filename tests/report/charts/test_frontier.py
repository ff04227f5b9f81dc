"""Cost against speed, the step of a point beside it."""

from __future__ import annotations

import pytest

from inference_econ.answers.deployments.serving_frontier import ServiceFrontier, frontier
from inference_econ.engine import Setup, Space
from inference_econ.inputs import Traffic
from inference_econ.report.questions.frontier import FrontierPage
from tests.charted import Spec, hovering, legend, rows_of, sound, views


@pytest.fixture(scope="module")
def front() -> ServiceFrontier:
    setup = Setup.of("llama_3_70b", "h200_sxm", weights="fp8")
    return frontier(setup, Traffic(isl=1024, osl=1024), Space(max_accelerators=8))


@pytest.fixture(scope="module")
def spec(front: ServiceFrontier) -> Spec:
    return sound(FrontierPage(front, "cost").charts()["frontier"])


def test_hovering_over_a_frontier_says_its_deployments(spec: Spec) -> None:
    assert spec["title"]["text"] == "What do services cost at each speed?"
    lines = {"Pareto frontier of services", "80 % of measured values (profiles/trtllm_hopper)"}
    assert lines < legend(spec)
    details = {
        "layout",
        "GPUs",
        "engine",
        "in flight",
        "batch",
        "TTFT ms",
        "TPOT ms",
        "$/M output",
        "$/M low",
        "$/M high",
    }
    assert any(details < hovering(view) for view in views(spec))


def test_the_step_of_the_point_that_is_clicked_adds_up_to_its_time_per_token(
    front: ServiceFrontier, spec: Spec
) -> None:
    (clicked,) = [param for param in spec["params"] if param["name"] == "clicked"]
    assert clicked["value"] == [{"n": front.preferred_index()}]
    (whole,) = [
        view for view in views(spec) if view.get("mark", {}).get("type") == "bar" and "whole" in str(view["transform"])
    ]
    assert {"filter": {"param": "clicked", "empty": False}} in whole["transform"]
    rows = [row for row in rows_of(spec, whole) if row["style"] == "whole"]
    assert [row["end"] for row in rows] == pytest.approx(1e3 * front.tpot_seconds, rel=1e-5)
    parts = [row for row in rows_of(spec, whole) if row["style"] == "part" and row["n"] == 0]
    assert max(row["end"] for row in parts) == pytest.approx(rows[0]["end"], rel=0.02)
