"""Notes on prediction errors: intervals, measurements of similar servers, and queries outside the calibration data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
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
        Intervals of measured values, measured corrections, and reasons why deployments are outside the calibration
        data. Each sentence is listed once, with the labels of the deployments that it describes, unless it describes
        all of them.
    """
    shown = list(subjects)
    paragraphs: dict[tuple[str, ...], list[str]] = {}
    widened: dict[tuple[str, ...], list[str]] = {}
    for texts, grouped in (
        (lambda instances: [*interval_sentences(instances, quantities), *misfits(instances)], paragraphs),
        (wider_because, widened),
    ):
        for text, labels in _labels_of(shown, texts).items():
            grouped.setdefault(labels, []).append(text)
    for labels, reasons in widened.items():
        paragraphs.setdefault(labels, []).append(_widened(reasons))
    everyone = tuple(dict.fromkeys(instances.label for instances in shown))
    return [
        ("" if labels == everyone else f"{', '.join(labels)}: ") + " ".join(sentences)
        for labels, sentences in paragraphs.items()
    ]


def _labels_of(shown: Iterable[Instances], texts: Callable[[Instances], Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Labels of the deployments that each text describes, by text."""
    labels: dict[str, list[str]] = {}
    for instances in shown:
        for text in texts(instances):
            labels.setdefault(text, []).append(instances.label)
    return {text: tuple(dict.fromkeys(each)) for text, each in labels.items()}


def interval_note(instances: Instances, quantities: Sequence[inputs.Quantity]) -> str:
    """Sentences on the interval of measured values around predictions, or on its absence."""
    return " ".join(interval_sentences(instances, quantities))


def interval_sentences(instances: Instances, quantities: Sequence[inputs.Quantity]) -> list[str]:
    """Interval of measured values around predictions, and how it was validated; or the reason for its absence."""
    name, parts, without = assumptions_label(instances.setup.assumptions), list[str](), list[str]()
    for quantity, (likely, errors) in known_errors(instances, quantities).items():
        own, bias = errors.spread.own, errors.spread.bias
        rows = f"{errors.spread.rows:,} measurements"
        if own is not None:
            rows = f"the measurements ({own:,} of this profile, {errors.spread.rows:,} of similar servers)"
        if WITHOUT[errors.unlike] not in without:
            without.append(WITHOUT[errors.unlike])
        median = f" (median {_offset(math.exp(bias))})" if abs(bias) >= _BIAS else ""
        ends = f"{_offset(likely.low)} to {_offset(likely.high)}"
        of_profile = "" if parts else f" of {name}"
        parts.append(f"In 80% of {rows}, {_NAMES[quantity]} is {ends} the prediction{of_profile}{median}.")
    if not parts:
        return [f"The prediction has no interval, because {name} was fitted to no measured server."]
    excluded = ", or with the same ".join(without)
    return [
        " ".join(parts),
        f"Errors are cross-validated: each fit excluded all measurements with the same {excluded}.",
    ]


def assumptions_label(assumptions: inputs.Assumptions) -> str:
    """Name of the assumptions, marked if what-ifs changed them."""
    changed = any(source.kind == "what_if" for source in assumptions.sources.values())
    return f"{assumptions.name} with what-ifs" if changed else assumptions.name


def _offset(factor: float) -> str:
    """Distance of a factor from 1 as text: ``19% below``."""
    return f"{100 * abs(factor - 1):.0f}% {'below' if factor < 1 else 'above'}"


def extrapolations(instances: Instances) -> list[str]:
    """Sentences on measurements of the same model and GPU, and on properties outside the calibration data."""
    reasons = wider_because(instances)
    return [*misfits(instances), *([_widened(reasons)] if reasons else [])]


def wider_because(instances: Instances) -> list[str]:
    """Reasons why intervals are wider, as clauses: a newer release, and properties that were not measured."""
    always, sometimes = outside_of(instances)
    return [*newer_release(instances), *always, *(f"in some rows, {reason}" for reason in sometimes)]


def newer_release(instances: Instances) -> list[str]:
    """Clause on an engine release that is newer than all measured ones."""
    levels = instances.setup.levels
    if levels is None or not levels.ahead:
        return []
    return [f"{levels.engine} was measured only up to version {levels.newest}"]


def _widened(reasons: Iterable[str]) -> str:
    """Sentences on wider intervals, one for each reason."""
    return " ".join(
        f"Intervals are {'also ' if index else ''}wider, because {reason}." for index, reason in enumerate(reasons)
    )


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
    measured = f"Predicted step times include these correction factors from measurements: {factors}."
    if levels.widest is None:
        return f"{measured} These factors come from runs of {levels.engine} with other models."
    runs = f"{measured} These factors come from {level.rows} runs of {setup.model.name} on {setup.hardware.name} with"
    if levels.version is not None:
        return f"{runs} {levels.engine} {levels.version}."
    others = ", ".join(
        f"{math.exp(version.decode):.3g}x for {version.version or 'unknown versions'}" for version in levels.versions
    )
    return f"{runs} other versions of {levels.engine}. The decode factor is {others}."


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
        text = f"Predicted step times include correction factors from {level.rows} runs of {engine}{ways}: {factors}."
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
