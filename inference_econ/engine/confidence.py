"""Margins that promises are kept with, and the probability that they hold: one-sided quantiles of errors."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from inference_econ.engine.uncertainty import LeftOutErrors, Subject, error_spread
from inference_econ.errors import InputError
from inference_econ.inputs import LEVELS, Assumptions, Quantity

#: A promise that is kept as often as not has no margin [1].
_EVEN = 0.5


def margin(
    assumptions: Assumptions, quantity: Quantity, confidence: float, subjects: Iterable[Subject] = ()
) -> float | None:
    """How many times better than a promise a prediction must be, so that measured values keep it.

    Parameters
    ----------
    assumptions : Assumptions
        Under which it is predicted.
    quantity : {'tpot', 'ttft', 'request', 'throughput'}
        What is promised: times at most, rates at least.
    confidence : float
        Probability that the promise is kept, above 0.5 and at most 0.9 [1].
    subjects : iterable of Subject
        What is asked, see :func:`inference_econ.engine.uncertainty.interval`.

    Returns
    -------
    float or None
        The quantile of measured over predicted at that probability, at least 1: predictions that are known to be too
        large are no reason to promise more [1]. None if the assumptions were not fitted to such a quantity.

    Raises
    ------
    InputError
        If the confidence is out of its range.
    """
    check_confidence(confidence)
    errors = error_spread(assumptions, quantity, subjects)
    if errors is None:
        return None
    return math.exp(max(float(np.interp(confidence, LEVELS, _worse(errors, quantity))), 0.0))


def check_confidence(confidence: float) -> None:
    """Refuse a probability that nobody can plan with.

    Raises
    ------
    InputError
        If it is not above 0.5 and at most 0.9.
    """
    if not _EVEN < confidence <= LEVELS[-2]:
        raise InputError(
            f"confidence: must be above {100 * _EVEN:g} % and at most {100 * LEVELS[-2]:g} %, got "
            f"{100 * confidence:g} %: errors of predictions are known up to their {100 * LEVELS[-1]:g} % quantile, and "
            "that from few rows"
        )


def chance(
    assumptions: Assumptions, quantity: Quantity, slack: float, subjects: Iterable[Subject] = ()
) -> float | None:
    """The probability that measured values keep a promise: the inverse of :func:`margin`.

    Parameters
    ----------
    assumptions : Assumptions
        Under which it is predicted.
    quantity : {'tpot', 'ttft', 'request', 'throughput'}
        What is promised.
    slack : float
        How many times better than the promise the prediction is: promised over predicted time, or predicted over
        promised rate [1].
    subjects : iterable of Subject
        What is asked, see :func:`inference_econ.engine.uncertainty.interval`.

    Returns
    -------
    float or None
        From 0.05 to 0.95, which stand for less and for more: beyond them nothing is known of the errors [1]. None if
        the assumptions were not fitted to such a quantity.
    """
    errors = error_spread(assumptions, quantity, subjects)
    if errors is None:
        return None
    worse = math.log(slack) if slack > 0.0 else -math.inf
    return float(np.interp(worse, _worse(errors, quantity), LEVELS))


def _worse(errors: LeftOutErrors, quantity: Quantity) -> tuple[float, ...]:
    """Logarithms of how many times worse than predicted measured values are, at :data:`LEVELS`, which are symmetric."""
    quantiles = errors.spread.quantiles
    return tuple(-value for value in reversed(quantiles)) if quantity == "throughput" else tuple(quantiles)
