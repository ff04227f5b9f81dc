"""Tornado charts of inputs, and waterfall charts, which show parts that add up to a whole."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from inference_econ.engine import bounds
from inference_econ.report.charts import marks, theme
from inference_econ.report.charts.plot import Tornado

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
    panels = [_panel(tornado) for tornado in tornados]
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


def _panel(tornado: Tornado) -> alt.LayerChart:
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
        ``point`` is a selection of the point whose bars are shown.
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
