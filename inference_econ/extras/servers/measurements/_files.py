"""Files of measurements: which kind one is, and all of its rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from inference_econ.errors import InputError
from inference_econ.extras.servers.measurements._record import (
    RESULTS,
    Cells,
    Measurement,
    Skipped,
    UnusableRowError,
    check_version,
    days_of,
)
from inference_econ.extras.servers.measurements._reports import MeasuredServer, read_report
from inference_econ.extras.servers.measurements._tables import (
    KINDS,
    Kind,
    mark_spoilt,
    suspect_speculation,
    with_tokens,
)
from inference_econ.extras.servers.result_files import RESULT_ENDINGS
from inference_econ.inputs import catalog, plugins, read_text

#: The shipped files that hold measurements of servers; the others are of kernels, collectives, prices and the like.
SHIPPED = (
    "serving_points",
    "inferencemax_aggregated",
    "poisson_load_a100",
    "decode_points",
    "throughput_points",
    "ttft_points",
)


def shipped(datasets: Iterable[str] = SHIPPED) -> list[Measurement | Skipped]:
    """Every row of the measurements that come with the package.

    Parameters
    ----------
    datasets : iterable of str
        Which of :data:`SHIPPED`.
    """
    return [row for name in datasets for row in read(catalog.server_files()[name])]


def read(path: Path | str, server: MeasuredServer | None = None) -> list[Measurement | Skipped]:
    """Every measurement of a file: CSV with the columns of a shipped kind, or the result of a load generator.

    Parameters
    ----------
    path : path or str
        The file; its name without suffix becomes the dataset. Further columns do no harm. What does not end in .csv
        is read as a result, see :func:`read_report`.
    server : MeasuredServer, optional
        What the server was; needed for results only, where they do not say it themselves.

    Returns
    -------
    list of Measurement or Skipped
        In the order of the file; impossible values and unknown names are skipped rows, not errors.

    Raises
    ------
    InputError
        If the file cannot be read, its columns are those of no kind, or a result comes without its deployment.
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
    """Which of some kinds of CSV file one is, and what each of its rows says by itself.

    Raises
    ------
    InputError
        If it cannot be read, its columns are those of no kind, or it has nothing else.
    """
    header, lines = _table(path)
    kind = _kind(path, header, kinds)
    if not lines:
        raise InputError(f"{path}: only column names; one line for each measurement is needed")
    # Thousands of rows ask about the same models and chips, and nothing is changed of them.
    with catalog.uncopied():
        return kind, [
            _measurement(kind, path.stem, number, line, cells) for number, (line, cells) in enumerate(lines, start=1)
        ]


def cells(path: Path | str) -> tuple[str, list[dict[str, str]]]:
    """Which kind of CSV file one is, in words, and the text of its rows by column, in the order of :func:`read`.

    Raises
    ------
    InputError
        If it cannot be read, or its columns are those of no kind.
    """
    header, rows = _table(Path(path))
    return _kind(Path(path), header, KINDS).title, [cells for _, cells in rows]


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
            "days": days_of(row),
        }
        measurement = kind.read(row, common)
        check_version(measurement.engine, measurement.engine_version)
        ranks = (measurement.tp or 0) * (measurement.dp or 0)
        if ranks and (measurement.ep or 0) > ranks:
            raise UnusableRowError(f"ep {measurement.ep} is more than the {ranks} ranks of a stage")
        if all(getattr(measurement, result) is None for result in RESULTS):
            raise UnusableRowError("nothing is measured")
    except UnusableRowError as error:
        return Skipped(name, dataset, str(error), line)
    return measurement


def _foreign(path: Path) -> list[dict[str, str]] | None:
    """The rows that the reader of a plug-in has for a file; None if none knows it.

    Raises
    ------
    InputError
        If a reader fails, or gives what are no rows.
    """
    for reader in plugins.readers():
        try:
            rows = reader.read(read_text(path, encoding="utf-8-sig"))
            if rows is not None:
                return [{str(name): str(value) for name, value in row.items()} for row in rows]
        except InputError:
            raise
        except Exception as error:  # code of others fails as it likes
            raise InputError(f"{path}: the reader of the plug-in {reader.origin} fails ({error!r})") from error
    return None


def _table(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Column names, without space and in lower case, and the rows, each after the line on which it begins."""
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
