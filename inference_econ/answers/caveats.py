"""Errors of what is shown in words: remarks below tables, and records of calibrations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from inference_econ import inputs
from inference_econ.engine import Instances, Interval
from inference_econ.engine.bounds import LEVEL
from inference_econ.records.deviations import known_errors, outside_of
from inference_econ.records.texts import words

if TYPE_CHECKING:
    from inference_econ.engine import Setup, SetupLevels

#: What quantities are called when there are several.
_NAMES = words("quantities")

#: What is said of a model whose configuration leaves keys out.
LEFT_OUT = "{}: its config.json leaves out, and defaults of the published class or model are counted: {}."
#: Errors in the middle from which on they are told [1].
_BIAS = 0.05
#: What fits have not seen of the rows whose errors speak for a question, by what the question is unlike in.
WITHOUT = words("left_out")


def remarks(subjects: Iterable[Instances], quantities: Sequence[inputs.Quantity] = ("tpot",)) -> list[str]:
    """Sentences on the errors of what is shown, which a reader must know.

    Parameters
    ----------
    subjects : iterable of Instances
        What an answer shows; several with their labels.
    quantities : sequence of str
        What is predicted.

    Returns
    -------
    list of str
        For each set of assumptions where measured values lie around its predictions, or that nobody knows; and for
        each question that is unlike the measurements, why.
    """
    spreads: dict[str, list[str]] = {}
    reasons: dict[str, list[str]] = {}
    for instances in subjects:
        spreads.setdefault(spread(instances, quantities), []).append(instances.label)
        for text in extrapolations(instances):
            reasons.setdefault(text, []).append(instances.label)
    # Where all have the same errors, they need not be listed.
    labelled = _labelled(spreads) if len(spreads) > 1 else list(spreads)
    return [*labelled, *_labelled(reasons)]


def warnings(subjects: Iterable[Instances]) -> list[str]:
    """Warnings in short: servers like these that do worse, where they are unlike the measured ones, doubtful prices."""
    worse: dict[str, list[str]] = {}
    shown = list(subjects)
    for instances in shown:
        for text in _worse(instances):
            worse.setdefault(text, []).append(instances.label)
    setups = [instances.setup for instances in shown]
    notes = (_too_long(shown), _unlike(shown), _left_out(setups), generation_remarks(setups), price_remarks(setups))
    return [*_labelled(worse), *itertools.chain(*notes)]


def _too_long(subjects: Iterable[Instances]) -> list[str]:
    """Sentences on models that were not made for such long requests."""
    texts: dict[str, str] = {}
    for instances in subjects:
        model, tokens = instances.setup.model, (instances.isl or 0.0) + (instances.osl or 0.0)
        most = model.max_context
        if most is not None and tokens > most:
            texts[model.name] = f"{model.name} was made for {most:,} tokens at most; these requests have {tokens:,.0f}."
    return list(texts.values())


def _left_out(setups: Iterable[Setup]) -> list[str]:
    """Sizes that the configurations of models leave out; flags are for biases, which change little."""
    models = {setup.model.name: setup.model for setup in setups}
    sizes = {
        name: [key for key in model.left_out if not key.endswith((" true", " false"))] for name, model in models.items()
    }
    return [LEFT_OUT.format(name, ", ".join(keys)) for name, keys in sizes.items() if keys]


def _worse(instances: Instances) -> list[str]:
    """Sentences on the errors of measured servers like these, or on what is counted of them, if it is much."""
    if (level := _level(instances)) is not None:
        return [measured(instances)] if abs(level.decode) >= _BIAS else []
    if (lost := _uncounted(instances.setup)) is not None:
        return [lost]
    return [text.rsplit(": ", 1)[0] + "." for text in misfits(instances)]


def _uncounted(setup: Setup) -> str | None:
    """Sentence on changed constants: what was measured over those of their profile is no longer counted."""
    base = setup.assumptions.extends
    levels = inputs.catalog.assumptions(base).levels if base in inputs.catalog.names("assumptions") else None
    if levels is None or levels.of(setup.model.name, setup.hardware.name) is None:
        return None
    return (
        f"Constants of {base} are changed: what was measured of {levels.engine} with {setup.model.name} on "
        f"{setup.hardware.name} beside them is not counted, so compare only with answers under changed constants."
    )


def _level(instances: Instances) -> inputs.MeasuredLevel | None:
    """Level that multiplies the steps of some instances: that of their layout, or of several that of their way."""
    levels = instances.setup.levels
    if levels is None:
        return None
    return levels.served(speculates=instances.speculates).level(
        instances.layouts[0] if len(instances.layouts) == 1 else ""
    )


def measured(instances: Instances) -> str:
    """Sentence on what was measured of servers like these, and that it is counted; empty if nothing was."""
    setup, level = instances.setup, _level(instances)
    if setup.levels is None or level is None:
        return ""
    levels, server = setup.levels, f"with {setup.model.name} on {setup.hardware.name}"
    beside = _shared(levels.served(speculates=instances.speculates))
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


def _shared(levels: SetupLevels) -> str:
    """Words for measurements of an engine with all models."""
    texts = [
        f"{level.rows} rows of {levels.engine} with proposed tokens (all models), "
        f"{math.exp(level.decode):.3g} x per token"
        for level in levels.counted
    ]
    return " and ".join(texts)


def _unlike(shown: Sequence[Instances]) -> list[str]:
    """Line on the least measured of some instances: where they are unlike, and how far off times per token may be.

    Intervals count it already. What only some rows are unlike in stands among the remarks.
    """
    unlike = [(instances, always) for instances in shown if (always := outside_of(instances)[0])]
    if not unlike:
        return []
    (instances, (first, *more)), factor = max(((pair, _factor(pair[0])) for pair in unlike), key=itemgetter(1))
    others = f", and {len(more)} more" if more else ""
    factor_text = f"times per token lie within a factor of {factor:.2g} ({100 * LEVEL:.0f} %)"
    far = factor_text if math.isfinite(factor) else "nobody knows how far off times per token are"
    which = f"{instances.label}, the least measured of these" if instances.label else "Unlike the measured servers"
    return [f"{which}: {first}{others}; {far}."]


def _factor(instances: Instances) -> float:
    """Distance of measured times per token from predictions at the wider end of their interval [1]."""
    errors = known_errors(instances, ("tpot",))
    if "tpot" not in errors:
        return math.inf
    likely, _ = errors["tpot"]
    return max(likely.high, 1.0 / likely.low)


def generation_remarks(setups: Iterable[Setup]) -> list[str]:
    """Return what chips lack whose generation no profile was fitted to: a line per generation, with what to do.

    And engines without a profile: a line each.
    """
    chips: dict[str, list[str]] = {}
    setups = list(setups)
    for setup in setups:
        if setup.is_bound:
            names = chips.setdefault(setup.hardware.generation, [])
            names += [setup.hardware.name] if setup.hardware.name not in names else []
    unfitted = {
        f"{engine.name}: no server of it was measured, so {setup.assumptions.name} stands in for a profile of its own."
        for setup in setups
        for engine in setup.engines
        if not inputs.profiles.is_fitted_to(engine.name)
        and setup.assumptions.name == inputs.profiles.name_for(setup.hardware.generation, engine.name)
    }
    return [*(_lacking(", ".join(names), generation) for generation, names in chips.items()), *sorted(unfitted)]


def _lacking(chips: str, generation: str) -> str:
    engines = ", ".join(engine.name for engine in inputs.run_on(generation)) or "no engine"
    profile = inputs.profiles.name_for(generation)
    return (
        f"{chips}: no profile is fitted to the generation {generation}, so {profile} stands in "
        f"for one, and known to start on it: {engines}. A chip like another generation can say so in its file: "
        f"{', '.join(inputs.profiles.generations_fitted())}."
    )


def price_remarks(setups: Iterable[Setup]) -> list[str]:
    """Sentences on listed prices: that kinds or sellers differ, and which of them can be doubted."""
    hours = {setup.hardware.name: setup.hour_price for setup in setups if setup.price is not None}
    listed = {chip: price for chip, price in hours.items() if price.kind != inputs.prices.GIVEN}
    doubtful = [f"{chip} (${price.dollars:.4g}, {price.doubt})" for chip, price in listed.items() if price.doubt]
    remarks = []
    # A chip of somebody's own often does not say who sells it.
    sellers = {price.seller for price in listed.values() if price.seller}
    if len({price.label for price in listed.values()}) > 1 or len(sellers) > 1:
        kinds = ", ".join(
            f"{chip} {' '.join(filter(None, (price.label, price.seller)))}" for chip, price in listed.items()
        )
        remarks.append(
            f"Prices are of different kinds or sellers: {kinds}. --price takes KIND, KIND:SELLER or HARDWARE=USD."
        )
    if doubtful:
        remarks.append(f"Prices that can be doubted: {', '.join(doubtful)}. Give today's with --price.")
    return remarks


def misfits(instances: Instances) -> list[str]:
    """Sentences on measurements of servers like these: that they are counted, or how far they are from predictions.

    Nothing of other engines than is meant.
    """
    setup = instances.setup
    meant = {engine.name for engine in setup.engines}
    if _level(instances) is not None and setup.levels is not None:
        series = inputs.misfits_of(setup.model.name, setup.hardware.name)
        why = [f"Of {misfit.engine}: {misfit.why}." for misfit in series if misfit.engine == setup.levels.engine]
        return [" ".join([measured(instances), *why])]
    return [
        f"Measured servers of {misfit.engine} with {setup.model.name} on {setup.hardware.name} took {misfit.factor:g} "
        f"times the predicted time per token ({misfit.rows} rows): {misfit.why}."
        for misfit in inputs.misfits_of(setup.model.name, setup.hardware.name)
        if not meant or misfit.engine in meant
    ]


def _labelled(texts: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"{', '.join(labels)}: {text}" if any(labels) else text for text, labels in texts.items()]


def spread(instances: Instances, quantities: Sequence[inputs.Quantity]) -> str:
    """Sentence on the interval of measured values around predictions, or that nobody knows it."""
    parts: list[str] = []
    without: list[str] = []
    for quantity, (likely, errors) in known_errors(instances, quantities).items():
        verb, beside = ("lie ", " around such predictions") if not parts else ("", "")
        rows = _rows(errors.spread)
        if WITHOUT[errors.unlike] not in without:
            without.append(WITHOUT[errors.unlike])
            rows += f", by fits without {without[-1]}"
        parts.append(f"{_NAMES[quantity]} {verb}{percent(likely)}{beside}{_bias(errors.spread)} ({rows})")
    name = name_of(instances.setup.assumptions)
    if not parts:
        return f"No interval: {name} was fitted to no measured server."
    return f"{100 * LEVEL:.0f} % of measured {', of '.join(parts)}: {name}."


def _bias(errors: inputs.ErrorSpread) -> str:
    """Words for the bias of half of the measured values, where that is worth a word."""
    return f", half of them beyond {100 * math.expm1(errors.bias):+.0f} %" if abs(errors.bias) >= _BIAS else ""


def _rows(errors: inputs.ErrorSpread) -> str:
    """Words for the number of measurements of a fit, and of its base where the interval is mostly that of the base."""
    if errors.own is None:
        return f"{errors.rows:,} rows"
    return f"{errors.own:,} rows, interval mostly of the {errors.rows:,} of its base"


def name_of(assumptions: inputs.Assumptions) -> str:
    """Name of assumptions, which says so where what-ifs changed them."""
    changed = any(source.kind == "what_if" for source in assumptions.sources.values())
    return f"{assumptions.name} with what-ifs" if changed else assumptions.name


def percent(interval: Interval) -> str:
    """An interval around 1 as percentages."""
    return f"from {100 * (interval.low - 1):+z.0f} % to {100 * (interval.high - 1):+z.0f} %"


def extrapolations(instances: Instances) -> list[str]:
    """Measurements that do not fit, and why instances are unlike those behind their assumptions; empty if neither."""
    always, sometimes = outside_of(instances)
    if not always and not sometimes:
        return misfits(instances)
    text = "; ".join([*always, *([f"among the rows, {'; '.join(sometimes)}"] if sometimes else [])])
    unlike = f"Unlike what {instances.setup.assumptions.name} was fitted to, so that errors may be larger: {text}."
    return [*misfits(instances), unlike]
