"""Frontiers as tables, records, rows and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from inference_econ.answers.heading import frontiers_title, subject_label
from inference_econ.records.plain import Frame
from inference_econ.records.texts import PART_NAMES
from inference_econ.report import charts, speed_cost
from inference_econ.report.charts.plot import Plot
from inference_econ.report.metrics import AXES
from inference_econ.report.table import Table
from inference_econ.search import Frontier, Metric, PlanTable

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
    from inference_econ.report.measured_points import Drawn, measured_lines

    lengths, curve = lengths_of(front), (front.tokens_per_second, front.metric(y))
    lines = [
        speed_cost.curve_line("Pareto frontier of decode steps", curve, front.ends(), point_details(front), y),
        speed_cost.preferred_point(front, y),
    ]
    if lengths is not None and y == "cost":
        drawn = [Drawn(lines[0].label, front.setup, lengths)]
        lines += measured_lines(drawn, Drawn.dollars_per_million_output_tokens, PREFILL_TOO)
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
