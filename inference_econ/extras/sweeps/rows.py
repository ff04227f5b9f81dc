"""Rows of a part of a sweep: every point of every frontier, or the reason why there is no frontier."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from inference_econ._work import allow
from inference_econ.engine import recorded_key
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.sweeps.combinations import Combination, Combinations
from inference_econ.extras.sweeps.scenario_kinds import SweepAsk
from inference_econ.inputs import catalog, with_defaults
from inference_econ.studies.results import AnyFrontier
from inference_econ.studies.settings import frontier_of

if TYPE_CHECKING:
    import pyarrow as pa

#: Time limit of a single combination [s].
_SECONDS = 60.0
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
#: Reason for the only kind of error that can occur after all settings are resolved.
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
    """Column with the point of an axis."""

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
        If the release or the catalog files of this process differ.
    """
    combinations = _unpickled(asked)
    if combinations.facts != facts:
        raise InputError(
            "a worker has other facts than this process (another release, or other files of chips, models or "
            "presets). Install the same release, and store your files under a path that all workers share"
        )
    with catalog.uncopied(), allow(_SECONDS), np.errstate(over="raise", divide="raise", invalid="raise"):
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
    """Columns of a combination. Each is a list, or one value for all rows."""
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
    """Resolved formats, preset and price, and lists with the columns of the points."""
    setup, points, ends = front.setup, front.points(), front.ends()
    # Some kinds of points lack some numbers.
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
    """Columns of all parts of a sweep."""
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
