"""Charts of cost and other metrics against user speed, with hover texts, sentences and the axes of all metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from inference_econ._named import named
from inference_econ._types import Array
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.engine import Setup, bounds
from inference_econ.engine.bounds import Factors
from inference_econ.errors import InputError
from inference_econ.formulas import money, pareto
from inference_econ.inputs.options import rows
from inference_econ.records.texts import ENGINE_NAMES, amount
from inference_econ.report import charts
from inference_econ.report.fields import Field, field
from inference_econ.report.notes import assumptions_label
from inference_econ.search import Choosable, Frontier, Metric

#: Function that finds measured servers similar to a line of a chart.
_SIMILAR_SERVERS = "extras.servers.accuracy:servers_like"


class MetricAxis(NamedTuple):
    """Metric that a chart can show on its y axis: a row of ``metrics.csv``."""

    field: str
    """Name in the glossary of fields."""
    label: str
    """Label of the axis, with the unit."""
    head: str
    """Title above the chart."""
    good: str
    """Better end of the axis: ``low`` or ``high`` values; empty if neither is better."""
    question: str
    """Question that a chart of the metric answers; empty for costs."""
    factor: float
    """Factor from base units to the displayed number [1]."""
    dollars: bool
    """True if the metric is proportional to the price of a GPU."""


#: Metrics by the names of ``--y``.
AXES: Mapping[Metric, MetricAxis] = {
    cast("Metric", row["name"]): MetricAxis._make(
        (*(row[name] for name in MetricAxis._fields[:-2]), float(row["factor"]), row["dollars"] == "yes")
    )
    for row in rows(Path(__file__).with_name("metrics.csv"))
}


def bands_label(setups: Iterable[Setup]) -> str:
    """Legend entry of the bands; it names the assumptions that define the errors."""
    names = ", ".join(dict.fromkeys(assumptions_label(setup.assumptions) for setup in setups))
    return f"{100 * bounds.LEVEL:.0f}% interval ({names})"


def around_curve(
    speed: npt.ArrayLike, metric: npt.ArrayLike, factors: bounds.Ends, name: str, *, cost: bool = True
) -> charts.Band | None:
    """Uncertainty band of a metric against user speed.

    The better edge combines higher speeds with better values of the metric. The worse edge combines lower speeds with
    worse values. Errors differ by engine, so shifted points may dominate each other. Each edge is therefore the best
    shifted value at a speed or above.

    Parameters
    ----------
    speed, metric : array_like, shape (n,)
        Values of the points, in any units.
    factors : mapping
        Factors of the interval ends from :func:`inference_econ.engine.bounds.ends` [1].
    name : str
        Name of the metric in ``factors``.
    cost : bool
        True if smaller values are better.

    Returns
    -------
    Band or None
        Uncertainty band; None without an error estimate.
    """
    (slow, fast), (low, high) = factors["tokens_per_second_per_user"], factors[name]
    if slow is None or fast is None or low is None or high is None:
        return None
    better, worse = (low, high) if cost else (high, low)
    x, y = np.asarray(speed), np.asarray(metric)
    return charts.Band(*_edge(x * fast, y * better, cost=cost), *_edge(x * slow, y * worse, cost=cost))


def _edge(x: Array, y: Array, *, cost: bool) -> tuple[list[float], list[float]]:
    """Edge of a band: speeds in ascending order, and the best value at each speed or above."""
    order = np.argsort(x, kind="stable")
    best = np.minimum if cost else np.maximum
    return x[order].tolist(), best.accumulate(y[order][::-1])[::-1].tolist()


def around_line(x: Sequence[float], y: Sequence[float], ends: bounds.Factors) -> charts.Band | None:
    """Uncertainty band above and below a line; None without an error estimate.

    At a point with an unknown upper end (NaN), the band extends to the highest value of the line and the band.
    """
    low, high = ends
    if low is None or high is None:
        return None
    at = np.asarray(y)
    top = at * high
    known = np.isfinite(at)
    highest = np.concatenate((at[known], top[np.isfinite(top)])).max(initial=0.0)
    return charts.Band(x, (at * low).tolist(), x, np.where(np.isnan(top) & known, highest, top).tolist())


#: Frontier of services, or of decode steps.
AnyFront = ServiceFrontier | Frontier


def field_of(y: Metric) -> Field:
    """Glossary entry of the result field that a metric shows."""
    return field(AXES[y].field, "frontier_point")


def curve_line(
    label: str,
    front: AnyFront,
    details: Mapping[str, Sequence[float | str | None]],
    y: Metric,
    *,
    band: bool = True,
) -> charts.PlotSeries:
    """Line through the Pareto-optimal points, with the band of measured values.

    The band of a cost of services shows the error of the cost at each speed. All other bands combine the errors of
    speed and metric.

    Parameters
    ----------
    label : str
        Label of the line.
    front : Frontier or ServiceFrontier
        Points.
    details : mapping of str to sequence
        Further hover texts of each point.
    y : str
        Metric on the y axis.
    band : bool
        True to draw the band.
    """
    shown = AXES[y]
    speed, values, around = front.tokens_per_second, front.metric(y) * shown.factor, None
    factors = front.ends() if band else {}
    if shown.field in factors and isinstance(front, ServiceFrontier) and shown.dollars:
        around = around_line(speed.tolist(), values.tolist(), factors[shown.field])
    elif shown.field in factors:
        around = around_curve(speed, values, factors, shown.field, cost=shown.good == "low")
    return charts.PlotSeries(label, speed.tolist(), values.tolist(), band=around, details=details)


def speed_cost_chart(title: str, lines: Sequence[charts.PlotSeries], setups: Sequence[Setup], y: Metric) -> charts.Plot:
    """Chart of a metric against speed, one line per frontier. For cost, points to the right and below are better."""
    return charts.Plot(
        title,
        "tokens per second per user",
        AXES[y].label,
        tuple(lines),
        logarithmic="y",
        bands=bands_label(setups),
        from_zero=True,
        dollars="y" if AXES[y].dollars else "",
    )


def between(value: float, factors: Factors) -> str:
    """Format a value, with its 80% interval if the interval is known.

    Examples
    --------
    >>> between(20.0, (0.9, 1.2)), between(20.0, (None, None))
    ('20.0 (18.0 to 24.0)', '20.0')
    """
    low, high = factors
    if low is None or high is None:
        return amount(value)
    return f"{amount(value)} ({amount(value * float(low))} to {amount(value * float(high))})"


def summary_notes(front: Choosable[Any]) -> tuple[str, ...]:
    """Note with a formula that approximates a frontier; empty if the frontier has too few points."""
    try:
        summary = front.summary()
    except InputError:
        return ()
    slow, top, exponent = summary.slow_dollars, summary.top_tokens_per_second, summary.exponent
    if summary.has_top:
        curve = f"{slow:#.3g} (1 - x / {top:.4g})^-{exponent:#.3g}"
    else:
        curve = f"{slow:#.3g} exp(x / {top / exponent:.4g})"
    between = f"{summary.slowest_tokens_per_second:.3g} to {summary.fastest_tokens_per_second:.3g}"
    errors = f"typical error of {100 * summary.typical_error:.2g}% (largest {100 * summary.largest_error:.2g}%)"
    return (
        f"At x tokens/s, this formula approximates the lowest cost per million output tokens: ${curve}. The formula "
        f"is valid for x from {between}, with a {errors}.",
    )


class SimilarServer(NamedTuple):
    """Speed and cost of a measured server."""

    engine: str
    """Name of the server's engine."""
    dataset: str
    """Name of the file that contains the measurement."""
    tokens_per_second_per_user: float
    """Output speed of one user, 1 / TPOT [tokens/s]."""
    tokens_per_second_per_accelerator: float
    """Output tokens per GPU, measured or computed by Little's law from concurrency and latencies [tokens/s]."""


def measured_lines(fronts: Mapping[str, AnyFront], y: Metric) -> list[charts.PlotSeries]:
    """Points of the best measured servers that are similar to the frontiers in a chart.

    Each engine and frontier has separate points.

    Servers are left out if another server has both higher speed and lower cost.
    """
    like: list[tuple[str, AnyFront, list[SimilarServer]]] = []
    for label, front in fronts.items():
        # Only servers without speculation and caching are compared, at the request lengths of the frontier.
        lengths: tuple[float | None, float | None] = (None, None)
        if isinstance(front, ServiceFrontier):
            if not front.requests.cached and any(candidate.speculation is None for candidate in front.candidates):
                lengths = front.requests.isl.mean, front.requests.osl.mean
        elif front.traffic is not None and front.speculation is None:
            lengths = front.traffic.isl, front.traffic.osl
        if None not in lengths:
            servers = named(_SIMILAR_SERVERS)(front.setup, *lengths)
            seconds = [1.0 / server.tokens_per_second_per_user for server in servers]
            chips = [1.0 / server.tokens_per_second_per_accelerator for server in servers]
            like.append((label, front, [servers[index] for index in pareto.undominated(seconds, chips)]))
    files: dict[str, dict[str, None]] = {}
    for server in (server for _, _, servers in like for server in servers):
        files.setdefault(server.engine, {})[server.dataset] = None
    lines = []
    # Measured servers include prefill; decode steps do not.
    counted = "" if any(isinstance(front, ServiceFrontier) for front in fronts.values()) else ", with prefill"
    for engine, datasets in files.items():
        shown = ENGINE_NAMES.get(engine, engine) or "engine not recorded"
        name = f"best measured: {shown} ({', '.join(datasets)}){counted}"
        for label, front, servers in like:
            chosen = [server for server in servers if server.engine == engine]
            speeds = [server.tokens_per_second_per_user for server in chosen]
            if chosen:
                values = [measured_metric(front, y, server) * AXES[y].factor for server in chosen]
                lines.append(charts.PlotSeries(name, speeds, values, points=True, beside=label))
    return lines


def measured_metric(front: AnyFront, y: Metric, server: SimilarServer) -> float:
    """Metric of a measured server at the GPU price and GPU power of a frontier.

    The metrics except cost are proportional, or inversely proportional, to tokens per second and GPU.
    """
    per_accelerator = server.tokens_per_second_per_accelerator
    if y == "cost":
        price = front.setup.dollars_per_accelerator_hour
        return float(money.dollars_per_million_tokens(1.0, 1.0, per_accelerator, price))
    assert isinstance(front, ServiceFrontier)
    more = per_accelerator / float(front.tokens_per_second_per_accelerator[0])
    first = float(front.metric(y)[0])
    return first / more if AXES[y].good == "low" else first * more
