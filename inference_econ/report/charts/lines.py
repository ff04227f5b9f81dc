"""Line charts, alone or side by side, and the chart of a frontier next to the step time of the clicked point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from inference_econ.report.charts import bars, marks, theme
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


#: Label of the whole step.
_WHOLE = "time per token"
#: Parts with a smaller share in every step are left out [1].
_SMALLEST = 0.005


@marks.quickly
def frontier_chart(
    charts: Sequence[Plot], title: str, parts: Mapping[str, Sequence[float]], first: int
) -> alt.ConcatChart | alt.LayerChart:
    """Create the charts of a frontier, of further metrics of its points, and of the clicked point's time per token.

    Parameters
    ----------
    charts : sequence of Plot
        Data of the charts on the page. The first line of the first chart is the frontier.
    title : str
        Title; the first line is the question that the page answers.
    parts : mapping of str to sequence of float
        Time per token of each point, by label of the part of the step [ms]; empty for points with speculation.
    first : int
        Index of the point whose time per token is shown before a click.
    """
    if not parts:
        return line_charts(charts, title)
    clicked = alt.selection_point(
        name="clicked", on="click", nearest=True, fields=["n"], value=[{"n": first}], empty=False, toggle=False
    )
    cost, *others = panels(charts, clicked)
    return together([cost, _step(parts, clicked), *others], title)


def _step(steps: Mapping[str, Sequence[float]], clicked: alt.Parameter) -> alt.LayerChart:
    """Create the chart of the clicked point's time per token, by part of the step."""
    columns = {name: np.asarray(values) for name, values in steps.items()}
    whole = np.sum(list(columns.values()), axis=0)
    shares = {name: values / whole for name, values in columns.items()}
    # Only parts that are large enough for a bar are shown, the part with the largest time first.
    kept = [name for name, share in shares.items() if share.max() >= _SMALLEST]
    names = sorted(kept, key=lambda name: -float(shares[name].mean()))
    shown = []
    for index in range(whole.size):
        parts = {name: (float(steps[name][index]), f"{steps[name][index]:.3g} ms") for name in names}
        total = sum(float(values[index]) for values in steps.values())
        *rows, all_of_it = bars.waterfall_rows(parts, (_WHOLE, f"{total:.3g} ms"))
        # The whole includes parts that are too small for a bar.
        shown += [{**row, "n": index} for row in (*rows, {**all_of_it, "end": total, "words": total})]
    layers = bars.waterfall_bars(shown, [*names, _WHOLE], "milliseconds", point=clicked)
    return panel(layers, "Time per token of the ringed point")
