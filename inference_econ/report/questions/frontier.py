"""Frontiers as tables, records, rows and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from inference_econ.answers.deployments.serving_frontier import ServiceFrontier, token_parts
from inference_econ.answers.launching.plan import OfferedLoad, PlanPart, Start
from inference_econ.engine import Instances, key_degrees
from inference_econ.inputs import Quantity
from inference_econ.records.deviations import SERVED
from inference_econ.records.plain import Frame
from inference_econ.records.texts import PART_NAMES, assumptions_label
from inference_econ.report import charts, speed_cost
from inference_econ.report.charts.plot import Plot, PlotSeries
from inference_econ.report.deployment_reader import expected_in_flight, parts_of_pools, refuse_chain
from inference_econ.report.headings import frontiers_title, subject_label
from inference_econ.report.metrics import AXES
from inference_econ.report.notes import doubts, grounds, scale_notes
from inference_econ.report.page import Table
from inference_econ.report.service import with_recipes
from inference_econ.report.speed_cost import speed_question
from inference_econ.search import Frontier, Metric, PlanTable

if TYPE_CHECKING:
    from inference_econ.report.speed_cost import MeasuredLine, SimilarServer
    from inference_econ.studies.results import AnyFrontier

#: What a point is, in words.
DECODED = "The bill is that of decode steps alone; prefill is not in it."


#: What measured servers are billed for, and decode steps are not.
PREFILL_TOO = ", with prefill"


@dataclass(frozen=True)
class FrontierPage(speed_cost.CurvePage[Frontier]):
    """A frontier, ready to be shown.

    Attributes
    ----------
    plans : PlanTable or None
        Every plan of its grid, dominated ones included, if they are wanted.
    """

    plans: PlanTable | None = None

    def tables(self) -> Sequence[Table]:
        """Some points; how many plans there are, if they are wanted."""
        points = frontier_table(self.answer, self.y)
        return (points,) if self.plans is None else (points, plans_table(self.plans))

    def record(self) -> dict[str, object]:
        """Every point, and every plan."""
        return self.answer.record(self.plans)

    def frame(self) -> Frame:
        """Every point, or every plan."""
        return super().frame() if self.plans is None else self.plans.to_frame()

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """The frontier, with the step of a point that is clicked."""
        chart = frontier_chart(self.answer, self.y)
        panel = replace(chart, title="Cost of decode steps" if self.y == "cost" else AXES[self.y].head)
        return {"frontier": charts.frontier_chart([panel], chart.title, _steps(self.answer))}

    def question(self) -> str:
        """Question about the cost of decoding."""
        return f"What does decoding {subject_label(self.answer.setup)} cost at each speed, without prefill?"


def frontier_table(front: Frontier, y: Metric = "cost") -> Table:
    """A frontier for people: some points, evenly spaced in speed; see :func:`speed_cost.points_table`."""
    basis = [f"{DECODED} Assumptions: {front.setup.assumptions.name}."]
    if any(point.layout["dp"] != 1.0 for point in front.points(speed_cost.some_points(front))):
        basis.append(
            "dp: groups of tp accelerators with sequences of their own; feed-forward blocks and experts are cut over "
            "all tp x dp of them: over ep ranks, and each expert over the rest."
        )
    columns = ("accelerators", "layout", "batch", "mfu", "bandwidth_utilization", "limited_by")
    least = ("mfu", "bandwidth_utilization", "limited_by", "engine", "batch")
    return speed_cost.points_table(front, y, columns, basis=basis, least=least)


def frontier_chart(front: Frontier, y: Metric = "cost") -> Plot:
    """A frontier to be drawn: its preferred point, where measured values lie, and of cost measured servers like it."""
    from inference_econ.report.speed_cost import MeasuredLine, measured_lines

    lengths, curve = lengths_of(front), (front.tokens_per_second, front.metric(y))
    lines = [
        speed_cost.curve_line("Pareto frontier of decode steps", curve, front.ends(), point_details(front), y),
        speed_cost.preferred_point(front, y),
    ]
    if lengths is not None and y == "cost":
        drawn = [MeasuredLine(lines[0].label, front.setup, lengths)]
        lines += measured_lines(drawn, MeasuredLine.dollars_per_million_output_tokens, PREFILL_TOO)
    question = speed_cost.speed_question(y, "What does decoding cost at each speed?")
    return speed_cost.speed_cost_chart(f"{question}\n{frontiers_title([front])}", lines, [front.setup], y)


def point_details(front: Frontier) -> dict[str, list[float | str]]:
    """Texts of hovering over each point: its deployment, its time per token and its cost, with their ends."""
    points, ends = front.points(), front.ends()
    details = speed_cost.deployed(points)
    details["batch"] = [point.batch for point in points]
    details["TPOT ms"] = [
        speed_cost.between(1e3 / point.tokens_per_second_per_user, ends["milliseconds"]) for point in points
    ]
    costs = [point.dollars_per_million_output_tokens for point in points]
    return details | speed_cost.priced(costs, ends["dollars_per_million_output_tokens"])


def _steps(front: Frontier) -> charts.Steps:
    """Parts of the time per token of every point."""
    points = front.points()
    names = dict.fromkeys(name for point in points for name in point.parts)
    parts = {PART_NAMES[name]: [1e3 * point.parts.get(name, 0.0) for point in points] for name in names}
    return charts.Steps(parts, len(front), front.preferred_index())


def lengths_of(front: Frontier) -> tuple[float, float] | None:
    """Input and output tokens of requests that measured servers can be held against; None without such."""
    traffic = front.traffic
    if traffic is None or traffic.isl is None or traffic.osl is None or front.speculation is not None:
        return None
    return traffic.isl, traffic.osl


def plans_table(plans: PlanTable) -> Table:
    """Table of the plans of a grid: how many can run, how many of them are of use, and why the others cannot run."""
    dominated = int(plans.dominated.sum())
    counts = {
        "feasible, on the frontier": len(plans) - dominated,
        "feasible, dominated by another plan": dominated,
        **{f"infeasible: {reason}": count for reason, count in plans.infeasible.items()},
    }
    rows = tuple((what, f"{count:,}") for what, count in counts.items())
    total = len(plans) + sum(plans.infeasible.values())
    return Table(f"All {total:,} plans of the grid", ("plans", "count"), rows)


#: What a point is, in words.
COUNTED = "Prefill is counted; a queue is not: 'load' has it."
#: The same at length.
MEANS = (
    "The bill, TTFT and TPOT include the prefill of all requests; both times are means with as many in flight all the "
    "time; for a queue see 'inference-econ load'."
)


class ServingFrontierPage(speed_cost.CurvePage[ServiceFrontier]):
    """A frontier of services, ready to be shown."""

    def tables(self) -> Sequence[Table]:
        """Some points."""
        return (service_frontier_table(self.answer, self.y),)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Charts of a metric against speed, with the step of the clicked point, and of the time to first token."""
        question = speed_cost.speed_question(self.y, "What do services cost at each speed?")
        title, shown = frontiers_title([self.answer]), service_frontier_charts(self.answer, self.y)
        return {"frontier": charts.frontier_chart(shown, f"{question}\n{title}", _service_steps(self.answer))}

    def question(self) -> str:
        """Question about the cost of services."""
        return f"What does it cost to serve {subject_label(self.answer.setup)} at each speed?"

    def start(self) -> Start:
        """The preferred point, with a constant number of requests in flight."""
        front, best = self.answer, self.answer.preferred_index()
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


def service_frontier_table(front: ServiceFrontier, y: Metric) -> Table:
    """A frontier for people: some points, evenly spaced in speed; see :func:`speed_cost.points_table`."""
    basis = [f"{MEANS} Assumptions: {assumptions_label(front.setups)}."]
    columns = ("ttft_seconds", "tpot_seconds", "accelerators", "layout", "concurrency")
    least = ("concurrency", "tpot_seconds")
    table = speed_cost.points_table(front, y, columns, counted=f" {COUNTED}", basis=basis, least=least)
    return with_recipes(table, [point.practice for point in front.points(speed_cost.some_points(front))])


def service_frontier_charts(front: ServiceFrontier, y: Metric) -> list[Plot]:
    """Plots of a metric against speed, with measured servers, and of the time to first token of the same points."""
    from inference_econ.report.speed_cost import MeasuredLine, measured_lines

    requests, factor = front.requests, AXES[y].factor
    speed, metric = front.tokens_per_second, front.metric(y)
    details = service_details(front)
    line = speed_cost.curve_line("Pareto frontier of services", (speed, metric), front.ends(), details, y)
    drawn = MeasuredLine(line.label, front.setup, (requests.isl.mean, requests.osl.mean))
    # What measured servers drew is not recorded.
    alike = [drawn] if measured_alike(front) and AXES[y].good and y != "joules" else []

    def measured(_: MeasuredLine, server: SimilarServer) -> float:
        return measured_metric(front, y, server) * factor

    ttft = (1e3 * front.ttft_seconds).tolist()
    waits = PlotSeries("TTFT of its points", speed.tolist(), ttft, points=True, beside=line.label, details=details)
    head = f"{AXES[y].head}{', prefill included' if y == 'cost' else ''}"
    return [
        speed_cost.speed_cost_chart(
            head, (line, speed_cost.preferred_point(front, y), *measured_lines(alike, measured)), [front.setup], y
        ),
        Plot("Time to first token", "tokens per second per user", "milliseconds", (waits,), "y", from_zero=True),
    ]


def measured_alike(front: ServiceFrontier) -> bool:
    """Return whether measured servers, of which those without speculation are drawn, are like some candidates."""
    plain = any(candidate.speculation is None for candidate in front.candidates)
    return plain and not front.requests.cached


def service_details(front: ServiceFrontier) -> dict[str, list[float | str]]:
    """Texts of hovering over each point: its deployment, its times and its cost, with their ends."""
    points = front.points()
    both = list(zip(points, front.ends_each(), strict=True))
    details = speed_cost.deployed(points)
    details |= {
        "recipe": [point.practice for point in points],
        "in flight": [point.concurrency for point in points],
        "batch": [point.batch for point in points],
        "TTFT ms": [speed_cost.between(1e3 * point.ttft_seconds, end["ttft_seconds"]) for point, end in both],
        "TPOT ms": [speed_cost.between(1e3 * point.tpot_seconds, end["tpot_seconds"]) for point, end in both],
    }
    return details | speed_cost.priced(front.dollars, front.ends()["dollars_per_million_output_tokens"])


def _service_steps(front: ServiceFrontier) -> charts.Steps | None:
    """Parts of the time per token of every point; None of those that speculate."""
    parts = {PART_NAMES[name]: (1e3 * seconds).tolist() for name, seconds in token_parts(front).items()}
    return charts.Steps(parts, len(front), front.preferred_index()) if parts else None


def measured_metric(front: ServiceFrontier, y: Metric, server: SimilarServer) -> float:
    """Metric of a measured server at the price and the watts of a frontier.

    Tokens per second of a chip are in proportion to those of a megawatt, and to those of a dollar.
    """
    more = server.tokens_per_second_per_accelerator / float(front.tokens_per_second_per_accelerator[0])
    first = float(front.metric(y)[0])
    return first / more if AXES[y].good == "low" else first * more


def picture_title(fronts: Sequence[AnyFrontier], y: Metric = "cost") -> str:
    """The question that a picture of some frontiers of one kind answers, above their heading."""
    services = any(isinstance(front, ServiceFrontier) for front in fronts)
    question = speed_question(y, f"What does {'serving' if services else 'decoding'} cost at each speed?")
    return f"{question}\n{frontiers_title(fronts)}"


def measured_lengths(front: AnyFrontier) -> tuple[float, float] | None:
    """Input and output tokens of requests that measured servers can be held against; None without such."""
    if isinstance(front, Frontier):
        return lengths_of(front)
    requests = front.requests
    return (requests.isl.mean, requests.osl.mean) if measured_alike(front) else None


def curve_details(front: AnyFrontier) -> dict[str, list[float | str]]:
    """Texts of hovering over the points of a frontier."""
    if isinstance(front, ServiceFrontier):
        return service_details(front)
    return point_details(front)


def warned(fronts: Mapping[str, AnyFrontier]) -> list[str]:
    """Warnings on some series, which a reader must not miss."""
    setups = [front.setup for front in fronts.values()]
    return [*doubts(setups, _preferred(fronts)), *scale_notes(setups)]


def assumed(fronts: Mapping[str, AnyFrontier]) -> list[str]:
    """The assumptions of some series of one kind, and how far off their preferred points may be."""
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
        *grounds((front.setup for front in fronts.values()), _preferred(fronts), predicted),
    ]


def _preferred(fronts: Mapping[str, AnyFrontier]) -> list[Instances]:
    """The preferred points of some series, with their labels if there are several."""
    return [
        instances._replace(label=label if len(fronts) > 1 else "")
        for label, front in fronts.items()
        for instances in front.preferred_subjects()
    ]
