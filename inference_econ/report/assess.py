"""A measured deployment beside what could be, as tables and as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from inference_econ.answers.deviations import calibration_record
from inference_econ.answers.gaps import Assessment, Deployment, Gap, SteadyService
from inference_econ.answers.record import HEAD, facts
from inference_econ.answers.sources import priced_sources, source_records
from inference_econ.engine import Setup, bounds
from inference_econ.report import charts
from inference_econ.report.assess_findings import NAMES, findings, verdict
from inference_econ.report.charts.plot import Plot, Series
from inference_econ.report.fields import attributes
from inference_econ.report.heading import subject_label
from inference_econ.report.page import AnswerPage, Block, Headline, Pieces
from inference_econ.report.speed_cost import frontiers_title
from inference_econ.report.startable import doubts, with_engines
from inference_econ.report.table import Frame, Table, amount, chips_label, dollars, frame_of, layout_label, size


class AssessmentPage(AnswerPage[Assessment]):
    """A measured deployment beside what could be, ready to be shown."""

    def tables(self) -> Sequence[Table]:
        """The point among deployments, and its step if it was predicted."""
        step = step_table(self.answer)
        return [assessment_table(self.answer), *([] if step is None else [step])]

    def blocks(self) -> Sequence[Block]:
        """The verdict and what it rests on, before the tables."""
        return Headline(verdict(self.answer)), *self.tables()

    def markdown(self) -> str:
        """Markdown of the verdict and of the tables below it."""
        lines = "".join(f"{line}\n\n" for line in verdict(self.answer))
        return lines + super().markdown()

    def record(self) -> object:
        """Gaps, parts of the step, and findings."""
        return assessment_record(self.answer)

    def frame(self) -> Frame:
        """The measured point and every deployment beside it."""
        return assessment_frame(self.answer)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Draw the frontiers and the measured point."""
        return {"assessment": charts.line_chart(assessment_chart(self.answer))}

    def question(self) -> str:
        """Question about whether the measured point is good."""
        measured = self.answer.measured
        return (
            f"Is {measured.tokens_per_second_per_user:g} tokens/s per user of {subject_label(self.answer.setup)} on "
            f"{chips_label(measured.accelerators)} good or bad, and what limits it?"
        )

    def conclusion(self) -> Pieces:
        """The verdict, beside the prediction and beside other deployments."""
        predicted, others, _ = verdict(self.answer)
        return (f"{predicted} {others}",)

    def setups(self) -> Sequence[Setup]:
        """The setup of the measured point."""
        return [self.answer.setup]


def assessment_table(assessment: Assessment) -> Table:
    """The measured point, what is predicted for it, and the deployments that are faster or cheaper."""
    measured = assessment.measured
    speed, dollars_of_it = measured.tokens_per_second_per_user, dollars(measured.dollars_per_million_output_tokens)
    fullness = size(round(measured.batch, 1)), f"{100 * measured.mfu:.1f}"
    rows: list[tuple[str, ...]] = [
        ("measured", amount(speed), dollars_of_it, "", f"{measured.accelerators}", "", *fullness)
    ]
    layouts: list[Mapping[str, float | str]] = [{}]
    if assessment.predicted is not None:
        layouts.append(assessment.predicted.layout)
        ratio = assessment.predicted.tokens_per_second_per_user / speed
        rows.append(("predicted for it", *_cells(assessment.predicted, f"{ratio:.2f} x speed")))
    for name, gap in _gaps(assessment).items():
        speed_ratio = "none is as cheap" if gap.speed_factor is None else f"{gap.speed_factor:.2f} x speed"
        cost_ratio = "none is as fast" if gap.cost_factor is None else f"{1 / gap.cost_factor:.2f} x cost"
        for kind, point, beside in (("cost", gap.faster, speed_ratio), ("speed", gap.cheaper, cost_ratio)):
            rows.append((f"{name}, equal {kind}", *_cells(point, beside, bound=gap is assessment.ideal)))
            layouts.append({} if point is None or gap is assessment.ideal else point.layout)
    columns = ("deployment", "tokens/s", "$/M output", "of measured", "GPUs", "layout", "batch", "MFU %")
    notes = tuple(doubts([assessment.setup], assessment.subjects()))
    least = ("engine", "batch", "MFU %")
    table = Table(
        frontiers_title([assessment.anywhere.frontier]), columns, tuple(rows), notes, findings(assessment), least
    )
    return with_engines(table, layouts, [assessment.setup])


def _gaps(assessment: Assessment, profile: str = "") -> dict[str, Gap]:
    """Gaps to the frontiers by their names for people, after that of the profile they are of, if it is wanted."""
    chips, of = chips_label(assessment.measured.instance_accelerators), f"{profile}, " if profile else ""
    names = f"{of}any size", f"{of}{chips}", f"ideal, {chips}"
    return dict(zip(names, _named_gaps(assessment).values(), strict=True))


def _named_gaps(assessment: Assessment) -> dict[str, Gap]:
    """Gaps to the frontiers by their names in records."""
    return {"any_size": assessment.anywhere, **attributes(assessment, "same_size ideal")}


def _cells(point: Deployment | None, ratio: str, *, bound: bool = False) -> tuple[str, ...]:
    if point is None:
        return ("-", "-", ratio, *"-" * 4)
    layout = "any" if bound else layout_label(point.layout)
    speed, cost = amount(point.tokens_per_second_per_user), dollars(point.dollars_per_million_output_tokens)
    return speed, cost, ratio, size(point.accelerators), layout, size(point.batch), f"{100 * point.mfu:.1f}"


def step_table(assessment: Assessment) -> Table | None:
    """The predicted step by part, with the share of each in the gap to the ideal one; None without a prediction."""
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
        for name, seconds, least in (*steps, ("in all", whole, ideal))
    ]
    columns = ("part", "ms", "ideal ms", "% of the gap to the ideal")
    predicted = assessment.predicted
    title = (
        f"Time per token as {assessment.setup.assumptions.name} has it: {layout_label(predicted.layout)} on "
        f"{chips_label(predicted.accelerators)}, batch {size(predicted.batch)}"
    )
    notes = (
        "Share of the time per token beyond that of the ideal step with the same GPUs and batch; less than nothing is "
        "unexplained where less was measured than is predicted.",
    )
    return Table(title, columns, tuple(rows), why=notes)


def assessment_record(assessment: Assessment) -> dict[str, object]:
    """An assessment as plain data."""
    gaps = _named_gaps(assessment)
    return {
        **facts(
            assessment.setup,
            *(*HEAD, "calibration", "weights", "activations", "kv", "context"),
            *(() if assessment.requests is None else ("isl", "osl", "cached", "shared_prefix")),
            requests=assessment.requests,
            calibration=calibration_record(*assessment.subjects()),
        ),
        "dollars_per_accelerator_hour": assessment.setup.dollars_per_accelerator_hour,
        "verdict": verdict_record(assessment),
        "measured": asdict(assessment.measured),
        "frontiers": {name: _gap_record(gap, fits=assessment.predicted is not None) for name, gap in gaps.items()},
        "predicted": _point_record(assessment.predicted, assessment.same_size),
        "parts": [
            attributes(part, "name seconds ideal_seconds")
            | {f"closes_of_{name}": part.closes(gap) for name, gap in gaps.items()}
            for part in assessment.parts
        ],
        "unexplained_seconds": assessment.unexplained_seconds,
        "shortage": asdict(assessment.shortage) if assessment.shortage else None,
        "findings": list(findings(assessment)),
        "sources": source_records(priced_sources(assessment.setup)),
    }


def _gap_record(gap: Gap, *, fits: bool) -> dict[str, object]:
    likely = gap.likely_seconds if fits else None
    return {
        **attributes(gap, "verdict speed_factor"),
        "tokens_per_second_lost": gap.speed_lost,
        "cost_factor": gap.cost_factor,
        "dollars_lost": gap.dollars_lost,
        "gap_seconds": gap.seconds,
        "on_it_seconds": gap.on_it_seconds,
        "on_it_seconds_low": None if likely is None else likely.low,
        "on_it_seconds_high": None if likely is None else likely.high,
        "beyond_uncertainty": gap.certain if fits else None,
        "equal_cost": _point_record(gap.faster, gap),
        "equal_speed": _point_record(gap.cheaper, gap),
    }


def verdict_record(assessment: Assessment) -> dict[str, object]:
    """The verdict as plain data: beside the prediction and the frontier, and what that rests on."""
    predicted, likely = assessment.predicted, assessment.likely_seconds
    return {
        "compared_with": "decode steps" if assessment.requests is None else "services",
        "beside_prediction": assessment.expected,
        "beside_frontier": assessment.anywhere.verdict,
        "measured_seconds": assessment.measured.seconds,
        "predicted_seconds": None if predicted is None else 1.0 / predicted.tokens_per_second_per_user,
        "predicted_seconds_low": None if likely is None else likely.low,
        "predicted_seconds_high": None if likely is None else likely.high,
        "layouts_tried": assessment.tried,
        "lines": list(verdict(assessment)),
    }


def _point_record(point: Deployment | None, gap: Gap) -> dict[str, object] | None:
    if point is None:
        return None
    follows = bounds.FULL if isinstance(point, SteadyService) else bounds.STEP
    return bounds.bounded(point.record(), bounds.ends(gap.instances(point), follows))


def assessment_frame(assessment: Assessment) -> Frame:
    """The measured point and every deployment beside it, one row each, seconds by part included."""
    measured = asdict(assessment.measured)
    measured |= {"unexplained_seconds": assessment.unexplained_seconds}
    rows: list[dict[str, object]] = [{"deployment": "measured", **measured}]
    points = {"predicted": (assessment.predicted, assessment.same_size)}
    for name, gap in _named_gaps(assessment).items():
        points |= {f"{name}_equal_cost": (gap.faster, gap), f"{name}_equal_speed": (gap.cheaper, gap)}
    for name, (point, gap) in points.items():
        row = _point_record(point, gap)
        if point is None or row is None:
            continue
        del row["layout"], row["seconds_per_token"]
        if isinstance(point, SteadyService):
            row["throughput"] = point.throughput
        parts = {f"{part}_seconds": seconds for part, seconds in point.parts.items()}
        throughput = point.batch * point.tokens_per_second_per_user
        rows.append({"deployment": name, "throughput": throughput, **row, **point.layout, **parts})
    return frame_of(rows)


def assessment_chart(assessment: Assessment) -> Plot:
    """The frontiers and the measured point, to be drawn."""
    measured, gaps = assessment.measured, _gaps(assessment, assessment.setup.assumptions.name)
    lines = [Series(label, gap.speeds.tolist(), gap.dollars.tolist()) for label, gap in gaps.items()]
    speed, cost = measured.tokens_per_second_per_user, measured.dollars_per_million_output_tokens
    point = Series(f"measured: {speed:g} tokens/s, ${dollars(cost)}", [speed], [cost], points=True)
    return Plot(
        f"How far is this server from what could be?\n{frontiers_title([assessment.anywhere.frontier])}",
        "tokens per second per user",
        "US dollars per million output tokens",
        (*lines, point),
        logarithmic="y",
        dollars="y",
    )
