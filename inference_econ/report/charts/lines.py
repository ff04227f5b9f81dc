"""Lines over axes: comparisons, loads, speculation, disaggregation, prefixes."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from inference_econ.report.charts import marks, theme
from inference_econ.report.charts.plot import Plot


def line_chart(chart: Plot) -> alt.LayerChart:
    """One chart under its title, over its legend."""
    layers = panel(chart, [chart], "hovered")
    return layers.properties(title=marks.heading(chart.title, theme.WIDE), width=theme.WIDE, height=theme.HEIGHT)


def line_charts(charts: Sequence[Plot], title: str) -> alt.ConcatChart:
    """Charts beside each other under one legend; equal labels have equal colours.

    Parameters
    ----------
    charts : sequence of Chart
        With short titles of their own.
    title : str
        Above all; its first line is the question.
    """
    return together(panels(charts), title)


def panels(charts: Sequence[Plot], clicked: alt.Parameter | None = None) -> list[alt.LayerChart]:
    """Charts of equal size in the same colours; of the first, points can be clicked."""
    return [
        panel(chart, charts, f"hovered_{index}", None if index else clicked).properties(
            title=alt.TitleParams(text=chart.title, fontSize=theme.PANEL), width=theme.NARROW, height=theme.NARROW
        )
        for index, chart in enumerate(charts)
    ]


def together(shown: Sequence[alt.LayerChart], title: str) -> alt.ConcatChart:
    """Panels in a row under a title, over a legend for all."""
    wide = marks.heading(title, len(shown) * theme.NARROW)
    row = alt.concat(*shown, columns=len(shown), title=wide)
    shared: alt.ConcatChart = row.resolve_scale(
        color="shared", strokeDash="shared", shape="shared", opacity="shared", strokeWidth="shared"
    )
    return shared


def panel(chart: Plot, charts: Sequence[Plot], name: str, clicked: alt.Parameter | None = None) -> alt.LayerChart:
    """The marks of one chart, in the colours that lines have in all of them.

    Parameters
    ----------
    chart : Chart
        What is drawn.
    charts : sequence of Chart
        All that are drawn beside each other.
    name : str
        Of what the pointer is nearest to; another one in every panel.
    clicked : Parameter, optional
        The selection of a point that is clicked.
    """
    labels = marks.coloured(charts)
    ring = [] if clicked is None else [marks.ring(chart, clicked)]
    layers = [*marks.curves(chart, labels), *marks.rules(chart), *marks.hovered(chart, labels, name, clicked), *ring]
    return alt.LayerChart(layer=[*layers, *marks.points(chart, charts, labels)])
