"""Levels of one's own servers, from as little as one point of a load test, on top of those that are shipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.extras.servers.levels import observed
from inference_econ.extras.servers.measurements import Measurement
from inference_econ.extras.servers.prediction.predict import predict
from inference_econ.extras.servers.problem import log_ratios
from inference_econ.inputs import LEVELS_FORM, MeasuredLevel, MeasuredLevels, Quantity, Unseen, catalog, constants_of


class CorrectionEntry(NamedTuple):
    """One level."""

    rows: int
    """Measurements [1]."""
    decode: float
    """Logarithm of that of steps that decode [1]."""
    prefill: float
    """Logarithm of that of steps that read prompts [1]."""


#: Levels by the first entries of a :class:`Place`.
Entries = Mapping[tuple[Any, ...], CorrectionEntry]


def levels_data(
    group: observed.Group,
    entries: Entries,
    spreads: observed.Spreads,
    errors: Mapping[Unseen, Mapping[Quantity, Any]],
    *,
    date: str,
    shared: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The levels of one group as plain data of :class:`inference_econ.inputs.MeasuredLevels`."""
    return {
        "form": LEVELS_FORM,
        "profile": group.profile,
        "constants": constants_of(group.profile),
        "engine": group.engine,
        "date": date,
        "rows": sum(entry.rows for part, entry in entries.items() if len(part) == 1),
        "spreads": {
            name: {
                depth: round(float(value), 4)
                for depth, value in zip(
                    (*observed.DEPTHS, *observed.SHARED, "row"),
                    (*spreads.effects[kind], spreads.rows[kind]),
                    strict=True,
                )
                if depth not in observed.SHARED or not kind
            }
            for kind, name in enumerate(observed.QUANTITIES)
        },
        "errors": {unseen: dict(quantities) for unseen, quantities in errors.items()},
        **({"shared": [dict(level) for level in shared]} if shared else {}),
        "subjects": _nested(entries, ()),
    }


def entries_of(
    group: observed.Group, rows: Sequence[observed.Observed], levels: observed.Levels
) -> dict[tuple[Any, ...], CorrectionEntry]:
    """Levels that were fitted to some rows of a group, with how many rows each rests on."""
    counts: dict[tuple[Any, ...], set[int]] = {}
    for number, row in enumerate(rows):
        for place in row.places if row.group == group else ():
            for depth in range(len(observed.DEPTHS)):
                counts.setdefault(observed.known_part(place, depth), set()).add(number)
    return {
        part: CorrectionEntry(len(numbers), *(levels.get((group, kind, part), 0.0) for kind in range(2)))
        for part, numbers in counts.items()
    }


def known_shared(group: observed.Group, file: MeasuredLevels) -> dict[observed.Name, float]:
    """Levels of all models that a file says."""
    return {(observed.Group(group.engine, ""), 0, observed.SHARED): level.decode for level in file.shared}


def known_entries(file: MeasuredLevels) -> dict[tuple[Any, ...], CorrectionEntry]:
    """The levels of a file."""
    entries: dict[tuple[Any, ...], CorrectionEntry] = {}
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


def _entry(level: MeasuredLevel) -> CorrectionEntry:
    return CorrectionEntry(level.rows, level.decode, level.prefill)


def _nested(entries: Entries, within: tuple[Any, ...]) -> list[dict[str, Any]]:
    """The levels right below one, each with those below it."""
    depth = len(within)
    nested = []
    for part in sorted((part for part in entries if len(part) == depth + 1 and part[:depth] == within), key=str):
        entry, name = entries[part], part[depth]
        place = (
            {"model": name[0], "hardware": name[1]} if depth == 0
            else {"version": name} if depth == 1
            else {key: True for key, holds in zip(("apart", "speculates"), name, strict=True) if holds} if depth == 2
            else {"layout": name[0], "weights": name[1]}
        )  # fmt: skip
        level = {"rows": entry.rows, "decode": round(entry.decode, 4), "prefill": round(entry.prefill, 4)}
        further = {f"{below}s": _nested(entries, part) for below in observed.DEPTHS[depth + 1 : depth + 2]}
        nested.append({**place, **level, **further})
    return nested


class OwnProfile(NamedTuple):
    """A fitted profile with levels of one's own servers."""

    group: observed.Group
    """Whose profile."""
    levels: dict[str, Any]
    """As plain data."""
    rows: tuple[Measurement, ...]
    """One's own."""
    before: Array
    """ln(predicted / measured) of TPOT and TTFT by what is shipped, shape (rows, 2) [1]."""
    after: Array
    """ln(predicted / measured) with one's own levels, shape (rows, 2) [1]."""

    def file(self, name: str, description: str, reference: str, data: str) -> dict[str, Any]:
        """A preset of assumptions, as plain data."""
        where = f"partly pooled from {len(self.rows)} rows of {data} and the levels that come with {self.group.profile}"
        return {
            "extends": self.group.profile,
            "name": name,
            "description": description or f"{self.group.profile} with levels of {len(self.rows)} rows of {data}.",
            "levels": self.levels,
            "sources": {"levels": {"ref": reference, "where": where, "kind": "derived"}},
        }


def own_profile(rows: Sequence[Measurement], *, date: str) -> OwnProfile:
    """The profile of one's own servers: that of their engine and chip, and their level over it.

    Parameters
    ----------
    rows : sequence of Measurement
        One or more, of one engine on one generation of chips.
    date : str
        Of the fit.

    Raises
    ------
    InputError
        If the rows are of several engines or generations, or of none with a profile of its own.
    """
    groups = list(dict.fromkeys(observed.group_of(row) for row in rows))
    group = groups[0] if len(groups) == 1 else None
    if group is None:
        names = ", ".join(name for name in catalog.names("assumptions") if name.count("_") and "profiles/" in name)
        of = ", ".join(dict.fromkeys(f"{row.engine or 'no named engine'} on {row.hardware}" for row in rows)) or "none"
        raise InputError(
            f"levels are of one engine on one generation of chips that have a profile ({names}); the rows are of {of}: "
            "name the engine with --engine, or choose rows with --where"
        )
    shipped, today = catalog.assumptions(group.profile), catalog.engine(group.engine).at().version
    # A run that does not say its version is of the one that answers are about.
    dated = [row if row.engine_version or row.ran else replace(row, engine_version=today) for row in rows]
    alone = catalog.as_fitted(group.profile)
    seen = observed.observed(dated, lambda _: alone)
    if not seen:
        raise InputError("no row has a TPOT or a TTFT that can be predicted; see inference-econ validate")
    assert shipped.levels is not None
    levels = own_levels(shipped.levels, group, seen, date=date)
    levelled = alone.model_copy(update={"levels": MeasuredLevels.build(levels, origin=group.profile)})
    measured = [row.row for row in seen]
    before = log_ratios(predict(measured, lambda _: shipped), observed.QUANTITIES)
    after = log_ratios(predict(measured, lambda _: levelled), observed.QUANTITIES)
    return OwnProfile(group, levels, tuple(measured), before, after)


def own_levels(
    shipped: MeasuredLevels, group: observed.Group, rows: Sequence[observed.Observed], *, date: str
) -> dict[str, Any]:
    """Levels of one's own servers beside those of a file, as plain data.

    Parameters
    ----------
    shipped : MeasuredLevels
        Of servers that others have measured.
    group : Group
        Whose profile.
    rows : sequence of Observed
        One's own.
    date : str
        Of the fit.

    Notes
    -----
    What others have measured is where one's own levels begin: their level is the mean, and of what they have measured
    only one's own deployment may differ from it, of what they have not, all that is narrower. Errors over that are
    pooled as all are (:mod:`inference_econ.extras.servers.levels.observed`).
    """
    shipped_entries, spreads = known_entries(shipped), observed.Spreads.read(shipped.spreads)
    before = known_shared(group, shipped) | {
        (group, kind, part): (entry.decode, entry.prefill)[kind]
        for part, entry in shipped_entries.items()
        for kind in range(2)
    }
    beyond = [replace(row, errors=row.errors - row.slopes @ observed.level_of(before, row)) for row in rows]
    fixed = {part for part in shipped_entries if len(part) < len(observed.DEPTHS)}
    further = observed.pooled(beyond, spreads, fixed=fixed, beside=False)
    entries = dict(shipped_entries)
    for part, entry in entries_of(group, rows, further).items():
        # What others have measured of a part, or of what it belongs to.
        wider = (shipped_entries.get(part[:length]) for length in range(len(part), 0, -1))
        nearest = next(filter(None, wider), CorrectionEntry(0, 0.0, 0.0))
        known = shipped_entries[part].rows if part in shipped_entries else 0
        decode, prefill = nearest.decode + entry.decode, nearest.prefill + entry.prefill
        entries[part] = CorrectionEntry(entry.rows + known, decode, prefill)
    errors = {
        unseen: {quantity: spread.model_dump(exclude_none=True, mode="json") for quantity, spread in spreads_of.items()}
        for unseen, spreads_of in shipped.errors.items()
    }
    shared = [level.model_dump(exclude_none=True, mode="json") for level in shipped.shared]
    return levels_data(group, entries, spreads, errors, date=date, shared=shared)
