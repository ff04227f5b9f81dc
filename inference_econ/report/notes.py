"""Notes below tables: warnings, engines that support the deployments, and the basis of the numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inference_econ import inputs
from inference_econ.answers.layout_services import cpu_layers_advice
from inference_econ.engine import Instances, Setup, lacks_engine
from inference_econ.inputs import BYTES_PER_ELEMENT, UNSCALED, Quantity, known_engines, lacks
from inference_econ.records.sources import setup_sources
from inference_econ.report.error_notes import calibration_warnings, error_remarks, measurement_warnings
from inference_econ.report.headings import basis_label, enumerated
from inference_econ.search import Saving

#: Note on a model whose config.json lacks keys.
LEFT_OUT = "{}: config.json lacks these keys, so published defaults of its architecture apply: {}."
#: Smallest reported saving, as a share of the cost [1].
_NOTICED = 0.01


def doubts(setups: Sequence[Setup], subjects: Iterable[Instances]) -> list[str]:
    """Warnings below a table, on doubtful numbers, left-out engines, and queries that no engine supports."""
    return [*warnings(subjects), *cannot_start(setups)]


def grounds(
    setups: Iterable[Setup], subjects: Iterable[Instances], quantities: Sequence[Quantity] = ("tpot",)
) -> list[str]:
    """Sentences on the basis of the numbers in a table: formats, prices, engines that support its rows, and errors."""
    shown = list(setups)
    labels = dict.fromkeys(map(basis_label, shown))
    return [*labels, *startable_notes(shown), *error_remarks(subjects, quantities)]


def warnings(subjects: Iterable[Instances]) -> list[str]:
    """Warnings on measured corrections, too long requests, inputs outside the calibration data, and prices."""
    shown = list(subjects)
    measured = dict.fromkeys(text for instances in shown for text in measurement_warnings(instances))
    too_long: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for instances in shown:
        model, tokens = instances.setup.model, (instances.isl or 0.0) + (instances.osl or 0.0)
        name, most = model.name, model.max_context
        if most is not None and tokens > most:
            too_long[name] = (
                f"{name} supports {most:,} tokens; these requests have {tokens:,.0f}. Shorten --isl or --osl."
            )
        # Flags in config.json switch biases, which have little effect.
        if keys := [key for key in model.left_out if not key.endswith((" true", " false"))]:
            left_out[name] = LEFT_OUT.format(name, ", ".join(keys))
    setups = [instances.setup for instances in shown]
    return [
        *too_long.values(),
        *generation_remarks(setups),
        *price_remarks(setups),
        *calibration_warnings(shown),
        *measured,
        *left_out.values(),
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


def price_remarks(setups: Iterable[Setup]) -> list[str]:
    """Sentences on prices of different kinds, unknown prices and uncertain prices."""
    setups = list(setups)
    listed = {setup.hardware.name: setup.hour_price for setup in setups if setup.is_priced}
    unknown = sorted({setup.hardware.name for setup in setups} - {*listed})
    doubtful = [f"{chip} (${price.dollars:.4g}, {price.doubt})" for chip, price in listed.items() if price.doubt]
    remarks = [f"The price of {', '.join(unknown)} is unknown. Give one with --price."] if listed and unknown else []
    if len({price.order for price in listed.values()}) > 1:
        kinds = ", ".join(f"{chip} {price.label}" for chip, price in listed.items())
        remarks.append(
            f"These GPUs are not ranked, because their prices differ in kind ({kinds}). Use one kind with --price "
            "alike."
        )
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


def cannot_start(setups: Sequence[Setup]) -> list[str]:
    """Sentences on left-out engines and serving modes, and on GPUs for which no engine supports the query."""
    left_out = dict.fromkeys(reason for setup in setups for reason in setup.left_out)
    chips = dict.fromkeys(setup.hardware.name for setup in setups if lacks_engine(setup))
    nobody = (
        [f"All layouts are listed, because no known engine supports this query on {', '.join(chips)}."] if chips else []
    )
    return [*(f"Left out: {reason}." for reason in left_out), *nobody]


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


def setup_warnings(setup: Setup, *, lengths_told: bool = False) -> list[str]:
    """Warnings on the model and on what-ifs. If ``lengths_told`` is True, too long contexts are not reported."""
    model, notes = setup.model, []
    longest = max((length for length, _ in setup.contexts), default=setup.context)
    if not lengths_told and model.max_context is not None and longest > model.max_context:
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
    """Note on layers that the CPU computes, with the memory bandwidth that limits them."""
    cpu = setup.assumptions.cpu
    if not cpu.layers:
        return []
    return [
        f"The CPU computes {cpu.layers} of {setup.model.layers} layers. Host memory is assumed to deliver "
        f"{100 * cpu.memory_efficiency:.0f} % of {cpu.memory_bandwidth / 1e9:g} GB/s (--host-bandwidth)."
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
