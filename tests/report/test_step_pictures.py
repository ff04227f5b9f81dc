"""What pictures of a step show: parts that end at the total, and operators below the roofs of their chip."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import inference_econ as ie
from inference_econ.answers.price import sheet
from inference_econ.errors import InputError
from inference_econ.report.explain import ExplanationPage, named_parts
from inference_econ.report.heading import step_heading
from inference_econ.report.price import price_waterfall
from inference_econ.report.step_pictures import roofline, step_waterfall
from inference_econ.report.table import dollars
from tests.offered import service_of
from tests.report.conftest import STEPS


def test_parts_follow_each_other_to_the_total(step: ie.Explanation) -> None:
    fall = step_waterfall(step, named_parts(step))
    assert fall.bars[0].start == 0.0
    for bar, following in itertools.pairwise(fall.bars):
        assert following.start == pytest.approx(bar.start + bar.length)
        assert 0.0 < following.length <= bar.length
    assert fall.total == pytest.approx(1e3 * step.seconds)
    assert fall.text == f"{1e3 * step.seconds:.3g} ms, 100.0 %"


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


def test_pictures_are_written_whole_or_refused(tmp_path: Path) -> None:
    page = ExplanationPage(STEPS["dense"]())
    page.draw(str(tmp_path / "a.svg"))
    page.draw_roofline(str(tmp_path / "b.svg"))
    assert "weight reads" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "bound by memory" in (tmp_path / "b.svg").read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"c\.xlsx: a picture's name must end in \.svg, \.png, \.pdf"):
        page.draw_roofline(str(tmp_path / "c.xlsx"))
