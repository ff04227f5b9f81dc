"""Metrics against the speed of a user in pictures: the name of each, and which end of it is good."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from inference_econ.inputs.options import rows
from inference_econ.search import Metric


class MetricAxis(NamedTuple):
    """A metric as the vertical axis of a picture: a row of ``metrics.csv``."""

    field: str
    """Name in the glossary of fields."""
    label: str
    """Label of the axis, with the unit."""
    head: str
    """Title above the picture."""
    good: str
    """Good end of it: ``low`` or ``high``; empty where neither is."""
    question: str
    """Question that a picture of it answers, where that is not one of cost."""
    factor: float
    """Factor from base units to the drawn number [1]."""
    dollars: bool
    """True if it is in proportion to the price of a chip."""


def _axis(row: Mapping[str, str]) -> MetricAxis:
    values: dict[str, Any] = {name: row[name] for name in MetricAxis._fields}
    return MetricAxis(**{**values, "factor": float(row["factor"]), "dollars": row["dollars"] == "yes"})


#: By name, as ``--y`` has them.
AXES: Mapping[Metric, MetricAxis] = {
    cast("Metric", row["name"]): _axis(row) for row in rows(Path(__file__).with_suffix(".csv"))
}
