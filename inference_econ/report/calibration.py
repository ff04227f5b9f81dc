"""Fits as tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from inference_econ.calibration.fit import Fit
from inference_econ.calibration.holdout import GROUPS, KNOWN, NEW, Fold, coverage, held_out
from inference_econ.calibration.measurements import Measurement
from inference_econ.calibration.problem import CONSTANTS
from inference_econ.inputs.assumptions import value_of
from inference_econ.inputs.units import percent
from inference_econ.report.table import Table

Array = npt.NDArray[np.float64]

_LEGEND = (
    "error: median of the larger of predicted and measured over the smaller, less 1; bias: median of predicted over "
    "measured, less 1"
)

#: Median error of a target beyond which a fit does not reproduce its rows: a factor of 1.5 [1].
_POOR = math.log(1.5)
_DIVISIONS = {"new chips and models": NEW, "new traffic": KNOWN}


def constants_table(found: Fit) -> Table:
    """Each constant with its standard error, and whether the rows determine it."""
    rows = []
    for name, value, error, unknown in zip(found.names, found.values, found.log_errors, found.unknown, strict=True):
        before = value_of(found.base, name)
        given = "-" if before is None else _amount(name, before)
        rows.append((name, _amount(name, value), percent(error), given, unknown or "yes"))
    columns = ("constant", "value", "standard error", "base", "determined by the rows")
    return Table(f"Fitted to {len(found.rows)} rows", columns, tuple(rows))


def errors_table(found: Fit, folds: Mapping[str, Sequence[Fold]]) -> Table:
    """Median errors of the fit by engine, chip and model, and of the fits that left a chip or a model out."""
    kinds = [f"{target}: {what}" for target in found.targets for what in ("error", "bias")]
    rows = [("all", *_line(found.errors))]
    rows.append((f"all, by the base ({found.base.name})", *_line(found.base_errors)))
    rows += [(label, *_line(errors)) for label, errors in _slices(found.rows, found.errors)]
    rows += [(f"{fold.left_out}, left out", *_line(fold.errors)) for fold in _shown(folds)]
    return Table("Errors", ("rows of", "number", *kinds), tuple(rows), _notes(found, folds))


def not_reproduced(found: Fit) -> list[str]:
    """For each target whose rows the fit is far from, what to check."""
    return [
        f"{target}: the fit does not reproduce the rows, their median error is {percent(error)}: "
        "check units (seconds, milliseconds), formats of weights and KV cache, "
        "speculation and layout of the rows, or give more freedom (--prior, --fit)"
        for target in found.targets
        if (error := found.median_error(target)) > _POOR
    ]


def _shown(folds: Mapping[str, Sequence[Fold]]) -> list[Fold]:
    return [fold for by in ("hardware", "model") for fold in folds.get(by, ())]


def _slices(rows: Sequence[Measurement], errors: Array) -> Iterator[tuple[str, Array]]:
    labels = [GROUPS["subject"](row) for row in rows]
    for label in sorted(set(labels)):
        yield label, errors[np.array([one == label for one in labels])]


def _line(errors: Array) -> tuple[str, ...]:
    cells = [str(len(errors))]
    for column in errors.T:
        known = column[np.isfinite(column)]
        cells += [_middle(np.abs(known)), _middle(known, sign=True)] if known.size else ["-", "-"]
    return tuple(cells)


def _middle(errors: Array, *, sign: bool = False) -> str:
    return percent(float(np.median(errors)), sign=sign)


def _notes(found: Fit, folds: Mapping[str, Sequence[Fold]]) -> tuple[str, ...]:
    notes = [_LEGEND]
    for target in found.targets:
        for what, division in _DIVISIONS.items():
            groups = held_out(folds, division, found.targets.index(target))
            share = coverage(groups, division.weight)
            if math.isfinite(share):
                half = _middle(np.abs(np.concatenate(groups)))
                notes.append(
                    f"{target}, {what}: half of the rows left out are within {half}; 80 % intervals made from the "
                    f"others hold {100 * share:.0f} %"
                )
    return tuple(notes)


def _covered(found: Fit, folds: Mapping[str, Sequence[Fold]], target: str) -> dict[str, float | None]:
    """Share of rows inside of intervals of 80 % that were made without their group."""
    index = found.targets.index(target)
    return {
        what: _number(coverage(held_out(folds, division, index), division.weight))
        for what, division in _DIVISIONS.items()
    }


def record(found: Fit, folds: Mapping[str, Sequence[Fold]], left_out: Mapping[str, int]) -> dict[str, object]:
    """The same as plain data, in base units."""
    return {
        "rows": len(found.rows),
        "left_out": dict(left_out),
        "constants": {
            name: {
                "value": float(value),
                "unit": CONSTANTS[name].unit,
                "log_error": float(error),
                "base": value_of(found.base, name),
                "determined": not unknown,
                "why_not": unknown,
            }
            for name, value, error, unknown in zip(
                found.names, found.values, found.log_errors, found.unknown, strict=True
            )
        },
        "median_errors": {target: _number(found.median_error(target)) for target in found.targets},
        "base": found.base.name,
        "base_median_errors": {
            target: _median(found.base_errors[:, index]) for index, target in enumerate(found.targets)
        },
        "left_out_errors": [
            {
                "by": fold.by,
                "left_out": fold.left_out,
                "rows": len(fold.rows),
                "median_errors": {target: _median(fold.errors[:, index]) for index, target in enumerate(found.targets)},
            }
            for fold in _shown(folds)
        ],
        "coverage_of_80_percent": {target: _covered(found, folds, target) for target in found.targets},
    }


def _median(errors: Array) -> float | None:
    known = np.abs(errors[np.isfinite(errors)])
    return float(np.median(known)) if known.size else None


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _amount(name: str, value: float) -> str:
    if CONSTANTS[name].unit != "s":
        return f"{value:.3g}"
    return f"{1e6 * value:.3g} us" if value < 1e-3 else f"{1e3 * value:.3g} ms"
