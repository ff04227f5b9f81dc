"""Page that compares several frontiers in one table and one chart."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from inference_econ.answers.deployments.serving_frontier import ServiceFrontier, ServicePoint
from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from inference_econ.records.sources import UsedSource
from inference_econ.records.texts import amount, chance_percent, dollars, layout_label, size
from inference_econ.report import charts, speed_cost
from inference_econ.report.headings import enumerated, frontiers_title, price_cell
from inference_econ.report.page import AnswerPage, Table
from inference_econ.report.questions import frontier
from inference_econ.report.questions.frontier import COUNTED, DECODED, MEANS
from inference_econ.report.service import milliseconds, with_engines, with_notes
from inference_econ.search import Metric
from inference_econ.studies.compare import Comparison
from inference_econ.studies.results import Curve

#: Probability of being cheaper than the second frontier, from which a frontier counts as the single cheapest [1].
_ALIKE = 0.55
#: Maximum number of lines in a chart with bands [1]; more bands would overlap.
_BANDS = 4


@dataclass(frozen=True)
class ComparisonPage(AnswerPage[Comparison]):
    """Page that compares several frontiers."""

    wanted_speeds: Sequence[float] = ()
    """Speeds for which the table has columns, ascending [tokens/s per user].

    If neither speeds nor costs are given, the table uses round speeds.
    """
    costs: Sequence[float] = ()
    """Costs for which the table has columns of speed and number of GPUs, ascending [USD per 1e6 output tokens]."""
    y: Metric = "cost"
    """Metric on the y axis of the chart."""

    @property
    def speeds(self) -> Sequence[float]:
        """Speeds for which the table has columns [tokens/s per user]."""
        if self.wanted_speeds or self.costs:
            return self.wanted_speeds
        return self.answer.speeds

    def tables(self) -> Sequence[Table]:
        """Table with one row per compared frontier."""
        table = comparison_table(self.answer, self.speeds, self.costs)
        reasons, priced = undrawn(self.answer, self.y), (curve.label for curve in self.answer.curves if curve.is_priced)
        return (with_notes(table, [f"Not in the chart: {reasons[label]}." for label in priced if label in reasons]),)

    def record(self) -> object:
        """Return the compared frontiers with their points."""
        return self.answer.record(self.speeds, self.costs)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Chart of the frontiers with their bands; charts of cost also show similar measured servers."""
        result, y = self.answer, self.y
        bound, missing = result.bounds, undrawn(result, y)
        fronts = {
            _marked(curve.label, "".join(map(_titled, re.split("(, | on )", curve.label))), bound): curve.front
            for curve in result.curves
            if curve.label not in missing
        }
        shown = len(fronts) <= _BANDS
        lines = [
            speed_cost.curve_line(label, front, frontier.point_details(front), y, band=shown)
            for label, front in fronts.items()
        ]
        lines += speed_cost.measured_lines(fronts if shown and y == "cost" else {}, y)
        services = any(isinstance(front, ServiceFrontier) for front in fronts.values())
        question = f"What does {'serving' if services else 'decoding'} cost at each speed?"
        title = f"{speed_cost.AXES[y].question or question}\n{frontiers_title([*fronts.values()])}"
        chart = speed_cost.speed_cost_chart(title, lines, [front.setup for front in fronts.values()], y)
        return {"frontiers": charts.line_chart(chart)}

    def sources(self) -> Sequence[UsedSource]:
        """Sources of all compared frontiers."""
        return self.answer.sources


def comparison_table(result: Comparison, speeds: Sequence[float], costs: Sequence[float] = ()) -> Table:
    """Create the table of a comparison, with one row per compared frontier.

    Columns show costs at some speeds, speed and number of GPUs at some costs, and the preferred point.

    Parameters
    ----------
    result : Comparison
        Result of :func:`inference_econ.studies.compare.compare`.
    speeds : sequence of float
        Speeds at which the table shows costs [tokens/s per user].
    costs : sequence of float
        Costs at which the table shows speeds [USD per 1e6 output tokens].
    """
    by_label = {curve.label: curve for curve in result.curves}
    fronts = {label: curve.front for label, curve in by_label.items()}
    services = any(isinstance(front, ServiceFrontier) for front in fronts.values())
    last = ("concurrency", "TTFT ms") if services else ("batch",)
    columns = (
        "series", "$/GPU-h", *(f"$ at {speed:g}" for speed in speeds),
        *(f"{what} at ${cost:g}" for cost in costs for what in ("tok/s", "GPUs")),
        "fastest", "best", "$", "GPUs", "layout", *last,
    )  # fmt: skip
    rows, best, bound = [], result.winners(speeds), result.bounds
    for label in result.labels:
        if label in by_label:
            rivals = {winner.speed for winner in best if label in winner.rivals}
            rows.append((_marked(label, label, bound), *_row(by_label[label], speeds, costs, rivals)))
        else:
            before, after = 1 + len(speeds) + 2 * len(costs), 4 + len(last)
            rows.append((label, *"-" * before, "nothing fits", *"-" * after))
    cheapest = []
    for winner in best:
        if winner.chance is not None and winner.chance < _ALIKE:
            cheapest.append(f"{winner.label} or {winner.second} at {winner.speed:g} tokens/s (not distinguishable)")
            continue
        probability = "" if winner.chance is None else f" ({chance_percent(winner.chance)}%)"
        cheapest.append(f"{winner.label} at {winner.speed:g} tokens/s{probability}")
    notes = [f"Cheapest{_ranked_kind(result)} (with probability): {', '.join(cheapest)}."] if best else []
    notes += frontier.unranked(fronts, result.price_order)
    if any(winner.rivals for winner in best):
        notes.append("~ marks a cost that may also be the lowest.")
    if bound:
        verb = "is" if len(bound) == 1 else "are"
        notes.append(
            f"{enumerated(bound)} {verb} uncalibrated: no server was measured, or no known engine supports it."
        )
    notes += [
        *(f"{label}: {reason}" for label, reason in result.missing.items()),
        *frontier.warned(fronts),
        *([COUNTED] if services else []),
    ]
    why = [
        "'$ at N': cost per million output tokens of the cheapest deployment with N tokens/s per user"
        f"{'' if services else ' or more'}.",
        "The percentage at the lowest cost is the probability that this row is cheaper than the second-cheapest row.",
        "'best': speed of the deployment that maximizes speed^3 / cost. The next columns describe this deployment."
        + (" 'tok/s at $N' and 'GPUs at $N': the fastest instance with a cost of at most $N." if costs else ""),
        MEANS if services else DECODED,
        *frontier.assumed(fronts),
    ]
    least = (*last, "engine", "fastest", "GPUs", *(f"$ at {speed:g}" for speed in (*speeds[3:], *speeds[1:2])))
    table = Table(frontiers_title([*fronts.values()]), columns, tuple(rows), tuple(notes), tuple(why), least)
    shown = {label: front.preferred().layout for label, front in fronts.items()}
    setups = [front.setup for front in fronts.values()]
    return with_engines(table, [shown.get(label, {}) for label in result.labels], setups)


def _ranked_kind(result: Comparison) -> str:
    """Kind of price of the ranked GPUs as text; empty if all GPUs have this kind of price."""
    listed = [curve.front.setup.hour_price for curve in result.curves if curve.is_priced]
    ranked = [price.kind.replace("_", "-") for price in listed if price.order == result.price_order]
    return f" of the GPUs with {enumerated(ranked, 'or')} prices" if len(ranked) < len(listed) else ""


def _marked(label: str, shown: str, bound: Collection[str]) -> str:
    """Label of a frontier, marked if the frontier is only a lower bound on cost."""
    return f"{shown} (bound)" if label in bound else shown


def _row(curve: Curve, speeds: Sequence[float], costs: Sequence[float], rivals: Collection[float]) -> tuple[str, ...]:
    """Table row of a frontier. A mark shows at which speeds the frontier may be the cheapest."""
    # A cost cell is empty if the price is unknown, and a dash if no point is as fast.
    none = "-" if curve.is_priced else ""
    cells = [price_cell(curve.front.setup)]
    for speed in speeds:
        cost = curve.dollars_at(speed)
        cells.append(none if cost is None else f"{dollars(cost)}{' ~' * (speed in rivals)}")
    for point in map(curve.fastest_at, costs):
        # Speed and number of GPUs of the fastest deployment at a cost; dashes if no deployment is as cheap.
        cells += [none, none] if point is None else [amount(point.tokens_per_second_per_user), size(point.accelerators)]
    best = curve.front.preferred()
    cells += [amount(float(curve.tokens_per_second[-1])), amount(best.tokens_per_second_per_user)]
    cells.append(dollars(best.dollars_per_million_output_tokens) if curve.is_priced else "")
    cells += [size(best.accelerators), layout_label(best.layout)]
    if isinstance(best, ServicePoint):
        return (*cells, f"{best.concurrency:.1f}", milliseconds(best.ttft_seconds))
    return (*cells, size(best.batch))


def undrawn(result: Comparison, y: Metric) -> dict[str, str]:
    """Reasons why some frontiers have no values of the metric, by label of the frontier."""
    reasons = {}
    for curve in result.curves:
        if not curve.is_priced and y in ("cost", "blended"):
            reasons[curve.label] = f"no price of {curve.label} is known"
            continue
        try:
            curve.front.metric(y)
        except InputError as error:
            reasons[curve.label] = str(error)
    return reasons


def _titled(part: str) -> str:
    if part in catalog.names("hardware"):
        return catalog.hardware(part).name
    return catalog.model(part).name if part in catalog.names("models") else part
