"""Names beside points of a figure, where they lie on no curve, no other point and no other name."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.transforms import Bbox

from inference_econ._types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Where a name may lie: to the right, in the middle or to the left, above, level or below; nearest first [points].
_ACROSS = {1: "left", -1: "right", 0: "center"}
_ALONG = {1: "bottom", -1: "top", 0: "center"}
_DISTANCES = (5.0, 14.0, 24.0, 36.0)
_FONT_SIZE = 7.5
#: Between points of a curve that are looked at, around a name, and of a point of its own [pixels].
_STEP, _AROUND, _POINT = 2.0, 3.0, 4.0
#: What a name costs that lies on another name or point, or outside the axes, and on a step of a curve [1]; a point away
#: from its own place costs 1.
_COVERED, _CROSSED = 400.0, 4.0


class Named(NamedTuple):
    """A point with a name."""

    name: str
    """Text beside it."""
    place: tuple[float, float]
    """Place in the units of the axes."""
    colour: str
    """Colour of the name."""


def write_names(axes: Axes, points: Sequence[Named]) -> None:
    """Write the name of every point where it covers least, with a thin line to it where that is not beside it.

    Limits and layout of the figure must be final.
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
    """Points of a line in equal steps, from its corners, shape (n, 2) [pixels]."""
    if len(line) < 2:
        return line
    lengths = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
    along = np.arange(0.0, lengths[-1], _STEP)
    return np.column_stack([np.interp(along, lengths, line[:, axis]) for axis in (0, 1)])


def _inside(box: Bbox, points: Array) -> int:
    """Number of points in a box [1]."""
    return int(np.all((points >= box.min) & (points <= box.max), axis=1).sum())
