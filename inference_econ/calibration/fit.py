"""Fit assumptions to measurements: bounded, in logarithms, robust, and honest about what is not known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inference_econ import _work
from inference_econ._types import Array, Progress
from inference_econ.calibration.measurements import Measurement
from inference_econ.calibration.prediction.predict import predict
from inference_econ.calibration.problem import (
    CONSTANTS,
    TARGETS,
    Meter,
    Problem,
    log_ratios,
    problem_of,
    with_constants,
)
from inference_econ.errors import InputError
from inference_econ.inputs import Assumptions

#: A constant is known if the rows bring its variance below this share of the one it had before, or if nothing was
#: known before, its logarithm to this standard error [1].
_LEARNT, _KNOWN = 0.5, 0.5
#: A constant of which no more than this factor is known is not determined at all [1].
_MOST = 1000.0
#: Most steps of the search; each predicts all rows once for each constant [1].
_STEPS = 12
#: Time of a row and a constant, fits without some of the rows included [s].
_SECONDS = 0.075
#: Share of the cost that a parabola rises by at two standard errors, below which a constant is not determined [1].
_FLAT = 0.25


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted constants with what is known about them.

    Attributes
    ----------
    names : tuple of str
        Keys of :data:`CONSTANTS`.
    values : ndarray, shape (n,)
        In base units.
    covariance : ndarray, shape (n, n)
        Of their logarithms [1].
    unknown : tuple of str
        For each constant, why the rows do not determine it; empty if they do.
    base, assumptions : Assumptions
        What the fit began with, and that with the fitted constants.
    targets : tuple of str
        Keys of :data:`TARGETS`.
    errors : ndarray, shape (rows, targets)
        ln(predicted / measured) [1]; NaN where one of the two is missing.
    base_errors : ndarray, shape (rows, targets)
        The same of the base [1].
    jacobian : ndarray, shape (rows, targets, n)
        Derivatives of the errors with respect to the logarithms [1].
    rows : tuple of Measurement
        What was fitted.
    prior : float
        Trust in the base: its constants' spreads were multiplied by it [1].
    """

    names: tuple[str, ...]
    values: Array
    covariance: Array
    unknown: tuple[str, ...]
    base: Assumptions
    assumptions: Assumptions
    targets: tuple[str, ...]
    errors: Array
    base_errors: Array
    jacobian: Array
    rows: tuple[Measurement, ...]
    prior: float

    @property
    def log_errors(self) -> Array:
        """Standard errors of the logarithms [1], shape (n,)."""
        return np.sqrt(np.diag(self.covariance))

    def median_error(self, target: str) -> float:
        """Median absolute error of a target [1]; NaN if no row has it."""
        errors = self.errors[:, self.targets.index(target)]
        return float(np.nanmedian(np.abs(errors))) if np.isfinite(errors).any() else math.nan


def fit(
    rows: Sequence[Measurement],
    names: Sequence[str],
    base: Assumptions,
    *,
    targets: Sequence[str] = ("tpot",),
    prior: float = 1.0,
    progress: Progress | None = None,
) -> Fit:
    """Fit some assumptions to measurements.

    Parameters
    ----------
    rows : sequence of Measurement
        What was measured; rows without a target, or that the model cannot predict, are left out.
    names : sequence of str
        Keys of :data:`CONSTANTS`.
    base : Assumptions
        Everything else, and where the constants probably are; exceptions by family for a fitted one are dropped.
    targets : sequence of str
        Keys of :data:`TARGETS`.
    prior : float
        Factor on the spreads of :data:`CONSTANTS`: below 1 the base is trusted more; ``inf`` is not at all [1].
    progress : callable, optional
        Told the share of the work done.

    Returns
    -------
    Fit
        Bounded by :data:`CONSTANTS`.

    Raises
    ------
    InputError
        If a name cannot be fitted, or there are too few rows for the constants.
    TooMuchError
        If it would take too long.

    Notes
    -----
    Most likely values for errors of the logarithms that are Cauchy-distributed (rows far off pull hardly at all) and
    log-normal priors. Of n rows of one engine, model and chip, the square root of n counts: their errors are alike.
    SciPy's trust-region reflective method; the covariance is the inverse of the Gauss-Newton matrix at the optimum.
    """
    _check(names, targets, prior)
    problem = problem_of(rows, names, base, targets, prior)
    count = len(problem.rows)
    work = f"{count:,} rows and {len(names)} constants"
    _work.check(work, seconds=_SECONDS * count * (len(names) + 1), smaller="rows")
    steps = _STEPS * (len(names) + 2)
    meter = Meter(progress, steps + 2 * len(names))
    logs = problem.solve(problem.start, _STEPS, meter)
    errors = problem.errors(logs)
    jacobian = problem.jacobian(logs, errors, Meter(None, 1))
    weighted = problem.weighted_jacobian(errors, jacobian)
    covariance = np.asarray(np.linalg.pinv(weighted.T @ weighted + np.diag(problem.spreads**-2.0), rcond=1e-12))
    meter.done = steps
    unknown = _unknown(problem, logs, covariance, meter)
    values = np.exp(logs)
    before = log_ratios(predict(problem.rows, lambda _: base), targets)
    return Fit(
        tuple(names), values, covariance, unknown, base, with_constants(base, names, values),
        tuple(targets), errors, before, jacobian, problem.rows, prior,
    )  # fmt: skip


def _check(names: Sequence[str], targets: Sequence[str], prior: float) -> None:
    for name in names:
        if name not in CONSTANTS:
            raise InputError(f"{name!r} cannot be fitted; possible: {', '.join(CONSTANTS)}")
    if not names or len(set(names)) < len(names):
        raise InputError("name the constants to fit, each once, for example chip.math_efficiency,chip.hbm_efficiency")
    for target in targets:
        if target not in TARGETS:
            raise InputError(f"target: got {target!r}; allowed: {', '.join(TARGETS)}")
    if not targets or len(set(targets)) < len(targets):
        raise InputError("name the targets, each once, for example tpot,ttft")
    if not prior > 0:
        raise InputError(f"prior must be positive, got {prior:g}; 'inf' does not trust the base at all")


def _unknown(problem: Problem, logs: Array, covariance: Array, meter: Meter) -> tuple[str, ...]:
    """Why a constant is not determined; a profile of the likelihood is followed along the linearised valley."""
    lowest, reasons = problem.cost(logs), []
    for index in range(logs.size):
        error = float(np.sqrt(covariance[index, index]))
        learnt = 1.0 - (error / problem.spreads[index]) ** 2
        if min(logs[index] - problem.low[index], problem.high[index] - logs[index]) < 0.01:
            reasons.append("at its bound")
        elif problem.spreads[index] < 1e2 and learnt < _LEARNT:
            reasons.append("the rows say little about it: mostly the base's value")
        elif problem.spreads[index] >= 1e2 and error > _KNOWN:
            vague = error > math.log(_MOST)
            reasons.append("the rows do not see it" if vague else f"known to a factor of {math.exp(error):.3g} only")
        else:
            valley = covariance[:, index] / error
            rises = [
                problem.cost(np.clip(logs + sign * valley, problem.low, problem.high)) - lowest for sign in (-2.0, 2.0)
            ]
            flat = min(rises) < _FLAT * 2.0
            reasons.append("others make up for it: the likelihood is flat" if flat else "")
        meter.step()
        meter.step()
    return tuple(reasons)
