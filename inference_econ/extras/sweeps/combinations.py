"""Combinations of a sweep, and their computation in parts, by one or several processes, as rows of Parquet files."""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import math
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from inference_econ._work import allow, check
from inference_econ.engine import recorded_key
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.sweeps.scenario_kinds import (
    WHOLE_CATALOGUE,
    SweepAsk,
    SweepPoint,
    Written,
    axis_points,
    point_settings,
    written,
)
from inference_econ.inputs import Settings, catalog, prices, with_defaults
from inference_econ.studies.results import AnyFrontier
from inference_econ.studies.settings import frontier_of

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    import pyarrow as pa

#: Number of parts of a sweep, and minimum and maximum number of combinations per part [1].
_PARTS, _SMALLEST, _LARGEST = 400, 1, 256
#: Kind of catalog entry that a setting names, by setting.
_NAMES: Mapping[str, catalog.Kind] = {
    "model": "models",
    "draft": "models",
    "hardware": "hardware",
    "assumptions": "assumptions",
}
#: Mean time per combination [s].
_SECONDS = 0.1
#: Version of the row format. The version changes if old and new files cannot be read together.
_FORM = 1


@dataclass(frozen=True, slots=True)
class Combination:
    """One combination of a sweep: a point on each axis.

    Attributes
    ----------
    number : int
        Index of the combination in the product of the axes, from 0; the first axis varies slowest.
    labels : dict of str
        Label of the combination's point on each axis.
    settings : Settings
        Settings of the combination's frontier.
    """

    number: int
    labels: dict[str, str]
    settings: Settings


@dataclass(frozen=True)
class Combinations:
    """Combinations of a sweep, created on demand.

    Attributes
    ----------
    ask : SweepAsk
        Query of the sweep.
    """

    ask: SweepAsk

    @cached_property
    def axes(self) -> dict[str, dict[str, SweepPoint]]:
        """Points of each axis by label, with catalog names.

        Raises
        ------
        UnknownNameError, InputError
            If a name is unknown.
        """
        return {name: self._points(name) for name in self.ask.axes}

    def _points(self, name: str) -> dict[str, SweepPoint]:
        axis = self.ask.axes[name]
        if axis == "all":
            shipped = (entry for entry in catalog.names(_NAMES[name]) if "/" not in entry)
            return {entry: {name: entry} for entry in shipped}
        meant = [(label, _named(point)) for label, point in axis_points(name, axis)]
        # Labels that are catalog names are written as in the catalog.
        return {str(point[name]) if name in _NAMES and [*point] == [name] else label: point for label, point in meant}

    @property
    def product(self) -> int:
        """Number of combinations, including excluded combinations [1]."""
        return math.prod(len(points) for points in self.axes.values())

    @cached_property
    def batch(self) -> int:
        """Number of combinations in each part [1]."""
        return min(max(math.ceil(self.product / _PARTS), _SMALLEST), _LARGEST)

    @property
    def parts(self) -> int:
        """Number of parts [1]."""
        return math.ceil(self.product / self.batch)

    def numbers(self, index: int) -> range:
        """Indices of the combinations of a part."""
        return range(index * self.batch, min((index + 1) * self.batch, self.product))

    def part(self, index: int) -> list[Combination]:
        """Combinations of a part, without excluded combinations."""
        named = ((number, self._labels(number)) for number in self.numbers(index))
        return [
            self._combination(number, labels)
            for number, labels in named
            if not any(all(labels[name] in values for name, values in entry.items()) for entry in self._left_out)
        ]

    def _labels(self, number: int) -> dict[str, str]:
        """Labels of a combination."""
        labels = {}
        for name, points in reversed(self.axes.items()):
            number, place = divmod(number, len(points))
            labels[name] = self._names[name][place]
        return {name: labels[name] for name in self.axes}

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        return {name: list(points) for name, points in self.axes.items()}

    @cached_property
    def _left_out(self) -> list[dict[str, list[str]]]:
        return [{name: written(values) for name, values in entry.items()} for entry in self.ask.leave_out]

    def _combination(self, number: int, labels: dict[str, str]) -> Combination:
        settings = self._common
        for name, label in labels.items():
            changes = (*settings.changes, *self._settings[name][label].changes)
            settings = self._settings[name][label].over(settings)
            settings = settings.replace(changes=changes) if changes else settings
        return Combination(number, labels, settings)

    @cached_property
    def _common(self) -> Settings:
        named = _named({name: getattr(self.ask.common, name) for name in _NAMES if getattr(self.ask.common, name)})
        priced = {} if self.price is None else {"price": self.price}
        return self.ask.common.replace(**named, **priced)

    @property
    def several_chips(self) -> bool:
        """True if chips are compared and no axis sets prices."""
        points = [point for axis in self.axes.values() for point in axis.values()]
        return not any("price" in point for point in points) and len(_chips(points)) > 1

    @cached_property
    def price(self) -> float | str | None:
        """Price or pricing model for all combinations [USD/h].

        If prices from one source exist for several chips, the result names this source.
        """
        points = (point for axis in self.axes.values() for point in axis.values())
        common = self.ask.common.price
        return prices.priced_alike(map(catalog.hardware, _chips(points)), common) if self.several_chips else common

    @cached_property
    def _settings(self) -> dict[str, dict[str, Settings]]:
        """Settings of each axis point, by axis and label."""
        return {
            name: {label: point_settings(name, point) for label, point in points.items()}
            for name, points in self.axes.items()
        }

    @cached_property
    def digest(self) -> str:
        """Digest of the scenario of the sweep and of the row format."""
        content = {
            "axes": {name: list(points.items()) for name, points in self.axes.items()},
            "common": self._common.model_dump(mode="json", exclude_unset=True),
            "leave_out": self._left_out,
            "unlisted": sorted(self.ask.unlisted),
            "batch": self.batch,
            "form": _FORM,
        }
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @cached_property
    def facts(self) -> str:
        """Digest of everything that affects results: release, catalog, and user files.

        Raises
        ------
        InputError
            If a file is missing.
        """
        digest = hashlib.sha256(importlib.metadata.version("inference-econ").encode())
        kinds: tuple[catalog.Kind, ...] = ("hardware", "models", "assumptions", "engines")
        for kind in kinds:
            for path in sorted({*catalog.folder(kind).rglob("*.yaml"), *catalog.files(kind).values()}):
                digest.update(path.read_bytes())
        # User files that the settings name.
        used = [self._common, *(settings for points in self._settings.values() for settings in points.values())]
        named = {(kind, getattr(settings, field)) for settings in used for field, kind in _NAMES.items()}
        for kind, name in sorted(
            (kind, name) for kind, name in named if name is not None and name not in catalog.names(kind)
        ):
            digest.update(json.dumps(_READ[kind](name).model_dump(mode="json")).encode())
        return digest.hexdigest()


_READ = {"models": catalog.model, "hardware": catalog.hardware, "assumptions": catalog.assumptions}


def _named(point: Mapping[str, Written]) -> SweepPoint:
    """Replace the names in a point by names of the catalog.

    Raises
    ------
    UnknownNameError, InputError
        If a name is unknown.
    """
    return {
        key: catalog.meaning(_NAMES[key], str(value)).name if key in _NAMES else value for key, value in point.items()
    }


def _chips(points: Iterable[SweepPoint]) -> set[str]:
    return {str(point["hardware"]) for point in points if "hardware" in point}


def combinations_of(ask: SweepAsk) -> Combinations:
    """Create and check the combinations of a sweep.

    Raises
    ------
    InputError
        If a name is unknown, a model or hardware is missing, or all combinations are excluded.
    """
    made = Combinations(ask)
    first = next((combination for index in range(made.parts) for combination in made.part(index)), None)
    if first is None:
        raise InputError("leave_out leaves every combination out; there is nothing to ask")
    for name in WHOLE_CATALOGUE:
        if getattr(first.settings, name) is None:
            raise InputError(f"a sweep needs a {name}, as an axis or in 'common'")
    return made


def check_work(combinations: Combinations, parts: Iterable[int], at_once: int = 1) -> None:
    """Reject parts of a sweep that would take too long, before their computation starts.

    Parameters
    ----------
    combinations : Combinations
        Combinations of the sweep.
    parts : iterable of int
        Indices of the parts to compute.
    at_once : int
        Number of processes [1].

    Raises
    ------
    TooMuchError
        If the parts would take too long; the message has the number of combinations and the estimated time.
    """
    number = sum(len(combinations.numbers(index)) for index in parts)
    check(f"{number:,} combinations", seconds=number * _SECONDS / at_once, smaller="the axes")


#: Time limit of a single combination [s].
_LIMIT_SECONDS = 60.0
#: Columns of resolved settings.
ASKED_TEXTS = ("model", "hardware", "weights", "activations", "kv", "assumptions")
ASKED_NUMBERS = ("isl", "osl", "context", "dollars_per_accelerator_hour")
#: Predicted columns. Their 80% intervals are in NAME_low and NAME_high.
BOUNDED = ("tokens_per_second_per_user", "dollars_per_million_output_tokens", "ttft_seconds", "tpot_seconds")
#: Other columns of a point.
NUMBERS = (
    "e2e_seconds",
    "dollars_per_million_tokens",
    "tokens_per_second_per_accelerator",
    "tokens_per_second_per_megawatt",
    "requests_per_second",
    "accelerators",
    "concurrency",
    "batch",
    "mfu",
)
DEGREES = ("tp", "dp", "pp", "ep")
#: Columns of a combination without a frontier.
FAILED = ("failure", "reason")
#: Column names that are reserved, so that an axis cannot have them.
_POINT = {"combination", "point", "layout", "engines", *BOUNDED, *NUMBERS, *DEGREES, *FAILED}
#: Metadata keys for the sweep and the part.
DIGEST, INDEX = b"sweep", b"part"
#: Reason for numeric overflow, the only error that can occur after all settings are resolved.
_UNCOUNTABLE = "its numbers are together too large or too small to calculate with"


class SweepPart(NamedTuple):
    """Computed part of a sweep."""

    content: bytes
    """Rows as a Parquet file."""
    combinations: int
    """Computed combinations [1]."""
    failures: int
    """Combinations without a frontier [1]."""


class AxisColumn(NamedTuple):
    """Column with the value or the label of an axis."""

    name: str
    """Column name; ``asked_NAME`` if results have a column of that name."""
    numeric: bool
    """True for numbers, False for texts."""

    def value(self, label: str) -> str | float:
        """Value of the column for a point."""
        return float(label) if self.numeric else label


def axis_columns(combinations: Combinations) -> dict[str, AxisColumn]:
    """Column of each axis."""
    columns = {}
    for name, axis in combinations.axes.items():
        points = list(axis.values())
        plain = all(list(point) == [name] for point in points)
        taken = _POINT if plain else {*_POINT, *ASKED_TEXTS, *ASKED_NUMBERS}
        numeric = plain and all(type(value) in (int, float) for point in points for value in point.values())
        columns[name] = AxisColumn(f"asked_{name}" if name in taken else name, numeric)
    return columns


def answered(asked: bytes, index: int, facts: str) -> SweepPart:
    """Compute a part of a sweep in any process.

    Parameters
    ----------
    asked : bytes
        Pickled :class:`~inference_econ.inputs.SweepAsk`.
    index : int
        Index of the part.
    facts : str
        :attr:`Combinations.facts` of the calling process.

    Raises
    ------
    InputError
        If the release or the catalog files of this process differ from those of the calling process.
    """
    combinations = _unpickled(asked)
    if combinations.facts != facts:
        raise InputError(
            "a worker has other facts than this process (another release, or other files of chips, models or "
            "presets). Install the same release, and store your files under a path that all workers share"
        )
    with catalog.uncopied(), allow(_LIMIT_SECONDS), np.errstate(over="raise", divide="raise", invalid="raise"):
        return part(combinations, index)


@lru_cache(maxsize=4)
def _unpickled(asked: bytes) -> Combinations:
    ask = pickle.loads(asked)
    assert isinstance(ask, SweepAsk)
    return Combinations(ask)


def part(combinations: Combinations, index: int) -> SweepPart:
    """Compute a part of a sweep and write its rows."""
    from pyarrow import parquet

    some = combinations.part(index)
    columns = axis_columns(combinations)
    blocks = [_rows(combination, columns) for combination in some]
    failures = [block["failure"] for block in blocks if "failure" in block]
    listed = [block for block in blocks if block.get("failure") not in combinations.ask.unlisted]
    metadata = {DIGEST: combinations.digest.encode(), INDEX: str(index).encode()}
    with io.BytesIO() as file:
        parquet.write_table(table(combinations, listed).replace_schema_metadata(metadata), file, compression="zstd")
        return SweepPart(file.getvalue(), len(some), len(failures))


def _rows(combination: Combination, columns: Mapping[str, AxisColumn]) -> Mapping[str, Any]:
    """Columns of the rows of a combination: a list, or one value that all rows share."""
    by_label = {columns[axis].name: columns[axis].value(label) for axis, label in combination.labels.items()}
    filled = with_defaults(combination.settings)
    asked = {name: getattr(filled, name, None) for name in (*ASKED_TEXTS, *ASKED_NUMBERS)}
    named = {"combination": combination.number, **by_label, **asked}
    try:
        front = frontier_of(combination.settings)
        return {**named, **_points(front)}
    except NothingFitsError as error:
        failure, reason = "nothing_fits", str(error)
    except InputError as error:
        failure, reason = "refused", str(error)
    except (ArithmeticError, RuntimeWarning) as error:
        failure, reason = "refused", f"{_UNCOUNTABLE} ({error})"
    return {**named, "failure": failure, "reason": reason}


def _points(front: AnyFrontier) -> dict[str, Any]:
    """Columns of a frontier: resolved formats, preset and price, and one list per column of its points."""
    setup, points, ends = front.setup, front.points(), front.ends()
    # Frontiers of decode steps lack some numbers of services.
    numbers = {name: [getattr(point, name, None) for point in points] for name in (*BOUNDED, *NUMBERS)}
    for name in BOUNDED:
        for end, factor in zip(("low", "high"), ends.get(name, (None, None)), strict=True):
            if factor is not None and None not in numbers[name]:
                numbers[f"{name}_{end}"] = (np.array(numbers[name]) * factor).tolist()
    layouts = [point.layout for point in points]
    return {
        **{name: getattr(setup.precision, name) for name in ("weights", "activations", "kv")},
        "assumptions": setup.assumptions.name,
        "context": setup.context,
        "dollars_per_accelerator_hour": setup.dollars_per_accelerator_hour,
        "point": list(range(len(points))),
        **numbers,
        "layout": list(map(recorded_key, layouts)),
        **{name: [layout.get(name, 1.0) for layout in layouts] for name in DEGREES},
        "engines": [layout.get("engine") for layout in layouts],
    }


def schema(combinations: Combinations) -> pa.Schema:
    """Schema of the Parquet files of a sweep."""
    import pyarrow as pa

    columns: dict[str, pa.DataType] = {"combination": pa.int64()}
    columns |= {it.name: pa.float64() if it.numeric else pa.string() for it in axis_columns(combinations).values()}
    columns |= dict.fromkeys(ASKED_TEXTS, pa.string()) | dict.fromkeys(ASKED_NUMBERS, pa.float64())
    columns["point"] = pa.int32()
    for name in BOUNDED:
        columns |= dict.fromkeys((name, f"{name}_low", f"{name}_high"), pa.float64())
    columns |= dict.fromkeys(NUMBERS, pa.float64())
    columns["layout"] = pa.string()
    columns |= dict.fromkeys(DEGREES, pa.float64())
    columns |= dict.fromkeys(("engines", *FAILED), pa.string())
    return pa.schema(list(columns.items()))


def table(combinations: Combinations, blocks: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Combine blocks of rows into a table."""
    import pyarrow as pa

    columns = schema(combinations)
    values: dict[str, list[Any]] = {name: [] for name in columns.names}
    for block in blocks:
        rows = len(block.get("point", [None]))
        for name, column in values.items():
            value = block.get(name)
            column += value if isinstance(value, list) else [value] * rows
    return pa.table(values, schema=columns)


#: Number of running and waiting parts per worker [1]. Workers then never idle, and few results are in memory.
_EACH = 2


def answers(combinations: Combinations, parts: Iterable[int], jobs: int = 1) -> Iterator[tuple[int, SweepPart]]:
    """Compute parts, and yield each with its index, in any order.

    Parameters
    ----------
    combinations : Combinations
        Combinations of the sweep.
    parts : iterable of int
        Parts to compute.
    jobs : int
        Number of processes [1]; 1 computes in this process.

    Raises
    ------
    InputError
        If the system kills one of the processes.
    """
    question, facts, todo = pickle.dumps(combinations.ask), combinations.facts, iter(parts)
    if jobs == 1:
        for index in todo:
            yield index, answered(question, index, facts)
        return
    from concurrent.futures import FIRST_COMPLETED, wait
    from concurrent.futures.process import BrokenProcessPool

    with _processes(jobs) as pool:
        running = {pool.submit(answered, question, index, facts): index for index in islice(todo, _EACH * jobs)}
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                index = running.pop(future)
                try:
                    yield index, future.result()
                except BrokenProcessPool as error:
                    raise InputError(
                        f"the system ended one of the {jobs} worker processes, perhaps because memory ran out; "
                        "finished parts are stored: run the same command again to continue, with fewer --jobs"
                    ) from error
                running |= {pool.submit(answered, question, more, facts): more for more in islice(todo, 1)}


@contextmanager
def _processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Process pool that ends with the block, or when this process is killed."""
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("spawn")
    held, holder = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(jobs, context, _begin, (held,))
    try:
        yield pool
    finally:
        # Only this process has this end of the pipe. It closes when this process ends or is killed, and workers notice
        # this.
        holder.close()
        pool.shutdown(wait=True, cancel_futures=True)
        held.close()


def _begin(held: Connection) -> None:
    """Prepare a worker: exit when the pipe closes, and ignore interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(held,), daemon=True).start()


def _end_with(held: Connection) -> None:
    held.poll(None)
    os._exit(0)
