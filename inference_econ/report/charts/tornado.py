"""Tornado charts, which show how much each input changes the result."""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt

from inference_econ.report.charts import marks, theme
from inference_econ.report.charts.plot import Tornado

#: Height of an input with its spacing [pixels].
_STEP = 22
#: Smallest extent of an axis around 1, as a factor [1].
_LEAST = 1.02
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
    low, high = min([1.0 / _LEAST, *reached]), max([_LEAST, *reached])
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
    return alt.LayerChart(layer=[bars, middle], title=short, width=theme.NARROW, height=_STEP * len(names))
