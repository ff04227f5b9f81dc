"""A frontier in three numbers: what it costs when slow, the speed that it cannot reach, how it rises between."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.formulas import pareto

#: Three numbers pass through three points whatever these are [1].
_FEWEST_POINTS = 4
#: The top speed lies above the fastest point by a share within e to these powers [1].
_MARGINS = (-14.0, 3.0)
#: Grids of such shares, each between the neighbours of the best of the one before: to 1e-8 [1].
_ROUNDS = 6

#: A top speed this many times that of the fastest point is none: the points are an exponential [1].
_TOP_IS_SEEN = 2.0


@dataclass(frozen=True, slots=True)
class FrontierSummary:
    """A (1 - x / x_m)^-beta, fitted to the points of a frontier.

    Attributes
    ----------
    slow_dollars : float
        Cost A towards a speed of 0 [USD per 1e6 output tokens].
    top_tokens_per_second : float
        Speed x_m that no cost reaches [tokens/s].
    exponent : float
        beta [1].
    slowest_tokens_per_second, fastest_tokens_per_second : float
        Between which points it holds [tokens/s].
    points : int
        What it was fitted to [1].
    typical_error : float
        Root mean square of the logarithm of a point's cost over that of the summary [1]: 0.1 is about 10 %.
    largest_error : float
        The largest of these ratios, or of their inverses, less one [1].
    """

    slow_dollars: float
    top_tokens_per_second: float
    exponent: float
    slowest_tokens_per_second: float
    fastest_tokens_per_second: float
    points: int
    typical_error: float
    largest_error: float

    @property
    def has_top(self) -> bool:
        """True if the points show a top speed; else cost rises like exp(beta x / x_m)."""
        return self.top_tokens_per_second < _TOP_IS_SEEN * self.fastest_tokens_per_second

    def dollars_at(self, tokens_per_second: npt.ArrayLike) -> Array:
        """Cost at speeds below the top one [tokens/s], shape (...) [USD per 1e6 output tokens].

        Raises
        ------
        InputError
            If a speed is negative, or not below the top speed.
        """
        speeds = np.asarray(tokens_per_second, dtype=float)
        if not np.all((speeds >= 0) & (speeds < self.top_tokens_per_second)):
            raise InputError(f"speeds must be from 0 to below {self.top_tokens_per_second:.4g} tokens/s, the top speed")
        return pareto.summarised_cost(speeds, self.slow_dollars, self.top_tokens_per_second, self.exponent)

    def record(self) -> dict[str, float]:
        """Plain data, for JSON."""
        return asdict(self)


def summarise(tokens_per_second: Array, dollars: Array) -> FrontierSummary:
    """Fit the three numbers, each point's cost with the same relative error.

    Parameters
    ----------
    tokens_per_second, dollars : ndarray, shape (n,)
        Speed [tokens/s] and cost [USD per 1e6 tokens] of the points.

    Raises
    ------
    InputError
        If there are fewer than four points.

    Notes
    -----
    For one x_m the logarithm of cost is a straight line over -log(1 - x / x_m), fitted in closed form; x_m is found
    on grids that become finer around what leaves least. The published code of Erdil (2025) maximises the same
    likelihood in four unknowns from a first guess.
    """
    speeds, logarithms = np.asarray(tokens_per_second, dtype=float), np.log(dollars)
    if speeds.size < _FEWEST_POINTS:
        raise InputError(
            f"a frontier of {speeds.size} points is its own summary; A (1 - x / x_m)^-beta needs at least "
            f"{_FEWEST_POINTS}"
        )
    fastest = float(speeds.max())
    near = _MARGINS
    for _ in range(_ROUNDS):
        # Coarse first: what is left may have more than one minimum.
        margins = np.linspace(*near, 69)
        lines = _lines(speeds, logarithms, fastest, margins)
        lowest = int(np.argmin(lines[-1]))
        near = (margins[max(lowest - 1, 0)], margins[min(lowest + 1, margins.size - 1)])
    slow, exponent, left = (float(values[lowest]) for values in lines)
    top = fastest * (1.0 + np.exp(margins[lowest]))
    errors = logarithms - np.log(pareto.summarised_cost(speeds, np.exp(slow), top, exponent))
    return FrontierSummary(
        float(np.exp(slow)),
        float(top),
        float(exponent),
        float(speeds.min()),
        fastest,
        speeds.size,
        float(np.sqrt(left / speeds.size)),
        float(np.expm1(np.max(np.abs(errors)))),
    )


def _lines(speeds: Array, logarithms: Array, fastest: float, margins: Array) -> tuple[Array, Array, Array]:
    """Logarithm of A, beta, and the squares that are left, at top speeds e^margin of the fastest point above it."""
    over = -np.log1p(-speeds / (fastest * (1.0 + np.exp(margins[:, None]))))
    mean = over.mean(axis=-1)
    centred = over - mean[:, None]
    exponent = centred @ logarithms / (centred**2).sum(axis=-1)
    slow = logarithms.mean() - exponent * mean
    left = (logarithms - slow[:, None] - exponent[:, None] * over) ** 2
    return slow, exponent, left.sum(axis=-1)
