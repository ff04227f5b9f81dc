"""Elements that several kinds of charts use: titles, axes, lines with bands, points, rules, and hover texts."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import floor, isfinite, log10
from typing import Any, Self, TypeVar

import altair as alt
from altair.utils.schemapi import debug_mode

from inference_econ.report.charts import theme
from inference_econ.report.charts.plot import Band, Plot, PlotSeries

#: Charts are created without a schema check of each element, which would take longer than a query. Tests check complete
#: charts.
quickly = debug_mode(False)
C = TypeVar("C")
#: Row of data: numbers and texts by field.
Row = dict[str, Any]
#: Number format: three digits.
DIGITS = ",.3~r"
#: Style of axes that are proportional to the price of a GPU. The script of a page rescales the axes with this style if
#: the user moves the price slider.
DOLLARS = "dollars"
#: Number format of ticks.
_NUMBER = ",.6~r"
#: Vega expression for the first digit of a tick on a logarithmic axis.
FIRST_DIGIT = "round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))"
#: Minimum number of labels of a logarithmic axis [1].
_FEWEST = 3
#: Space between adjacent labels [pixels].
_APART = 6
#: Ratio of the ends of a logarithmic axis above which only powers of ten have labels [1].
_DECADES = 2000.0
#: Opacity of the intervals of points [1].
_INTERVAL = 0.35
#: Dashes of vertical lines [pixels].
_RULE = [2, 3]
#: Mean width of a title character [pixels].
_CHARACTER = 5.7


class _Shared:
    """Immutable part of a chart. Copies of the chart share it, because copying is slow."""

    def __deepcopy__(self, memo: object) -> Self:
        return self


class _Rows(_Shared, alt.InlineData):
    """Immutable data rows."""


class _Encoding(_Shared, alt.FacetedEncoding):
    """Immutable encoding channels."""


class _Mark(_Shared, alt.MarkDef):
    """Immutable mark without undefined properties."""


def encoded(base: alt.Chart, **channels: Any) -> alt.Chart:
    """Add encodings to a chart.

    Parameters
    ----------
    base : Chart
        Chart with its data and mark.
    **channels
        Altair channel objects by channel name. Shorthand texts (``"x:Q"``) and dictionaries are much slower, because
        Altair then compares the schemas of all its classes.
    """
    drawn = base.encode(**channels)
    drawn.encoding = _Encoding(**drawn.encoding._kwds)
    drawn.mark = _Mark(**{name: value for name, value in drawn.mark._kwds.items() if value is not alt.Undefined})
    return drawn


def data(rows: Iterable[Row]) -> alt.InlineData:
    """Create the inline data of a chart, with numbers rounded to six digits."""
    return _Rows(
        values=[
            {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in row.items()}
            for row in rows
        ]
    )


def chart_heading(title: str, width: int) -> alt.TitleParams:
    """Create a chart title with subtitle lines, wrapped to a width.

    Parameters
    ----------
    title : str
        Lines of the title; the first line is the question that the page answers.
    width : int
        Width of the chart [pixels].
    """
    question, *others = title.splitlines()
    lines = [line for text in others for line in textwrap.wrap(text, int(width / _CHARACTER))]
    return alt.TitleParams(text=question, subtitle=lines)


def axis(chart: Plot, name: str) -> alt.X | alt.Y:
    """Create the encoding of an axis of a chart.

    Parameters
    ----------
    chart : Plot
        Chart.
    name : {"x", "y"}
        Name of the axis, which is also the data field.
    """
    logarithmic = name in chart.logarithmic
    scale = alt.Scale(type="log", nice=False, padding=8) if logarithmic else alt.Scale(zero=chart.from_zero)
    drawn = alt.Axis(
        title=chart.x_label if name == "x" else chart.y_label,
        labelExpr=_label(chart, name) if logarithmic else alt.Undefined,
        format=_NUMBER,
        labelOverlap="greedy",
        labelSeparation=_APART if name == "x" else alt.Undefined,
        tickCount=8,
        style=DOLLARS if name in chart.dollars else alt.Undefined,
        tickMinStep=1 if all(value == round(value) for value in _values(chart, name)) else alt.Undefined,
    )
    return (alt.X if name == "x" else alt.Y)(field=name, type="quantitative", scale=scale, axis=drawn)


def _values(chart: Plot, name: str) -> list[float]:
    """Values of all lines along an axis."""
    return [value for line in chart.lines for value in (line.x if name == "x" else line.y) if isfinite(value)]


def _label(chart: Plot, name: str) -> str:
    """Vega expression for the labels of a logarithmic axis, for the range of its bands and lines."""
    banded = (line.band for line in chart.lines if line.band is not None)
    edges = ((band.x, band.other_x) if name == "x" else (band.y, band.other_y) for band in banded)
    ends = [value for pair in edges for edge in pair for value in edge if isfinite(value) and value > 0]
    values = [value for value in (*_values(chart, name), *ends) if value > 0]
    text, digits = f"format(datum.value, '{_NUMBER}')", first_digits(min(values), max(values))
    return f"indexof({digits}, {FIRST_DIGIT}) < 0 ? '' : {text}" if digits else text


def first_digits(low: float, high: float) -> list[int]:
    """First digits of the ticks with labels on a logarithmic axis: 1, or 1, 2 and 5; empty if all ticks need labels.

    Examples
    --------
    >>> first_digits(0.1, 1e6), first_digits(6.0, 60.0), first_digits(0.004, 0.021), first_digits(75.0, 110.0)
    ([1], [1, 2, 5], [1, 2, 5], [])
    """
    if high / low > _DECADES:
        return [1]
    decades = range(floor(log10(low)), floor(log10(high)) + 1)
    round_ones = sum(low <= digit * 10.0**decade <= high for decade in decades for digit in (1, 2, 5))
    return [1, 2, 5] if round_ones >= _FEWEST else []


def positions(chart: Plot) -> dict[str, Any]:
    """Encodings of both axes of a chart."""
    return {"x": axis(chart, "x"), "y": axis(chart, "y")}


def coloured(charts: Sequence[Plot]) -> list[str]:
    """Labels of all lines in some charts that need a separate color and dash pattern."""
    return list(dict.fromkeys(line.label for chart in charts for line in chart.lines if not line.points))


def colour(labels: Sequence[str]) -> alt.Color:
    """Color channel of the lines, from the palette of the theme."""
    return kinds(alt.Color, "series", labels, symbolType="stroke", symbolSize=theme.SYMBOL)


def dashes(labels: Sequence[str]) -> alt.StrokeDash:
    """Dash-pattern channel of the lines."""
    patterns = [theme.DASHES[index % len(theme.DASHES)] for index in range(len(labels))]
    return kinds(alt.StrokeDash, "series", labels, patterns, symbolType="stroke", symbolSize=theme.SYMBOL)


def kinds(
    channel: Callable[..., C],
    field: str,
    domain: Sequence[str],
    looks: Any = alt.Undefined,
    *,
    ordinal: bool = False,
    **legend: Any,
) -> C:
    """Create an encoding channel that distinguishes kinds of data, with its legend.

    Parameters
    ----------
    channel : type
        Altair class, for example ``alt.Color``.
    field : str
        Data field that contains the kind of each row.
    domain : sequence of str
        All kinds, in legend order.
    looks : list, optional
        Appearance of each kind; by default the palette of the theme.
    ordinal : bool, optional
        True if ``looks`` are steps of one scale, for example line widths.
    **legend
        Further parameters of ``alt.Legend``.
    """
    order: dict[str, Any] = {"type": "ordinal"} if ordinal else {}
    scale = alt.Scale(domain=list(domain), range=looks, **order)
    sort = list(domain) if ordinal else alt.Undefined
    return channel(field=field, type="nominal", scale=scale, sort=sort, title=None, legend=alt.Legend(**legend))


def names(field: str, values: Iterable[str]) -> alt.Y:
    """Axis of bar labels, from the top."""
    return alt.Y(
        field=field, type="nominal", scale=alt.Scale(domain=list(values)), axis=alt.Axis(title=None, labelLimit=0)
    )


def lengths(field: str, label: str) -> alt.X:
    """Axis of bar lengths, from zero."""
    return alt.X(field=field, type="quantitative", axis=alt.Axis(title=label), scale=alt.Scale(zero=True))


def fields(*shown: str) -> list[alt.Tooltip]:
    """Tooltips that show fields of a data row, by heading."""
    return [alt.Tooltip(field=name, type="nominal") for name in shown]


def curves(chart: Plot, labels: Sequence[str]) -> list[alt.Chart]:
    """Layers with the bands of a chart, and the lines above the bands."""
    rows = _curve_rows(chart)
    lines = encoded(
        alt.Chart(data(rows)).mark_line(strokeWidth=2.2),
        **positions(chart),
        color=colour(labels),
        strokeDash=dashes(labels),
        detail=alt.Detail("piece:N"),
        order=alt.Order("n:Q"),
    )
    return [*_bands(chart, labels), *([lines] if rows else [])]


def _curve_rows(chart: Plot) -> list[Row]:
    """Points of all drawn lines of a chart, as data rows."""
    return [row for line in chart.lines if not line.points for row in line_rows(line)]


def line_rows(line: PlotSeries) -> Iterator[Row]:
    """Points of a line as data rows. A gap (NaN) splits the line into pieces, because Vega-Lite data contain no NaN."""
    piece, broken = 0, False
    for index, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
        if not (isfinite(x) and isfinite(y)):
            broken = True
            continue
        piece, broken = piece + broken, False
        details = {name: values[index] for name, values in line.details.items()}
        series = line.beside or line.label
        yield {"series": series, "x": x, "y": y, "n": index, "piece": piece, **details}


def _bands(chart: Plot, labels: Sequence[str]) -> list[alt.Chart]:
    """Layers with the bands of measured values around the lines, with a single legend entry."""
    banded = [(line.label, line.band) for line in chart.lines if line.band is not None and not line.points]
    if not banded:
        return _intervals(chart)
    rows = [row for label, band in banded for row in _outline(label, band)]
    square = {"symbolType": "square", "symbolStrokeWidth": 0, "symbolSize": 220}
    opacity = kinds(alt.Opacity, "band", [chart.bands], [theme.BAND], ordinal=True, **square)
    mark = alt.MarkDef(type="line", filled=True, strokeWidth=0, tooltip=None)
    drawn = alt.Chart(data(rows), mark=mark).transform_calculate(band=json.dumps(chart.bands))
    return [encoded(drawn, **positions(chart), color=colour(labels), opacity=opacity, order=alt.Order("n:Q"))]


def _intervals(chart: Plot) -> list[alt.Chart]:
    """Layers with horizontal lines that show the intervals of points, with a single legend entry."""
    banded = [line.band for line in chart.lines if line.band is not None and line.points]
    ends = (zip(band.x, band.other_x, band.y, strict=True) for band in banded)
    rows = [{"x": low, "end": high, "y": y, "band": chart.bands} for rows in ends for low, high, y in rows]
    if not rows:
        return []
    opacity = kinds(alt.Opacity, "band", [chart.bands], [_INTERVAL], ordinal=True, symbolType="stroke")
    mark = alt.MarkDef(type="rule", strokeWidth=3, tooltip=None)
    return [encoded(alt.Chart(data(rows), mark=mark), **positions(chart), x2=alt.X2(field="end"), opacity=opacity)]


def _outline(label: str, band: Band) -> Iterator[Row]:
    """Outline of a band as data rows: forward along one edge, then back along the opposite edge."""
    x, y = [*band.x, *reversed(band.other_x)], [*band.y, *reversed(band.other_y)]
    corners = ((a, b) for a, b in zip(x, y, strict=True) if isfinite(a) and isfinite(b))
    for index, (across, up) in enumerate(corners):
        yield {"series": label, "x": float(across), "y": float(up), "n": index}


def points(chart: Plot, charts: Sequence[Plot], labels: Sequence[str]) -> list[alt.Chart]:
    """Layers with the points of a chart, by shape, in the color of their line or in the text color."""
    shapes = list(dict.fromkeys(line.label for panel in charts for line in panel.lines if line.points))
    drawn = []
    for beside, hollow in ((True, False), (False, False), (False, True)):
        lines = [line for line in chart.lines if line.points and (bool(line.beside), line.hollow) == (beside, hollow)]
        rows = [{**row, "kind": line.label} for line in lines for row in line_rows(line)]
        if rows:
            colours = colour(labels) if beside else None
            ranges = [theme.SHAPES[index % len(theme.SHAPES)] for index in range(len(shapes))]
            shape = kinds(alt.Shape, "kind", shapes, ranges, columns=1)
            style: Row = {"opacity": theme.MEASURED, "size": 45} if colours else {"size": 80}
            style |= {"filled": not hollow, "strokeWidth": 2} if hollow else {"filled": True}
            channels = {**positions(chart), "shape": shape, "tooltip": tooltips(chart, rows)}
            if colours is not None:
                channels["color"] = colours
            drawn.append(encoded(alt.Chart(data(rows)).mark_point(**style), **channels))
    return drawn


def tooltips(chart: Plot, rows: Sequence[Row]) -> Any:
    """Hover text expression of a data row: its name, its values on both axes, and its further details.

    One expression is used, because Vega-Lite loses texts if the tooltip of a nearest-point selection is a list of
    fields.
    """
    special = {"series", "kind", "x", "y", "n", "piece"}
    details = dict.fromkeys(name for row in rows for name in row if name not in special)
    shown = {"": "kind" if "kind" in rows[0] else "series", chart.x_label: "x", chart.y_label: "y"}
    shown |= {name: name for name in details}
    texts = [f"{json.dumps(title)}: {_hover_text(name, rows)}" for title, name in shown.items()]
    return alt.TooltipValue(alt.ExprRef(expr=f"{{{', '.join(texts)}}}"))


def _hover_text(name: str, rows: Sequence[Row]) -> str:
    """Vega expression for the text of a field of the selected row."""
    field = f"(datum.datum || datum)[{json.dumps(name)}]"
    if any(isinstance(row.get(name), str) for row in rows):
        return field
    return f"isValid({field}) ? format({field}, '{DIGITS}') : {field}"


def hovered(chart: Plot, labels: Sequence[str], name: str, clicked: alt.Parameter | None) -> list[alt.Chart]:
    """Layers with points on the lines that react to the mouse.

    Parameters
    ----------
    chart : Plot
        Chart.
    labels : sequence of str
        Labels of all colored lines.
    name : str
        Name of the nearest-point selection.
    clicked : Parameter, optional
        Selection that contains the clicked point.
    """
    rows = _curve_rows(chart)
    if not rows:
        return []
    near = alt.selection_point(name=name, on="pointerover", nearest=True, empty=False, fields=["series", "n"])
    shown = alt.OpacityValue(0, condition=[{"param": name, "value": 1, "empty": False}])
    mark = alt.MarkDef(type="point", filled=True, size=70, cursor="default" if clicked is None else "pointer")
    points = alt.Chart(data(rows), mark=mark)
    texts = tooltips(chart, rows)
    shown_points = encoded(points, **positions(chart), color=colour(labels), opacity=shown, tooltip=texts)
    return [shown_points.add_params(near, *([] if clicked is None else [clicked]))]


def ring(chart: Plot, clicked: alt.Parameter) -> alt.Chart:
    """Layer with a ring around the clicked point."""
    rows = _curve_rows(chart)
    base = alt.Chart(data(rows)).mark_point(filled=False, size=170, strokeWidth=2)
    return encoded(base.transform_filter(clicked), **positions(chart))


def rules(chart: Plot) -> list[alt.Chart]:
    """Layers with vertical lines at marked values, and horizontal lines at SLOs, with legend entries.

    The legend distinguishes these lines by width, because dash patterns already distinguish the lines of data.
    """
    drawn, stroke = [], {"symbolType": "stroke", "symbolDash": _RULE}
    for name, places in (("x", chart.marks), ("y", chart.promises)):
        if places:
            width = kinds(alt.StrokeWidth, "text", list(places), [theme.RULE], ordinal=True, **stroke)
            base = alt.Chart(data([{name: place, "text": text} for text, place in places.items()]))
            drawn.append(encoded(base.mark_rule(strokeDash=_RULE), **{name: axis(chart, name)}, strokeWidth=width))
    return drawn
