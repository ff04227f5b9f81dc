"""Levels of measured servers over what a fitted profile predicts of them, shipped ones and one's own.

Predictions of a profile are off by what servers have in common: one model on one chip, one version of an engine, one
way of serving, one deployment. :func:`observed` reads how far measured rows are off and how that follows from steps,
:func:`pooled` fits levels to them, :func:`levels_data` writes them, and :func:`own_profile` fits those of one's own
servers. Those that are shipped are made by ``data/levels``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from inference_econ import inputs
from inference_econ._types import Array
from inference_econ.engine import formats, has_experts, layout_key
from inference_econ.errors import InputError
from inference_econ.extras.servers.accuracy import pool_key, specs
from inference_econ.extras.servers.fit import log_ratios
from inference_econ.extras.servers.measurements import Measurement
from inference_econ.extras.servers.prediction.deployed import version_told
from inference_econ.extras.servers.prediction.predict import Prediction, predict
from inference_econ.inputs.engine import profiles

#: What levels are fitted to, and which of these the level of a kind of step is told by first.
QUANTITIES: tuple[inputs.Quantity, inputs.Quantity] = ("tpot", "ttft")
#: What steps that decode have in common beside where they belong, whatever the model: proposed tokens, which no profile
#: is fitted to.
SHARED = ("speculation",)
#: Logarithm of a level that is tried to see what follows from it [1].
_TRIED = 0.05
#: Logarithms of levels are written within this: few rows can say a factor that a file cannot hold [1].
_LARGEST = 2.0
_NO_SPREAD = inputs.LevelSpreads(subject=0, version=0, way=0, deployment=0, row=0)


class Group(NamedTuple):
    """An engine on a generation of chips: what has a profile of its own."""

    engine: str
    """Serving engine."""
    generation: str
    """Of chips."""

    @property
    def profile(self) -> str:
        """The name of its profile."""
        return f"profiles/{self.engine}_{self.generation}"


class Place(NamedTuple):
    """Where a row belongs: the same entries from the first on make two rows more and more alike."""

    subject: tuple[str, str]
    """Model and chip, by their names in the catalogue."""
    version: str
    """Of the engine."""
    way: tuple[bool, bool]
    """Whether prompts are read by other instances than decode, and whether tokens are proposed."""
    deployment: tuple[str, str]
    """Layout of the instance, and format of the weights."""


#: A level: its group, the kind of step, and the first entries of a place, or :data:`SHARED`.
Name = tuple[Group, int, tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Observed:
    """A measured row beside its prediction.

    Attributes
    ----------
    row : Measurement
        What was measured.
    prediction : Prediction
        Of the profile alone.
    group : Group
        Whose profile.
    places : tuple of Place
        Where it belongs, of steps that decode and of those that read prompts: pools have a layout each.
    errors : ndarray, shape (2,)
        ln(measured / predicted) of TPOT and TTFT [1]; NaN where one was not measured.
    slopes : ndarray, shape (2, 2)
        By how much their predicted logarithms follow those of levels of decode and prefill steps [1].
    shared : tuple of Name
        Levels of all models that steps that decode have.
    """

    row: Measurement
    prediction: Prediction
    group: Group
    places: tuple[Place, Place]
    errors: Array
    slopes: Array
    shared: tuple[Name, ...] = ()


def group_of(row: Measurement) -> Group | None:
    """The engine and generation of a row, if they have a profile of their own."""
    generation = profiles.generation_of(specs(row.model, row.hardware)[1])
    group = Group(row.engine, generation)
    return group if row.engine and generation and group.profile in inputs.catalog.names("assumptions") else None


def places_of(row: Measurement) -> tuple[Place, Place]:
    """Where a row belongs, of steps that decode and of those that read prompts."""
    model, _ = specs(row.model, row.hardware)
    way = (row.decode is not None, row.speculates)
    weights, subject = formats(model, row.weights), (row.model, row.hardware)
    groups = row.dp or 1 if has_experts(model) else 1
    layouts = [layout_key(row.tp or 1, groups, row.pp or 1)] * 2
    if row.decode is not None and row.prefill is not None:
        layouts = [pool_key(row.decode), pool_key(row.prefill)]
    decode, prefill = (Place(subject, version_told(row), way, (layout, weights)) for layout in layouts)
    return decode, prefill


def shared_of(group: Group, row: Measurement) -> tuple[Name, ...]:
    """Levels of all models that the decode steps of a row have: that of an engine's proposed tokens."""
    return ((Group(group.engine, ""), 0, SHARED),) if row.speculates else ()


def observed(rows: Sequence[Measurement], assumptions: Callable[[Group], inputs.Assumptions]) -> list[Observed]:
    """The rows of engines on generations that have a profile of their own, beside their predictions.

    Parameters
    ----------
    rows : sequence of Measurement
        Others, and those whose layout is not recorded, are left out.
    assumptions : callable
        The profile of a group, without levels.

    Notes
    -----
    What follows from a level is the difference between predictions with and without one of 5 %.
    """
    usable = [(row, group) for row in rows if (row.tp or row.decode) and (group := group_of(row))]
    profiles_of: dict[Group | None, inputs.Assumptions] = {group: assumptions(group) for _, group in usable}

    def all_predicted(decode: float, prefill: float) -> list[Prediction]:
        """Predictions with the same level for everything that was measured of a group."""
        tried: dict[Group | None, inputs.Assumptions] = {}
        for group, base in profiles_of.items():
            assert group is not None
            levels = inputs.MeasuredLevels(
                form=inputs.LEVELS_FORM,
                profile=group.profile,
                constants=inputs.constants_of(group.profile),
                engine=group.engine,
                date="1970-01-01",
                rows=1,
                spreads={"tpot": _NO_SPREAD, "ttft": _NO_SPREAD},
                subjects=tuple(
                    inputs.MeasuredSubject(rows=1, decode=decode, prefill=prefill, model=model, hardware=hardware)
                    for model, hardware in dict.fromkeys((row.model, row.hardware) for row, of in usable if of == group)
                ),
            )
            tried[group] = base.model_copy(update={"levels": levels})
        return predict([row for row, _ in usable], lambda row: tried[group_of(row)])

    plain, *moved = (all_predicted(*levels) for levels in ((0.0, 0.0), (_TRIED, 0.0), (0.0, _TRIED)))
    ratios = log_ratios(plain, QUANTITIES)
    slopes = np.nan_to_num(np.stack([(log_ratios(level, QUANTITIES) - ratios) / _TRIED for level in moved], axis=-1))
    return [
        Observed(row, prediction, group, places_of(row), -ratio, slope, shared_of(group, row))
        for (row, group), prediction, ratio, slope in zip(usable, plain, ratios, slopes, strict=True)
        if np.isfinite(ratio).any() and not prediction.assumed
    ]


#: What a row belongs to, wider groups first.
DEPTHS = ("subject", "version", "way", "deployment")
#: What standard deviations do not fall below [1]: the digits of a file.
LEAST = 1e-3

#: Logarithms of levels of decode and prefill steps [1].
Levels = Mapping[Name, float]


class Spreads(NamedTuple):
    """Standard deviations that levels are pooled with [1]."""

    effects: Array
    """Of decode and prefill by depth, and of what is shared, shape (2, 5)."""
    rows: Array
    """Of TPOT and TTFT around their levels, shape (2,)."""

    @classmethod
    def read(cls, spreads: Mapping[inputs.Quantity, inputs.LevelSpreads]) -> Spreads:
        """Those of a file."""
        by_quantity = [spreads[name] for name in QUANTITIES]
        return cls(
            np.array([[getattr(spread, depth) for depth in DEPTHS + SHARED] for spread in by_quantity], dtype=float),
            np.array([spread.row for spread in by_quantity], dtype=float),
        )


class SharedRows(NamedTuple):
    """Rows that share effects."""

    design: Array
    """Shape (lines, effects) [1]."""
    errors: Array
    """Shape (lines,) [1]."""
    quantity: Array
    """TPOT or TTFT of each line, as their places among :data:`QUANTITIES`."""
    kinds: Array
    """Kind of step and depth of each effect, shape (effects, 2)."""
    names: tuple[Name, ...]
    """Of the effects."""


@dataclass(frozen=True, slots=True)
class Solved:
    """Effects of one block."""

    effects: Array
    covariance: Array


def known_part(place: Place, depth: int) -> tuple[object, ...]:
    """The first entries of a place."""
    return tuple(place[: depth + 1])


def block_of(rows: Sequence[Observed], beside: bool = True) -> SharedRows:
    """The mixed model of some rows that share effects; ``beside``: with those of what models share."""
    index: dict[Name, int] = {}
    lines: list[tuple[dict[int, float], float, int]] = []
    for row in rows:
        effects = [
            [index.setdefault((row.group, kind, known_part(place, depth)), len(index)) for depth in range(len(DEPTHS))]
            for kind, place in enumerate(row.places)
        ]
        effects[0] += [index.setdefault(name, len(index)) for name in (row.shared if beside else ())]
        for which, error in enumerate(row.errors.tolist()):
            if np.isfinite(error):
                slopes = row.slopes[which].tolist()
                lines.append(({effect: slopes[kind] for kind in range(2) for effect in effects[kind]}, error, which))
    design = np.zeros((len(lines), len(index)))
    for line, (values, _, _) in enumerate(lines):
        design[line, list(values)] = list(values.values())
    errors, quantity = [error for _, error, _ in lines], [which for _, _, which in lines]
    kinds = np.array([(kind, (len(DEPTHS) if part == SHARED else len(part) - 1)) for _, kind, part in index])
    return SharedRows(design, np.array(errors), np.array(quantity, dtype=int), kinds, tuple(index))


def solved_block(block: SharedRows, spreads: Spreads, fixed: Collection[tuple[object, ...]] = ()) -> Solved:
    """The mixed-model equations of a block; effects that are ``fixed`` are known to be 0."""
    scatter = spreads.rows[block.quantity] ** 2
    effects = np.where([part in fixed for _, _, part in block.names], 0.0, spreads.effects[tuple(block.kinds.T)])
    prior = np.maximum(effects, LEAST) ** 2
    weighted = block.design / scatter[:, None]
    covariance = np.linalg.inv(weighted.T @ block.design + np.diag(1.0 / prior))
    return Solved(covariance @ (weighted.T @ block.errors), covariance)


def blocks(rows: Iterable[Observed]) -> list[list[Observed]]:
    """Rows that share effects: of a model on a chip, and of all that an engine served with proposed tokens."""
    parts: list[tuple[set[object], list[Observed]]] = []
    for row in rows:
        names = {(row.group, row.places[0].subject), *row.shared}
        joined = [part for part in parts if part[0] & names]
        parts = [part for part in parts if not part[0] & names]
        members = [member for _, others in joined for member in others]
        parts.append((names.union(*(others for others, _ in joined)), [*members, row]))
    return [members for _, members in parts]


def pooled(
    rows: Sequence[Observed], spreads: Spreads, *, fixed: Collection[tuple[object, ...]] = (), beside: bool = True
) -> dict[Name, float]:
    """The level of everything that some rows belong to, all that is wider included, and of what they share [1].

    Parameters
    ----------
    rows : sequence of Observed
        What was measured.
    spreads : Spreads
        What levels are pooled with.
    fixed : collection of tuple
        First entries of places whose own effects are known to be 0.
    beside : bool
        Whether what models share has effects.
    """
    levels: dict[Name, float] = {}
    for part in blocks(rows):
        block = block_of(part, beside)
        effects = dict(zip(block.names, solved_block(block, spreads, fixed).effects.tolist(), strict=True))
        for group, kind, name in effects:
            wider = [name] if name == SHARED else [name[: depth + 1] for depth in range(len(name))]
            levels[group, kind, name] = sum(effects[group, kind, part] for part in wider)
    return levels


def level_of(levels: Levels, row: Observed) -> Array:
    """The levels of decode and prefill steps of a row: of the narrowest thing that it is, and of what it shares [1]."""
    sums = []
    for kind, place in enumerate(row.places):
        parts = (known_part(place, depth) for depth in reversed(range(len(DEPTHS))))
        sums.append(next((levels[row.group, kind, part] for part in parts if (row.group, kind, part) in levels), 0.0))
    sums[0] += sum(levels.get(name, 0.0) for name in row.shared)
    return np.array(sums)


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
    group: Group,
    entries: Entries,
    spreads: Spreads,
    errors: Mapping[inputs.Unseen, Mapping[inputs.Quantity, Any]],
    *,
    date: str,
    shared: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The levels of one group as plain data of :class:`inference_econ.inputs.MeasuredLevels`."""
    return {
        "form": inputs.LEVELS_FORM,
        "profile": group.profile,
        "constants": inputs.constants_of(group.profile),
        "engine": group.engine,
        "date": date,
        "rows": sum(entry.rows for part, entry in entries.items() if len(part) == 1),
        "spreads": {
            name: {
                depth: round(float(value), 4)
                for depth, value in zip(
                    (*DEPTHS, *SHARED, "row"),
                    (*spreads.effects[kind], spreads.rows[kind]),
                    strict=True,
                )
                if depth not in SHARED or not kind
            }
            for kind, name in enumerate(QUANTITIES)
        },
        "errors": {unseen: dict(quantities) for unseen, quantities in errors.items()},
        **({"shared": [dict(level) for level in shared]} if shared else {}),
        "subjects": _nested(entries, ()),
    }


def entries_of(group: Group, rows: Sequence[Observed], levels: Levels) -> dict[tuple[Any, ...], CorrectionEntry]:
    """Levels that were fitted to some rows of a group, with how many rows each rests on."""
    counts: dict[tuple[Any, ...], set[int]] = {}
    for number, row in enumerate(rows):
        for place in row.places if row.group == group else ():
            for depth in range(len(DEPTHS)):
                counts.setdefault(known_part(place, depth), set()).add(number)
    return {
        part: CorrectionEntry(len(numbers), *(levels.get((group, kind, part), 0.0) for kind in range(2)))
        for part, numbers in counts.items()
    }


def known_shared(group: Group, file: inputs.MeasuredLevels) -> dict[Name, float]:
    """Levels of all models that a file says."""
    return {(Group(group.engine, ""), 0, SHARED): level.decode for level in file.shared}


def known_entries(file: inputs.MeasuredLevels) -> dict[tuple[Any, ...], CorrectionEntry]:
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


def _entry(level: inputs.MeasuredLevel) -> CorrectionEntry:
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
        decode, prefill = (round(max(-_LARGEST, min(log, _LARGEST)), 4) for log in (entry.decode, entry.prefill))
        level = {"rows": entry.rows, "decode": decode, "prefill": prefill}
        further = {f"{below}s": _nested(entries, part) for below in DEPTHS[depth + 1 : depth + 2]}
        nested.append({**place, **level, **further})
    return nested


class OwnProfile(NamedTuple):
    """A fitted profile with levels of one's own servers."""

    group: Group
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
    groups = list(dict.fromkeys(group_of(row) for row in rows))
    group = groups[0] if len(groups) == 1 else None
    if group is None:
        names = ", ".join(
            name for name in inputs.catalog.names("assumptions") if name.count("_") and "profiles/" in name
        )
        of = ", ".join(dict.fromkeys(f"{row.engine or 'no named engine'} on {row.hardware}" for row in rows)) or "none"
        raise InputError(
            f"levels are of one engine on one generation of chips that have a profile ({names}); the rows are of {of}: "
            "name the engine with --engine, or choose rows with --where"
        )
    shipped, today = inputs.catalog.assumptions(group.profile), inputs.catalog.engine(group.engine).at().version
    # A run that does not say its version is of the one that answers are about.
    dated = [row if row.engine_version or row.ran else replace(row, engine_version=today) for row in rows]
    alone = inputs.catalog.as_fitted(group.profile)
    seen = observed(dated, lambda _: alone)
    if not seen:
        raise InputError("no row has a TPOT or a TTFT that can be predicted; see inference-econ validate")
    assert shipped.levels is not None
    levels = own_levels(shipped.levels, group, seen, date=date)
    levelled = alone.model_copy(update={"levels": inputs.MeasuredLevels.build(levels, origin=group.profile)})
    measured = [row.row for row in seen]
    before = log_ratios(predict(measured, lambda _: shipped), QUANTITIES)
    after = log_ratios(predict(measured, lambda _: levelled), QUANTITIES)
    return OwnProfile(group, levels, tuple(measured), before, after)


def own_levels(shipped: inputs.MeasuredLevels, group: Group, rows: Sequence[Observed], *, date: str) -> dict[str, Any]:
    """Levels of one's own servers beside those of a file, as plain data.

    Parameters
    ----------
    shipped : inputs.MeasuredLevels
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
    pooled as all are (:mod:`inference_econ.extras.servers.levels`).
    """
    shipped_entries, spreads = known_entries(shipped), Spreads.read(shipped.spreads)
    before = known_shared(group, shipped) | {
        (group, kind, part): (entry.decode, entry.prefill)[kind]
        for part, entry in shipped_entries.items()
        for kind in range(2)
    }
    beyond = [replace(row, errors=row.errors - row.slopes @ level_of(before, row)) for row in rows]
    fixed = {part for part in shipped_entries if len(part) < len(DEPTHS)}
    further = pooled(beyond, spreads, fixed=fixed, beside=False)
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
