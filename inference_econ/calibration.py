"""Fit assumptions to measurements (floor 6): bounded, in logarithms, robust, and honest about what is not known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inference_econ.errors import InputError
from inference_econ.measurements import Measurement
from inference_econ.prediction import Prediction, predict
from inference_econ.spec.assumptions import Assumptions, FamilyAssumptions

Array = npt.NDArray[np.float64]
Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Constant:
    """An assumption that can be fitted.

    Attributes
    ----------
    low, high, start : float
        Bounds that physics sets, and where a fit begins; in base units.
    unit : str
        Of all three.
    """

    low: float
    high: float
    start: float
    unit: str


#: What can be fitted, by the name of the field.
CONSTANTS: Mapping[str, Constant] = {
    "math_efficiency": Constant(0.05, 1.0, 0.6, "1"),
    "attention_math_efficiency": Constant(0.02, 1.0, 0.4, "1"),
    "expert_math_efficiency": Constant(0.02, 1.0, 0.35, "1"),
    "narrow_math_efficiency": Constant(0.3, 1.0, 0.8, "1"),
    "hbm_efficiency": Constant(0.1, 1.0, 0.8, "1"),
    "expert_hbm_efficiency": Constant(0.05, 1.0, 0.6, "1"),
    "kv_hbm_efficiency": Constant(0.05, 1.0, 0.6, "1"),
    "widened_efficiency": Constant(0.05, 1.0, 0.7, "1"),
    "expert_popularity_scv": Constant(1e-3, 10.0, 0.3, "1"),
    "link_efficiency": Constant(0.05, 1.0, 0.7, "1"),
    "graph_launch": Constant(1e-7, 5e-5, 4e-6, "s"),
    "launch": Constant(1e-7, 1e-4, 5e-6, "s"),
    "collective_overhead": Constant(1e-8, 1e-4, 3e-6, "s"),
    "step_overhead": Constant(1e-6, 5e-2, 5e-4, "s"),
    "request_overhead": Constant(1e-5, 1.0, 2e-2, "s"),
}
#: Quantities of a row that a fit may look at.
TARGETS = ("tpot_seconds", "ttft_seconds", "output_tokens_per_second_per_accelerator")
#: Residuals in logarithms beyond which rows pull less (soft L1) [1].
_SOFT = 0.1
#: A constant is identified if its logarithm is known to this [1].
_IDENTIFIED = 0.5


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted constants with what is known about them.

    Attributes
    ----------
    names : tuple of str
        Keys of :data:`CONSTANTS`.
    values : ndarray, shape (n,)
        In base units.
    log_errors : ndarray, shape (n,)
        Standard errors of the logarithms [1]; ``inf`` where the data say nothing.
    covariance : ndarray, shape (n, n)
        Of the logarithms [1].
    assumptions : Assumptions
        The base with the fitted constants.
    residuals : ndarray, shape (rows,)
        ln(predicted / measured) [1].
    rows : tuple of Measurement
        What was fitted.
    """

    names: tuple[str, ...]
    values: Array
    log_errors: Array
    covariance: Array
    assumptions: Assumptions
    residuals: Array
    rows: tuple[Measurement, ...]

    @property
    def identified(self) -> tuple[bool, ...]:
        """Which constants the data determine: inside their bounds, and to better than a factor of 1.6."""
        inside = []
        for name, value, error in zip(self.names, self.values, self.log_errors, strict=True):
            one = CONSTANTS[name]
            at_bound = value < one.low * 1.01 or value > one.high * 0.99
            inside.append(bool(error < _IDENTIFIED and not at_bound))
        return tuple(inside)

    @property
    def median_error(self) -> float:
        """Median absolute residual [1]."""
        return float(np.median(np.abs(self.residuals)))


def fit(
    rows: Sequence[Measurement],
    names: Sequence[str],
    base: Assumptions,
    *,
    target: str = "tpot_seconds",
    progress: Progress | None = None,
    evaluations: int = 30,
) -> Fit:
    """Fit some assumptions to measurements.

    Parameters
    ----------
    rows : sequence of Measurement
        What was measured; rows without the target, or that the model cannot predict, are left out.
    names : sequence of str
        Keys of :data:`CONSTANTS`.
    base : Assumptions
        Everything else; exceptions by family for a fitted constant are dropped.
    target : str
        One of :data:`TARGETS`.
    progress : callable, optional
        Told the share of the work done.
    evaluations : int
        Most evaluations of all rows without those for derivatives [1].

    Returns
    -------
    Fit
        Bounded by :data:`CONSTANTS`.

    Raises
    ------
    InputError
        If a name cannot be fitted, or there are too few rows for the constants.

    Notes
    -----
    Least squares of the logarithms with soft-L1 loss (SciPy's trust-region reflective method); the covariance is
    that of the linearised problem at the optimum, scaled by the robust variance of the residuals.
    """
    from scipy.optimize import least_squares

    _check(names, target)
    usable = _usable(rows, base, target)
    if len(usable) < 2 * len(names):
        raise InputError(
            f"{len(names)} constants need at least {2 * len(names)} rows with a {target} that can be predicted, "
            f"got {len(usable)} of {len(rows)}; fit fewer constants or give more rows"
        )
    limits = [CONSTANTS[name] for name in names]
    low, high = (np.log([getattr(one, side) for one in limits]) for side in ("low", "high"))
    start = np.log([min(max(_value(base, name), one.low * 1.02), one.high * 0.98) for name, one in zip(names, limits, strict=True)])
    total, done = evaluations * (len(names) + 1), [0]

    def residuals(logs: Array) -> Array:
        done[0] += 1
        if progress is not None:
            progress(min(done[0] / total, 0.99), f"evaluation {done[0]}")
        return errors(usable, with_constants(base, names, np.exp(logs)), target)

    found = least_squares(
        residuals, start, bounds=(low, high), loss="soft_l1", f_scale=_SOFT, max_nfev=evaluations, diff_step=1e-2,
        x_scale=0.3,
    )  # fmt: skip
    left = residuals(found.x)
    covariance, log_errors = _uncertainty(np.asarray(found.jac), left)
    values = np.exp(found.x)
    return Fit(tuple(names), values, log_errors, covariance, with_constants(base, names, values), left, tuple(usable))


def errors(rows: Sequence[Measurement], assumptions: Assumptions, target: str) -> Array:
    """ln(predicted / measured) of some rows under some assumptions [1]; 0 where there is no prediction."""
    predictions = predict(rows, lambda _: assumptions)
    return np.array([_error(one, target) for one in predictions])


def with_constants(base: Assumptions, names: Sequence[str], values: Sequence[float] | Array) -> Assumptions:
    """Assumptions with some constants set for every family of chips."""
    dropped = {name: None for name in names if name in FamilyAssumptions.model_fields}
    families = {key: family.model_copy(update=dropped) for key, family in base.per_family.items()}
    set_ = {name: float(value) for name, value in zip(names, values, strict=True)}
    return base.model_copy(update={**set_, "per_family": families})


def _check(names: Sequence[str], target: str) -> None:
    for name in names:
        if name not in CONSTANTS:
            raise InputError(f"{name!r} cannot be fitted; possible: {', '.join(CONSTANTS)}")
    if not names or len(set(names)) < len(names):
        raise InputError("name the constants to fit, each once, for example math_efficiency,hbm_efficiency")
    if target not in TARGETS:
        raise InputError(f"target: got {target!r}; allowed: {', '.join(TARGETS)}")


def _usable(rows: Sequence[Measurement], base: Assumptions, target: str) -> list[Measurement]:
    measured = [row for row in rows if getattr(row, target)]
    return [
        one.measurement for one in predict(measured, lambda _: base) if not one.skipped and getattr(one, target)
    ]


def _value(base: Assumptions, name: str) -> float:
    value = getattr(base, name)
    return float(CONSTANTS[name].start if not value else value)


def _error(prediction: Prediction, target: str) -> float:
    ours, theirs = getattr(prediction, target), getattr(prediction.measurement, target)
    return math.log(ours / theirs) if ours and theirs else 0.0


def _uncertainty(jacobian: Array, residuals: Array) -> tuple[Array, Array]:
    """Covariance and standard errors of the logarithms; infinite where a constant moves nothing."""
    freedom = max(residuals.size - jacobian.shape[1], 1)
    # The normal scatter with the same median, so that outliers do not widen what the bulk of the rows determines.
    scatter = 1.4826 * float(np.median(np.abs(residuals))) * math.sqrt(residuals.size / freedom)
    information = jacobian.T @ jacobian
    values, vectors = np.linalg.eigh(information)
    known = values > max(float(values.max(initial=0.0)), 1e-300) * 1e-10
    inverse = np.where(known, 1.0 / np.where(known, values, 1.0), 1e12)
    covariance = scatter**2 * (vectors * inverse) @ vectors.T
    return covariance, np.sqrt(np.maximum(np.diag(covariance), 0.0))
