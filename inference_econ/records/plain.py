"""Plain data (numbers, texts, lists and mappings as in JSON), and data frames of its rows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pandas as pd

#: Message for a result that no file format can express.
_INFINITE = "a result is not finite"
#: Rows for spreadsheets and notebooks.
Frame: TypeAlias = "pd.DataFrame"


def attributes(owner: object, names: str) -> dict[str, Any]:
    """Return attributes by name, for records that have the same names."""
    return {name: getattr(owner, name) for name in names.split()}


def finite_or_none(value: float) -> float | None:
    """Value, or None if it is infinite or NaN, which records do not have."""
    return value if math.isfinite(value) else None


def finite_or_nan(value: float) -> float:
    """Value as a float, or NaN if it is infinite: a gap of a line, or an empty cell."""
    return float(value) if math.isfinite(value) else math.nan


def without_signed_zeros(value: Any) -> Any:
    """Plain data without negative zeros."""
    if isinstance(value, Mapping):
        return {key: without_signed_zeros(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_signed_zeros(item) for item in value]
    return value + 0.0 if isinstance(value, float) else value


def flat(record: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Plain data without nesting, with names joined by underscores.

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
    """Plain data as unrounded rows, without the errors of a whole result."""
    return frame_of(
        [flat({name: value for name, value in record.items() if name != "calibration"}) for record in records]
    )


def records_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return columns by name as one record per row; single values are repeated."""
    lists = (column.tolist() if hasattr(column, "tolist") else column for column in columns.values())
    rows = zip(*(values if isinstance(values, (list, tuple)) else repeat(values) for values in lists), strict=False)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def frame_of(rows: Any, columns: list[str] | None = None) -> Frame:
    """Return rows, or columns by name, as a data frame; imports pandas."""
    import pandas as pd

    return pd.DataFrame(rows, columns=columns)


def spreadsheet_cell(value: object) -> str:
    """Value as text for spreadsheets: empty if missing, numbers with ten digits."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:z.10g}" if isinstance(value, float) else str(value)


def named(record: object) -> dict[str, Any]:
    """Dictionary of plain data without negative zeros; a bare list becomes ``rows``."""
    plain = without_signed_zeros(record)
    return plain if isinstance(plain, dict) else {"rows": plain}


def csv_text(frame: Frame) -> str:
    """Rows as CSV text, without negative zeros; missing values are empty.

    Raises
    ------
    OverflowError
        If a number is infinite.
    """
    return str(frame.map(_finite).to_csv(index=False, lineterminator="\n"))


def _finite(value: object) -> object:
    """Cell value without a negative zero."""
    if not isinstance(value, float):
        return value
    if math.isinf(value):
        raise OverflowError(_INFINITE)
    return value + 0.0


def json_text(record: object) -> str:
    """Plain data as JSON text, without negative zeros.

    Raises
    ------
    OverflowError
        If a number is infinite or NaN.
    """
    try:
        return json.dumps(without_signed_zeros(record), indent=2, allow_nan=False) + "\n"
    except ValueError as error:
        raise OverflowError(_INFINITE) from error
