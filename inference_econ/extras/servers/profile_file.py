"""A fit as a preset of assumptions, with the measurements behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from inference_econ._types import Array
from inference_econ.engine import formats, has_experts
from inference_econ.extras.servers.accuracy import (
    calibration_behind,
    days_of,
    deployment_key,
    instance_chips,
    layout_of,
    requests_per_accelerator,
    subject_of,
    version_of,
)
from inference_econ.extras.servers.fit import (
    BASE_GROUPS,
    GROUPS,
    Fit,
    Fold,
    Groups,
    coverage,
    error_quantiles,
    held_out,
    joined,
    no_narrower,
    own_errors,
    without_misfits,
)
from inference_econ.extras.servers.measurements import Measurement
from inference_econ.extras.servers.problem import CONSTANTS
from inference_econ.inputs import (
    LEVELS,
    Assumptions,
    Axis,
    ErrorSpread,
    Quantity,
    Unlike,
    catalog,
    exceptions_of,
    parsed_value,
    percent,
)
from inference_econ.inputs.engine import profiles

#: How times are written, for the sake of readers: unit and seconds.
_TIMES = (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
#: Rows of a quantity that say how far off predictions are, at least [1].
_ENOUGH = 5


@dataclass(frozen=True, slots=True)
class Provenance:
    """Provenance that a profile states.

    Attributes
    ----------
    name : str
        For people.
    extends : str
        Preset that the fit began with.
    data : str
        What the rows are, for people.
    reference : str
        Key of ``references.bib``, or ``user``.
    date : str
        Of the fit.
    changes : tuple of str
        ``FIELD=VALUE`` that were set before the fit.
    description : str
        For people; if empty, which servers the constants were fitted to.
    """

    name: str
    extends: str
    data: str
    reference: str
    date: str
    changes: tuple[str, ...] = ()
    description: str = ""


def profile(fitted: Fit, folds: Mapping[Unlike, Sequence[Fold]], provenance: Provenance) -> dict[str, Any]:
    """A fit as a preset.

    Parameters
    ----------
    fitted : Fit
        Constants, and the rows behind them.
    folds : mapping
        Predictions of rows by fits to the others; see :func:`inference_econ.extras.servers.fit.all_folds`.
    provenance : Provenance
        Where it comes from.

    Returns
    -------
    dict
        Plain data; :func:`inference_econ.inputs.yaml_writing.yaml_text` makes a file of it that
        :func:`inference_econ.inputs.catalog.assumptions` reads.

    Raises
    ------
    SpecError
        If a change is no valid value.
    """
    pairs = [change.partition("=") for change in provenance.changes]
    settings = {key.strip(): value.strip() for key, _, value in pairs if key.strip() not in fitted.names}
    constants = {name: _quantity(name, value) for name, value in zip(fitted.names, fitted.values, strict=True)}
    values = {name: parsed_value(text, name) for name, text in settings.items()}
    # Record of the measurements, the errors of predictions, and what the rows do not determine.
    before = calibration_behind(fitted.base)
    deployments = {*map(deployment_key, fitted.rows), *(() if before is None else before.deployments.split())}
    days = days_of(fitted.rows)
    names = {
        "engines": [row.engine or "unknown" for row in fitted.rows],
        "models": [row.model for row in fitted.rows],
        "hardware": [row.hardware for row in fitted.rows],
        "families": [catalog.hardware(row.hardware).family for row in fitted.rows],
        "weights": [formats(catalog.model(row.model), row.weights) for row in fitted.rows],
    }
    parts = {
        "date": provenance.date,
        "rows": len(fitted.rows),
        "measured": {} if days is None else {"since": f"{days.since}", "until": f"{days.until}"},
        **{key: sorted(set(values)) for key, values in names.items()},
        **_ranges(fitted.rows),
        "errors": _errors(fitted, folds),
        "subjects": sorted(set(map(subject_of, fitted.rows))),
        "versions": sorted({version_of(row) for row in fitted.rows if row.engine_version}),
        "layouts": sorted(set(filter(None, map(layout_of, fitted.rows)))),
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
        **_nested({**values, **constants, **_exceptions(fitted.base, fitted.names)}),
        "calibration": {name: part for name, part in parts.items() if part or name not in optional},
        "sources": _sources(fitted, settings, provenance),
    }


def _quantity(name: str, value: float) -> float | str:
    """A constant with four digits, a time with its unit."""
    if CONSTANTS[name].unit != "s":
        return _four_digits(value)
    unit, size = next((unit for unit in _TIMES if value >= unit[1]), _TIMES[-1])
    return f"{value / size:.4g} {unit}"


def _four_digits(value: float) -> float:
    return float(f"{value:.4g}")


def _exceptions(base: Assumptions, names: Sequence[str]) -> dict[str, None]:
    """Families whose own value would hide a fitted one, and that they have none."""
    return {
        f"per_family.{family}.{name}": None
        for family in base.per_family
        for name in exceptions_of(base, family)
        if name in names
    }


def _nested(values: Mapping[str, object]) -> dict[str, Any]:
    """Mappings in mappings for values by their dotted names."""
    nested: dict[str, Any] = {}
    for name, value in values.items():
        *groups, field = name.split(".")
        place = nested
        for group in groups:
            place = place.setdefault(group, {})
        place[field] = value
    return nested


def _sources(fitted: Fit, settings: Mapping[str, str], provenance: Provenance) -> dict[str, dict[str, str]]:
    """Where every value comes from."""

    def source(where: str, kind: str) -> dict[str, str]:
        return {"ref": provenance.reference, "where": where, "kind": kind}

    errors = zip(fitted.names, fitted.log_errors, fitted.unknown, strict=True)
    rows = f"fitted to {len(fitted.rows)} rows of {provenance.data}"
    return {
        **{name: source(f"set before the fit: {name} = {text}", "assumed") for name, text in settings.items()},
        **{
            name: source(
                f"fitted with the others, see calibration; standard error {percent(error)}{doubt and f'; {doubt}'}",
                "derived",
            )
            for name, error, doubt in errors
        },
        "calibration": source(f"{rows}: their range, and errors of fits that left some out", "derived"),
    }


def parallel(rows: Sequence[Measurement]) -> dict[Axis, list[str]]:
    """Models whose instances were cut along each axis; without experts, groups are instances of their own."""
    models: dict[Axis, set[str]] = {"dp": set(), "pp": set(), "ep": set()}
    for row in rows:
        model = catalog.model(row.model)
        for axis, names in models.items():
            if (getattr(row, axis) or 1) > 1 and (axis == "pp" or has_experts(model)):
                names.add(model.name)
    return {axis: sorted(names) for axis, names in models.items()}


def _ranges(rows: Sequence[Measurement]) -> dict[str, dict[str, float]]:
    """From the least to the most that was measured."""
    values: dict[str, list[float | None]] = {
        "parameters": [float(catalog.model(row.model).total_parameters) for row in rows],
        "isl": [row.isl for row in rows],
        "osl": [row.osl for row in rows],
        "requests_per_accelerator": [requests_per_accelerator(row) for row in rows],
        "accelerators": [instance_chips(row) for row in rows],
    }
    measured = {key: [value for value in numbers if value] or [1.0] for key, numbers in values.items()}
    return {
        key: {"low": _four_digits(min(numbers)), "high": _four_digits(max(numbers))}
        for key, numbers in measured.items()
    }


def _errors(fitted: Fit, folds: Mapping[Unlike, Sequence[Fold]]) -> dict[str, dict[str, Any]]:
    """By what was left out and target; the fewer groups there are, the nearer to what the base knows."""
    before = calibration_behind(fitted.base)
    errors_by_kind: dict[Unlike, dict[Quantity, ErrorSpread]] = {} if before is None else before.errors
    errors = {
        by: {
            target: spread
            for index, target in enumerate(fitted.targets)
            if (spread := _spread(fitted, index, by, folds, errors_by_kind.get(by, {}).get(cast("Quantity", target))))
        }
        for by in GROUPS
    }
    return {by: spreads for by, spreads in errors.items() if spreads}


def _spread(
    fitted: Fit, target: int, by: Unlike, folds: Mapping[Unlike, Sequence[Fold]], before: ErrorSpread | None
) -> dict[str, Any]:
    """Errors of a target without what rows have in common; empty if nothing says how large they are."""
    groups, base = held_out(folds, by, target), None if before is None else before.quantiles
    if groups:
        few = len(without_misfits(groups)) < BASE_GROUPS
        share = coverage(groups, base)
        return _described(fitted, target, groups, error_quantiles(groups, base), before if few else None, share)
    if before is None and by != "traffic":
        return {}
    # Nothing could be left out.
    runs = held_out(folds, "traffic", target) or own_errors(fitted, target)
    together = [[run for group in runs for run in group]]
    if before is None:
        return _described(fitted, target, together, error_quantiles(together))
    quantiles = no_narrower(together, before.quantiles)
    behind: ErrorSpread | None = before
    if quantiles is not None:
        # The base has the interval of 80 % if it is as wide, but for digits that are not written.
        low, high = LEVELS.index(0.1), LEVELS.index(0.9)
        widths = (levels[high] - levels[low] for levels in (before.quantiles, quantiles))
        behind = before if math.isclose(*widths, abs_tol=3e-4) else None
    return _described(fitted, target, together, quantiles, behind)


def _described(
    fitted: Fit,
    target: int,
    groups: Groups,
    quantiles: tuple[float, ...] | None,
    behind: ErrorSpread | None = None,
    covered: float = math.nan,
) -> dict[str, Any]:
    """Description of a target; where its interval is mostly that of the base, with the base's rows and groups."""
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


def _left_out(fitted: Fit, folds: Mapping[Unlike, Sequence[Fold]]) -> list[dict[str, Any]]:
    """Errors of each group without which the others were fitted."""
    groups = []
    for fold in (fold for by in ("hardware", "model", "subject") for fold in folds.get(by, ())):
        columns = {target: fold.errors[:, index] for index, target in enumerate(fitted.targets)}
        medians = {
            target: round(float(np.nanmedian(np.abs(errors))), 3)
            for target, errors in columns.items()
            if np.isfinite(errors).any()
        }
        if medians:
            groups.append({"by": fold.by, "name": fold.left_out, "rows": len(fold.rows), "medians": medians})
    return groups


def _unseen(fitted: Fit, folds: Mapping[Unlike, Sequence[Fold]]) -> list[dict[str, Any]]:
    """Errors by engine and generation of chips, of fits without the subject of each row."""
    errors: dict[tuple[str, str], list[Array]] = {}
    for fold in folds.get("subject", ()):
        first = fold.rows[0]
        generation = profiles.generation_of(catalog.hardware(first.hardware))
        if first.engine and generation:
            errors.setdefault((first.engine, generation), []).append(np.abs(fold.errors))
    entries = []
    for (engine, generation), parts in sorted(errors.items()):
        sizes = np.concatenate(parts)
        columns = {target: sizes[:, index] for index, target in enumerate(fitted.targets)}
        columns = {target: column for target, column in columns.items() if np.isfinite(column).any()}
        medians = {target: round(float(np.nanmedian(column)), 3) for target, column in columns.items()}
        p90s = {target: round(float(np.nanquantile(column, 0.9)), 3) for target, column in columns.items()}
        entry = {"engine": engine, "generation": generation, "rows": len(sizes), "medians": medians, "p90s": p90s}
        entries.append(entry)
    return entries
