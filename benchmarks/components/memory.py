"""Comparison of the memory that engines reported with the capacity check."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from benchmarks.compared_point import ComparedPoint
from benchmarks.components.report import Compared, NumberedRow, preset
from inference_econ._types import Array
from inference_econ.engine import Plans, Setup, Speculation, kv_bytes_per_sequence, memory, needed_memory
from inference_econ.extras.servers.measurements import UnusableRowError, format_name, hardware_name, model_name, served
from inference_econ.inputs import Assumptions, HardwareSpec, Precision, catalog, divided, units
from inference_econ.inputs.units import integer

#: Largest difference for which no explanation is needed [1].
_SMALL = 0.02
#: Units of counts.
_COUNTS = ("tokens", "requests")
#: Context that is assumed for logged token counts if none is stated [tokens]. Any context gives the same result for
#: caches that grow evenly.
_LONG = 8192.0
_GIBI = {"B": 1.0, "kB": 1000 / 2**10, "MB": 1e6 / 2**20, "GB": 1e9 / 2**30, "GiB": 1.0, "TB": 1e12 / 2**40}


@dataclass(frozen=True, slots=True)
class StatedDeployment:
    """Deployment of a row of the dataset.

    Attributes
    ----------
    line : NumberedRow
        The row.
    setup : Setup
        Model, chip, formats and assumptions, at the context of the requests; 0 if not stated.
    plans : Plans
        The deployment.
    others : sequence of NumberedRow
        All rows of the file.
    speculation : Speculation or None
        Speculation method; the cache is that of the target model only.
    """

    line: NumberedRow
    setup: Setup
    plans: Plans
    others: Sequence[NumberedRow]
    speculation: Speculation | None = None

    @property
    def bytes_per_sequence(self) -> float:
        """Cache of one sequence at the context [B]."""
        setup = self.setup
        if not setup.context:
            raise UnusableRowError("no length of its requests is stated")
        return kv_bytes_per_sequence(setup.model, setup.precision, setup.context, setup.assumptions)

    @property
    def bytes_per_token(self) -> float:
        """Cache of one token [B]."""
        return kv_bytes_per_sequence(self.setup.model, self.setup.precision, 1.0)

    @property
    def need(self) -> memory.Memory:
        """Memory need from the capacity check."""
        return needed_memory(self.setup, self.plans, self.speculation)

    def free(self) -> float:
        """Cache memory per chip, after weights and workspace [B]."""
        return self.per_chip(self.need.available_bytes - self.need.weight_bytes)

    def per_chip(self, whole: Array) -> float:
        """Bytes per chip, given the bytes of the deployment [B]."""
        return float(whole.item()) / float(self.plans.accelerators[0])

    def cached_tokens(self) -> float:
        """Tokens that fit the cache memory reported by the same engine [tokens]."""
        line = self.line
        same = ("source_id", "parallelism", "notes")
        for other in self.others:
            if "KV cache GPU memory" in other.text("item") and all(other.text(c) == line.text(c) for c in same):
                return other.quantity(other.needed("value"), "B") / self.bytes_per_token
        raise UnusableRowError("the memory of this cache is not in the file")

    def tokens(self) -> float:
        """Tokens that fit the cache of the server [tokens]."""
        setup = replace(self.setup, context=self.setup.context or _LONG)
        needed = needed_memory(setup, self.plans, self.speculation)
        return memory.cached_tokens(needed, self.plans, setup.context, setup.assumptions).item()


#: Predictions of items, by the start of their name.
ITEMS: dict[str, Callable[[StatedDeployment], float]] = {
    "KV cache tokens": StatedDeployment.tokens,
    "available KV cache memory per GPU": StatedDeployment.free,
    "KV cache max_tokens": StatedDeployment.cached_tokens,
    "KV cache GPU memory": StatedDeployment.free,
    "KV bytes per token": lambda stated: stated.bytes_per_token,
    "weights per GPU": lambda stated: stated.per_chip(stated.need.weight_bytes),
    "weights + activations per GPU": lambda stated: stated.per_chip(
        stated.need.weight_bytes + stated.need.workspace_bytes
    ),
    "free for KV per GPU": StatedDeployment.free,
    "KV per request": lambda stated: stated.bytes_per_sequence,
    "max concurrency per GPU": lambda stated: stated.free() / stated.bytes_per_sequence,
    "checkpoint": lambda stated: memory.weight_bytes(stated.setup.model, stated.setup.precision),
}


def compared(lines: Sequence[NumberedRow], names: Sequence[str]) -> Compared:
    """Predictions of every row under each preset."""
    points, assumed = [], {name: preset(name) for name in names}
    for line, (name, assumptions) in product(lines, assumed.items()):
        chips = f"{line.text('n_gpus')} x {line.text('hardware')}"
        point = ComparedPoint(
            id=line.id,
            series=line.text("item"),
            subject=f"{line.text('model')}, {chips}, {line.text('parallelism')}",
            assumptions=name,
            unit=line.text("unit"),
            measured=line.number("value"),
        )
        try:
            predicted, note = _predicted(line, lines, assumptions)
            points.append(replace(point, predicted=predicted, note=note))
        except UnusableRowError as error:
            points.append(replace(point, note=str(error)))
    return points, (), ()


def _predicted(line: NumberedRow, lines: Sequence[NumberedRow], assumed: Assumptions) -> tuple[float, str]:
    """Predicted value in the unit of a row, and an explanation of the difference."""
    stated, item = line.needed("value"), line.text("item")
    heading = next((begin for begin in ITEMS if item.startswith(begin)), None)
    if heading is None:
        raise UnusableRowError(f"unknown item {item!r}")
    deployment = _deployment(line, lines, assumed)
    unit = 1.0 if line.text("unit") in _COUNTS else line.quantity(1.0, "B")
    ours = ITEMS[heading](deployment) / unit
    if ours <= 0.0:
        raise UnusableRowError(f"ours has no room for it: {item} would be {ours:.4g} {line.text('unit')}")
    reasons = [] if abs(ours / stated - 1.0) <= _SMALL else list(_reasons(line, heading, deployment, ours, unit))
    return ours, "; ".join(reasons)


def _reasons(
    line: NumberedRow, item: str, deployment: StatedDeployment, predicted: float, unit: float
) -> Iterator[str]:
    """Possible explanations of a difference."""
    stated = line.needed("value")
    precision = deployment.setup.precision
    if precision.kv != "bf16" and not line.text("kv_dtype"):
        wide = replace(deployment, setup=replace(deployment.setup, precision=replace(precision, kv="bf16")))
        other = ITEMS[item](wide) / unit
        if abs(other / stated - 1.0) < abs(predicted / stated - 1.0):
            yield f"{other:.4g} with a 16-bit cache; ours is {precision.kv}, as published with the checkpoint"
    gibi = predicted * _GIBI.get(line.text("unit"), 1.0)
    if item == "checkpoint" and abs(gibi / stated - 1.0) < abs(predicted / stated - 1.0):
        yield f"{gibi:.4g} in units of 2^30, which many tools use for file sizes"
    if item == "KV cache GPU memory":
        yield (
            "ours is all memory except weights and workspace. The source does not divide it into cache, exchange "
            "buffers and CUDA graphs"
        )
    if item in ("KV cache tokens", "available KV cache memory per GPU"):
        yield f"{deployment.free() * (1.0 - stated / predicted) / 2**30:+.1f} GiB on each chip"
    if line.text("notes"):
        yield f"stated: {line.text('notes')}"


def _deployment(line: NumberedRow, lines: Sequence[NumberedRow], assumed: Assumptions) -> StatedDeployment:
    """Deployment of a row; see :data:`ITEMS` for the items.

    Raises
    ------
    UnusableRowError
        If a name or layout is unknown.
    """
    hardware = hardware_name(line.text("hardware"))
    chip, memory_of_chip = catalog.hardware(hardware), line.text("memory")
    if memory_of_chip:
        chip = chip.replace(hbm_bytes=units.parse_quantity(memory_of_chip, "B"))
    base = model_name(line.text("model"))
    item = line.text("item")
    written = item.removeprefix("checkpoint") if item.startswith("checkpoint") else line.text("weight_dtype")
    name, weights = served(base, hardware, written)
    model = catalog.model(name)
    kv = format_name(line.text("kv_dtype"))
    precision = Precision.of(model, weights, None, kv, assumed.capacity.embedding_format)
    if "MoE" in line.text("weight_dtype"):
        # The first published NVFP4 checkpoint of R1 keeps attention in 16 bits.
        precision = replace(precision, attention_output=precision.attention)
    setup = Setup(model, chip, precision, line.number("context") or 0.0, _told(line, chip, assumed))
    # The server had loaded the multi-token-prediction layers.
    text, speculation = line.text("proposer"), None
    if text:
        proposer = re.fullmatch(r"mtp (\d+)", text)
        if proposer is None:
            raise UnusableRowError(f"the speculation method {text!r} is not understood; write for example 'mtp 2'")
        speculation = Speculation.of("mtp", longest=integer(proposer[1]), setup=setup)
    return StatedDeployment(line, setup, _plans(line), lines, speculation)


def _told(line: NumberedRow, chip: HardwareSpec, assumed: Assumptions) -> Assumptions:
    """Assumptions with the behavior of the engine at its version, and with the recorded settings.

    Presets with the rules of the published study ignore engines.
    """
    engine = line.text("engine")
    if not engine or assumed.capacity.embedding_format == "as_weights":
        return assumed
    facts = catalog.engine(engine).at(line.text("engine_version") or None)
    usual = facts.defaults_on(chip.hbm_bytes)
    steps, slots, share = line.number("step_tokens"), line.number("slots"), line.number("memory_fraction")
    if usual is not None:
        steps, slots, share = steps or usual.step_tokens, slots or usual.slots, share or usual.memory_fraction
    if steps is None:
        raise UnusableRowError(f"the largest step of {engine} is not known")
    capacity = divided(facts, chip, step_tokens=steps, slots=slots, share=share)
    return assumed.changed({**capacity, "capacity.vision_tower": line.text("tower") != "no"})


def _plans(line: NumberedRow) -> Plans:
    """Layout in a text such as ``TP8``, ``DP8`` and ``EP8``. An ``EP`` without a number covers all chips."""
    chips, text = line.needed("n_gpus"), line.text("parallelism")
    degrees = {name.lower(): float(size) for name, size in re.findall(r"\b(TP|DP|PP|EP)\s*(\d+)", text)}
    spread = re.search(r"\bEP\b", text) is not None
    pp = degrees.get("pp", 1.0)
    ranks = chips / pp
    # If only expert parallelism is stated, engines run attention data-parallel.
    apart = degrees.get("dp", ranks if spread and "tp" not in degrees else 1.0)
    tp = degrees.get("tp", ranks / apart)
    if tp * apart * pp != chips:
        raise UnusableRowError(f"the layout {text!r} is not one of {chips:g} chips")
    ones = np.ones(1)
    sequences = apart * (line.number("batch") or 1.0)
    ep = degrees.get("ep", ranks if spread else 1.0)
    return Plans(ones * chips, ones * sequences, ones * pp, ones * tp, ones * ep, whole=True)
