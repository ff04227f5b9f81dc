"""Plain data (numbers, texts, lists and mappings, as in JSON), and conversion to data frames."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pandas as pd

#: Message for a result with an infinite number, which no file format supports.
_INFINITE = "a result is not finite"
#: Data frame, for spreadsheets and notebooks.
Frame: TypeAlias = "pd.DataFrame"


def attributes(owner: object, names: str) -> dict[str, Any]:
    """Return attributes of an object as a dictionary.

    ``names`` has the names of the attributes, separated by spaces. ``field=attribute`` gives a field another name.
    """
    pairs = (name.partition("=") for name in names.split())
    return {field: getattr(owner, attribute or field) for field, _, attribute in pairs}


def finite_or_none(value: float) -> float | None:
    """Return the value, or None if it is infinite or NaN, because JSON cannot represent these values."""
    return value if math.isfinite(value) else None


def finite_or_nan(value: float) -> float:
    """Return the value as a float, or NaN if it is infinite; NaN is a gap in a chart and an empty cell in a table."""
    return float(value) if math.isfinite(value) else math.nan


def without_signed_zeros(value: Any) -> Any:
    """Copy plain data; each negative zero (-0.0) becomes 0.0."""
    if isinstance(value, Mapping):
        return {key: without_signed_zeros(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_signed_zeros(item) for item in value]
    return value + 0.0 if isinstance(value, float) else value


def flat(record: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Flatten nested plain data. The names of nested fields are joined by underscores.

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
    """Convert records to a data frame of unrounded values, without the field ``calibration``."""
    return frame_of(
        [flat({name: value for name, value in record.items() if name != "calibration"}) for record in records]
    )


def records_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Convert columns to one record per row; a column with a single value has this value in every row."""
    lists = (column.tolist() if hasattr(column, "tolist") else column for column in columns.values())
    rows = zip(*(values if isinstance(values, (list, tuple)) else repeat(values) for values in lists), strict=False)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def frame_of(rows: Any, columns: list[str] | None = None) -> Frame:
    """Return a pandas data frame of rows, or of columns by name."""
    import pandas as pd

    return pd.DataFrame(rows, columns=columns)


def spreadsheet_cell(value: object) -> str:
    """Format a value for a spreadsheet cell: a float with ten digits, None as an empty cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:z.10g}" if isinstance(value, float) else str(value)


def named(record: object) -> dict[str, Any]:
    """Convert plain data to a dictionary without negative zeros; a list becomes the entry ``rows``."""
    plain = without_signed_zeros(record)
    return plain if isinstance(plain, dict) else {"rows": plain}


def csv_text(frame: Frame) -> str:
    """Convert a data frame to CSV text; missing values become empty cells, and -0.0 becomes 0.0.

    Raises
    ------
    OverflowError
        If a number is infinite.
    """
    return str(frame.map(_finite).to_csv(index=False, lineterminator="\n"))


def _finite(value: object) -> object:
    """Value of a CSV cell; a negative zero becomes zero."""
    if not isinstance(value, float):
        return value
    if math.isinf(value):
        raise OverflowError(_INFINITE)
    return value + 0.0


def json_text(record: object, indent: int | None = 2) -> str:
    """Convert plain data to JSON text without negative zeros; without an indent in one line, which is faster.

    Raises
    ------
    OverflowError
        If a number is infinite or NaN.
    """
    try:
        return json.dumps(without_signed_zeros(record), indent=indent, allow_nan=False) + "\n"
    except ValueError as error:
        raise OverflowError(_INFINITE) from error
