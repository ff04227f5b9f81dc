"""At which load of a curve a fleet is described, started and held to account."""

from __future__ import annotations

from collections.abc import Sequence

from inference_econ.answers.load import LoadPoint

#: Fuller fleets are for nobody: a little more traffic, and queues grow without end [1].
_FULLEST = 0.85


def working(points: Sequence[LoadPoint]) -> LoadPoint:
    """The fullest load that leaves room for more, or the lightest where none does."""
    light = [point for point in points if point.load.utilization <= _FULLEST]
    return max(light, key=_busy) if light else min(points, key=_busy)


def _busy(point: LoadPoint) -> float:
    return point.load.utilization
