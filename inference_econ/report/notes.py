"""Notes below tables: warnings, prediction errors, supported engines, and the basis of the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from inference_econ import inputs
from inference_econ.answers.layout_services import cpu_layers_advice, deployments
from inference_econ.engine import Instances, Pins, Setup, has_recipes, lacks_engine, memory
from inference_econ.inputs import BYTES_PER_ELEMENT, UNSCALED, Quantity, known_engines, lacks, practices_in
from inference_econ.records.deviations import known_errors, outside_of
from inference_econ.records.sources import setup_sources
from inference_econ.records.texts import words
from inference_econ.report.headings import basis_label, enumerated

if TYPE_CHECKING:
    from inference_econ.inputs.prices import HourPrice
    from inference_econ.search import Saving

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


def newer_release(instances: Instances) -> list[str]:
    """Clause on an engine release that is newer than all measured ones."""
    levels = instances.setup.levels
    if levels is None or not levels.ahead:
        return []
    return [f"{levels.engine} was measured only up to version {levels.newest}"]


def wider_because(instances: Instances) -> list[str]:
    """Reasons why intervals are wider, as clauses: a newer release, and properties that were not measured."""
    always, sometimes = outside_of(instances)
    return [*newer_release(instances), *always, *(f"in some rows, {reason}" for reason in sometimes)]


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
        series = inputs.misfits_of(setup.model.known_as, setup.hardware.name)
        why = [
            f"Outliers among the runs of {misfit.engine}: {misfit.why}."
            for misfit in series
            if misfit.engine == setup.levels.engine
        ]
        return [" ".join([measurement_note(instances), *why])]
    return [
        f"Measured TPOT is {misfit.factor:g}x the prediction in {misfit.rows} runs of {setup.model.known_as} on "
        f"{setup.hardware.name} with {misfit.engine}. Likely reason: {misfit.why}."
        for misfit in inputs.misfits_of(setup.model.known_as, setup.hardware.name)
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
    runs = (
        f"{measured} These factors come from {level.rows} runs of {setup.model.known_as} on {setup.hardware.name} with"
    )
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
        text = f"Predicted step times{ways} include correction factors from {level.rows} runs of {engine}: {factors}."
        return [text] if abs(level.decode) >= _BIAS else []
    setup, base = instances.setup, instances.setup.assumptions.extends
    levels = inputs.catalog.assumptions(base).levels if base in inputs.catalog.names("assumptions") else None
    if levels is None or levels.of(setup.model.known_as, setup.hardware.name) is None:
        return [text.rsplit(": ", 1)[0] + "." for text in misfits(instances)]
    return [
        f"Constants of {base} were changed, so measured runs of {setup.model.known_as} on {setup.hardware.name} do not "
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


#: Note on a model whose config.json lacks keys.
LEFT_OUT = "{}: config.json lacks these keys, so published defaults of its architecture apply: {}."
#: Smallest reported saving, as a share of the cost [1].
_NOTICED = 0.01


def doubts(setups: Sequence[Setup], subjects: Iterable[Instances]) -> list[str]:
    """Warnings below a table, on prices, doubtful numbers, left-out engines, and queries that no engine supports."""
    shown = list(subjects)
    unranked = unranked_remarks(instances.setup for instances in shown)
    return [*unranked, *no_engine(setups), *warnings(shown), *left_out(setups)]


def grounds(
    setups: Iterable[Setup], subjects: Iterable[Instances], quantities: Sequence[Quantity] = ("tpot",)
) -> list[str]:
    """Sentences on the basis of the numbers in a table: formats, prices, engines that support its rows, and errors."""
    shown = list(setups)
    labels = dict.fromkeys(map(basis_label, shown))
    return [*labels, *startable_notes(shown), *error_remarks(subjects, quantities)]


def warnings(subjects: Iterable[Instances]) -> list[str]:
    """Warnings on measured corrections, inputs outside the calibration data, and prices."""
    shown = list(subjects)
    measured = dict.fromkeys(text for instances in shown for text in measurement_warnings(instances))
    left_out, equal = dict[str, str](), dict[str, str]()
    for instances in shown:
        model = instances.setup.model
        if model.equal_remark:
            equal[model.name] = f"{model.equal_remark}."
        # Flags in config.json switch biases, which have little effect.
        if keys := [key for key in model.left_out if not key.endswith((" true", " false"))]:
            left_out[model.name] = LEFT_OUT.format(model.name, ", ".join(keys))
    setups = [instances.setup for instances in shown]
    return [
        *generation_remarks(setups),
        *price_remarks(setups),
        *calibration_warnings(shown),
        *measured,
        *left_out.values(),
        *equal.values(),
    ]


def generation_remarks(setups: Iterable[Setup]) -> list[str]:
    """Sentences on GPU generations and engines for which no assumptions were fitted to measurements, with advice."""
    chips: dict[str, list[str]] = {}
    setups = list(setups)
    for setup in setups:
        if setup.is_bound:
            names = chips.setdefault(setup.hardware.generation, [])
            names += [setup.hardware.name] if setup.hardware.name not in names else []
    unfitted = {
        f"{engine.name} is uncalibrated, because no server with it was measured. Results use {setup.assumptions.name}."
        for setup in setups
        for engine in setup.engines
        if not inputs.profiles.is_fitted_to(engine.name)
        and setup.assumptions.name == inputs.profiles.name_for(setup.hardware.generation, engine.name)
    }
    lacking, engines = [], []
    for generation, names in chips.items():
        known = ", ".join(engine.name for engine in inputs.run_on(generation)) or "none"
        lacking.append(
            f"{', '.join(names)} is uncalibrated, because no {generation} server was measured. Results are lower "
            f"bounds on cost and latency under {inputs.profiles.name_for(generation)}."
        )
        engines.append(
            f"Engines that support {generation}: {known}. If the GPU is similar to a measured generation, name that "
            f"generation in its file: {', '.join(inputs.profiles.generations_fitted())}."
        )
    return [*lacking, *sorted(unfitted), *engines]


def unused_drafts(subjects: Iterable[Instances]) -> list[str]:
    """Sentences on GPUs without an engine, and on models without a recipe for speculation on a GPU.

    The model has multi-token-prediction layers, or other GPUs in the result have a recipe with speculation.
    """
    shown = [instances for instances in subjects if has_recipes(instances.setup)]
    engines = {engine.name for instances in shown for engine in instances.setup.engines}
    speculating: dict[str, dict[str, None]] = {}
    for instances in shown:
        if instances.speculates:
            speculating.setdefault(instances.setup.model.name, {})[instances.setup.hardware.name] = None
    uncovered: dict[tuple[str, str], dict[str, None]] = {}
    without: dict[str, dict[str, None]] = {}
    for setup in (instances.setup for instances in shown if instances.setup.engines and not instances.speculates):
        model, hardware, precision = setup.model, setup.hardware, setup.precision
        by_engine = {name: practices_in(name, model, hardware, precision) for name in sorted(engines)}
        own = [practice for engine in setup.engines for practice in by_engine[engine.name]]
        proposing = any(practice.proposer for practices in by_engine.values() for practice in practices)
        if model.mtp_layers and not any(practice.source for practice in own):
            covered = {name for name, each in by_engine.items() if any(practice.source for practice in each)}
            others = f"{enumerated(sorted(engines - covered), 'or')} " if covered else ""
            uncovered.setdefault((model.name, others), {})[hardware.name] = None
        elif not proposing and model.name in speculating and hardware.name not in speculating[model.name]:
            without.setdefault(model.name, {})[hardware.name] = None
    return [
        *no_engine([instances.setup for instances in shown]),
        *(
            f"No {engine}recipe covers {name} on {enumerated(chips)}. Add --mtp to use its multi-token prediction."
            for (name, engine), chips in uncovered.items()
        ),
        *(
            f"{name} has a recipe with speculation on {enumerated(speculating[name])}, but not on {enumerated(chips)}. "
            "Add --no-speculation to compare without."
            for name, chips in without.items()
        ),
    ]


def omitted_drafts(setup: Setup) -> str:
    """Text on the speculation methods that recipes of the engines add, but a decode step excludes; may be empty."""
    if not has_recipes(setup):
        return ""
    methods = enumerated(
        f"{practice.proposer.upper()} {practice.draft_length}"
        for engine in setup.engines
        for practice in practices_in(engine.name, setup.model, setup.hardware, setup.precision)
        if practice.proposer is not None
    )
    return f", without speculation (recipes use {methods})" if methods else ""


def unranked_remarks(setups: Iterable[Setup], ranked: int | None = None) -> list[str]:
    """Sentence on GPUs that are not ranked, because their prices differ in kind; empty if all are of one kind.

    Parameters
    ----------
    setups : iterable of Setup
        Setups with the prices.
    ranked : int, optional
        Rank of the kind of price that ranked GPUs have (:attr:`inference_econ.inputs.prices.HourPrice.order`). By
        default, it is the first rank among the prices.
    """
    listed = _prices(setups)
    orders = [price.order for price in listed.values()]
    if len(set(orders)) < 2:
        return []
    ranked = min(orders) if ranked is None else ranked
    if orders.count(ranked) > 1:
        others = [f"{chip} ({price.label})" for chip, price in listed.items() if price.order != ranked]
        verb, reason = ("is", "its price differs") if len(others) == 1 else ("are", "their prices differ")
        return [
            f"{enumerated(others)} {verb} not ranked with the other GPUs, because {reason} in kind. Use one kind with "
            "--price alike."
        ]
    kinds = ", ".join(f"{chip} {price.label}" for chip, price in listed.items())
    return [
        f"These GPUs are not ranked, because their prices differ in kind ({kinds}). Use one kind with --price alike."
    ]


def _prices(setups: Iterable[Setup]) -> dict[str, HourPrice]:
    """Known prices of an accelerator-hour by GPU."""
    return {setup.hardware.name: setup.hour_price for setup in setups if setup.is_priced}


def price_remarks(setups: Iterable[Setup]) -> list[str]:
    """Sentences on unknown prices and uncertain prices."""
    setups = list(setups)
    listed = _prices(setups)
    unknown = sorted({setup.hardware.name for setup in setups} - {*listed})
    doubtful = [f"{chip} (${price.dollars:.4g}, {price.doubt})" for chip, price in listed.items() if price.doubt]
    remarks = [f"The price of {', '.join(unknown)} is unknown. Give one with --price."] if listed and unknown else []
    if doubtful:
        remarks.append(f"Uncertain prices: {', '.join(doubtful)}. Set today's price with --price.")
    return remarks


def startable_notes(setups: Iterable[Setup]) -> list[str]:
    """Notes on the engines that support the layouts, or on the reason why all layouts are listed."""
    shown = list(setups)
    engines = enumerated((engine.label for setup in shown for engine in setup.engines), "or")
    notes = [f"The table lists only layouts that {engines} supports."] if engines else []
    for setup in shown:
        if lacks_engine(setup):
            reason = lacks(known_engines()[-1], setup.model, setup.hardware, setup.precision)
            notes.append(f"All layouts are listed, because no known engine supports this query ({reason}).")
        # The published study has no engine.
        elif not setup.engines and setup.assumptions.layout.attention_groups != "idle":
            notes.append("All layouts are listed, including those that no known engine supports.")
    return list(dict.fromkeys(notes))


def no_engine(setups: Sequence[Setup]) -> list[str]:
    """Sentence on the GPUs for which no engine supports the query; empty if engines support it on all GPUs."""
    chips = dict.fromkeys(setup.hardware.name for setup in setups if lacks_engine(setup))
    if not chips:
        return []
    return [f"All layouts are listed, because no known engine supports this query on {', '.join(chips)}."]


def left_out(setups: Sequence[Setup]) -> list[str]:
    """Sentences on left-out engines and serving modes."""
    reasons = dict.fromkeys(reason for setup in setups for reason in setup.left_out)
    return [f"Left out: {reason}." for reason in reasons]


def saving_note(saving: Saving | None) -> list[str]:
    """Sentence on the cost that layouts without engine support would save; empty without this comparison."""
    if saving is None:
        return []
    if saving.share < _NOTICED:
        return ["Layouts that no engine supports would save at most 1%."]
    return [
        f"Layouts that no engine supports would save up to {100 * saving.share:.0f}% (at "
        f"{saving.tokens_per_second:.3g} tokens/s per user)."
    ]


def unit_notes(setup: Setup) -> list[str]:
    """Notes on formats without a compute unit on the GPU; mxfp4 on H100, for example, runs at 16-bit speed."""
    notes = []
    for dtype, name in {setup.precision.experts: "experts", setup.precision.weights: "weights"}.items():
        unit = setup.rates.unit(dtype)
        if BYTES_PER_ELEMENT[unit] > 1.5 * BYTES_PER_ELEMENT[dtype]:
            notes.append(f"The GPU multiplies {dtype} {name} at its {unit} speed.")
    return notes


def setup_warnings(setup: Setup) -> list[str]:
    """Warnings on the model and on what-ifs."""
    model, notes = setup.model, []
    longest = max((length for length, _ in setup.contexts), default=setup.context)
    if model.max_context is not None and longest > model.max_context:
        notes.append(f"The model supports at most {model.max_context:,} tokens of context.")
    wheres = (used.source.where for used in setup_sources(setup) if used.source.kind == "what_if")
    changed = dict.fromkeys(where for where in wheres if "assumptions.cpu." not in where)
    if changed:
        notes.append(f"Changed inputs: {', '.join(changed)}.")
    notes += cpu_notes(setup)
    if model.rumoured:
        notes.append("The architecture of this model is a rumor; its developer has not confirmed it.")
    return [*notes, *scale_notes([setup])]


def cpu_notes(setup: Setup) -> list[str]:
    """Note on layers that the CPU computes, with the host memory and the memory bandwidth that they need."""
    cpu = setup.assumptions.cpu
    if not cpu.layers:
        return []
    cache = setup.memory(deployments(setup, Pins(1, 1, 1))).cpu_kv_bytes.item()
    return [
        f"The CPU computes {cpu.layers} of {setup.model.layers} layers, which need "
        f"{memory.cpu_weight_bytes(setup) / 1e9:.3g} GB of host memory and {cache / 1e9:.2g} GB per request. Host "
        f"memory is assumed to deliver {100 * cpu.memory_efficiency:.0f} % of {cpu.memory_bandwidth / 1e9:g} GB/s "
        "(--host-bandwidth)."
    ]


def one_gpu_notes(setup: Setup) -> list[str]:
    """Note that one desktop GPU is enough if the CPU computes some layers; empty if this does not help."""
    advice = cpu_layers_advice(setup, "One")
    return [f"{advice}."] if advice else []


def scale_notes(setups: Iterable[Setup]) -> list[str]:
    """Notes on weight formats with scales under the published study's assumptions, with the format of the study."""
    formats = [setup.precision.weights for setup in setups if setup.assumptions.layout.attention_groups == "idle"]
    return [
        f"{weights} weights have {8 * BYTES_PER_ELEMENT[weights]:.3g} bits each, scales included. The published study "
        f"assumes {8 * BYTES_PER_ELEMENT[UNSCALED[weights]]:g} bits; to match it, use --weights {UNSCALED[weights]}."
        for weights in dict.fromkeys(formats)
        if weights in UNSCALED
    ]
