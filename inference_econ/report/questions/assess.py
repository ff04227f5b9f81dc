"""Page that compares a measured deployment with frontiers and with the ideal bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from inference_econ.answers.assess import NEAR, Assessment, ComparedPoint, Expected, Gap, OperatingPoint, SteadyService
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.engine import Interval, Setup, error_spread
from inference_econ.records.texts import PART_NAMES, amount, chips_label, dollars, layout_label, size
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, PlotSeries
from inference_econ.report.headings import enumerated, frontiers_title, speculation_label
from inference_econ.report.notes import doubts, grounds
from inference_econ.report.page import AnswerPage, Block, Headline, Table
from inference_econ.report.service import with_engines

#: Smallest reported share of the measured time per token [1].
_NOTABLE = 0.02
#: Verdicts on a measured latency.
_EXPECTED: Mapping[Expected, str] = {
    "faster": "FASTER THAN EXPECTED", "as expected": "AS EXPECTED", "slower": "SLOWER THAN EXPECTED"
}  # fmt: skip
#: Names of the parts of the time per token.
NAMES = {**PART_NAMES, "prompts": "prefill of other requests"}


class AssessmentPage(AnswerPage[Assessment]):
    """Page that compares a measured deployment with predicted deployments."""

    def tables(self) -> Sequence[Table]:
        """Table of the compared deployments and, if a step was predicted, table of the parts of this step."""
        step = step_table(self.answer)
        measured = self.answer.measured
        speed, dollars_of_it = measured.tokens_per_second_per_user, dollars(measured.dollars_per_million_output_tokens)
        fullness = size(round(measured.batch, 1)), f"{100 * measured.mfu:.1f}"
        rows: list[tuple[str, ...]] = [
            ("measured", amount(speed), dollars_of_it, "", f"{measured.accelerators}", "", *fullness)
        ]
        layouts: list[Mapping[str, float | str]] = [{}]
        if self.answer.predicted is not None:
            layouts.append(self.answer.predicted.layout)
            ratio = self.answer.predicted.tokens_per_second_per_user / speed
            rows.append(("predicted for it", *_cells(self.answer.predicted, f"{ratio:.2f} x speed")))
        for name, gap in _gaps(self.answer).items():
            speed_ratio = "none is as cheap" if gap.speed_factor is None else f"{gap.speed_factor:.2f} x speed"
            cost_ratio = "none is as fast" if gap.cost_factor is None else f"{1 / gap.cost_factor:.2f} x cost"
            for kind, point, beside in (("cost", gap.faster, speed_ratio), ("speed", gap.cheaper, cost_ratio)):
                rows.append((f"{name}, equal {kind}", *_cells(point, beside, bound=gap is self.answer.ideal)))
                layouts.append({} if point is None or gap is self.answer.ideal else point.layout)
        unit = "$" if self.answer.setup.is_priced else "GPU-h"
        columns = ("deployment", "tokens/s", f"{unit}/M output", "vs. measured", "GPUs", "layout", "batch", "MFU %")
        notes = (*_drafts_notes(self.answer), *doubts([self.answer.setup], self.answer.subjects()))
        least = ("engine", "batch", "MFU %")
        table = Table(_title(self.answer), columns, tuple(rows), notes, findings(self.answer), least)
        return [with_engines(table, layouts, [self.answer.setup]), *([] if step is None else [step])]

    def blocks(self) -> Sequence[Block]:
        """Verdict with its basis, followed by the tables."""
        return Headline(verdict(self.answer)), *self.tables()

    def markdown(self) -> str:
        """Markdown of the verdict and the tables."""
        lines = "".join(f"{line}\n\n" for line in verdict(self.answer))
        return lines + super().markdown()

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Chart of the frontiers and the measured point."""
        return {"assessment": charts.line_chart(assessment_chart(self.answer))}


def _title(assessment: Assessment) -> str:
    """Heading of the comparison. It omits speculation methods, which the prediction of the server does not have."""
    return frontiers_title([assessment.anywhere.frontier], speculates=False)


def _drafts_notes(assessment: Assessment) -> list[str]:
    """Note on the speculation methods of the frontier, which the prediction of the server does not have."""
    front = assessment.anywhere.frontier
    if not isinstance(front, ServiceFrontier):
        return []
    drafts = [front.candidates[number].speculation for number in front.shown]
    named = enumerated((speculation_label(draft) for draft in drafts if draft is not None), "or")
    if not named:
        return []
    return [
        f"Deployments of any size may use {named}. The measured server and all other deployments are predicted without "
        "speculation."
    ]


def _gaps(assessment: Assessment, profile: str = "") -> dict[str, Gap]:
    """Gaps to the frontiers by display name, which includes the name of the fitted assumptions if given."""
    chips, of = chips_label(assessment.measured.instance_accelerators), f"{profile}, " if profile else ""
    names = f"{of}any size", f"{of}{chips}", f"ideal, {chips}"
    return dict(zip(names, assessment.gaps.values(), strict=True))


def _cost(dollars_per_million: float, setup: Setup) -> str:
    """Format the cost of a million output tokens, in dollars, or in GPU-hours if the price of the GPU is unknown."""
    return f"${dollars(dollars_per_million)}" if setup.is_priced else f"{dollars(dollars_per_million)} GPU-hours"


def _cells(point: ComparedPoint | None, ratio: str, *, bound: bool = False) -> tuple[str, ...]:
    if point is None:
        return ("-", "-", ratio, *"-" * 4)
    layout = "any" if bound else layout_label(point.layout)
    speed, cost = amount(point.tokens_per_second_per_user), dollars(point.dollars_per_million_output_tokens)
    return speed, cost, ratio, size(point.accelerators), layout, size(point.batch), f"{100 * point.mfu:.1f}"


def step_table(assessment: Assessment) -> Table | None:
    """Table of the predicted step by operator group.

    Each operator group has its share of the gap to the ideal step. The result is None without a predicted step.
    """
    if assessment.predicted is None:
        return None
    whole, ideal = assessment.measured.seconds, sum(part.ideal_seconds for part in assessment.parts)
    steps = [(NAMES.get(part.name, part.name), part.seconds, part.ideal_seconds) for part in assessment.parts]
    rows = [
        (
            name,
            f"{1e3 * seconds:.3f}",
            f"{1e3 * least:.3f}",
            str(round(100 * (seconds - least) / (whole - ideal))) if whole > ideal else "-",
        )
        for name, seconds, least in (*steps, ("total (measured)", whole, ideal))
    ]
    columns = ("part", "ms", "ideal ms", "% of the gap to the ideal")
    predicted = assessment.predicted
    title = (
        f"Predicted time per token ({assessment.setup.assumptions.name}): {layout_label(predicted.layout)} on "
        f"{chips_label(predicted.accelerators)}, batch {size(predicted.batch)}"
    )
    notes = (
        "The last column divides the gap between the measured TPOT and an ideal step (same GPUs and batch) among the "
        "parts. The unexplained share is negative if the server is faster than predicted.",
    )
    return Table(title, columns, tuple(rows), why=notes)


def assessment_chart(assessment: Assessment) -> Plot:
    """Chart data of the frontiers and the measured point."""
    measured, gaps = assessment.measured, _gaps(assessment, assessment.setup.assumptions.name)
    lines = [PlotSeries(label, gap.speeds.tolist(), gap.dollars.tolist()) for label, gap in gaps.items()]
    speed, cost = measured.tokens_per_second_per_user, measured.dollars_per_million_output_tokens
    point = PlotSeries(f"measured: {speed:g} tokens/s, {_cost(cost, assessment.setup)}", [speed], [cost], points=True)
    return Plot(
        f"How far is this server from the frontier?\n{_title(assessment)}",
        "tokens per second per user",
        f"{'US dollars' if assessment.setup.is_priced else 'GPU-hours'} per million output tokens",
        (*lines, point),
        logarithmic="y",
        dollars="y" if assessment.setup.is_priced else "",
    )


def findings(assessment: Assessment) -> tuple[str, ...]:
    """All findings of the comparison as sentences."""
    front = assessment.anywhere.frontier
    sizes = front.candidates[0].plans.accelerators if isinstance(front, ServiceFrontier) else front.grid.accelerators
    return (
        *_on_the_point(assessment),
        *_on_frontiers(assessment),
        *_on_the_step(assessment),
        f"Assumptions: {assessment.setup.assumptions.name}. 'any size': instances of up to {max(sizes):g} GPUs.",
        *grounds([assessment.setup], assessment.subjects()),
    )


def verdict(assessment: Assessment) -> tuple[str, str, str]:
    """Verdict in three lines: comparison with the prediction, comparison with the frontier, and the basis of both."""
    return _beside_prediction(assessment), _beside_others(assessment), _basis(assessment)


def _beside_prediction(assessment: Assessment) -> str:
    measured, predicted, likely = assessment.measured, assessment.predicted, assessment.likely_seconds
    seen = f"the measured TPOT is {_ms(measured.seconds)}"
    if predicted is None or assessment.expected is None:
        most = "" if assessment.shortage is None else f" (at most {assessment.shortage.most:,})"
        return f"NO PREDICTION: batch {size(round(measured.instance_batch, 1))} does not fit in memory{most}."
    if measured.mfu > 1.0:
        speed = f"{measured.tokens_per_second_per_user:g} tokens/s"
        return f"IMPOSSIBLE: {_beyond(measured)} If {speed} is the total of all requests, give it as --throughput."
    expected = f"the predicted TPOT is {_ms(1 / predicted.tokens_per_second_per_user)}"
    found = _EXPECTED[assessment.expected]
    if assessment.expected_ttft in ("faster", "slower"):
        found = f"TPOT {found}, TTFT {_EXPECTED[assessment.expected_ttft]}"
    sentence = f"{found}: {seen}, and {expected}"
    ends = _ends(likely) or f" (no interval: {assessment.setup.assumptions.name} was fitted to no server)"
    seconds, around = assessment.predicted_ttft
    first = ""
    if assessment.ttft_seconds is not None and seconds is not None:
        first = f" TTFT: {_ms(assessment.ttft_seconds)} measured, {_ms(seconds)} predicted{_ends(around)}."
    return f"{sentence}{ends}.{first}"


def _ends(likely: Interval | None, form: str = ".3g") -> str:
    """80% interval in parentheses; empty if it is unknown."""
    if likely is None:
        return ""
    return f" (80% interval {_number(1e3 * likely.low, form)} to {_number(1e3 * likely.high, form)} ms)"


def _beside_others(assessment: Assessment) -> str:
    gap = assessment.anywhere
    if gap.verdict == "on":
        return f"ON THE FRONTIER, within {100 * NEAR:.0f}%."
    where = "WORSE THAN" if gap.verdict == "behind" else "BETTER THAN"
    doubt = ", but within prediction errors" if gap.certain is False else ""
    at_cost, at_speed = "no deployment is as cheap", "no deployment is as fast"
    if gap.faster is not None:
        speed = gap.faster.tokens_per_second_per_user
        at_cost = f"at the same cost, the best deployment reaches {speed:.1f} tokens/s ({gap.speed_factor:.2f}x)"
    if gap.cheaper is not None and gap.cost_factor is not None:
        cost = _cost(gap.cheaper.dollars_per_million_output_tokens, gap.setup)
        at_speed = f"at the same speed, the best costs {cost} per million output tokens ({1 / gap.cost_factor:.2f}x)"
    return f"{where} the frontier{doubt}: {at_cost}. {at_speed[0].upper()}{at_speed[1:]}."


def _basis(assessment: Assessment) -> str:
    """Sentence on the fitted assumptions with their number of measurements, and on the assumed layout."""
    setup, measured = assessment.setup, assessment.measured
    assumptions = setup.assumptions if assessment.run is None else assessment.run.assumptions
    rows = error_spread(assumptions, "tpot", [assessment.anywhere.subject])
    profile = assumptions.name + ("" if rows is None else f" ({rows.spread.rows:,} measurements)")
    layout = ""
    if assessment.predicted is not None:
        pick = f", the fastest of {assessment.tried}" if assessment.tried > 1 else ""
        layout = f", {layout_label(assessment.predicted.layout)}{pick}"
    kind = "decode steps (for requests with prefill, give --isl and --osl)"
    kind = kind if assessment.requests is None else "requests including prefill"
    load = "" if assessment.run is None else ", under the load of the run as in validate"
    return f"The prediction comes from {profile}, for {kind} on {_fleet(measured)}{layout}{load}."


def _ms(seconds: float, form: str = ".3g") -> str:
    return f"{_number(1e3 * seconds, form)} ms"


def _number(value: float, form: str) -> str:
    """Format a number; from 1,000, as an integer with thousands separators instead of an exponent."""
    return f"{value:,.0f}" if value >= 999.5 else f"{value:{form}}"


def _fleet(measured: OperatingPoint) -> str:
    """Number of measured instances and GPUs, as text."""
    if measured.instances == 1:
        return chips_label(measured.accelerators)
    return f"{measured.instances} instances of {chips_label(measured.instance_accelerators)}"


def _on_the_point(assessment: Assessment) -> Iterator[str]:
    """Sentences on the measured values, and on values that are not physically possible."""
    measured, requests, shortage = assessment.measured, assessment.requests, assessment.shortage
    load = f"{'concurrency' if requests else 'batch'} {size(round(measured.batch, 1))}"
    sentence = (
        f"Measured: {measured.tokens_per_second_per_user:g} tokens/s per user at {load} on {_fleet(measured)}, "
        f"{measured.throughput:,.0f} output tokens/s in total, MFU {100 * measured.mfu:.1f}%, "
        f"{_cost(measured.dollars_per_million_output_tokens, assessment.setup)} per million output tokens."
    )
    if requests is not None and isinstance(assessment.predicted, SteadyService):
        sentence += (
            " Concurrency, throughput and MFU follow from the measured TPOT and the "
            f"{'predicted' if assessment.ttft_seconds is None else 'measured'} TTFT of "
            f"{_ms(assessment.ttft_seconds or assessment.predicted.ttft_seconds)}, unless given. MFU includes prefill."
        )
    yield sentence
    if measured.mfu > 1.0:
        yield f"This is impossible: {_beyond(measured)}"
    if shortage is None:
        return
    chips, precision, most = chips_label(measured.instance_accelerators), assessment.setup.precision, shortage.most
    wanted, needed = size(round(shortage.batch, 1)), f"{shortage.needed_bytes / 1e9:.0f} GB"
    room = f"{chips} have {shortage.available_bytes / 1e9:.0f} GB"
    if requests is not None:
        yield (
            f"Concurrency {wanted} needs {needed}, but {room}. The prediction is for the {most:,} requests that fit. "
            f"More requests fit with a KV cache narrower than {precision.kv} or with shared prefixes."
        )
    else:
        yield (
            f"Batch {wanted} needs {needed}, but {room}. At most {most:,} sequences fit, so there is no prediction. "
            f"Possible reasons: a KV cache narrower than {precision.kv}, weights narrower than {precision.weights}, "
            f"shared prefixes, contexts below {assessment.setup.context:g} tokens, or a batch that includes queued "
            "requests."
        )


def _on_frontiers(assessment: Assessment) -> Iterator[str]:
    """Sentences that compare the measured point with the frontier, its prediction errors, and the ideal bound."""
    gap, name, likely = assessment.anywhere, assessment.setup.assumptions.name, assessment.anywhere.likely_seconds
    chips, same, ideal = chips_label(assessment.measured.instance_accelerators), assessment.same_size, assessment.ideal
    if gap.verdict == "on":
        yield f"The server is on the frontier predicted by {name}, within 2%."
    elif gap.verdict == "behind":
        yield f"The server is worse than the frontier predicted by {name}. {_better(gap)}."
    else:
        yield (
            f"The server is better than the frontier predicted by {name}: {_worse(gap)}. Possible reasons: better "
            "kernels or "
            "overlap, speculation, shared prefixes, or a wrong input (format, context, GPUs, batch, utilization)."
        )
    if likely is not None and gap.verdict != "on" and assessment.predicted is not None:
        yield (
            f"Prediction errors {'do not' if gap.certain else 'may'} explain the difference from the frontier. A "
            "frontier server with these GPUs and this batch has a TPOT of "
            f"{_number(1e3 * likely.low, '.4g')} to {_ms(likely.high, '.4g')} (80% interval). "
            f"The TPOT of your server is {_ms(gap.measured.seconds, '.4g')}."
        )
    if same.verdict == "on" != gap.verdict:
        yield (
            f"The server is on the frontier of deployments on {chips}, within 2%. Better deployments have another "
            "number of GPUs."
        )
    elif same.verdict != gap.verdict:
        yield f"The server is better than the frontier of deployments on {chips}: {_worse(same)}."
    if ideal.verdict == "behind":
        yield (
            f"The ideal bound for {chips} assumes peak arithmetic and bandwidth, free communication and no kernel "
            f"launch overhead. {_better(ideal, 'it')}."
        )
    elif ideal.verdict == "on":
        yield f"The server is on the ideal bound for {chips}, within 2%. Only speculation can improve it."
    else:
        yield (
            f"The server is better than the ideal bound for {chips}: {_worse(ideal)}. Only speculation and shared "
            "prefixes can do that. Otherwise an input is wrong: format, context, GPUs, a batch that includes queued "
            "requests, or a throughput that includes prompts."
        )


def _on_the_step(assessment: Assessment) -> Iterator[str]:
    """Sentences on the unexplained time, and on the parts that explain most of the gap to a frontier."""
    left, measured, likely = assessment.unexplained_seconds, assessment.measured.seconds, assessment.likely_seconds
    if left is not None:
        predicted = (
            f"The profile predicts {1e3 * (measured - left):.2f} ms per token{_ends(likely, '.2f')}. The measured TPOT "
            f"is {1e3 * measured:.2f} ms"
        )
        prefill = ", prefill of other requests" if assessment.requests is None else ""
        if abs(left) < _NOTABLE * measured:
            yield f"{predicted}, as predicted."
        elif left < 0:
            yield f"{predicted}, {-1e3 * left:.2f} ms less."
        else:
            yield f"{predicted}; {1e3 * left:.2f} ms are unexplained (scheduler, sampling{prefill}, kernels)."
    # Explain the gap to the ideal bound if the measured point is not behind the frontier.
    behind = assessment.anywhere.verdict == "behind"
    name, gap = ("frontier", assessment.anywhere) if behind else ("ideal bound", assessment.ideal)
    names = {**NAMES, "unexplained": "unexplained time"}
    levers = sorted(assessment.parts, key=lambda part: -part.closes(gap))[:2]
    named = [
        f"Removing the {names[part.name]} would close {100 * closed:.0f}% of this difference."
        for part in levers
        if (closed := part.closes(gap)) >= _NOTABLE
    ]
    if named:
        yield f"The server takes {1e3 * gap.seconds:.2f} ms per token longer than the {name}. {' '.join(named)}"


def _beyond(measured: OperatingPoint) -> str:
    return (
        f"the input implies {100 * measured.mfu:.0f}% of the peak arithmetic of {chips_label(measured.accelerators)}. "
        "Check speed, batch or throughput, number format and number of GPUs."
    )


def _better(gap: Gap, name: str = "") -> str:
    """Text on the speed and cost that a frontier would reach instead of the measured point."""
    fast, cheap = gap.faster, gap.cheaper
    assert fast is not None and cheap is not None and gap.cost_factor is not None
    by = [name, name]
    for index, point in enumerate(() if name else (fast, cheap)):
        service = isinstance(point, SteadyService)
        load = f"concurrency {point.batch:.0f}" if service else f"batch {size(point.batch)}"
        by[index] = f"{layout_label(point.layout)} on {chips_label(point.accelerators)} with {load}"
    return (
        f"At the same cost, {by[0]} reaches {fast.tokens_per_second_per_user:.1f} tokens/s ({gap.speed_factor:.2f}x). "
        f"At the same speed, {by[1]} costs {_cost(cheap.dollars_per_million_output_tokens, gap.setup)} per million "
        f"output tokens ({1 / gap.cost_factor:.2f}x)"
    )


def _worse(gap: Gap) -> str:
    """Text on the speed and cost of a frontier that the measured point is better than."""
    at_cost, at_speed = "no deployment is as cheap", "no deployment is as fast"
    if gap.faster is not None:
        at_cost = f"at the same cost, the frontier reaches at most {gap.faster.tokens_per_second_per_user:.1f} tokens/s"
    if gap.cheaper is not None:
        least = _cost(gap.cheaper.dollars_per_million_output_tokens, gap.setup)
        at_speed = f"at the same speed, the frontier costs at least {least}"
    return f"{at_cost}; {at_speed}"
