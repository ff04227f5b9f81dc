"""Figures of scenarios: curves at the data, distinguishable and within their limits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.text import Text

from inference_econ.inputs import catalog
from inference_econ.report.questions import figures
from inference_econ.studies.results import Curve, Result
from inference_econ.studies.scenario import run

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("name", ["paper/figure_1", "paper/figure_2", "paper/table_1"])
def test_curves_are_drawn_where_the_data_is_and_can_be_told_apart(name: str, tmp_path: Path) -> None:
    result = run(name)
    figure = figures.draw(result)
    (axes,) = figure.axes
    assert axes.get_xlabel() and axes.get_ylabel() and axes.get_yscale() == "log"
    if result.scenario.figure is not None:
        assert axes.get_title() == result.scenario.figure.title
    for curve, line in zip(result.curves, axes.lines, strict=False):
        assert line.get_label() == curve.label
        np.testing.assert_array_equal(np.asarray(line.get_xdata()), curve.tokens_per_second)
        np.testing.assert_array_equal(np.asarray(line.get_ydata()), curve.dollars)
    looks = {(str(line.get_color()), str(line.get_linestyle())) for line in axes.lines[: len(result.curves)]}
    assert len(looks) == len(result.curves)
    figures.save(figure, [tmp_path / "a.svg"])
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert all(curve.label in text for curve in result.curves)


def test_offers_are_points_with_the_name_of_their_provider_and_a_marker_for_each_day() -> None:
    result = run("paper/figure_1")
    figure = figures.draw(result)
    (axes,) = figure.axes
    single = [line for line in axes.lines if np.size(line.get_xdata()) == 1]
    points = {(np.asarray(line.get_xdata()).item(), np.asarray(line.get_ydata()).item()): line for line in single}
    assert set(points) == {(it.tokens_per_second, it.offer.dollars_per_million_output_tokens) for it in result.offers}
    assert points[158, 0.9].get_color() == axes.lines[1].get_color() == points[64.516, 0.4].get_color()
    assert points[158, 0.9].get_marker() != points[64.516, 0.4].get_marker()
    names = [text.get_text() for text in axes.texts]
    assert sorted(names) == sorted(beside.offer.provider for beside in result.offers)
    # No name lies on another one, on a curve or on a point.
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in axes.texts]
    assert not any(one.overlaps(other) for index, one in enumerate(boxes) for other in boxes[:index])
    for line in axes.lines:
        path = line.get_path().transformed(axes.transData)
        assert not any(path.intersects_bbox(box, filled=False) for box in boxes if np.size(line.get_xdata()) > 1)
    assert not any(box.contains(*axes.transData.transform(place)) for box in boxes for place in points)
    labels = axes.get_legend_handles_labels()[1]
    assert labels[-2:] == ["offered on 2024-08-01", "offered on 2025-06-27"]


def _result(labels: list[str], figure: dict[str, object]) -> Result:
    """Return made-up lines with some labels."""
    scenario = catalog.scenario("paper/figure_6")
    assert scenario.figure is not None
    lines = [np.array([1.0, 2.0]) + index for index in range(len(labels))]
    curves = tuple(Curve(label, line, line, line, line) for label, line in zip(labels, lines, strict=True))
    return Result(scenario.model_copy(update={"figure": scenario.figure.replace(**figure)}), curves)


def test_limits_of_the_axes_are_kept() -> None:
    (axes,) = figures.draw(_result(["a"], {"x": (10.0, 90.0), "y": (0.1, 5.0)})).axes
    assert axes.get_xlim() == (10.0, 90.0)
    assert axes.get_ylim() == (0.1, 5.0)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_panels_share_the_cost_axis(count: int, tmp_path: Path) -> None:
    panel = run("paper/figure_1")
    result = Result(catalog.scenario("paper/figure_5"), panels=(panel,) * count)
    figure = figures.draw(result)
    assert len(figure.axes) == count
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    figures.save(figure, [tmp_path / "a.svg", tmp_path / "a.png"])
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)


def test_labels_are_taken_as_they_are_written(tmp_path: Path) -> None:
    labels = [r"$\frac$", "50 % at $1, $2", "a_b", "x^2"]
    path = tmp_path / "a.svg"
    figures.save(figures.draw(_result(labels, {"title": "$1 or $2 & more"})), [path])
    text = path.read_text(encoding="utf-8")
    for label in (*labels, "$1 or $2 &amp; more"):
        assert label in text
