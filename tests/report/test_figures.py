"""Pictures: written whole, the same bytes every time, and without a trace in the style of others."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.patches import Polygon

import inference_econ as ie
from inference_econ.errors import InputError
from inference_econ.report import figures
from inference_econ.report.frontier import frontier_chart
from inference_econ.studies.exhibits import Band, Chart, Line
from tests import asking

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def front() -> ie.Frontier:
    return asking.frontier("llama_3_8b", "h100_sxm", ie.Traffic(context=100), max_accelerators=2)


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf", ".PNG"])
def test_a_frontier_is_drawn_the_same_every_time(front: ie.Frontier, tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    for path in (first, second):
        figures.draw_chart(frontier_chart(front), path)
    content = first.read_bytes()
    assert content == second.read_bytes()
    start = {".svg": b"<?xml", ".png": PNG, ".pdf": b"%PDF"}[suffix.lower()]
    assert content.startswith(start)
    assert len(content) > 3000


def test_the_picture_of_a_frontier_says_what_it_shows(front: ie.Frontier, tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    chart = replace(frontier_chart(front), title="Costs $2 and not $3, at 5 % of a_b^c")
    figures.draw_chart(chart, path)
    text = path.read_text(encoding="utf-8")
    for words in (
        "tokens per second per user",
        "US dollars per million output tokens",
        "decode steps that nothing beats",
        "largest speed³ / cost",
        "Costs $2 and not $3, at 5 % of a_b^c",
    ):
        assert words in text, words


def test_unwritable_pictures(front: ie.Frontier, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing/a\.svg: cannot be written: No such file or directory"):
        figures.draw_chart(frontier_chart(front), tmp_path / "missing" / "a.svg")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(InputError, match=r"folder\.png: cannot be written: Is a directory"):
        figures.draw_chart(frontier_chart(front), tmp_path / "folder.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.png"]


def test_drawing_leaves_the_style_of_others_alone(front: ie.Frontier, tmp_path: Path) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures.draw_chart(frontier_chart(front), tmp_path / "a.svg")
    assert dict(mpl.rcParams) == before


LONG = "another line with a label that is far too long"
CHART = Chart(
    "What is shown? " + "words of a title " * 12,
    "x",
    "y",
    (
        Line("a line", [1.0, 2.0, 3.0], [1.0, 2.0, np.nan], band=Band([1.0, 2.0], [0.5, 1.5], [1.0, 2.0], [2.0, 3.0])),
        Line(LONG, [1.0, 2.0], [3.0, 4.0]),
        Line("measured: A", [1.5], [2.5], points=True, beside="a line"),
        Line("measured: A", [1.6], [3.5], points=True, beside=LONG),
    ),
    "y",
    {"a limit": 2.5},
    bands="80 % of values",
    from_zero=True,
)


def drawn() -> Figure:
    figure = figures.chart_figure(CHART, CHART.title)
    figure.draw_without_rendering()
    return figure


def test_points_have_the_colour_of_their_line_and_one_entry_of_the_legend() -> None:
    (axes,) = drawn().axes
    first, second, near_first, near_second, _ = axes.lines
    assert near_first.get_color() == first.get_color() != second.get_color() == near_second.get_color()
    assert near_first.get_marker() == near_second.get_marker() != "None"
    (legend,) = drawn().legends
    texts = [" ".join(text.get_text().split()) for text in legend.get_texts()]
    assert texts == ["a line", LONG, "measured: A", "a limit", "80 % of values"]


def test_a_band_is_drawn_between_its_edges() -> None:
    (axes,) = drawn().axes
    (band,) = axes.patches
    assert isinstance(band, Polygon)
    corners = np.asarray(band.get_xy())[:4].tolist()
    assert corners == [[1.0, 0.5], [2.0, 1.5], [2.0, 3.0], [1.0, 2.0]]
    assert axes.get_xlim()[0] == 0.0


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
