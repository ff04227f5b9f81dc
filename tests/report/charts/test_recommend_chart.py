"""Charts of recommended deployments: intervals of latencies, and the marks of disaggregated deployments."""

from __future__ import annotations

import json

from inference_econ.report.charts import line_charts
from inference_econ.report.charts.plot import Band, Plot, PlotSeries
from tests.charted import sound


def _plot(*series: PlotSeries) -> Plot:
    return Plot("Time to first token", "TTFT p90 [ms]", "US dollars per hour", series, bands="80% interval")


def test_points_have_their_intervals_and_outlines() -> None:
    known = PlotSeries("row 1", [300.0], [64.0], points=True, band=Band([200.0], [64.0], [450.0], [64.0]), hollow=True)
    plain = PlotSeries("row 2", [350.0], [80.0], points=True)
    spec = sound(line_charts([_plot(known, plain)], "What do deployments cost?"))
    interval, aggregated, disaggregated = spec["concat"][0]["layer"]
    assert spec["datasets"][interval["data"]["name"]] == [{"x": 200.0, "end": 450.0, "y": 64.0, "band": "80% interval"}]
    assert interval["encoding"]["opacity"]["scale"]["domain"] == ["80% interval"]
    assert (aggregated["mark"]["filled"], disaggregated["mark"]["filled"]) == (True, False)
    without = sound(line_charts([_plot(plain)], "What do deployments cost?"))
    assert "80% interval" not in json.dumps(without)
