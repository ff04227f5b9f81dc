"""Levels as a file of plain data, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from inference_econ.calibration.levels.observed import QUANTITIES, SHARED, Group, Name, Observed
from inference_econ.calibration.levels.pooled import DEPTHS, Levels, Spreads, known_part
from inference_econ.inputs import (
    LEVELS_FORM,
    MeasuredLevel,
    MeasuredLevels,
    Quantity,
    Unseen,
    constants_of,
)


class Entry(NamedTuple):
    """One level."""

    rows: int
    """Measurements [1]."""
    decode: float
    """Logarithm of that of steps that decode [1]."""
    prefill: float
    """Logarithm of that of steps that read prompts [1]."""


#: Levels by the first entries of a :class:`Place`.
Entries = Mapping[tuple[Any, ...], Entry]


def levels_data(
    group: Group,
    entries: Entries,
    spreads: Spreads,
    errors: Mapping[Unseen, Mapping[Quantity, Any]],
    *,
    date: str,
    shared: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The levels of one group as plain data of :class:`inference_econ.inputs.MeasuredLevels`."""
    beside = {"shared": [dict(level) for level in shared]} if shared else {}
    return {
        "form": LEVELS_FORM,
        "profile": group.profile,
        "constants": constants_of(group.profile),
        "engine": group.engine,
        "date": date,
        "rows": sum(entry.rows for part, entry in entries.items() if len(part) == 1),
        "spreads": _spreads(spreads),
        "errors": {unseen: dict(quantities) for unseen, quantities in errors.items()},
        **beside,
        "subjects": _nested(entries, ()),
    }


def entries_of(group: Group, rows: Sequence[Observed], levels: Levels) -> dict[tuple[Any, ...], Entry]:
    """Levels that were fitted to some rows of a group, with how many rows each rests on."""
    counts: dict[tuple[Any, ...], set[int]] = {}
    for number, row in enumerate(rows):
        for place in row.places if row.group == group else ():
            for depth in range(len(DEPTHS)):
                counts.setdefault(known_part(place, depth), set()).add(number)
    return {
        part: Entry(len(numbers), *(levels.get((group, kind, part), 0.0) for kind in range(2)))
        for part, numbers in counts.items()
    }


def known_shared(group: Group, file: MeasuredLevels) -> dict[Name, float]:
    """Levels of all models that a file says."""
    return {(Group(group.engine, ""), 0, SHARED): level.decode for level in file.shared}


def known_entries(file: MeasuredLevels) -> dict[tuple[Any, ...], Entry]:
    """The levels of a file."""
    entries: dict[tuple[Any, ...], Entry] = {}
    for subject in file.subjects:
        part: tuple[Any, ...] = ((subject.model, subject.hardware),)
        entries[part] = _entry(subject)
        for version in subject.versions:
            entries[*part, version.version] = _entry(version)
            for way in version.ways:
                place = (*part, version.version, (way.apart, way.speculates))
                entries[place] = _entry(way)
                for deployment in way.deployments:
                    entries[*place, (deployment.layout, deployment.weights)] = _entry(deployment)
    return entries


def _entry(level: MeasuredLevel) -> Entry:
    return Entry(level.rows, level.decode, level.prefill)


def _spreads(spreads: Spreads) -> dict[str, dict[str, float]]:
    return {
        name: {
            **{
                depth: round(float(value), 4)
                for depth, value in zip(DEPTHS + SHARED, spreads.effects[kind], strict=True)
                if depth in DEPTHS or not kind
            },
            "row": round(float(spreads.rows[kind]), 4),
        }
        for kind, name in enumerate(QUANTITIES)
    }


def _nested(entries: Entries, within: tuple[Any, ...]) -> list[dict[str, Any]]:
    """The levels right below one, each with those below it."""
    depth = len(within)
    below = sorted((part for part in entries if len(part) == depth + 1 and part[:depth] == within), key=str)
    names = ("subjects", "versions", "ways", "deployments")
    nested = []
    for part in below:
        entry = entries[part]
        level = {"rows": entry.rows, "decode": round(entry.decode, 4), "prefill": round(entry.prefill, 4)}
        further = {names[depth + 1]: _nested(entries, part)} if depth + 1 < len(names) else {}
        nested.append({**_named(depth, part[depth]), **level, **further})
    return nested


def _named(depth: int, name: Any) -> dict[str, Any]:
    """Place that a level is of, as a file says it."""
    if depth == 0:
        return {"model": name[0], "hardware": name[1]}
    if depth == 1:
        return {"version": name}
    if depth == 2:
        return {key: True for key, holds in zip(("apart", "speculates"), name, strict=True) if holds}
    return {"layout": name[0], "weights": name[1]}
