"""Charts of bars and of lines: tornado charts, waterfall charts, line charts, and frontiers with the clicked step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from inference_econ.engine import bounds
from inference_econ.report.charts import marks, theme
from inference_econ.report.charts.plot import Plot, Tornado

#: Height of an input with its spacing [pixels].
_INPUT_HEIGHT = 22
#: Smallest extent of an axis around 1, as a factor [1].
_LEAST_EXTENT = 1.02
#: Factors that may have ticks, and their approximate maximum number [1].
_LESS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_MORE = (1.05, 1.1, 1.2, 1.3, 1.4, 1.5, 1.7, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 50.0, 100.0)
_TICKS = 8


@marks.quickly
def tornado_chart(tornados: Sequence[Tornado], title: str) -> alt.ConcatChart:
    """Create tornado charts in a row, with the same inputs and one legend."""
    panels = [_tornado_panel(tornado) for tornado in tornados]
    wide = marks.chart_heading(title, len(panels) * theme.NARROW)
    return alt.ConcatChart(concat=panels, columns=len(panels), title=wide)


def ticks(low: float, high: float) -> list[float]:
    """Round factors between two ends for the ticks of a logarithmic axis [1]; 1 is always included.

    Examples
    --------
    >>> ticks(0.7, 1.45)
    [0.7, 0.8, 0.9, 1.0, 1.1, 1.3]
    """
    chosen = [1.0]
    room = math.log(high / low) / _TICKS
    for factors in (reversed(_LESS), _MORE):
        last = 1.0
        for factor in factors:
            if low <= factor <= high and abs(math.log(factor / last)) >= room:
                chosen.append(factor)
                last = factor
    return sorted(chosen)


def _tornado_panel(tornado: Tornado) -> alt.LayerChart:
    names = list(dict.fromkeys(bar.name for bar in tornado.bars))
    reached = [bar.factor for bar in tornado.bars if math.isfinite(bar.factor)]
    low, high = min([1.0 / _LEAST_EXTENT, *reached]), max([_LEAST_EXTENT, *reached])
    rows = [
        {"input": bar.name, "value": bar.value, "end": bar.end, "factor": bar.factor, "one": 1.0}
        for bar in tornado.bars
        if math.isfinite(bar.factor)
    ]
    label = "datum.value == 1 ? '0 %' : format(datum.value - 1, '+.0%')"
    axis = alt.Axis(title=tornado.label, labelExpr=label, values=ticks(low, high))
    across = alt.X(
        field="factor", type="quantitative", axis=axis, scale=alt.Scale(type="log", domain=[low, high], nice=False)
    )
    colour = marks.kinds(alt.Color, "end", tornado.ends, symbolType="square", symbolStrokeWidth=0)
    bars = (
        alt.Chart(marks.data(rows))
        .mark_bar(height=alt.RelativeBandSize(band=0.7))
        .transform_calculate(change="format(datum.factor - 1, '+.1%')")
        .encode(
            x=across,
            x2="one",
            y=marks.names("input", names),
            color=colour,
            tooltip=marks.fields("input", "value", "change"),
        )
    )
    middle = alt.Chart(marks.data([{"factor": 1.0}])).mark_rule().encode(x=across)
    short = alt.TitleParams(text=tornado.title, fontSize=theme.PANEL)
    return alt.LayerChart(layer=[bars, middle], title=short, width=theme.NARROW, height=_INPUT_HEIGHT * len(names))


#: Parts of a whole by label: amount, and amount as text.
Parts = Mapping[str, tuple[float, str]]
#: Height of a bar with its spacing [pixels].
_BAR_HEIGHT = 26
#: Bar height as a share of the height with spacing.
_BAR = alt.RelativeBandSize(band=0.7)
#: Length of the axis relative to the farthest end of a bar [1], so that the labels fit.
_ROOM = 1.35


@marks.quickly
def waterfall_chart(
    title: str, label: str, parts: Parts, whole: tuple[str, str], likely: tuple[float, float] | None = None
) -> alt.LayerChart:
    """Create a waterfall chart of parts that add up to a whole.

    Parameters
    ----------
    title, label : str
        Title, and axis label with its unit.
    parts : mapping of str to (float, str)
        Parts from the top; each has its amount, and the amount as text.
    whole : (str, str)
        Label of the whole, and its amount as text.
    likely : (float, float), optional
        80% interval of the whole, if it is measured.
    """
    rows = waterfall_rows(parts, whole, 0.0 if likely is None else likely[1])
    names = [row["part"] for row in rows]
    layers = waterfall_bars(rows, names, label)
    if likely is not None:
        # Marks of the interval of a measured whole, with a legend entry.
        band = f"{100 * bounds.LEVEL:.0f} % of measured values"
        row = {"part": whole[0], "low": likely[0], "high": likely[1], "text": band}
        base, up = alt.Chart(marks.data([row])), marks.names("part", names)
        dash = marks.kinds(alt.StrokeDash, "text", [band], [[1, 0]], symbolType="stroke")
        tick, rule = base.mark_tick(thickness=2, size=10), base.mark_rule(strokeWidth=2)
        layers.append(marks.encoded(rule, x=alt.X("low:Q"), x2=alt.X2("high"), y=up, strokeDash=dash))
        layers += [marks.encoded(tick, x=alt.X(f"{end}:Q"), y=up) for end in ("low", "high")]
    shown = marks.chart_heading(title, theme.WIDE)
    return alt.LayerChart(layer=layers, title=shown, width=theme.WIDE, height=_BAR_HEIGHT * len(names))


def waterfall_rows(parts: Parts, whole: tuple[str, str], high: float = 0.0) -> list[marks.Row]:
    """Data rows of the bars: label, start, end and text.

    Parts of 0 are left out. The bars of negative parts run backward.
    """
    rows, end = list[marks.Row](), 0.0
    for name, (value, text) in parts.items():
        if value:
            start, end = end, end + value
            rows.append({"part": name, "start": start, "end": end, "text": text, "style": "part", "words": end})
    total = {"part": whole[0], "start": 0.0, "end": end, "text": whole[1], "style": "whole", "words": max(end, high)}
    return [*rows, total]


def waterfall_bars(rows: Sequence[marks.Row], names: Sequence[str], label: str, **filtered: Any) -> list[alt.Chart]:
    """Layers with bars, and with the amount of each bar as its label.

    Parameters
    ----------
    rows : sequence of dict
        Data of :func:`waterfall_rows`.
    names : sequence of str
        Labels from the top.
    label : str
        Axis label with its unit.
    **filtered
        ``point`` is a selection: the bars of the selected point are shown.
    """
    base = alt.Chart(marks.data(rows))
    if filtered:
        base = base.transform_filter(filtered["point"])
    up = marks.names("part", names)
    drawn = [
        marks.encoded(
            base.transform_filter(alt.datum.style == style).mark_bar(style=style, height=_BAR),
            x=marks.lengths("start", label),
            x2=alt.X2("end"),
            y=up,
            tooltip=marks.fields("part", "text"),
        )
        for style in ("part", "whole")
    ]
    words = base.mark_text(align="left", dx=6)
    room = base.transform_calculate(room=f"{_ROOM} * datum.words").mark_point(opacity=0)
    return [
        *drawn,
        marks.encoded(words, x=alt.X(field="words", type="quantitative"), y=up, text=alt.Text("text:N")),
        marks.encoded(room, x=alt.X(field="room", type="quantitative"), y=up),
    ]


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
        *rows, all_of_it = waterfall_rows(parts, (_WHOLE, f"{total:.3g} ms"))
        # The whole includes parts that are too small for a bar.
        shown += [{**row, "n": index} for row in (*rows, {**all_of_it, "end": total, "words": total})]
    layers = waterfall_bars(shown, [*names, _WHOLE], "milliseconds", point=clicked)
    return panel(layers, "Time per token of the ringed point")
