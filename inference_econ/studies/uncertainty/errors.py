"""Errors of a profile as an input: measured times over predicted ones, by the share of servers that are faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.engine import error_spread
from inference_econ.engine.bounds import subjects_of
from inference_econ.errors import InputError
from inference_econ.formulas import special
from inference_econ.inputs import LEVELS, PROFILE, Distribution, ErrorSpread, Quantity, UncertainInput
from inference_econ.studies.results import AnyFrontier


class Errors(NamedTuple):
    """Measured over predicted values; arrays of one shape."""

    tpot: Array
    """Time per output token [1]."""
    ttft: Array
    """Time to the first token [1]."""
    e2e: Array
    """Time to the last token [1]."""
    cost: Array
    """Cost of a token, the inverse of a throughput [1]."""


#: Errors of servers by the share of servers that are faster.
ErrorsOf = Callable[[Array], Errors]


def errors_of(given: UncertainInput, front: AnyFrontier) -> ErrorsOf:
    """The errors of a frontier's predictions.

    Parameters
    ----------
    given : Distribution or str
        Of measured over predicted times, or ``held_out``: those that the profile has for servers as unlike the
        measured ones as these.
    front : ServiceFrontier or Frontier
        What is predicted.

    Returns
    -------
    callable
        From shares of servers that are faster, 0 to 1 [1], to errors.

    Raises
    ------
    InputError
        If the assumptions were fitted to no server.

    Notes
    -----
    One share stands for all quantities of a server: who is slow per token has a low throughput and a late first token,
    since all three are sums of the same steps.
    """
    if isinstance(given, Distribution):
        return lambda slower: _equal(given.quantiles(slower))
    tpot = _spread(front, "tpot")
    if tpot is None:
        raise InputError(
            f"{PROFILE}: {front.setup.assumptions.name} was fitted to no measured server, so that its errors are not "
            f"known; give them: {PROFILE}: {{distribution: lognorm, s: 0.2, relative: true}}"
        )
    # Decode steps alone cost what they take.
    throughput = _spread(front, "throughput") if isinstance(front, ServiceFrontier) else None
    ttft, e2e = _spread(front, "ttft") or tpot, _spread(front, "request") or tpot

    def held_out(slower: Array) -> Errors:
        times, first, last = (np.exp(quantile(spread, slower)) for spread in (tpot, ttft, e2e))
        return Errors(times, first, last, times if throughput is None else np.exp(-quantile(throughput, 1.0 - slower)))

    return held_out


def _equal(times: Array) -> Errors:
    return Errors(times, times, times, times)


def _spread(front: AnyFrontier, quantity: Quantity) -> ErrorSpread | None:
    """The held-out errors of a quantity; None if they are not known."""
    spreads = [
        error_spread(instances.setup.assumptions, quantity, subjects_of(instances)) for instances in front.subjects()
    ]
    return max(
        (errors.spread for errors in spreads if errors is not None), key=lambda instances: instances.width, default=None
    )


def quantile(spread: ErrorSpread, shares: Array) -> Array:
    """Errors by the share of errors that are lower.

    Parameters
    ----------
    spread : ErrorSpread
        Quantiles of ln(measured / predicted) at some levels.
    shares : ndarray
        From 0 to 1 [1].

    Returns
    -------
    ndarray
        ln(measured / predicted) [1].

    Notes
    -----
    Between the levels straight over the scores of a normal distribution, and beyond the outermost straight on: exact
    for normal errors. Nothing is known of the tails beyond 5 and 95 %.
    """
    score, levels = (
        special.normal_quantiles(share) for share in (np.clip(shares, 1e-9, 1.0 - 1e-9), np.asarray(LEVELS))
    )
    values = np.asarray(spread.quantiles)
    slopes = np.diff(values) / np.diff(levels)
    piece = np.clip(np.searchsorted(levels, score) - 1, 0, slopes.size - 1)
    return np.asarray(values[piece] + slopes[piece] * (score - levels[piece]))
