"""Intervals of predictions by engine and generation of chips: how many measured values they hold, how wide they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inference_econ.calibration.spread import by_chance
from inference_econ.calibration.validation.rows import QUANTITIES, Quantity, Row, Servers
from inference_econ.calibration.validation.servers import inside, runs_of
from inference_econ.inputs import Assumptions, ErrorSpread, catalog, known_misfits, profiles
from inference_econ.inputs import Quantity as Fitted

#: Quantities by their names.
BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}
#: Quantities whose intervals are judged, by the names that profiles have.
JUDGED: Mapping[str, Fitted] = {"tpot": "tpot", "ttft_under_load": "ttft", "output_rate": "throughput"}
#: Names as their makers write them.
ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "atom": "ATOM"}
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
        intervals = {which: {name: _held(part, BY_NAME[name]) for name in JUDGED} for which, part in parts.items()}
        profile = next((row.assumptions for row in rows if row.assumptions is not None), None)
        fitted = [] if profile is None else behind.get(profile.name, [])
        intervals["left out"] = {name: _left_out(profile, name, fitted) for name in JUDGED}
        for which, cells in intervals.items():
            if any(cell["rows"] for cell in cells.values()):
                lines.append({"engine": engine, "chips": chips, "which": which, **cells})
    return lines


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
    spread = errors.get(JUDGED[name])
    if spread is None or spread.covered is None:
        return _NONE
    field = BY_NAME[name].field
    runs = runs_of(row for row in fitted if row.measurement is not None and getattr(row.measurement, field))
    chance = by_chance(runs) if runs else None
    return {"rows": spread.own or spread.rows, "inside": spread.covered, "width": spread.width, "by_chance": chance}
