"""Parts as bars, each beginning where the last one ends, and the whole below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from inference_econ.engine import bounds
from inference_econ.report.charts import marks, theme

#: Parts of a whole by name: how much each is, in one unit and in words.
Parts = Mapping[str, tuple[float, str]]
#: Height of a bar with the room between [pixels].
_STEP = 26
#: Of a bar, of that.
_BAR = alt.RelativeBandSize(band=0.7)
#: Of an axis, over what its bars reach [1].
_ROOM = 1.35


@marks.quickly
def waterfall_chart(
    title: str, label: str, parts: Parts, whole: tuple[str, str], likely: tuple[float, float] | None = None
) -> alt.LayerChart:
    """Parts on their way to the whole.

    Parameters
    ----------
    title, label : str
        Above the bars, and of the axis, with its unit.
    parts : mapping of str to (float, str)
        From the top, by the names that people read: how much each is, in one unit and in words.
    whole : (str, str)
        What the whole is called, and how much it is in words.
    likely : (float, float), optional
        Where a measured whole probably lies.
    """
    rows = waterfall_rows(parts, whole, 0.0 if likely is None else likely[1])
    names = [row["part"] for row in rows]
    layers = bars(rows, names, label)
    if likely is not None:
        # Marks of the interval of a measured whole, with its entry in the legend.
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
    """Bars as data: what they are, where they begin and end, and how much they are in words.

    Parts that are nothing are left out, and a negative one leads back.
    """
    rows, end = list[marks.Row](), 0.0
    for name, (value, text) in parts.items():
        if value:
            start, end = end, end + value
            rows.append({"part": name, "start": start, "end": end, "text": text, "style": "part", "words": end})
    total = {"part": whole[0], "start": 0.0, "end": end, "text": whole[1], "style": "whole", "words": max(end, high)}
    return [*rows, total]


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
