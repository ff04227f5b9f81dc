"""Intervals of predictions by engine and generation of chips: how many measured values they hold, how wide they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inference_econ.calibration import QUANTITIES, Quantity, Row, Servers, by_chance, inside, runs_of
from inference_econ.inputs import Assumptions, ErrorSpread, catalog, known_misfits, profiles
from inference_econ.inputs import Quantity as Fitted
from inference_econ.report.table import Table

#: Quantities by their names.
BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}
_HELD: Mapping[str, Fitted] = {"tpot": "tpot", "ttft_under_load": "ttft", "output_rate": "throughput"}
#: Names as their makers write them.
ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "atom": "ATOM"}
_LEGEND = (
    "Each cell: rows, how many of them lie in their interval, between which shares that is in 19 of 20 samples where "
    "80 % is true, as rows of a deployment go together (off: it is not), and the median of an interval's highest "
    "over its lowest value. Left out: each deployment against an interval made from the others of its profile. No fact "
    "explains: series of scenarios/measured/misfits.yaml, of which whoever asks is told."
)
_UNEXPLAINED = "no fact explains"
#: Rows with an interval, share of them that lies in it, its highest over its lowest value (median), and between which
#: shares it would be by chance if 80 % were true [1].
Held = dict[str, Any]
_NONE: Held = {"rows": 0, "inside": None, "width": None, "by_chance": None}
#: Rows by engine and generation of chips.
Slices = Mapping[tuple[str, str], Sequence[Row]]


def slices(report: Servers) -> Slices:
    """Rows that count, of engines that are known on chips that some profile is of, by engine and generation."""
    parts: dict[tuple[str, str], list[Row]] = {}
    for row in report.counted():
        measured = row.measurement
        if measured is not None and measured.engine in ENGINES:
            generation = profiles.generation_of(catalog.hardware(measured.hardware))
            if generation:
                parts.setdefault((measured.engine, generation), []).append(row)
    return {key: parts[key] for key in sorted(parts)}


def held(report: Servers) -> Table:
    """Table of the share of measured values in the intervals of 80 %, and of the width of these, by engine and chips.

    Of rows that were and were not fitted, with the interval of each; and of deployments that were left out one after
    the other, as their profile says.
    """
    lines = tuple(
        (ENGINES[line["engine"]], line["chips"].capitalize(), line["which"], *(_cell(line[name]) for name in _HELD))
        for line in held_record(report)
    )
    columns = ("engine", "chips", "which", *(BY_NAME[name].title for name in _HELD))
    return Table("Intervals of 80 % by engine and generation of chips", columns, lines, (), (_LEGEND,))


def held_record(report: Servers) -> list[dict[str, Any]]:
    """Record of intervals by engine and generation of chips: of each quantity what :data:`Held` has."""
    behind: dict[str, list[Row]] = {}
    for row in report.counted():
        if row.fitted and row.assumptions is not None:
            behind.setdefault(row.assumptions.name, []).append(row)
    lines = []
    for (engine, chips), rows in slices(report).items():
        parts: dict[str, list[Row]] = {"fitted": [], "not fitted": [], _UNEXPLAINED: []}
        for row in rows:
            parts[_part(row)].append(row)
        intervals = {which: {name: _held(part, BY_NAME[name]) for name in _HELD} for which, part in parts.items()}
        profile = next((row.assumptions for row in rows if row.assumptions is not None), None)
        fitted = [] if profile is None else behind.get(profile.name, [])
        intervals["left out"] = {name: _left_out(profile, name, fitted) for name in _HELD}
        for which, cells in intervals.items():
            if any(cell["rows"] for cell in cells.values()):
                lines.append({"engine": engine, "chips": chips, "which": which, **cells})
    return lines


def of_chance(share: float, chance: tuple[float, float]) -> str:
    """Between which shares chance leaves what should be 80 %, and whether it explains one; in brackets."""
    low, high = chance
    return f" ({100 * low:.0f} to {100 * high:.0f}{'' if low <= share <= high else ': off'})"


def _part(row: Row) -> str:
    """Part of the table that a row counts in."""
    measured = row.measurement
    if row.fitted or measured is None:
        return "fitted"
    subject = (measured.engine, measured.model, measured.hardware)
    unexplained = any((misfit.engine, misfit.model, misfit.hardware) == subject for misfit in known_misfits())
    return _UNEXPLAINED if unexplained else "not fitted"


def _held(rows: Iterable[Row], quantity: Quantity) -> Held:
    where = inside(rows, quantity)
    if not where.known:
        return _NONE
    chance = by_chance(where.runs)
    return {"rows": where.known, "inside": where.held / where.known, "width": where.width, "by_chance": chance}


def _left_out(profile: Assumptions | None, name: str, fitted: Iterable[Row]) -> Held:
    """Intervals that a profile states for deployments that were left out, of all engines that it was fitted to."""
    errors: Mapping[Fitted, ErrorSpread] = {}
    if profile is not None and profile.calibration is not None:
        errors = profile.calibration.errors.get("traffic", {})
    spread = errors.get(_HELD[name])
    if spread is None or spread.covered is None:
        return _NONE
    field = BY_NAME[name].field
    runs = runs_of(row for row in fitted if row.measurement is not None and getattr(row.measurement, field))
    chance = by_chance(runs) if runs else None
    return {"rows": spread.own or spread.rows, "inside": spread.covered, "width": spread.width, "by_chance": chance}


def _cell(intervals: Held) -> str:
    share, width, chance = intervals["inside"], intervals["width"], intervals["by_chance"]
    if share is None or width is None:
        return ""
    return f"{intervals['rows']}: {100 * share:.0f} %{of_chance(share, chance) if chance else ''}, {width:.2f}"
