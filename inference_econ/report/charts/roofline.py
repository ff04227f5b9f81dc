"""Roofline chart of the operators of a step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log, pi, sqrt
from typing import Any, NamedTuple

import altair as alt

from inference_econ.engine import OperatorCosts, Setup
from inference_econ.formulas.roofline import attainable
from inference_econ.records.texts import prefixed
from inference_econ.report.charts import marks, theme

#: Possible limits of an operator, in palette order.
_BOUNDS = ("memory", "compute", "network", "launch")
#: Points with a smaller share of the step have no label [1].
_LABELLED = 0.01
#: Marker area of an operator that takes the whole step, and of the smallest [pixels²].
_LARGEST, _SMALLEST = 1600.0, 22.0
#: Height of the chart [pixels].
_HEIGHT = 420
#: Size of a character and of a line of text [pixels].
_CHARACTER, _LINE = 6.2, 14.0
#: Labels further above or below their marker get a connecting line [pixels].
_NEAR = 13
#: Segments of a roof, for the overlap check of labels [1].
_PIECES = 150
#: Narrower charts label only the largest operators [pixels], [1].
_CROWDED, _NAMED = 450, 3
#: Label positions: side of the marker, and height above it [pixels], nearest first.
_HEIGHTS = (0, 7, -7, 13, -13, 20, -20, 37, -37, 56, -56, 76, -76, 96, -96)
_OFFSETS = tuple((side, up) for up in _HEIGHTS for side in (1, -1))


class _Box(NamedTuple):
    """Rectangle on a chart that a label or marker occupies [pixels]."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: _Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


class _Axes(NamedTuple):
    """Ranges of the two logarithmic axes of a roofline chart [FLOP/B], [FLOP/s]."""

    least: float
    most: float
    low: float
    high: float

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Position of a point on the chart [pixels]."""
        across = log(x / self.least) / log(self.most / self.least)
        up = log(y / self.low) / log(self.high / self.low)
        return theme.WIDE * across, _HEIGHT * (1.0 - up)


class RooflinePoint(NamedTuple):
    """Point of an operator on a roofline chart, summed over all layers."""

    name: str
    """Name of the operator."""
    unit: str
    """Compute unit that the operator runs on."""
    bound: str
    """Resource that takes the longest time in the operator."""
    flop_per_byte: float
    """Arithmetic intensity [FLOP/B]."""
    flops_per_second: float
    """Achieved arithmetic rate, with network time and kernel launch overhead [FLOP/s]."""
    share: float
    """Share of the step time that the operator takes [1]."""


class RooflinePicture(NamedTuple):
    """Data of a roofline chart: the operators of a step, and the peak rates of the GPU."""

    bytes_per_second: float
    """Memory bandwidth of the GPU [B/s]."""
    peaks: Mapping[str, float]
    """Peak rates of the compute units in use [FLOP/s]."""
    points: Sequence[RooflinePoint]
    """Operators, largest share first."""

    @property
    def left_out(self) -> float:
        """Share of the step time outside the roofline [1].

        This share includes operators without arithmetic or memory traffic, and time outside operators.
        """
        return max(1.0 - sum(point.share for point in self.points), 0.0)


def roofline(setup: Setup, operators: Sequence[OperatorCosts], step_seconds: float) -> RooflinePicture:
    """Compute the data of a roofline chart, for all operators that have both arithmetic and memory traffic."""
    points = []
    for name in dict.fromkeys(row.name for row in operators):
        rows = [row for row in operators if row.name == name]
        flop, moved, seconds = (sum(getattr(row, key) for row in rows) for key in ("flop", "moved_bytes", "seconds"))
        slowest = max(rows, key=lambda row: row.seconds)
        if flop > 0.0 and moved > 0.0:
            place = flop / moved, flop / seconds, seconds / step_seconds
            points.append(RooflinePoint(name, slowest.unit, slowest.bound, *place))
    peaks = {unit: setup.peaks[unit] for unit in dict.fromkeys(point.unit for point in points)}
    return RooflinePicture(setup.hardware.hbm_bytes_per_second, peaks, sorted(points, key=lambda point: -point.share))


@marks.quickly
def roofline_chart(roof: RooflinePicture, title: str) -> alt.LayerChart:
    """Create a chart of the achieved arithmetic rate against arithmetic intensity.

    The distance from a marker to the roof shows time that is spent on other resources, such as the network.
    """
    # Ranges that include all operators and ridge points.
    across = [*(point.flop_per_byte for point in roof.points), *_ridges(roof).values()]
    least, most = min(across) / 3.0, max(across) * 8.0
    up = [point.flops_per_second for point in roof.points]
    axes = _Axes(least, most, min([*up, least * roof.bytes_per_second]) / 2.0, max([*up, *roof.peaks.values()]) * 2.5)
    layers = [*_roofs(roof, axes), _operators(roof, axes), *_names(roof, axes)]
    area = f"Area: share of the step; {100 * roof.left_out:.0f} % of it is without arithmetic."
    heading = marks.chart_heading(f"{title}\n{area}", theme.WIDE)
    return alt.LayerChart(layer=layers, title=heading, width=theme.WIDE, height=_HEIGHT)


def _ridges(roof: RooflinePicture) -> dict[str, float]:
    """Arithmetic intensity above which the peak rate is the limit, for each compute unit [FLOP/B]."""
    return {unit: peak / roof.bytes_per_second for unit, peak in roof.peaks.items()}


def _positions(axes: _Axes) -> dict[str, Any]:
    across, up = (alt.Scale(type="log", nice=False, domain=list(ends)) for ends in (axes[:2], axes[2:]))
    return {
        "x": alt.X(
            field="x", type="quantitative", scale=across, axis=_axis("FLOP per byte of memory traffic", ",.6~r")
        ),
        "y": alt.Y(field="y", type="quantitative", scale=up, axis=_axis("FLOP per second of an accelerator", ".3~s")),
    }


def _axis(title: str, form: str) -> alt.Axis:
    """Create a logarithmic axis with labels at powers of ten."""
    ten = f"{marks.FIRST_DIGIT} == 1 ? replace(format(datum.value, '{form}'), 'G', ' G') : ''"
    return alt.Axis(title=title, labelExpr=ten)


def _roofs(roof: RooflinePicture, axes: _Axes) -> Iterator[alt.Chart]:
    """Layers with the bandwidth slope of the roofline, and the peak and ridge point of each compute unit in use."""
    ridges, speed = _ridges(roof), roof.bytes_per_second
    rows = [
        {"unit": unit, "x": x, "y": float(attainable(x, speed, peak))}
        for unit, peak in roof.peaks.items()
        for x in (axes.least, ridges[unit], axes.most)
    ]
    base = alt.Chart(marks.data(rows)).mark_line(strokeWidth=1.4)
    yield marks.encoded(base, **_positions(axes), detail=alt.Detail("unit:N"))
    peaks = [
        {"x": axes.most, "y": peak, "text": [f"{unit}: {top}FLOP/s", f"ridge: {ridges[unit]:.0f} FLOP/B"]}
        for unit, peak in roof.peaks.items()
        for top in [prefixed(peak, "PTG ", ".3g")]
    ]
    words = alt.Chart(marks.data(peaks)).mark_text(align="left", dx=5, lineHeight=_LINE, baseline="middle")
    yield marks.encoded(words, **_positions(axes), text=alt.Text("text:N"))
    middle = sqrt(axes.least * min(ridges.values()))
    slope = [{"x": middle, "y": middle * speed, "text": f"memory: {speed / 1e12:.3g} TB/s"}]
    words = alt.Chart(marks.data(slope)).mark_text(align="right", dx=-8, dy=-6)
    yield marks.encoded(words, **_positions(axes), text=alt.Text("text:N"))


def _operators(roof: RooflinePicture, axes: _Axes) -> alt.Chart:
    """Layer with the markers of the operators, in the color of the resource that limits them."""
    rows = [
        {
            "operator": point.name,
            "x": point.flop_per_byte,
            "y": point.flops_per_second,
            "bound": f"bound by {point.bound}",
            "area": _area(point),
            "share of the step": f"{100 * point.share:.1f} %",
            "maths": point.unit,
        }
        for point in roof.points
    ]
    names = [f"bound by {bound}" for bound in _BOUNDS]
    present = [name for name in names if any(row["bound"] == name for row in rows)]
    colour = marks.kinds(alt.Color, "bound", names, values=present)
    area = alt.Size(field="area", type="quantitative", scale=None)
    tooltips = marks.fields("operator", "bound", "share of the step", "maths")
    tooltips += [alt.Tooltip(field="x", type="quantitative", title="FLOP per byte", format=marks.DIGITS)]
    tooltips += [alt.Tooltip(field="y", type="quantitative", title="FLOP per second", format=".3s")]
    base = alt.Chart(marks.data(rows)).mark_circle(opacity=0.75)
    return marks.encoded(base, **_positions(axes), color=colour, size=area, tooltip=tooltips)


def _names(roof: RooflinePicture, axes: _Axes) -> Iterator[alt.Chart]:
    """Layers with the labels of the markers, largest share first. Labels that would overlap are left out."""
    rows = list(_placed(roof, axes))
    if not rows:
        return
    lines = [{"name": row["name"], "n": n, **end} for row in rows if row["far"] for n, end in enumerate(row["line"])]
    if lines:
        seen = alt.ExprRef(expr=f"width < {_CROWDED} ? 0 : 0.6")
        drawn = alt.Chart(marks.data(lines)).mark_line(strokeWidth=0.7, opacity=seen)
        yield marks.encoded(drawn, **_positions(axes), detail=alt.Detail("name:N"), order=alt.Order("n:Q"))
    names = ("x", "y", "text", "align", "dx", "dy")
    words = [{**{name: row[name] for name in names}, "rank": rank} for rank, row in enumerate(rows)]
    align, dx, dy = (alt.ExprRef(expr=f"datum.{name}") for name in ("align", "dx", "dy"))
    seen = alt.ExprRef(expr=f"width < {_CROWDED} && datum.rank >= {_NAMED} ? 0 : 1")
    mark = alt.MarkDef(type="text", baseline="middle", align=align, dx=dx, dy=dy, opacity=seen)
    yield marks.encoded(alt.Chart(marks.data(words), mark=mark), **_positions(axes), text=alt.Text("text:N"))


def _placed(roof: RooflinePicture, axes: _Axes) -> Iterator[marks.Row]:
    """Place each label at the nearest free position, and yield it with its distance to the marker."""
    places = {point.name: axes.place(point.flop_per_byte, point.flops_per_second) for point in roof.points}
    markers = {point.name: _around(*places[point.name], _radius(point)) for point in roof.points}
    # The roofs are divided into small segments, to check whether labels overlap with them.
    steps = (axes.least * (axes.most / axes.least) ** (piece / _PIECES) for piece in range(_PIECES + 1))
    taken = [
        _around(*axes.place(x, float(attainable(x, roof.bytes_per_second, peak))), 3.0)
        for x in steps
        for peak in roof.peaks.values()
    ]
    for point in roof.points:
        if point.share < _LABELLED:
            continue
        covered = [*taken, *(box for name, box in markers.items() if name != point.name)]
        text, (x, y), beside = f"{point.name} {100 * point.share:.0f} %", places[point.name], _radius(point) + 4.0
        for side, up in _OFFSETS:
            left, right = sorted((x + side * beside, x + side * (beside + _CHARACTER * len(text))))
            box = _Box(left, y - up - _LINE / 2, right, y - up + _LINE / 2)
            inside = box.left >= 0 and box.right <= theme.WIDE and box.top >= 0 and box.bottom <= _HEIGHT
            if not inside or any(box.overlaps(other) for other in covered):
                continue
            taken.append(box)
            start = {"x": point.flop_per_byte, "y": point.flops_per_second}
            # Position next to the marker, in axis units.
            end = {
                "x": start["x"] * (axes.most / axes.least) ** (side * beside / theme.WIDE),
                "y": start["y"] * (axes.high / axes.low) ** (up / _HEIGHT),
            }
            align = "left" if side > 0 else "right"
            shown = {"text": text, "align": align, "dx": side * beside, "dy": -up, "far": abs(up) > _NEAR}
            yield {"name": point.name, **start, **shown, "line": [start, end]}
            break


def _area(point: RooflinePoint) -> float:
    """Area of a marker [pixels²]."""
    return max(_LARGEST * point.share, _SMALLEST)


def _radius(point: RooflinePoint) -> float:
    """Radius of a marker [pixels]."""
    return sqrt(_area(point) / pi)


def _around(x: float, y: float, half: float) -> _Box:
    return _Box(x - half, y - half, x + half, y + half)
