"""Fit constants of the assumptions to files of measurements, as one answer."""

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
    """Constants fitted to measurements, and how far off the fit is.

    Attributes
    ----------
    fitted : Fit
        The constants.
    folds : mapping of str to list of Fold
        Fits that left something out, by what it was.
    left_out : mapping of str to int
        Rows that were not fitted, by reason [1].
    """

    page = "extras.servers.pages.run_vs_prediction:CalibrationPage"

    fitted: Fit
    folds: Mapping[Unlike, list[Fold]]
    left_out: Mapping[str, int]

    def record(self) -> dict[str, Any]:
        """Return constants and errors as plain data, in base units."""
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
            # Shares of rows in intervals of 80 % that were made without their group, by what was left out.
            "coverage_of_80_percent": {
                target: {by: finite_or_none(coverage(held_out(self.folds, by, index))) for by in GROUPS}
                for index, target in enumerate(fitted.targets)
            },
        }

    def records(self) -> list[dict[str, Any]]:
        """Return one record per constant: value, standard error, that of the base, whether rows determine it."""
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
    """Return the fits that left a chip or a model out."""
    kinds: tuple[Unlike, ...] = ("hardware", "model")
    return [fold for by in kinds for fold in folds.get(by, ())]


def _medians(fitted: Fit, errors: Array) -> dict[str, float | None]:
    """Median size of the errors of each target, of rows that have one [1]."""
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
        Which to fit.
    targets : sequence of str
        What is to be reproduced: tpot, ttft, request, throughput.
    base : str, optional
        Preset to begin with; by default the profile of the rows' chips and engine.
    prior : float
        Freedom from the base [1]; ``inf`` ignores it.
    server : MeasuredServer, optional
        What results of load generators do not say of the server.
    progress : callable, optional
        Told the share of the work done.

    Returns
    -------
    Calibrated
        The constants, their errors, and those of fits that left something out.

    Raises
    ------
    InputError
        If a file or name cannot be used, or the rows are too few.
    """
    sources = [data] if isinstance(data, (str, Path)) else list(data)
    rows, left_out = chosen(read_all(sources, server), [], [])
    preset = catalog.assumptions(base or base_of(rows))
    fitted = fit(thinned(rows, MOST_DEPLOYMENTS), constants, preset, targets=targets, prior=prior, progress=progress)
    return Calibrated(fitted, all_folds(fitted, progress=progress), left_out)


def base_of(rows: Sequence[Measurement]) -> str:
    """The profile that all rows have, or that of all servers; for chips without one, ``deployable``."""
    names = {profiles.name_for(catalog.hardware(row.hardware).generation, row.engine) for row in rows}
    if len(names) == 1:
        return names.pop()
    return "profiles/servers" if names and "deployable" not in names else "deployable"


def read_all(data: Sequence[str | Path], server: MeasuredServer | None) -> list[Measurement | Skipped]:
    """Every row of some files, or of shipped files by their names.

    Raises
    ------
    InputError
        If a file is none, or a result whose server nobody has described.
    """
    files = catalog.server_files()
    return [row for name in data for row in measurements.read_measurements(files.get(str(name), name), server)]
