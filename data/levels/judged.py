"""Predictions of rows with corrections that have not seen them, which show whether corrections help or harm."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from data.levels.fitted import UNDATED, file_of, profiles_with
from data.levels.spreads import folds
from inference_econ._types import Array
from inference_econ.extras.servers.fit import log_ratios
from inference_econ.extras.servers.levels import (
    QUANTITIES,
    Group,
    Observed,
    Spreads,
    blocks,
    group_of,
    own_levels,
    places_of,
    pooled,
)
from inference_econ.extras.servers.measurements import Measurement
from inference_econ.extras.servers.prediction.predict import predict
from inference_econ.inputs import Assumptions, MeasuredLevels, catalog

#: Minimum number of points of a curve of which all but one are predicted [1].
_CURVE = 3

#: Properties by which rows are held out together.
SPLITS: Mapping[str, Callable[[Observed], object]] = {
    "deployment": lambda row: row.places,
    "version": lambda row: row.places[0][:2],
    "model": lambda row: row.row.model,
    "engine and chip": lambda row: (row.group, row.row.hardware),
}


class Series(NamedTuple):
    """Curve: rows of one deployment with equal request lengths."""

    rows: tuple[Observed, ...]
    """Rows, by concurrency."""

    @property
    def point(self) -> Observed:
        """Row in the middle of the curve, which is the known one."""
        return self.rows[len(self.rows) // 2]

    @property
    def rest(self) -> tuple[Observed, ...]:
        """All other rows of the curve."""
        return tuple(row for row in self.rows if row is not self.point)


def left_out(rows: Sequence[Observed], spreads: Spreads, by: Callable[[Observed], object]) -> Array:
    """ln(predicted / measured) of TPOT and TTFT with corrections from rows that differ in a property, (rows, 2) [1].

    The corrections are fitted again to these rows. The constants of the profiles are not. Every row is predicted
    exactly.
    """
    under: dict[int, Assumptions] = {}
    for shared, rest in folds(rows, by):
        assumed = profiles_with(rest, pooled(rest, spreads), spreads)
        under |= {id(row.row): assumed(row.group) for row in shared}
    return _errors(rows, under)


def deployment_of(row: Measurement) -> str:
    """Key of a row's deployment in all versions: engine, chips, model, serving mode, layouts and weight format."""
    decode, prefill = places_of(row)
    way = [word for word, holds in zip(("disaggregated", "speculating"), decode.way, strict=True) if holds]
    return " ".join(
        [*(group_of(row) or (row.engine,)), *decode.subject, *way, prefill.deployment[0], *decode.deployment]
    )


def without_deployments(rows: Sequence[Observed], spreads: Spreads, keys: Collection[str]) -> dict[str, dict[str, Any]]:
    """Corrections of a model on a chip without one deployment, as plain data by :func:`deployment_of`.

    ``shared`` has the corrections that all models share.
    """
    found: dict[str, dict[str, Any]] = {}
    for left, rest in folds(rows, lambda row: deployment_of(row.row)):
        key, group, subject = deployment_of(left[0].row), left[0].group, left[0].places[0].subject
        if key not in keys:
            continue
        data = file_of(group, rest, pooled(rest, spreads), spreads)
        subjects = [entry for entry in data["subjects"] if (entry["model"], entry["hardware"]) == subject]
        found[key] = {"subjects": subjects, "shared": data.get("shared", [])}
    return found


def other_loads_known(rows: Sequence[Observed], spreads: Spreads) -> Array:
    """Errors if every other load of a deployment is known: half of its rows are predicted from the other half."""
    halves = [{id(row) for series in all_series(rows) for row in series.rows[half::2]} for half in (0, 1)]
    errors = np.full((len(rows), len(QUANTITIES)), np.nan)
    for half in halves:
        chosen = [index for index, row in enumerate(rows) if id(row) in half]
        rest = [row for row in rows if id(row) not in half]
        assumed = profiles_with(rest, pooled(rest, spreads), spreads)
        members = [rows[index] for index in chosen]
        errors[chosen] = _errors(members, {id(row.row): assumed(row.group) for row in members})
    return errors


def by_one_point(rows: Sequence[Observed], spreads: Spreads) -> list[tuple[Series, Array]]:
    """Errors of each curve if one of its points is known, like your run on top of the shipped corrections.

    The shipped corrections exclude the deployment. Each curve is returned with ln(predicted / measured) of TPOT and
    TTFT of its other points, shape (rows, 2) [1].
    """
    curves = [series for series in all_series(rows) if len(series.rows) >= _CURVE]
    parts = {row.places[0].subject + row.group: part for part in blocks(rows) for row in part}
    under: dict[int, Assumptions] = {}
    for series in curves:
        group, places = series.point.group, series.point.places
        rest = [row for row in parts[places[0].subject + group] if row.places != places]
        assumed = _with_point(group, rest, series.point, spreads)
        under |= {id(row.row): assumed for row in series.rest}
    every = [row for series in curves for row in series.rest]
    errors = _errors(every, under)
    ends = np.cumsum([len(series.rest) for series in curves])
    return list(zip(curves, np.split(errors, ends[:-1]), strict=True))


def _with_point(group: Group, rest: Sequence[Observed], point: Observed, spreads: Spreads) -> Assumptions:
    base = catalog.as_fitted(group.profile)
    if any(row.group == group for row in rest):
        file = MeasuredLevels.build(file_of(group, rest, pooled(rest, spreads), spreads), origin=group.profile)
        data = own_levels(file, group, [point], date=UNDATED)
    else:
        data = file_of(group, [point], pooled([point], spreads), spreads)
    return base.model_copy(update={"levels": MeasuredLevels.build(data, origin=group.profile)})


def all_series(rows: Sequence[Observed]) -> list[Series]:
    """Curves: rows by deployment and lengths, in the order of concurrency."""
    series: dict[object, list[Observed]] = {}
    for row in rows:
        series.setdefault((row.group, row.places, row.row.isl, row.row.osl), []).append(row)
    return [Series(tuple(sorted(members, key=lambda row: row.row.concurrency or 0.0))) for members in series.values()]


def before(rows: Sequence[Observed]) -> Array:
    """Errors of profiles without corrections, shape (rows, 2) [1]."""
    return log_ratios([row.prediction for row in rows], QUANTITIES)


def _errors(rows: Sequence[Observed], under: Mapping[int, Assumptions]) -> Array:
    return log_ratios(predict([row.row for row in rows], lambda row: under[id(row)]), QUANTITIES)
