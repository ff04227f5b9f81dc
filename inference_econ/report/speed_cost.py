"""Pictures of cost against the speed of a user."""

from __future__ import annotations

from collections.abc import Sequence

from inference_econ._types import Array
from inference_econ.engine import Setup
from inference_econ.report import bands, caveats
from inference_econ.studies.exhibits import Chart, Line


def curve_line(label: str, axes: tuple[Array, Array], factors: caveats.Ends | None) -> Line:
    """Points that nothing beats as a line, and where measured values lie, unless factors are left out.

    Parameters
    ----------
    label : str
        Of the line.
    axes : tuple of ndarray, shape (n,) each
        Speeds of a user [tokens/s] and costs [USD per 1e6 output tokens].
    factors : mapping or None
        From :func:`inference_econ.report.caveats.ends` [1].
    """
    speed, cost = axes
    name = "dollars_per_million_output_tokens"
    band = None if factors is None else bands.around_curve(speed, cost, factors, name)
    return Line(label, speed.tolist(), cost.tolist(), band=band)


def speed_cost_chart(title: str, lines: Sequence[Line], setups: Sequence[Setup]) -> Chart:
    """Lines of cost against speed: further right and down is better."""
    return Chart(
        title,
        "tokens per second per user",
        "US dollars per million output tokens",
        tuple(lines),
        logarithmic="y",
        bands=bands.bands_label(setups),
        from_zero=True,
        dollars="y",
    )
