"""A measured deployment beside what could be, as tables and as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inference_econ.answers.assess import NAMES, Assessment, findings, verdict
from inference_econ.answers.notes import doubts, frontiers_title, subject_label
from inference_econ.answers.roofline_gap import ComparedPoint, Gap
from inference_econ.records.texts import amount, chips_label, dollars, layout_label, size
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, PlotSeries
from inference_econ.report.page import AnswerPage, Block, Headline, Pieces, Table
from inference_econ.report.service import with_engines


class AssessmentPage(AnswerPage[Assessment]):
    """A measured deployment beside what could be, ready to be shown."""

    def tables(self) -> Sequence[Table]:
        """The point among deployments, and its step if it was predicted."""
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
        columns = ("deployment", "tokens/s", "$/M output", "of measured", "GPUs", "layout", "batch", "MFU %")
        notes = tuple(doubts([self.answer.setup], self.answer.subjects()))
        least = ("engine", "batch", "MFU %")
        table = Table(
            frontiers_title([self.answer.anywhere.frontier]), columns, tuple(rows), notes, findings(self.answer), least
        )
        return [with_engines(table, layouts, [self.answer.setup]), *([] if step is None else [step])]

    def blocks(self) -> Sequence[Block]:
        """The verdict and what it rests on, before the tables."""
        return Headline(verdict(self.answer)), *self.tables()

    def markdown(self) -> str:
        """Markdown of the verdict and of the tables below it."""
        lines = "".join(f"{line}\n\n" for line in verdict(self.answer))
        return lines + super().markdown()

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


def _gaps(assessment: Assessment, profile: str = "") -> dict[str, Gap]:
    """Gaps to the frontiers by their names for people, after that of the profile they are of, if it is wanted."""
    chips, of = chips_label(assessment.measured.instance_accelerators), f"{profile}, " if profile else ""
    names = f"{of}any size", f"{of}{chips}", f"ideal, {chips}"
    return dict(zip(names, assessment.gaps.values(), strict=True))


def _cells(point: ComparedPoint | None, ratio: str, *, bound: bool = False) -> tuple[str, ...]:
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


def assessment_chart(assessment: Assessment) -> Plot:
    """The frontiers and the measured point, to be drawn."""
    measured, gaps = assessment.measured, _gaps(assessment, assessment.setup.assumptions.name)
    lines = [PlotSeries(label, gap.speeds.tolist(), gap.dollars.tolist()) for label, gap in gaps.items()]
    speed, cost = measured.tokens_per_second_per_user, measured.dollars_per_million_output_tokens
    point = PlotSeries(f"measured: {speed:g} tokens/s, ${dollars(cost)}", [speed], [cost], points=True)
    return Plot(
        f"How far is this server from what could be?\n{frontiers_title([assessment.anywhere.frontier])}",
        "tokens per second per user",
        "US dollars per million output tokens",
        (*lines, point),
        logarithmic="y",
        dollars="y",
    )
