"""Errors by engine and chip generation: an overview table, and pages of series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.validation.held_out import ENOUGH, SERVERS_PROFILE, errors_text, reason_of
from inference_econ.extras.servers import InputRow, Quantity, Servers, layout_of, overall
from inference_econ.extras.servers.validation.servers import BY_NAME, slices
from inference_econ.inputs import Quantity as Fitted
from inference_econ.inputs import UnseenErrors, catalog, percent
from inference_econ.records.texts import ENGINE_NAMES
from inference_econ.report.page import Table

_TPOT, _TTFT = BY_NAME["tpot"], BY_NAME["ttft_under_load"]
_SHOWN: tuple[tuple[Quantity, Fitted], ...] = ((_TPOT, "tpot"), (_TTFT, "ttft"))


def overview(report: Servers) -> Table:
    """Table of errors by engine and chip generation, in-sample and cross-validated."""
    calibration = catalog.assumptions(SERVERS_PROFILE).calibration
    unseen = {} if calibration is None else {(part.engine, part.generation): part for part in calibration.unseen}
    lines = []
    for key, rows in slices(report).items():
        fitted = [row for row in rows if row.fitted]
        pairs = ((errors_text(overall(fitted, quantity)), left_out(unseen.get(key), name)) for quantity, name in _SHOWN)
        cells = [cell for pair in pairs for cell in pair]
        if any(cells):
            lines.append((ENGINE_NAMES[key[0]], key[1].capitalize(), str(len(rows)), *cells))
    heads = (f"{quantity.title}, {which}" for quantity, _ in _SHOWN for which in ("fitted", "unseen"))
    return Table("", ("engine", "chips", "rows", *heads), tuple(lines))


def left_out(errors: UnseenErrors | None, name: Fitted) -> str:
    """Median and 90th percentile of cross-validated errors of an engine on a chip generation."""
    if errors is None or name not in errors.medians:
        return ""
    return f"{percent(errors.medians[name])}, {percent(errors.p90s[name])}"


def links(report: Servers, folder: str) -> list[str]:
    """Links to :func:`pages` in a folder next to the document."""
    return [f"[{_title(*key)}]({folder}/{_name(*key)}.md)" for key in slices(report)]


def _title(engine: str, generation: str) -> str:
    return f"{ENGINE_NAMES[engine]} on {generation.capitalize()}"


def _name(engine: str, generation: str) -> str:
    return f"{engine}_{generation}"


def pages(report: Servers) -> Iterator[tuple[str, str]]:
    """Page for each engine and generation: its name, and Markdown with its series, worst first."""
    for (engine, generation), rows in slices(report).items():
        text = "\n\n".join((f"# {_title(engine, generation)}", _PAGE, series(rows).markdown().rstrip()))
        yield _name(engine, generation), text + "\n"


_PAGE = """\
A series has the measured servers of one model, GPU, engine version and layout with equal request lengths. A cell
has the median error over the concurrencies of a series, and the bias. The series with the largest error of TPOT
comes first. The last column states how a series differs from the calibration data of its profile. "in what was
measured" means that no difference is known. In this case, the cost model lacks an effect, or the measurement is
wrong. The page is generated with [the report](../validation.md)."""


def series(rows: Sequence[InputRow]) -> Table:
    """Table of errors by model, chip, version, layout and lengths, for series of several rows, worst first."""
    groups: dict[tuple[str, ...], list[InputRow]] = {}
    for row in rows:
        groups.setdefault(_series_of(row), []).append(row)
    scored = [(overall(part, _TPOT), key, part) for key, part in groups.items() if len(part) >= ENOUGH]
    medians = [(tpot, key, part) for tpot, key, part in scored if tpot is not None and tpot.median is not None]
    lines = [
        (*key, str(len(part)), errors_text(tpot, "bias"), errors_text(overall(part, _TTFT), "bias"), reason_of(part))
        for tpot, key, part in sorted(medians, key=lambda entry: -(entry[0].median or 0.0))
    ]
    columns = ("model", "chip", "version", "layout", "isl/osl", "rows", "TPOT, bias", "TTFT, bias", "unlike in")
    return Table("", columns, tuple(lines))


def _series_of(row: InputRow) -> tuple[str, ...]:
    measured = row.measurement
    assert measured is not None
    lengths = "/".join("-" if length is None else f"{length:g}" for length in (measured.isl, measured.osl))
    return measured.model, measured.hardware, measured.engine_version or "-", layout_of(measured) or "-", lengths
