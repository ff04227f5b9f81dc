"""Frontiers of services as tables, data and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from inference_econ.answers.heading import frontiers_title, subject_label
from inference_econ.answers.launching.benchmark import OfferedLoad
from inference_econ.answers.launching.plan import Part, Start
from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.answers.token_parts import token_parts
from inference_econ.engine import key_degrees
from inference_econ.records.texts import PART_NAMES, assumptions_label
from inference_econ.report import charts, speed_cost
from inference_econ.report.charts.plot import Plot, Series
from inference_econ.report.chosen import expected_in_flight, parts_of_pools, refuse_chain
from inference_econ.report.metrics import AXES
from inference_econ.report.startable import with_recipes
from inference_econ.report.table import Table
from inference_econ.search import Metric

if TYPE_CHECKING:
    from inference_econ.calibration.alike import MeasuredServer
    from inference_econ.report.measured_points import Drawn

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
        return {"frontier": charts.frontier_chart(shown, f"{question}\n{title}", _steps(self.answer))}

    def question(self) -> str:
        """Question about the cost of services."""
        return f"What does it cost to serve {subject_label(self.answer.setup)} at each speed?"

    def start(self) -> Start:
        """The preferred point, with a constant number of requests in flight."""
        front, best = self.answer, self.answer.preferred_index()
        record, layout = next(islice(front.bounded_points(), best, None))
        candidate, concurrency = front.candidate(best), OfferedLoad(concurrency=max(1, round(front.concurrency[best])))
        if candidate.pools is None:
            parts = [Part(candidate.services.service(int(front.rows[best])), 1)]
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
    from inference_econ.report.measured_points import Drawn, measured_lines

    requests, factor = front.requests, AXES[y].factor
    speed, metric = front.tokens_per_second, front.metric(y)
    details = point_details(front)
    line = speed_cost.curve_line("Pareto frontier of services", (speed, metric), front.ends(), details, y)
    drawn = Drawn(line.label, front.setup, (requests.isl.mean, requests.osl.mean))
    # What measured servers drew is not recorded.
    alike = [drawn] if measured_alike(front) and AXES[y].good and y != "joules" else []

    def measured(_: Drawn, server: MeasuredServer) -> float:
        return measured_metric(front, y, server) * factor

    ttft = (1e3 * front.ttft_seconds).tolist()
    waits = Series("TTFT of its points", speed.tolist(), ttft, points=True, beside=line.label, details=details)
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


def point_details(front: ServiceFrontier) -> dict[str, list[float | str]]:
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


def _steps(front: ServiceFrontier) -> charts.Steps | None:
    """Parts of the time per token of every point; None of those that speculate."""
    parts = {PART_NAMES[name]: (1e3 * seconds).tolist() for name, seconds in token_parts(front).items()}
    return charts.Steps(parts, len(front), front.preferred_index()) if parts else None


def measured_metric(front: ServiceFrontier, y: Metric, server: MeasuredServer) -> float:
    """Metric of a measured server at the price and the watts of a frontier.

    Tokens per second of a chip are in proportion to those of a megawatt, and to those of a dollar.
    """
    more = server.tokens_per_second_per_accelerator / float(front.tokens_per_second_per_accelerator[0])
    first = float(front.metric(y)[0])
    return first / more if AXES[y].good == "low" else first * more
