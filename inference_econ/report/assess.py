"""A measured deployment beside what could be, as tables and as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from inference_econ.answers.assess import Assessment, Gap, StepPart
from inference_econ.answers.sources import sources
from inference_econ.report import caveats
from inference_econ.report.frontier import frontier_title
from inference_econ.report.page import Page
from inference_econ.report.record import HEAD, facts, source_records
from inference_econ.report.startable import startable_notes, with_engines
from inference_econ.report.table import PART_NAMES, Table, dollars, layout_label, size
from inference_econ.search import Point
from inference_econ.studies.exhibits import Chart, Line

if TYPE_CHECKING:
    import pandas as pd

#: A smaller share of the measured time is not worth a sentence [1].
_NOTABLE = 0.02


@dataclass(frozen=True)
class AssessmentPage(Page):
    """A measured deployment beside what could be, ready to be shown."""

    assessment: Assessment

    def tables(self) -> Sequence[Table]:
        """The point among deployments, and its step."""
        return assessment_tables(self.assessment)

    def record(self) -> object:
        """Gaps, parts of the step, and findings."""
        return assessment_record(self.assessment)

    def frame(self) -> pd.DataFrame:
        """The measured point and every deployment beside it."""
        return assessment_frame(self.assessment)

    def draw(self, path: str) -> None:
        """Draw the frontiers and the measured point."""
        from inference_econ.report import figures

        figures.draw_chart(assessment_chart(self.assessment), path)


def assessment_table(assessment: Assessment) -> Table:
    """The measured point, what is predicted for it, and the deployments that are faster or cheaper."""
    measured = assessment.measured
    rows: list[tuple[str, ...]] = [
        (
            "measured",
            f"{measured.tokens_per_second_per_user:.1f}",
            dollars(measured.dollars_per_million_output_tokens),
            "",
            f"{measured.accelerators}",
            "",
            size(round(measured.batch, 1)),
            f"{100 * measured.mfu:.1f}",
        )
    ]
    layouts: list[Mapping[str, float | str]] = [{}]
    if assessment.predicted is not None:
        layouts.append(assessment.predicted.layout)
        speed = assessment.predicted.tokens_per_second_per_user / measured.tokens_per_second_per_user
        rows.append(("predicted for it", *_cells(assessment.predicted, f"{speed:.2f} x speed")))
    for name, gap in _gaps(assessment).items():
        speed_ratio = "none is as cheap" if gap.speed_factor is None else f"{gap.speed_factor:.2f} x speed"
        cost_ratio = "none is as fast" if gap.cost_factor is None else f"{1 / gap.cost_factor:.2f} x cost"
        for kind, point, ratio in (("cost", gap.faster, speed_ratio), ("speed", gap.cheaper, cost_ratio)):
            rows.append((f"{name}, equal {kind}", *_cells(point, ratio, bound=gap is assessment.ideal)))
            layouts.append({} if point is None or gap is assessment.ideal else point.layout)
    columns = ("deployment", "tokens/s", "$/M output", "of measured", "GPUs", "layout", "batch", "MFU %")
    table = Table(frontier_title(assessment.anywhere.frontier), columns, tuple(rows), findings(assessment))
    return with_engines(table, layouts, [assessment.setup])


def assessment_tables(assessment: Assessment) -> tuple[Table, ...]:
    """The point among deployments, and its step."""
    step = step_table(assessment)
    return (assessment_table(assessment),) if step is None else (assessment_table(assessment), step)


def _gaps(assessment: Assessment) -> dict[str, Gap]:
    chips = _chips(assessment.measured.accelerators)
    return {"any size": assessment.anywhere, chips: assessment.same_size, f"ideal, {chips}": assessment.ideal}


def _chips(count: float) -> str:
    return f"{count:g} GPU" + ("s" if count > 1 else "")


def _cells(point: Point | None, ratio: str, *, bound: bool = False) -> tuple[str, ...]:
    if point is None:
        return ("-", "-", ratio, *("-" for _ in range(4)))
    return (
        f"{point.tokens_per_second_per_user:.1f}",
        dollars(point.dollars_per_million_output_tokens),
        ratio,
        size(point.accelerators),
        "any" if bound else layout_label(point.layout),
        size(point.batch),
        f"{100 * point.mfu:.1f}",
    )


def step_table(assessment: Assessment) -> Table | None:
    """The predicted step by part, with what each part alone could close of the gaps; None without a prediction."""
    if assessment.predicted is None:
        return None
    gaps = {"frontier": assessment.anywhere, "ideal": assessment.ideal}
    rows = [
        (
            PART_NAMES.get(part.name, part.name),
            f"{1e3 * part.seconds:.3f}",
            f"{1e3 * part.ideal_seconds:.3f}",
            *(f"{100 * part.closes(gap):.0f}" if gap.seconds > 0 else "-" for gap in gaps.values()),
        )
        for part in assessment.parts
    ]
    totals = (assessment.measured.seconds, sum(part.ideal_seconds for part in assessment.parts))
    rows.append(("in all", *(f"{1e3 * seconds:.3f}" for seconds in totals), "", ""))
    columns = ("part", "ms", "ideal ms", *(f"% of the gap to the {name}" for name in gaps))
    predicted = assessment.predicted
    title = (
        f"Time per token as {assessment.setup.assumptions.name} has it: {layout_label(predicted.layout)} on "
        f"{_chips(predicted.accelerators)}, batch {size(predicted.batch)}"
    )
    notes = (
        "Share of the gap in time per token, with the same GPUs and batch, that one part closes by itself when it "
        "shrinks to what it is in the ideal step.",
    )
    return Table(title, columns, tuple(rows), notes)


def findings(assessment: Assessment) -> tuple[str, ...]:
    """The answer in sentences."""
    measured = assessment.measured
    point = (
        f"Measured: {measured.tokens_per_second_per_user:g} tokens/s per user with a batch of "
        f"{size(round(measured.batch, 1))} on {_chips(measured.accelerators)}: {measured.throughput:,.0f} tokens/s in "
        f"all, {100 * measured.mfu:.1f} % of the peak, ${dollars(measured.dollars_per_million_output_tokens)} per "
        "million output tokens."
    )
    said = [
        point,
        *_impossible(assessment),
        _beside_frontier(assessment),
        *_certain(assessment),
        *_alike(assessment),
        _beside_ideal(assessment),
    ]
    said += [text for text in (_unexplained(assessment), _lever(assessment), _prompts(assessment)) if text]
    largest = assessment.anywhere.frontier.grid.accelerators[-1]
    said.append(f"Assumptions: {assessment.setup.assumptions.name}. Any size: deployments of up to {largest:g} GPUs.")
    return (*said, *startable_notes([assessment.setup]), *caveats.remarks(assessment.subjects()))


def _certain(assessment: Assessment) -> list[str]:
    """Whether the gap to the frontier is larger than errors of predictions are."""
    gap, likely = assessment.anywhere, assessment.anywhere.likely_seconds
    if likely is None or gap.verdict == "on" or assessment.shortage is not None:
        return []
    around = (
        f"with these GPUs and batch {100 * caveats.LEVEL:.0f} % of servers on the frontier of any size would "
        f"take {1e3 * likely.low:.4g} to {1e3 * likely.high:.4g} ms per token, and this one takes "
        f"{1e3 * gap.measured.seconds:.4g} ms"
    )
    if gap.certain:
        return [f"That is more than the profile itself is uncertain by: {around}."]
    return [f"The profile itself is uncertain by more than that: {around}."]


def _impossible(assessment: Assessment) -> list[str]:
    said, shortage, chips = [], assessment.shortage, _chips(assessment.measured.accelerators)
    if assessment.measured.mfu > 1.0:
        said.append(
            f"That is {100 * assessment.measured.mfu:.0f} % of what the arithmetic units of {chips} can do: the "
            "speed, the "
            "batch or throughput, the number format or the number of GPUs is not what it seems."
        )
    if shortage is not None:
        precision = assessment.setup.precision
        said.append(
            f"A batch of {size(round(shortage.batch, 1))} needs {shortage.needed_bytes / 1e9:.0f} GB, and {chips} have "
            f"{shortage.available_bytes / 1e9:.0f} GB: {shortage.most:,} sequences fit, and there is no prediction for "
            f"more. A cache narrower than {precision.kv}, weights narrower than {precision.weights}, shared prefixes "
            f"or a context shorter than {assessment.setup.context:g} would explain it, or waiting requests that were "
            "counted."
        )
    return said


def _beside_frontier(assessment: Assessment) -> str:
    gap, name = assessment.anywhere, assessment.setup.assumptions.name
    if gap.verdict == "on":
        return f"It lies on the frontier of {name}, within 2 %."
    if gap.verdict == "behind":
        return f"It lies behind the frontier of {name}: {_better(gap, named=True)}."
    return (
        f"It is better than every deployment under {name}: {_worse(gap)}. Either the server does better than the "
        "profile assumes (kernels, overlap), speculates (several tokens per step) or shares prefixes (less cache to "
        "read), or an input is off: number format, context, number of GPUs, or what was counted as batch or "
        "utilisation."
    )


def _alike(assessment: Assessment) -> list[str]:
    """How the point does among deployments of its size, where that is a better verdict."""
    gap, chips = assessment.same_size, _chips(assessment.measured.accelerators)
    if gap.verdict == assessment.anywhere.verdict:
        return []
    if gap.verdict == "on":
        return [
            f"Among deployments on {chips} it lies on the frontier, within 2 %: others need another number of GPUs."
        ]
    return [f"Among deployments on {chips} it is ahead of all: {_worse(gap)}."]


def _beside_ideal(assessment: Assessment) -> str:
    gap, chips = assessment.ideal, _chips(assessment.measured.accelerators)
    if gap.verdict == "behind":
        return f"The ideal bound for {chips} (full peaks, free communication, no launches): {_better(gap)}."
    if gap.verdict == "on":
        return f"It lies on the ideal bound for {chips}, within 2 %: nothing is left to gain but by speculation."
    return (
        f"It is better than the ideal bound for {chips}: {_worse(gap)}. Only speculation or shared prefixes allow "
        "that; without them an input is wrong: a narrower number format, a shorter context, more GPUs, a batch that "
        "counts waiting requests, or a throughput that counts prompts."
    )


def _better(gap: Gap, *, named: bool = False) -> str:
    """What a frontier offers to a point behind it, with the deployments that do it if they are to be named."""
    fast, cheap = gap.faster, gap.cheaper
    assert fast is not None and cheap is not None and gap.cost_factor is not None
    by = [f", by {_deployment(point)}" if named else "" for point in (fast, cheap)]
    return (
        f"at this cost {fast.tokens_per_second_per_user:.1f} tokens/s ({gap.speed_factor:.2f} times as fast, "
        f"{gap.speed_lost:+z.1f}{by[0]}), at this speed ${dollars(cheap.dollars_per_million_output_tokens)} "
        f"({1 / gap.cost_factor:.2f} times the cost, ${dollars(gap.dollars_lost or 0.0)} less{by[1]})"
    )


def _deployment(point: Point) -> str:
    return f"{layout_label(point.layout)} on {_chips(point.accelerators)} with a batch of {size(point.batch)}"


def _worse(gap: Gap) -> str:
    """What a frontier offers to a point ahead of it."""
    at_cost, at_speed = "nothing is as cheap", "nothing is as fast"
    if gap.faster is not None:
        at_cost = f"at this cost {gap.faster.tokens_per_second_per_user:.1f} tokens/s at most"
    if gap.cheaper is not None:
        at_speed = f"at this speed ${dollars(gap.cheaper.dollars_per_million_output_tokens)} at least"
    return f"{at_cost}, {at_speed}"


def _unexplained(assessment: Assessment) -> str | None:
    left = assessment.unexplained_seconds
    if left is None:
        return None
    measured = assessment.measured.seconds
    predicted = f"Of {1e3 * measured:.2f} ms per token the profile predicts {1e3 * (measured - left):.2f} ms"
    likely = assessment.likely_seconds
    if likely is not None:
        predicted += f" ({1e3 * likely.low:.2f} to {1e3 * likely.high:.2f} ms in {100 * caveats.LEVEL:.0f} % of cases)"
    if abs(left) < _NOTABLE * measured:
        return f"{predicted}: nothing is unexplained."
    if left < 0:
        return f"{predicted}: the server is faster than predicted by {-1e3 * left:.2f} ms."
    return f"{predicted}; {1e3 * left:.2f} ms are unexplained: scheduler, sampling, prompts of other requests, kernels."


def _lever(assessment: Assessment) -> str | None:
    """The parts that close most of the gap to what can be reached, and else to the bound."""
    name, gap = (
        ("frontier", assessment.anywhere)
        if assessment.anywhere.verdict == "behind"
        else ("ideal bound", assessment.ideal)
    )
    levers = sorted(assessment.parts, key=lambda part: -part.closes(gap))[:2]
    named = [_closing(part, gap) for part in levers if part.closes(gap) >= _NOTABLE]
    if not named:
        return None
    return f"To the {name} {1e3 * gap.seconds:.2f} ms would have to go; alone could close of it: {', '.join(named)}."


def _closing(part: StepPart, gap: Gap) -> str:
    what = "the unexplained time" if part.name == "unexplained" else PART_NAMES[part.name]
    return f"{what} ({100 * part.closes(gap):.0f} %)"


def _prompts(assessment: Assessment) -> str | None:
    if assessment.prompt_seconds is None:
        return None
    traffic, milliseconds = assessment.traffic, 1e3 * assessment.prompt_seconds
    share = assessment.prompt_seconds / assessment.measured.seconds
    return (
        f"Prompts of {traffic.isl:g} tokens for every {traffic.osl:g} of output are not in the step: read "
        f"on the same GPUs they would take {milliseconds:.2f} ms per token, {100 * share:.0f} % of the "
        "measured time."
    )


def assessment_record(assessment: Assessment) -> dict[str, object]:
    """An assessment as plain data."""
    front = assessment.anywhere.frontier
    gaps = {"any_size": assessment.anywhere, "same_size": assessment.same_size, "ideal": assessment.ideal}
    return {
        **facts(
            assessment.setup,
            *(*HEAD, "calibration", "weights", "activations", "kv", "context"),
            calibration=caveats.calibration_record(*assessment.subjects()),
        ),
        "dollars_per_accelerator_hour": front.dollars_per_accelerator_hour,
        "measured": asdict(assessment.measured),
        "frontiers": {name: _gap_record(gap, fits=assessment.shortage is None) for name, gap in gaps.items()},
        "predicted": _point_record(assessment.predicted, assessment.same_size),
        "parts": [
            {
                "name": part.name,
                "seconds": part.seconds,
                "ideal_seconds": part.ideal_seconds,
                **{f"closes_of_{name}": part.closes(gap) for name, gap in gaps.items()},
            }
            for part in assessment.parts
        ],
        "unexplained_seconds": assessment.unexplained_seconds,
        "prompt_seconds": assessment.prompt_seconds,
        "shortage": asdict(assessment.shortage) if assessment.shortage else None,
        "findings": list(findings(assessment)),
        "sources": source_records(sources(front)),
    }


def _gap_record(gap: Gap, *, fits: bool) -> dict[str, object]:
    likely = gap.likely_seconds if fits else None
    return {
        "verdict": gap.verdict,
        "speed_factor": gap.speed_factor,
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


def _point_record(point: Point | None, gap: Gap) -> dict[str, object] | None:
    if point is None:
        return None
    return caveats.bounded(point.record(), caveats.ends(*gap.frontier.subjects([point]), caveats.STEP))


def assessment_frame(assessment: Assessment) -> pd.DataFrame:
    """The measured point and every deployment beside it, one row each, seconds by part included."""
    import pandas as pd

    measured = asdict(assessment.measured)
    measured |= {"unexplained_seconds": assessment.unexplained_seconds}
    rows: list[dict[str, object]] = [{"deployment": "measured", **measured}]
    points = {"predicted": (assessment.predicted, assessment.same_size)}
    for name, gap in (
        ("any_size", assessment.anywhere),
        ("same_size", assessment.same_size),
        ("ideal", assessment.ideal),
    ):
        points |= {f"{name}_equal_cost": (gap.faster, gap), f"{name}_equal_speed": (gap.cheaper, gap)}
    for name, (point, gap) in points.items():
        row = _point_record(point, gap)
        if point is None or row is None:
            continue
        del row["layout"], row["seconds_per_token"]
        parts = {f"{part}_seconds": seconds for part, seconds in point.parts.items()}
        throughput = point.batch * point.tokens_per_second_per_user
        rows.append({"deployment": name, **row, "throughput": throughput, **point.layout, **parts})
    return pd.DataFrame(rows)


def assessment_chart(assessment: Assessment) -> Chart:
    """The frontiers and the measured point, to be drawn."""
    measured, name = assessment.measured, assessment.setup.assumptions.name
    chips = _chips(measured.accelerators)
    gaps = {
        f"{name}, any size": assessment.anywhere,
        f"{name}, {chips}": assessment.same_size,
        f"ideal, {chips}": assessment.ideal,
    }
    lines = [
        Line(label, gap.frontier.tokens_per_second.tolist(), gap.frontier.dollars.tolist())
        for label, gap in gaps.items()
    ]
    speed, cost = measured.tokens_per_second_per_user, measured.dollars_per_million_output_tokens
    point = Line(f"measured: {speed:g} tokens/s, ${dollars(cost)}", [speed], [cost], points=True)
    return Chart(
        frontier_title(assessment.anywhere.frontier),
        "tokens per second per user",
        "US dollars per million output tokens",
        (*lines, point),
        logarithmic="y",
    )
