"""Seconds of a step: the operator table reduced under a set of assumptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine import memory
from inference_econ.engine.collectives import Network, collective_parts, collective_seconds
from inference_econ.engine.layouts.plans import Plans, attention_groups, fullest_group
from inference_econ.engine.layouts.startable import any_takes_turns
from inference_econ.engine.operators.table import Operator
from inference_econ.engine.operators.work import Work
from inference_econ.engine.power import CLOCKS, at_clock, capped_seconds, chip_power, step_joules
from inference_econ.engine.setup import Setup
from inference_econ.inputs import TensorLayout

#: The parts of a step; those of arithmetic and memory count what is not hidden behind the other.
PARTS = (
    "compute",
    "weights",
    "activations",
    "kv_cache",
    "all_reduce_latency",
    "all_reduce_bandwidth",
    "all_to_all_latency",
    "all_to_all_bandwidth",
    "pipeline",
    "launches",
    "host",
    "host_memory",
)
#: A further part where servers like it were measured: what these take more, or less, than all others say.
MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Time of one step.

    Attributes
    ----------
    seconds : ndarray, shape (...)
        Total [s].
    parts : mapping of str to ndarray
        Seconds by part, keys :data:`PARTS`, and :data:`MEASURED` where there is a level; they add up to the total.
    busy : mapping of str to ndarray
        Seconds that arithmetic and each kind of memory traffic take, hidden or not.
    """

    seconds: Array
    parts: Mapping[str, Array]
    busy: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Roofline:
    """Arithmetic and memory seconds of all operators, or of one, and the share of the shorter that is not hidden."""

    compute: Array
    weights: Array
    activations: Array
    kv_cache: Array
    shown: Array | float = 0.0

    @property
    def memory(self) -> Array:
        """All memory traffic [s]."""
        return self.weights + self.activations + self.kv_cache

    @property
    def seconds(self) -> Array:
        """Of both together [s]."""
        longer = np.maximum(self.compute, self.memory)
        return np.asarray(longer + self.shown * np.minimum(self.compute, self.memory)) if _some(self.shown) else longer


def step_seconds(setup: Setup, plans: Plans, work: Work | None = None) -> list[Array]:
    """Total time of a step for every plan, feasible or not, under each way to cut matrices.

    Parameters
    ----------
    setup : Setup
        What, on what, how.
    plans : Plans
        Deployments, shape (...).
    work : Work, optional
        Their operator table, if somebody has it already.

    Returns
    -------
    list of ndarray, each of shape (...)
        [s], in the order of ``assumptions.layout.tensor_layouts``; they share all but the communication.

    Notes
    -----
    Eq. (29) of Erdil (2025) under ``overlap: step``; the same table is summed in other orders
    under ``operator`` (an ordinary roofline per operator) and ``none``.
    """
    work = setup.work(plans) if work is None else work
    if setup.hardware.power_cap is not None:
        chip = chip_power(setup.hardware)
        assert chip is not None
        joules = step_joules(setup, chip, plans)
        by_cut = zip(*(step_seconds(at_clock(setup, clock), plans, work) for clock in CLOCKS), strict=True)
        return [capped_seconds(joules, list(times), chip) for times in by_cut]
    alone, exchanged = _alone_and_exchanged(setup, work)
    host = host_seconds(setup, work)
    totals = [np.maximum(alone + seconds - hidden_seconds(setup, work, seconds), host) for seconds in exchanged]
    possible = takes_turns(setup, plans)
    if possible is not None:
        alone, exchanged = _alone_and_exchanged(setup, setup.work(halved(setup, plans)))
        # Share of the processors that the kernels of an exchange take from work beside it.
        taken = setup.assumptions.network.exchange_processors if work.prefill else 0.0
        for index, seconds in enumerate(exchanged):
            turns = 2.0 * np.maximum(np.maximum(alone + taken * seconds, seconds), host)
            totals[index] = np.where(possible, np.minimum(totals[index], turns), totals[index])
    overhead, streamed = overhead_seconds(setup, plans), streamed_seconds(setup, plans)
    if np.any(streamed):
        totals = [np.maximum(total, streamed) for total in totals]
    measured = 1.0 if plans.prefill else setup.measured_factor(plans, prefill=False)
    return [np.broadcast_to((total + overhead) * measured, plans.shape) for total in totals]


def takes_turns(setup: Setup, plans: Plans) -> npt.NDArray[np.bool_] | None:
    """Where two halves of a micro-batch may take turns; None if nowhere."""
    kind = setup.assumptions.network.two_batch_overlap
    if kind == "never":
        return None
    if kind == "when_faster":
        return np.ones((), dtype=bool)
    possible = any_takes_turns(setup.engines, setup.model, setup.hardware.generation, plans)
    return possible if possible.any() else None


def halved(setup: Setup, plans: Plans) -> Plans:
    """Return instances with half of the sequences of each group, at least one in decode steps, of prompts tokens."""
    layout = setup.assumptions.layout
    ratio = fullest_group(plans, layout)
    if plans.prefill or np.any(plans.riding):
        return replace(plans, batch=plans.batch / 2.0, riding=plans.riding / 2.0, fullest=ratio)
    least = attention_groups(plans, layout) * plans.pp
    half = np.maximum(plans.batch / 2.0, least)
    return replace(plans, batch=half, fullest=np.maximum(plans.batch / 2.0 * ratio, least) / half)


def _alone_and_exchanged(setup: Setup, work: Work) -> tuple[Array, list[Array]]:
    """Seconds of work and launches, and of communication under each way to cut matrices."""
    network = Network.of(setup.hardware, setup.assumptions.network)
    alone = _overlapped(setup, work) + launch_seconds(setup, work)
    layouts = setup.assumptions.layout.tensor_layouts
    return alone, [communication(network, work, layout, work.operators) for layout in layouts]


def evaluate(setup: Setup, plans: Plans, layout: TensorLayout) -> StepCosts:
    """Time of a step in its parts; the total equals :func:`step_seconds`.

    Parameters
    ----------
    setup : Setup
        What, on what, how.
    plans : Plans
        Deployments, shape (...).
    layout : {'1d', '2d'}
        How weight matrices are cut.

    Returns
    -------
    StepCosts
        Arrays of shape (...) [s].
    """
    if setup.hardware.power_cap is not None:
        costs = evaluate(at_clock(setup, 1.0), plans, layout)
        seconds = step_seconds(setup, plans)[setup.assumptions.layout.tensor_layouts.index(layout)]
        # A lower clock slows arithmetic alone.
        parts, busy = (
            {**seconds_by_part, "compute": seconds_by_part["compute"] + seconds - costs.seconds}
            for seconds_by_part in (costs.parts, costs.busy)
        )
        return StepCosts(seconds, parts, busy)
    work = setup.work(plans)
    host, costs = host_seconds(setup, work), _evaluate(setup, work, layout, plans.shape)
    exchanged = np.sum([costs.parts[name] for name in _EXCHANGED], axis=0)
    hidden = hidden_seconds(setup, work, exchanged)
    if np.any(hidden):
        with np.errstate(invalid="ignore", divide="ignore"):
            left = np.where(exchanged > 0.0, 1.0 - hidden / exchanged, 1.0)
        parts = {name: part * left if name in _EXCHANGED else part for name, part in costs.parts.items()}
        costs = replace(costs, parts=parts, seconds=costs.seconds - hidden)
    costs = _not_before(host, costs)
    possible = takes_turns(setup, plans)
    if possible is not None:
        half = _evaluate(setup, setup.work(halved(setup, plans)), layout, plans.shape)
        turns = _not_before(
            2.0 * host, _in_turns(half, setup.assumptions.network.exchange_processors if work.prefill else 0.0)
        )
        better = (turns.seconds < costs.seconds) & possible
        costs = StepCosts(
            np.where(better, turns.seconds, costs.seconds),
            {name: np.where(better, turns.parts[name], part) for name, part in costs.parts.items()},
            {name: np.where(better, turns.busy[name], part) for name, part in costs.busy.items()},
        )
    costs = _not_before(streamed_seconds(setup, plans), costs, "host_memory")
    parts = {**costs.parts, "host": costs.parts["host"] + overhead_seconds(setup, plans)}
    if setup.levels is not None and not plans.prefill:
        beyond = setup.measured_factor(plans, prefill=False) - 1.0
        parts[MEASURED] = beyond * np.sum(list(parts.values()), axis=0)
    return replace(costs, parts=parts, seconds=np.sum(list(parts.values()), axis=0))


def _not_before(end: Array | float, costs: StepCosts, part: str = "host") -> StepCosts:
    """A step that ends no earlier than the host has launched its kernels, or has delivered what it holds."""
    left = np.maximum(end - costs.seconds, 0.0)
    return replace(costs, parts={**costs.parts, part: left}, seconds=costs.seconds + left)


def _evaluate(setup: Setup, work: Work, layout: TensorLayout, shape: tuple[int, ...]) -> StepCosts:
    network = Network.of(setup.hardware, setup.assumptions.network)
    parts = {name: np.zeros(shape) for name in PARTS}
    busy = {name: np.zeros(shape) for name in ("compute", "weights", "activations", "kv_cache")}
    for roofline in _rooflines(setup, work):
        memory_bound, shown = roofline.compute <= roofline.memory, roofline.shown
        some = _some(shown)
        parts["compute"] += np.where(memory_bound, shown * roofline.compute if some else 0.0, roofline.compute)
        for name in ("weights", "activations", "kv_cache"):
            moved = getattr(roofline, name)
            parts[name] += np.where(memory_bound, moved, shown * moved if some else 0.0)
        for name, seconds in busy.items():
            seconds += getattr(roofline, name)
    for operator in work.operators:
        for collective in operator.collectives.get(layout, ()):
            time = collective_parts(network, collective, work.tokens_sent(operator, collective))
            repeats = operator.repeats * collective.repeats
            if collective.kind == "point_to_point":
                parts["pipeline"] += repeats * (time.latency_seconds + time.bandwidth_seconds)
            else:
                parts[f"{collective.kind}_latency"] += repeats * time.latency_seconds
                parts[f"{collective.kind}_bandwidth"] += repeats * time.bandwidth_seconds
    parts["launches"] += launch_seconds(setup, work)
    return StepCosts(np.sum(list(parts.values()), axis=0), parts, busy)


#: Parts of a step that another half of the batch can work behind.
_EXCHANGED = ("all_reduce_latency", "all_reduce_bandwidth", "all_to_all_latency", "all_to_all_bandwidth", "pipeline")


def _in_turns(half: StepCosts, taken: float) -> StepCosts:
    """Two halves of a batch: of communication only what is longer than the other half's work counts.

    Work that goes on meanwhile lacks the share of the processors that are ``taken``.
    """
    exchanged = np.sum([half.parts[name] for name in _EXCHANGED], axis=0)
    slower = taken * exchanged
    worked = half.seconds - exchanged + slower
    with np.errstate(invalid="ignore", divide="ignore"):
        left = np.where(exchanged > worked, (exchanged - worked) / exchanged, 0.0)
    parts = {name: 2.0 * part * (left if name in _EXCHANGED else 1.0) for name, part in half.parts.items()}
    parts["compute"] = parts["compute"] + 2.0 * slower
    busy = {name: 2.0 * part for name, part in half.busy.items()}
    return StepCosts(np.sum(list(parts.values()), axis=0), parts, busy)


def operator_roofline(setup: Setup, operator: Operator, work: Work) -> Roofline:
    """Arithmetic and memory time of one row of the table, all its occurrences [s]."""
    repeats, rates = operator.repeats, setup.rates
    dense = repeats / rates.bytes_per_second
    weights = repeats / rates.weight_bytes_per_second(operator.dtype, operator.kind, operator.rates)
    compute_rate = repeats / rates.operator_flops_per_second(operator)
    cached = repeats * operator.kv_padding / rates.kv_bytes_per_second(operator)
    tokens, sequences = work.tokens_of(operator), work.sequences_of(operator)
    compute = operator.flop_per_token * compute_rate * tokens
    if _some(operator.flop_per_sequence):
        compute = compute + operator.flop_per_sequence * compute_rate * sequences
    cache = np.asarray(operator.kv_bytes_per_sequence * sequences)
    if _some(operator.shared_kv_bytes):
        cache = cache + operator.shared_kv_bytes
    return Roofline(
        np.asarray(compute * operator.padding),
        np.asarray(operator.weight_bytes * weights),
        np.asarray(operator.activation_bytes_per_token * dense * tokens),
        np.asarray(cache * cached),
        rates.shown(operator),
    )


def _some(values: Array | float) -> bool:
    """Return whether any of them is not 0; most entries of a table are plain numbers, for which numpy takes long."""
    return values != 0.0 if isinstance(values, float) else bool(values.any())


def _rooflines(setup: Setup, work: Work) -> list[Roofline]:
    """One roofline per operator, or a single one for the whole step."""
    rooflines = [operator_roofline(setup, operator, work) for operator in work.operators]
    if setup.assumptions.chip.overlap != "step":
        return rooflines
    compute, weights, activations, cache = (
        np.asarray(sum(getattr(roofline, name) for roofline in rooflines))
        for name in ("compute", "weights", "activations", "kv_cache")
    )
    return [Roofline(compute, weights, activations, cache)]


def _overlapped(setup: Setup, work: Work) -> Array:
    """Seconds of arithmetic and memory traffic, as far as one does not hide behind the other."""
    if setup.assumptions.chip.overlap != "step" or not work.even:
        return np.asarray(sum(roofline.seconds for roofline in _rooflines(setup, work)))
    # The longer of all arithmetic and all memory traffic, summed before the tokens are multiplied in.
    per_token: Array | float = 0.0
    per_sequence: Array | float = 0.0
    traffic: Array | float = 0.0
    fixed: Array | float = 0.0
    cached: Array | float = 0.0
    shared: Array | float = 0.0
    rates, bytes_per_second = setup.rates, setup.rates.bytes_per_second
    for operator in work.operators:
        rate = operator.repeats / rates.operator_flops_per_second(operator)
        per_token = per_token + operator.flop_per_token * rate * operator.padding
        if _some(operator.flop_per_sequence):
            per_sequence = per_sequence + operator.flop_per_sequence * rate * operator.padding
        traffic = traffic + operator.activation_bytes_per_token * operator.repeats
        slower = bytes_per_second / rates.weight_bytes_per_second(operator.dtype, operator.kind, operator.rates)
        fixed = fixed + operator.weight_bytes * (operator.repeats * slower)
        reads = operator.repeats * operator.kv_padding * (bytes_per_second / rates.kv_bytes_per_second(operator))
        cached = cached + operator.kv_bytes_per_sequence * reads
        if _some(operator.shared_kv_bytes):
            shared = shared + operator.shared_kv_bytes * reads
    moved = fixed + traffic * work.tokens + cached * work.sequences + shared
    return np.maximum(per_token * work.tokens + per_sequence * work.sequences, moved / bytes_per_second)


def hidden_seconds(setup: Setup, work: Work, exchanged: Array) -> Array | float:
    """Seconds of a step's communication that pass behind other work of it [s].

    Parameters
    ----------
    setup : Setup
        How: ``network.hidden`` and ``chip.prefetched_bytes``, without which nothing does.
    work : Work
        The operator table of the step.
    exchanged : ndarray, shape (...)
        Communication [s].

    Returns
    -------
    ndarray or float, shape (...)
        At most the communication, and at most the work [s].

    Notes
    -----
    Sections 2.2 (1) and 3.4 of Erdil (2025), which assumes that neither happens. Weights that are read ahead are at
    most what a chip holds of a layer, and shorten a step by no more than memory takes longer than arithmetic.
    """
    share, ahead = setup.assumptions.network.hidden, setup.assumptions.chip.prefetched_bytes
    if not (share or ahead):
        return 0.0
    rooflines = _rooflines(setup, work)
    hidden = share * np.minimum(exchanged, sum(roofline.seconds for roofline in rooflines))
    if ahead:
        reads, memory_seconds, compute = (
            sum(getattr(roofline, name) for roofline in rooflines) for name in ("weights", "memory", "compute")
        )
        of_a_layer = sum(row.weight_bytes * row.repeats for row in work.operators) / work.layers
        sooner = np.minimum(reads * np.minimum(ahead / of_a_layer, 1.0), np.maximum(memory_seconds - compute, 0.0))
        hidden = np.maximum(hidden, np.minimum(exchanged, sooner))
    return np.asarray(hidden)


def communication(network: Network, work: Work, layout: TensorLayout, operators: Iterable[Operator]) -> Array:
    """Seconds of the collectives of some rows [s]."""
    total = np.zeros(())
    for operator in operators:
        if not _some(operator.repeats):
            continue
        for collective in operator.collectives.get(layout, ()):
            repeats = operator.repeats * collective.repeats
            tokens = work.tokens_sent(operator, collective)
            total = total + repeats * collective_seconds(network, collective, tokens)
    return total


def launch_seconds(setup: Setup, work: Work) -> Array | float:
    """Time to launch the kernels that a step waits for [s]."""
    assumed = setup.assumptions
    if assumed.host.launches == "per_layer":
        return assumed.host.launches_per_layer * work.layers * assumed.host.launch
    return sum(operator.repeats * setup.rates.fixed_seconds(operator, work) for operator in work.operators)


def host_seconds(setup: Setup, work: Work) -> Array | float:
    """Time that the host takes to launch a step's kernels, ahead of the chip; 0 where graphs do it [s].

    Of a small step that reads prompts the host launches attention, and a graph for what is between.
    """
    assumed = setup.assumptions
    if assumed.host.launches == "per_layer" or (assumed.host.cuda_graphs and not work.prefill):
        return 0.0
    rates = setup.rates
    launching = sum(row.repeats * rates.kernels(row, work) for row in work.operators) * assumed.host.launch
    if not (assumed.host.cuda_graphs and assumed.host.captured_tokens):
        return launching
    # Rotations, which engines count with attention, are in the graphs.
    scores = (operator.repeats * operator.launches for operator in work.operators if operator.kind == "scores")
    pieces = sum(scores) + work.layers + 1.0
    tokens = work.tokens * work.fullest_tokens / work.groups
    return np.where(
        tokens <= assumed.host.captured_tokens, np.minimum(pieces * assumed.host.launch, launching), launching
    )


def streamed_seconds(setup: Setup, plans: Plans) -> Array | float:
    """Time to read what a step needs from the memory of the host, weights and caches, behind everything else [s].

    Notes
    -----
    What a layer reads arrives while layers before it work, so that a step takes the longer of both: the sum over
    layers of the longer one is at most that of the longest layer more. What prompts write out passes behind reading
    them, the other way over the link.
    """
    assumed, rate = setup.assumptions.capacity, setup.rates.host_bytes_per_second
    if not rate or not (assumed.host_weights or assumed.host_cache):
        return 0.0
    streamed = memory.streamed_bytes(setup, plans)
    if assumed.host_cache:
        streamed = streamed + memory.paged_bytes(setup.memory(plans), plans, setup.assumptions)
    return streamed / rate


def overhead_seconds(setup: Setup, plans: Plans) -> Array:
    """Time of the host per step that nothing hides [s]; each group of attention ranks has a host process of its own."""
    assumed = setup.assumptions
    overhead = np.asarray(assumed.host.step_overhead)
    if not assumed.host.sequence_overhead:
        return overhead
    return overhead + assumed.host.sequence_overhead * host_sequences(setup, plans)


def host_sequences(setup: Setup, plans: Plans) -> Array:
    """Sequences of a step that a host process has at most: those of the fullest group of attention ranks [1]."""
    layout = setup.assumptions.layout
    return np.asarray(plans.micro_batch / attention_groups(plans, layout) * fullest_group(plans, layout))


def mfu(
    setup: Setup,
    accelerators: npt.ArrayLike,
    batch: npt.ArrayLike,
    seconds: npt.ArrayLike,
    *,
    prompt: float | None = None,
) -> Array:
    """Time that the useful arithmetic would take at the theoretical peaks, over the time it takes [1].

    Parameters
    ----------
    setup : Setup
        What, on what, how; each operator counts against the peak of its own maths unit.
    accelerators, batch : array_like
        Instance and sequences [1], broadcastable to (...).
    seconds : array_like
        Time per token, or per prompt [s], broadcastable to (...).
    prompt : float, optional
        Prompt tokens of each sequence [tokens]; a decode step of one token if not given.
    """
    single = np.ones(())
    alone = Plans(single, single, single, single, single, new_tokens=prompt or 1, prefill=prompt is not None)
    useful = sum(
        row.repeats
        * (row.flop_per_token * alone.new_tokens + row.flop_per_sequence)
        / setup.peaks[setup.rates.unit(row.dtype)]
        for row in setup.work(alone).operators
    )
    return np.asarray(useful * np.asarray(batch) / (np.asarray(accelerators) * np.asarray(seconds)))
