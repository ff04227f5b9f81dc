"""Figures of scenarios, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from inference_econ._types import Array
from inference_econ.report.figures import (
    COLOURS,
    MARKERS,
    STYLE,
    Decades,
    chart_figure,
    charts_figure,
    label_ticks,
    plot_frontiers,
)
from inference_econ.report.questions.assess import assessment_chart
from inference_econ.studies.results import BesideSeries, Result, SquareRootLaw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Maximum legend entries in a corner of a figure [1].
_CORNER_ENTRIES = 5


def draw(result: Result) -> Figure:
    """Draw the figure of a scenario.

    Parameters
    ----------
    result : Result
        Result of a scenario.

    Returns
    -------
    matplotlib.figure.Figure
        Figure for :func:`inference_econ.report.figures.save`.

    Raises
    ------
    InputError
        If the result has no curves to draw.
    """
    result.check_figure()
    spec = result.scenario.figure
    title = spec.title if spec is not None else result.scenario.name
    with rc_context(STYLE):
        if result.assessment is not None:
            return chart_figure(assessment_chart(result.assessment), title)
        if result.charts:
            return charts_figure(result.charts, title)
        if result.panels:
            figure = Figure(figsize=(6.25 * len(result.panels), 6.4), layout="constrained")
            places = figure.subplots(1, len(result.panels), sharey=True, squeeze=False)[0]
            for axes, panel in zip(places, result.panels, strict=True):
                inner = panel.scenario.figure
                plot_frontiers(axes, panel.curves, inner.title if inner is not None else panel.scenario.name)
                _offers(axes, panel)
                axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, fontsize=8.5)
            _name_offers(figure, list(zip(places, result.panels, strict=True)))
            return figure
        figure = Figure(figsize=(7.6, 5.2), layout="constrained")
        axes = figure.add_subplot()
        if result.comparison is not None:
            _comparison(axes, result.comparison, title)
        else:
            plot_frontiers(axes, result.curves, title)
            _offers(axes, result)
            # Many series leave no free corner: their legend goes below the axes.
            if len(axes.get_legend_handles_labels()[1]) > _CORNER_ENTRIES:
                figure.legend(loc="outside lower center", ncols=3, fontsize=8.5)
            else:
                axes.legend()
        if spec is not None and spec.x is not None:
            axes.set_xlim(spec.x)
        if spec is not None and spec.y is not None:
            axes.set_ylim(spec.y)
        _name_offers(figure, [(axes, result)])
    return figure


def _offers(axes: Axes, result: Result) -> None:
    """Draw API offers in the colors of the frontiers that they are compared with, with one marker shape per day."""
    days = list(dict.fromkeys(beside.offer.date for beside in result.offers))
    for beside in result.offers:
        marker = MARKERS[days.index(beside.offer.date) % len(MARKERS)]
        place = beside.tokens_per_second, beside.offer.dollars_per_million_output_tokens
        colour = _colour(result, beside)
        axes.plot(*place, marker, color=colour, markersize=5.5, markeredgecolor="black", markeredgewidth=0.6)
    for day, marker in zip(days, MARKERS, strict=False):
        axes.plot([], [], marker, color="white", markeredgecolor="black", label=f"offered on {day}")


def _name_offers(figure: Figure, panels: Sequence[tuple[Axes, Result]]) -> None:
    """Write the names of providers next to their offers, after the layout of the figure is final."""
    if not any(result.offers for _, result in panels):
        return
    figure.draw_without_rendering()
    for axes, result in panels:
        points = [
            Named(
                beside.offer.provider,
                (beside.tokens_per_second, beside.offer.dollars_per_million_output_tokens),
                _colour(result, beside),
            )
            for beside in sorted(result.offers, key=lambda beside: beside.tokens_per_second)
        ]
        write_names(axes, points)


def _colour(result: Result, beside: BesideSeries) -> str:
    """Color of the frontier that an API offer is compared with."""
    labels = [curve.label for curve in result.curves]
    return COLOURS[labels.index(beside.series) % len(COLOURS)]


def _comparison(axes: Axes, comparison: SquareRootLaw, title: str) -> None:
    parameters, milliseconds = comparison.parameters / 1e9, comparison.measured * 1e3
    line = np.geomspace(parameters.min() / 1.5, parameters.max() * 1.5, 50)
    law = milliseconds[0] * np.sqrt(line / parameters[0])
    axes.plot(line, law, color=COLOURS[0], label="square-root law (19) through the smallest model")
    axes.plot(parameters, milliseconds, "o", color=COLOURS[1], label="measured (Pope et al. 2022)")
    for label, x, y in zip(comparison.labels, parameters, milliseconds, strict=True):
        axes.annotate(f"{label}: {y:g} ms", (x, y), xytext=(-8, 6), textcoords="offset points", fontsize=9, ha="right")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(left=line.min() / 4)
    for axis in (axes.xaxis, axes.yaxis):
        label_ticks(axis, locator=Decades())
    axes.set_xlabel("parameters (billions)")
    axes.set_ylabel("milliseconds per token")
    axes.set_title(title)
    axes.legend(loc="lower right")


#: Directions in which a name may lie from its point, with the alignment of its text.
_ACROSS = {1: "left", -1: "right", 0: "center"}


_ALONG = {1: "bottom", -1: "top", 0: "center"}


#: Step along a curve for overlap checks, margin around a name, and half size of a point [pixels].
_STEP, _AROUND, _POINT = 2.0, 3.0, 4.0
#: Penalties of a position for a name [1]: for covering another name, a point or the edge of the axes, and for covering
#: one step of a curve. A distance of one typographic point from the named point has the penalty 1.
_COVERED, _CROSSED = 400.0, 4.0

_DISTANCES = (5.0, 14.0, 24.0, 36.0)


_FONT_SIZE = 7.5


class Named(NamedTuple):
    """Point of a figure with a name."""

    name: str
    """Text next to the point."""
    place: tuple[float, float]
    """Position of the point in axis units."""
    colour: str
    """Color of the name."""


def write_names(axes: Axes, points: Sequence[Named]) -> None:
    """Write each name at the position with the least overlap. A thin line connects a distant name to its point.

    The limits and the layout of the figure must be final.
    """
    points_of_curves = [_stepped(axes.transData.transform(np.asarray(line.get_xydata()))) for line in axes.lines]
    curves = np.concatenate([*points_of_curves, np.empty((0, 2))])
    places = [axes.transData.transform(point.place) for point in points]
    taken = [Bbox.from_extents(*(place - _POINT), *(place + _POINT)) for place in places]
    for index, (point, place) in enumerate(zip(points, places, strict=True)):
        text = axes.text(*point.place, point.name, fontsize=_FONT_SIZE)
        size = np.array(text.get_window_extent().size)
        text.remove()
        others = [*taken[:index], *taken[index + 1 :]]
        tried = {}
        for distance, right, up in product(_DISTANCES, _ACROSS, _ALONG):
            if not right and not up:
                continue
            away = np.array([right, up]) * distance
            middle = place + away * axes.figure.dpi / 72.0 + np.array([right, up]) * size / 2.0
            box = Bbox.from_extents(*(middle - size / 2.0 - _AROUND), *(middle + size / 2.0 + _AROUND))
            covered = sum(box.overlaps(other) for other in others)
            covered += not (axes.bbox.contains(*box.min) and axes.bbox.contains(*box.max))
            tried[right, up, distance] = _CROSSED * _inside(box, curves) + _COVERED * covered + distance, box
        (right, up, distance), (_, box) = min(tried.items(), key=lambda item: item[1][0])
        leader = {"arrowstyle": "-", "color": point.colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
        axes.annotate(
            point.name,
            point.place,
            xytext=(distance * right, distance * up),
            textcoords="offset points",
            fontsize=_FONT_SIZE,
            color=point.colour,
            horizontalalignment=_ACROSS[right],
            verticalalignment=_ALONG[up],
            arrowprops=leader if distance > _DISTANCES[0] else None,
        )
        taken.append(box)


def _stepped(line: Array) -> Array:
    """Resample a line to points at equal distances, shape (n, 2) [pixels]."""
    if len(line) < 2:
        return line
    lengths = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
    along = np.arange(0.0, lengths[-1], _STEP)
    return np.column_stack([np.interp(along, lengths, line[:, axis]) for axis in (0, 1)])


def _inside(box: Bbox, points: Array) -> int:
    """Number of points inside a box [1]."""
    return int(np.all((points >= box.min) & (points <= box.max), axis=1).sum())
