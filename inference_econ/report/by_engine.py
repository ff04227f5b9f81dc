"""Intervals of predictions by engine and generation of chips: how many measured values they hold, how wide they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inference_econ.calibration import QUANTITIES, Quantity, Row, Servers, inside
from inference_econ.inputs import Assumptions, ErrorSpread, catalog, profiles
from inference_econ.inputs import Quantity as Fitted
from inference_econ.report.table import Table

#: Quantities by their names.
BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}
_HELD: Mapping[str, Fitted] = {"tpot": "tpot", "ttft_under_load": "ttft", "output_rate": "throughput"}
#: Names as their makers write them.
ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "atom": "ATOM"}
_LEGEND = (
    "Each cell: rows, how many of them lie in their interval, and the median of its highest over its lowest value. "
    "Left out: each deployment against an interval made from the others of its profile."
)
#: Rows with an interval, share of them that lies in it, and its highest over its lowest value, the median [1].
Held = dict[str, float | None]
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
    """Record of intervals by engine and generation of chips: of each quantity rows, share inside, median width."""
    lines = []
    for (engine, chips), rows in slices(report).items():
        parts = {"fitted": [row for row in rows if row.fitted], "not fitted": [row for row in rows if not row.fitted]}
        intervals = {which: {name: _held(part, BY_NAME[name]) for name in _HELD} for which, part in parts.items()}
        profile = next((row.assumptions for row in rows if row.assumptions is not None), None)
        intervals["left out"] = {name: _left_out(profile, fitted) for name, fitted in _HELD.items()}
        for which, cells in intervals.items():
            if any(cell["rows"] for cell in cells.values()):
                lines.append({"engine": engine, "chips": chips, "which": which, **cells})
    return lines


def _held(rows: Iterable[Row], quantity: Quantity) -> Held:
    where = inside(rows, quantity)
    share = where.held / where.known if where.known else None
    return {"rows": where.known, "inside": share, "width": where.width}


def _left_out(profile: Assumptions | None, name: Fitted) -> Held:
    """Intervals that a profile states for deployments that were left out, of all engines that it was fitted to."""
    errors: Mapping[Fitted, ErrorSpread] = {}
    if profile is not None and profile.calibration is not None:
        errors = profile.calibration.errors.get("traffic", {})
    if name not in errors or errors[name].covered is None:
        return {"rows": 0, "inside": None, "width": None}
    return {"rows": errors[name].own or errors[name].rows, "inside": errors[name].covered, "width": errors[name].width}


def _cell(intervals: Held) -> str:
    share, width = intervals["inside"], intervals["width"]
    return "" if share is None or width is None else f"{intervals['rows']}: {100 * share:.0f} %, {width:.2f}"
