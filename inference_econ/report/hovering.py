"""Texts that charts show of a point when somebody points at it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.serving_frontier import ServicePoint
from inference_econ.engine.bounds import Factors
from inference_econ.report.table import amount, layout_label
from inference_econ.search import Point


def deployed(points: Sequence[ServicePoint | Point]) -> dict[str, list[float | str]]:
    """The deployment of each point: its layout, its size, and the engines that can start it where that is known."""
    details: dict[str, list[float | str]] = {
        "layout": [layout_label(point.layout) for point in points],
        "GPUs": [point.accelerators for point in points],
    }
    if any("engine" in point.layout for point in points):
        details["engine"] = [str(point.layout.get("engine", "")) for point in points]
    return details


def between(value: float, factors: Factors) -> str:
    """A value and where measured ones probably lie, if that is known.

    Examples
    --------
    >>> between(20.0, (0.9, 1.2)), between(20.0, (None, None))
    ('20.0 (18.0 to 24.0)', '20.0')
    """
    low, high = factors
    return (
        amount(value) if low is None or high is None else f"{amount(value)} ({_ends(value, float(low), float(high))})"
    )


def _ends(value: float, low: float, high: float) -> str:
    return f"{amount(value * low)} to {amount(value * high)}"


def priced(costs: Sequence[float] | Array, factors: Factors) -> dict[str, list[float | str]]:
    """Costs and where measured ones probably lie, as numbers: what is proportional to the price of a chip.

    Parameters
    ----------
    costs : sequence of float
        [USD per 1e6 output tokens].
    factors : tuple of float, ndarray or None
        To the ends, of all or of each [1].
    """
    (low, high), prices = factors, np.asarray(costs)
    named: dict[str, list[float | str]] = {"$/M output": prices.tolist()}
    if low is not None and high is not None:
        named |= {"$/M low": (prices * low).tolist(), "$/M high": (prices * high).tolist()}
    return named
