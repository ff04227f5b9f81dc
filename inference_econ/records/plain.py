"""Plain data: numbers, texts, lists and mappings as JSON has them, and rows of them as frames."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pandas as pd

#: What is said of a result that no spreadsheet and no program can read.
_INFINITE = "a result is not finite"
#: Rows for spreadsheets and notebooks.
Frame: TypeAlias = "pd.DataFrame"


def attributes(owner: object, names: str) -> dict[str, Any]:
    """Return attributes by their names: what a record has as an object has it."""
    return {name: getattr(owner, name) for name in names.split()}


def finite_or_none(value: float) -> float | None:
    """The value itself, or None if it has no end or is not known: records have no NaN and no infinity."""
    return value if math.isfinite(value) else None


def finite_or_nan(value: float) -> float:
    """The value itself as a float, or NaN if it has no end: a gap of a line, and an empty cell."""
    return float(value) if math.isfinite(value) else math.nan


def without_signed_zeros(value: Any) -> Any:
    """Plain data without the sign of a zero."""
    if isinstance(value, Mapping):
        return {key: without_signed_zeros(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_signed_zeros(item) for item in value]
    return value + 0.0 if isinstance(value, float) else value


def flat(record: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Plain data without nesting: names joined by underscores.

    Examples
    --------
    >>> flat({"gpus": 8, "ttft_seconds": {"p50": 0.2}})
    {'gpus': 8, 'ttft_seconds_p50': 0.2}
    """
    joined: dict[str, Any] = {}
    for name, value in record.items():
        joined |= flat(value, f"{before}{name}_") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return joined


def flat_frame(records: Iterable[Mapping[str, Any]]) -> Frame:
    """Plain data as rows, unrounded; what is said of a whole answer's errors is left out."""
    return frame_of(
        [flat({name: value for name, value in record.items() if name != "calibration"}) for record in records]
    )


def records_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return columns by name as one record per row; a single value stands in all of them."""
    return [{str(name): value for name, value in row.items()} for row in frame_of(columns).to_dict("records")]


def frame_of(rows: Any, columns: list[str] | None = None) -> Frame:
    """Return rows, or columns by name, as a frame; pandas is loaded where there is one."""
    import pandas as pd

    return pd.DataFrame(rows, columns=columns)


def spreadsheet_cell(value: object) -> str:
    """Write a value for spreadsheets: nothing if it is missing, numbers with ten digits."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:z.10g}" if isinstance(value, float) else str(value)


def named(record: object) -> dict[str, Any]:
    """Plain data under names, without the sign of a zero; what has no names of its own are ``rows``."""
    plain = without_signed_zeros(record)
    return plain if isinstance(plain, dict) else {"rows": plain}


def csv_text(frame: Frame) -> str:
    """Rows as CSV text, without the sign of a zero; what is missing is empty.

    Raises
    ------
    OverflowError
        If a number is infinite.
    """
    return str(frame.map(_finite).to_csv(index=False, lineterminator="\n"))


def _finite(value: object) -> object:
    """A value of a cell without the sign of a zero."""
    if not isinstance(value, float):
        return value
    if math.isinf(value):
        raise OverflowError(_INFINITE)
    return value + 0.0


def json_text(record: object) -> str:
    """Plain data as JSON text, without the sign of a zero.

    Raises
    ------
    OverflowError
        If a number is infinite or missing.
    """
    try:
        return json.dumps(without_signed_zeros(record), indent=2, allow_nan=False) + "\n"
    except ValueError as error:
        raise OverflowError(_INFINITE) from error
