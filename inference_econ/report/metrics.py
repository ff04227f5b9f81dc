"""Metrics that charts show against user speed: their names and labels, and whether low or high values are better."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from inference_econ.inputs.options import rows
from inference_econ.search import Metric


class MetricAxis(NamedTuple):
    """Metric that a chart can show on its y axis: a row of ``metrics.csv``."""

    field: str
    """Name in the glossary of fields."""
    label: str
    """Label of the axis, with the unit."""
    head: str
    """Title above the chart."""
    good: str
    """Better end of the axis: ``low`` or ``high`` values; empty if neither is better."""
    question: str
    """Question that a chart of the metric answers; empty for costs."""
    factor: float
    """Factor from base units to the displayed number [1]."""
    dollars: bool
    """True if the metric is proportional to the price of a GPU."""


def _axis(row: Mapping[str, str]) -> MetricAxis:
    values: dict[str, Any] = {name: row[name] for name in MetricAxis._fields}
    return MetricAxis(**{**values, "factor": float(row["factor"]), "dollars": row["dollars"] == "yes"})


#: Metrics by the names of ``--y``.
AXES: Mapping[Metric, MetricAxis] = {
    cast("Metric", row["name"]): _axis(row) for row in rows(Path(__file__).with_suffix(".csv"))
}
