"""Cost against the speed of a user: pictures, and a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inference_econ._types import Array
from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.engine import Setup, bounds
from inference_econ.report import bands
from inference_econ.report.charts.plot import Plot, Series
from inference_econ.report.page import Pieces
from inference_econ.report.table import amount, chips_label, dollars, layout_label
from inference_econ.search import Frontier


def curve_line(
    label: str,
    axes: tuple[Array, Array],
    factors: bounds.Ends | None,
    details: Mapping[str, Sequence[float | str]] | None = None,
) -> Series:
    """Points that nothing beats as a line, and where measured values lie, unless factors are left out.

    Parameters
    ----------
    label : str
        Of the line.
    axes : tuple of ndarray, shape (n,) each
        Speeds of a user [tokens/s] and costs [USD per 1e6 output tokens].
    factors : mapping or None
        From :func:`inference_econ.report.bounds.ends` [1].
    details : mapping of str to sequence, optional
        What else is said of each point.
    """
    speed, cost = axes
    name = "dollars_per_million_output_tokens"
    band = None if factors is None else bands.around_curve(speed, cost, factors, name)
    return Series(label, speed.tolist(), cost.tolist(), band=band, details=details or {})


def speed_cost_chart(title: str, lines: Sequence[Series], setups: Sequence[Setup]) -> Plot:
    """Lines of cost against speed: further right and down is better."""
    return Plot(
        title,
        "tokens per second per user",
        "US dollars per million output tokens",
        tuple(lines),
        logarithmic="y",
        bands=bands.bands_label(setups),
        from_zero=True,
        dollars="y",
    )


def costs_by_speed(front: ServiceFrontier | Frontier) -> Pieces:
    """Costs and speeds of both ends of a frontier and of its preferred point, as a sentence."""
    slowest, fastest, best = front.points()[0], front.fastest(), front.preferred()
    return (
        "From $", dollars(slowest.dollars_per_million_output_tokens), " per million output tokens at "
        f"{amount(slowest.tokens_per_second_per_user)} tokens/s per user to $",
        dollars(fastest.dollars_per_million_output_tokens), f" at {amount(fastest.tokens_per_second_per_user)}; the "
        f"largest speed³ / cost is {amount(best.tokens_per_second_per_user)} tokens/s at $",
        dollars(best.dollars_per_million_output_tokens),
        f", on {chips_label(best.accelerators)} ({layout_label(best.layout)}).",
    )  # fmt: skip
