"""Legends on a phone: labels in lines, and names on a roofline where there is room for them."""

from __future__ import annotations

import json
import re

import pytest

import inference_econ as ie
from inference_econ.report import charts
from inference_econ.report.explain import ExplanationPage
from tests.charted import Spec, sound


@pytest.fixture(scope="module")
def spec() -> Spec:
    step = ie.explain(ie.Setup.of("llama_3_70b", "h100_sxm"), ie.Pins(tp=8, batch=64))
    return sound(ExplanationPage(step).charts()["roofline"])


def test_only_the_largest_operators_have_names_on_a_phone(spec: Spec) -> None:
    (names,) = (layer["mark"] for layer in spec["layer"] if "rank" in json.dumps(layer.get("mark", {})))
    assert names["opacity"] == {"expr": "width < 450 && datum.rank >= 3 ? 0 : 1"}


def test_pages_can_fold_legends() -> None:
    """The pattern takes as many words as a line has room for; the browser's tests see it drawn."""
    script = charts.javascript()
    assert "window,{vega" in script
    (pattern,) = re.findall(r"regexp\('(.*?)', 'g'\)", script)
    characters = re.escape("${Math.floor((width-60)/7)}")
    lines = re.sub(re.sub(characters, "18", pattern), r"\1|", "80 % of measured values (profiles/hopper)")
    assert lines.split("|") == ["80 % of measured", "values", "(profiles/hopper)", ""]
