"""A fit as a preset of assumptions: one YAML file with the measurements behind it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np

from inference_econ._types import Array
from inference_econ.calibration.fit import Fit
from inference_econ.calibration.holdout import KNOWN, NEW, Fold, coverage, error_quantiles, held_out, own_errors
from inference_econ.calibration.problem import CONSTANTS
from inference_econ.calibration.rows import calibration_behind, deployment_key
from inference_econ.calibration.subjects import instance_chips, requests_per_accelerator, subject_of
from inference_econ.engine.uncertainty import formats
from inference_econ.inputs import catalog
from inference_econ.inputs.assumptions import Assumptions, exceptions_of
from inference_econ.inputs.calibration import LEVELS, ErrorSpread, Quantity
from inference_econ.inputs.units import percent

#: How times are written, for the sake of readers: unit and seconds.
_TIMES = (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
#: Rows of a quantity that say how far off predictions are, at least [1].
_ENOUGH = 5
#: Groups of rows (of a chip, of a model) fewer than which say little about others [1].
_FEW = 3


def profile_text(
    found: Fit,
    folds: Mapping[str, Sequence[Fold]],
    *,
    name: str,
    extends: str,
    data: str,
    reference: str,
    date: str,
    changes: Iterable[str] = (),
    description: str = "",
) -> str:
    """The YAML file of a fit.

    Parameters
    ----------
    found : Fit
        Constants, and the rows behind them.
    folds : mapping
        Predictions of rows by fits to the others; see :func:`inference_econ.calibration.holdout.all_folds`.
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
    changes : iterable of str
        ``FIELD=VALUE`` that were set before the fit.
    description : str
        For people; by default which servers the constants were fitted to.

    Returns
    -------
    str
        A file that :func:`inference_econ.inputs.catalog.assumptions` reads.
    """
    where = f"fitted to {len(found.rows)} rows of {data}"
    lines = [f"extends: {extends}", f"name: {json.dumps(name)}"]
    lines.append(f"description: {json.dumps(description or _description(found, extends))}")
    pairs = [change.partition("=") for change in changes]
    settings = [(key.strip(), value.strip()) for key, _, value in pairs if key.strip() not in found.names]
    constants = [(name, _quantity(name, value)) for name, value in zip(found.names, found.values, strict=True)]
    lines += _nested([*settings, *constants, *_exceptions(found.base, found.names)])
    lines += _calibration(found, folds, date)
    lines.append("sources:")
    lines += [_source(key, reference, f"set before the fit: {key} = {value}", "assumed") for key, value in settings]
    for index, one in enumerate(found.names):
        doubt = f"; {found.unknown[index]}" if found.unknown[index] else ""
        text = f"fitted with the others, see calibration; standard error {percent(found.log_errors[index])}{doubt}"
        lines.append(_source(one, reference, text, "derived"))
    lines.append(
        _source("calibration", reference, f"{where}: their range, and errors of fits that left some out", "derived")
    )
    return "\n".join(lines) + "\n"


def _description(found: Fit, extends: str) -> str:
    engines, chips = ({row.engine or "unknown" for row in found.rows}, {row.hardware for row in found.rows})
    who, where = (", ".join(sorted(names)) for names in (engines, chips))
    return f"{extends} with constants fitted to {len(found.rows)} rows of servers: {who} on {where}."


def _quantity(name: str, value: float) -> str:
    if CONSTANTS[name].unit != "s":
        return f"{value:.4g}"
    unit, size = next((one for one in _TIMES if value >= one[1]), _TIMES[-1])
    return f"{value / size:.4g} {unit}"


def _exceptions(base: Assumptions, names: Sequence[str]) -> list[tuple[str, str]]:
    """Families whose own value would hide a fitted one, and that they have none."""
    return [
        (f"per_family.{family}.{name}", "null")
        for family in base.per_family
        for name in exceptions_of(base, family)
        if name in names
    ]


def _nested(settings: Iterable[tuple[str, str]], indent: str = "") -> list[str]:
    """Lines of YAML for values by their dotted names."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, value in settings:
        group, _, field = name.partition(".")
        groups.setdefault(group, []).append((field, value))
    lines = []
    for group, fields in groups.items():
        values = [value for field, value in fields if not field]
        lines += (
            [f"{indent}{group}: {values[-1]}"] if values else [f"{indent}{group}:", *_nested(fields, f"{indent}  ")]
        )
    return lines


def _calibration(found: Fit, folds: Mapping[str, Sequence[Fold]], date: str) -> list[str]:
    rows = found.rows
    specs = [catalog.model(row.model) for row in rows]
    chips = [catalog.hardware(row.hardware) for row in rows]
    ranges: dict[str, list[float | None]] = {
        "parameters": [float(spec.total_parameters) for spec in specs],
        "isl": [row.isl for row in rows],
        "osl": [row.osl for row in rows],
        "requests_per_accelerator": [requests_per_accelerator(row) for row in rows],
        "accelerators": [instance_chips(row) for row in rows],
    }
    names = {
        "engines": [row.engine or "unknown" for row in rows],
        "models": [row.model for row in rows],
        "hardware": [row.hardware for row in rows],
        "families": [chip.family for chip in chips],
        "weights": [formats(spec, row.weights) for spec, row in zip(specs, rows, strict=True)],
    }
    lines = ["calibration:", f"  date: {json.dumps(date)}", f"  rows: {len(rows)}"]
    lines += [f"  {key}: [{', '.join(sorted(set(values)))}]" for key, values in names.items()]
    lines += [f"  {key}: {_range(values)}" for key, values in ranges.items()]
    lines += ["  errors:", *_errors(found, folds)]
    lines += ["  measured_errors:", *known] if (known := _measured_errors(found, folds)) else []
    lines.append(f"  subjects: {_list(sorted(set(map(subject_of, rows))))}")
    left_out = _left_out(found, folds)
    lines += ["  left_out:", *left_out] if left_out else []
    unknown = [name for name, why in zip(found.names, found.unknown, strict=True) if why]
    lines += [f"  undetermined: {_list(unknown)}"] if unknown else []
    before = calibration_behind(found.base)
    keys = sorted({*map(deployment_key, rows), *(() if before is None else before.deployments.split())})
    return [*lines, f'  deployments: "{" ".join(keys)}"']


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(json.dumps(text, ensure_ascii=False) for text in texts)}]"


def _range(values: Iterable[float | None]) -> str:
    known = [value for value in values if value]
    low, high = (min(known), max(known)) if known else (1.0, 1.0)
    return f"{{low: {low:.4g}, high: {high:.4g}}}"


def _errors(found: Fit, folds: Mapping[str, Sequence[Fold]]) -> list[str]:
    """For what is new: chips and models left out; where they are few, no better than what the base knows."""
    lines, before = [], calibration_behind(found.base)
    for index, target in enumerate(found.targets):
        groups = held_out(folds, NEW, index)
        known = None if before is None else before.errors.get(cast("Quantity", target))
        if len(groups) >= _FEW or (groups and known is None):
            lines += _spread(target, groups, error_quantiles(groups), found, NEW.weight)
            continue
        groups = groups or held_out(folds, KNOWN, index) or own_errors(found, index)
        one = [np.concatenate(groups)] if groups else []
        quantiles = error_quantiles(one)
        wide = quantiles and _no_narrower(quantiles, known)
        behind = known if known is not None and wide and _same_interval(wide, known.quantiles) else None
        lines += _spread(target, one, wide, found, NEW.weight, behind)
    return lines


def _measured_errors(found: Fit, folds: Mapping[str, Sequence[Fold]]) -> list[str]:
    """For other traffic of what was measured."""
    lines = []
    for index, target in enumerate(found.targets):
        groups = held_out(folds, KNOWN, index) or own_errors(found, index)
        lines += _spread(target, groups, error_quantiles(groups, KNOWN.weight), found, KNOWN.weight)
    return lines


def _spread(
    target: str,
    groups: Sequence[Array],
    quantiles: tuple[float, ...] | None,
    found: Fit,
    weight: float,
    behind: ErrorSpread | None = None,
) -> list[str]:
    """What is known of a target; where its interval is that of the base, with the base's rows and groups."""
    count = int(np.isfinite(found.errors[:, found.targets.index(target)]).sum())
    if quantiles is None or (count < _ENOUGH and len(found.targets) > 1):
        return []
    share, sizes = coverage(groups, weight), np.abs(np.concatenate(groups))
    rows, parts = (count, len(groups)) if behind is None else (behind.rows, behind.groups)
    known = f"rows: {rows}" + (f", groups: {parts}" if parts else "")
    known += f", median: {np.median(sizes):.4f}, p90: {np.quantile(sizes, 0.9):.4f}"
    known += f", covered: {share:.3f}" if math.isfinite(share) else ""
    return [f"    {target}: {{{known}, quantiles: [{', '.join(f'{one:g}' for one in quantiles)}]}}"]


def _left_out(found: Fit, folds: Mapping[str, Sequence[Fold]]) -> list[str]:
    """How far off each group was without which the others were fitted."""
    lines = []
    for fold in (fold for by in ("hardware", "model", "subject") for fold in folds.get(by, ())):
        columns = {target: fold.errors[:, index] for index, target in enumerate(found.targets)}
        medians = {
            target: float(np.nanmedian(np.abs(one))) for target, one in columns.items() if np.isfinite(one).any()
        }
        if medians:
            texts = ", ".join(f"{target}: {value:.3f}" for target, value in medians.items())
            name, count = json.dumps(fold.left_out), len(fold.rows)
            lines.append(f"    - {{by: {fold.by}, name: {name}, rows: {count}, medians: {{{texts}}}}}")
    return lines


def _no_narrower(quantiles: tuple[float, ...], known: ErrorSpread | None) -> tuple[float, ...]:
    """What few groups say about others is no better than what was known before."""
    if known is None:
        return quantiles
    pairs = zip(LEVELS, quantiles, known.quantiles, strict=True)
    return tuple(mine if level == 0.5 else (min if level < 0.5 else max)(mine, other) for level, mine, other in pairs)


def _same_interval(quantiles: tuple[float, ...], others: Sequence[float]) -> bool:
    """Whether intervals of 80 % are the same."""
    return all(quantiles[LEVELS.index(level)] == others[LEVELS.index(level)] for level in (0.1, 0.9))


def _source(key: str, reference: str, where: str, kind: str) -> str:
    return f"  {key}: {{ref: {reference}, where: {json.dumps(where, ensure_ascii=False)}, kind: {kind}}}"
