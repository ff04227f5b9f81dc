"""Reports of results in Python: values that depend on a price follow it as in Python, and the other parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import inference_econ as ie
from inference_econ._answer import Shown
from inference_econ.extras.web.document import Asked, script, section
from inference_econ.records.texts import Amount
from inference_econ.report.pages import page
from tests.documents import read
from tests.reading import of, present

SPACE = ie.Space(ie.Pins(tp=1, dp=1, pp=1))
REQUESTS = ie.Requests.build({"isl": 1000, "osl": 200, "cached": 500}, origin="test")


def _setup(price: float) -> ie.Setup:
    return ie.Setup.of("llama_3_8b", "h100_sxm", price=price)


def _layouts(price: float) -> Any:
    return ie.layouts(_setup(price), REQUESTS, SPACE)


#: Results by the price of an hour.
ANSWERS: dict[str, Callable[[float], Shown]] = {
    "frontier": lambda price: ie.frontier(_setup(price), REQUESTS, SPACE),
    "price": lambda price: ie.price(_layouts(price), 5.0),
    "recommend": lambda price: ie.recommend([_layouts(price)], 5.0, ie.Targets(0.5)),
    "load": lambda price: ie.load(_layouts(price), [2.0, 5.0]),
    "gpus": lambda price: ie.most_traffic([_layouts(price)], ie.Means(2), ie.Targets()),
}


def _amounts(answer: Shown) -> list[Amount]:
    made = section(Asked(page(answer)))
    cells = [cell for table in made.tables for row in table.rows for cell in row]
    return [text for text in (*made.answer, *cells) if isinstance(text, Amount)]


@pytest.mark.parametrize("kind", ANSWERS)
def test_what_has_a_slider_is_in_proportion_to_the_price(kind: str) -> None:
    cheap, dear = (_amounts(ANSWERS[kind](price)) for price in (2.0, 5.0))
    assert cheap
    for one, other in zip(cheap, dear, strict=True):
        assert other.value == pytest.approx(2.5 * one.value, rel=1e-12)
        assert other.per == one.per


def _sliders(answer: Shown) -> list[str]:
    return [slider.name for slider in section(Asked(page(answer))).sliders]


def test_only_what_is_exact_has_a_slider() -> None:
    assert _sliders(ANSWERS["frontier"](2.0)) == ["price", "use"]
    sheet = of(ie.Sheet, ANSWERS["price"](2.0))
    assert _sliders(sheet) == ["price", "use", "cached"]
    assert _sliders(ie.hour_cost(ie.hardware("h100_sxm"))) == []
    assert _sliders(ie.most_traffic([_layouts(2.0)], ie.Means(dollars_per_hour=20.0), ie.Targets())) == []
    assert _sliders(replace(sheet, api={"input": 1.0})) == []  # margins are no proportion
    several = ie.compare(models="llama_3_8b", hardware=["h100_sxm", "h200_sxm"], tp=1)
    assert _sliders(several) == ["prices", "use"]


def test_a_report_of_python(tmp_path: Path) -> None:
    path = tmp_path / "front.html"
    front = ie.frontier(_setup(2.0), REQUESTS, SPACE)
    front.report(path)
    document = read(path)
    assert document.loaded() == []
    assert len(document.charts()) == 1
    assert "in Python, with .report()" in document.text
    assert re.search(r"From \$[\d.]+ per million output tokens at", document.texts("p", class_="answer")[0])
    (script,) = (text for _, text in document.all("pre"))
    assert "vllm serve" in script and "vllm bench serve" in script


def test_what_no_engine_is_known_for_says_so() -> None:
    nameless = ie.Setup.of(ie.model("qwen3_14b").replace(huggingface_id=None), "h100_sxm")
    front = ie.frontier(nameless, REQUESTS, SPACE)
    start = present(page(front).start())
    assert script(start).startswith("# No command line: Qwen3 14B has no huggingface_id")
    assert page(ie.explain(_setup(2.0), ie.Pins(tp=1, batch=4))).start() is None
