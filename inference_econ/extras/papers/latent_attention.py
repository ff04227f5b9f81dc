"""Comparison of three variants of latent attention: memory, work and time by batch, context and new tokens."""

from __future__ import annotations

import csv
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from inference_econ.engine import Setup, step_seconds
from inference_econ.errors import InputError
from inference_econ.extras.papers import attention_layer
from inference_econ.extras.papers.study_kinds import Implementation, LatentVariant, LatentVariantsAsk, WholeStep
from inference_econ.inputs import ModelSpec, catalog
from inference_econ.inputs.units import integer
from inference_econ.records.sources import setup_sources
from inference_econ.studies.exhibits import CellRow, CellTable, Chart, ChartLine, Compared

if TYPE_CHECKING:
    from inference_econ.studies.results import Result
    from inference_econ.studies.scenario import ScenarioRun


#: Names of the variants of ``Assumptions.latent_attention``.
NAMES: Mapping[LatentVariant, str] = {"decompressed": "CD", "decompressed_per_step": "CC", "absorbed": "fused"}
#: Names of the implementations in the notes, then of the kernel that engines run.
_OF_THE_NOTES: Mapping[Implementation, str] = {
    "decompressed": "CD",
    "decompressed_per_step": "CC",
    "absorbed_copied": "A_CC",
    "absorbed_unfused": "A_CC_ME",
    "absorbed_multiplied": "AM_CC_ME",
    "absorbed": "fused",
}
#: Implementations of a chart. The fused kernel is second, because the second line of a chart is dashed.
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
#: Median times by implementation, batch and context, averaged over files [s].
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
    attention_layer.latent(setup.model)  # rejects models with other attention
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
    alone = _setups(ask, attention_layer.one_layer(catalog.model(ask.model)), hardware)

    def seconds(how: Implementation, batch: float, context: float, new_tokens: float) -> float | None:
        at = replace(alone[attention_layer.VARIANTS[how]], context=context)
        plans = attention_layer.layout(1, 1, 1, batch, new_tokens)
        return attention_layer.layer_seconds(at, plans, how) if attention_layer.fits(at, plans, how) else None

    return seconds


def _measured(ask: LatentVariantsAsk, device: str) -> Measured:
    """Measured times of a device; none without a file."""
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
    """Setup per variant, without context."""
    presets = {
        variant: catalog.assumptions(ask.assumptions, changes=[f"attention.latent={variant}"]) for variant in NAMES
    }
    return {variant: Setup.of(model, hardware, assumptions=preset, kv=ask.kv) for variant, preset in presets.items()}


def _per_token(ask: LatentVariantsAsk, setups: Mapping[LatentVariant, Setup]) -> CellTable:
    """Table of cache and work per token of context and layer."""
    rows = []
    for row in ask.rows:
        setup = setups[row.latent_attention]
        cache, worked = attention_layer.of_a_token(setup)
        values = (cache / setup.model.layers / 1e3, worked / setup.model.layers / 1e6)
        printed = {str(column): text for column, text in row.printed.items()}
        rows.append(CellRow((row.label,), values, printed))
    model = setups["absorbed"].model.name
    title = f"{model}: cache (10^3 B) and arithmetic of a decode step that a token of context adds per layer"
    return CellTable(title, ("implementation",), ("kB", "MFLOP"), tuple(rows), tuple(ask.notes))


def _times(
    seconds: Seconds, scale: float, batch: float, context: float, new_tokens: float = 1
) -> tuple[float | str, ...]:
    """Time of each variant, and the name of the fastest."""
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
    """Table of layer times per implementation in the notes, with measured times."""
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
            return attention_layer.flop(step, context, new) <= attention_layer.flop(absorbed, context, new)

        variants: tuple[LatentVariant, ...] = ("decompressed_per_step", "decompressed")
        quicker = [_faster_from(which, seconds, batch, context) for which in variants]
        rows.append(CellRow((context,), (_least(computes_less), *quicker)))
    columns = ("CC: less arithmetic from", "CC: faster from", "CD: faster from")
    title = f"New tokens per sequence from which another variant is faster than the fused kernel, batch {batch}"
    note = "In prefill, engines decompress the cache once per step, with any variant of decode."
    return CellTable(title, ("context",), columns, tuple(rows), (note,))


def _whole_steps(step: WholeStep, setups: Mapping[LatentVariant, Setup]) -> CellTable:
    """Table of decode steps of the full model."""

    def seconds(variant: LatentVariant, batch: float, context: float, new_tokens: float) -> float | None:
        setup = replace(setups[variant], context=context)
        plans = attention_layer.layout(step.tp, step.dp, step.ep, batch, new_tokens)
        return float(step_seconds(setup, plans)[0][0]) if attention_layer.fits(setup, plans) else None

    setup = setups["absorbed"]
    layout = f"tp{step.tp} dp{step.dp} ep{step.ep}"
    title = f"{setup.model.name} on {step.tp * step.dp} x {setup.hardware.name} ({layout}), one decode step"
    return _by_context(title, "ms", 1e3, seconds, step.batches, step.contexts)


def _lines(
    names: Mapping[V, str], first: float, last: float, seconds: Callable[[V, float], float | None]
) -> tuple[ChartLine, ...]:
    """Line per variant, at logarithmic spacing between two values."""
    x = [float(value) for value in np.unique(np.round(np.geomspace(first, last, _POINTS)))]
    return tuple(
        ChartLine(name, x, [math.nan if (time := seconds(how, at)) is None else 1e6 * time for at in x])
        for how, name in names.items()
    )


def _over_context(batch: int, contexts: tuple[int, ...], chip: str, seconds: LayerSeconds, measured: Measured) -> Chart:
    """Times of all implementations over the context, and what was measured."""
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
