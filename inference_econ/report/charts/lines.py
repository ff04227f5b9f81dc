"""Lines over axes: comparisons, loads, speculation, disaggregation, prefixes."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from inference_econ.report.charts import marks, theme
from inference_econ.report.charts.plot import Plot

#: Channels with one legend for charts beside each other.
_SHARED = ("color", "opacity", "shape", "strokeDash", "strokeWidth")


@marks.quickly
def line_chart(chart: Plot) -> alt.LayerChart:
    """One chart under its title, over its legend."""
    title = marks.chart_heading(chart.title, theme.WIDE)
    layers = _layers(chart, [chart], "hovered")
    return alt.LayerChart(layer=layers, title=title, width=theme.WIDE, height=theme.HEIGHT)


@marks.quickly
def line_charts(charts: Sequence[Plot], title: str) -> alt.ConcatChart:
    """Charts beside each other under one legend; equal labels have equal colours.

    Parameters
    ----------
    charts : sequence of Plot
        With short titles of their own.
    title : str
        Above all; its first line is the question.
    """
    return together(panels(charts), title)


def panels(charts: Sequence[Plot], clicked: alt.Parameter | None = None) -> list[alt.LayerChart]:
    """Charts of equal size in the same colours; of the first, points can be clicked."""
    return [
        panel(_layers(chart, charts, f"hovered_{index}", None if index else clicked), chart.title)
        for index, chart in enumerate(charts)
    ]


def panel(layers: Sequence[alt.Chart], title: str) -> alt.LayerChart:
    """One of several charts beside each other."""
    short = alt.TitleParams(text=title, fontSize=theme.PANEL)
    return alt.LayerChart(layer=list(layers), title=short, width=theme.NARROW, height=theme.NARROW)


def together(shown: Sequence[alt.LayerChart], title: str) -> alt.ConcatChart:
    """Panels in a row under a title, over a legend for all."""
    wide = marks.chart_heading(title, len(shown) * theme.NARROW)
    shared = alt.ScaleResolveMap.from_dict(dict.fromkeys(_SHARED, "shared"))
    return alt.ConcatChart(concat=list(shown), columns=len(shown), title=wide, resolve=alt.Resolve(scale=shared))


def _layers(chart: Plot, charts: Sequence[Plot], name: str, clicked: alt.Parameter | None = None) -> list[alt.Chart]:
    """The marks of one chart, in the colours that lines have in all of them.

    Parameters
    ----------
    chart : Plot
        What is drawn.
    charts : sequence of Plot
        All that are drawn beside each other.
    name : str
        Of what the pointer is nearest to; another one in every panel.
    clicked : Parameter, optional
        The selection of a point that is clicked.
    """
    labels = marks.coloured(charts)
    ring = [] if clicked is None else [marks.ring(chart, clicked)]
    layers = [*marks.curves(chart, labels), *marks.rules(chart), *marks.hovered(chart, labels, name, clicked), *ring]
    return [*layers, *marks.points(chart, charts, labels)]
