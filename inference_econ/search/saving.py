"""Saving of layouts that no engine can start: how far the bound of all layouts is away."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.search.choosable import Choosable


class Saving(NamedTuple):
    """The most that any layout saves over those that can be started, at equal speed."""

    share: float
    """Of the cost [1]; 0 if nothing is saved."""
    tokens_per_second: float
    """Where [tokens/s per user]."""


def saved_by(bound: Choosable[Any], startable: Choosable[Any] | None) -> Saving | None:
    """Saving of a frontier of any layout over one of layouts that can be started, if there is one."""
    return None if startable is None else most_saved(*startable.axes(), *bound.axes())


def most_saved(speeds: Array, costs: Array, bound_speeds: Array, bound_costs: Array) -> Saving:
    """Hold a frontier of layouts that can be started against that of any layout.

    Parameters
    ----------
    speeds, costs : ndarray, shape (n,)
        Of layouts that can be started [tokens/s per user], [USD per 1e6 tokens].
    bound_speeds, bound_costs : ndarray, shape (m,)
        The same of any layout.

    Examples
    --------
    >>> most_saved(np.array([10.0, 50.0]), np.array([1.0, 4.0]), np.array([12.0, 50.0]), np.array([1.0, 3.0]))
    Saving(share=0.25, tokens_per_second=50.0)
    """
    reached = bound_speeds[None, :] >= speeds[:, None] * (1.0 - 1e-9)
    cheapest = np.where(reached, bound_costs[None, :], np.inf).min(axis=1)
    shares = np.maximum(1.0 - cheapest / costs, 0.0)
    best = int(np.argmax(shares))
    return Saving(float(shares[best]), float(speeds[best]))
