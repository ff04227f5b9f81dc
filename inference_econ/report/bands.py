"""Bands of measured values around lines of a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from inference_econ.engine import Setup, bounds
from inference_econ.report import caveats
from inference_econ.report.charts.plot import Band

#: With more lines their bands would lie over each other.
_MOST = 4


def bands_label(setups: Iterable[Setup]) -> str:
    """Entry of bands in a legend, with the assumptions whose errors they are."""
    names = ", ".join(dict.fromkeys(caveats.name_of(setup.assumptions) for setup in setups))
    return f"{100 * bounds.LEVEL:.0f} % of measured values ({names})"


def are_shown(lines: int) -> bool:
    """Return whether so many lines can have bands that are told apart."""
    return lines <= _MOST


def around_curve(
    speed: npt.ArrayLike, metric: npt.ArrayLike, factors: bounds.Ends, name: str, *, cost: bool = True
) -> Band | None:
    """A band around what is held against the speed of a user: from faster and better to slower and worse.

    Parameters
    ----------
    speed, metric : array_like, shape (n,)
        Of the points; any units.
    factors : mapping
        From :func:`inference_econ.report.bounds.ends` [1].
    name : str
        Of the metric among them.
    cost : bool
        Less of the metric is better.

    Returns
    -------
    Band or None
        None where nobody knows the errors.
    """
    (slow, fast), (low, high) = factors["tokens_per_second_per_user"], factors[name]
    if slow is None or fast is None or low is None or high is None:
        return None
    better, worse = (low, high) if cost else (high, low)
    x, y = np.asarray(speed), np.asarray(metric)
    return Band((x * fast).tolist(), (y * better).tolist(), (x * slow).tolist(), (y * worse).tolist())


def around_line(x: Sequence[float], y: Sequence[float], ends: bounds.Factors) -> Band | None:
    """A band above and below a line; None where nobody knows the errors."""
    low, high = ends
    if low is None or high is None:
        return None
    at = np.asarray(y)
    return Band(x, (at * low).tolist(), x, (at * high).tolist())
