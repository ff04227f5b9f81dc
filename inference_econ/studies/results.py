"""Results of scenarios, with their sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from inference_econ._answer import Shown
from inference_econ._types import Array
from inference_econ.engine import Setup, WholeLayouts, bounds
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.formulas import money, pareto
from inference_econ.inputs import Offer, OfferedPoints, Scenario, ScenarioColumn, Source, TableSpec, known_offers
from inference_econ.records.facts import bound, without_unknown_costs
from inference_econ.records.plain import Frame, attributes, finite_or_none, frame_of, records_of
from inference_econ.records.sources import UsedSource, source_records
from inference_econ.records.texts import dollars
from inference_econ.search import Frontier, Point
from inference_econ.studies.exhibits import Cell, CellTable, Chart, like

if TYPE_CHECKING:  # the published study needs no services
    from inference_econ.answers.assess import Assessment
    from inference_econ.answers.deployments.serving_frontier import ServiceFrontier, ServicePoint
    from inference_econ.answers.slo import Likely


@dataclass(frozen=True, slots=True)
class BesideSeries:
    """Speed and price of a hosted API, with the frontier to which it is compared."""

    series: str
    """Label of the frontier."""
    tokens_per_second: float
    """Speed of one user, measured by API clients [tokens/s]."""
    offer: Offer
    """Price and model of the API provider."""

    @property
    def source(self) -> UsedSource:
        """Source of the API's price and speed."""
        offer = self.offer
        source = Source.model_construct(ref=offer.source, where=offer.where, kind="measured")
        return UsedSource(f"offer: {offer.provider}, {offer.date}", offer.model_as_written, source)


def beside(points: Iterable[OfferedPoints], labels: Sequence[str]) -> tuple[BesideSeries, ...]:
    """Select the hosted APIs (offers) that a figure shows next to its frontiers.

    Parameters
    ----------
    points : iterable of OfferedPoints
        Model, day and excluded providers of the requested API offers.
    labels : sequence of str
        Labels of the available frontiers. Offers for other labels are left out.

    Returns
    -------
    tuple of BesideSeries
        API offers that are Pareto-optimal in measured speed and price for their model and day, the fastest first.

    Raises
    ------
    InputError
        If no API offer has the model and day with a measured speed, or if an excluded provider does not exist.
    """
    found = []
    for wanted in points:
        subject = wanted.model_as_written, wanted.date
        that_day = [offer for offer in known_offers() if (offer.model_as_written, offer.date) == subject]
        providers = dict.fromkeys(offer.provider for offer in that_day)
        odd = next((name for name in wanted.without if name not in providers), None)
        if odd is not None:
            known = ", ".join(providers) or "nobody"
            raise InputError(f"offers without {odd!r}: {known} offered {wanted.model_as_written!r} on {wanted.date}")
        fast = [
            (offer.tokens_per_second, offer)
            for offer in that_day
            if offer.tokens_per_second is not None and offer.provider not in wanted.without
        ]
        if not fast:
            raise InputError(
                f"no offer of {wanted.model_as_written!r} on {wanted.date} with a measured speed is known; "
                "scenarios/measured/offers.csv lists all"
            )
        prices = [offer.dollars_per_million_output_tokens for _, offer in fast]
        best = [fast[index] for index in pareto.undominated([1 / speed for speed, _ in fast], prices)]
        found += [BesideSeries(label, *offered) for label in wanted.series if label in labels for offered in best]
    return tuple(found)


#: Frontier of whole services (prefill and decode), or of decode steps alone.
AnyFrontier: TypeAlias = "ServiceFrontier | Frontier"


@dataclass(frozen=True, slots=True, repr=False)
class Curve:
    """Frontier with a label; its points are sorted by speed, the slowest first."""

    label: str
    """Label in the legend."""
    tokens_per_second: Array
    """Speed of one user at each point, shape (n,) [tokens/s]."""
    dollars: Array
    """Cost of each point [USD per 1e6 tokens]."""
    accelerators: Array
    """Number of GPUs in the instance at each point [GPUs]."""
    batch: Array
    """Batch at each point [1]."""
    frontier: AnyFrontier | None = None
    """Frontier of services or decode steps; None for the toy model."""
    sources: tuple[UsedSource, ...] = ()
    """Sources of the numbers."""

    def __repr__(self) -> str:
        """Label, number of points, first and last point."""
        points = f"{self.dollars.size} {'point' if self.dollars.size == 1 else 'points'}"
        (slow, cheap), (fast, dear) = ((self.tokens_per_second[end], self.dollars[end]) for end in (0, -1))
        return f"Curve({self.label!r}: {points}, {slow:.4g} tokens/s at ${cheap:.3g} to {fast:.4g} at ${dear:.3g})"

    @property
    def front(self) -> AnyFrontier:
        """Frontier of the curve; the toy model has none, so its curves raise an error."""
        assert self.frontier is not None
        return self.frontier

    @property
    def services(self) -> ServiceFrontier | None:
        """Frontier of whole services (prefill and decode); None for decode steps and for the toy model."""
        return None if isinstance(self.frontier, Frontier) else self.frontier

    @property
    def setups(self) -> list[Setup]:
        """Setup of the frontier; empty for the toy model."""
        return [] if self.frontier is None else [self.frontier.setup]

    @property
    def is_priced(self) -> bool:
        """True if the costs are known."""
        return all(setup.is_priced for setup in self.setups)

    @property
    def is_whole(self) -> bool:
        """True if instance sizes are integers.

        Points of the published study's grid have real-valued sizes and are not compared with measured servers.
        """
        front = self.frontier
        return isinstance(front.grid.layouts, WholeLayouts) if isinstance(front, Frontier) else front is not None

    def columns(self) -> dict[str, object]:
        """Return arrays of shape (n,) by column name; curves of services include latencies."""
        columns: dict[str, object] = {
            "tokens_per_second_per_user": self.tokens_per_second,
            "dollars_per_million_output_tokens": self.dollars,
            "accelerators": self.accelerators,
            "batch": self.batch,
        }
        if self.services is not None:
            columns |= attributes(self.services, "ttft_seconds tpot_seconds concurrency")
        return columns

    def bounded(self, columns: Mapping[str, object]) -> dict[str, object]:
        """Add the ends of the 80% intervals to the columns, if the curve has them."""
        if self.frontier is None or not self.is_whole:
            return dict(columns)
        return bounds.bounded(columns, self.frontier.ends())

    def records(self) -> list[dict[str, Any]]:
        """Return one record per point, for the data of a figure."""
        columns = {"series": self.label, **self.columns(), **bound(*self.setups)}
        return records_of(without_unknown_costs(self.bounded(columns), *self.setups))

    def index_of(self, spec: TableSpec) -> int:
        """Return the index of the frontier point that a table shows for this curve.

        Raises
        ------
        NothingFitsError
            If every point costs more than the cost limit of the table.
        """
        if spec.point == "preferred":
            return self.preferred_index(spec.exponent)
        cheap = np.flatnonzero(self.dollars <= (np.inf if spec.cost is None else spec.cost))
        if not cheap.size:
            raise NothingFitsError(
                f"{self.label}: nothing costs ${spec.cost:g} or less per million tokens; the least is "
                f"${dollars(float(self.dollars[0]))}"
            )
        return int(cheap[-1])

    def values(self, spec: TableSpec) -> dict[str, float]:
        """Return the numbers of the curve's table row by name, at the point that :meth:`index_of` selects."""
        index, front, services = self.index_of(spec), self.frontier, self.services
        values = {
            "tokens_per_second_per_user": float(self.tokens_per_second[index]),
            "dollars_per_million_output_tokens": float(self.dollars[index]),
            "accelerators": float(self.accelerators[index]),
            "batch": float(self.batch[index]),
            "milliseconds": 1e3 / float(self.tokens_per_second[index]),
        }
        if services is not None:
            waits = 1e3 * float(services.ttft_seconds[index])
            return {**values, "concurrency": float(services.concurrency[index]), "ttft_milliseconds": waits}
        return values if not isinstance(front, Frontier) else {**values, "mfu": float(front.mfu[index])}

    def row(self, spec: TableSpec) -> dict[str, object]:
        """Return the columns of the curve's table row, with the ends of their 80% intervals."""
        ours = self.values(spec)
        shown: dict[str, object] = {column.key: ours[column.key] for column in spec.columns}
        if self.frontier is None or not self.is_whole:
            return shown
        return bounds.bounded(shown, self.frontier.ends_each[self.index_of(spec)])

    def preferred_index(self, exponent: float) -> int:
        """Index of the point with the largest speed^exponent / cost (eq. 45 of Erdil, 2025)."""
        return int(np.argmax(money.preference(self.tokens_per_second, self.dollars, exponent)))

    def dollars_at(self, tokens_per_second: float) -> float | None:
        """Lowest cost with at least a user speed [USD per 1e6 tokens]; None if every point is slower."""
        likely = self.likely_at(tokens_per_second)
        if likely is not None or self.services is not None:
            return None if likely is None else likely.dollars
        as_fast = self.dollars[self.tokens_per_second >= tokens_per_second]
        return float(as_fast.min()) if as_fast.size and self.is_priced else None

    def fastest_at(self, dollars: float) -> ServicePoint | Point | None:
        """Fastest point for at most a cost [USD per 1e6 tokens]; None if every point costs more."""
        return self.frontier.fastest_at(dollars) if self.frontier is not None and self.is_priced else None

    def likely_at(self, tokens_per_second: float) -> Likely | None:
        """Lowest cost of services with at least a user speed, and its 80% interval [USD per 1e6 tokens]; else None."""
        if self.services is None or not self.is_priced:
            return None
        return self.services.at_speed(tokens_per_second)


@dataclass(frozen=True, slots=True)
class SquareRootLaw:
    """Published times per token, compared with times proportional to the square root of the parameter count."""

    labels: tuple[str, ...]
    """Names of the models."""
    parameters: Array
    """Number of parameters of each model, shape (n,) [1]."""
    measured: Array
    """Measured time per token of each model [s]."""
    predicted: Array
    """Time per token that the square-root law predicts [s]."""

    def records(self) -> list[dict[str, Any]]:
        """Return measured and predicted latencies, one record per model."""
        columns = {
            "model": self.labels,
            "parameters": self.parameters,
            "measured_seconds": self.measured,
            "square_root_law_seconds": self.predicted,
        }
        return records_of(columns)


class Study(Shown):
    """Result of a scenario that has its own view, and no curves or tables."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, repr=False)
class Result(Shown):
    """Result of a scenario, with its sources."""

    page = "report.questions.scenario:ScenarioPage"

    scenario: Scenario
    """Scenario that was run."""
    curves: tuple[Curve, ...] = ()
    """Frontiers of the scenario, each with its label."""
    offers: tuple[BesideSeries, ...] = ()
    """Hosted APIs, each with the frontier to which it is compared."""
    tables: tuple[CellTable, ...] = ()
    """Tables of results that have no frontiers."""
    charts: tuple[Chart, ...] = ()
    """Charts of results that have no frontiers."""
    comparison: SquareRootLaw | None = None
    """Published latencies, compared with the square-root law of the parameter count."""
    assessments: tuple[Assessment, ...] = ()
    """Comparisons of a measured deployment with predictions.

    The first comparison uses the assumptions of the measured deployment. All further comparisons use other assumptions.
    """
    panels: tuple[Result, ...] = ()
    """Results that are panels of one figure."""
    study: Study | None = None
    """Result of a scenario that has its own view; None for other scenarios."""
    sources: tuple[UsedSource, ...] = ()
    """Sources of the numbers."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Reason for each frontier without a feasible deployment, by label."""

    @property
    def displayed(self) -> Shown:
        """Result to display: :attr:`study` if the scenario has one, else this result."""
        return self.study or self

    @property
    def assessment(self) -> Assessment | None:
        """First comparison with a measured deployment; None without a comparison."""
        return next(iter(self.assessments), None)

    @property
    def setups(self) -> Sequence[Setup]:
        """Setups of the frontiers, or of the measured deployment."""
        if self.assessment is not None:
            return self.assessment.setups
        return [setup for curve in self.curves for setup in curve.setups]

    @property
    def about(self) -> str:
        """Name of the scenario."""
        return self.scenario.name

    @property
    def table(self) -> TableSpec:
        """Table of the scenario, or the default table."""
        if self.scenario.table is not None:
            return self.scenario.table
        services = any(curve.services is not None for curve in self.curves)
        columns = {
            "tokens_per_second_per_user": "tokens/s per user",
            "dollars_per_million_output_tokens": "$/M output tokens",
            "accelerators": "GPUs",
            **({"concurrency": "concurrency", "ttft_milliseconds": "TTFT ms"} if services else {"batch": "batch"}),
        }
        titled = tuple(ScenarioColumn.model_construct(key=key, title=title) for key, title in columns.items())
        return TableSpec.model_construct(point="preferred", columns=titled)

    @property
    def cells(self) -> list[Cell]:
        """Published cells of the scenario, each with the reproduced value."""
        spec = self.scenario.table
        item = self.scenario.name.lower().replace(" ", "_")
        if spec is None:
            return [cell for table in self.tables for cell in table.cells(item)]
        titles = {column.key: column.title for column in spec.columns}
        compared = []
        for curve in self.curves:
            ours = curve.values(spec)
            for key, printed in spec.printed.get(curve.label, {}).items():
                compared.append(Cell(item, curve.label, titles[key], printed, ours[key]))
        return compared

    @property
    def offer_records(self) -> list[dict[str, Any]]:
        """One record per hosted API, with the frontier's cost at the API's speed (None if every point is slower)."""
        curves = {curve.label: curve for curve in self.curves}
        return [
            {
                **beside.offer.model_dump(),
                "series": beside.series,
                "series_dollars_per_million_output_tokens": curves[beside.series].dollars_at(beside.tokens_per_second),
            }
            for beside in self.offers
        ]

    def record(self) -> dict[str, Any]:
        """Return the result as plain data: table rows, curves, published cells and sources."""
        record: dict[str, Any] = {"scenario": self.scenario.name, "description": self.scenario.description}
        if self.comparison is not None:
            record["rows"] = self.comparison.records()
        if self.curves:
            record["rows"] = [{"series": curve.label, **curve.row(self.table)} for curve in self.curves]
            record["assumptions"] = {
                curve.label: setup.assumptions.name for curve in self.curves for setup in curve.setups
            }
            record["curves"] = [
                {"series": curve.label}
                | {
                    name: None if value is None else [finite_or_none(number) for number in np.asarray(value).tolist()]
                    for name, value in curve.bounded(curve.columns()).items()
                }
                for curve in self.curves
            ]
        if self.offers:
            record["offers"] = self.offer_records
        if self.tables:
            record["tables"] = [table.record() for table in self.tables]
            record["charts"] = [chart.record() for chart in self.charts]
        if self.assessment is not None:
            record["assessment"] = self.assessment.record()
            record["verdicts"] = {item.setup.assumptions.name: item.verdict_record() for item in self.assessments}
        if self.panels:
            record["panels"] = [panel.record() for panel in self.panels]
        record["cells"] = [cell.record() for cell in self.cells]
        record["sources"] = source_records(self.sources)
        return record

    def records(self) -> list[dict[str, Any]]:
        """Return the numbers of the table or figure, one record per row."""
        if self.assessment is not None:
            return self.assessment.records()
        if self.tables:
            return [
                {"table": table.title, "row": row.label, "column": column, "ours": value}
                | {"printed": row.printed.get(column, "")}
                for table in self.tables
                for row in table.rows
                for column, value in zip(table.columns, row.values, strict=True)
            ]
        return self.lines() if self.curves and self.scenario.figure is None else self.drawn()

    def to_frame(self, *, drawn: bool = False) -> Frame:
        """Return a data frame of the numbers in the table or figure, or of the study's rows.

        Numbers are rounded to ten digits, because further digits differ between computers.

        Parameters
        ----------
        drawn : bool
            True to return the curves of the figure even if the scenario has a table.
        """
        if self.study is not None:
            return self.study.to_frame()
        if drawn:
            self.check_figure()
        frame = frame_of(self.drawn() if drawn else self.records())
        for name in frame.select_dtypes("float") if self.assessment is None else ():
            frame[name] = [f"{value:.10g}" if np.isfinite(value) else "" for value in frame[name]]
        return frame

    def lines(self) -> list[dict[str, str]]:
        """Return the table rows as texts by column; numbers have as many digits as in the publication."""
        lines = []
        for curve in self.curves:
            ours, printed = curve.values(self.table), self.table.printed.get(curve.label, {})
            cells = {column.title: like(ours[column.key], printed.get(column.key)) for column in self.table.columns}
            lines.append({"series": curve.label, **cells})
        return lines

    def check_figure(self) -> None:
        """Reject a result without curves, which has no figure.

        Raises
        ------
        InputError
            If the result has no curves.
        """
        if not (self.curves or self.charts or self.panels or self.assessments or self.comparison):
            raise InputError(f"{self.scenario.name}: the result has no figure. 'paper table' prints it.")

    def drawn(self) -> list[dict[str, Any]]:
        """Return one record per point of the figure: the points of the curves, then the hosted APIs."""
        if self.assessment is not None:
            return self.assessment.records()
        if self.charts:
            return [
                {"chart": chart.title, "series": line.label, chart.x_label: x, chart.y_label: y}
                for chart in self.charts
                for line in chart.lines
                for x, y in zip(line.x, line.y, strict=True)
            ]
        if self.panels:
            return [{"panel": panel.scenario.name, **row} for panel in self.panels for row in panel.drawn()]
        if self.comparison is not None:
            return self.comparison.records()
        offers = [
            {
                "series": beside.series,
                "tokens_per_second_per_user": beside.tokens_per_second,
                "dollars_per_million_output_tokens": beside.offer.dollars_per_million_output_tokens,
                "provider": beside.offer.provider,
                "date": beside.offer.date,
            }
            for beside in self.offers
        ]
        return [*(row for curve in self.curves for row in curve.records()), *offers]


#: Leading digits of round speeds for tables [tokens/s], and maximum number of round speeds [1].
_ROUND = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
_MOST = 5


def common_speeds(frontiers: Sequence[Array]) -> list[float]:
    """Round speeds in the range that API providers offer, limited to the range of the given frontiers.

    Parameters
    ----------
    frontiers : sequence of ndarray
        Speeds of the points of each frontier, ascending [tokens/s per user].

    Returns
    -------
    list of float
        A few round speeds, ascending [tokens/s per user]; only the fastest speed if no round speed is in range.

    Examples
    --------
    >>> common_speeds([np.array([14.0, 90.0]), np.array([20.0, 160.0])])
    [15.0, 30.0, 50.0, 70.0, 150.0]
    """
    from inference_econ.answers.deployments.serving_frontier import SLOWEST

    high = max(float(speeds[-1]) for speeds in frontiers)
    slowest = min(float(speeds[0]) for speeds in frontiers)
    # API providers do not offer slower speeds; they are shown only if no frontier is faster.
    low = max(slowest, 1.0 / SLOWEST) if high > 1.0 / SLOWEST else slowest
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    between = [speed for decade in decades for digit in _ROUND if low <= (speed := digit * 10.0**decade) <= high]
    if not between:
        return [high]
    chosen = np.linspace(0, len(between) - 1, min(_MOST, len(between))).round().astype(int)
    return [between[index] for index in np.unique(chosen)]
