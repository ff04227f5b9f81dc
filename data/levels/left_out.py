"""Errors of predictions with corrections for rows that the corrections had not seen, linearized by slopes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from inference_econ._types import Array
from inference_econ.extras.servers.fit import coverage, error_quantiles, joined, log_ratios, without_misfits
from inference_econ.extras.servers.levels import Group, Observed, Spreads, block_of, blocks, known_part, solved_block
from inference_econ.inputs import Quantity, Unseen

#: Quantities for which errors are computed.
_QUANTITIES: tuple[Quantity, ...] = ("tpot", "ttft", "request", "throughput")
#: Minimum number of rows for an estimate of prediction errors [1].
_ENOUGH = 10

#: Properties by which rows are held out together.
UNSEEN: Mapping[Unseen, Callable[[Observed], object]] = {
    "load": lambda row: row.row.id + row.row.dataset,
    "deployment": lambda row: row.places,
    "way": lambda row: known_part(row.places[0], 2),
    "version": lambda row: known_part(row.places[0], 1),
    "subject": lambda row: known_part(row.places[0], 0),
}


def left_out_levels(rows: Sequence[Observed], spreads: Spreads, by: Callable[[Observed], object]) -> list[Array]:
    """Corrections of each row, fitted to the rows that differ from it in a property, shape (2,) each [1]."""
    levels: dict[int, Array] = {}
    for part in blocks(rows):
        block = block_of(part)
        solved, scatter = solved_block(block, spreads), spreads.rows[block.quantity] ** 2
        groups: dict[object, list[int]] = {}
        for number, row in enumerate(part):
            groups.setdefault(by(row), []).append(number)
        for numbers in groups.values():
            # Woodbury: effects without the lines of these rows, from the effects with them.
            lines = np.isin(block.rows, numbers)
            design = block.design[lines]
            gain = solved.covariance @ design.T / scatter[lines]
            beyond = block.errors[lines] - design @ solved.effects
            effects = solved.effects - gain @ np.linalg.solve(np.eye(lines.sum()) - design @ gain, beyond)
            for number in numbers:
                levels[id(part[number])] = np.array([effects[of_kind].sum() for of_kind in block.members[number]])
    return [levels[id(row)] for row in rows]


def errors_left(rows: Sequence[Observed], levels: Sequence[Array]) -> Array:
    """ln(measured / predicted) of rows with corrections, shape (rows, quantities) [1]; NaN if a value is missing.

    TPOT and TTFT change according to their slopes. The times of requests follow from both. The throughput of a closed
    loop is proportional to the inverse of the time of a request.
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
    """Error quantiles by group, as plain data of error spreads.

    With few runs, the quantiles of a group are closer to the quantiles of all groups.
    """
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
    """Errors by held-out group, and in each group by deployment; for loads, by deployment only."""
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
