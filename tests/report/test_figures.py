"""Image files: written fully, reproducible bytes, and no change of the caller's style."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from inference_econ.report.questions import figures
from inference_econ.studies.exhibits import Chart, ChartLine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf", ".PNG"])
def test_a_figure_is_drawn_the_same_every_time(tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    for path in (first, second):
        figures.save(figures.chart_figure(CHART, CHART.title), [path])
    content = first.read_bytes()
    assert content == second.read_bytes()
    start = {".svg": b"<?xml", ".png": PNG, ".pdf": b"%PDF"}[suffix.lower()]
    assert content.startswith(start)
    assert len(content) > 3000


def test_drawing_leaves_the_style_of_others_alone(tmp_path: Path) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures.save(drawn(), [tmp_path / "a.svg"])
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_a_character_that_the_font_lacks_causes_no_warning(tmp_path: Path, suffix: str) -> None:
    figures.save(figures.chart_figure(CHART, "模型"), [tmp_path / f"a{suffix}"])
    assert (tmp_path / f"a{suffix}").stat().st_size > 3000


LONG = "another line with a label that is far too long"
CHART = Chart(
    "What is shown? Costs $2 and not $3, at 5 % of a_b^c " + "words of a title " * 12,
    "x",
    "y",
    (
        ChartLine("a line", [1.0, 2.0, 3.0], [1.0, 2.0, np.nan]),
        ChartLine(LONG, [1.0, 2.0], [3.0, 4.0]),
        ChartLine("printed", [1.5, 1.6], [2.5, 3.5], points=True),
    ),
    "y",
    {"a limit": 2.5},
)


def drawn() -> Figure:
    figure = figures.chart_figure(CHART, CHART.title)
    figure.draw_without_rendering()
    return figure


def test_the_legend_has_every_line_and_every_mark() -> None:
    (axes,) = drawn().axes
    assert len({line.get_color() for line in axes.lines[:3]}) == 3
    assert axes.lines[2].get_marker() != "None"
    (legend,) = drawn().legends
    texts = [" ".join(text.get_text().split()) for text in legend.get_texts()]
    assert texts == ["a line", LONG, "printed", "a limit"]


def test_nothing_is_cut_and_the_legend_lies_below_the_curves() -> None:
    figure = drawn()
    whole = figure.bbox
    (legend,), (axes,) = figure.legends, figure.axes
    inside = legend.get_window_extent()
    (title,) = figure.texts
    for box in (inside, title.get_window_extent()):
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1
        assert whole.y0 <= box.y0 < box.y1 <= whole.y1
    assert inside.y1 < axes.get_window_extent().y0
    assert len(title.get_text().splitlines()) > 1


def test_lines_differ_without_their_colours_from_the_second_on() -> None:
    lines = tuple(ChartLine(f"line {index}", [1.0, 2.0], [1.0, index + 1.0]) for index in range(8))
    (axes,) = figures.chart_figure(Chart("", "x", "y", lines), "").axes
    # The pattern as drawn: all of them have the public name "--".
    styles = {str(line._dash_pattern) for line in axes.lines}  # type: ignore[attr-defined]
    assert len(styles) == len(lines)


@pytest.mark.parametrize("ends", [(0.03, 0.033), (2.1, 2.9), (3.3, 39.0), (60.0, 300.0), (0.01, 1e6), (9.1, 9.9)])
def test_a_logarithmic_axis_has_labels(ends: tuple[float, float]) -> None:
    line = ChartLine("a line", list(ends), list(ends))
    figure = figures.chart_figure(Chart("", "x", "y", (line,)), "")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        labels = [tick.label1.get_text() for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        assert 2 <= len([*filter(None, labels)]) <= 12, labels
