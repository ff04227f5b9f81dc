"""Measured corrections: factors between measured and predicted step times, shipped or from your servers.

Prediction errors of a profile are similar for equal model and chip, engine version, serving mode, or deployment.
:func:`observed` computes the errors, and the derivatives of predictions with respect to corrections. :func:`pooled`
fits corrections, :func:`levels_data` writes corrections, and :func:`own_profile` fits corrections to your servers.
``data/levels`` makes the shipped corrections.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np

from inference_econ import inputs
from inference_econ._types import Array
from inference_econ.engine import engine_releases, formats, has_experts, layout_key
from inference_econ.errors import InputError
from inference_econ.extras.servers.accuracy import pool_key, specs
from inference_econ.extras.servers.fit import log_ratios
from inference_econ.extras.servers.measurements import Measurement, is_number
from inference_econ.extras.servers.prediction.predict import Prediction, facts_of, predict, version_told
from inference_econ.inputs.engine import profiles

#: Quantities to which corrections are fitted: first for decode steps, then for prefill steps.
QUANTITIES: tuple[inputs.Quantity, inputs.Quantity] = ("tpot", "ttft")
#: Corrections that all models share: for speculation, to which no profile is fitted, and for engine releases.
SHARED = ("speculation", "release")
#: Step of finite differences: change of a log correction [1].
_TRIED = 0.05
#: Number of linearizations of a fit to your servers, and largest increase of the log error of TPOT by the fit [1].
_ROUNDS, _TOLERATED = 3, 0.01
#: Largest absolute log correction that a file can store [1].
_LARGEST = 2.0
_NO_SPREAD = inputs.LevelSpreads(subject=0, version=0, way=0, deployment=0, row=0)


#: Releases that have a correction, by engine, and by whether the correction applies to speculative decoding only.
Releases = Mapping[str, Mapping[bool, Sequence[str]]]


class Group(NamedTuple):
    """Engine on a chip generation, which has its own profile."""

    engine: str
    """Serving engine."""
    generation: str
    """Chip generation."""

    @property
    def profile(self) -> str:
        """Name of the profile of the group."""
        return f"profiles/{self.engine}_{self.generation}"


class Place(NamedTuple):
    """Position of a measurement in the hierarchy of corrections, from the widest level to the narrowest."""

    subject: tuple[str, str]
    """Model and chip, by catalog name."""
    version: str
    """Engine version."""
    way: tuple[bool, bool]
    """Serving mode: true if disaggregated, and true with speculative decoding."""
    deployment: tuple[str, str]
    """Layout of the instance, and weight format."""


#: Name of a correction: its group, the kind of step, and the first levels of a place. Shared corrections have one of
#: :data:`SHARED` and the first engine release to which they apply, instead of levels.
Name = tuple[Group, int, tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Observed:
    """Measurement with its prediction.

    Attributes
    ----------
    row : Measurement
        The measurement.
    prediction : Prediction
        Prediction of the profile without corrections.
    group : Group
        Group of the profile.
    places : tuple of Place
        Places of the decode and the prefill steps; both places differ in the layout if the server is disaggregated.
    errors : ndarray, shape (2,)
        ln(measured / predicted) of TPOT and TTFT [1]; NaN if not measured.
    slopes : ndarray, shape (2, 2)
        Derivatives of ln(TPOT) and ln(TTFT) with respect to log corrections of decode and prefill steps [1].
    shared : tuple of Name
        Names of the measurement's corrections that all models share.
    """

    row: Measurement
    prediction: Prediction
    group: Group
    places: tuple[Place, Place]
    errors: Array
    slopes: Array
    shared: tuple[Name, ...] = ()

    @property
    def misfit(self) -> bool:
        """True if the measurement belongs to an outlier series, whose corrections apply to its engine version only."""
        return misfit_of(self.row) is not None


def group_of(row: Measurement) -> Group | None:
    """Engine and generation of a measurement; None without a profile."""
    generation = profiles.generation_of(specs(row.model, row.hardware)[1])
    group = Group(row.engine, generation)
    return group if row.engine and generation and group.profile in inputs.catalog.names("assumptions") else None


def places_of(row: Measurement) -> tuple[Place, Place]:
    """Places of the decode and the prefill steps of a measurement."""
    model, _ = specs(row.model, row.hardware)
    way = (row.decode is not None, row.speculates)
    weights, subject = formats(model, row.weights), (row.model, row.hardware)
    groups = row.dp or 1 if has_experts(model) else 1
    layouts = [layout_key(row.tp or 1, groups, row.pp or 1)] * 2
    if row.decode is not None and row.prefill is not None:
        layouts = [pool_key(row.decode), pool_key(row.prefill)]
    decode, prefill = (Place(subject, version_told(row), way, (layout, weights)) for layout in layouts)
    return decode, prefill


def shared_of(group: Group, row: Measurement, since: Mapping[bool, Sequence[str]]) -> tuple[Name, ...]:
    """Corrections that all models share, for a measurement.

    Parameters
    ----------
    group : Group
        Engine and chip generation of the measurement.
    row : Measurement
        The measurement.
    since : mapping of bool to sequence of str
        Releases of the engine that have a correction, for all servers and for servers with speculation.
    """
    engine, known = Group(group.engine, ""), engine_releases(group.engine)
    last = known.index(release_of(row)) if release_of(row) in known else -1
    names: list[Name] = []
    if misfit_of(row) is None:
        passed = [("release", one) for one in since.get(False, ()) if known.index(one) <= last]
        names += [(engine, kind, part) for part in passed for kind in range(2)]
    if row.speculates:
        names += [
            (engine, 0, ("speculation", one))
            for one in ("", *since.get(True, ()))
            if not one or known.index(one) <= last
        ]
    return tuple(names)


def misfit_of(row: Measurement) -> inputs.Misfit | None:
    """Outlier series to which a measurement belongs, which no known fact explains; None if there is none."""
    key = (row.engine, row.model, row.hardware, version_told(row))
    return next(
        (one for one in inputs.known_misfits() if (one.engine, one.model, one.hardware, one.version) == key), None
    )


def release_of(row: Measurement) -> str:
    """Newest release with known facts that is not newer than the measured engine version; empty if unknown."""
    facts = facts_of(row)
    return "" if facts is None else facts.version


def newest_release(engine: str, rows: Iterable[Measurement], known: str = "") -> str:
    """Newest release of the engine in the measurements, or ``known`` if it is newer; empty if no release is known.

    Nightly builds without a date are ignored.
    """
    dated = (row for row in rows if row.engine == engine and (row.days or is_number(version_told(row))))
    measured = {known, *map(release_of, dated)}
    return next((one for one in reversed(engine_releases(engine)) if one in measured), "")


def observed(
    rows: Sequence[Measurement],
    assumptions: Callable[[Group], inputs.Assumptions],
    releases: Callable[[Sequence[Measurement]], Releases],
) -> list[Observed]:
    """Pair measurements with their predictions, for groups that have a profile.

    Parameters
    ----------
    rows : sequence of Measurement
        Measurements. Measurements without a profile or a recorded layout are ignored.
    assumptions : callable
        Function that returns the profile of a group, with corrections at which to linearize, or without.
    releases : callable
        Function that returns the releases that have a correction, for measurements with a prediction.

    Notes
    -----
    Slopes (derivatives) are finite differences for a further correction of 5%.
    """
    usable = [(row, group) for row in rows if (row.tp or row.decode) and (group := group_of(row))]
    subjects: dict[Group, dict[tuple[str, str], None]] = {}
    for row, group in usable:
        subjects.setdefault(group, {})[row.model, row.hardware] = None
    profiles_of = {group: _with_levels(assumptions(group), group, names) for group, names in subjects.items()}

    def all_predicted(decode: float, prefill: float) -> list[Prediction]:
        """Predict all measurements with the same further log corrections of decode and prefill steps."""
        tried: dict[Group | None, inputs.Assumptions] = {
            group: base.model_copy(update={"levels": _moved(base.levels, decode, prefill)})
            for group, base in profiles_of.items()
        }
        return predict([row for row, _ in usable], lambda row: tried[group_of(row)], processes=os.cpu_count() or 1)

    plain, *moved = (all_predicted(*levels) for levels in ((0.0, 0.0), (_TRIED, 0.0), (0.0, _TRIED)))
    ratios = log_ratios(plain, QUANTITIES)
    slopes = np.nan_to_num(np.stack([(log_ratios(level, QUANTITIES) - ratios) / _TRIED for level in moved], axis=-1))
    known = [np.isfinite(ratio).any() and not one.assumed for ratio, one in zip(ratios, plain, strict=True)]
    since = releases([row for (row, _), is_known in zip(usable, known, strict=True) if is_known])
    found = [
        Observed(
            row,
            prediction,
            group,
            places_of(row),
            -ratio,
            slope,
            shared_of(group, row, since.get(group.engine, {})),
        )
        for (row, group), prediction, ratio, slope, is_known in zip(usable, plain, ratios, slopes, known, strict=True)
        if is_known
    ]
    at = {group: known_levels(group, cast("inputs.MeasuredLevels", base.levels)) for group, base in profiles_of.items()}
    return [replace(row, errors=row.errors + row.slopes @ level_of(at[row.group], row)) for row in found]


def _with_levels(base: inputs.Assumptions, group: Group, subjects: Iterable[tuple[str, str]]) -> inputs.Assumptions:
    """Assumptions with corrections; corrections of 0 for the given models and chips if the assumptions have none."""
    if base.levels is not None:
        return base
    levels = inputs.MeasuredLevels(
        form=inputs.LEVELS_FORM,
        profile=group.profile,
        constants=inputs.constants_of(group.profile),
        engine=group.engine,
        date="1970-01-01",
        rows=1,
        spreads={"tpot": _NO_SPREAD, "ttft": _NO_SPREAD},
        subjects=tuple(
            inputs.MeasuredSubject(rows=1, decode=0.0, prefill=0.0, model=model, hardware=hardware)
            for model, hardware in subjects
        ),
    )
    return base.model_copy(update={"levels": levels})


def _moved(level: Any, decode: float, prefill: float) -> Any:
    """Corrections with an addend to each log correction of decode and prefill steps; shared corrections are kept."""
    below: dict[str, object] = {
        name: tuple(_moved(one, decode, prefill) for one in getattr(level, name))
        for name in (f"{depth}s" for depth in DEPTHS)
        if hasattr(level, name)
    }
    if isinstance(level, inputs.MeasuredLevel):
        below |= {"decode": level.decode + decode, "prefill": level.prefill + prefill}
    return level.model_copy(update=below)


#: Levels of the hierarchy of corrections, the widest first.
DEPTHS = ("subject", "version", "way", "deployment")
#: Smallest standard deviation [1], from the digits of a file.
LEAST = 1e-3

#: Log corrections of decode and prefill steps [1].
Levels = Mapping[Name, float]


class Spreads(NamedTuple):
    """Standard deviations of corrections, which limit the difference of a correction from the next wider level [1]."""

    effects: Array
    """Standard deviations of decode and prefill corrections, by level, then of shared corrections, shape (2, 6)."""
    rows: Array
    """Standard deviations of TPOT and TTFT around their corrections, shape (2,)."""

    @classmethod
    def read(cls, spreads: Mapping[inputs.Quantity, inputs.LevelSpreads]) -> Spreads:
        """Read the standard deviations of a file."""
        by_quantity = [spreads[name] for name in QUANTITIES]
        return cls(
            np.array([[getattr(spread, depth) for depth in DEPTHS + SHARED] for spread in by_quantity], dtype=float),
            np.array([spread.row for spread in by_quantity], dtype=float),
        )


class SharedRows(NamedTuple):
    """Mixed-effects model of measurements that share corrections (random effects)."""

    design: Array
    """Design matrix, shape (lines, effects) [1]."""
    errors: Array
    """Log errors, with one line per measured TPOT or TTFT, shape (lines,) [1]."""
    quantity: Array
    """Measured quantity of each line, as an index into :data:`QUANTITIES`."""
    rows: Array
    """Measurement of each line, as an index."""
    members: tuple[tuple[list[int], list[int]], ...]
    """Indices of the effects on the decode and the prefill steps of each measurement."""
    kinds: Array
    """Kind of step, and level in the hierarchy, of each effect, shape (effects, 2)."""
    names: tuple[Name, ...]
    """Names of the effects."""


@dataclass(frozen=True, slots=True)
class Solved:
    """Estimated effects (log corrections) of one block, and their covariance."""

    effects: Array
    covariance: Array


def known_part(place: Place, depth: int) -> tuple[object, ...]:
    """First levels of a place."""
    return tuple(place[: depth + 1])


def block_of(rows: Sequence[Observed], beside: bool = True) -> SharedRows:
    """Mixed-effects model of measurements that share corrections. ``beside`` adds the corrections of :data:`SHARED`."""
    index: dict[Name, int] = {}
    members: list[tuple[list[int], list[int]]] = []
    lines: list[tuple[dict[int, float], float, int, int]] = []
    for number, row in enumerate(rows):
        depths = range(1 if row.misfit else 0, len(DEPTHS))
        effects: tuple[list[int], list[int]] = ([], [])
        for kind, place in enumerate(row.places):
            names = [(row.group, kind, known_part(place, depth)) for depth in depths]
            effects[kind].extend(index.setdefault(name, len(index)) for name in names)
        for name in row.shared if beside else ():
            effects[name[1]].append(index.setdefault(name, len(index)))
        members.append(effects)
        for which, error in enumerate(row.errors.tolist()):
            if np.isfinite(error):
                slopes = row.slopes[which].tolist()
                values = {effect: slopes[kind] for kind in range(2) for effect in effects[kind]}
                lines.append((values, error, which, number))
    design = np.zeros((len(lines), len(index)))
    for line, (values, *_) in enumerate(lines):
        design[line, list(values)] = list(values.values())
    errors = np.array([error for _, error, _, _ in lines])
    quantity, numbers = (np.array([line[place] for line in lines], dtype=int) for place in (2, 3))
    kinds = np.array([(kind, _effect(part)) for _, kind, part in index])
    return SharedRows(design, errors, quantity, numbers, tuple(members), kinds, tuple(index))


def _effect(part: tuple[object, ...]) -> int:
    """Index of the standard deviation of an effect: by level in the hierarchy, then by :data:`SHARED`."""
    return len(DEPTHS) + SHARED.index(str(part[0])) if part[0] in SHARED else len(part) - 1


def solved_block(block: SharedRows, spreads: Spreads, fixed: Collection[tuple[object, ...]] = ()) -> Solved:
    """Solve the mixed-model equations of a block. The effects in ``fixed`` are 0."""
    scatter = spreads.rows[block.quantity] ** 2
    effects = np.where([part in fixed for _, _, part in block.names], 0.0, spreads.effects[tuple(block.kinds.T)])
    prior = np.maximum(effects, LEAST) ** 2
    weighted = block.design / scatter[:, None]
    covariance = np.linalg.inv(weighted.T @ block.design + np.diag(1.0 / prior))
    return Solved(covariance @ (weighted.T @ block.errors), covariance)


def blocks(rows: Iterable[Observed]) -> list[list[Observed]]:
    """Split measurements into blocks that share no effects."""
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
    """Log corrections for all places of measurements: sums of the effects of a place and all wider levels [1].

    Parameters
    ----------
    rows : sequence of Observed
        Measurements.
    spreads : Spreads
        Standard deviations of the corrections, see :class:`Spreads`.
    fixed : collection of tuple
        First levels of places whose effects are fixed to 0.
    beside : bool
        True to include the effects of :data:`SHARED`.
    """
    levels: dict[Name, float] = {}
    for part in blocks(rows):
        block = block_of(part, beside)
        effects = dict(zip(block.names, solved_block(block, spreads, fixed).effects.tolist(), strict=True))
        for group, kind, name in effects:
            wider = [name] if name[0] in SHARED else [name[: depth + 1] for depth in range(len(name))]
            levels[group, kind, name] = sum(effects.get((group, kind, part), 0.0) for part in wider)
    return levels


def level_of(levels: Levels, row: Observed) -> Array:
    """Log corrections of the decode and prefill steps of a measurement [1]."""
    sums = []
    for kind, place in enumerate(row.places):
        parts = (known_part(place, depth) for depth in reversed(range(len(DEPTHS))))
        sums.append(next((levels[row.group, kind, part] for part in parts if (row.group, kind, part) in levels), 0.0))
    for name in row.shared:
        sums[name[1]] += levels.get(name, 0.0)
    return np.array(sums)


class CorrectionEntry(NamedTuple):
    """Corrections at one place, with the number of measurements."""

    rows: int
    """Number of measurements [1]."""
    decode: float
    """Log correction of decode steps [1]."""
    prefill: float
    """Log correction of prefill steps [1]."""


#: Corrections by the first levels of a :class:`Place`.
Entries = Mapping[tuple[Any, ...], CorrectionEntry]


def levels_data(
    group: Group,
    entries: Entries,
    spreads: Spreads,
    errors: Mapping[inputs.Unseen, Mapping[inputs.Quantity, Any]],
    *,
    date: str,
    newest: str = "",
    shared: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Corrections of one group as plain data of :class:`inference_econ.inputs.MeasuredLevels`."""
    return {
        "form": inputs.LEVELS_FORM,
        "profile": group.profile,
        "constants": inputs.constants_of(group.profile),
        "engine": group.engine,
        "date": date,
        "rows": sum(entry.rows for part, entry in entries.items() if len(part) == 1),
        **({"newest": newest} if newest else {}),
        "spreads": {
            name: {
                depth: round(float(value), 4)
                for depth, value in zip(
                    (*DEPTHS, *SHARED, "row"),
                    (*spreads.effects[kind], spreads.rows[kind]),
                    strict=True,
                )
                if depth != "speculation" or not kind
            }
            for kind, name in enumerate(QUANTITIES)
        },
        "errors": {unseen: dict(quantities) for unseen, quantities in errors.items()},
        **({"shared": [dict(level) for level in shared]} if shared else {}),
        "subjects": _nested(entries, ()),
    }


def entries_of(group: Group, rows: Sequence[Observed], levels: Levels) -> dict[tuple[Any, ...], CorrectionEntry]:
    """Corrections of a group, with the number of measurements to which each correction was fitted."""
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
    """Corrections in a file that all models share."""
    return {
        (Group(group.engine, ""), kind, (SHARED[not level.speculates], level.since)): log
        for level in file.shared
        for kind, log in enumerate((level.decode, level.prefill))
    }


def known_levels(group: Group, file: inputs.MeasuredLevels) -> dict[Name, float]:
    """All log corrections in a file [1]."""
    return known_shared(group, file) | {
        (group, kind, part): (entry.decode, entry.prefill)[kind]
        for part, entry in known_entries(file).items()
        for kind in range(2)
    }


def known_releases(file: inputs.MeasuredLevels) -> Releases:
    """Releases for which a file has shared corrections."""
    return {
        file.engine: {
            speculates: [level.since for level in file.shared if level.since and level.speculates == speculates]
            for speculates in (False, True)
        }
    }


def known_entries(file: inputs.MeasuredLevels) -> dict[tuple[Any, ...], CorrectionEntry]:
    """Corrections in a file, by the first levels of a place."""
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
    """Corrections one level below a place as plain data, including all narrower levels."""
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
    """Fitted profile of an engine and chip, with corrections from your servers."""

    group: Group
    """Group of the profile."""
    levels: dict[str, Any]
    """Corrections as plain data."""
    rows: tuple[Measurement, ...]
    """Your measurements."""
    before: Array
    """ln(predicted / measured) of TPOT and TTFT with the shipped corrections, shape (rows, 2) [1]."""
    after: Array
    """ln(predicted / measured) with your corrections, shape (rows, 2) [1]."""
    quantities: tuple[inputs.Quantity, ...]
    """Quantities to which the corrections were fitted, of :data:`QUANTITIES`."""

    def file(self, name: str, description: str, reference: str, data: str) -> dict[str, Any]:
        """Preset of assumptions as plain data."""
        where = f"partly pooled from {len(self.rows)} rows of {data} and the levels that come with {self.group.profile}"
        return {
            "extends": self.group.profile,
            "name": name,
            "description": description or f"{self.group.profile} with levels of {len(self.rows)} rows of {data}.",
            "levels": self.levels,
            "sources": {"levels": {"ref": reference, "where": where, "kind": "derived"}},
        }


def with_version(row: Measurement) -> Measurement:
    """Measurement of an engine in the catalog, with the version that predictions use if none is recorded."""
    if row.engine_version or row.ran or row.engine not in inputs.catalog.names("engines"):
        return row
    return replace(row, engine_version=inputs.catalog.engine(row.engine).at().version)


def own_profile(rows: Sequence[Measurement], *, date: str) -> OwnProfile:
    """Fit corrections to your servers, based on the profile of their engine and chip.

    Parameters
    ----------
    rows : sequence of Measurement
        At least one measurement; all of one engine on one chip generation.
    date : str
        Date of the fit.

    Raises
    ------
    InputError
        If the measurements have several engines or chip generations, or their engine has no profile for the generation.

    Notes
    -----
    The fit repeats :func:`own_levels`, linearized at the previous corrections (Gauss-Newton). If TTFTs increase the
    error of TPOT, for example because they contain waits that the recorded load does not explain, only TPOTs are
    fitted.
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
    shipped = inputs.catalog.assumptions(group.profile)
    assert shipped.levels is not None
    alone, known = inputs.catalog.as_fitted(group.profile), known_releases(shipped.levels)
    plain = observed(list(map(with_version, rows)), lambda _: alone, lambda _: known)
    if not plain:
        raise InputError("no row has a TPOT or a TTFT that can be predicted; see inference-econ validate")
    before = log_ratios(predict([row.row for row in plain], lambda _: shipped), QUANTITIES)
    for quantities in (QUANTITIES, QUANTITIES[:1], ()):
        fits = _fits(shipped.levels, group, plain, quantities, date)
        kept = [fit for fit in fits if _misfit(fit[1][:, 0]) <= _misfit(before[:, 0]) + _TOLERATED]
        if kept:
            break
    spreads = Spreads.read(shipped.levels.spreads).rows
    levels, after = min(kept, key=lambda fit: _misfit(_only(fit[1], quantities) / spreads))
    return OwnProfile(group, levels, tuple(row.row for row in plain), before, after, quantities)


def _fits(
    shipped: inputs.MeasuredLevels,
    group: Group,
    plain: Sequence[Observed],
    quantities: Sequence[inputs.Quantity],
    date: str,
) -> Iterator[tuple[dict[str, Any], Array]]:
    """Yield corrections as plain data, with the errors that remain, after each linearization."""
    alone, known, rows = inputs.catalog.as_fitted(group.profile), known_releases(shipped), [row.row for row in plain]
    seen = plain
    for number in range(_ROUNDS):
        used = [replace(row, errors=_only(row.errors, quantities)) for row in seen]
        levels = own_levels(shipped, group, used, date=date)
        fitted = alone.model_copy(update={"levels": inputs.MeasuredLevels.build(levels, origin=group.profile)})
        yield levels, log_ratios(predict(rows, _always(fitted)), QUANTITIES)
        if number + 1 < _ROUNDS:
            seen = observed(rows, _always(fitted), lambda _: known)


def _always(assumptions: inputs.Assumptions) -> Callable[[object], inputs.Assumptions]:
    """Function that returns the same assumptions for every argument."""
    return lambda _: assumptions


def _only(errors: Array, quantities: Sequence[inputs.Quantity]) -> Array:
    """Errors of the given quantities, shape (..., 2); NaN for the others."""
    return np.where([name in quantities for name in QUANTITIES], errors, np.nan)


def _misfit(errors: Array) -> float:
    """Root of the mean square over all measurements; NaN counts as 0."""
    return float(np.sqrt(np.nansum(errors**2) / len(errors)))


def own_levels(shipped: inputs.MeasuredLevels, group: Group, rows: Sequence[Observed], *, date: str) -> dict[str, Any]:
    """Combine the corrections of your servers with those of a file, as plain data.

    Parameters
    ----------
    shipped : inputs.MeasuredLevels
        Corrections from other servers.
    group : Group
        Group of the profile.
    rows : sequence of Observed
        Your measurements.
    date : str
        Date of the fit.

    Notes
    -----
    The shipped corrections are the prior mean. Shipped corrections remain unchanged, except corrections of the
    narrowest level, the deployment. Levels without a shipped correction may deviate from the nearest wider level.
    Deviations are fitted by :func:`pooled`.
    """
    shipped_entries, spreads = known_entries(shipped), Spreads.read(shipped.spreads)
    before = known_levels(group, shipped)
    beyond = [replace(row, errors=row.errors - row.slopes @ level_of(before, row)) for row in rows]
    fixed = {part for part in shipped_entries if len(part) < len(DEPTHS)}
    further = pooled(beyond, spreads, fixed=fixed, beside=False)
    entries = dict(shipped_entries)
    for part, entry in entries_of(group, rows, further).items():
        # Shipped correction of the place, or of the nearest wider level.
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
    newest = newest_release(group.engine, [row.row for row in rows], shipped.newest)
    return levels_data(group, entries, spreads, errors, date=date, newest=newest, shared=shared)
