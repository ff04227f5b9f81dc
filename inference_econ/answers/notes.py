"""Headings: what is counted, of which model on which chips, in which formats, for which requests, at which price."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from inference_econ import inputs
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.answers.explain import Explanation
from inference_econ.answers.slo import Targets
from inference_econ.engine import Instances, Interval, Setup, Speculation, pricing
from inference_econ.engine.bounds import LEVEL
from inference_econ.inputs import HardwareSpec, ModelSpec, Quantity, Requests, engines_for, known_engines, lacks, prices
from inference_econ.records.deviations import known_errors, outside_of
from inference_econ.records.texts import formats_label, words
from inference_econ.search import Frontier, Saving

if TYPE_CHECKING:
    from inference_econ.engine import SetupLevels

#: Of chips without a profile: kernels as good as the best elsewhere, and no host that is in their way.
BOUND = "a bound: fitted to no server with it"
#: What the two kinds of frontiers count.
SERVICES = "Services, prefill included"
DECODE_STEPS = "Decode steps alone, no prefill"
#: Names of unknown parts that are told [1].
_NAMED = 2


def heading(
    counted: str,
    setups: Iterable[Setup],
    lengths: Iterable[str],
    *,
    rate: float | None = None,
    promises: Iterable[Targets] = (),
    speculations: Iterable[Speculation | None] = (),
) -> str:
    """The heading of a table or picture, in one line.

    Parameters
    ----------
    counted : str
        What the numbers count.
    setups : iterable of Setup
        What, on what, how, at what price; several where they are compared.
    lengths : iterable of str
        Lengths of requests (:func:`lengths_label`), or the context of steps; what differs is said of each series.
    rate : float, optional
        Requests per second in all [1/s].
    promises : iterable of Targets
        What is promised.
    speculations : iterable of Speculation or None
        Who proposes tokens.

    Returns
    -------
    str
        ``Services, prefill included: Llama 3.1 8B on NVIDIA H100 at $2.95 per GPU-hour ...; weights bf16, ...``
    """
    shown = list(setups)
    labels = {"" if proposer is None else proposer.label for proposer in speculations}
    parts = (
        f"{counted}: {_listed(_named(setup.model) for setup in shown)} on {_listed(map(_priced, shown))}",
        _price_class(shown),
        _formats(shown),
        _common(lengths, "lengths"),
        "" if rate is None else f"{rate:.4g} requests/s",
        _common(map(promises_label, promises), "promises"),
        # Where they differ rows have recipes, if there is room for these; a heading says what all rows share.
        *(labels if len(labels) == 1 else ()),
    )
    return "; ".join(part for part in parts if part)


def frontiers_title(fronts: Sequence[ServiceFrontier | Frontier]) -> str:
    """Heading of a frontier, or of several: what is counted, model and chips, requests or context, in one line.

    If one is of services, of those alone.
    """
    services = [front for front in fronts if isinstance(front, ServiceFrontier)]
    if services:
        return heading(
            SERVICES,
            [setup for front in services for setup in front.setups],
            [lengths_label(front.requests) for front in services],
            promises=[front.promises for front in services],
            speculations=[front.candidates[number].speculation for front in services for number in front.shown],
        )
    setups = [front.setup for front in fronts]
    proposers = [front.speculation for front in fronts]
    return heading(DECODE_STEPS, setups, list(map(context_label, setups)), speculations=proposers)


def step_heading(explanation: Explanation) -> str:
    """Heading of a step: what is counted, model and chip, context, in one line."""
    phase = "decode" if explanation.prompt is None else "prefill"
    counted = f"One {phase} step on {explanation.accelerators:g} GPU{'s' if explanation.accelerators > 1 else ''}"
    return heading(counted, [explanation.setup], [_length(explanation)])


def _length(explanation: Explanation) -> str:
    """Words for the tokens that are cached before the step, and for those that a prompt adds."""
    spread = explanation.setup.spread
    context = context_label(explanation.setup, f" on average, of answers of {spread:g}" if spread else "")
    return context if explanation.prompt is None else f"{explanation.prompt:g} prompt tokens after {context} cached"


def context_label(setup: Setup, spread: str = "") -> str:
    """Words for the tokens that sequences have in the cache, all of them or by their share, and for their spread."""
    shared = f" ({setup.shared_prefix:g} in common)" if setup.shared_prefix else ""
    if not setup.contexts:
        return f"context {setup.context:g}{spread}{shared}"
    parts = [f"{100 * part:.3g} %" if part < 1.0 else f"{part:g}" for _, part in setup.contexts]
    mix = ", ".join(f"{part} of {length:g}" for part, (length, _) in zip(parts, setup.contexts, strict=True))
    return f"contexts {mix}{shared}"


def lengths_label(requests: Requests) -> str:
    """Lengths of requests, and what of a prompt is in the cache or in common with all others."""
    if requests.table is not None:
        cached = f", {requests.cached:.0f} of it cached" if requests.cached else ""
        means = f"{requests.isl.mean:.0f} input tokens{cached}, {requests.osl.mean:.0f} output tokens"
        return f"{requests.traffic} (mean {means})"
    cached = f", {requests.cached:g} of it cached" if requests.cached else ""
    shared = f", {requests.shared_prefix:g} in common" if requests.shared_prefix else ""
    return f"{requests.isl.text} input tokens{cached}{shared}, {requests.osl.text} output tokens"


def subject_label(setup: Setup) -> str:
    """A model on a chip."""
    return f"{setup.model.name} on {setup.hardware.name}"


def promises_label(promises: Targets) -> str:
    """Words for promises, and for the requests that see them; empty without promises."""
    if not promises.given:
        return ""
    common = promises.common
    milliseconds = {name: 1e3 * value for name, value in promises.given.items()}
    kept = [
        f"{'' if common else f'{promises.percentile_of(name)} '}{name.upper()} <= {round(value, 2) or value:.6g} ms"
        for name, value in milliseconds.items()
    ]
    surely = "" if promises.confidence is None else f" with a probability of {100 * promises.confidence:g} %"
    return f"{f'{common} ' if common else ''}{' and '.join(kept)}{surely}"


def _priced(setup: Setup) -> str:
    """A chip with its price, where it is known; and that nothing was fitted to servers with it."""
    chip = _named(setup.hardware)
    if setup.is_bound:
        chip = f"{chip} ({BOUND})"
    return chip if setup.price is None else f"{chip} at {pricing.price_label(setup.hardware, setup.hour_price)}"


def _price_class(setups: Iterable[Setup]) -> str:
    """Kind, seller and source that the prices of several chips share, where they do; empty of a single chip.

    A chip whose price is another where it stands alone is named with that.
    """
    chips = {setup.hardware.name: setup for setup in setups if setup.price is not None}
    priced = {name: setup.hour_price for name, setup in chips.items()}
    classes = {(price.label, price.seller) for price in priced.values() if price.seller}
    if len(priced) < 2 or len(classes) != 1 or not all(price.seller for price in priced.values()):
        return ""
    ((label, seller),) = classes
    sources = {price.ref for price in priced.values()}
    alike = f"prices alike: {label}" + ("" if label.startswith("TCO") else f", {seller}")
    alike += f", of one source ({sources.pop()})" if len(sources) == 1 else ""
    alone = ((name, prices.best(setup.hardware)) for name, setup in chips.items())
    others = [f"{name} ${best.dollars:g}" for name, best in alone if best and best.dollars != priced[name].dollars]
    return alike + (f" (alone: {', '.join(others)})" if others else "")


def _named(spec: HardwareSpec | ModelSpec) -> str:
    """A chip or a model, with what a what-if has changed; a file with changes of its own has a name of its own."""
    typed = [where for where in (source.where for source in spec.sources.values()) if where.startswith("--set ")]
    changes = dict.fromkeys(where.partition(".")[2] for where in typed)
    name = spec.name if isinstance(spec, HardwareSpec) else f"{spec.name}{unknown_label(spec)}"
    return f"{name} with {', '.join(changes)}" if changes else name


def unknown_label(model: ModelSpec) -> str:
    """Words for unknown blocks of a model and their share, or for unknown keys alone."""
    blocks = [part.name for part in sorted(model.unknown, key=lambda part: -part.parameters) if part.parameters]
    names = blocks or [part.name for part in model.unknown]
    if not names:
        return ""
    share = (
        f", {100 * model.parameter_parts()['unknown'] / model.total_parameters:.2g} % of parameters" if blocks else ""
    )
    kind = "unknown block" if blocks else "unknown"
    return f" ({kind}: {', '.join(names[:_NAMED])}{' ...' if len(names) > _NAMED else ''}{share})"


def formats_title(setup: Setup) -> str:
    """Number formats of weights, activations and cache."""
    return f"{_weights_title(setup)}, KV {setup.precision.kv}"


def _formats(setups: Sequence[Setup]) -> str:
    """Words for the formats that all setups have in common; caches may differ by recipe."""
    caches = dict.fromkeys(setup.precision.kv for setup in setups)
    weights = dict.fromkeys(_weights_title(setup) for setup in setups)
    if len(weights) > 1:
        return _common((formats_title(setup) for setup in setups), "formats")
    return f"{next(iter(weights))}, KV {' or '.join(caches)}"


def _weights_title(setup: Setup) -> str:
    return f"{formats_label(setup.precision)}, activations {setup.precision.activations}"


def _common(texts: Iterable[str], what: str) -> str:
    """Text that all have in common, or that it differs."""
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else f"{what} as in each row" if distinct else ""


def _listed(names: Iterable[str]) -> str:
    """Names, each once."""
    distinct = list(dict.fromkeys(names))
    return ", ".join([*distinct[:-2], " and ".join(distinct[-2:])])


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


#: A smaller share of the cost is not worth a word [1].
_NOTICED = 0.01


def saving_note(saving: Saving | None) -> list[str]:
    """Sentence on the savings of any layout over those that can be started; none where that was not asked."""
    if saving is None:
        return []
    if saving.share < _NOTICED:
        return ["At no speed is an unrestricted layout more than 1 % cheaper than one that can be started."]
    return [
        f"An unrestricted layout is up to {100 * saving.share:.0f} % cheaper than one that can be started (at "
        f"{saving.tokens_per_second:.3g} tokens/s per user)."
    ]


def doubts(setups: Sequence[Setup], subjects: Iterable[Instances]) -> list[str]:
    """Warnings on a table: layouts that cannot be started, and numbers that can be doubted."""
    return [*cannot_start(setups), *warnings(subjects)]


def grounds(
    setups: Iterable[Setup], subjects: Iterable[Instances], quantities: Sequence[Quantity] = ("tpot",)
) -> list[str]:
    """Notes on the basis of a table: who can start what is shown, and how far off predictions are."""
    return [*startable_notes(setups), *remarks(subjects, quantities)]


def startable_notes(setups: Iterable[Setup]) -> list[str]:
    """Remarks on who can start what is shown, or on why nobody is asked; one per kind of chip."""
    return list(dict.fromkeys(note for setup in setups for note in _notes(setup)))


def cannot_start(setups: Sequence[Setup]) -> list[str]:
    """Engines and pools that were left out, and chips on which no known engine can start it; in sentences."""
    left_out = dict.fromkeys(reason for setup in setups for reason in setup.left_out)
    chips = dict.fromkeys(setup.hardware.name for setup in setups if _is_startable_by_none(setup))
    nobody = [f"No known engine can start it on {', '.join(chips)}: any layout is shown."] if chips else []
    return [*(f"Left out: {reason}." for reason in left_out), *nobody]


def is_bound(setup: Setup) -> bool:
    """Return whether nothing is known to be as good: it was fitted to no server, or no known engine can start it."""
    return setup.is_bound or _is_startable_by_none(setup)


def _is_startable_by_none(setup: Setup) -> bool:
    """Return whether no engine is known for a model on a chip, where any is asked for."""
    idle = setup.assumptions.layout.attention_groups == "idle"
    return not setup.engines and not idle and not engines_for(setup.model, setup.hardware, setup.precision)


def _notes(setup: Setup) -> list[str]:
    """Nothing where attention ranks idle: the published study means no engine."""
    if setup.engines:
        *others, last = [engine.label for engine in setup.engines]
        return [f"Layouts are those that {', '.join(others)}{' or ' if others else ''}{last} can start."]
    if setup.assumptions.layout.attention_groups == "idle":
        return []
    if engines_for(setup.model, setup.hardware, setup.precision):
        return ["Any layout: some can be started by no engine that is known."]
    reasons = [lacks(engine, setup.model, setup.hardware, setup.precision) for engine in known_engines()]
    return [f"No known engine can start it ({reasons[-1]}), so any layout is shown."]
