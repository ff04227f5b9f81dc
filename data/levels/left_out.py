"""Errors of predictions with levels for rows that the levels had not seen, as far as slopes say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from data.levels.spreads import folds
from inference_econ._types import Array
from inference_econ.extras.servers.fit import coverage, error_quantiles, joined, log_ratios, without_misfits
from inference_econ.extras.servers.levels import Group, Observed, Spreads, known_part, level_of, pooled
from inference_econ.inputs import Quantity, Unseen

#: What errors are counted of.
_QUANTITIES: tuple[Quantity, ...] = ("tpot", "ttft", "request", "throughput")
#: Rows that say how far off predictions are, at least [1].
_ENOUGH = 10

#: What rows have in common that are left out together.
UNSEEN: Mapping[Unseen, Callable[[Observed], object]] = {
    "load": lambda row: row.row.id + row.row.dataset,
    "deployment": lambda row: row.places,
    "way": lambda row: known_part(row.places[0], 2),
    "version": lambda row: known_part(row.places[0], 1),
}


def left_out_levels(rows: Sequence[Observed], spreads: Spreads, by: Callable[[Observed], object]) -> list[Array]:
    """The levels of each row by all rows but those that share something with it, shape (2,) each [1]."""
    levels: dict[int, Array] = {}
    for shared, rest in folds(rows, by):
        entries = pooled(rest, spreads)
        levels |= {id(row): level_of(entries, row) for row in shared}
    return [levels[id(row)] for row in rows]


def errors_left(rows: Sequence[Observed], levels: Sequence[Array]) -> Array:
    """ln(measured / predicted) of rows predicted with levels, shape (rows, quantities) [1]; NaN where one is missing.

    TPOT and TTFT are moved by their slopes, and what follows from both with them: times of requests, and the throughput
    of a closed loop, which is in proportion to one over the time of a request.
    """
    moved = np.array([row.slopes @ level for row, level in zip(rows, levels, strict=True)])
    ratios = -log_ratios([row.prediction for row in rows], _QUANTITIES)
    times = [(row.prediction.ttft_seconds, row.prediction.request_seconds) for row in rows]
    ttft, request = np.array(times, dtype=float).T
    answers = request - ttft
    further = np.log((ttft * np.exp(moved[:, 1]) + answers * np.exp(moved[:, 0])) / request)
    with np.errstate(invalid="ignore"):
        left = np.stack([row.errors for row in rows]) - moved
    return np.stack([left[:, 0], left[:, 1], ratios[:, 2] - further, ratios[:, 3] + further], axis=-1)


def error_spreads(rows: Sequence[Observed], spreads: Spreads) -> dict[Group, dict[Unseen, dict[Quantity, Any]]]:
    """Quantiles of such errors by group, as plain data of error spreads; the fewer runs, the nearer to those of all."""
    spreads_by_group: dict[Group, dict[Unseen, dict[Quantity, Any]]] = {}
    groups = list(dict.fromkeys(row.group for row in rows))
    for unseen in get_args(Unseen):
        errors = errors_left(rows, left_out_levels(rows, spreads, UNSEEN[unseen]))
        for index, quantity in enumerate(_QUANTITIES):
            base = error_quantiles(_runs(rows, errors[:, index], unseen, None))
            for group in groups:
                runs = _runs(rows, errors[:, index], unseen, group)
                if base is not None and joined(runs).size >= _ENOUGH:
                    spreads_by_group.setdefault(group, {}).setdefault(unseen, {})[quantity] = _described(runs, base)
    return spreads_by_group


def _runs(rows: Sequence[Observed], errors: Array, unseen: Unseen, group: Group | None) -> list[list[Array]]:
    """Errors by what was left out together, and within it by deployment; of loads by deployment alone."""
    of: Unseen = "deployment" if unseen == "load" else unseen
    parts: dict[object, dict[object, list[float]]] = {}
    for row, error in zip(rows, errors.tolist(), strict=True):
        if np.isfinite(error) and group in (None, row.group):
            name = (row.group, UNSEEN[of](row))
            parts.setdefault(name, {}).setdefault(row.places, []).append(error)
    return [[np.array(run) for run in part.values()] for part in parts.values()]


def _described(runs: list[list[Array]], base: Sequence[float]) -> dict[str, Any]:
    errors, share, kept = joined(runs), coverage(runs, base), without_misfits(runs)
    quantiles = error_quantiles(runs, base)
    assert quantiles is not None
    spread = {
        "rows": int(errors.size),
        "groups": len(kept),
        "misfits": int(errors.size - joined(kept).size) or None,
        "median": round(float(np.median(np.abs(errors))), 4),
        "p90": round(float(np.quantile(np.abs(errors), 0.9)), 4),
        "covered": round(share, 3) if np.isfinite(share) else None,
        "quantiles": list(quantiles),
    }
    return {name: value for name, value in spread.items() if value is not None}
