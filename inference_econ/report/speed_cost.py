"""Cost and other metrics against the speed of a user: pictures with their texts of hovering, and sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from inference_econ._named import named
from inference_econ._types import Array
from inference_econ.answers import notes
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier, ServicePoint
from inference_econ.answers.notes import doubts, frontiers_title, grounds, saving_note
from inference_econ.engine import Setup, bounds
from inference_econ.engine.bounds import Factors
from inference_econ.errors import InputError
from inference_econ.formulas import money
from inference_econ.records.deviations import SERVED
from inference_econ.records.texts import ENGINE_NAMES, amount, chips_label, dollars, layout_label
from inference_econ.report.charts.plot import Band, Plot, PlotSeries
from inference_econ.report.fields import Column, Field, Record, column, field, view
from inference_econ.report.metrics import AXES
from inference_econ.report.page import AnswerPage, Block, Pieces, Sketch, Table, remarks, warnings
from inference_econ.report.service import with_engines
from inference_econ.search import Choosable, Frontier, FrontierSummary, Metric, Point

#: With more lines their bands would lie over each other.
_MOST = 4

#: Function that finds measured servers like a line of a picture.
_SIMILAR_SERVERS = "extras.servers.similar_servers:servers_like"


def bands_label(setups: Iterable[Setup]) -> str:
    """Entry of bands in a legend, with the assumptions whose errors they are."""
    names = ", ".join(dict.fromkeys(notes.name_of(setup.assumptions) for setup in setups))
    return f"{100 * bounds.LEVEL:.0f} % of measured values ({names})"


def are_shown(lines: int) -> bool:
    """Return whether so many lines can have bands that are told apart."""
    return lines <= _MOST


def around_curve(
    speed: npt.ArrayLike, metric: npt.ArrayLike, factors: bounds.Ends, name: str, *, cost: bool = True
) -> Band | None:
    """A band around what is held against the speed of a user: from faster and better to slower and worse.

    Errors differ by engine, so that a point which is moved may be beaten by another: either edge is what the best of
    the moved points reaches at a speed or above.

    Parameters
    ----------
    speed, metric : array_like, shape (n,)
        Of the points; any units.
    factors : mapping
        From :func:`inference_econ.report.bounds.ends` [1].
    name : str
        Of the metric among them.
    cost : bool
        Less of the metric is better.

    Returns
    -------
    Band or None
        None where nobody knows the errors.
    """
    (slow, fast), (low, high) = factors["tokens_per_second_per_user"], factors[name]
    if slow is None or fast is None or low is None or high is None:
        return None
    better, worse = (low, high) if cost else (high, low)
    x, y = np.asarray(speed), np.asarray(metric)
    return Band(*_edge(x * fast, y * better, cost=cost), *_edge(x * slow, y * worse, cost=cost))


def _edge(x: Array, y: Array, *, cost: bool) -> tuple[list[float], list[float]]:
    """Speeds in order, and the best value at each of them or above."""
    order = np.argsort(x, kind="stable")
    best = np.minimum if cost else np.maximum
    return x[order].tolist(), best.accumulate(y[order][::-1])[::-1].tolist()


def around_line(x: Sequence[float], y: Sequence[float], ends: bounds.Factors) -> Band | None:
    """A band above and below a line; None where nobody knows the errors."""
    low, high = ends
    if low is None or high is None:
        return None
    at = np.asarray(y)
    return Band(x, (at * low).tolist(), x, (at * high).tolist())


Front = TypeVar("Front", ServiceFrontier, Frontier)
AnyFront = ServiceFrontier | Frontier
#: Points of a frontier that tables show beside the preferred one at most [1].
_SHOWN = 14


@dataclass(frozen=True)
class CurvePage(AnswerPage[Front]):
    """Page of a frontier, whether its points are services or decode steps."""

    y: Metric = "cost"
    """Metric over speed."""

    def setups(self) -> Sequence[Setup]:
        """Setup of the preferred point."""
        return [self.answer.setup]

    def blocks(self) -> Sequence[Block]:
        """The tables, and the frontier drawn with characters."""
        speed, metric = self.answer.tokens_per_second.tolist(), self.answer.metric(self.y).tolist()
        return (*self.tables(), Sketch(speed, metric, "tokens/s per user", _field_of(self.y).heading))

    def conclusion(self) -> Pieces:
        """Ends of the frontier and its preferred point."""
        front = self.answer
        slowest, fastest, best = front.points()[0], front.fastest(), front.preferred()
        return (
            "From $", dollars(slowest.dollars_per_million_output_tokens), " per million output tokens at "
            f"{amount(slowest.tokens_per_second_per_user)} tokens/s per user to $",
            dollars(fastest.dollars_per_million_output_tokens), f" at {amount(fastest.tokens_per_second_per_user)}; "
            f"the largest speed³ / cost is {amount(best.tokens_per_second_per_user)} tokens/s at $",
            dollars(best.dollars_per_million_output_tokens),
            f", on {chips_label(best.accelerators)} ({layout_label(best.layout)}).",
        )  # fmt: skip


def some_points(front: AnyFront) -> list[int]:
    """Indices of the points that a table shows, evenly spaced in speed, the preferred one among them."""
    speed = front.tokens_per_second
    nearest = {int(np.argmin(np.abs(speed - value))) for value in np.linspace(speed[0], speed[-1], _SHOWN)}
    return sorted(nearest | {front.preferred_index()})


def points_table(
    front: AnyFront,
    y: Metric,
    columns: Sequence[str],
    *,
    counted: str = "",
    basis: Sequence[str],
    least: Sequence[str],
) -> Table:
    """A frontier for people: some points, evenly spaced in speed.

    Parameters
    ----------
    front : Frontier or ServiceFrontier
        The frontier.
    y : str
        What is held against speed.
    columns : sequence of str
        Columns behind those of speed and cost.
    counted : str
        What is said of the bill above all.
    basis : sequence of str
        What is said first of the basis of the numbers.
    least : sequence of str
        Columns that a narrow terminal does without.

    Raises
    ------
    InputError
        If it takes watts, and the hardware file has none.
    """
    services, shown = isinstance(front, ServiceFrontier), some_points(front)
    setups: Sequence[Setup] = front.setups if isinstance(front, ServiceFrontier) else (front.setup,)
    # A note or a refusal has said that the model was not made for requests so long.
    lengths_told = isinstance(front, ServiceFrontier) or (front.traffic is not None and front.traffic.isl is not None)
    points: Sequence[Any] = front.points(shown)
    records, subjects = [point.record() for point in points], front.subjects(points)
    table = view(
        frontiers_title([front]),
        records,
        (*speed_columns(front, y, shown, records), *columns),
        kind="frontier_point",
        notes=(
            *saving_note(front.saving),
            f"{len(shown)} of {len(front)} points; * maximises speed^3 / cost.{counted}",
            *doubts(setups, subjects),
            *warnings(front.setup, lengths_told=lengths_told),
        ),
        why=(
            *basis,
            *summary_notes(front),
            *grounds(setups, subjects, SERVED if services else ("tpot",)),
            *remarks(front.setup),
        ),
        least=least,
    )
    return with_engines(table, [point.layout for point in points], setups)


def preferred_point(front: AnyFront, y: Metric) -> PlotSeries:
    """The preferred point of a frontier, to be drawn."""
    best = front.preferred_index()
    value = float(front.metric(y)[best] * AXES[y].factor)
    return PlotSeries("largest speed³ / cost", [float(front.tokens_per_second[best])], [value], points=True)


def _field_of(y: Metric) -> Field:
    return field(AXES[y].field, "frontier_point")


def curve_line(
    label: str,
    axes: tuple[Array, Array],
    factors: bounds.Ends | None,
    details: Mapping[str, Sequence[float | str]] | None = None,
    y: Metric = "cost",
) -> PlotSeries:
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
        band = around_curve(speed, values, factors, shown.field, cost=shown.good == "low")
    return PlotSeries(label, speed.tolist(), values.tolist(), band=band, details=details or {})


def speed_cost_chart(title: str, lines: Sequence[PlotSeries], setups: Sequence[Setup], y: Metric = "cost") -> Plot:
    """Lines of what is held against speed; of cost further right and down is better."""
    return Plot(
        title,
        "tokens per second per user",
        AXES[y].label,
        tuple(lines),
        logarithmic="y",
        bands=bands_label(setups),
        from_zero=True,
        dollars="y" if AXES[y].dollars else "",
    )


def speed_question(y: Metric, of_cost: str) -> str:
    """The question that such a picture answers: the one of costs, or that of other metrics."""
    return of_cost if AXES[y].dollars else AXES[y].question


def speed_columns(front: AnyFront, y: Metric, shown: Sequence[int], records: Sequence[Record]) -> list[Column]:
    """Columns that tables of frontiers begin with: speeds, the preferred one marked, costs, and another metric.

    Parameters
    ----------
    front : Frontier or ServiceFrontier
        The frontier.
    y : str
        What is held against speed, which has a column of its own where no other column says it.
    shown : sequence of int
        Indices of points.
    records : sequence of mapping
        Their records.
    """
    best, metric = shown.index(front.preferred_index()), _field_of(y)
    head, cells = column(records, "tokens_per_second_per_user")
    speeds = head, [f"{cell}{' *' if row == best else ''}" for row, cell in enumerate(cells)]
    values = [metric.text(value) for value in front.metric(y)[list(shown)]]
    further: list[Column] = [] if y in ("cost", "gpus", "mfu") else [(metric.heading, values)]
    return [speeds, "dollars_per_million_output_tokens", *further]


def deployed(points: Sequence[ServicePoint | Point]) -> dict[str, list[float | str]]:
    """The deployment of each point: its layout, its size, and the engines that can start it where that is known."""
    details: dict[str, list[float | str]] = {
        "layout": [layout_label(point.layout) for point in points],
        "GPUs": [point.accelerators for point in points],
    }
    if any("engine" in point.layout for point in points):
        details["engine"] = [str(point.layout.get("engine", "")) for point in points]
    return details


def between(value: float, factors: Factors) -> str:
    """A value and where measured ones probably lie, if that is known.

    Examples
    --------
    >>> between(20.0, (0.9, 1.2)), between(20.0, (None, None))
    ('20.0 (18.0 to 24.0)', '20.0')
    """
    low, high = factors
    if low is None or high is None:
        return amount(value)
    return f"{amount(value)} ({amount(value * float(low))} to {amount(value * float(high))})"


def priced(costs: Sequence[float] | Array, factors: Factors) -> dict[str, list[float | str]]:
    """Costs and where measured ones probably lie, as numbers: what is proportional to the price of a chip.

    Parameters
    ----------
    costs : sequence of float
        [USD per 1e6 output tokens].
    factors : tuple of float, ndarray or None
        To the ends, of all or of each [1].
    """
    (low, high), prices = factors, np.asarray(costs)
    named: dict[str, list[float | str]] = {"$/M output": prices.tolist()}
    if low is not None and high is not None:
        named |= {"$/M low": (prices * low).tolist(), "$/M high": (prices * high).tolist()}
    return named


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


def _summary(front: Choosable[Any]) -> FrontierSummary | None:
    try:
        return front.summary()
    except InputError:
        return None


class SimilarServer(NamedTuple):
    """Speed and cost of a measured server."""

    engine: str
    """Engine of the server."""
    dataset: str
    """File of the measurement."""
    tokens_per_second_per_user: float
    """Inverse of the TPOT [tokens/s]."""
    tokens_per_second_per_accelerator: float
    """Output tokens: as measured, or by Little's law from concurrency and latencies [tokens/s]."""


class MeasuredLine(NamedTuple):
    """A line of a picture that measured servers may be like."""

    label: str
    """Label of the line."""
    setup: Setup
    """Model, GPU and formats. The servers are the same under all assumptions."""
    lengths: tuple[float, float]
    """Mean input and output tokens of requests [tokens]."""

    def dollars_per_million_output_tokens(self, server: SimilarServer) -> float:
        """The whole bill over output tokens, at the price of the line [USD per 1e6 tokens]."""
        price = self.setup.dollars_per_accelerator_hour
        return float(money.dollars_per_million_tokens(1.0, 1.0, server.tokens_per_second_per_accelerator, price))


def measured_lines(
    drawn: Sequence[MeasuredLine], metric: Callable[[MeasuredLine, SimilarServer], float], counted: str = ""
) -> list[PlotSeries]:
    """Measured servers that lines of a picture are about: points for each engine and line.

    Parameters
    ----------
    drawn : sequence of Drawn
        The lines.
    metric : callable
        What is held against the speed of a user.
    counted : str
        What the metric of a server counts and that of a line does not, for the legend.
    """
    like = [(line, named(_SIMILAR_SERVERS)(line.setup, *line.lengths)) for line in drawn]
    files: dict[str, dict[str, None]] = {}
    for server in (server for _, servers in like for server in servers):
        files.setdefault(server.engine, {})[server.dataset] = None
    lines = []
    for engine, datasets in files.items():
        label = (
            f"measured: {ENGINE_NAMES.get(engine, engine) or 'engine not recorded'} ({', '.join(datasets)}){counted}"
        )
        for line, servers in like:
            chosen = [server for server in servers if server.engine == engine]
            speeds = [server.tokens_per_second_per_user for server in chosen]
            if chosen:
                values = [metric(line, server) for server in chosen]
                lines.append(PlotSeries(label, speeds, values, points=True, beside=line.label))
    return lines
