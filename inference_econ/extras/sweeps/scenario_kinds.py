"""Questions of scenarios that are products: every combination of models, chips, formats, traffics and prices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from inference_econ.errors import InputError
from inference_econ.inputs._spec import Spec
from inference_econ.inputs.scenario_kinds import Positive, Settings
from inference_econ.inputs.what_if import SPECIFICATIONS

#: A setting as it is written: a name, a number, a quantity.
Written = str | bool | int | float
#: Settings, and what-ifs by their dotted names.
SweepPoint = dict[str, Written]


def _form(values: Any) -> str:
    return "word" if isinstance(values, str) else "named" if isinstance(values, Mapping) else "listed"


#: What an axis of a product goes through: values of the setting that it is called after, points of several settings by
#: what they are called, or all that the catalogue has.
Axis = Annotated[
    Annotated[tuple[Written, ...], Field(min_length=1, strict=False), Tag("listed")]
    | Annotated[dict[str, SweepPoint], Field(min_length=1), Tag("named")]
    | Annotated[Literal["all"], Tag("word")],
    Discriminator(_form),
]
#: Values of an axis that a combination may have, or a single one.
Chosen = Annotated[
    Annotated[tuple[Written, ...], Field(min_length=1, strict=False), Tag("listed")] | Annotated[Written, Tag("word")],
    Discriminator(lambda values: "listed" if isinstance(values, (list, tuple)) else "word"),
]
#: Axes whose values may be all of the catalogue.
WHOLE_CATALOGUE = ("model", "hardware")


class Cheapest(Spec):
    """View of a sweep's table and picture: by row and speed, the deployment of least cost."""

    rows: str | None = None
    """Column with a row for each of its values; by default the model, or the first axis."""
    among: str | None = None
    """Column whose cheapest value is shown; by default the hardware, or the next axis."""
    speeds: Annotated[tuple[Positive, ...], Field(min_length=1, strict=False)] = (20, 50, 100, 200)
    """Least speeds [tokens/s per user]."""
    where: dict[str, Written] = Field(default_factory=dict)
    """Columns that must have a value: one traffic of several."""

    def _check_fields(self) -> None:
        if list(self.speeds) != sorted(set(self.speeds)):
            raise ValueError(f"speeds must ascend, got {', '.join(f'{speed:g}' for speed in self.speeds)}")


class SweepAsk(Spec):
    """Frontiers of every combination of some axes."""

    kind: Literal["sweep"]
    """Names this kind of question."""
    common: Settings = Field(default_factory=Settings)
    """Settings of all combinations."""
    axes: Annotated[dict[str, Axis], Field(min_length=1)]
    """By name: values of that setting, or of that number of a specification (``hardware.hbm_bytes_per_second``); or
    points of several settings by what they are called; ``all`` models or hardware of the catalogue. The first changes
    slowest."""
    leave_out: Annotated[tuple[dict[str, Chosen], ...], Field(strict=False)] = ()
    """Combinations that are not asked: those that have, on each axis that an entry names, one of its values."""
    unlisted: Annotated[tuple[Literal["nothing_fits", "refused"], ...], Field(strict=False)] = ()
    """Kinds of failures that leave no row."""
    cheapest: Cheapest = Field(default_factory=Cheapest)
    """View of it."""

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
                    raise ValueError(f"leave_out: {name!r} is no axis; axes: {', '.join(self.axes)}")
                labels = [label for label, _ in axis_points(name, self.axes[name])]
                odd = next((value for value in written(values) if value not in labels), None)
                if self.axes[name] != "all" and odd is not None:
                    raise ValueError(f"leave_out: {odd!r} is not on the axis {name!r}, which has {', '.join(labels)}")


def axis_points(name: str, axis: Axis) -> list[tuple[str, SweepPoint]]:
    """The points of an axis with what they are called, in order; none of ``all``, which only the catalogue knows."""
    if isinstance(axis, str):
        return []
    if isinstance(axis, Mapping):
        return list(axis.items())
    return [(_text(value), {name: value}) for value in axis]


def written(values: tuple[Written, ...] | Written) -> list[str]:
    """Values as their points are called."""
    return [_text(value) for value in (values if isinstance(values, tuple) else (values,))]


def point_settings(name: str, point: Mapping[str, Written]) -> Settings:
    """The settings of a point; keys with a dot are what-ifs.

    Raises
    ------
    SpecError
        If a key is no setting or a value is not allowed.
    """
    fields = {key: value for key, value in point.items() if "." not in key}
    changes = [f"{key}={_text(value)}" for key, value in point.items() if "." in key]
    return Settings.build({**fields, **({"changes": changes} if changes else {})}, origin=f"axis {name!r}")


def _text(value: Written) -> str:
    """A value as YAML has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check(name: str, label: str, point: SweepPoint) -> None:
    """Refuse a point that is no settings."""
    for key in point:
        specification, dot, _ = key.partition(".")
        if dot and specification not in SPECIFICATIONS:
            allowed = ", ".join(f"{name_of}.FIELD" for name_of in SPECIFICATIONS)
            raise ValueError(f"axis {name!r}: {key!r} is no number of a specification; allowed: {allowed}")
    try:
        point_settings(name, point)
    except InputError as error:
        several = f" ({label})" if [*point] != [name] else ""
        raise ValueError(f"{error}{several}") from error
