"""Charts of lines over axes: the results that have them, and the content of every mark."""

from __future__ import annotations

import json
import math

import pytest

from inference_econ.report import charts
from inference_econ.report.charts.plot import Band, Plot, PlotSeries
from tests.charted import Spec, encodings, legend, marked, rows_of, sound, views

GAP = PlotSeries(
    "a line",
    [1.0, 2.0, 3.0, 4.0],
    [1.0, math.nan, 3.0, 4.0],
    band=Band([1.0, 2.0], [0.5, 1.5], [1.0, 2.0], [2.0, math.nan]),
    details={"layout": ["tp1", "tp2", "tp4", "tp8"]},
)
PLOT = Plot(
    "What is shown?\n" + "words of a title " * 12,
    "requests per second",
    "milliseconds",
    (
        GAP,
        PlotSeries("another", [1.0, 2.0], [30.0, 40.0]),
        PlotSeries("measured: A", [1.5], [2.5], points=True, beside="a line"),
        PlotSeries("measured: A", [1.6], [3.5], points=True, beside="another"),
        PlotSeries("the best", [1.5], [2.0], points=True),
    ),
    "y",
    {"a limit": 2.5},
    bands="80 % of values",
    from_zero=True,
    promises={"SLO: p90 TTFT <= 10 ms": 10.0},
)


@pytest.fixture(scope="module")
def spec() -> Spec:
    return sound(charts.line_chart(PLOT))


def test_the_legend_has_every_label_once(spec: Spec) -> None:
    assert legend(spec) == {
        *("a line", "another", "measured: A", "the best"),
        *("a limit", "SLO: p90 TTFT <= 10 ms", "80 % of values"),
    }


def test_a_gap_parts_a_line_into_pieces(spec: Spec) -> None:
    _, lines = marked(spec, "line")
    rows = [row for row in rows_of(spec, lines) if row["series"] == "a line"]
    assert [(row["x"], row["piece"]) for row in rows] == [(1.0, 0), (3.0, 1), (4.0, 1)]
    assert [row["layout"] for row in rows] == ["tp1", "tp4", "tp8"]
    assert lines["encoding"]["detail"]["field"] == "piece"


def test_a_band_is_drawn_between_its_edges(spec: Spec) -> None:
    band, _ = marked(spec, "line")
    assert band["mark"]["filled"]
    assert [(row["x"], row["y"]) for row in rows_of(spec, band)] == [(1.0, 0.5), (2.0, 1.5), (1.0, 2.0)]


def test_points_have_the_colour_of_their_line_and_those_alone_that_of_text(spec: Spec) -> None:
    beside, alone = [view for view in marked(spec, "point") if "shape" in view["encoding"]]
    assert [row["series"] for row in rows_of(spec, beside)] == ["a line", "another"]
    assert "color" not in alone["encoding"]
    assert [row["kind"] for row in rows_of(spec, alone)] == ["the best"]


def test_axes_have_their_units_and_are_logarithmic_where_they_are_to_be(spec: Spec) -> None:
    for view in marked(spec, "line"):
        across, up = view["encoding"]["x"], view["encoding"]["y"]
        assert (across["axis"]["title"], up["axis"]["title"]) == ("requests per second", "milliseconds")
        assert up["scale"]["type"] == "log"
        assert across["scale"] == {"zero": True}


def test_titles_are_no_wider_than_the_picture(spec: Spec) -> None:
    assert spec["title"]["text"] == "What is shown?"
    assert len(spec["title"]["subtitle"]) > 1
    assert all(len(line) * 5.7 <= spec["width"] for line in spec["title"]["subtitle"])


def test_charts_beside_each_other_share_their_colours() -> None:
    spec = sound(charts.line_charts([PLOT, PLOT], PLOT.title))
    assert spec["resolve"]["scale"]["color"] == "shared"
    domains = [drawn["scale"]["domain"] for view in views(spec) for name, drawn in encodings(view) if name == "color"]
    assert all(domain == ["a line", "another"] for domain in domains)
    names = [param["name"] for param in spec["params"]]
    assert len(names) == len(set(names)) == 2


def test_six_series_have_colours_and_dashes_of_their_own() -> None:
    lines = tuple(PlotSeries(f"chip {index}", [1.0, 2.0], [1.0 + index, 2.0]) for index in range(6))
    spec = sound(charts.line_chart(Plot("Which?\nOf six", "x", "y", lines, "y")))
    (drawn,) = marked(spec, "line")
    dashes = drawn["encoding"]["strokeDash"]["scale"]["range"]
    assert len({tuple(dash) for dash in dashes}) == 6


def test_labels_count_what_bands_hold() -> None:
    """A narrow line in a band over decades has round labels without overlap."""
    band = Band([1.0, 2.0], [5.0, 6.0], [1.0, 2.0], [5000.0, 6000.0])
    line = PlotSeries("a line", [1.0, 2.0], [100.0, 110.0], band=band)
    spec = sound(charts.line_chart(Plot("Which?\nOf two", "x", "y", (line,), "y", bands="80 %")))
    drawn = marked(spec, "line")[0]
    assert "[1, 2, 5]" in drawn["encoding"]["y"]["axis"]["labelExpr"]
    assert drawn["encoding"]["x"]["axis"]["labelSeparation"] > 0


@pytest.mark.parametrize("few", [True, False])
def test_ticks_of_few_values_are_all_labelled(few: bool) -> None:
    line = PlotSeries("a line", [1.0, 2.0], [100.0, 200.0 if few else 20_000.0])
    spec = sound(charts.line_chart(Plot("Which?\nOf two", "x", "y", (line,), "y")))
    (drawn,) = marked(spec, "line")
    assert ("[1, 2, 5]" not in drawn["encoding"]["y"]["axis"]["labelExpr"]) is few


def _interval_plot(*series: PlotSeries) -> Plot:
    return Plot("Time to first token", "TTFT p90 [ms]", "US dollars per hour", series, bands="80% interval")


def test_points_have_their_intervals_and_outlines() -> None:
    row = PlotSeries("row 1", [300.0], [64.0], points=True, band=Band([200.0], [64.0], [450.0], [64.0]), hollow=True)
    plain = PlotSeries("row 2", [350.0], [80.0], points=True)
    spec = sound(charts.line_charts([_interval_plot(row, plain)], "What do deployments cost?"))
    interval, aggregated, disaggregated = spec["concat"][0]["layer"]
    assert spec["datasets"][interval["data"]["name"]] == [{"x": 200.0, "end": 450.0, "y": 64.0, "band": "80% interval"}]
    assert interval["encoding"]["opacity"]["scale"]["domain"] == ["80% interval"]
    assert (aggregated["mark"]["filled"], disaggregated["mark"]["filled"]) == (True, False)
    without = sound(charts.line_charts([_interval_plot(plain)], "What do deployments cost?"))
    assert "80% interval" not in json.dumps(without)
