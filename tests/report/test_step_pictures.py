"""What pictures of a step show: parts that end at the total, and operators below the roofs of their chip."""

from __future__ import annotations

import pytest

import inference_econ as ie
from inference_econ.answers.price import sheet
from inference_econ.report.explain import named_parts
from inference_econ.report.heading import step_heading
from inference_econ.report.price import price_waterfall
from inference_econ.report.step_pictures import roofline, step_waterfall
from inference_econ.report.table import dollars
from tests.offered import service_of


def test_the_bill_of_an_hour_is_shared_by_kinds_of_tokens() -> None:
    bill = sheet(service_of(cached=200.0), 4.0)
    fall = price_waterfall(bill)
    assert [bar.name for bar in fall.bars] == ["input", "cached input", "output"]
    assert fall.total == pytest.approx(bill.dollars_per_hour)
    assert "1000 input tokens, 200 of it cached" in fall.title
    assert fall.bars[-1].text.endswith(f"${dollars(bill.average['output'])}/M")


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


def test_titles_say_the_step_its_deployment_and_its_traffic(step: ie.Explanation) -> None:
    for title in (step_waterfall(step, named_parts(step)).title, roofline(step).title):
        assert title.splitlines()[0].endswith("?")
        assert step_heading(step) in title
        assert "per GPU-hour" in title
        assert ("4000 prompt tokens" in title) is (step.prompt is not None)
        assert ("context 2250" in title) is (step.prompt is None)
