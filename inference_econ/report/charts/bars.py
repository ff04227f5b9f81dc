"""Bars by name with the intervals that they may end in: shares, and what knowledge is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import altair as alt

from inference_econ.report.charts import marks, theme

#: Height of a bar with the room between [pixels].
_STEP = 30


@dataclass(frozen=True, slots=True)
class Bar:
    """Bar with its length.

    Attributes
    ----------
    value, half_width : float
        The length, and how far it may be off, in one unit.
    text : str
        What hovering says.
    part : float or None
        How much of it a tick marks; no tick if None.
    """

    value: float
    half_width: float
    text: str
    part: float | None = None


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars from the left.

    Attributes
    ----------
    title, x_label : str
        Units are part of the label.
    bars : mapping of str to Bar
        By what they are of, from the top.
    """

    title: str
    x_label: str
    bars: Mapping[str, Bar]


@marks.quickly
def bar_chart(bars: Bars) -> alt.LayerChart:
    """Bars under their title."""
    title = marks.chart_heading(bars.title, theme.WIDE)
    return alt.LayerChart(layer=bar_layers(bars), title=title, width=theme.WIDE, height=_STEP * len(bars.bars))


def bar_layers(bars: Bars) -> list[alt.Chart]:
    """The bars, the intervals that they may end in, and ticks at parts of them."""
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
