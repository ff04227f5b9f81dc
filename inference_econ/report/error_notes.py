"""Notes on prediction errors: intervals, measurements of similar servers, and limits of the calibration data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from inference_econ import inputs
from inference_econ.engine import Instances, Interval
from inference_econ.records.deviations import known_errors, outside_of
from inference_econ.records.texts import words

#: Plural names of quantities.
_NAMES = words("quantities")
#: Smallest median error that is reported [1].
_BIAS = 0.05
#: Measurements that cross-validated fits leave out, by the part in which a query is outside the calibration data.
WITHOUT = words("left_out")


def error_remarks(subjects: Iterable[Instances], quantities: Sequence[inputs.Quantity] = ("tpot",)) -> list[str]:
    """Sentences on the prediction errors of a result.

    Parameters
    ----------
    subjects : iterable of Instances
        Deployments of the result, with labels if there are several.
    quantities : sequence of str
        Predicted quantities.

    Returns
    -------
    list of str
        First sentences: the interval of measured values, for each set of assumptions. Further sentences: reasons why
        deployments are outside the calibration data.
    """
    spreads: dict[str, list[str]] = {}
    reasons: dict[str, list[str]] = {}
    for instances in subjects:
        spreads.setdefault(interval_note(instances, quantities), []).append(instances.label)
        for text in extrapolations(instances):
            reasons.setdefault(text, []).append(instances.label)
    # Labels are redundant where all have the same errors.
    return [*(with_labels(spreads) if len(spreads) > 1 else spreads), *with_labels(reasons)]


def with_labels(texts: Mapping[str, Sequence[str]]) -> list[str]:
    """Sentences with the labels of the deployments that each of them describes."""
    return [f"{', '.join(dict.fromkeys(labels))}: {text}" if any(labels) else text for text, labels in texts.items()]


def interval_note(instances: Instances, quantities: Sequence[inputs.Quantity]) -> str:
    """Sentence on the interval of measured values around predictions.

    If the interval is unknown, the sentence reports that.
    """
    name, parts, without = assumptions_label(instances.setup.assumptions), list[str](), list[str]()
    for quantity, (likely, errors) in known_errors(instances, quantities).items():
        own, bias = errors.spread.own, errors.spread.bias
        rows = f"{errors.spread.rows:,}"
        rows = f"{rows} measurements" if own is None else f"{own:,} measurements, and {rows} of similar servers"
        if WITHOUT[errors.unlike] not in without:
            without.append(WITHOUT[errors.unlike])
        median = f", median {100 * math.expm1(bias):+.0f}%" if abs(bias) >= _BIAS else ""
        compared = "differ" if parts else f"differ from predictions by {name}"
        parts.append(f"80% of measured {_NAMES[quantity]} values {compared} by {percent(likely)}{median} ({rows}).")
    if not parts:
        return f"No interval: {name} was fitted to no measured server."
    *others, last = without
    excluded = " and ".join([*(each.partition(" of the ")[0] for each in others), last])
    return f"{' '.join(parts)} In cross-validation, each fit excluded {excluded}."


def assumptions_label(assumptions: inputs.Assumptions) -> str:
    """Name of the assumptions, marked if what-ifs changed them."""
    changed = any(source.kind == "what_if" for source in assumptions.sources.values())
    return f"{assumptions.name} with what-ifs" if changed else assumptions.name


def percent(interval: Interval) -> str:
    """Interval around 1 as two percentages: ``-19% to +22%``."""
    return f"{100 * (interval.low - 1):+z.0f}% to {100 * (interval.high - 1):+z.0f}%"


def extrapolations(instances: Instances) -> list[str]:
    """Sentences on outliers among the measurements, and on properties of instances outside the calibration data."""
    always, sometimes = outside_of(instances)
    of_servers = [*misfits(instances), *newer_release(instances)]
    if not always and not sometimes:
        return of_servers
    gaps = [*always, *([f"in some rows, {'; '.join(sometimes)}"] if sometimes else [])]
    name = instances.setup.assumptions.name
    text = f"The calibration data of {name} do not cover this query, so errors may be larger: {'; '.join(gaps[:3])}."
    more = f" Further differences: {'; '.join(gaps[3:])}." if gaps[3:] else ""
    return [*of_servers, text + more]


def newer_release(instances: Instances) -> list[str]:
    """Sentence on an engine release that is newer than all measured ones."""
    levels = instances.setup.levels
    if levels is None or not levels.ahead:
        return []
    return [f"The newest measured release of {levels.engine} is {levels.newest}. For newer ones, intervals are wider."]


def misfits(instances: Instances) -> list[str]:
    """Sentences on measurements of similar servers: those in the prediction, and those that differ much from it.

    Measurements of engines that were not requested are left out.
    """
    setup = instances.setup
    meant = {engine.name for engine in setup.engines}
    if _level(instances) is not None and setup.levels is not None:
        series = inputs.misfits_of(setup.model.name, setup.hardware.name)
        why = [
            f"Outliers among the runs of {misfit.engine}: {misfit.why}."
            for misfit in series
            if misfit.engine == setup.levels.engine
        ]
        return [" ".join([measurement_note(instances), *why])]
    return [
        f"Measured TPOT is {misfit.factor:g}x the prediction in {misfit.rows} runs of {setup.model.name} on "
        f"{setup.hardware.name} with {misfit.engine}. Likely reason: {misfit.why}."
        for misfit in inputs.misfits_of(setup.model.name, setup.hardware.name)
        if not meant or misfit.engine in meant
    ]


def measurement_note(instances: Instances) -> str:
    """Sentence on the measurements of similar servers that the prediction uses; empty without such measurements."""
    setup, level = instances.setup, _level(instances)
    if setup.levels is None or level is None:
        return ""
    levels, factors = setup.levels, f"decode {math.exp(level.decode):.3g}x, prefill {math.exp(level.prefill):.3g}x"
    measured = f"Step times are multiplied by measured factors: {factors}."
    if levels.widest is None:
        return f"{measured} They come from {levels.engine} with other models."
    runs = f"{measured} They come from {level.rows} runs of {setup.model.name} on {setup.hardware.name} with"
    if levels.version is not None:
        return f"{runs} {levels.engine} {levels.version}."
    others = ", ".join(
        f"{math.exp(version.decode):.3g}x in {version.version or 'unknown versions'}" for version in levels.versions
    )
    are = "factors are" if len(levels.versions) > 1 else "factor is"
    return f"{runs} other versions of {levels.engine}. The decode {are} {others}."


def _level(instances: Instances) -> inputs.MeasuredLevel | None:
    """Measured correction factor of the layout; for several layouts, of the serving mode."""
    levels, layouts = instances.setup.levels, instances.layouts
    if levels is None:
        return None
    return levels.served(speculates=instances.speculates).level(layouts[0] if len(layouts) == 1 else "")


def measurement_warnings(instances: Instances) -> list[str]:
    """Sentences on measurements of similar servers that change the prediction much, or that differ much from it."""
    if (level := _level(instances)) is not None and instances.setup.levels is not None:
        engine = instances.setup.levels.engine
        ways = " with speculation" if instances.speculates else ""
        factors = f"decode {math.exp(level.decode):.3g}x, prefill {math.exp(level.prefill):.3g}x"
        text = f"Step times of {engine}{ways} are multiplied by factors from {level.rows} measured runs: {factors}."
        return [text] if abs(level.decode) >= _BIAS else []
    setup, base = instances.setup, instances.setup.assumptions.extends
    levels = inputs.catalog.assumptions(base).levels if base in inputs.catalog.names("assumptions") else None
    if levels is None or levels.of(setup.model.name, setup.hardware.name) is None:
        return [text.rsplit(": ", 1)[0] + "." for text in misfits(instances)]
    return [
        f"With changed constants of {base}, step times exclude the measured factors of {levels.engine} with "
        f"{setup.model.name} on {setup.hardware.name}. Compare only results with changed constants."
    ]


def calibration_warnings(shown: Sequence[Instances]) -> list[str]:
    """Line on the instances with the least calibration data: the first reason, and the error of TPOT.

    Intervals already include this error. :func:`error_remarks` has all reasons.
    """
    unlike = []
    for instances in shown:
        always, errors = outside_of(instances)[0], known_errors(instances, ("tpot",))
        if always:
            # Distance of measured times per token from predictions at the wider end of their interval [1].
            likely = errors["tpot"][0] if "tpot" in errors else None
            unlike.append((math.inf if likely is None else max(likely.high, 1.0 / likely.low), instances, always))
    if not unlike:
        return []
    factor, instances, (first, *_) = max(unlike, key=itemgetter(0))
    far = f"TPOT may be off by {factor:.2g}x (80% interval)" if math.isfinite(factor) else "The TPOT error is unknown"
    which = (
        f"{instances.label.removeprefix('NVIDIA ')} has the least calibration data"
        if instances.label
        else "Outside the calibration data"
    )
    return [f"{which}: {first}. {far}."]
