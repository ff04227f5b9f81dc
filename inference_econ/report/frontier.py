"""Frontiers as tables and records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from inference_econ.answers.sources import sources
from inference_econ.report import caveats
from inference_econ.report.table import (
    PART_NAMES,
    Table,
    bounded_frame,
    dollars,
    formats_label,
    layout_label,
    remarks,
    size,
    source_records,
)
from inference_econ.search.every_plan import PlanTable
from inference_econ.search.frontier import Frontier, Point


def frontier_table(front: Frontier, rows: int = 14) -> Table:
    """A frontier for people: some points, evenly spaced in speed.

    Parameters
    ----------
    front : Frontier
        The frontier.
    rows : int
        Points to show at most [1].
    """
    speed = front.tokens_per_second
    wanted = np.linspace(speed[0], speed[-1], rows)
    shown = sorted({int(np.argmin(np.abs(speed - one))) for one in wanted} | {front.preferred_index()})
    best = front.preferred_index()
    lines, points = [], front.points(shown)
    for index, point in zip(shown, points, strict=True):
        lines.append(
            (
                f"{point.tokens_per_second_per_user:.1f}{' *' if index == best else ''}",
                dollars(point.dollars_per_million_output_tokens),
                size(point.accelerators),
                layout_label(point.layout),
                size(point.batch),
                f"{100 * point.mfu:.1f}",
                f"{100 * point.bandwidth_utilization:.1f}",
                PART_NAMES[point.limited_by],
            )
        )
    columns = ("tokens/s per user", "$/M output tokens", "GPUs", "layout", "batch", "MFU %", "MBU %", "mostly")
    return Table(frontier_title(front), columns, tuple(lines), frontier_notes(front, points))


def frontier_title(front: Frontier) -> str:
    """Model, hardware and formats in one line."""
    setup = front.setup
    precision = setup.precision
    return (
        f"{setup.model.name} on {setup.hardware.name}: {formats_label(precision)}, activations "
        f"{precision.activations}, KV {precision.kv}, context {setup.context:g}{_drafted(front)}, "
        f"${front.dollars_per_accelerator_hour:.4g} per GPU-hour"
    )


def _drafted(front: Frontier) -> str:
    return "" if front.speculation is None else f", {front.speculation.label}"


def frontier_notes(front: Frontier, points: Sequence[Point]) -> tuple[str, ...]:
    """What a reader must know about the numbers."""
    setup = front.setup
    notes = [
        f"{len(points)} of {len(front)} points; * maximises speed^3 / cost. Assumptions: {setup.assumptions.name}."
    ]
    if any(point.layout["dp"] != 1.0 for point in points):
        notes.append(
            "dp: groups of tp accelerators with sequences of their own; feed-forward blocks and experts are cut over "
            "all tp x dp of them: over ep ranks, and each expert over the rest."
        )
    return (*notes, *caveats.remarks(asked(front, points)), *remarks(setup))


def asked(front: Frontier, points: Sequence[Point], label: str = "") -> caveats.Asked:
    """Some points of a frontier, to be told how far off they may be."""
    return _asked(front, [point.accelerators for point in points], [point.batch for point in points], label)


def _asked(front: Frontier, sizes: Sequence[float], batches: Sequence[float], label: str = "") -> caveats.Asked:
    isl, osl = (None, None) if front.traffic is None else (front.traffic.isl, front.traffic.osl)
    return caveats.Asked(front.setup, sizes, batches, isl, osl, speculates=front.speculation is not None, label=label)


def _listed(front: Frontier, plans: PlanTable | None) -> caveats.Asked:
    """Every point of a frontier, or every plan that is listed instead."""
    sizes, batches = (front.accelerators, front.batch)
    if plans is not None:
        sizes, batches = plans.plans.accelerators, plans.plans.batch
    return _asked(front, sizes.tolist(), batches.tolist())


def ends(front: Frontier, plans: PlanTable | None = None) -> caveats.Ends:
    """How far off the points of a frontier may be, or every plan that is listed instead."""
    return caveats.ends(_listed(front, plans), caveats.STEP)


def assumed(fronts: Mapping[str, Frontier]) -> list[str]:
    """The assumptions of some series, and how far off their preferred points may be."""
    named = {label: front.setup.assumptions.name for label, front in fronts.items()}
    shown = [
        f"{name} ({', '.join(label for label, other in named.items() if other == name)})"
        for name in dict.fromkeys(named.values())
    ]
    text = next(iter(named.values())) if len(shown) == 1 else ", ".join(shown)
    found = [asked(front, [front.preferred()], label if len(fronts) > 1 else "") for label, front in fronts.items()]
    return [f"Assumptions: {text}.", *caveats.remarks(found)]


def frontier_record(front: Frontier, plans: PlanTable | None = None) -> dict[str, object]:
    """A frontier as plain data, the fastest point last; with every plan of its grid, if they are given."""
    setup, factors = front.setup, ends(front, plans)
    record: dict[str, object] = {
        "model": setup.model.name,
        "hardware": setup.hardware.name,
        "assumptions": setup.assumptions.name,
        "weights": setup.precision.weights,
        "expert_weights": setup.precision.experts,
        "activations": setup.precision.activations,
        "kv": setup.precision.kv,
        "formats": asdict(setup.precision),
        "math_unit": setup.unit(setup.precision.weights),
        "context": setup.context,
        "dollars_per_accelerator_hour": front.dollars_per_accelerator_hour,
        "speculation": None if front.speculation is None else front.speculation.record(),
        "calibration": caveats.calibration_record(_listed(front, plans)),
        "points": [caveats.bounded(point.record(), factors) for point in front.points()],
        "sources": source_records(sources(front)),
    }
    if plans is not None:
        every = [caveats.bounded(one, factors) for one in plans.records()]
        record |= {"plans": every, "infeasible": dict(plans.infeasible)}
    return record


def frontier_csv(front: Frontier, plans: PlanTable | None = None) -> str:
    """Every point of a frontier as CSV, or every plan of its grid, if they are given."""
    frame = front.to_frame() if plans is None else plans.to_frame()
    frame = bounded_frame(frame, ends(front, plans))
    return str(frame.to_csv(index=False, lineterminator="\n"))


def plans_table(plans: PlanTable) -> Table:
    """How many plans of a grid can run and how many of them are of use, and why the others cannot run."""
    dominated = int(plans.dominated.sum())
    counts = {
        "feasible, on the frontier": len(plans) - dominated,
        "feasible, dominated by another plan": dominated,
        **{f"infeasible: {reason}": count for reason, count in plans.infeasible.items()},
    }
    rows = tuple((what, f"{count:,}") for what, count in counts.items())
    total = len(plans) + sum(plans.infeasible.values())
    return Table(f"All {total:,} plans of the grid", ("plans", "count"), rows)
