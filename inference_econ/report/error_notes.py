"""Notes on prediction errors: intervals, measurements of similar servers, and what is outside the calibration data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from inference_econ import inputs
from inference_econ.engine import Instances, Interval
from inference_econ.engine.bounds import LEVEL
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
        The interval of measured values, per set of assumptions. Then the reasons why deployments are outside the
        calibration data.
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
    """Sentences, each after the labels of the deployments that it applies to."""
    return [f"{', '.join(labels)}: {text}" if any(labels) else text for text, labels in texts.items()]


def interval_note(instances: Instances, quantities: Sequence[inputs.Quantity]) -> str:
    """Sentence on the interval of measured values around predictions, or that it is unknown."""
    parts: list[str] = []
    without: list[str] = []
    for quantity, (likely, errors) in known_errors(instances, quantities).items():
        verb, beside = ("lie ", " around such predictions") if not parts else ("", "")
        own, bias = errors.spread.own, errors.spread.bias
        rows = f"{errors.spread.rows:,}"
        rows = f"{rows} rows" if own is None else f"{own:,} rows, interval mostly of the {rows} of its base"
        if WITHOUT[errors.unlike] not in without:
            without.append(WITHOUT[errors.unlike])
            rows += f", by fits without {without[-1]}"
        half = f", half of them beyond {100 * math.expm1(bias):+.0f} %" if abs(bias) >= _BIAS else ""
        parts.append(f"{_NAMES[quantity]} {verb}{percent(likely)}{beside}{half} ({rows})")
    name = assumptions_label(instances.setup.assumptions)
    if not parts:
        return f"No interval: {name} was fitted to no measured server."
    return f"{100 * LEVEL:.0f} % of measured {', of '.join(parts)}: {name}."


def assumptions_label(assumptions: inputs.Assumptions) -> str:
    """Name of assumptions, marked if what-ifs changed them."""
    changed = any(source.kind == "what_if" for source in assumptions.sources.values())
    return f"{assumptions.name} with what-ifs" if changed else assumptions.name


def percent(interval: Interval) -> str:
    """An interval around 1 as percentages."""
    return f"from {100 * (interval.low - 1):+z.0f} % to {100 * (interval.high - 1):+z.0f} %"


def extrapolations(instances: Instances) -> list[str]:
    """Sentences on outliers among the measurements, and on why instances are outside the calibration data."""
    always, sometimes = outside_of(instances)
    if not always and not sometimes:
        return misfits(instances)
    text = "; ".join([*always, *([f"among the rows, {'; '.join(sometimes)}"] if sometimes else [])])
    unlike = f"Unlike what {instances.setup.assumptions.name} was fitted to, so that errors may be larger: {text}."
    return [*misfits(instances), unlike]


def misfits(instances: Instances) -> list[str]:
    """Sentences on measurements of similar servers that the prediction includes, or that differ much from it.

    Measurements of engines that were not requested are left out.
    """
    setup = instances.setup
    meant = {engine.name for engine in setup.engines}
    if _level(instances) is not None and setup.levels is not None:
        series = inputs.misfits_of(setup.model.name, setup.hardware.name)
        why = [f"Of {misfit.engine}: {misfit.why}." for misfit in series if misfit.engine == setup.levels.engine]
        return [" ".join([measurement_note(instances), *why])]
    return [
        f"Measured servers of {misfit.engine} with {setup.model.name} on {setup.hardware.name} took {misfit.factor:g} "
        f"times the predicted time per token ({misfit.rows} rows): {misfit.why}."
        for misfit in inputs.misfits_of(setup.model.name, setup.hardware.name)
        if not meant or misfit.engine in meant
    ]


def measurement_note(instances: Instances) -> str:
    """Sentence on measurements of similar servers that the prediction includes; empty if there are none."""
    setup, level = instances.setup, _level(instances)
    if setup.levels is None or level is None:
        return ""
    levels, server = setup.levels, f"with {setup.model.name} on {setup.hardware.name}"
    # Measurements of the engine over all models.
    beside = " and ".join(
        f"{shared.rows} rows of {levels.engine} with proposed tokens (all models), "
        f"{math.exp(shared.decode):.3g} x per token"
        for shared in levels.served(speculates=instances.speculates).counted
    )
    if levels.widest is None:
        return f"Measured: {beside}; counted."
    counted = f"{math.exp(level.decode):.3g} x per token and {math.exp(level.prefill):.3g} x for prompts"
    if levels.version is not None:
        engine = f"{levels.engine} {levels.version}".strip()
        return f"Measured: {level.rows} rows of {engine} {server}, {counted}; counted{beside and f', with {beside}'}."
    others = ", ".join(
        f"{version.version or 'no version'} {math.exp(version.decode):.3g} x" for version in levels.versions
    )
    return (
        f"Measured: {level.rows} rows of {levels.engine} in other versions {server} ({others}); {counted} are "
        f"counted of them for this one{beside and f', with {beside}'}."
    )


def _level(instances: Instances) -> inputs.MeasuredLevel | None:
    """Measured correction factor of the layout, or of the serving mode if there are several layouts."""
    levels, layouts = instances.setup.levels, instances.layouts
    if levels is None:
        return None
    return levels.served(speculates=instances.speculates).level(layouts[0] if len(layouts) == 1 else "")


def measurement_warnings(instances: Instances) -> list[str]:
    """Sentences on measurements of similar servers that change the prediction much, or differ much from it."""
    if (level := _level(instances)) is not None:
        return [measurement_note(instances)] if abs(level.decode) >= _BIAS else []
    setup, base = instances.setup, instances.setup.assumptions.extends
    levels = inputs.catalog.assumptions(base).levels if base in inputs.catalog.names("assumptions") else None
    if levels is None or levels.of(setup.model.name, setup.hardware.name) is None:
        return [text.rsplit(": ", 1)[0] + "." for text in misfits(instances)]
    return [
        f"Constants of {base} are changed: what was measured of {levels.engine} with {setup.model.name} on "
        f"{setup.hardware.name} beside them is not counted, so compare only with answers under changed constants."
    ]


def calibration_warnings(shown: Sequence[Instances]) -> list[str]:
    """Warning on the instances with the least calibration data: inputs outside it, and the error of the TPOT.

    Intervals include that error. :func:`error_remarks` reports inputs that are outside the calibration data in some
    rows only.
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
    factor, instances, (first, *more) = max(unlike, key=itemgetter(0))
    others = f", and {len(more)} more" if more else ""
    factor_text = f"times per token lie within a factor of {factor:.2g} ({100 * LEVEL:.0f} %)"
    far = factor_text if math.isfinite(factor) else "nobody knows how far off times per token are"
    which = f"{instances.label}, the least measured of these" if instances.label else "Unlike the measured servers"
    return [f"{which}: {first}{others}; {far}."]
