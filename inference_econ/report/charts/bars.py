"""Bars by name, several of each: shares, and how sure they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import altair as alt

from inference_econ.report.charts import marks, theme

#: Height of a bar with the room between [pixels].
_STEP = 16


@dataclass(frozen=True, slots=True)
class Length:
    """How long a bar is.

    Attributes
    ----------
    value, half_width : float
        The length, and how far it may be off, in one unit; NaN if nobody knows.
    text : str
        Both for people.
    """

    value: float
    half_width: float
    text: str


@dataclass(frozen=True, slots=True)
class Bars:
    """Groups of bars from the left.

    Attributes
    ----------
    title, x_label : str
        Units are part of the label.
    groups : mapping of str to mapping of str to Length
        Bars by what they are of, from the top, and by what they are: all groups have the same kinds.
    """

    title: str
    x_label: str
    groups: Mapping[str, Mapping[str, Length]]

    @property
    def kinds(self) -> Sequence[str]:
        """What the legend says."""
        return list(dict.fromkeys(kind for group in self.groups.values() for kind in group))


@marks.quickly
def bar_chart(bars: Bars) -> alt.LayerChart:
    """Bars with the intervals that they may end in."""
    title, kinds = marks.heading(bars.title, theme.WIDE), bars.kinds
    height = _STEP * (len(kinds) + 0.6) * len(bars.groups)
    base = alt.Chart(marks.data(_rows(bars))).encode(
        y=alt.Y(field="of", type="nominal", scale=alt.Scale(domain=list(bars.groups)), axis=alt.Axis(title=None)),
        yOffset=alt.YOffset(field="kind", type="nominal", scale=alt.Scale(domain=list(kinds))),
        tooltip=[alt.Tooltip(field=name, type="nominal") for name in ("of", "kind", "text")],
    )
    across = alt.X(field="value", type="quantitative", axis=alt.Axis(title=bars.x_label), scale=alt.Scale(zero=True))
    legend = alt.Legend(symbolType="square", columns=1)
    scale = alt.Scale(domain=list(kinds))
    colour = alt.Color(field="kind", type="nominal", scale=scale, title=None, legend=legend)
    drawn = base.mark_bar().encode(x=across, color=colour)
    sure = base.mark_rule(strokeWidth=1.5).encode(x=alt.X(field="low", type="quantitative"), x2="high")
    return alt.LayerChart(layer=[drawn, sure], title=title, width=theme.WIDE, height=height)


def _rows(bars: Bars) -> Iterator[marks.Row]:
    for name, group in bars.groups.items():
        for kind, bar in group.items():
            ends = {"low": max(bar.value - bar.half_width, 0.0), "high": bar.value + bar.half_width}
            yield {"of": name, "kind": kind, "value": bar.value, "text": bar.text, **ends}
