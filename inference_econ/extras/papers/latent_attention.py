"""Variants of latent attention: memory, work and time of one layer and of whole steps."""

from __future__ import annotations

import csv
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from inference_econ.engine import Operator, OperatorTable, Plans, Setup, memory, mixer, step_seconds
from inference_econ.engine.operator_costs import every_row
from inference_econ.errors import InputError
from inference_econ.extras.papers.study_kinds import Implementation, LatentVariant, LatentVariantsAsk, WholeStep
from inference_econ.inputs import BYTES_PER_ELEMENT, LatentAttention, ModelSpec, catalog
from inference_econ.inputs.units import integer
from inference_econ.records.sources import setup_sources
from inference_econ.studies.exhibits import CellRow, CellTable, Chart, ChartLine, Compared

if TYPE_CHECKING:
    from inference_econ.studies.results import Result
    from inference_econ.studies.scenario import ScenarioRun

#: Variant of ``Assumptions.attention.latent`` on which each implementation of latent attention is based.
VARIANTS: Mapping[Implementation, LatentVariant] = {
    "decompressed": "decompressed",
    "decompressed_per_step": "decompressed_per_step",
    "absorbed": "absorbed",
    "absorbed_unfused": "absorbed",
    "absorbed_copied": "absorbed",
    "absorbed_multiplied": "absorbed",
}


def latent(model: ModelSpec) -> LatentAttention:
    """Latent attention of a model in which all layers are equal.

    Raises
    ------
    InputError
        If a layer has another kind of attention.
    """
    attentions = {block.attention for block in model.blocks}
    first = model.blocks[0].attention
    if len(attentions) > 1 or not isinstance(first, LatentAttention):
        kinds = ", ".join(dict.fromkeys(block.attention.kind for block in model.blocks))
        raise InputError(
            f"variants of latent attention need a model whose layers all have the same; {model.name}: {kinds}"
        )
    return first


def attention_alone(model: ModelSpec) -> ModelSpec:
    """Model with only the attention of one layer."""
    block = model.blocks[0].replace(layers=1, feed_forward={"kind": "none"})
    sources = {key: source for key, source in model.sources.items() if not key.startswith("blocks.")}
    return model.replace(blocks=(block,), vocab_size=0, sources=sources)


def unpiped_plans(tp: float, dp: float, ep: float, batch: float, new_tokens: float = 1) -> Plans:
    """Deployment without pipeline parallelism."""
    ones = np.ones(1)
    return Plans(ones * tp * dp, ones * batch, ones, ones * tp, ones * ep, new_tokens=new_tokens, whole=True)


def fits(setup: Setup, plans: Plans, implementation: Implementation = "absorbed") -> bool:
    """Check whether weights, cache, decompressed keys and values, and additional copies fit in memory.

    Raises
    ------
    InputError
        If the batch does not split over the groups.
    """
    code = int(np.ravel(setup.reasons(plans, setup.assumptions.layout.tensor_layouts[0]))[0])
    if code == memory.DIVIDE:
        raise InputError(f"batch {plans.batch[0]:g} of {setup.model.name}: {memory.REASONS[code]}")
    weights, cache, available = setup.memory(plans).of_one_plan()
    if code != memory.FITS:
        return False
    larger = 0.0
    if implementation == "absorbed_multiplied":
        # Consecutive projections of all layers are multiplied in advance.
        spec, hidden = latent(setup.model), float(setup.model.hidden_size)
        rows, columns = _queries_multiplied(spec)
        _, up, output = spec.projections(hidden)
        added = rows * columns + spec.query_heads * spec.kv_rank * hidden - up - output
        larger = setup.model.layers * added * BYTES_PER_ELEMENT[setup.precision.attention]
    return weights + cache + (larger + _copies(setup, plans, implementation)) <= available


def layer_bytes(setup: Setup, plans: Plans, implementation: Implementation) -> float:
    """Memory of the attention of one layer: cache, and copies or decompressed keys and values [B]."""
    needed = setup.memory(plans)
    held = needed.of_one_plan()[1] + float(np.ravel(needed.workspace_bytes)[0])
    return held + _copies(setup, plans, implementation)


def layer_seconds(setup: Setup, plans: Plans, implementation: Implementation) -> float:
    """Time of the attention operators of one layer on one chip [s].

    Parameters
    ----------
    setup : Setup
        Setup of :func:`one_layer`, under the base variant of the implementation.
    plans : Plans
        Plan of a single deployment.
    implementation : str
        See :data:`VARIANTS`.
    """
    table = OperatorTable(setup, plans)
    names = {row.name for block in setup.model.blocks for row in mixer(table, block)}
    work = setup.work(plans)
    rows = _rows(table, work.operators, implementation)
    costs = every_row(setup, replace(work, operators=tuple(rows)), setup.assumptions.layout.tensor_layouts[0])
    return sum(row.seconds for row in costs if row.name in names)


def _rows(table: OperatorTable, rows: tuple[Operator, ...], implementation: Implementation) -> Iterator[Operator]:
    """Operator table of an implementation, derived from the table of its base variant."""
    changed = {"absorbed_unfused": _unfused, "absorbed_copied": _copied, "absorbed_multiplied": _multiplied}.get(
        implementation
    )
    spec = table.model.blocks[0].attention
    for row in rows:
        yield changed(table, spec, row) if changed is not None and isinstance(spec, LatentAttention) else row


def _unfused(table: OperatorTable, spec: LatentAttention, row: Operator) -> Operator:
    """Replace fused attention by separate products, as in PyTorch.

    Attention scores are stored in memory between the products. Latents are read once for keys and once for values. The
    scores are the sum of two products, which is scaled, converted to weights in 32 bits, and rounded. With several
    sequences, the rotary keys are copied for every head, because the matrix product requires copies.
    """
    if row.name != "attention":
        return row
    width, sequences = table.activation_width, table.plans.micro_batch
    scores = spec.query_heads * (10.0 * width + 2.0 * BYTES_PER_ELEMENT["fp32"])
    rotary = np.where(sequences > 1.0, 2.0 * spec.query_heads * spec.rope_head_dim * width, 0.0)
    moved = spec.kv_rank * width + scores * table.plans.new_tokens + rotary
    return row._replace(
        kv_bytes_per_sequence=row.kv_bytes_per_sequence + moved * (table.context + table.plans.new_tokens),
        launches=row.launches + 6.0,
    )


def _copied(table: OperatorTable, spec: LatentAttention, row: Operator) -> Operator:
    """Add the memory traffic to write concatenated queries and keys of every head, and to read them for the product."""
    if row.name != "attention":
        return row
    moved = 2.0 * spec.query_heads * (spec.kv_rank + spec.rope_head_dim) * table.activation_width
    return row._replace(
        activation_bytes_per_token=row.activation_bytes_per_token + moved,
        kv_bytes_per_sequence=row.kv_bytes_per_sequence + moved * (table.context + table.plans.new_tokens),
        launches=row.launches + 4.0,
    )


def _multiplied(table: OperatorTable, spec: LatentAttention, row: Operator) -> Operator:
    """Multiply the key matrix into the query projection, and the value matrix into the output projection."""
    if row.name == "attention":
        return _unfused(table, spec, row)
    if row.name == "latent up":
        rows, columns = _queries_multiplied(spec)
        return table.projection(row.name, [(rows, columns)], launches=2.0)._replace(attention="latent")
    if row.name == "attention output":
        shape = (table.hidden, float(spec.query_heads * spec.kv_rank))
        return table.projection(row.name, [shape], output=True)._replace(attention="latent")
    return row


def _queries_multiplied(spec: LatentAttention) -> tuple[float, float]:
    """Shape of the query projection multiplied with the key up-projection, including the rotary part."""
    if spec.query_rank is None:
        raise InputError("absorbed_multiplied needs a model that compresses its queries (query_rank)")
    return float(spec.query_heads * (spec.kv_rank + spec.rope_head_dim)), float(spec.query_rank)


def _copies(setup: Setup, plans: Plans, implementation: Implementation) -> float:
    """Concatenated keys of all heads of one layer for all sequences, or only their rotary parts [B]."""
    spec, batch = latent(setup.model), float(plans.batch[0])
    elements = {
        "absorbed_copied": spec.kv_rank + spec.rope_head_dim,
        "absorbed_unfused": spec.rope_head_dim if batch > 1.0 else 0,
        "absorbed_multiplied": spec.rope_head_dim if batch > 1.0 else 0,
    }.get(implementation, 0)
    tokens = batch * (setup.context + plans.new_tokens)
    return tokens * spec.query_heads * elements * BYTES_PER_ELEMENT[setup.precision.activations]


def flop(setup: Setup, context: float, new_tokens: float = 1) -> float:
    """Work of a step of one sequence over all layers [FLOP]."""
    work = replace(setup, context=context).work(unpiped_plans(1, 1, 1, 1, new_tokens))
    return sum(
        float(np.ravel(row.repeats * (row.flop_per_token * new_tokens + row.flop_per_sequence))[0])
        for row in work.operators
    )


def cache_bytes(setup: Setup, context: float) -> float:
    """Cache of one sequence over all layers [B]."""
    return replace(setup, context=context).memory(unpiped_plans(1, 1, 1, 1)).of_one_plan()[1]


def of_a_token(setup: Setup) -> tuple[float, float]:
    """Cache [B] and decode work [FLOP] per token of context, over all layers."""
    # The cache is allocated in blocks of tokens.
    block = float(setup.assumptions.capacity.kv_block)
    added = cache_bytes(setup, 2 * block) - cache_bytes(setup, block)
    return added / block, (flop(setup, 2 * block) - flop(setup, block)) / block


#: Names of the variants of ``Assumptions.latent_attention``.
NAMES: Mapping[LatentVariant, str] = {"decompressed": "CD", "decompressed_per_step": "CC", "absorbed": "fused"}
#: Names of the implementations in published notes, followed by the fused kernel that engines run.
_OF_THE_NOTES: Mapping[Implementation, str] = {
    "decompressed": "CD",
    "decompressed_per_step": "CC",
    "absorbed_copied": "A_CC",
    "absorbed_unfused": "A_CC_ME",
    "absorbed_multiplied": "AM_CC_ME",
    "absorbed": "fused",
}
#: Implementations in the charts. The fused kernel comes second, because the second line of a chart is dashed.
_DRAWN: Mapping[Implementation, str] = {"decompressed": "CD", "absorbed": "fused", **_OF_THE_NOTES}
_NOTES_LEGEND = (
    "A_CC writes and reads copies of the full queries and keys of all heads, in addition to the latent. A_CC_ME omits "
    "these copies. AM_CC_ME also multiplies the two absorbed projections in advance."
)
_LEGEND = (
    "CD caches the keys and values of all heads. CC caches the latent, and decompresses it in every step, layer by "
    "layer. 'fused' is one kernel with absorbed projections, which uses the latent as key and value of every head."
)
_DOES_NOT_FIT = "does not fit"
_Y_LABEL = "attention of one layer (us)"
#: Points per line [1].
_POINTS = 40
#: Maximum number of new tokens per sequence [tokens].
_MOST_NEW_TOKENS = 2**20

#: Variant or implementation.
V = TypeVar("V", LatentVariant, Implementation)
Seconds = Callable[[LatentVariant, float, float, float], float | None]
#: Time of an implementation, with the same arguments as for variants.
LayerSeconds = Callable[[Implementation, float, float, float], float | None]
#: Median times by implementation, batch and context, averaged over measurement files [s].
Measured = Mapping[tuple[str, int, int], float]


def compare_latent_attention(ask: LatentVariantsAsk) -> Compared:
    """Compare the variants of latent attention.

    Parameters
    ----------
    ask : LatentVariantsAsk
        Model, chip, batches and contexts.

    Returns
    -------
    Compared
        Times according to the operator table under ``overlap: operator``.

    Raises
    ------
    InputError
        If the model has no latent attention, or the assumptions have another ``overlap`` than ``operator``.
    """
    setups = _setups(ask, catalog.model(ask.model), ask.hardware)
    setup = setups["absorbed"]
    latent(setup.model)  # Models with another kind of attention are rejected here.
    if setup.assumptions.chip.overlap != "operator":
        raise InputError(
            f"attention alone is timed row by row, which needs assumptions with overlap: operator; "
            f"{setup.assumptions.name} has {setup.assumptions.chip.overlap}"
        )
    one_layer, devices = _one_layer(ask, ask.hardware), {} if ask.measured is None else ask.measured.devices
    where = f"Attention of one layer of {setup.model.name} on one {setup.hardware.name}"
    at, title = ask.verification, f"{where}, {ask.verification.batch} x context {ask.verification.context}"
    title += ": a step that verifies drafts or reads a chunk of a prompt"
    verified = tuple(CellRow((new,), _times(one_layer, 1e6, at.batch, at.context, new)) for new in at.new_tokens)
    timed = {
        chip: (catalog.hardware(chip).name, _one_layer(ask, chip), _measured(ask, devices.get(chip, "")))
        for chip in devices or (ask.hardware,)
    }
    tables = [
        _per_token(ask, setups),
        *(_of_the_notes(*times, ask) for times in timed.values()),
        _by_context(f"{where}, one decode step", "us", 1e6, one_layer, ask.batches, ask.contexts),
        CellTable(title, ("new tokens per sequence",), _heads("us"), verified),
        _break_even(ask, setups, one_layer),
    ]
    charts = [_over_context(batch, ask.contexts, *times) for batch in _drawn(ask) for times in timed.values()]
    charts.append(_over_new_tokens(one_layer, ask))
    others = [_setups(ask, setup.model, chip)["absorbed"] for chip in timed if chip != ask.hardware]
    if ask.whole_step is not None:
        deployed = _setups(ask, setup.model, ask.whole_step.hardware)
        tables.append(_whole_steps(ask.whole_step, deployed))
        others.append(deployed["absorbed"])
    return Compared(tuple(tables), tuple(charts), (setup, *others))


def _one_layer(ask: LatentVariantsAsk, hardware: str) -> LayerSeconds:
    """Time of one layer on a chip, by implementation, batch, context and new tokens."""
    alone = _setups(ask, attention_alone(catalog.model(ask.model)), hardware)

    def seconds(how: Implementation, batch: float, context: float, new_tokens: float) -> float | None:
        at = replace(alone[VARIANTS[how]], context=context)
        plans = unpiped_plans(1, 1, 1, batch, new_tokens)
        return layer_seconds(at, plans, how) if fits(at, plans, how) else None

    return seconds


def _measured(ask: LatentVariantsAsk, device: str) -> Measured:
    """Measured times of a device; empty without a measurement file."""
    found: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    if ask.measured is not None:
        with catalog.measured_files()[ask.measured.file].open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                if row["device"] == device:
                    key = row["implementation"], integer(row["batch"]), integer(row["context"])
                    found[key].append(1e-6 * float(row["median_us"]))
    return {key: fmean(times) for key, times in found.items()}


def _drawn(ask: LatentVariantsAsk) -> tuple[int, ...]:
    return ask.batches if ask.drawn_batches is None else ask.drawn_batches


def _setups(ask: LatentVariantsAsk, model: ModelSpec, hardware: str) -> dict[LatentVariant, Setup]:
    """Setup of each variant, without a context length."""
    presets = {
        variant: catalog.assumptions(ask.assumptions, changes=[f"attention.latent={variant}"]) for variant in NAMES
    }
    return {variant: Setup.of(model, hardware, assumptions=preset, kv=ask.kv) for variant, preset in presets.items()}


def _per_token(ask: LatentVariantsAsk, setups: Mapping[LatentVariant, Setup]) -> CellTable:
    """Table of cache and work per token of context and layer."""
    rows = []
    for row in ask.rows:
        setup = setups[row.latent_attention]
        cache, worked = of_a_token(setup)
        values = (cache / setup.model.layers / 1e3, worked / setup.model.layers / 1e6)
        printed = {str(column): text for column, text in row.printed.items()}
        rows.append(CellRow((row.label,), values, printed))
    model = setups["absorbed"].model.name
    title = f"{model}: cache (10^3 B) and arithmetic of a decode step that a token of context adds per layer"
    return CellTable(title, ("implementation",), ("kB", "MFLOP"), tuple(rows), tuple(ask.notes))


def _times(
    seconds: Seconds, scale: float, batch: float, context: float, new_tokens: float = 1
) -> tuple[float | str, ...]:
    """Time of each variant, and the name of the fastest variant."""
    times = {variant: seconds(variant, batch, context, new_tokens) for variant in NAMES}
    quick = {variant: time for variant, time in times.items() if time is not None}
    fastest = NAMES[min(quick, key=quick.__getitem__)] if quick else ""
    return (*(_DOES_NOT_FIT if time is None else scale * time for time in times.values()), fastest)


def _heads(unit: str) -> tuple[str, ...]:
    return (*(f"{name}, {unit}" for name in NAMES.values()), "fastest")


def _by_context(
    title: str, unit: str, scale: float, seconds: Seconds, batches: tuple[int, ...], contexts: tuple[int, ...]
) -> CellTable:
    times = {(b, c): _times(seconds, scale, b, c) for b in batches for c in contexts}
    rows = tuple(CellRow(place, values) for place, values in times.items())
    # Check whether predictions have the measured order.
    cached, step = (list(NAMES).index(variant) for variant in ("decompressed", "decompressed_per_step"))
    pairs = [(row[cached], row[step]) for row in times.values()]
    both = [(a, b) for a, b in pairs if not isinstance(a, str) and not isinstance(b, str)]
    quicker, best = sum(a < b for a, b in both), sum(row[-1] == NAMES["absorbed"] for row in times.values())
    verdict = (
        f"CD is faster than CC in {quicker} of the {len(both)} rows where both fit. The fused kernel is fastest in "
        f"{best} of {len(times)} rows."
    )
    return CellTable(title, ("batch", "context"), _heads(unit), rows, (_LEGEND, verdict))


def _of_the_notes(chip: str, seconds: LayerSeconds, measured: Measured, ask: LatentVariantsAsk) -> CellTable:
    """Table of predicted and measured layer times of the implementations in published notes."""
    rows = []
    for (how, name), batch, context in product(_OF_THE_NOTES.items(), _drawn(ask), ask.contexts):
        ours, seen = seconds(how, batch, context, 1), measured.get((how, batch, context))
        shown: float | str = _DOES_NOT_FIT if ours is None else 1e6 * ours
        beside = ("-", "-") if seen is None else (1e6 * seen, "-" if ours is None else seen / ours)
        rows.append(CellRow((name, batch, context), (shown, *beside)))
    columns = ("ours, us", "measured, us", "measured / ours")
    notes = (_NOTES_LEGEND, *ask.measured_notes) if chip == catalog.hardware(ask.hardware).name else ()
    title = f"Attention of one layer of {catalog.model(ask.model).name} on one {chip}, one decode step as in the notes"
    return CellTable(title, ("implementation", "batch", "context"), columns, tuple(rows), notes)


def _least(reached: Callable[[float], bool]) -> float | str:
    """Minimum number of new tokens at which a monotonic condition is true, or "never"."""
    high = 1
    while not reached(high):
        high *= 2
        if high > _MOST_NEW_TOKENS:
            return "never"
    low = high // 2 + 1
    return float(low + bisect_left(range(low, high), True, key=reached))


def _faster_from(variant: LatentVariant, seconds: Seconds, batch: float, context: float) -> float | str:
    """Minimum number of new tokens for which a variant is at least as fast as absorbed projections."""
    if seconds(variant, batch, context, 1) is None:
        return _DOES_NOT_FIT

    def reached(new_tokens: float) -> bool:
        variant_seconds, absorbed = (seconds(which, batch, context, new_tokens) for which in (variant, "absorbed"))
        return variant_seconds is not None and absorbed is not None and variant_seconds <= absorbed

    return _least(reached)


def _break_even(ask: LatentVariantsAsk, setups: Mapping[LatentVariant, Setup], seconds: Seconds) -> CellTable:
    """Table of the numbers of new tokens from which another variant is faster than the fused kernel."""
    batch = ask.verification.batch
    step, absorbed = setups["decompressed_per_step"], setups["absorbed"]
    rows = []
    for context in ask.contexts:

        def computes_less(new: float, context: float = context) -> bool:
            return flop(step, context, new) <= flop(absorbed, context, new)

        variants: tuple[LatentVariant, ...] = ("decompressed_per_step", "decompressed")
        quicker = [_faster_from(which, seconds, batch, context) for which in variants]
        rows.append(CellRow((context,), (_least(computes_less), *quicker)))
    columns = ("CC: less arithmetic from", "CC: faster from", "CD: faster from")
    title = f"New tokens per sequence from which another variant is faster than the fused kernel, batch {batch}"
    note = "In prefill, engines decompress the cache once per step, with any variant of decode."
    return CellTable(title, ("context",), columns, tuple(rows), (note,))


def _whole_steps(step: WholeStep, setups: Mapping[LatentVariant, Setup]) -> CellTable:
    """Table of decode step times of the full model."""

    def seconds(variant: LatentVariant, batch: float, context: float, new_tokens: float) -> float | None:
        setup = replace(setups[variant], context=context)
        plans = unpiped_plans(step.tp, step.dp, step.ep, batch, new_tokens)
        return float(step_seconds(setup, plans)[0][0]) if fits(setup, plans) else None

    setup = setups["absorbed"]
    layout = f"tp{step.tp} dp{step.dp} ep{step.ep}"
    title = f"{setup.model.name} on {step.tp * step.dp} x {setup.hardware.name} ({layout}), one decode step"
    return _by_context(title, "ms", 1e3, seconds, step.batches, step.contexts)


def _lines(
    names: Mapping[V, str], first: float, last: float, seconds: Callable[[V, float], float | None]
) -> tuple[ChartLine, ...]:
    """One line per variant or implementation, at logarithmically spaced values from ``first`` to ``last``."""
    x = [float(value) for value in np.unique(np.round(np.geomspace(first, last, _POINTS)))]
    return tuple(
        ChartLine(name, x, [math.nan if (time := seconds(how, at)) is None else 1e6 * time for at in x])
        for how, name in names.items()
    )


def _over_context(batch: int, contexts: tuple[int, ...], chip: str, seconds: LayerSeconds, measured: Measured) -> Chart:
    """Chart of predicted and measured times of all implementations over the context."""
    first, last = min(contexts), max(contexts)
    lines = _lines(_DRAWN, first, last, lambda how, at: seconds(how, batch, at, 1))
    ends = any(math.isnan(value) for line in lines for value in line.y)
    title = f"{chip}, batch {batch}" + ("\n(lines end where memory is full)" if ends else "")
    points = []
    for how, name in _OF_THE_NOTES.items():
        seen = {at: 1e6 * time for (which, of, at), time in sorted(measured.items()) if (which, of) == (how, batch)}
        inside = [at for at in seen if first <= at <= last]
        if inside:
            values = [seen[at] for at in inside]
            points.append(ChartLine(f"{name}, measured", inside, values, points=True, beside=name))
    return Chart(title, "context (tokens)", _Y_LABEL, (*lines, *points))


def _over_new_tokens(seconds: Seconds, ask: LatentVariantsAsk) -> Chart:
    at = ask.verification
    first, last = min(at.new_tokens), max(at.new_tokens)
    lines = _lines(NAMES, first, last, lambda variant, new: seconds(variant, at.batch, at.context, new))
    marks = {}
    for variant in ("decompressed", "decompressed_per_step"):
        new_tokens = _faster_from(variant, seconds, at.batch, at.context)
        if not isinstance(new_tokens, str) and first <= new_tokens <= last:
            marks[f"{NAMES[variant]} from {new_tokens:g}"] = new_tokens
    title = f"{catalog.hardware(ask.hardware).name}, batch {at.batch},\ncontext {at.context}: several new tokens"
    return Chart(title, "new tokens per sequence", _Y_LABEL, lines, marks=marks)


def answer_latent_attention(run: ScenarioRun, ask: LatentVariantsAsk) -> Result:
    """Run a scenario of this kind."""
    return run.compared(compare_latent_attention(ask), setup_sources)
