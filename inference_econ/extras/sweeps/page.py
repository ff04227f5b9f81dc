"""Sweeps as tables, data and pictures: what is the cheapest, and what has no frontier."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from inference_econ._types import Progress
from inference_econ._work import in_words, stop
from inference_econ.errors import InputError
from inference_econ.extras.sweeps.combinations import Combinations, check_work, combinations_of
from inference_econ.extras.sweeps.rows import DIGEST, INDEX, SweepPart
from inference_econ.extras.sweeps.scenario_kinds import SweepAsk
from inference_econ.extras.sweeps.stored import Sweep
from inference_econ.extras.sweeps.swept import CheapestDeployment, Swept
from inference_econ.extras.sweeps.workers import answers, worthwhile
from inference_econ.inputs import Scenario, catalog, read_text
from inference_econ.records.files import SWEEP, whole_file, write_text
from inference_econ.records.texts import dollars
from inference_econ.report import charts
from inference_econ.report.page import AnswerPage, Block, Headline, Pieces, Table

#: Behind what no measurement stands behind, and what that says.
_MARK = "*"
_PRICES_DIFFER = (
    "Each chip has its default price, which may be of several kinds; 'price: alike' in the study's 'common' takes one "
    "source."
)
_UNKNOWN = "* by assumptions that were fitted to no measured server, so that nobody knows how far off it is."
#: Reasons that are listed; the column "reason" of the folder has all [1].
_REASONS = 12


class SweepPage(AnswerPage[Swept]):
    """A sweep, ready to be shown."""

    def tables(self) -> Sequence[Table]:
        """The cheapest of every row and speed, and why combinations have no frontier."""
        swept = self.answer
        cells = {(best.row, best.speed): f"{best.among} {_marked(best)}" for best in swept.best}
        rows = [(name, *(cells.get((name, speed), "-") for speed in swept.speeds)) for name in swept.names]
        notes = [
            f"$ per million output tokens of the cheapest {swept.among} whose users see so many tokens/s or more; "
            "prefill is counted, a queue is not."
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
        """The tables below how much there is."""
        return [Headline((counted(self.answer),)), *self.tables()]

    def markdown(self) -> str:
        """Markdown of the counts and of the tables below them."""
        tables = (f"**{table.title}**\n\n{table.markdown()}" for table in self.tables())
        return "\n".join([f"{counted(self.answer)}\n", *tables])

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Chart of the cheapest by colour."""
        swept, tiles = self.answer, []
        for best in swept.ordered():
            point = best.point
            details = {
                "layout": f"{point['layout']}, {point['accelerators']:g} GPUs",
                "formats": f"weights {point['weights']}, KV {point['kv']}",
                "tokens/s per user": f"{point['tokens_per_second_per_user']:.3g}",
                "$/GPU-hour": f"{point['dollars_per_accelerator_hour']:.4g}",
            }
            tiles.append(charts.Tile(best.row, f"{best.speed:g}", best.among, _marked(best), details))
        mark = "" if all(best.is_measured for best in swept.best) else "; * fitted to no measured server"
        grid = charts.TileGrid(
            _heading(swept),
            f"tokens/s per user, at least; $ per million output tokens{mark}",
            swept.among,
            tuple(swept.names),
            tuple(f"{speed:g}" for speed in swept.speeds),
            tuple(tiles),
        )
        return {"cheapest": charts.grid_chart(grid)}

    def question(self) -> str:
        """Question about the cheapest."""
        swept, only = self.answer, "".join(f", {name} {value}" for name, value in self.answer.where.items())
        return f"Which {swept.among} serves each {swept.rows} the cheapest at which speed{only}?"

    def conclusion(self) -> Pieces:
        """Sentence on the size of a sweep."""
        return [counted(self.answer)]


def failures_table(swept: Swept) -> Table:
    """Table of the reasons for which combinations have no frontier, the most frequent first."""
    rows = []
    for reason in swept.reasons[:_REASONS]:
        # Of many that do not fit, the text says how little is missing of one.
        others = "; and others" if reason.kind == "nothing_fits" and reason.combinations > 1 else ""
        rows.append((str(reason.combinations), f"{reason.text}{others}"))
    further = swept.reasons[_REASONS:]
    left = sum(reason.combinations for reason in further)
    more = f"{len(further)} further reasons of {left:,} combinations are in the column 'reason' of the folder."
    return Table("Without a frontier", ("combinations", "reason"), tuple(rows), (more,) if further else ())


def counted(swept: Swept) -> str:
    """Sentence on the size of a sweep."""
    failed = f", {swept.failures:,} without a frontier" if swept.failures else ""
    missing = f" {swept.missing:,} have not been asked yet: run the same again." if swept.missing else ""
    return (
        f"{swept.combinations:,} combinations: {swept.frontiers:,} frontiers with {swept.points:,} points{failed}."
        f"{missing}"
    )


def _heading(swept: Swept) -> str:
    only = "".join(f", {name} {value}" for name, value in swept.where.items())
    return f"{swept.title}: the cheapest {swept.among} at a speed{only}"


def _marked(best: CheapestDeployment) -> str:
    """Cost of the cheapest, with a mark if nobody knows how far off it may be."""
    return f"{dollars(best.dollars)}{'' if best.is_measured else _MARK}"


try:
    import fcntl
except ImportError:  # Windows, where two sweeps of one folder are not kept apart
    fcntl = None  # type: ignore[assignment]

#: What is locked while somebody writes into the folder.
_LOCK = ".lock"
#: A manifest has a scenario in it, which is at most so long [B].
_MAX_BYTES = 10_000_000


def sweep(
    scenario: Scenario | catalog.Name,
    folder: Path | str,
    *,
    jobs: int | None = 1,
    progress: Progress | None = None,
) -> Sweep:
    """Answer every combination of a sweep into a folder, or go on where that was stopped (``inference_econ.sweep``).

    Parameters
    ----------
    scenario : Scenario or str
        Of the kind ``sweep``, or its name or path.
    folder : Path or str
        Where to; made if it is not there. Its parts are Parquet files that other programs can read, too.
    jobs : int or None
        Processes of this machine that answer [1]; None for as many as it has cores, where that pays. A script that
        asks for several must be guarded by ``if __name__ == "__main__"``, since each of them imports it.
    progress : callable, optional
        Told the share of the work done, how many combinations that is, and how long the rest will take.

    Returns
    -------
    Sweep
        All of it.

    Raises
    ------
    InputError
        If the scenario is no sweep, a name in it is unknown, the folder is one of another sweep, of other facts, of
        another program, or in use, it cannot be written, or workers cannot be had. What has been answered is kept.
    TooMuchError
        If it would take longer than ten minutes, unless :func:`inference_econ.allow` allows it.
    """
    spec = scenario if isinstance(scenario, Scenario) else catalog.scenario(scenario)
    if not isinstance(spec.ask, SweepAsk):
        raise InputError(f"{spec.name} is a scenario of the kind {spec.ask.kind!r}, not a sweep; 'run' answers it")
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs: a number of processes from 1 is needed, got {jobs}")
    combinations = combinations_of(spec.ask)
    at = Path(folder)
    _check_same(at, combinations)
    processes = _processes(jobs, at, combinations)
    check_work(combinations, _missing(at, combinations), processes)
    with _held(at):
        todo = list(_missing(at, combinations))
        _write_manifest(at, spec, combinations)
        _write(at, combinations, todo, processes, progress)
    return load_sweep(at)


def _processes(jobs: int | None, folder: Path, combinations: Combinations) -> int:
    """Processes of this machine for what is missing: no more than parts, and as many as pay where nobody says [1]."""
    todo = list(_missing(folder, combinations))
    wanted = worthwhile(len(todo) * combinations.batch) if jobs is None else jobs
    return max(min(wanted, len(todo)), 1)


def load_sweep(folder: Path | str) -> Sweep:
    """A sweep that was written into a folder, or as much of it as there is (``inference_econ.load_sweep``).

    Parameters
    ----------
    folder : Path or str
        Of :func:`inference_econ.sweep`.

    Raises
    ------
    InputError
        If it is no such folder.
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
    """Parts that are not there, or not whole."""
    return (index for index in range(combinations.parts) if not _is_whole(folder, combinations, index))


def _is_whole(folder: Path, combinations: Combinations, index: int) -> bool:
    """Return whether a part is there and whole; the end of a Parquet file says what is before it."""
    from pyarrow import ArrowException, parquet

    try:
        metadata = parquet.read_metadata(_part_path(folder, index)).metadata or {}
    except (OSError, ArrowException):
        return False
    return metadata.get(DIGEST) == combinations.digest.encode() and metadata.get(INDEX) == str(index).encode()


def _manifest(folder: Path) -> dict[str, Any] | None:
    """Manifest in a folder: the sweep that it is of; None if the folder is not there, or has nothing in it.

    Raises
    ------
    InputError
        If it is a folder of something else, or damaged.
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
        manifest = json.loads(read_text(folder / SWEEP, _MAX_BYTES))
    except ValueError as error:
        raise InputError(f"{folder / SWEEP}: damaged ({error}); give a new folder") from error
    if not isinstance(manifest, dict) or not {"digest", "facts", "version", "scenario"} <= manifest.keys():
        raise InputError(f"{folder / SWEEP}: not what a sweep writes; give a new folder")
    return manifest


def _check_same(folder: Path, combinations: Combinations) -> None:
    """Refuse a folder whose rows are of something else.

    Raises
    ------
    InputError
        With what differs.
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
            f"{folder}: begun with other facts (release {manifest['version']}, or files of chips, models or presets "
            "that have changed since), whose rows would be mixed with those of today; give a new folder"
        )


def _write_manifest(folder: Path, spec: Scenario, combinations: Combinations) -> None:
    manifest = {
        "digest": combinations.digest,
        "facts": combinations.facts,
        "version": metadata.version("inference-econ"),
        "scenario": spec.model_dump(mode="json", exclude_unset=True),
    }
    write_text(folder / SWEEP, json.dumps(manifest, indent=1) + "\n")


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """A folder that nobody else writes into, made if it is not there; the system lets go of it whatever happens.

    Raises
    ------
    InputError
        If somebody does, or it cannot be made.
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
    """Answer parts and write each as soon as it is there."""
    left = sum(len(combinations.numbers(index)) for index in todo)
    counted = _SweepProgress(combinations.product, combinations.product - left, time.monotonic())
    try:
        for index, part in answers(combinations, todo, processes):
            _write_part(_part_path(folder, index), part)
            counted.add(len(combinations.numbers(index)), part)
            if progress is not None:
                progress(*counted.progress())
    except KeyboardInterrupt:
        done = counted.before + counted.answered
        there = f"{done:,} of {counted.whole:,} combinations in {folder}; the same command goes on"
        stop(there if done else "")


def _write_part(path: Path, part: SweepPart) -> None:
    """Write a part, which is on the disk before it has its name.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    try:
        with whole_file(path) as temporary, temporary.open("wb") as file:
            file.write(part.content)
            file.flush()
            os.fsync(file.fileno())
    except InputError as error:
        raise InputError(f"{error}; what is done is kept: run the same again to go on") from error


@dataclass(slots=True)
class _SweepProgress:
    """Progress of a sweep.

    Attributes
    ----------
    whole, before : int
        Combinations of the sweep, and those of them that were answered by runs before [1].
    since : float
        When this run began [s].
    answered, failures : int
        Combinations that this run answered, and those of them without a frontier [1].
    """

    whole: int
    before: int
    since: float
    answered: int = 0
    failures: int = 0

    def add(self, numbers: int, part: SweepPart) -> None:
        """Count a part with so many numbers of the product."""
        self.answered += numbers
        self.failures += part.failures

    def progress(self) -> tuple[float, str]:
        """The share that is done, and all of this in words."""
        done, failed = self.before + self.answered, f", {self.failures:,} failed" if self.failures else ""
        left = (self.whole - done) * (time.monotonic() - self.since) / max(self.answered, 1)
        return done / self.whole, f"{done:,} of {self.whole:,} combinations{failed}, {in_words(left)} left"
