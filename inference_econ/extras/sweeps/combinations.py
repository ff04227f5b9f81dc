"""Numbered combinations of a sweep, so that each part can be computed independently."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from inference_econ._work import check
from inference_econ.errors import InputError
from inference_econ.extras.sweeps.scenario_kinds import (
    WHOLE_CATALOGUE,
    SweepAsk,
    SweepPoint,
    Written,
    axis_points,
    point_settings,
    written,
)
from inference_econ.inputs import Settings, catalog, prices

#: Number of parts of a sweep, and minimum and maximum number of combinations per part [1].
_PARTS, _SMALLEST, _LARGEST = 400, 1, 256
#: Settings that name a catalog entry, by kind.
_NAMES: Mapping[str, catalog.Kind] = {
    "model": "models",
    "draft": "models",
    "hardware": "hardware",
    "assumptions": "assumptions",
}
#: Mean time per combination [s].
_SECONDS = 0.1
#: Version of the row format. It changes if old and new files cannot be read together.
_FORM = 1


@dataclass(frozen=True, slots=True)
class Combination:
    """Combination of a sweep.

    Attributes
    ----------
    number : int
        Index in the product, from 0; the first axis varies slowest.
    labels : dict of str
        Label of its point on each axis.
    settings : Settings
        Settings of its frontier.
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
        Sweep.
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
        # Labels that are names have the spelling of the catalog.
        return {str(point[name]) if name in _NAMES and [*point] == [name] else label: point for label, point in meant}

    @property
    def product(self) -> int:
        """Number of combinations, including excluded ones [1]."""
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
        """Combinations of a part, without excluded ones."""
        named = ((number, self._labels(number)) for number in self.numbers(index))
        return [self._combination(number, labels) for number, labels in named if not self._is_left_out(labels)]

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

    def _is_left_out(self, labels: Mapping[str, str]) -> bool:
        return any(all(labels[name] in values for name, values in entry.items()) for entry in self._left_out)

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

        If several chips have prices from the same source, it names this source.
        """
        points = (point for axis in self.axes.values() for point in axis.values())
        common = self.ask.common.price
        return prices.priced_alike(map(catalog.hardware, _chips(points)), common) if self.several_chips else common

    @cached_property
    def _settings(self) -> dict[str, dict[str, Settings]]:
        """Settings of each point, by axis and label."""
        return {
            name: {label: point_settings(name, point) for label, point in points.items()}
            for name, points in self.axes.items()
        }

    @cached_property
    def digest(self) -> str:
        """Digest of the sweep: its content and row format."""
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
        for kind, name in sorted(self._own_files()):
            digest.update(_READ[kind](name).model_dump_json().encode())
        return digest.hexdigest()

    def _own_files(self) -> set[tuple[catalog.Kind, str]]:
        """Names that are not in the catalog."""
        used = [self._common, *(settings for points in self._settings.values() for settings in points.values())]
        named = {(kind, getattr(settings, field)) for settings in used for field, kind in _NAMES.items()}
        return {(kind, name) for kind, name in named if name is not None and name not in catalog.names(kind)}


_READ = {"models": catalog.model, "hardware": catalog.hardware, "assumptions": catalog.assumptions}


def _named(point: Mapping[str, Written]) -> SweepPoint:
    """Point with catalog names.

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
        If a name is unknown, a model or hardware is missing, or everything is excluded.
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
    """Reject parts that would take too long, before they start.

    Parameters
    ----------
    combinations : Combinations
        Combinations.
    parts : iterable of int
        Missing parts.
    at_once : int
        Processes [1].

    Raises
    ------
    TooMuchError
        If the parts would take too long; the message has the number of combinations and the estimated time.
    """
    number = sum(len(combinations.numbers(index)) for index in parts)
    check(f"{number:,} combinations", seconds=number * _SECONDS / at_once, smaller="the axes")
