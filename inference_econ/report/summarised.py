"""A frontier in one line, and in three numbers."""

from __future__ import annotations

from typing import Any

from inference_econ.errors import InputError
from inference_econ.search import Choosable, FrontierSummary


def summary_notes(front: Choosable[Any]) -> tuple[str, ...]:
    """The line that summarises a frontier; nothing where it has too few points."""
    summary = _summary(front)
    if summary is None:
        return ()
    slow, top, exponent = summary.slow_dollars, summary.top_tokens_per_second, summary.exponent
    if summary.has_top:
        curve = f"{slow:#.3g} (1 - x / {top:.4g})^-{exponent:#.3g}"
    else:
        curve = f"{slow:#.3g} exp(x / {top / exponent:.4g})"
    between = f"{summary.slowest_tokens_per_second:.3g} to {summary.fastest_tokens_per_second:.3g}"
    errors = f"{100 * summary.typical_error:.2g} % off typically, {100 * summary.largest_error:.2g} % at most"
    return (f"In short, at x tokens/s from {between} a million output tokens cost ${curve}: {errors}.",)


def summary_record(front: Choosable[Any]) -> dict[str, float] | None:
    """The three numbers of a frontier with their errors; None where it has too few points."""
    summary = _summary(front)
    return None if summary is None else summary.record()


def _summary(front: Choosable[Any]) -> FrontierSummary | None:
    try:
        return front.summary()
    except InputError:
        return None
