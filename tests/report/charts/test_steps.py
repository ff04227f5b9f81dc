"""Charts of steps: parts that end at the total, operators below the roofs of the chip, and the step of a point."""

from __future__ import annotations

import itertools
import math

import pytest

import inference_econ as ie
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier, frontier
from inference_econ.engine import Setup, Space
from inference_econ.inputs import Traffic
from inference_econ.report import charts
from inference_econ.report.charts.roofline import RooflinePicture
from inference_econ.report.questions.explain import ExplanationPage
from inference_econ.report.questions.frontier import FrontierPage
from tests import asking
from tests.charted import Spec, marked, rows_of, sound, views

STEPS = {
    "dense": lambda: asking.explain("llama_3_70b", "h100_sxm", tp=4, batch=64, weights="fp8"),
    "experts": lambda: asking.explain("deepseek_v3", "h200_sxm", tp=8, batch=64),
    "prefill": lambda: asking.explain("llama_3_70b", "h100_sxm", tp=4, weights="fp8", prompt=4000),
}


@pytest.fixture(scope="module", params=STEPS)
def step(request: pytest.FixtureRequest) -> ie.Explanation:
    return STEPS[request.param]()


def roofline(step: ie.Explanation) -> RooflinePicture:
    return charts.roofline(step.setup, step.operators, step.seconds)


def test_the_largest_operators_are_named_and_names_cover_nothing(step: ie.Explanation) -> None:
    spec, roof = sound(ExplanationPage(step).charts()["roofline"]), roofline(step)
    ridges, _, names = marked(spec, "text")
    labels = {row["text"]: row for row in rows_of(spec, names)}
    for point in roof.points[:3]:
        assert f"{point.name} {100 * point.share:.0f} %" in labels
    for unit, peak in roof.peaks.items():
        said = [line for row in rows_of(spec, ridges) for line in row["text"]]
        assert any(line.startswith(f"{unit}: ") for line in said)
        assert f"ridge: {peak / roof.bytes_per_second:.0f} FLOP/B" in said
    # On a phone there is room for these alone.
    assert names["mark"]["opacity"] == {"expr": "width < 450 && datum.rank >= 3 ? 0 : 1"}
    boxes = [_box(spec, names, row) for row in labels.values()]
    for one, other in itertools.combinations(boxes, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_no_operator_is_above_its_roof(step: ie.Explanation) -> None:
    roof = roofline(step)
    for point in roof.points:
        attainable = min(point.flop_per_byte * roof.bytes_per_second, roof.peaks[point.unit])
        assert 0.0 < point.flops_per_second < attainable * (1 + 1e-9)
    assert [point.share for point in roof.points] == sorted((point.share for point in roof.points), reverse=True)
    names = [point.name for point in roof.points]
    assert len(names) == len(set(names))
    assert "attention" in names
    assert "norms" not in names
    together = sum(row.seconds for row in step.operators if row.name == "attention") / step.seconds
    assert roof.points[names.index("attention")].share == pytest.approx(together)
    assert 0.0 <= roof.left_out < 0.2


def _box(spec: Spec, view: Spec, row: dict[str, float]) -> tuple[float, float, float, float]:
    """Return the area of a label, with characters of six pixels by eleven."""
    places = []
    for name, size in (("x", spec["width"]), ("y", spec["height"])):
        low, high = view["encoding"][name]["scale"]["domain"]
        places.append(size * math.log(row[name] / low) / math.log(high / low))
    left = places[0] + row["dx"]
    width = 6.0 * len(str(row["text"]))
    left -= width if row["align"] == "right" else 0.0  # type: ignore[comparison-overlap]
    middle = spec["height"] - places[1] + row["dy"]
    return left, middle - 5.5, left + width, middle + 5.5


@pytest.fixture(scope="module")
def front() -> ServiceFrontier:
    setup = Setup.of("llama_3_70b", "h200_sxm", weights="fp8")
    return frontier(setup, Traffic(isl=1024, osl=1024), Space(max_accelerators=8))


@pytest.fixture(scope="module")
def spec(front: ServiceFrontier) -> Spec:
    return sound(FrontierPage(front, "cost").charts()["frontier"])


def test_the_step_of_a_clicked_point_adds_up_to_its_time_per_token(front: ServiceFrontier, spec: Spec) -> None:
    (clicked,) = [param for param in spec["params"] if param["name"] == "clicked"]
    assert clicked["value"] == [{"n": front.preferred_index()}]
    (whole,) = [it for it in views(spec) if it.get("mark", {}).get("type") == "bar" and "whole" in str(it["transform"])]
    assert {"filter": {"param": "clicked", "empty": False}} in whole["transform"]
    rows = [row for row in rows_of(spec, whole) if row["style"] == "whole"]
    assert [row["end"] for row in rows] == pytest.approx(1e3 * front.tpot_seconds, rel=1e-5)
    parts = [row for row in rows_of(spec, whole) if row["style"] == "part" and row["n"] == 0]
    assert max(row["end"] for row in parts) == pytest.approx(rows[0]["end"], rel=0.02)
