"""Cost and other metrics against the speed of a user: pictures, and a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inference_econ._types import Array
from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.engine import Setup, bounds
from inference_econ.report import bands
from inference_econ.report.charts.plot import Plot, Series
from inference_econ.report.fields import Column, field
from inference_econ.report.metrics import AXES
from inference_econ.report.page import Pieces
from inference_econ.report.table import amount, chips_label, dollars, layout_label
from inference_econ.search import Frontier, Metric


def curve_line(
    label: str,
    axes: tuple[Array, Array],
    factors: bounds.Ends | None,
    details: Mapping[str, Sequence[float | str]] | None = None,
    y: Metric = "cost",
) -> Series:
    """Points that nothing beats as a line, and where measured values lie, unless factors are left out.

    Parameters
    ----------
    label : str
        Of the line.
    axes : tuple of ndarray, shape (n,) each
        Speeds of a user [tokens/s], and what is held against them in base units.
    factors : mapping or None
        From :func:`inference_econ.engine.bounds.ends` [1].
    details : mapping of str to sequence, optional
        What else is said of each point.
    y : str
        What is held against speed.
    """
    shown = AXES[y]
    speed, values = axes[0], axes[1] * shown.factor
    band = None
    if factors is not None and shown.field in factors:
        band = bands.around_curve(speed, values, factors, shown.field, cost=shown.good == "low")
    return Series(label, speed.tolist(), values.tolist(), band=band, details=details or {})


def speed_cost_chart(title: str, lines: Sequence[Series], setups: Sequence[Setup], y: Metric = "cost") -> Plot:
    """Lines of what is held against speed; of cost further right and down is better."""
    return Plot(
        title,
        "tokens per second per user",
        AXES[y].label,
        tuple(lines),
        logarithmic="y",
        bands=bands.bands_label(setups),
        from_zero=True,
        dollars="y" if AXES[y].dollars else "",
    )


def speed_question(y: Metric, of_cost: str) -> str:
    """The question that such a picture answers: the one of costs, or that of other metrics."""
    return of_cost if AXES[y].dollars else AXES[y].question


def metric_column(front: ServiceFrontier | Frontier, y: Metric, shown: Sequence[int]) -> list[Column]:
    """The column of a metric beside the cost and the size of some points; none where one of these says it."""
    if y in ("cost", "gpus", "mfu"):
        return []
    named = field(AXES[y].field, "frontier_point")
    return [(named.heading, [named.text(value) for value in front.metric(y)[list(shown)]])]


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
