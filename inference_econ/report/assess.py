"""A measured deployment beside what could be, as tables and as data."""

from __future__ import annotations

from dataclasses import asdict

from inference_econ.answers.assess import Assessment, Gap, StepPart
from inference_econ.answers.sources import sources
from inference_econ.report import caveats, frontier
from inference_econ.report.frontier import frontier_title
from inference_econ.report.table import PART_NAMES, Table, dollars, layout_label, size, source_records
from inference_econ.search.frontier import Point
from inference_econ.studies.exhibits import Chart, Line

#: A smaller share of the measured time is not worth a sentence [1].
_NOTABLE = 0.02


def assessment_table(found: Assessment) -> Table:
    """The measured point, what is predicted for it, and the deployments that are faster or cheaper."""
    measured = found.measured
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
    if found.predicted is not None:
        speed = found.predicted.tokens_per_second_per_user / measured.tokens_per_second_per_user
        rows.append(("predicted for it", *_cells(found.predicted, f"{speed:.2f} x speed")))
    for name, gap in _gaps(found).items():
        speed_ratio = "none is as cheap" if gap.speed_factor is None else f"{gap.speed_factor:.2f} x speed"
        cost_ratio = "none is as fast" if gap.cost_factor is None else f"{1 / gap.cost_factor:.2f} x cost"
        for kind, point, ratio in (("cost", gap.faster, speed_ratio), ("speed", gap.cheaper, cost_ratio)):
            rows.append((f"{name}, equal {kind}", *_cells(point, ratio, bound=gap is found.ideal)))
    columns = ("deployment", "tokens/s", "$/M output", "of measured", "GPUs", "layout", "batch", "MFU %")
    return Table(frontier_title(found.anywhere.frontier), columns, tuple(rows), findings(found))


def every_table(found: Assessment) -> tuple[Table, ...]:
    """The point among deployments, and its step."""
    step = step_table(found)
    return (assessment_table(found),) if step is None else (assessment_table(found), step)


def _gaps(found: Assessment) -> dict[str, Gap]:
    chips = _chips(found.measured.accelerators)
    return {"any size": found.anywhere, chips: found.same_size, f"ideal, {chips}": found.ideal}


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


def step_table(found: Assessment) -> Table | None:
    """The predicted step by part, with what each part alone could close of the gaps; None without a prediction."""
    if found.predicted is None:
        return None
    gaps = {"frontier": found.anywhere, "ideal": found.ideal}
    rows = [
        (
            PART_NAMES.get(part.name, part.name),
            f"{1e3 * part.seconds:.3f}",
            f"{1e3 * part.ideal_seconds:.3f}",
            *(f"{100 * part.closes(gap):.0f}" if gap.seconds > 0 else "-" for gap in gaps.values()),
        )
        for part in found.parts
    ]
    totals = (found.measured.seconds, sum(part.ideal_seconds for part in found.parts))
    rows.append(("in all", *(f"{1e3 * seconds:.3f}" for seconds in totals), "", ""))
    columns = ("part", "ms", "ideal ms", *(f"% of the gap to the {name}" for name in gaps))
    predicted = found.predicted
    title = (
        f"Time per token as {found.setup.assumptions.name} has it: {layout_label(predicted.layout)} on "
        f"{_chips(predicted.accelerators)}, batch {size(predicted.batch)}"
    )
    notes = (
        "Share of the gap in time per token, with the same GPUs and batch, that one part closes by itself when it "
        "shrinks to what it is in the ideal step.",
    )
    return Table(title, columns, tuple(rows), notes)


def findings(found: Assessment) -> tuple[str, ...]:
    """The answer in sentences."""
    measured = found.measured
    point = (
        f"Measured: {measured.tokens_per_second_per_user:g} tokens/s per user with a batch of "
        f"{size(round(measured.batch, 1))} on {_chips(measured.accelerators)}: {measured.throughput:,.0f} tokens/s in "
        f"all, {100 * measured.mfu:.1f} % of the peak, ${dollars(measured.dollars_per_million_output_tokens)} per "
        "million output tokens."
    )
    said = [point, *_impossible(found), _beside_frontier(found), *_certain(found), *_alike(found), _beside_ideal(found)]
    said += [text for text in (_unexplained(found), _lever(found), _prompts(found)) if text]
    largest = found.anywhere.frontier.grid.accelerators[-1]
    said.append(f"Assumptions: {found.setup.assumptions.name}. Any size: deployments of up to {largest:g} GPUs.")
    return (*said, *caveats.remarks(_asked(found)))


def _asked(found: Assessment) -> caveats.Asked:
    """The measured deployment, to be told how far off its prediction may be."""
    subject = found.anywhere.subject
    assert subject.accelerators is not None and subject.concurrency is not None
    return caveats.Asked(found.setup, [subject.accelerators], [subject.concurrency], subject.isl, subject.osl)


def _certain(found: Assessment) -> list[str]:
    """Whether the gap to the frontier is larger than errors of predictions are."""
    gap, likely = found.anywhere, found.anywhere.likely_seconds
    if likely is None or gap.verdict == "on" or found.shortage is not None:
        return []
    around = (
        f"with these GPUs and batch {100 * caveats.LEVEL:.0f} % of servers on the frontier of any size would "
        f"take {1e3 * likely.low:.4g} to {1e3 * likely.high:.4g} ms per token, and this one takes "
        f"{1e3 * gap.measured.seconds:.4g} ms"
    )
    if gap.certain:
        return [f"That is more than the profile itself is uncertain by: {around}."]
    return [f"The profile itself is uncertain by more than that: {around}."]


def _impossible(found: Assessment) -> list[str]:
    said, shortage, chips = [], found.shortage, _chips(found.measured.accelerators)
    if found.measured.mfu > 1.0:
        said.append(
            f"That is {100 * found.measured.mfu:.0f} % of what the arithmetic units of {chips} can do: the speed, the "
            "batch or throughput, the number format or the number of GPUs is not what it seems."
        )
    if shortage is not None:
        precision = found.setup.precision
        said.append(
            f"A batch of {size(round(shortage.batch, 1))} needs {shortage.needed_bytes / 1e9:.0f} GB, and {chips} have "
            f"{shortage.available_bytes / 1e9:.0f} GB: {shortage.most:,} sequences fit, and there is no prediction for "
            f"more. A cache narrower than {precision.kv}, weights narrower than {precision.weights}, shared prefixes "
            f"or a context shorter than {found.setup.context:g} would explain it, or waiting requests that were "
            "counted."
        )
    return said


def _beside_frontier(found: Assessment) -> str:
    gap, name = found.anywhere, found.setup.assumptions.name
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


def _alike(found: Assessment) -> list[str]:
    """How the point does among deployments of its size, where that is a better verdict."""
    gap, chips = found.same_size, _chips(found.measured.accelerators)
    if gap.verdict == found.anywhere.verdict:
        return []
    if gap.verdict == "on":
        return [
            f"Among deployments on {chips} it lies on the frontier, within 2 %: others need another number of GPUs."
        ]
    return [f"Among deployments on {chips} it is ahead of all: {_worse(gap)}."]


def _beside_ideal(found: Assessment) -> str:
    gap, chips = found.ideal, _chips(found.measured.accelerators)
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
        f"{gap.speed_lost:+.1f}{by[0]}), at this speed ${dollars(cheap.dollars_per_million_output_tokens)} "
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


def _unexplained(found: Assessment) -> str | None:
    left = found.unexplained_seconds
    if left is None:
        return None
    measured = found.measured.seconds
    predicted = f"Of {1e3 * measured:.2f} ms per token the profile predicts {1e3 * (measured - left):.2f} ms"
    likely = found.likely_seconds
    if likely is not None:
        predicted += f" ({1e3 * likely.low:.2f} to {1e3 * likely.high:.2f} ms in {100 * caveats.LEVEL:.0f} % of cases)"
    if abs(left) < _NOTABLE * measured:
        return f"{predicted}: nothing is unexplained."
    if left < 0:
        return f"{predicted}: the server is faster than predicted by {-1e3 * left:.2f} ms."
    return f"{predicted}; {1e3 * left:.2f} ms are unexplained: scheduler, sampling, prompts of other requests, kernels."


def _lever(found: Assessment) -> str | None:
    """The parts that close most of the gap to what can be reached, and else to the bound."""
    name, gap = ("frontier", found.anywhere) if found.anywhere.verdict == "behind" else ("ideal bound", found.ideal)
    levers = sorted(found.parts, key=lambda part: -part.closes(gap))[:2]
    named = [_closing(part, gap) for part in levers if part.closes(gap) >= _NOTABLE]
    if not named:
        return None
    return f"To the {name} {1e3 * gap.seconds:.2f} ms would have to go; alone could close of it: {', '.join(named)}."


def _closing(part: StepPart, gap: Gap) -> str:
    what = "the unexplained time" if part.name == "unexplained" else PART_NAMES[part.name]
    return f"{what} ({100 * part.closes(gap):.0f} %)"


def _prompts(found: Assessment) -> str | None:
    if found.prompt_seconds is None:
        return None
    share = found.prompt_seconds / found.measured.seconds
    return (
        f"Prompts of {found.traffic.isl:g} tokens for every {found.traffic.osl:g} of output are not in the step: read "
        f"on the same GPUs they would take {1e3 * found.prompt_seconds:.2f} ms per token, {100 * share:.0f} % of the "
        "measured time."
    )


def assessment_record(found: Assessment) -> dict[str, object]:
    """An assessment as plain data."""
    setup, front = found.setup, found.anywhere.frontier
    gaps = {"any_size": found.anywhere, "same_size": found.same_size, "ideal": found.ideal}
    return {
        "model": setup.model.name,
        "hardware": setup.hardware.name,
        "assumptions": setup.assumptions.name,
        "calibration": caveats.calibration_record(_asked(found)),
        "weights": setup.precision.weights,
        "activations": setup.precision.activations,
        "kv": setup.precision.kv,
        "context": setup.context,
        "dollars_per_accelerator_hour": front.dollars_per_accelerator_hour,
        "measured": asdict(found.measured),
        "frontiers": {name: _gap_record(gap, fits=found.shortage is None) for name, gap in gaps.items()},
        "predicted": _point_record(found.predicted, found.same_size),
        "parts": [
            {
                "name": part.name,
                "seconds": part.seconds,
                "ideal_seconds": part.ideal_seconds,
                **{f"closes_of_{name}": part.closes(gap) for name, gap in gaps.items()},
            }
            for part in found.parts
        ],
        "unexplained_seconds": found.unexplained_seconds,
        "prompt_seconds": found.prompt_seconds,
        "shortage": asdict(found.shortage) if found.shortage else None,
        "findings": list(findings(found)),
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
    return caveats.bounded(point.record(), caveats.ends(frontier.asked(gap.frontier, [point]), caveats.STEP))


def assessment_csv(found: Assessment) -> str:
    """The measured point and every deployment beside it as CSV, one row each, seconds by part included."""
    import pandas as pd

    measured = asdict(found.measured)
    measured |= {"unexplained_seconds": found.unexplained_seconds}
    rows: list[dict[str, object]] = [{"deployment": "measured", **measured}]
    points = {"predicted": found.predicted}
    for name, gap in (("any_size", found.anywhere), ("same_size", found.same_size), ("ideal", found.ideal)):
        points |= {f"{name}_equal_cost": gap.faster, f"{name}_equal_speed": gap.cheaper}
    for name, point in points.items():
        if point is None:
            continue
        row = point.record()
        del row["layout"], row["seconds_per_token"]
        parts = {f"{part}_seconds": seconds for part, seconds in point.parts.items()}
        throughput = point.batch * point.tokens_per_second_per_user
        rows.append({"deployment": name, **row, "throughput": throughput, **point.layout, **parts})
    return str(pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"))


def assessment_chart(found: Assessment) -> Chart:
    """The frontiers and the measured point, to be drawn."""
    measured, name = found.measured, found.setup.assumptions.name
    chips = _chips(measured.accelerators)
    gaps = {f"{name}, any size": found.anywhere, f"{name}, {chips}": found.same_size, f"ideal, {chips}": found.ideal}
    lines = [
        Line(label, gap.frontier.tokens_per_second.tolist(), gap.frontier.dollars.tolist())
        for label, gap in gaps.items()
    ]
    speed, cost = measured.tokens_per_second_per_user, measured.dollars_per_million_output_tokens
    point = Line(f"measured: {speed:g} tokens/s, ${dollars(cost)}", [speed], [cost], points=True)
    return Chart(
        frontier_title(found.anywhere.frontier),
        "tokens per second per user",
        "US dollars per million output tokens",
        (*lines, point),
        logarithmic="y",
    )
