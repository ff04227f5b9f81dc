"""Parts as bars, each beginning where the last one ends, and the whole below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from inference_econ.report.charts import marks, theme
from inference_econ.report.step_pictures import Waterfall

#: Height of a bar with the room between [pixels].
_STEP = 26
#: Of a bar, of that.
_BAR = alt.RelativeBandSize(band=0.7)
#: Of an axis, over what its bars reach [1].
_ROOM = 1.35


@marks.quickly
def waterfall_chart(fall: Waterfall) -> alt.LayerChart:
    """Parts on their way to the whole."""
    rows, names = waterfall_rows(fall), [*(bar.name for bar in fall.bars), fall.whole]
    layers = [*bars(rows, names, fall.x_label), *_likely(fall, names)]
    title = marks.heading(fall.title, theme.WIDE)
    return alt.LayerChart(layer=layers, title=title, width=theme.WIDE, height=_STEP * len(names))


def waterfall_rows(fall: Waterfall) -> list[marks.Row]:
    """Bars as data: what they are, where they begin and end, and how much they are in words."""
    parts = [
        {"part": bar.name, "start": bar.start, "end": bar.start + bar.length, "text": bar.text} for bar in fall.bars
    ]
    high = max(fall.total, (fall.likely or (0.0, 0.0))[1])
    whole = {"part": fall.whole, "start": 0.0, "end": fall.total, "text": fall.text}
    rows = [{**row, "style": "part", "words": row["end"]} for row in parts]
    return [*rows, {**whole, "style": "whole", "words": high}]


def bars(rows: Sequence[marks.Row], names: Sequence[str], label: str, **filtered: Any) -> list[alt.Chart]:
    """The bars, and how much they are beside them.

    Parameters
    ----------
    rows : sequence of dict
        From :func:`waterfall_rows`.
    names : sequence of str
        Of the parts, from the top.
    label : str
        Of the axis, with its unit.
    **filtered
        ``point``: the selection whose rows are shown, where there are those of several points.
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


def _likely(fall: Waterfall, names: Sequence[str]) -> list[alt.Chart]:
    """Marks of the interval of a measured whole, with its entry in the legend."""
    if fall.likely is None:
        return []
    low, high = fall.likely
    row = {"part": fall.whole, "low": low, "high": high, "text": fall.band}
    base, up = alt.Chart(marks.data([row])), marks.names("part", names)
    dash = marks.kinds(alt.StrokeDash, "text", [fall.band], [[1, 0]], symbolType="stroke")
    tick, rule = base.mark_tick(thickness=2, size=10), base.mark_rule(strokeWidth=2)
    ends = [marks.encoded(tick, x=alt.X(f"{end}:Q"), y=up) for end in ("low", "high")]
    return [marks.encoded(rule, x=alt.X("low:Q"), x2=alt.X2("high"), y=up, strokeDash=dash), *ends]
