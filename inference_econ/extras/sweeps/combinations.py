"""The combinations of a sweep: numbered, so that any part of them can be asked anywhere and at any time."""

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

#: Parts that a sweep is written in, unless they would have fewer or more combinations than these [1].
_PARTS, _SMALLEST, _LARGEST = 400, 1, 256
#: Settings that name an entry of the catalogue, by its kind.
_NAMES: Mapping[str, catalog.Kind] = {
    "model": "models",
    "draft": "models",
    "hardware": "hardware",
    "assumptions": "assumptions",
}
#: What a combination takes, on average [s].
_SECONDS = 0.1
#: What rows look like; another number where files of before cannot be read together with new ones.
_FORM = 1


@dataclass(frozen=True, slots=True)
class Combination:
    """One combination of a sweep.

    Attributes
    ----------
    number : int
        In the whole product, from 0; the first axis changes slowest.
    labels : dict of str
        What its point on each axis is called.
    settings : Settings
        What is asked.
    """

    number: int
    labels: dict[str, str]
    settings: Settings


@dataclass(frozen=True)
class Combinations:
    """All combinations of a sweep, none of which is made before it is needed.

    Attributes
    ----------
    ask : SweepAsk
        What is swept.
    """

    ask: SweepAsk

    @cached_property
    def axes(self) -> dict[str, dict[str, SweepPoint]]:
        """Points by what they are called, by axis; names are those of the catalogue.

        Raises
        ------
        UnknownNameError, InputError
            If there is nothing of a name.
        """
        return {name: self._points(name) for name in self.ask.axes}

    def _points(self, name: str) -> dict[str, SweepPoint]:
        axis = self.ask.axes[name]
        if axis == "all":
            shipped = (entry for entry in catalog.names(_NAMES[name]) if "/" not in entry)
            return {entry: {name: entry} for entry in shipped}
        meant = [(label, _named(point)) for label, point in axis_points(name, axis)]
        # What is called after a name is called as the catalogue has it.
        return {str(point[name]) if name in _NAMES and [*point] == [name] else label: point for label, point in meant}

    @property
    def product(self) -> int:
        """Combinations with those that are left out [1]."""
        return math.prod(len(points) for points in self.axes.values())

    @cached_property
    def batch(self) -> int:
        """Numbers of the product that a part has [1]."""
        return min(max(math.ceil(self.product / _PARTS), _SMALLEST), _LARGEST)

    @property
    def parts(self) -> int:
        """Parts of the product [1]."""
        return math.ceil(self.product / self.batch)

    def numbers(self, index: int) -> range:
        """Numbers of the product that are in a part."""
        return range(index * self.batch, min((index + 1) * self.batch, self.product))

    def part(self, index: int) -> list[Combination]:
        """The combinations of a part, without those that are left out."""
        named = ((number, self._labels(number)) for number in self.numbers(index))
        return [self._combination(number, labels) for number, labels in named if not self._is_left_out(labels)]

    def _labels(self, number: int) -> dict[str, str]:
        """Labels of the points of a combination."""
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
        """True if chips are compared, at prices that no axis says."""
        points = [point for axis in self.axes.values() for point in axis.values()]
        return not any("price" in point for point in points) and len(_chips(points)) > 1

    @cached_property
    def price(self) -> float | str | None:
        """The price of all combinations [USD/h], or its kind; of one source if several chips are priced alike."""
        points = (point for axis in self.axes.values() for point in axis.values())
        common = self.ask.common.price
        return prices.priced_alike(map(catalog.hardware, _chips(points)), common) if self.several_chips else common

    @cached_property
    def _settings(self) -> dict[str, dict[str, Settings]]:
        """The settings of each point, by axis and what the point is called."""
        return {
            name: {label: point_settings(name, point) for label, point in points.items()}
            for name, points in self.axes.items()
        }

    @cached_property
    def digest(self) -> str:
        """Digest that tells a sweep from others: what is asked, and which rows that gives."""
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
        """Facts that tell answers of today from others: the release, the catalogue, and files of the user's own.

        Raises
        ------
        InputError
            If a file is not there.
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
        """Names that are not of the catalogue."""
        used = [self._common, *(settings for points in self._settings.values() for settings in points.values())]
        named = {(kind, getattr(settings, field)) for settings in used for field, kind in _NAMES.items()}
        return {(kind, name) for kind, name in named if name is not None and name not in catalog.names(kind)}


_READ = {"models": catalog.model, "hardware": catalog.hardware, "assumptions": catalog.assumptions}


def _named(point: Mapping[str, Written]) -> SweepPoint:
    """A point with the names that the catalogue has for what it names.

    Raises
    ------
    UnknownNameError, InputError
        If there is nothing of a name.
    """
    return {
        key: catalog.meaning(_NAMES[key], str(value)).name if key in _NAMES else value for key, value in point.items()
    }


def _chips(points: Iterable[SweepPoint]) -> set[str]:
    return {str(point["hardware"]) for point in points if "hardware" in point}


def combinations_of(ask: SweepAsk) -> Combinations:
    """The combinations of a sweep, checked.

    Raises
    ------
    InputError
        If a name is unknown, no model or hardware is named, or everything is left out.
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
    """Refuse parts that would take too long, before they begin.

    Parameters
    ----------
    combinations : Combinations
        What is asked.
    parts : iterable of int
        Those that are missing.
    at_once : int
        Processes that answer them [1].

    Raises
    ------
    TooMuchError
        With how many there are, and how long they take.
    """
    number = sum(len(combinations.numbers(index)) for index in parts)
    check(f"{number:,} combinations", seconds=number * _SECONDS / at_once, smaller="the axes")
