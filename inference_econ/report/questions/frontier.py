"""Page of a frontier of services or decode steps: tables, records, rows and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from inference_econ.answers.deployments.serving_frontier import ServiceFrontier, token_parts
from inference_econ.engine import Instances, Setup, key_degrees
from inference_econ.inputs import Quantity
from inference_econ.records.deviations import SERVED
from inference_econ.records.plain import finite_or_none
from inference_econ.records.texts import PART_NAMES, assumptions_label, layout_label
from inference_econ.report import charts, notes, speed_cost
from inference_econ.report.fields import Column, column, shows_intervals, view
from inference_econ.report.headings import frontiers_title
from inference_econ.report.page import AnswerPage, Block, Sketch, Table
from inference_econ.report.service import pools_meaning, with_engines, with_recipes
from inference_econ.report.speed_cost import AXES, AnyFront, between
from inference_econ.search import Frontier, Metric

if TYPE_CHECKING:
    from inference_econ.answers.launching.plan import Start

#: Note on the points of decode steps.
DECODED = "Costs cover decode steps only; prefill is excluded."
#: Note on the points of services.
COUNTED = "Costs include prefill. Latencies exclude queueing; for queueing, see 'load'."
#: Long form of the note on the points of services.
MEANS = (
    "Costs, TTFT and TPOT include the prefill of all requests. Latencies are means at constant concurrency, without "
    "queueing; 'inference-econ load' includes queueing."
)
#: Maximum number of points in a table, in addition to the preferred point [1].
_SHOWN = 14


@dataclass(frozen=True)
class FrontierPage(AnswerPage[AnyFront]):
    """Page that shows a frontier of services or of decode steps."""

    y: Metric = "cost"
    """Metric on the y axis of the chart."""

    def setups(self) -> Sequence[Setup]:
        """Setup of the preferred point."""
        return [self.answer.setup]

    def tables(self) -> Sequence[Table]:
        """Table of some points of the frontier."""
        return (frontier_table(self.answer, self.y),)

    def blocks(self) -> Sequence[Block]:
        """Tables of the frontier, and the frontier as a plot of characters."""
        speed, metric = self.answer.tokens_per_second.tolist(), self.answer.metric(self.y).tolist()
        return (*self.tables(), Sketch(speed, metric, "tokens/s per user", speed_cost.field_of(self.y).heading))

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Chart of a metric against speed, with the step of the clicked point.

        The page of a frontier of services also has a chart of the TTFT.
        """
        front = self.answer
        of_cost = f"What do{' services' if isinstance(front, ServiceFrontier) else 'es decoding'} cost at each speed?"
        title = f"{AXES[self.y].question or of_cost}\n{frontiers_title([front])}"
        # Parts of the time per token of every point; empty for services with speculation.
        if isinstance(front, ServiceFrontier):
            parts = {PART_NAMES[name]: (1e3 * seconds).tolist() for name, seconds in token_parts(front).items()}
        else:
            points = front.points()
            names = dict.fromkeys(name for point in points for name in point.parts)
            parts = {PART_NAMES[name]: [1e3 * point.parts.get(name, 0.0) for point in points] for name in names}
        chart = charts.frontier_chart(frontier_charts(front, self.y), title, parts, front.preferred_index())
        return {"frontier": chart}

    def start(self) -> Start | None:
        """Preferred point of a frontier of services at its constant concurrency; None for decode steps."""
        front, best = self.answer, self.answer.preferred_index()
        if isinstance(front, Frontier):
            return None
        from inference_econ.answers.launching.plan import OfferedLoad, PlanPart, Start
        from inference_econ.report.deployment_reader import expected_in_flight, parts_of_pools, refuse_chain

        record, layout = next(islice(front.bounded_points(), best, None))
        candidate, concurrency = front.candidate(best), OfferedLoad(concurrency=max(1, round(front.concurrency[best])))
        if candidate.pools is None:
            parts = [PlanPart(candidate.services.service(int(front.rows[best])), 1)]
        else:
            refuse_chain("chain" in str(layout["prefill"]))
            reading = key_degrees(str(layout["prefill"])), round(float(layout["prefill_instances"]))
            writing = layout, round(float(layout["decode_instances"]))
            parts = parts_of_pools(candidate.pools.pools, reading, writing, float(front.batch[best]))
        return Start(parts, concurrency, expected_in_flight(record), "the point of the largest speed^3 / cost")


def frontier_table(front: AnyFront, y: Metric) -> Table:
    """Table of some points of a frontier, evenly spaced in speed.

    Raises
    ------
    InputError
        If the metric needs power data, and the GPU has none.
    """
    speed, best = front.tokens_per_second, front.preferred_index()
    nearest = {int(np.argmin(np.abs(speed - value))) for value in np.linspace(speed[0], speed[-1], _SHOWN)}
    shown = sorted(nearest | {best})
    points: Sequence[Any] = front.points(shown)
    records, subjects = [point.record() for point in points], front.subjects(points)
    if isinstance(front, ServiceFrontier) and shows_intervals():
        bounded = [record for record, _ in front.bounded_points()]
        records = [bounded[index] for index in shown]
    head, cells = column(records, "tokens_per_second_per_user")
    first: list[Column] = [(head, [f"{cell}{' *' * (row == best)}" for row, cell in zip(shown, cells, strict=True)])]
    first.append("dollars_per_million_output_tokens")
    if y not in ("cost", "gpus", "mfu"):
        metric = speed_cost.field_of(y)
        first.append((metric.heading, [metric.text(value) for value in front.metric(y)[shown]]))
    columns: Sequence[str] = ("accelerators", "layout", "batch", "mfu", "bandwidth_utilization", "limited_by")
    least: Sequence[str] = ("mfu", "bandwidth_utilization", "limited_by", "engine", "batch")
    setups: Sequence[Setup] = (front.setup,)
    predicted: Sequence[Quantity] = ("tpot",)
    counted = ""
    basis = [f"{DECODED} Assumptions: {front.setup.assumptions.name}."]
    if isinstance(front, ServiceFrontier):
        columns = ("ttft_seconds", "tpot_seconds", "accelerators", "layout", "concurrency", "evidence")
        records = [{**record, "evidence": point.evidence.text} for record, point in zip(records, points, strict=True)]
        if any(point.aggregated_dollars_per_million_output_tokens is not None for point in points):
            first.append("aggregated_dollars_per_million_output_tokens")
        least, setups, counted, predicted = ("concurrency", "tpot_seconds"), front.setups, f" {COUNTED}", SERVED
        disaggregated = any("prefill" in point.layout for point in points)
        basis = [*pools_meaning(disaggregated), f"{MEANS} Assumptions: {assumptions_label(front.setups)}."]
    elif any(point.layout["dp"] != 1.0 for point in points):
        basis.append(
            "With dp, each of the dp groups of tp GPUs computes the attention of its own sequences. Feed-forward "
            "blocks are sharded over all tp x dp GPUs. Experts are distributed over ep ranks; each rank shards its "
            "experts over its GPUs."
        )
    table = view(
        frontiers_title([front]),
        records,
        (*first, *columns),
        kind="frontier_point",
        notes=(
            *notes.unused_drafts(subjects),
            *notes.saving_note(front.saving),
            *(notes.one_gpu_notes(front.setup) if min(front.accelerators) > 1 else ()),
            *notes.doubts(setups, subjects),
            *notes.setup_warnings(front.setup),
            f"* marks the point that maximizes speed^3 / cost.{counted}",
        ),
        why=(
            f"The table shows {len(shown)} of {len(front)} points.",
            *basis,
            *speed_cost.summary_notes(front),
            *notes.grounds(setups, subjects, predicted),
            *notes.unit_notes(front.setup),
        ),
        least=least,
    )
    table = with_engines(table, [point.layout for point in points], setups)
    return with_recipes(table, [point.recipe for point in points]) if isinstance(front, ServiceFrontier) else table


def frontier_charts(front: AnyFront, y: Metric = "cost") -> list[charts.Plot]:
    """Chart of a metric against speed, with measured servers; for services, also a chart of the TTFT."""
    best, factor, details = front.preferred_index(), AXES[y].factor, point_details(front)
    speed, metric, services = front.tokens_per_second, front.metric(y), isinstance(front, ServiceFrontier)
    name = f"Pareto frontier of {'services' if services else 'decode steps'}"
    line = speed_cost.curve_line(name, front, details, y)
    preferred = charts.PlotSeries(
        "largest speed³ / cost", [float(speed[best])], [float(metric[best] * factor)], points=True
    )
    shown: Sequence[Any] = front.points()
    apart = [index for index, point in enumerate(shown) if "prefill" in point.layout]
    groups = charts.PlotSeries(
        "disaggregated points",
        [float(speed[index]) for index in apart],
        [float(metric[index] * factor) for index in apart],
        points=True,
        beside=name,
        details={key: [values[index] for index in apart] for key, values in details.items()},
    )
    # Mark disaggregated points only if the frontier also has aggregated points.
    marked = [groups] if 0 < len(apart) < len(front) else []
    # The power of measured servers is not recorded, so the chart of a power metric shows no servers.
    comparable = AXES[y].good and y != "joules" if services else y == "cost"
    measured = speed_cost.measured_lines({name: front} if comparable else {}, y)
    head = AXES[y].head
    if y == "cost":
        head = f"{head}, prefill included" if services else "Cost of decode steps"
    plots = [speed_cost.speed_cost_chart(head, (line, preferred, *measured, *marked), [front.setup], y)]
    if isinstance(front, ServiceFrontier):
        ttft = (1e3 * front.ttft_seconds).tolist()
        waits = charts.PlotSeries("TTFT of its points", speed.tolist(), ttft, points=True, beside=name, details=details)
        label = "tokens per second per user"
        plots.append(charts.Plot("Time to first token", label, "milliseconds", (waits,), "y", from_zero=True))
    return plots


def point_details(front: AnyFront) -> dict[str, list[float | str | None]]:
    """Hover texts of each point by heading: deployment, latencies and cost, with 80% intervals."""
    points: Sequence[Any] = front.points()
    details: dict[str, list[float | str | None]] = {
        "layout": [layout_label(point.layout) for point in points],
        "GPUs": [point.accelerators for point in points],
    }
    if any("engine" in point.layout for point in points):
        details["engine"] = [str(point.layout.get("engine", "")) for point in points]
    if isinstance(front, ServiceFrontier):
        both = list(zip(points, front.ends_each, strict=True))
        details |= {
            "recipe": [point.recipe for point in points],
            "concurrency": [point.concurrency for point in points],
            "batch": [point.batch for point in points],
            "TTFT ms": [between(1e3 * point.ttft_seconds, end["ttft_seconds"]) for point, end in both],
            "TPOT ms": [between(1e3 * point.tpot_seconds, end["tpot_seconds"]) for point, end in both],
        }
    else:
        off = front.ends()["milliseconds"]
        details["batch"] = [point.batch for point in points]
        details["TPOT ms"] = [between(1e3 / point.tokens_per_second_per_user, off) for point in points]
    # Costs stay numbers, because they are proportional to the price of a GPU.
    (low, high), costs = front.ends()["dollars_per_million_output_tokens"], np.asarray(front.dollars)
    details["$/M output"] = costs.tolist()
    if low is not None and high is not None:
        for name, end in (("$/M low", low), ("$/M high", high)):
            details[name] = [finite_or_none(cost) for cost in (costs * end).tolist()]
    return details


def warned(fronts: Mapping[str, AnyFront]) -> list[str]:
    """Warnings on some frontiers; for prices of different kinds, see :func:`unranked`."""
    setups, preferred = [front.setup for front in fronts.values()], _preferred(fronts)
    engines = [*notes.unused_drafts(preferred), *notes.no_engine(setups)]
    return [*engines, *notes.warnings(preferred), *notes.left_out(setups), *notes.scale_notes(setups)]


def unranked(fronts: Mapping[str, AnyFront], ranked: int | None = None) -> list[str]:
    """Warning on frontiers that are not ranked, because their prices differ in kind.

    See :func:`inference_econ.report.notes.unranked_remarks` for ``ranked``.
    """
    return notes.unranked_remarks((instances.setup for instances in _preferred(fronts)), ranked)


def assumed(fronts: Mapping[str, AnyFront]) -> list[str]:
    """Sentences on the assumptions of some frontiers, and on the prediction errors at their preferred points."""
    named = {label: front.setup.assumptions.name for label, front in fronts.items()}
    shown = [
        f"{name} ({', '.join(label for label, other in named.items() if other == name)})"
        for name in dict.fromkeys(named.values())
    ]
    text = next(iter(named.values())) if len(shown) == 1 else ", ".join(shown)
    services = any(isinstance(front, ServiceFrontier) for front in fronts.values())
    predicted: Sequence[Quantity] = SERVED if services else ("tpot",)
    return [
        f"Assumptions: {text}.",
        *notes.grounds((front.setup for front in fronts.values()), _preferred(fronts), predicted),
    ]


def _preferred(fronts: Mapping[str, AnyFront]) -> list[Instances]:
    """Preferred point of each frontier, with a label if the page shows several frontiers."""
    return [
        instances._replace(label=label if len(fronts) > 1 else "")
        for label, front in fronts.items()
        for instances in front.preferred_subjects()
    ]
