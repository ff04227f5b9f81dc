"""Run sweeps into folders, and show the results of sweeps as tables, data and charts."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from inference_econ._types import Progress
from inference_econ._work import in_words, stop
from inference_econ.errors import InputError, unsafe_character
from inference_econ.extras.sweeps.combinations import (
    DIGEST,
    INDEX,
    Combinations,
    SweepPart,
    answers,
    check_work,
    combinations_of,
)
from inference_econ.extras.sweeps.scenario_kinds import SweepAsk
from inference_econ.extras.sweeps.stored import CheapestDeployment, Sweep, Swept
from inference_econ.inputs import Scenario, catalog, read_text
from inference_econ.records.files import SWEEP, whole_file, write_text
from inference_econ.records.texts import dollars
from inference_econ.report import charts
from inference_econ.report.page import AnswerPage, Block, Headline, Pieces, Table

#: Mark of costs whose prediction error was not measured, and explanation of the mark.
_MARK = "*"
_PRICES_DIFFER = (
    "Each GPU has its default price, and the kinds of prices may differ. Put 'price: alike' into 'common' of the study "
    "to use prices of one source."
)
_UNKNOWN = "* has assumptions that were fitted to no measured server, so its error is unknown."
#: Maximum number of listed reasons [1]. The column "reason" of the Parquet files contains all reasons.
_REASONS = 12


class SweepPage(AnswerPage[Swept]):
    """Page of a sweep."""

    def tables(self) -> Sequence[Table]:
        """Tables of the cheapest deployment by row and speed, and of reasons for missing frontiers."""
        swept = self.answer
        cells = {(best.row, best.speed): f"{best.among} {_marked(best)}" for best in swept.best}
        rows = [(name, *(cells.get((name, speed), "-") for speed in swept.speeds)) for name in swept.names]
        notes = [
            f"Cells contain the cheapest {swept.among} with at least this speed in tokens/s per user, and its cost in "
            "$ per million output tokens. The cost includes prefill and excludes queueing."
        ]
        if swept.price is not None:
            notes.append(f"Prices alike: {swept.price}." if ":" in swept.price else _PRICES_DIFFER)
        if not all(cheapest.is_measured for cheapest in swept.best):
            notes.append(_UNKNOWN)
        columns = (swept.rows, *(f"at {speed:g}" for speed in swept.speeds))
        tables = [Table(_heading(swept), columns, tuple(rows), tuple(notes))]
        if swept.reasons:
            tables.append(failures_table(swept))
        return tables

    def blocks(self) -> Sequence[Block]:
        """Sentence with the numbers of combinations and frontiers, followed by the tables."""
        return [Headline((counted(self.answer),)), *self.tables()]

    def markdown(self) -> str:
        """Markdown of the numbers of combinations and frontiers, and of the tables."""
        tables = (f"**{table.title}**\n\n{table.markdown()}" for table in self.tables())
        return "\n".join([f"{counted(self.answer)}\n", *tables])

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Chart of the cheapest deployment by row and speed, as colored tiles."""
        from inference_econ.extras.sweeps.grid import Tile, TileGrid, grid_chart  # loads Altair

        swept, tiles = self.answer, []
        for best in swept.ordered():
            point = best.point
            details = {
                "layout": f"{point['layout']}, {point['accelerators']:g} GPUs",
                "formats": f"weights {point['weights']}, KV {point['kv']}",
                "tokens/s per user": f"{point['tokens_per_second_per_user']:.3g}",
                "$/GPU-hour": f"{point['dollars_per_accelerator_hour']:.4g}",
            }
            tiles.append(Tile(best.row, f"{best.speed:g}", best.among, _marked(best), details))
        mark = "" if all(best.is_measured for best in swept.best) else "; * fitted to no measured server"
        grid = TileGrid(
            _heading(swept),
            f"tokens/s per user (at least); $ per million output tokens{mark}",
            swept.among,
            tuple(swept.names),
            tuple(f"{speed:g}" for speed in swept.speeds),
            tuple(tiles),
        )
        return {"cheapest": grid_chart(grid)}

    def question(self) -> str:
        """Title of the page."""
        swept, only = self.answer, "".join(f", {name} {value}" for name, value in self.answer.where.items())
        return f"Which {swept.among} is cheapest for each {swept.rows} and speed{only}?"

    def conclusion(self) -> Pieces:
        """Sentence on the numbers of combinations and frontiers."""
        return [counted(self.answer)]


def failures_table(swept: Swept) -> Table:
    """Table of reasons for missing frontiers, most frequent first."""
    rows = []
    for reason in swept.reasons[:_REASONS]:
        # The text is the reason of the first combination.
        others = "; and others" if reason.kind == "nothing_fits" and reason.combinations > 1 else ""
        rows.append((str(reason.combinations), f"{reason.text}{others}"))
    further = swept.reasons[_REASONS:]
    left = sum(reason.combinations for reason in further)
    more = f"{left:,} more combinations have {len(further)} other reasons: see the column 'reason' of the folder."
    return Table("Without a frontier", ("combinations", "reason"), tuple(rows), (more,) if further else ())


def counted(swept: Swept) -> str:
    """Sentence on the numbers of combinations and frontiers."""
    failed = f", {swept.failures:,} without a frontier" if swept.failures else ""
    missing = f" {swept.missing:,} are still missing: run the same command again." if swept.missing else ""
    return (
        f"{swept.combinations:,} combinations: {swept.frontiers:,} frontiers with {swept.points:,} points{failed}."
        f"{missing}"
    )


def _heading(swept: Swept) -> str:
    only = "".join(f", {name} {value}" for name, value in swept.where.items())
    return f"{swept.title}: the cheapest {swept.among} at a speed{only}"


def _marked(best: CheapestDeployment) -> str:
    """Lowest cost as text, marked if its prediction error is unknown."""
    return f"{dollars(best.dollars)}{'' if best.is_measured else _MARK}"


try:
    import fcntl
except ImportError:  # On Windows, a folder is not locked against a second sweep.
    fcntl = None  # type: ignore[assignment]

#: Lock file of a folder.
_LOCK = ".lock"
#: Minimum number of combinations per process [1]. They take a few seconds, as long as the start of a process.
_WORTH = 50
#: Largest manifest, which contains a scenario [B].
_MAX_BYTES = 10_000_000


def sweep(
    scenario: Scenario | catalog.Name,
    folder: Path | str,
    *,
    jobs: int | None = 1,
    progress: Progress | None = None,
) -> Sweep:
    """Compute every combination of a sweep into a folder, or resume a stopped run (``inference_econ.sweep``).

    Parameters
    ----------
    scenario : Scenario or str
        Scenario of the kind ``sweep``, or its name or path.
    folder : Path or str
        Output folder, created if missing; contains Parquet files.
    jobs : int or None
        Number of processes [1]; None for up to one per core. A script that uses several processes needs the guard ``if
        __name__ == "__main__"``, because each process imports the script.
    progress : callable, optional
        Function that receives the completed share of the work [1], the number of combinations, and the remaining time.

    Returns
    -------
    Sweep
        Complete sweep.

    Raises
    ------
    InputError
        If the scenario is not a sweep or has an unknown name, or if workers cannot start. If the folder is in use, is
        not writable, or contains other files, another sweep, or results of other catalog data. Finished parts are kept.
    TooMuchError
        If the sweep would take longer than ten minutes, unless :func:`inference_econ.allow` permits it.
    """
    spec = scenario if isinstance(scenario, Scenario) else catalog.scenario(scenario)
    if not isinstance(spec.ask, SweepAsk):
        raise InputError(f"{spec.name} is a scenario of the kind {spec.ask.kind!r}, not a sweep; 'run' answers it")
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs: a number of processes from 1 is needed, got {jobs}")
    combinations = combinations_of(spec.ask)
    at = Path(folder)
    _check_same(at, combinations)
    missing = list(_missing(at, combinations))
    if jobs is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        jobs = min(cores, len(missing) * combinations.batch // _WORTH)
    processes = max(min(jobs, len(missing)), 1)
    check_work(combinations, missing, processes)
    with _held(at):
        todo = list(_missing(at, combinations))
        manifest = {
            "digest": combinations.digest,
            "facts": combinations.facts,
            "version": metadata.version("inference-econ"),
            "scenario": spec.model_dump(mode="json", exclude_unset=True),
        }
        write_text(at / SWEEP, json.dumps(manifest, indent=1) + "\n")
        _write(at, combinations, todo, processes, progress)
    return load_sweep(at)


def load_sweep(folder: Path | str) -> Sweep:
    """Load a complete or partial sweep from a folder (``inference_econ.load_sweep``).

    Parameters
    ----------
    folder : Path or str
        Folder of :func:`inference_econ.sweep`.

    Raises
    ------
    InputError
        If the folder has no sweep.
    """
    at = Path(folder)
    manifest = _manifest(at)
    if manifest is None:
        raise InputError(f"{at}: no sweep; write one with 'inference-econ sweep STUDY.yaml -o {at}'")
    spec = Scenario.build(manifest["scenario"], origin=str(at / SWEEP))
    assert isinstance(spec.ask, SweepAsk)
    combinations = Combinations(spec.ask)
    if combinations.digest != manifest["digest"]:
        raise InputError(f"{at}: written by another release ({manifest['version']}); sweep again into a new folder")
    whole = [index for index in range(combinations.parts) if _is_whole(at, combinations, index)]
    missing = combinations.product - sum(len(combinations.numbers(index)) for index in whole)
    return Sweep(spec, [_part_path(at, index) for index in whole], missing)


def _part_path(folder: Path, index: int) -> Path:
    return folder / f"part-{index:05}.parquet"


def _missing(folder: Path, combinations: Combinations) -> Iterator[int]:
    """Yield the indices of parts that are missing or incomplete."""
    return (index for index in range(combinations.parts) if not _is_whole(folder, combinations, index))


def _is_whole(folder: Path, combinations: Combinations, index: int) -> bool:
    """Check whether a part is complete, by the footer of its Parquet file."""
    from pyarrow import ArrowException, parquet

    try:
        metadata = parquet.read_metadata(_part_path(folder, index)).metadata or {}
    except (OSError, ArrowException):
        return False
    return metadata.get(DIGEST) == combinations.digest.encode() and metadata.get(INDEX) == str(index).encode()


def _manifest(folder: Path) -> dict[str, Any] | None:
    """Manifest of a folder; None if the folder is missing or empty.

    Raises
    ------
    InputError
        If the folder contains other files, or the manifest is damaged.
    """
    try:
        inside = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{folder}: no folder of a sweep: {error.strerror or error}") from error
    if SWEEP not in inside:
        if inside:
            raise InputError(f"{folder}: no folder of a sweep, it has {inside[0]} in it; give a new folder")
        return None
    try:
        manifest: dict[str, Any] = json.loads(read_text(folder / SWEEP, _MAX_BYTES, rewritten=True))
        unsafe = unsafe_character(manifest)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{folder / SWEEP}: damaged ({error}); give a new folder") from error
    keys = {"digest": str, "facts": str, "version": str, "scenario": dict}
    texts = isinstance(manifest, dict) and all(isinstance(manifest.get(key), kind) for key, kind in keys.items())
    if unsafe or not texts:
        raise InputError(f"{folder / SWEEP}: not what a sweep writes; give a new folder")
    return manifest


def _check_same(folder: Path, combinations: Combinations) -> None:
    """Reject a folder with rows of another sweep.

    Raises
    ------
    InputError
        If the folder has rows of another sweep, or rows that were computed with another release or other catalog data.
    """
    manifest = _manifest(folder)
    if manifest is None:
        return
    if manifest["digest"] != combinations.digest:
        name = manifest["scenario"].get("name", "another study")
        raise InputError(
            f"{folder}: has the rows of another sweep ({name}, or that before it was changed); give a new folder"
        )
    if manifest["facts"] != combinations.facts:
        raise InputError(
            f"{folder}: was started with other facts (release {manifest['version']}, or files of chips, models or "
            "presets that have changed since); give a new folder, because old and new rows would be mixed"
        )


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Create a folder if it is missing, and lock it for writing. The system releases the lock when the process ends.

    Raises
    ------
    InputError
        If the folder is locked, or cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / _LOCK).open("w") as lock:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError as error:
        raise InputError(f"{folder}: another sweep is writing into it; wait for it, or stop it") from error
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from error


def _write(
    folder: Path, combinations: Combinations, todo: list[int], processes: int, progress: Progress | None
) -> None:
    """Compute parts, and write each part when it is ready."""
    whole, start = combinations.product, time.monotonic()
    # Earlier runs computed the other combinations.
    done = before = whole - sum(len(combinations.numbers(index)) for index in todo)
    failures = 0
    try:
        for index, part in answers(combinations, todo, processes):
            _write_part(_part_path(folder, index), part)
            done += len(combinations.numbers(index))
            failures += part.failures
            if progress is not None:
                failed = f", {failures:,} failed" if failures else ""
                left = (whole - done) * (time.monotonic() - start) / max(done - before, 1)
                progress(done / whole, f"{done:,} of {whole:,} combinations{failed}, {in_words(left)} left")
    except KeyboardInterrupt:
        there = f"{done:,} of {whole:,} combinations in {folder}; the same command goes on"
        stop(there if done else "")


def _write_part(path: Path, part: SweepPart) -> None:
    """Write a part to disk under a temporary name, then rename it.

    Raises
    ------
    InputError
        If the part cannot be written.
    """
    try:
        with whole_file(path) as temporary, temporary.open("wb") as file:
            file.write(part.content)
            file.flush()
            os.fsync(file.fileno())
    except InputError as error:
        raise InputError(f"{error}; finished parts are stored: run the same command again to continue") from error
