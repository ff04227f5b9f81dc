"""Sweep scenarios: every combination of models, chips, formats, workloads and prices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from inference_econ.errors import InputError
from inference_econ.inputs._spec import Discriminator, Field, Spec, Tag
from inference_econ.inputs.options import SPECIFICATIONS
from inference_econ.inputs.scenario_kinds import Positive, Settings

#: Value of a setting as written in the file: a name, a number, or a quantity.
Written = str | bool | int | float
#: Settings of a point on an axis; dotted names are modified catalog numbers.
SweepPoint = dict[str, Written]


def _form(values: Any) -> str:
    return "word" if isinstance(values, str) else "named" if isinstance(values, Mapping) else "listed"


#: Points of an axis: values of the setting with the name of the axis, labeled points with several settings, or ``all``
#: catalog entries.
Axis = Annotated[
    Annotated[tuple[Written, ...], Field(min_length=1, strict=False), Tag("listed")]
    | Annotated[dict[str, SweepPoint], Field(min_length=1), Tag("named")]
    | Annotated[Literal["all"], Tag("word")],
    Discriminator(_form),
]
#: One or several values of an axis by which combinations are selected.
Chosen = Annotated[
    Annotated[tuple[Written, ...], Field(min_length=1, strict=False), Tag("listed")] | Annotated[Written, Tag("word")],
    Discriminator(lambda values: "listed" if isinstance(values, (list, tuple)) else "word"),
]
#: Axes whose values may be the entire catalog.
WHOLE_CATALOGUE = ("model", "hardware")


class Cheapest(Spec):
    """View of a sweep: a table of the cheapest deployment for each row and speed."""

    rows: str | None = None
    """Column whose values are the rows of the table; by default the model, or else the first axis."""
    among: str | None = None
    """Column over whose values the cheapest deployment is searched; by default the hardware, or else the next axis."""
    speeds: Annotated[tuple[Positive, ...], Field(min_length=1, strict=False)] = (20, 50, 100, 200)
    """Minimum speeds [tokens/s per user]."""
    where: dict[str, Written] = Field(default_factory=dict)
    """Columns that are restricted to one value, such as the workload."""

    def _check_fields(self) -> None:
        if list(self.speeds) != sorted(set(self.speeds)):
            raise ValueError(f"speeds must ascend, got {', '.join(f'{speed:g}' for speed in self.speeds)}")


class SweepAsk(Spec):
    """Scenario that computes the frontier of every combination of axis points."""

    kind: Literal["sweep"]
    """Kind of scenario."""
    common: Settings = Field(default_factory=Settings)
    """Settings of all combinations."""
    axes: Annotated[dict[str, Axis], Field(min_length=1)]
    """Axes by name; the first axis varies slowest.

    An axis is a list of values, labeled points with several settings each, or ``all`` for all models or hardware of the
    catalog. Values apply to the setting, or to the number (``hardware.hbm_bytes_per_second``), that has the name of the
    axis.
    """
    leave_out: Annotated[tuple[dict[str, Chosen], ...], Field(strict=False)] = ()
    """Excluded combinations. An entry excludes combinations that have one of its values on each of its axes."""
    unlisted: Annotated[tuple[Literal["nothing_fits", "refused"], ...], Field(strict=False)] = ()
    """Kinds of failures for which no row is written."""
    cheapest: Cheapest = Field(default_factory=Cheapest)
    """View of the sweep that is shown: rows, compared column, and speeds."""

    def _check_fields(self) -> None:
        owner: dict[str, str] = {}
        for name, axis in self.axes.items():
            if axis == "all" and name not in WHOLE_CATALOGUE:
                raise ValueError(f"axis {name!r}: only {' and '.join(WHOLE_CATALOGUE)} can be 'all'; list its values")
            labels = [label for label, _ in axis_points(name, axis)]
            twice = next((label for label in labels if labels.count(label) > 1), None)
            if twice is not None:
                raise ValueError(f"axis {name!r}: {twice} is given twice")
            for label, point in axis_points(name, axis):
                _check(name, label, point)
                for field in point:
                    if owner.setdefault(field, name) != name:
                        raise ValueError(f"{field} is set by two axes, {owner[field]!r} and {name!r}; leave one out")
        for entry in self.leave_out:
            if not entry:
                raise ValueError("an entry of leave_out names no axis, and would leave everything out")
            for name, values in entry.items():
                if name not in self.axes:
                    raise ValueError(f"leave_out: {name!r} is not an axis; axes: {', '.join(self.axes)}")
                labels = [label for label, _ in axis_points(name, self.axes[name])]
                odd = next((value for value in written(values) if value not in labels), None)
                if self.axes[name] != "all" and odd is not None:
                    raise ValueError(f"leave_out: {odd!r} is not on the axis {name!r}, which has {', '.join(labels)}")


def axis_points(name: str, axis: Axis) -> list[tuple[str, SweepPoint]]:
    """Labels and points of an axis, in order; empty for ``all``, because its points depend on the catalog."""
    if isinstance(axis, str):
        return []
    if isinstance(axis, Mapping):
        return list(axis.items())
    return [(_text(value), {name: value}) for value in axis]


def written(values: tuple[Written, ...] | Written) -> list[str]:
    """Text labels of one or several values of an axis."""
    return [_text(value) for value in (values if isinstance(values, tuple) else (values,))]


def point_settings(name: str, point: Mapping[str, Written]) -> Settings:
    """Settings of a point; keys with a dot are modified catalog numbers (what-ifs).

    Raises
    ------
    SpecError
        If a key or a value is invalid.
    """
    fields = {key: value for key, value in point.items() if "." not in key}
    changes = [f"{key}={_text(value)}" for key, value in point.items() if "." in key]
    return Settings.build({**fields, **({"changes": changes} if changes else {})}, origin=f"axis {name!r}")


def _text(value: Written) -> str:
    """Value of a setting as YAML text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check(name: str, label: str, point: SweepPoint) -> None:
    """Reject an axis point with invalid settings."""
    for key in point:
        specification, dot, _ = key.partition(".")
        if dot and specification not in SPECIFICATIONS:
            allowed = ", ".join(f"{name_of}.FIELD" for name_of in SPECIFICATIONS)
            raise ValueError(f"axis {name!r}: {key!r} is not a numeric field of a specification; allowed: {allowed}")
    try:
        point_settings(name, point)
    except InputError as error:
        several = f" ({label})" if [*point] != [name] else ""
        raise ValueError(f"{error}{several}") from error
