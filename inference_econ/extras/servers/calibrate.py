"""Fit constants of the assumptions to files of measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from inference_econ._answer import Shown
from inference_econ._types import Array, Progress
from inference_econ.extras.servers import measurements
from inference_econ.extras.servers.accuracy import chosen, thinned
from inference_econ.extras.servers.fit import CONSTANTS, GROUPS, Fit, Fold, all_folds, coverage, fit, held_out
from inference_econ.extras.servers.measurements import MeasuredServer, Measurement, Skipped
from inference_econ.inputs import MOST_DEPLOYMENTS, USUAL_CONSTANTS, Unlike, catalog, value_of
from inference_econ.inputs.engine import profiles
from inference_econ.records.plain import attributes, finite_or_none


@dataclass(frozen=True, slots=True, repr=False)
class Calibrated(Shown):
    """Constants fitted to measurements, and the errors of the fit.

    Attributes
    ----------
    fitted : Fit
        The constants.
    folds : mapping of str to list of Fold
        Cross-validation, by the property whose measurements were left out.
    left_out : mapping of str to int
        Excluded measurements by reason [1].
    """

    page = "extras.servers.pages.run_vs_prediction:CalibrationPage"

    fitted: Fit
    folds: Mapping[Unlike, list[Fold]]
    left_out: Mapping[str, int]

    def record(self) -> dict[str, Any]:
        """Constants and errors as plain data, in base units."""
        fitted = self.fitted
        return {
            "rows": len(fitted.rows),
            "left_out": dict(self.left_out),
            "constants": {row.pop("constant"): row for row in self.records()},
            "median_errors": {target: finite_or_none(fitted.median_error(target)) for target in fitted.targets},
            "base": fitted.base.name,
            "base_median_errors": _medians(fitted, fitted.base_errors),
            "left_out_errors": [
                attributes(fold, "by left_out")
                | {"rows": len(fold.rows), "median_errors": _medians(fitted, fold.errors)}
                for fold in shown_folds(self.folds)
            ],
            # Coverage of cross-validated 80% intervals, by the property that was held out.
            "coverage_of_80_percent": {
                target: {by: finite_or_none(coverage(held_out(self.folds, by, index))) for by in GROUPS}
                for index, target in enumerate(fitted.targets)
            },
        }

    def records(self) -> list[dict[str, Any]]:
        """One record per constant: value, standard error, base value, and whether the data determine it."""
        fitted = self.fitted
        columns = zip(fitted.names, fitted.values, fitted.log_errors, fitted.unknown, strict=True)
        return [
            {
                "constant": name,
                "value": float(value),
                "unit": CONSTANTS[name].unit,
                "log_error": float(error),
                "base": value_of(fitted.base, name),
                "determined": not unknown,
                "why_not": unknown,
            }
            for name, value, error, unknown in columns
        ]


def shown_folds(folds: Mapping[Unlike, Sequence[Fold]]) -> list[Fold]:
    """Fits that left out a chip or a model."""
    kinds: tuple[Unlike, ...] = ("hardware", "model")
    return [fold for by in kinds for fold in folds.get(by, ())]


def _medians(fitted: Fit, errors: Array) -> dict[str, float | None]:
    """Median absolute error of each target [1]."""
    sizes = {
        target: np.abs(column[np.isfinite(column)]) for target, column in zip(fitted.targets, errors.T, strict=True)
    }
    return {target: float(np.median(column)) if column.size else None for target, column in sizes.items()}


def calibrate(
    data: str | Path | Sequence[str | Path],
    constants: Sequence[str] = USUAL_CONSTANTS,
    *,
    targets: Sequence[str] = ("tpot",),
    base: str | None = None,
    prior: float = 1.0,
    server: MeasuredServer | None = None,
    progress: Progress | None = None,
) -> Calibrated:
    """Fit constants of the assumptions to measurements (``inference_econ.calibrate``).

    Parameters
    ----------
    data : str, Path or sequence of these
        Files of measurements, results of load generators, or names of shipped files.
    constants : sequence of str
        Constants to fit.
    targets : sequence of str
        Quantities to reproduce: tpot, ttft, request, throughput.
    base : str, optional
        Preset to start from; by default the profile of the measured chips and engine.
    prior : float
        Factor on the prior standard deviations around the constants of ``base`` [1]; ``inf`` ignores them.
    server : MeasuredServer, optional
        Facts about the server that results of load generators lack.
    progress : callable, optional
        Receives the completed share.

    Returns
    -------
    Calibrated
        Constants, their errors, and the cross-validation.

    Raises
    ------
    InputError
        If a file or name is invalid, or there are too few measurements.
    """
    sources = [data] if isinstance(data, (str, Path)) else list(data)
    rows, left_out = chosen(read_all(sources, server), [], [])
    preset = catalog.assumptions(base or base_of(rows))
    fitted = fit(thinned(rows, MOST_DEPLOYMENTS), constants, preset, targets=targets, prior=prior, progress=progress)
    return Calibrated(fitted, all_folds(fitted, progress=progress), left_out)


def base_of(rows: Sequence[Measurement]) -> str:
    """Default base of a fit: the profile of the measured chips and engine, ``profiles/servers``, or ``deployable``."""
    names = {profiles.name_for(catalog.hardware(row.hardware).generation, row.engine) for row in rows}
    if len(names) == 1:
        return names.pop()
    return "profiles/servers" if names and "deployable" not in names else "deployable"


def read_all(data: Sequence[str | Path], server: MeasuredServer | None) -> list[Measurement | Skipped]:
    """Read measurements from files, or from shipped files by name.

    Raises
    ------
    InputError
        If a file is invalid, or a result lacks the facts about its server.
    """
    files = catalog.server_files()
    return [row for name in data for row in measurements.read_measurements(files.get(str(name), name), server)]
