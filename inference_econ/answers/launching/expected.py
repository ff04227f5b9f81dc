"""Predictions of a deployment under a load, and how far off they may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: What a run is held against.
Measure = Literal["ttft", "tpot", "e2e", "throughput"]
#: How they are called, their unit, and how many of it make a base unit.
UNITS: dict[Measure, tuple[str, str, float]] = {
    "ttft": ("TTFT", "ms", 1e3),
    "tpot": ("TPOT", "ms", 1e3),
    "e2e": ("E2E", "ms", 1e3),
    "throughput": ("output tokens/s", "", 1.0),
}


@dataclass(frozen=True, slots=True)
class Expected:
    """One predicted number.

    Attributes
    ----------
    measure : str
        ``ttft`` [s], ``tpot`` [s], ``e2e`` (to the last token) [s] or ``throughput`` [output tokens/s].
    statistic : str
        ``mean``, or a percentile of requests such as ``p95``.
    value : float
        Predicted.
    low, high : float or None
        Interval; None where nobody knows it.
    promised : float or None
        What was promised of this very number; None if nothing was.
    """

    measure: Measure
    statistic: str
    value: float
    low: float | None = None
    high: float | None = None
    promised: float | None = None

    @property
    def name(self) -> str:
        """Which number it is."""
        label = UNITS[self.measure][0]
        return label if self.measure == "throughput" else f"{label} {self.statistic}"

    @property
    def text(self) -> str:
        """The number with its interval and promise in words."""
        _, unit, factor = UNITS[self.measure]
        low, high = (None if end is None else _digits(factor * end) for end in (self.low, self.high))
        between = "" if low is None or high is None else f" ({low} to {high})"
        promised = "" if self.promised is None else f", promised {_digits(factor * self.promised)}"
        return f"{self.name} {_digits(factor * self.value)}{between}{' ' if unit else ''}{unit}{promised}"


def _digits(number: float) -> str:
    """A number with four digits, whole from a thousand on."""
    return f"{number:.4g}" if number < 1e3 else f"{number:.0f}"
