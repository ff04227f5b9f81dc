"""Figure of claims: predicted over published values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator

from inference_econ.extras.papers.claim_kinds import Basis
from inference_econ.extras.papers.claims import BASES, Finding, Ledger
from inference_econ.report.questions.figures import COLOURS, MARKERS, STYLE, label_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Height per claim and per publication, and margin [inches].
_ROW, _BETWEEN, _AROUND = 0.21, 0.45, 1.1

#: Limit of the axis on both sides [1]. Marks outside the limit are drawn at the limit, with their value.
_END = 20.0


_TICKS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)


_MARKS: Mapping[Basis, tuple[str, str]] = {"paper": (COLOURS[0], MARKERS[0]), "today": (COLOURS[1], MARKERS[3])}


_ALLOWED = "#cfe8dc"


def draw(ledger: Ledger) -> Figure:
    """Draw every claim as a line with a mark per basis, and the published value with its tolerance.

    Parameters
    ----------
    ledger : Ledger
        Claims with predictions.

    Returns
    -------
    matplotlib.figure.Figure
        Figure for :func:`inference_econ.report.questions.figures.save`.
    """
    groups = [(seed, list(members)) for seed, members in groupby(ledger.findings, lambda finding: finding.seed)]
    heights = [len(findings) * _ROW + _BETWEEN for _, findings in groups]
    with rc_context(STYLE):
        figure = Figure(figsize=(9.0, sum(heights) + _AROUND), layout="constrained")
        places = figure.subplots(len(groups), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (seed, findings) in zip(places, groups, strict=True):
            _group(axes, seed, findings)
        places[-1].set_xlabel("ours over the published number, or over its bound (of two: their geometric mean)")
        figure.legend(handles=_legend(), loc="outside lower center", ncols=2, fontsize=9)
    return figure


def _group(axes: Axes, seed: str, findings: Sequence[Finding]) -> None:
    for row, finding in enumerate(findings):
        reference = _reference(finding)
        low, high = _allowed(finding, reference)
        axes.barh(row, high - low, left=low, height=0.72, color=_ALLOWED, zorder=1)
        shares = {basis: ours / reference for basis, ours in finding.ours.items()}
        for basis, share in shares.items():
            _mark(axes, row, basis, share, holds=bool(finding.holds(basis)))
        _beyond(axes, row, list(shares.values()))
    axes.axvline(1.0, color="black", linewidth=0.8, zorder=2)
    axes.set_xscale("log")
    axes.set_xlim(1.0 / _END / 1.25, _END * 1.25)
    axes.set_ylim(len(findings) - 0.4, -0.6)
    axes.set_yticks(range(len(findings)), [finding.claim.id for finding in findings], fontsize=8.5)
    label_ticks(axes.xaxis, locator=FixedLocator(_TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_title(seed, loc="left", fontsize=10)


def _mark(axes: Axes, row: int, basis: Basis, share: float, *, holds: bool) -> None:
    """Draw the mark of a prediction: filled if the claim holds, and at the limit if the value is outside the axis."""
    colour, marker = _MARKS[basis]
    place = row - 0.13 if basis == "paper" else row + 0.13
    face = colour if holds else "white"
    axes.plot(_within_limits(share), place, marker, color=colour, markersize=5.5, markerfacecolor=face, zorder=3)


def _within_limits(share: float) -> float:
    return min(max(share, 1.0 / _END), _END)


def _beyond(axes: Axes, row: int, shares: Sequence[float]) -> None:
    """Draw the values of marks that are outside the axis."""
    for end, side, offset in ((_END, "right", -7), (1.0 / _END, "left", 7)):
        text = ", ".join(f"{share:.3g}" for share in shares if share != _within_limits(share) == end)
        axes.annotate(
            text, (end, row), xytext=(offset, 0), textcoords="offset points", ha=side, va="center", fontsize=7.5
        )


def _reference(finding: Finding) -> float:
    """Divisor of predictions: the published value, the only bound, or the geometric mean of two bounds."""
    low, high = finding.claim.published.bounds
    if math.isinf(high) or low == 0.0:
        return low or high
    return math.sqrt(low * high)


def _allowed(finding: Finding, reference: float) -> tuple[float, float]:
    """Range on the axis in which the claim holds."""
    low, high = finding.claim.published.bounds
    tolerance = max(finding.claim.tolerance, 0.01)
    below, above = low * (1.0 - tolerance) / reference, high * (1.0 + tolerance) / reference
    return max(below, 1.0 / _END / 1.25), min(above, _END * 1.25)


def _legend() -> list[Line2D | Patch]:
    marks = [
        Line2D([], [], linestyle="", marker=_MARKS[basis][1], color=_MARKS[basis][0], label=f"{basis}: under {name}")
        for basis, name in BASES.items()
    ]
    hollow = Line2D([], [], linestyle="", marker="o", color="black", markerfacecolor="white", label="does not hold")
    return [*marks, Patch(color=_ALLOWED, label="as published, give or take the tolerance"), hollow]
