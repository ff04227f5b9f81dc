"""Bar charts with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import altair as alt

from inference_econ.report.charts import marks, theme

#: Height of a bar with its spacing [pixels].
_STEP = 30


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a bar chart.

    Attributes
    ----------
    value, half_width : float
        Length of the bar, and half width of the interval around its end, in the unit of the axis.
    text : str
        Hover text.
    part : float or None
        Position of an additional tick mark on the bar; None for no tick.
    """

    value: float
    half_width: float
    text: str
    part: float | None = None


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars.

    Attributes
    ----------
    title, x_label : str
        Title, and axis label with its unit.
    bars : mapping of str to Bar
        Bars by label, from the top.
    """

    title: str
    x_label: str
    bars: Mapping[str, Bar]


@marks.quickly
def bar_chart(bars: Bars) -> alt.LayerChart:
    """Create a bar chart with its title."""
    title = marks.chart_heading(bars.title, theme.WIDE)
    return alt.LayerChart(layer=bar_layers(bars), title=title, width=theme.WIDE, height=_STEP * len(bars.bars))


def bar_layers(bars: Bars) -> list[alt.Chart]:
    """Create the layers of a bar chart: bars, intervals, and tick marks on the bars."""
    base = alt.Chart(marks.data(_rows(bars))).encode(y=marks.names("of", bars.bars), tooltip=marks.fields("of", "text"))
    bar = base.mark_bar(style="part", height=alt.RelativeBandSize(band=0.6))
    drawn = bar.encode(x=marks.lengths("value", bars.x_label))
    sure = base.mark_rule(strokeWidth=1.5).encode(x=alt.X(field="low", type="quantitative"), x2="high")
    ticks = base.mark_tick(thickness=2.5, size=14).encode(x=alt.X(field="part", type="quantitative"))
    return [drawn, sure, *([ticks] if any(bar.part is not None for bar in bars.bars.values()) else [])]


def _rows(bars: Bars) -> Iterator[marks.Row]:
    for name, bar in bars.bars.items():
        ends = {"low": max(bar.value - bar.half_width, 0.0), "high": bar.value + bar.half_width}
        yield {"of": name, "value": bar.value, "text": bar.text, "part": bar.part, **ends}
