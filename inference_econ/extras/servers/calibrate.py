"""Fit constants of the assumptions to measurements, and write the fit as a preset."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from inference_econ import inputs
from inference_econ._answer import Shown
from inference_econ._types import Array, Progress
from inference_econ.engine import formats, has_experts
from inference_econ.extras.servers import accuracy, measurements
from inference_econ.extras.servers.accuracy import chosen, thinned
from inference_econ.extras.servers.fit import (
    BASE_GROUPS,
    CONSTANTS,
    GROUPS,
    Fit,
    Fold,
    Groups,
    all_folds,
    coverage,
    error_quantiles,
    fit,
    held_out,
    joined,
    no_narrower,
    own_errors,
    without_misfits,
)  # fmt: skip
from inference_econ.extras.servers.measurements import MeasuredServer, Measurement, Skipped
from inference_econ.inputs import MOST_DEPLOYMENTS, USUAL_CONSTANTS, Unlike, catalog, value_of
from inference_econ.inputs.engine import profiles
from inference_econ.records.plain import attributes, finite_or_none


@dataclass(frozen=True, slots=True, repr=False)
class Calibrated(Shown):
    """Result of a calibration: constants fitted to measurements, and the errors of the fit.

    Attributes
    ----------
    fitted : Fit
        Fitted constants and their measurements.
    folds : mapping of str to list of Fold
        Cross-validation, by the property that defines the left-out groups.
    left_out : mapping of str to int
        Number of excluded measurements, by reason [1].
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
    """Cross-validation fits that left out all measurements of a chip or of a model."""
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
        Factor on the prior standard deviations around the constants of ``base`` [1]; ``inf`` means no prior.
    server : MeasuredServer, optional
        Facts about the server that results of load generators lack.
    progress : callable, optional
        Function that receives the completed share of the work [1].

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


#: Units for times in files, and their seconds.
_TIMES = (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
#: Minimum number of measurements of a quantity for an error estimate [1].
_ENOUGH = 5


@dataclass(frozen=True, slots=True)
class Provenance:
    """Provenance of a fitted profile.

    Attributes
    ----------
    name : str
        Name of the profile.
    extends : str
        Base preset of the fit.
    data : str
        Description of the measurements.
    reference : str
        Key of ``references.bib``, or ``user``.
    date : str
        Date of the fit.
    changes : tuple of str
        ``FIELD=VALUE`` changes that were made before the fit.
    description : str
        Description of the profile; by default, the names of the servers to which the constants were fitted.
    """

    name: str
    extends: str
    data: str
    reference: str
    date: str
    changes: tuple[str, ...] = ()
    description: str = ""


def profile(fitted: Fit, folds: Mapping[inputs.Unlike, Sequence[Fold]], provenance: Provenance) -> dict[str, Any]:
    """Convert a fit into a preset.

    Parameters
    ----------
    fitted : Fit
        Constants and measurements.
    folds : mapping
        Cross-validation; see :func:`inference_econ.extras.servers.fit.all_folds`.
    provenance : Provenance
        Provenance of the profile.

    Returns
    -------
    dict
        Plain data. Written by :func:`inference_econ.inputs.yaml_writing.yaml_text`, the preset is readable by
        :func:`inference_econ.inputs.catalog.assumptions`.

    Raises
    ------
    SpecError
        If a change is invalid.
    """
    pairs = [change.partition("=") for change in provenance.changes]
    settings = {key.strip(): value.strip() for key, _, value in pairs if key.strip() not in fitted.names}
    constants = {name: _quantity(name, value) for name, value in zip(fitted.names, fitted.values, strict=True)}
    values = {name: inputs.parsed_value(text, name) for name, text in settings.items()}
    # Remove values for single chip families, because they would override fitted values.
    exceptions = {
        f"per_family.{family}.{name}": None
        for family in fitted.base.per_family
        for name in inputs.exceptions_of(fitted.base, family)
        if name in fitted.names
    }
    # Calibration record: measurements, errors, and undetermined constants.
    before = accuracy.calibration_behind(fitted.base)
    deployments = {*map(accuracy.deployment_key, fitted.rows), *(() if before is None else before.deployments.split())}
    days = accuracy.days_of(fitted.rows)
    names = {
        "engines": [row.engine or "unknown" for row in fitted.rows],
        "models": [row.model for row in fitted.rows],
        "hardware": [row.hardware for row in fitted.rows],
        "families": [inputs.catalog.hardware(row.hardware).family for row in fitted.rows],
        "weights": [formats(inputs.catalog.model(row.model), row.weights) for row in fitted.rows],
    }
    parts = {
        "date": provenance.date,
        "rows": len(fitted.rows),
        "measured": {} if days is None else {"since": f"{days.since}", "until": f"{days.until}"},
        **{key: sorted(set(values)) for key, values in names.items()},
        **_ranges(fitted.rows),
        "errors": _errors(fitted, folds),
        "subjects": sorted(set(map(accuracy.subject_of, fitted.rows))),
        "versions": sorted({accuracy.version_of(row) for row in fitted.rows if row.engine_version}),
        "layouts": sorted(set(filter(None, map(accuracy.layout_of, fitted.rows)))),
        "parallel": parallel(fitted.rows),
        "left_out": _left_out(fitted, folds),
        "unseen": _unseen(fitted, folds),
        "undetermined": [name for name, why in zip(fitted.names, fitted.unknown, strict=True) if why],
        "deployments": " ".join(sorted(deployments)),
    }
    optional = ("measured", "versions", "layouts", "left_out", "unseen", "undetermined")
    who, where = (", ".join(sorted(set(names[kind]))) for kind in ("engines", "hardware"))
    default = f"{provenance.extends} with constants fitted to {len(fitted.rows)} rows of servers: {who} on {where}."
    return {
        "extends": provenance.extends,
        "name": provenance.name,
        "description": provenance.description or default,
        **_nested({**values, **constants, **exceptions}),
        "calibration": {name: part for name, part in parts.items() if part or name not in optional},
        "sources": _sources(fitted, settings, provenance),
    }


def _quantity(name: str, value: float) -> float | str:
    """Constant with four significant digits; a time is text with its unit."""
    if CONSTANTS[name].unit != "s":
        return _four_digits(value)
    unit, size = next((unit for unit in _TIMES if value >= unit[1]), _TIMES[-1])
    return f"{value / size:.4g} {unit}"


def _four_digits(value: float) -> float:
    return float(f"{value:.4g}")


def _nested(values: Mapping[str, object]) -> dict[str, Any]:
    """Convert dotted names to nested mappings."""
    nested: dict[str, Any] = {}
    for name, value in values.items():
        *groups, field = name.split(".")
        place = nested
        for group in groups:
            place = place.setdefault(group, {})
        place[field] = value
    return nested


def _sources(fitted: Fit, settings: Mapping[str, str], provenance: Provenance) -> dict[str, dict[str, str]]:
    """Sources of all values in a profile."""
    texts = {name: f"set before the fit: {name} = {text}" for name, text in settings.items()}
    for name, error, doubt in zip(fitted.names, fitted.log_errors, fitted.unknown, strict=True):
        error_text = f"standard error {inputs.percent(error)}{doubt and f'; {doubt}'}"
        texts[name] = f"fitted with the others, see calibration; {error_text}"
    rows = f"fitted to {len(fitted.rows)} rows of {provenance.data}"
    texts["calibration"] = f"{rows}: their range, and errors of fits that left some out"
    kinds = dict.fromkeys(settings, "assumed")
    return {
        name: {"ref": provenance.reference, "where": text, "kind": kinds.get(name, "derived")}
        for name, text in texts.items()
    }


def parallel(rows: Sequence[Measurement]) -> dict[inputs.Axis, list[str]]:
    """Models that were measured with each kind of parallelism.

    For dense models, data parallelism means separate instances.
    """
    models: dict[inputs.Axis, set[str]] = {"dp": set(), "pp": set(), "ep": set()}
    for row in rows:
        model = inputs.catalog.model(row.model)
        for axis, names in models.items():
            if (getattr(row, axis) or 1) > 1 and (axis == "pp" or has_experts(model)):
                names.add(model.name)
    return {axis: sorted(names) for axis, names in models.items()}


def _ranges(rows: Sequence[Measurement]) -> dict[str, dict[str, float]]:
    """Ranges of model size, request lengths, load and instance size in the measurements."""
    values: dict[str, list[float | None]] = {
        "parameters": [float(inputs.catalog.model(row.model).total_parameters) for row in rows],
        "isl": [row.isl for row in rows],
        "osl": [row.osl for row in rows],
        "requests_per_accelerator": [accuracy.requests_per_accelerator(row) for row in rows],
        "accelerators": [accuracy.instance_chips(row) for row in rows],
    }
    measured = {key: [value for value in numbers if value] or [1.0] for key, numbers in values.items()}
    return {
        key: {"low": _four_digits(min(numbers)), "high": _four_digits(max(numbers))}
        for key, numbers in measured.items()
    }


def _errors(fitted: Fit, folds: Mapping[inputs.Unlike, Sequence[Fold]]) -> dict[str, dict[str, Any]]:
    """Error spreads by kind of left-out group and target, combined with the parent's if there are few groups."""
    before = accuracy.calibration_behind(fitted.base)
    errors_by_kind: dict[inputs.Unlike, dict[inputs.Quantity, inputs.ErrorSpread]] = (
        {} if before is None else before.errors
    )
    errors = {
        by: {
            target: spread
            for index, target in enumerate(fitted.targets)
            if (
                spread := _spread(
                    fitted, index, by, folds, errors_by_kind.get(by, {}).get(cast("inputs.Quantity", target))
                )
            )
        }
        for by in GROUPS
    }
    return {by: spreads for by, spreads in errors.items() if spreads}


def _spread(
    fitted: Fit,
    target: int,
    by: inputs.Unlike,
    folds: Mapping[inputs.Unlike, Sequence[Fold]],
    before: inputs.ErrorSpread | None,
) -> dict[str, Any]:
    """Error spread of a target for one kind of left-out group; empty if unknown."""
    groups, base = held_out(folds, by, target), None if before is None else before.quantiles
    if groups:
        few = len(without_misfits(groups)) < BASE_GROUPS
        share = coverage(groups, base)
        return _described(fitted, target, groups, error_quantiles(groups, base), before if few else None, share)
    if before is None and by != "traffic":
        return {}
    # No group could be held out.
    runs = held_out(folds, "traffic", target) or own_errors(fitted, target)
    together = [[run for group in runs for run in group]]
    if before is None:
        return _described(fitted, target, together, error_quantiles(together))
    quantiles = no_narrower(together, before.quantiles)
    behind: inputs.ErrorSpread | None = before
    if quantiles is not None:
        # If fit and base have the same interval width up to rounding, the 80% interval is attributed to the base.
        low, high = inputs.LEVELS.index(0.1), inputs.LEVELS.index(0.9)
        widths = (levels[high] - levels[low] for levels in (before.quantiles, quantiles))
        behind = before if math.isclose(*widths, abs_tol=3e-4) else None
    return _described(fitted, target, together, quantiles, behind)


def _described(
    fitted: Fit,
    target: int,
    groups: Groups,
    quantiles: tuple[float, ...] | None,
    behind: inputs.ErrorSpread | None = None,
    covered: float = math.nan,
) -> dict[str, Any]:
    """Error spread of a target as plain data.

    If the interval comes mostly from the parent profile, the numbers of measurements also come from the parent profile.
    """
    count = int(np.isfinite(fitted.errors[:, target]).sum())
    if quantiles is None or (count < _ENOUGH and len(fitted.targets) > 1):
        return {}
    errors, kept = joined(groups), without_misfits(groups)
    rows, parts = (count, len(kept)) if behind is None else (behind.rows, behind.groups)
    spread = {
        "rows": rows,
        "own": None if behind is None else count,
        "groups": parts,
        "misfits": errors.size - joined(kept).size or None,
        "median": round(float(np.median(np.abs(errors))), 4),
        "p90": round(float(np.quantile(np.abs(errors), 0.9)), 4),
        "covered": round(covered, 3) if math.isfinite(covered) else None,
        "quantiles": list(quantiles),
    }
    return {name: value for name, value in spread.items() if value is not None}


def _rounded(fitted: Fit, errors: Array, statistic: Callable[[Array], Any]) -> dict[str, float]:
    """Statistic of the absolute errors of each measured target [1]."""
    columns = zip(fitted.targets, np.abs(errors).T, strict=True)
    return {target: round(float(statistic(column)), 3) for target, column in columns if np.isfinite(column).any()}


def _left_out(fitted: Fit, folds: Mapping[inputs.Unlike, Sequence[Fold]]) -> list[dict[str, Any]]:
    """Errors of each left-out group."""
    kinds: tuple[inputs.Unlike, ...] = ("hardware", "model", "subject")
    return [
        {"by": fold.by, "name": fold.left_out, "rows": len(fold.rows), "medians": medians}
        for fold in (fold for by in kinds for fold in folds.get(by, ()))
        if (medians := _rounded(fitted, fold.errors, np.nanmedian))
    ]


def _unseen(fitted: Fit, folds: Mapping[inputs.Unlike, Sequence[Fold]]) -> list[dict[str, Any]]:
    """Errors by engine and chip generation, for fits without any measurement of the predicted model on its chip."""
    errors: dict[tuple[str, str], list[Array]] = {}
    for fold in folds.get("subject", ()):
        first = fold.rows[0]
        generation = profiles.generation_of(inputs.catalog.hardware(first.hardware))
        if first.engine and generation:
            errors.setdefault((first.engine, generation), []).append(fold.errors)
    entries = []
    for (engine, generation), parts in sorted(errors.items(), key=lambda item: item[0]):
        sizes = np.concatenate(parts)
        medians = _rounded(fitted, sizes, np.nanmedian)
        p90s = _rounded(fitted, sizes, lambda column: np.nanquantile(column, 0.9))
        entry = {"engine": engine, "generation": generation, "rows": len(sizes), "medians": medians, "p90s": p90s}
        entries.append(entry)
    return entries
