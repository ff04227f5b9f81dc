"""Line charts, alone or side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from inference_econ.report.charts import marks, theme
from inference_econ.report.charts.plot import Plot

#: Channels with one legend for charts side by side.
_SHARED = ("color", "opacity", "shape", "strokeDash", "strokeWidth")


@marks.quickly
def line_chart(chart: Plot) -> alt.LayerChart:
    """Create one line chart with its title above and its legend below."""
    title = marks.chart_heading(chart.title, theme.WIDE)
    layers = _layers(chart, [chart], "hovered")
    return alt.LayerChart(layer=layers, title=title, width=theme.WIDE, height=theme.HEIGHT)


@marks.quickly
def line_charts(charts: Sequence[Plot], title: str) -> alt.ConcatChart:
    """Create line charts side by side with one legend; equal labels have equal colors.

    Parameters
    ----------
    charts : sequence of Plot
        Data of the charts, with short titles.
    title : str
        Common title; the first line is the question that the page answers.
    """
    return together(panels(charts), title)


def panels(charts: Sequence[Plot], clicked: alt.Parameter | None = None) -> list[alt.LayerChart]:
    """Create charts of equal size and colors. If ``clicked`` is given, points of the first chart can be clicked."""
    return [
        panel(_layers(chart, charts, f"hovered_{index}", None if index else clicked), chart.title)
        for index, chart in enumerate(charts)
    ]


def panel(layers: Sequence[alt.Chart], title: str) -> alt.LayerChart:
    """Create one of several charts in a row."""
    short = alt.TitleParams(text=title, fontSize=theme.PANEL)
    return alt.LayerChart(layer=list(layers), title=short, width=theme.NARROW, height=theme.NARROW)


def together(shown: Sequence[alt.LayerChart], title: str) -> alt.ConcatChart:
    """Join charts in a row, with a title above and a common legend below."""
    wide = marks.chart_heading(title, len(shown) * theme.NARROW)
    channels: dict[str, Any] = dict.fromkeys(_SHARED, "shared")
    resolve = alt.Resolve(scale=alt.ScaleResolveMap(**channels))
    return alt.ConcatChart(concat=list(shown), columns=len(shown), title=wide, resolve=resolve)


def _layers(chart: Plot, charts: Sequence[Plot], name: str, clicked: alt.Parameter | None = None) -> list[alt.Chart]:
    """Create the layers of one chart, with colors that all charts share.

    Parameters
    ----------
    chart : Plot
        Chart to draw.
    charts : sequence of Plot
        All charts side by side.
    name : str
        Name of the hover selection, which must be unique in a row of charts.
    clicked : Parameter, optional
        Selection that contains the clicked point.
    """
    labels = marks.coloured(charts)
    ring = [] if clicked is None else [marks.ring(chart, clicked)]
    layers = [*marks.curves(chart, labels), *marks.rules(chart), *marks.hovered(chart, labels, name, clicked), *ring]
    return [*layers, *marks.points(chart, charts, labels)]
