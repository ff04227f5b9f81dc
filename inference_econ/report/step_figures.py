"""Waterfalls of parts on their way to a whole, and the operators of a step on the roofline of the chip."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, NullFormatter
from matplotlib.transforms import Bbox

from inference_econ.formulas.roofline import attainable
from inference_econ.report.caveats import LEVEL
from inference_econ.report.figures import COLOURS, STYLE, legend_below, save, title_above
from inference_econ.report.step_pictures import Roofline, RooflinePoint, Waterfall, WaterfallBar

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours by what takes longest of an operator.
_BOUNDS = {"compute": COLOURS[1], "memory": COLOURS[0], "network": COLOURS[2], "launch": COLOURS[3]}
#: A smaller share of the step is a point without a label [1].
_LABELLED = 0.01
#: Area of the marker of an operator that takes the whole step, and of the smallest [points²].
_LARGEST, _SMALLEST = 900.0, 12.0
#: A label that is so much above or below its marker needs no line to it [points].
_NEAR = 9
#: Of a roof, so that no label lies between two of them [1].
_PIECES = 150
#: On which side of its marker a label may stand, and how far above it [points], nearest first.
_HEIGHTS = (0, 5, -5, 9, -9, 14, -14, 26, -26, 40, -40, 54, -54, 68, -68, 82, -82)
_OFFSETS = tuple((side, y) for y in _HEIGHTS for side in (1, -1))


def draw_waterfall(fall: Waterfall, path: Path | str) -> None:
    """Draw parts on their way to the whole.

    Parameters
    ----------
    fall : Waterfall
        The parts.
    path : Path or str
        Where to, ending in .svg, .png or .pdf.

    Raises
    ------
    InputError
        If the path cannot be written.
    """
    with rc_context(STYLE):
        save(waterfall_figure(fall), [path])


def waterfall_figure(fall: Waterfall) -> Figure:
    """Parts as bars, each beginning where the last one ends, and the whole below."""
    figure = Figure(figsize=(7.6, 1.9 + 0.34 * len(fall.bars)), layout="constrained")
    title_above(figure, fall.title)
    axes, low, high = figure.add_subplot(), *(fall.likely or (fall.total, fall.total))
    whole = WaterfallBar(fall.whole, 0.0, fall.total, fall.text)
    for row, bar in enumerate([*fall.bars, whole]):
        axes.barh(row, bar.length, left=bar.start, color="0.35" if bar is whole else COLOURS[0], height=0.7)
        end = max(fall.total, high) if bar is whole else bar.start + bar.length
        axes.text(end, row, f"  {bar.text}", va="center", fontsize=9)
    if fall.likely is not None:
        ends = [[max(fall.total - low, 0.0)], [max(high - fall.total, 0.0)]]
        whiskers = axes.errorbar(fall.total, len(fall.bars), xerr=ends, color="black", capsize=4)
        legend_below(figure, {f"{100 * LEVEL:.0f} % of measured values": whiskers})
    axes.set_yticks(range(len(fall.bars) + 1), [*(bar.name for bar in fall.bars), fall.whole])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0.0, 1.3 * max(fall.total, high))
    axes.set_xlabel(fall.x_label)
    return figure


def draw_roofline(roof: Roofline, path: Path | str) -> None:
    """Draw operators on the roofline of a chip.

    Parameters
    ----------
    roof : Roofline
        The operators, and what the chip could do.
    path : Path or str
        Where to, ending in .svg, .png or .pdf.

    Raises
    ------
    InputError
        If the path cannot be written.
    """
    with rc_context(STYLE):
        save(roofline_figure(roof), [path])


def roofline_figure(roof: Roofline) -> Figure:
    """Achieved arithmetic against intensity; the distance to the roof is time that something else takes."""
    figure = Figure(figsize=(7.6, 6.0), layout="constrained")
    title_above(figure, roof.title)
    axes = figure.add_subplot()
    _roofs(axes, roof)
    for point in roof.points:
        at = point.flop_per_byte, point.flops_per_second
        axes.scatter(*at, s=_area(point), color=_BOUNDS[point.bound], alpha=0.75, linewidths=0)
    axes.set(xscale="log", yscale="log", xlabel="FLOP per byte of memory traffic")
    axes.set_ylabel("FLOP per second of an accelerator")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(_flops))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    bounds = dict.fromkeys(point.bound for point in roof.points)
    drawn = {f"bound by {bound}": Line2D([], [], linestyle="", marker="o", color=_BOUNDS[bound]) for bound in bounds}
    drawn[f"area: share of the step; {100 * roof.left_out:.0f} % of it is without arithmetic"] = Line2D(
        [], [], linestyle="", marker="o", color="0.7"
    )
    legend_below(figure, drawn)
    FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    _label(axes, roof)
    return figure


def _roofs(axes: Axes, roof: Roofline) -> None:
    """The bandwidth's slope, and the peak and ridge of each maths unit in use."""
    ridges = {unit: peak / roof.bytes_per_second for unit, peak in roof.peaks.items()}
    least = min([point.flop_per_byte for point in roof.points] + list(ridges.values())) / 3.0
    most = max([point.flop_per_byte for point in roof.points] + list(ridges.values())) * 8.0
    for unit, peak in roof.peaks.items():
        for ends in ((least, ridges[unit]), (ridges[unit], most)):
            axes.plot(ends, attainable(ends, roof.bytes_per_second, peak), color="0.3", linewidth=1.2)
        text, place = f"{unit}: {_flops(peak)}FLOP/s\nridge: {ridges[unit]:.0f} FLOP/B", axes.get_yaxis_transform()
        axes.annotate(text, (1.0, peak), (4, 0), place, textcoords="offset points", fontsize=8.5, va="center")
    middle, text = (least * min(ridges.values())) ** 0.5, f"memory: {roof.bytes_per_second / 1e12:.3g} TB/s"
    at = middle, middle * roof.bytes_per_second
    axes.annotate(text, at, (-6, 3), textcoords="offset points", fontsize=8.5, ha="right", va="bottom")
    axes.set_xlim(least, most)
    axes.margins(y=0.09)


def _flops(value: float, _: object = None) -> str:
    """A rate with the prefix that people use for it."""
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G")):
        if value >= size:
            return f"{value / size:.3g} {prefix}"
    return f"{value:.3g} "


def _label(axes: Axes, roof: Roofline) -> None:
    """Names beside the markers, largest share first, each where it covers nothing else."""
    points, roofs = roof.points, _roof_boxes(axes, roof)
    markers = {point.name: _box(axes, point.flop_per_byte, point.flops_per_second, _radius(point)) for point in points}
    taken = [_words(text) for text in axes.texts]
    for point in points:
        others = [box for name, box in markers.items() if name != point.name]
        if point.share >= _LABELLED:
            _label_one(axes, point, [*taken, *others, *roofs])
            taken = [_words(text) for text in axes.texts]


def _label_one(axes: Axes, point: RooflinePoint, taken: Sequence[Bbox]) -> None:
    """The name and share of an operator at the nearest place that is free; nothing where none is."""
    for side, y in _OFFSETS:
        text = axes.annotate(
            f"{point.name} {100 * point.share:.0f} %",
            (point.flop_per_byte, point.flops_per_second),
            (side * (_radius(point) + 3.0), y),
            textcoords="offset points",
            fontsize=8.5,
            ha="left" if side > 0 else "right",
            va="center",
            arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.6} if abs(y) > _NEAR else None,
        )
        text.set_in_layout(False)
        box = _words(text)
        if not any(box.overlaps(other) for other in taken) and axes.bbox.contains(box.x1, box.y0):
            return
        text.remove()


def _words(text: Text) -> Bbox:
    """What the words of an annotation cover, without the line to its marker [pixels]."""
    text.get_window_extent()  # moves them to their place
    return Text.get_window_extent(text)


def _radius(point: RooflinePoint) -> float:
    """Of a marker [points]."""
    return float(np.sqrt(_area(point) / np.pi))


def _area(point: RooflinePoint) -> float:
    """Of a marker [points²]."""
    return max(_LARGEST * point.share, _SMALLEST)


def _roof_boxes(axes: Axes, roof: Roofline) -> list[Bbox]:
    """What the roofs cover, in small pieces [pixels]."""
    x = np.geomspace(*axes.get_xlim(), _PIECES)
    roofs = (attainable(x, roof.bytes_per_second, peak) for peak in roof.peaks.values())
    return [_box(axes, *corner, 2.0) for y in roofs for corner in zip(x.tolist(), y.tolist(), strict=True)]


def _box(axes: Axes, x: float, y: float, radius: float) -> Bbox:
    """A square around a point, of half a side [points] in pixels."""
    across, up = axes.transData.transform((x, y))
    half = radius * axes.figure.dpi / 72.0
    return Bbox.from_extents(across - half, up - half, across + half, up + half)
