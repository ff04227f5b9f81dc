"""Errors of predictions by engine and generation of chips: the table that a reader starts with, and its pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from inference_econ.calibration import Accuracy, Quantity, Row, Servers, by_chance, inside, layout_of, overall, runs_of
from inference_econ.inputs import Assumptions, ErrorSpread, UnseenErrors, catalog, known_misfits, percent, profiles
from inference_econ.inputs import Quantity as Fitted
from inference_econ.report.held_out import BY_NAME, ENOUGH, of_chance, reason_of
from inference_econ.report.table import Table

_TPOT, _TTFT = BY_NAME["tpot"], BY_NAME["ttft_under_load"]
_SHOWN: tuple[tuple[Quantity, Fitted], ...] = ((_TPOT, "tpot"), (_TTFT, "ttft"))
_RATE = BY_NAME["output_rate"]
_HELD: tuple[tuple[Quantity, Fitted], ...] = (*_SHOWN, (_RATE, "throughput"))
#: Names as their makers write them.
ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "atom": "ATOM"}
#: Fitted to all engines and chips together; its fits that left subjects out are those of the column "unseen".
_ALL = "profiles/servers"

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


def overview(report: Servers) -> Table:
    """Errors by engine and generation of chips: of rows that were fitted, and of fits that had not seen their like."""
    unseen = _unseen(catalog.assumptions(_ALL))
    lines = []
    for key, rows in slices(report).items():
        fitted = [row for row in rows if row.fitted]
        pairs = ((_seen(fitted, quantity), _left_out(unseen.get(key), name)) for quantity, name in _SHOWN)
        cells = [cell for pair in pairs for cell in pair]
        if any(cells):
            lines.append((ENGINES[key[0]], key[1].capitalize(), str(len(rows)), *cells))
    heads = (f"{quantity.title}, {which}" for quantity, _ in _SHOWN for which in ("fitted", "unseen"))
    return Table("", ("engine", "chips", "rows", *heads), tuple(lines))


def _unseen(everything: Assumptions) -> dict[tuple[str, str], UnseenErrors]:
    unseen = () if everything.calibration is None else everything.calibration.unseen
    return {(errors.engine, errors.generation): errors for errors in unseen}


def _seen(rows: Iterable[Row], quantity: Quantity) -> str:
    accuracy = overall(rows, quantity)
    if accuracy is None or accuracy.median is None or accuracy.p90 is None:
        return ""
    return f"{percent(accuracy.median)}, {percent(accuracy.p90)}"


def _left_out(errors: UnseenErrors | None, name: Fitted) -> str:
    if errors is None or name not in errors.medians:
        return ""
    return f"{percent(errors.medians[name])}, {percent(errors.p90s[name])}"


def held(report: Servers) -> Table:
    """Table of the share of measured values in the intervals of 80 %, and of the width of these, by engine and chips.

    Of rows that were and were not fitted, with the interval of each; and of deployments that were left out one after
    the other, as their profile says.
    """
    lines = []
    for line in _held_lines(report):
        cells = (_held_cell(line[quantity.name]) for quantity, _ in _HELD)
        lines.append((ENGINES[line["engine"]], line["chips"].capitalize(), line["which"], *cells))
    columns = ("engine", "chips", "which", *(quantity.title for quantity, _ in _HELD))
    return Table("Intervals of 80 % by engine and generation of chips", columns, tuple(lines), (), (_HELD_LEGEND,))


_HELD_LEGEND = (
    "Each cell: rows, how many of them lie in their interval, between which shares that is in 19 of 20 samples where "
    "80 % is true, as rows of a deployment go together (off: it is not), and the median of an interval's highest "
    "over its lowest value. Left out: each deployment against an interval made from the others of its profile. No fact "
    "explains: series of scenarios/measured/misfits.yaml, of which whoever asks is told."
)
_UNEXPLAINED = "no fact explains"


def held_record(report: Servers) -> list[dict[str, Any]]:
    """Record of intervals by engine and generation of chips: of each quantity rows, share inside, median width."""
    return [
        {key: value._asdict() if isinstance(value, _Held) else value for key, value in line.items()}
        for line in _held_lines(report)
    ]


class _Held(NamedTuple):
    """Intervals of a quantity."""

    rows: int
    """With an interval [1]."""
    inside: float | None
    """Share of them that lies in it [1]."""
    width: float | None
    """Highest over lowest value, the median [1]."""
    by_chance: tuple[float, float] | None
    """Between which shares it would be by chance if 80 % were true [1]."""


_NONE = _Held(0, None, None, None)


def _held_lines(report: Servers) -> Iterator[dict[str, Any]]:
    fitted: dict[str, list[Row]] = {}
    for row in report.counted():
        if row.fitted and row.assumptions is not None:
            fitted.setdefault(row.assumptions.name, []).append(row)
    for (engine, chips), rows in slices(report).items():
        parts: dict[str, list[Row]] = {"fitted": [], "not fitted": [], _UNEXPLAINED: []}
        for row in rows:
            parts[_which(row)].append(row)
        intervals = {
            which: {quantity.name: _held(part, quantity) for quantity, _ in _HELD} for which, part in parts.items()
        }
        profile = next((row.assumptions for row in rows if row.assumptions is not None), None)
        behind = [] if profile is None else fitted.get(profile.name, [])
        intervals["left out"] = {
            quantity.name: _left_out_held(profile, quantity, name, behind) for quantity, name in _HELD
        }
        for which, cells in intervals.items():
            if any(cell.rows for cell in cells.values()):
                yield {"engine": engine, "chips": chips, "which": which, **cells}


def _which(row: Row) -> str:
    """Part of the table that a row counts in."""
    measured = row.measurement
    if row.fitted or measured is None:
        return "fitted"
    subject = (measured.engine, measured.model, measured.hardware)
    unexplained = any((misfit.engine, misfit.model, misfit.hardware) == subject for misfit in known_misfits())
    return _UNEXPLAINED if unexplained else "not fitted"


def _held(rows: Iterable[Row], quantity: Quantity) -> _Held:
    where = inside(rows, quantity)
    return _Held(where.known, where.held / where.known, where.width, by_chance(where.runs)) if where.known else _NONE


def _left_out_held(profile: Assumptions | None, quantity: Quantity, name: Fitted, fitted: Sequence[Row]) -> _Held:
    """Intervals that a profile states for deployments that were left out, of all engines that it was fitted to."""
    errors: Mapping[Fitted, ErrorSpread] = {}
    if profile is not None and profile.calibration is not None:
        errors = profile.calibration.errors.get("traffic", {})
    if name not in errors or errors[name].covered is None:
        return _NONE
    runs = runs_of(row for row in fitted if row.measurement is not None and getattr(row.measurement, quantity.field))
    chance = by_chance(runs) if runs else None
    return _Held(errors[name].own or errors[name].rows, errors[name].covered, errors[name].width, chance)


def _held_cell(intervals: _Held) -> str:
    if intervals.inside is None or intervals.width is None:
        return ""
    chance = "" if intervals.by_chance is None else of_chance(intervals.inside, intervals.by_chance)
    return f"{intervals.rows}: {100 * intervals.inside:.0f} %{chance}, {intervals.width:.2f}"


def links(report: Servers, folder: str) -> list[str]:
    """Items of a list with the :func:`pages`, which lie in a folder beside the document."""
    return [f"- [{_title(*key)}]({folder}/{_name(*key)}.md)" for key in slices(report)]


def _title(engine: str, generation: str) -> str:
    return f"{ENGINES[engine]} on {generation.capitalize()}"


def _name(engine: str, generation: str) -> str:
    return f"{engine}_{generation}"


def pages(report: Servers) -> Iterator[tuple[str, str]]:
    """A page for each engine and generation: its name, and Markdown with its series, the worst ones first."""
    for (engine, generation), rows in slices(report).items():
        text = "\n\n".join((f"# {_title(engine, generation)}", _PAGE, series(rows).markdown().rstrip()))
        yield _name(engine, generation), text + "\n"


_PAGE = """\
Series of measured servers: a model on a chip in one layout, under requests of the same lengths. The worst TPOT comes
first; errors are medians over the concurrencies of a series, with their bias. What a series is unlike in is in
comparison with the rows that its profile was fitted to; "in what was measured" means that no reason is known: an effect
is missing, or the rows are odd. Generated with [the report](../validation.md)."""


def series(rows: Sequence[Row]) -> Table:
    """Errors by model, chip, version, layout and lengths, of series of several rows, the worst first."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(_series_of(row), []).append(row)
    scored = [(overall(part, _TPOT), key, part) for key, part in groups.items() if len(part) >= ENOUGH]
    medians = [(tpot, key, part) for tpot, key, part in scored if tpot is not None and tpot.median is not None]
    lines = [
        (*key, str(len(part)), _error(tpot), _error(overall(part, _TTFT)), reason_of(part))
        for tpot, key, part in sorted(medians, key=lambda entry: -(entry[0].median or 0.0))
    ]
    columns = ("model", "chip", "version", "layout", "isl/osl", "rows", "TPOT, bias", "TTFT, bias", "unlike in")
    return Table("", columns, tuple(lines))


def _series_of(row: Row) -> tuple[str, ...]:
    measured = row.measurement
    assert measured is not None
    lengths = "/".join("-" if length is None else f"{length:g}" for length in (measured.isl, measured.osl))
    return measured.model, measured.hardware, measured.engine_version or "-", layout_of(measured) or "-", lengths


def _error(accuracy: Accuracy | None) -> str:
    if accuracy is None or accuracy.median is None or accuracy.bias is None:
        return ""
    return f"{percent(accuracy.median)}, {percent(accuracy.bias, sign=True)}"
