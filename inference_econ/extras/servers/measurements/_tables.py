"""Readers of measurement tables, and comparisons between rows."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeGuard

from inference_econ.errors import InputError
from inference_econ.extras.servers.measurements import _record
from inference_econ.extras.servers.measurements._record import Cells, Measurement, Skipped, UnusableRowError
from inference_econ.extras.servers.measurements._reports import MeasuredServer, read_report
from inference_econ.extras.servers.result_files import RESULT_ENDINGS
from inference_econ.inputs import catalog, plugins, read_text
from inference_econ.inputs.models.acceptance import Prompts
from inference_econ.inputs.units import integer


@dataclass(frozen=True, slots=True)
class Kind:
    """Kind of CSV file.

    Attributes
    ----------
    title : str
        Name of the kind in messages.
    columns : tuple of str
        Required columns.
    read : callable
        Function that returns a measurement, from a row and the common fields.
    final : bool
        True if rows are complete, so that no fact is inferred from other rows.
    """

    title: str
    columns: tuple[str, ...]
    read: Callable[[Cells, Mapping[str, Any]], Measurement]
    final: bool = False


def inferencemax(row: Cells, common: Mapping[str, Any]) -> Measurement:
    """Read an InferenceMAX run at one concurrency: latencies in seconds, and throughput per accelerator."""
    tp = row.count("tp")
    apart = is_true(row.text("dp_attention"))
    written = row.text("precision") or None
    isl, osl, concurrency = (row.needed(column) for column in ("isl", "osl", "concurrency"))
    return Measurement(
        **common,
        **_record.described(row.text("hf_model"), row.text("hardware"), written, row.text("framework")),
        accelerators=tp,
        tp=1 if apart else tp,
        dp=tp if apart else 1,
        pp=1,
        ep=row.whole("ep"),
        isl=_record.MEAN_LENGTH * isl,
        osl=_record.MEAN_LENGTH * osl,
        load="concurrency",
        concurrency=concurrency,
        requests=_record.ROUNDS * concurrency,
        spread=_record.SPREAD,
        ttft_seconds=row.number("median_ttft_s"),
        tpot_seconds=row.number("median_tpot_s"),
        request_seconds=row.number("median_e2e_s"),
        output_tokens_per_second_per_accelerator=row.number("output_tok_per_s_per_gpu"),
        input_tokens_per_second_per_accelerator=row.number("input_tok_per_s_per_gpu"),
        total_tokens_per_second_per_accelerator=row.number("total_tok_per_s_per_gpu"),
        speculation=_record.speculation(row.words("spec_decoding")),
        remarks=(_record.SHORTER,),
    )


def is_true(text: str) -> bool:
    """Check whether a cell contains a word for true."""
    return text.lower() in ("true", "1", "yes")


#: Kinds of files, in order of detection.
KINDS = (
    Kind(
        "InferenceMAX runs",
        ("hf_model", "hardware", "framework", "isl", "osl", "tp", "concurrency", "median_ttft_s", "median_tpot_s"),
        inferencemax,
    ),
    Kind("measurements", _record.NEEDED, _record.measurement, final=True),
)

#: Maximum speed ratio of two rows of the same description. Above this ratio, the deployments must differ. Runs without
#: speculation in the shipped collection differ by at most 4% [1].
_FASTER = 1.1
#: Maximum TPOT ratio of two runs of one configuration. Above this ratio, the slower run is invalid. In nine of ten
#: cases, reruns differ by at most 13%, and engine versions by 26% [1].
_SPOILT = 1.5
#: Maximum TTFT ratio of two runs of one configuration. Above this ratio, the slower run is invalid. Reruns differ by a
#: factor of up to 3.5, or 4.6 to 25 if the engine compiled kernels while the first prompts waited [1].
_SPOILT_START = 4.0
#: Maximum TPOT ratio to a run with at least the same load on at most the same accelerators, in any layout. Common
#: layouts differ by less [1].
_OUTDONE = 3.0
#: Descriptions of the faster run, for the reason why a run is invalid.
_SAME, _BUSIER = "a run of the same configuration", "which has no less to do on no more accelerators"
#: Keys of rows with the same server, sweep, configuration or description.
_SERVER = ("engine", "model", "hardware", "weights")
_TRAFFIC = ("model", "hardware", "engine", "isl", "osl", "load")
_LAYOUT = ("tp", "dp", "pp", "ep")
_server = attrgetter(*_SERVER)
_sweep = attrgetter(*_SERVER, "engine_version", "source", "days", "isl", "osl", "spread")
_configuration = attrgetter(*_TRAFFIC, "concurrency", *_LAYOUT, "accelerators", "weights", "spread")
_description = attrgetter(*_TRAFFIC, *_LAYOUT, "prefill", "decode", "weights", "kv", "requests_per_second")
#: Key of repeated rows.
_repeat = attrgetter("model", "hardware", "isl", "osl", "load", "concurrency", "requests_per_second", *_record.RESULTS)
#: Values of ``speculation`` for rows that a decode step without speculation can represent.
_PLAIN = ("none", "unrecorded")


def distinct(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Remove repeated measurements: same subject, lengths, load and results.

    The measurement with the best-known layout remains, so that a run that was collected twice is included once.
    """
    best: dict[tuple[object, ...], Measurement] = {}
    for row in measurements:
        key = _repeat(row)
        if key not in best or (best[key].accelerators is None and row.accelerators is not None):
            best[key] = row
    return list(best.values())


def suspect_speculation(rows: Sequence[Measurement | Skipped]) -> list[Measurement | Skipped]:
    """Mark rows that are too fast, compared with rows of the same description, as suspected of speculation.

    Parameters
    ----------
    rows : sequence of Measurement or Skipped
        Rows of one file. Rows with unrecorded speculation and a known layout are compared with rows of equal or lower
        concurrency. Without speculation, a row of lower concurrency would be at least as fast.
    """
    runs: dict[tuple[object, ...], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if isinstance(row, Measurement) and row.tpot_seconds is not None and row.concurrency is not None:
            runs[_description(row)].append((row.concurrency, row.tpot_seconds))
    marked = list(rows)
    for index, row in enumerate(rows):
        if isinstance(row, Skipped) or row.speculation != "unrecorded" or row.accelerators is None:
            continue
        if row.tpot_seconds is None or row.concurrency is None:
            continue
        no_busier = [seconds for requests, seconds in runs[_description(row)] if requests <= row.concurrency]
        ratio = max(no_busier) / row.tpot_seconds
        if ratio >= _FASTER:
            remark = f"{ratio:.1f} times as fast as a run of the same description that was no busier"
            marked[index] = replace(row, speculation="suspected", remarks=(*row.remarks, remark))
    return marked


def mark_spoilt(rows: Sequence[Measurement | Skipped]) -> list[Measurement | Skipped]:
    """Mark rows that are much slower than a run of the same configuration, or than a run with at least the same load.

    Parameters
    ----------
    rows : sequence of Measurement or Skipped
        Rows of one file, after :func:`suspect_speculation`. Only aggregated servers in a closed loop, with a known
        layout and without speculation, are compared.
    """
    runs: dict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    alike: dict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    for row in rows:
        if _is_plain_loop(row):
            runs[_configuration(row)].append(row)
            alike[_server(row)].append(row)
    compared = [
        _compared(row, runs[_configuration(row)], alike[_server(row)]) if _is_plain_loop(row) else row for row in rows
    ]
    sweeps: dict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    for row in filter(_is_plain_loop, compared):
        sweeps[_sweep(row)].append(row)
    for index, row in enumerate(compared):
        if _is_plain_loop(row) and not row.spoilt:
            # If most runs of a sweep were slow, the slow run is not an outlier.
            sweep = sweeps[_sweep(row)]
            outdone = sum(run.spoilt.endswith(_BUSIER) for run in sweep)
            if 2 * outdone > len(sweep):
                spoilt = f"{outdone} of {len(sweep)} runs of its sweep are {_OUTDONE:g} times as slow as others"
                compared[index] = replace(row, spoilt=spoilt)
    return compared


def _is_plain_loop(row: Measurement | Skipped) -> TypeGuard[Measurement]:
    return (
        isinstance(row, Measurement)
        and (row.decode is None and row.tp is not None)
        and (row.load == "concurrency" and row.tpot_seconds is not None and row.speculation in _PLAIN)
    )


def _compared(row: Measurement, same: Sequence[Measurement], alike: Sequence[Measurement]) -> Measurement:
    """Mark a row that is much slower than an equally configured run, or than a run with at least the same load."""
    busier = [
        other
        for other in alike
        if (other.concurrency or 0.0) >= (row.concurrency or 0.0)
        and (other.isl or 0.0) >= (row.isl or 0.0)
        and (other.osl or 0.0) <= (row.osl or 0.0)
        and (other.accelerators or 0.0) <= (row.accelerators or 0.0)
    ]
    for field, others, most, words, whose in (
        ("tpot_seconds", same, _SPOILT, "as slow", _SAME),
        ("ttft_seconds", same, _SPOILT_START, "as late", _SAME),
        ("tpot_seconds", busier, _OUTDONE, "as slow", _BUSIER),
    ):
        timed = [other for other in others if getattr(other, field) is not None]
        if getattr(row, field) is not None and timed:
            best = min(timed, key=attrgetter(field))
            ratio = getattr(row, field) / getattr(best, field)
            if ratio >= most:
                return replace(row, spoilt=f"{ratio:.1f} times {words} as {best.id}, {whose}")
    return row


#: Speculation method, and draft length.
_FIXED = re.compile(r"(?P<method>[A-Z][A-Za-z]*3?)(?P<drafts>\d)")


def with_tokens(row: Measurement, prompts: Prompts = "text") -> Measurement:
    """Add the published tokens per round, if method and draft length are recorded ("MTP3").

    Parameters
    ----------
    row : Measurement
        Row whose waiting times are numbers of speculation rounds, as in engines. In the result, waiting times are
        numbers of steps of one token.
    prompts : str
        Kind of prompts. If no acceptance rate is published for this kind of prompts, the rate for the other kind of
        prompts is used.
    """
    fixed = _FIXED.fullmatch(row.speculation)
    if fixed is None:
        return row
    lengths = catalog.speculation_facts().lengths(row.model, fixed["method"], prompts)
    tokens = None if lengths is None else lengths.tokens.get(integer(fixed["drafts"]))
    steps = tokens or 1.0
    return replace(row, tokens_per_round=tokens, wait_steps=row.wait_steps * steps, held_steps=row.held_steps * steps)


#: Shipped files with measurements of servers; other files contain kernels, collectives, prices etc.
SHIPPED = (
    "serving_points",
    "inferencemax_aggregated",
    "inferencemax_disaggregated",
    "poisson_load_a100",
    "poisson_load_h100",
    "decode_points",
    "throughput_points",
    "ttft_points",
    "fresh_2026q4",
)


def shipped(datasets: Iterable[str] = SHIPPED) -> list[Measurement | Skipped]:
    """Read the shipped measurements.

    Parameters
    ----------
    datasets : iterable of str
        Subset of :data:`SHIPPED`.
    """
    return [row for name in datasets for row in read_measurements(catalog.server_files()[name])]


def read_measurements(path: Path | str, server: MeasuredServer | None = None) -> list[Measurement | Skipped]:
    """Read the measurements of a file: CSV with the columns of a shipped kind, or the result of a load generator.

    Parameters
    ----------
    path : path or str
        File to read. The stem of the path is the name of the dataset. Unknown columns are ignored. Files with other
        endings than .csv are results; see :func:`read_report`.
    server : MeasuredServer, optional
        Facts about the server that results lack.

    Returns
    -------
    list of Measurement or Skipped
        Rows in the order of the file. A row with impossible values or unknown names becomes a :class:`Skipped`.

    Raises
    ------
    InputError
        If the file is unreadable, its columns match no kind, or a result lacks its deployment.
    """
    file = Path(path)
    if file.suffix.lower() in RESULT_ENDINGS and _foreign(file) is None:
        return read_report(file, MeasuredServer() if server is None else server)
    kind, measured = rows(file)
    if kind.final:
        return measured
    suspected = suspect_speculation(measured)
    return mark_spoilt([with_tokens(row) if isinstance(row, Measurement) else row for row in suspected])


def rows(path: Path, kinds: Sequence[Kind] = KINDS) -> tuple[Kind, list[Measurement | Skipped]]:
    """Detect the kind of a CSV file, and read its rows.

    Raises
    ------
    InputError
        If the file is unreadable or empty, or its columns match no kind.
    """
    header, lines = _table(path)
    kind = _kind(path, header, kinds)
    if not lines:
        raise InputError(f"{path}: only column names; one line for each measurement is needed")
    # Thousands of rows refer to the same specs, which are not modified.
    with catalog.uncopied():
        return kind, [
            _measurement(kind, path.stem, number, line, cells) for number, (line, cells) in enumerate(lines, start=1)
        ]


def cells(path: Path | str, kinds: Sequence[Kind] = KINDS) -> tuple[str, list[dict[str, str]]]:
    """Title of the kind of a CSV file, and the cells of its rows by column.

    Rows are in the order of :func:`read_measurements`.

    Raises
    ------
    InputError
        If the file is unreadable, or its columns match no kind.
    """
    header, rows = _table(Path(path))
    return _kind(Path(path), header, kinds).title, [cells for _, cells in rows]


def _measurement(kind: Kind, dataset: str, number: int, line: int, cells: dict[str, str]) -> Measurement | Skipped:
    row = Cells(cells)
    name = row.text("id") or f"row {number}"
    try:
        common = {
            "id": name,
            "dataset": dataset,
            "source": row.text("source_id") or row.text("source"),
            "quality": row.text("quality"),
            "tier": row.text("tier"),
            "days": _record.row_days(row),
        }
        measurement = kind.read(row, common)
        _record.check_version(measurement.engine, measurement.engine_version)
        ranks = (measurement.tp or 0) * (measurement.dp or 0)
        if ranks and (measurement.ep or 0) > ranks:
            raise UnusableRowError(f"ep {measurement.ep} is more than the {ranks} ranks of a stage")
        if all(getattr(measurement, result) is None for result in _record.RESULTS):
            raise UnusableRowError("nothing is measured")
    except UnusableRowError as error:
        return Skipped(name, dataset, str(error), line)
    return measurement


def _foreign(path: Path) -> list[dict[str, str]] | None:
    """Rows that a plug-in reader returns for a file; None if no plug-in reads it.

    Raises
    ------
    InputError
        If a reader fails, or returns no valid rows.
    """
    for reader in plugins.readers():
        try:
            rows = reader.read(read_text(path, encoding="utf-8-sig"))
            if rows is not None:
                return [{str(name): str(value) for name, value in row.items()} for row in rows]
        except InputError:
            raise
        except Exception as error:  # plug-in code may raise anything
            raise InputError(f"{path}: the reader of the plug-in {reader.origin} fails ({error!r})") from error
    return None


def _table(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Column names in lower case without space, and the rows with their first line numbers."""
    foreign = _foreign(path)
    if foreign is not None:
        return list(dict.fromkeys(name for row in foreign for name in row)), list(enumerate(foreign, start=1))
    try:
        reader = csv.reader(io.StringIO(read_text(path, encoding="utf-8-sig"), newline=""), strict=True)
        header, start, lines = [column.strip().lower() for column in next(reader, [])], reader.line_num + 1, []
        for line in reader:
            if any(cell.strip() for cell in line):
                lines.append((start, dict(zip(header, line, strict=False))))
            start = reader.line_num + 1
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV file in UTF-8 ({error})") from error
    if not any(header):
        raise InputError(f"{path}: empty; a line of column names and one line for each measurement are needed")
    return header, lines


def _kind(path: Path, header: Sequence[str], kinds: Sequence[Kind]) -> Kind:
    missing = [[column for column in kind.columns if column not in header] for kind in kinds]
    nearest = min(range(len(kinds)), key=lambda index: len(missing[index]) / len(kinds[index].columns))
    if not missing[nearest]:
        return kinds[nearest]
    raise InputError(
        f"{path}:1: its columns are those of no known kind of measurements; nearest to it are {kinds[nearest].title}, "
        f"of which it lacks {', '.join(missing[nearest])}"
    )
