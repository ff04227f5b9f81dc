"""Corrections of all groups, fitted to measured rows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from data.levels.left_out import error_spreads
from data.levels.spreads import spreads_of
from inference_econ._types import Array
from inference_econ.engine import engine_releases
from inference_econ.extras.servers.accuracy import is_poor
from inference_econ.extras.servers.fit import log_ratios
from inference_econ.extras.servers.levels import (
    QUANTITIES,
    Group,
    Levels,
    Observed,
    Releases,
    Spreads,
    entries_of,
    level_of,
    levels_data,
    misfit_of,
    newest_release,
    observed,
    pooled,
    release_of,
)
from inference_econ.extras.servers.measurements import Measurement, Skipped, distinct
from inference_econ.extras.servers.prediction.predict import predict
from inference_econ.inputs import Assumptions, MeasuredLevels, Quantity, Unseen, catalog

#: Minimum number of architectures for the correction of a release [1]. With one architecture, the effects of model and
#: release cannot be separated.
_ARCHITECTURES = 2
#: Date of corrections that are not written to a file.
UNDATED = "1970-01-01"


@dataclass(frozen=True, slots=True)
class Fitted:
    """Fitted corrections, and the rows to which they were fitted.

    Attributes
    ----------
    rows : tuple of Observed
        Measured rows with the predictions of their profiles.
    spreads : Spreads
        Standard deviations for pooling.
    files : mapping of Group to dict
        File of each group, as plain data of :class:`inference_econ.inputs.MeasuredLevels`.
    """

    rows: tuple[Observed, ...]
    spreads: Spreads
    files: Mapping[Group, dict[str, Any]]


def usable(measured: Sequence[Measurement | Skipped]) -> list[Measurement]:
    """Rows to which corrections are fitted: closed loops without duplicates, also with speculation.

    Invalid and poor rows are excluded.
    """
    loops = [row for row in measured if isinstance(row, Measurement) and row.load == "concurrency"]
    return [row for row in distinct(loops) if not row.spoilt and not is_poor(row)]


def fitted_levels(measured: Sequence[Measurement | Skipped], *, date: str) -> Fitted:
    """Fit corrections to the profiles of all engines on all chip generations.

    Parameters
    ----------
    measured : sequence of Measurement or Skipped
        Rows of some files.
    date : str
        Date of the fit.
    """
    rows = observed(usable(measured), as_fitted, corrected_releases)
    spreads = spreads_of(rows)
    first = pooled(rows, spreads)
    rows = refined(rows, profiles_with(rows, first, spreads), [level_of(first, row) for row in rows])
    spreads = spreads_of(rows)
    levels, errors = pooled(rows, spreads), error_spreads(rows, spreads)
    files = {group: file_of(group, rows, levels, spreads, errors.get(group, {}), date=date) for group in _groups(rows)}
    return Fitted(tuple(rows), spreads, files)


def corrected_releases(rows: Sequence[Measurement]) -> Releases:
    """Releases of each engine that have a correction.

    A release has a correction if models of several architectures were measured with this release and with older
    releases. With a single architecture, the effect could be an error of this architecture.
    """
    measured_with: dict[tuple[str, bool], dict[str, set[str]]] = {}
    for row in rows:
        for speculates in {False, row.speculates}:
            if misfit_of(row) is None:
                kind = catalog.model(row.model).architecture or row.model
                of_engine = measured_with.setdefault((row.engine, speculates), {})
                of_engine.setdefault(release_of(row), set()).add(kind)
    since: dict[str, dict[bool, list[str]]] = {}
    for (engine, speculates), of_release in measured_with.items():
        older: set[str] = set()
        several = since.setdefault(engine, {}).setdefault(speculates, [])
        for one in engine_releases(engine):
            found = of_release.get(one, set())
            several += [one] if len(found & older) >= _ARCHITECTURES else []
            older |= found
    return since


def refined(
    rows: Sequence[Observed], assumptions: Callable[[Group], Assumptions], levels: Sequence[Array]
) -> list[Observed]:
    """Recompute the errors of rows with predictions that include corrections, and take the corrections out again.

    This is a Gauss-Newton step: exact at the corrections, and linear around them.
    """
    under = {id(predicted.row): assumptions(predicted.group) for predicted in rows}
    measured = [predicted.row for predicted in rows]
    predictions = predict(measured, lambda row: under[id(row)], processes=os.cpu_count() or 1)
    left = -log_ratios(predictions, QUANTITIES)
    return [
        replace(predicted, errors=left[index] + predicted.slopes @ levels[index])
        for index, predicted in enumerate(rows)
    ]


def file_of(
    group: Group,
    rows: Sequence[Observed],
    levels: Levels,
    spreads: Spreads,
    errors: Mapping[Unseen, Mapping[Quantity, Any]] | None = None,
    *,
    date: str = UNDATED,
) -> dict[str, Any]:
    """Corrections of a group that were fitted to some rows, as plain data."""
    shared, entries = shared_data(group, rows, levels), entries_of(group, rows, levels)
    newest = newest_release(group.engine, (row.row for row in rows))
    return levels_data(group, entries, spreads, errors or {}, date=date, newest=newest, shared=shared)


def shared_data(group: Group, rows: Sequence[Observed], levels: Levels) -> list[dict[str, Any]]:
    """Corrections that all models of a group's engine share, fitted to some rows, as in a file."""
    engine = Group(group.engine, "")
    counts = Counter(part for row in rows for part in {part for of, _, part in row.shared if of == engine})
    return [
        {
            "rows": count,
            "decode": round(levels[engine, 0, part], 4),
            "prefill": round(levels.get((engine, 1, part), 0.0), 4),
            **({"since": part[1]} if part[1] else {}),
            **({"speculates": True} if part[0] == "speculation" else {}),
        }
        for part, count in sorted(counts.items())
    ]


def profiles_with(rows: Sequence[Observed], levels: Levels, spreads: Spreads) -> Callable[[Group], Assumptions]:
    """Profile of each group, with corrections that were fitted to some rows."""
    made = {group: _profile_with(file_of(group, rows, levels, spreads)) for group in _groups(rows)}
    return lambda group: made.get(group) or as_fitted(group)


def _profile_with(data: dict[str, Any]) -> Assumptions:
    base = catalog.as_fitted(data["profile"])
    return base.model_copy(update={"levels": MeasuredLevels.build(data, origin=data["profile"])})


def _groups(rows: Sequence[Observed]) -> list[Group]:
    return list(dict.fromkeys(row.group for row in rows))


def as_fitted(group: Group) -> Assumptions:
    """Profile of a group without corrections."""
    return catalog.as_fitted(group.profile)
