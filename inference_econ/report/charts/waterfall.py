"""Waterfall charts, which show parts that add up to a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from inference_econ.engine import bounds
from inference_econ.report.charts import marks, theme

#: Parts of a whole by label: amount, and amount as text.
Parts = Mapping[str, tuple[float, str]]
#: Height of a bar with its spacing [pixels].
_STEP = 26
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
    layers = bars(rows, names, label)
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
    return alt.LayerChart(layer=layers, title=shown, width=theme.WIDE, height=_STEP * len(names))


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


def bars(rows: Sequence[marks.Row], names: Sequence[str], label: str, **filtered: Any) -> list[alt.Chart]:
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
