"""Notes on prediction errors: intervals, measurements of similar servers, and queries outside the calibration data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from inference_econ import inputs
from inference_econ.engine import Instances
from inference_econ.records.deviations import known_errors, outside_of
from inference_econ.records.texts import words

#: Plural names of quantities.
_NAMES = words("quantities")
#: Smallest median error that is reported [1].
_BIAS = 0.05
#: Text for the measurements that a cross-validated fit excluded, by the property that the query has in common with
#: them.
WITHOUT = words("left_out")


def error_remarks(subjects: Iterable[Instances], quantities: Sequence[inputs.Quantity] = ("tpot",)) -> list[str]:
    """Sentences on the prediction errors of a result.

    Parameters
    ----------
    subjects : iterable of Instances
        Deployments of the result. If the result has several, they have labels.
    quantities : sequence of str
        Predicted quantities.

    Returns
    -------
    list of str
        Interval of measured values for each set of assumptions, then reasons why deployments are outside the
        calibration data.
    """
    spreads: dict[str, list[str]] = {}
    reasons: dict[str, list[str]] = {}
    for instances in subjects:
        spreads.setdefault(interval_note(instances, quantities), []).append(instances.label)
        for text in extrapolations(instances):
            reasons.setdefault(text, []).append(instances.label)
    # Labels are redundant if all deployments have the same errors.
    return [*(with_labels(spreads) if len(spreads) > 1 else spreads), *with_labels(reasons)]


def with_labels(texts: Mapping[str, Sequence[str]]) -> list[str]:
    """Put the labels of the deployments that a sentence describes before the sentence."""
    return [f"{', '.join(dict.fromkeys(labels))}: {text}" if any(labels) else text for text, labels in texts.items()]


def interval_note(instances: Instances, quantities: Sequence[inputs.Quantity]) -> str:
    """Sentences on the interval of measured values around predictions, or on the reason why there is no interval."""
    name, parts, without = assumptions_label(instances.setup.assumptions), list[str](), list[str]()
    for quantity, (likely, errors) in known_errors(instances, quantities).items():
        own, bias = errors.spread.own, errors.spread.bias
        rows = f"{errors.spread.rows:,} measurements"
        rows = rows if own is None else f"{own:,} measurements and {rows} of similar servers"
        if WITHOUT[errors.unlike] not in without:
            without.append(WITHOUT[errors.unlike])
        median = f" (median {_offset(math.exp(bias))})" if abs(bias) >= _BIAS else ""
        ends = f"{_offset(likely.low)} to {_offset(likely.high)}"
        of_profile = "" if parts else f" of {name}"
        parts.append(f"In 80% of {rows}, {_NAMES[quantity]} is {ends} the prediction{of_profile}{median}.")
    if not parts:
        return f"The prediction has no interval, because {name} was fitted to no measured server."
    excluded = " or ".join(without)
    return f"{' '.join(parts)} Errors are cross-validated: each fit excluded all measurements with the same {excluded}."


def assumptions_label(assumptions: inputs.Assumptions) -> str:
    """Name of the assumptions, marked if what-ifs changed them."""
    changed = any(source.kind == "what_if" for source in assumptions.sources.values())
    return f"{assumptions.name} with what-ifs" if changed else assumptions.name


def _offset(factor: float) -> str:
    """Distance of a factor from 1 as text: ``19% below``."""
    return f"{100 * abs(factor - 1):.0f}% {'below' if factor < 1 else 'above'}"


def extrapolations(instances: Instances) -> list[str]:
    """Sentences on outliers among the measurements, and on how instances differ from the calibration data."""
    always, sometimes = outside_of(instances)
    of_servers = [*misfits(instances), *newer_release(instances)]
    if not always and not sometimes:
        return of_servers
    gaps = [*always, *([f"in some rows, {'; '.join(sometimes)}"] if sometimes else [])]
    name = instances.setup.assumptions.name
    text = f"Intervals are wider, because {name} has no similar measurements. Reasons: {'; '.join(gaps[:3])}."
    more = f" Further differences from the calibration data: {'; '.join(gaps[3:])}." if gaps[3:] else ""
    return [*of_servers, text + more]


def newer_release(instances: Instances) -> list[str]:
    """Sentence on an engine release that is newer than all measured releases; empty if there is none."""
    levels = instances.setup.levels
    if levels is None or not levels.ahead:
        return []
    return [f"Intervals are wider, because {levels.engine} {levels.newest} is the newest measured version."]


def misfits(instances: Instances) -> list[str]:
    """Sentences on measurements of the same model and GPU that correct the prediction, and on outliers.

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
    """Sentences on the measurements that correct the step times; empty without such measurements."""
    setup, level = instances.setup, _level(instances)
    if setup.levels is None or level is None:
        return ""
    levels, factors = setup.levels, f"decode {math.exp(level.decode):.3g}x, prefill {math.exp(level.prefill):.3g}x"
    measured = f"Measurements correct the predicted step times by these factors: {factors}."
    if levels.widest is None:
        return f"{measured} The factors come from runs of {levels.engine} with other models."
    runs = f"{measured} The factors come from {level.rows} runs of {setup.model.name} on {setup.hardware.name} with"
    if levels.version is not None:
        return f"{runs} {levels.engine} {levels.version}."
    others = ", ".join(
        f"{version.version or 'unknown version'} {math.exp(version.decode):.3g}x" for version in levels.versions
    )
    return f"{runs} other versions of {levels.engine}. The decode factors of these versions are {others}."


def _level(instances: Instances) -> inputs.MeasuredLevel | None:
    """Measured correction factor that applies to a single layout, or to the serving mode of several layouts."""
    levels, layouts = instances.setup.levels, instances.layouts
    if levels is None:
        return None
    return levels.served(speculates=instances.speculates).level(layouts[0] if len(layouts) == 1 else "")


def measurement_warnings(instances: Instances) -> list[str]:
    """Sentences on measurements that change the prediction much, or that the prediction does not use."""
    if (level := _level(instances)) is not None and instances.setup.levels is not None:
        engine = instances.setup.levels.engine
        ways = " with speculation" if instances.speculates else ""
        factors = f"decode {math.exp(level.decode):.3g}x, prefill {math.exp(level.prefill):.3g}x"
        text = f"{level.rows} measured runs of {engine}{ways} correct the predicted step times: {factors}."
        return [text] if abs(level.decode) >= _BIAS else []
    setup, base = instances.setup, instances.setup.assumptions.extends
    levels = inputs.catalog.assumptions(base).levels if base in inputs.catalog.names("assumptions") else None
    if levels is None or levels.of(setup.model.name, setup.hardware.name) is None:
        return [text.rsplit(": ", 1)[0] + "." for text in misfits(instances)]
    return [
        f"Constants of {base} were changed, so measured runs of {setup.model.name} on {setup.hardware.name} do not "
        "correct the step times. Compare only results with changed constants."
    ]


def calibration_warnings(shown: Sequence[Instances]) -> list[str]:
    """Warning on the instances outside the calibration data that have the widest TPOT interval, with one reason.

    :func:`error_remarks` has all reasons.
    """
    unlike = []
    for instances in shown:
        always, errors = outside_of(instances)[0], known_errors(instances, ("tpot",))
        if always:
            # Ratio of measured and predicted TPOT at the wider end of the interval [1].
            likely = errors["tpot"][0] if "tpot" in errors else None
            unlike.append((math.inf if likely is None else max(likely.high, 1.0 / likely.low), instances, always))
    if not unlike:
        return []
    factor, instances, (first, *_) = max(unlike, key=itemgetter(0))
    far = f"TPOT may be off by {factor:.2g}x (80% interval)" if math.isfinite(factor) else "The TPOT error is unknown"
    label = instances.label.removeprefix("NVIDIA ")
    which = f"{label} is outside the calibration data" if label else "Outside the calibration data"
    return [f"{which}: {first}. {far}."]
