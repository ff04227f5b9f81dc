"""Output of charts: specifications, light and dark, JavaScript, and atomically written files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from inference_econ.errors import InputError
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, PlotSeries
from tests.charted import sound
from tests.reading import present

TITLE = "What does </script> & cost?\nOf a model"
PLOT = Plot(
    TITLE, "x", "y", (PlotSeries("a $2 line", [1.0, 2.0], [3.0, 4.0], details={"layout": ["tp1", "tp2"]}),), "y"
)
STARTS = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF", ".html": b"<!DOCTYPE html>"}


@pytest.fixture(scope="module")
def chart() -> charts.AnyChart:
    return charts.line_chart(PLOT)


@pytest.mark.parametrize("ending", STARTS)
def test_files_are_the_same_every_time(tmp_path: Path, ending: str) -> None:
    for name in ("a", "b"):
        charts.write_chart(charts.line_chart(PLOT), tmp_path / f"{name}{ending}")
    first = (tmp_path / f"a{ending}").read_bytes()
    assert first.startswith(STARTS[ending])
    second = (tmp_path / f"b{ending}").read_bytes()
    # A PDF lists its fonts in any order.
    assert len(first) == len(second) if ending == ".pdf" else first == second


def test_what_cannot_be_written_leaves_nothing_behind(chart: charts.AnyChart, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.gif: a picture's name must end in \.svg, \.png, \.pdf, \.html"):
        charts.write_chart(chart, tmp_path / "a.gif")
    with pytest.raises(InputError, match=r"missing/a\.svg: cannot be written: No such file or directory"):
        charts.write_chart(chart, tmp_path / "missing" / "a.svg")
    assert not list(tmp_path.iterdir())


def test_a_page_holds_all_that_it_needs(chart: charts.AnyChart, tmp_path: Path) -> None:
    charts.write_chart(chart, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=", re.sub(r"(?s)<script>.*?</script>", "", text))
    assert "What does &lt;/script&gt; &amp; cost?" in text
    data = present(re.search(r"const chart = (.*), dark = (.*), narrow", text))
    plain, dark = map(json.loads, data.groups())
    assert plain["title"]["text"] == "What does </script> & cost?"
    assert dark == charts.config(dark=True)
    assert text.count("</script>") == 2


def test_the_javascript_says_what_pages_call_and_folds_legends() -> None:
    """The pattern has as much text as a line has room for; the browser tests check the drawing."""
    text = charts.javascript()
    assert len(text) < 1_000_000
    assert "</script" not in text
    assert "vegaEmbed" in text and "window,{vega" in text
    (pattern,) = re.findall(r"regexp\('(.*?)', 'g'\)", text)
    characters = re.escape("${Math.floor((width-60)/7)}")
    lines = re.sub(re.sub(characters, "18", pattern), r"\1|", "80 % of measured values (profiles/hopper)")
    assert lines.split("|") == ["80 % of measured", "values", "(profiles/hopper)", ""]


def test_a_dark_chart_is_a_light_one_with_another_theme(chart: charts.AnyChart) -> None:
    light, dark = sound(chart), charts.specification(chart, dark=True)
    assert {**light, "config": None} == {**dark, "config": None}
    assert light["config"].keys() == dark["config"].keys()
    assert "#" not in json.dumps({**light, "config": None})


def _luminance(colour: str) -> float:
    """Return the luminance of a color, by the Web Content Accessibility Guidelines [1]."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_words_can_be_read_and_six_colours_can_be_seen(dark: bool) -> None:
    config: dict[str, Any] = charts.config(dark=dark)
    ground = config["background"]
    # Arial, Liberation Sans and Helvetica have one width per letter; a wider font would be cut at the edge.
    assert config["font"] == "Arial, 'Liberation Sans', Helvetica, sans-serif"
    for colour in (config["text"]["color"], config["title"]["subtitleColor"], config["axis"]["labelColor"]):
        assert _contrast(colour, ground) >= 4.5
    palette = config["range"]["category"]
    assert len(set(palette)) == 6
    assert all(_contrast(colour, ground) >= 2.0 for colour in palette)
