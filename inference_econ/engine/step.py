"""Time of a step, from the operator table, sustained rates and overlap assumptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from inference_econ._by_identity import by_identity
from inference_econ._types import Array
from inference_econ.engine import memory
from inference_econ.engine.collectives import Network, collective_parts, collective_seconds
from inference_econ.engine.layouts.plans import Plans, attention_groups, fullest_group
from inference_econ.engine.layouts.startable import any_takes_turns
from inference_econ.engine.operators.table import Operator
from inference_econ.engine.operators.work import Work
from inference_econ.engine.power import CLOCKS, at_clock, capped_seconds, chip_power, step_joules
from inference_econ.engine.setup import Setup
from inference_econ.inputs import BYTES_PER_ELEMENT, Assumptions, TensorLayout

T = TypeVar("T")
#: Parts of the time of a step. Where arithmetic and memory traffic overlap, the overlapped time is included only in the
#: longer of both.
PARTS = (
    *("compute", "weights", "activations", "kv_cache", "all_reduce_latency", "all_reduce_bandwidth"),
    *("all_to_all_latency", "all_to_all_bandwidth", "pipeline", "launches", "host", "host_memory"),
)
#: Additional part of a step's time if a measured correction applies: corrected minus predicted time.
MEASURED = "measured"


@dataclass(frozen=True, slots=True, eq=False)
class StepCosts:
    """Time of one engine step, in total and by part.

    Attributes
    ----------
    seconds : ndarray, shape (...)
        Total time [s].
    parts : mapping of str to ndarray
        Times by part, whose sum is ``seconds`` [s]. Keys are :data:`PARTS`, and :data:`MEASURED` if there is a measured
        correction.
    busy : mapping of str to ndarray
        Time of arithmetic, and of each kind of memory traffic, including overlapped time [s].
    """

    seconds: Array
    parts: Mapping[str, Array]
    busy: Mapping[str, Array]


class Roofline(NamedTuple):
    """Arithmetic time and memory time of one operator, or of all operators of a step [s].

    ``shown`` is the share of the shorter of both times that does not overlap with the longer time [1].
    """

    compute: Array
    weights: Array
    activations: Array
    kv_cache: Array
    shown: Array | float = 0.0

    @property
    def memory(self) -> Array:
        """Time of all memory traffic [s]."""
        return self.weights + self.activations + self.kv_cache

    @property
    def seconds(self) -> Array:
        """Time of arithmetic and memory traffic with overlap [s]."""
        longer = np.maximum(self.compute, self.memory)
        return np.asarray(longer + self.shown * np.minimum(self.compute, self.memory)) if _some(self.shown) else longer


def step_seconds(setup: Setup, plans: Plans, work: Work | None = None, *, launches: bool = True) -> list[Array]:
    """Time of a step for every plan, feasible or infeasible, and for each split of weight matrices (1D, 2D).

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions.
    plans : Plans
        Deployments, shape (...).
    work : Work, optional
        Operator table of the plans, if it is already computed.
    launches : bool
        False to leave out the CPU time of kernel launches.

    Returns
    -------
    list of ndarray, each of shape (...)
        Time for each split in ``assumptions.layout.tensor_layouts`` [s]. The splits differ only in communication.

    Notes
    -----
    For ``overlap: step``, the time is eq. (29) of Erdil (2025). For ``operator``, each operator has its own roofline.
    For ``none``, arithmetic and memory traffic do not overlap.
    """
    if setup.hardware.power_cap is not None:
        chip = chip_power(setup.hardware)
        assert chip is not None
        work = setup.work(plans) if work is None else work
        joules = step_joules(setup, chip, plans)
        slower = (at_clock(setup, clock) for clock in CLOCKS)
        by_cut = zip(*(step_seconds(each, plans, work, launches=launches) for each in slower), strict=True)
        return [capped_seconds(joules, list(times), chip) for times in by_cut]
    measured = 1.0 if plans.prefill else setup.measured_factor(plans, prefill=False)
    host = setup.assumptions.host
    if host.cuda_graphs and host.launches == "per_operator" and not (plans.prefill or np.any(plans.riding)):
        setup = unhindered(setup)  # CUDA graphs need no launches, so that both setups share the cached result
    totals = without_levels(setup, plans, "step", lambda: _unmeasured_seconds(setup, plans, work))(launches)
    return [np.broadcast_to(total * measured, plans.shape) for total in totals]


def unhindered(setup: Setup) -> Setup:
    """Setup in which kernel launches take no time."""
    return replace(setup, assumptions=_without_launches(setup.assumptions))


@by_identity
def _without_launches(assumptions: Assumptions) -> Assumptions:
    # An unchanged object keeps its identity, so that cached results apply.
    return assumptions.changed({"host.launch": 0.0}) if assumptions.host.launch else assumptions


#: Maximum number of cached results [1], and the results with their setups.
_MOST_KNOWN = 512
_KNOWN: dict[tuple[object, ...], tuple[Setup, Any]] = {}


def without_levels(setup: Setup, plans: Plans, what: object, compute: Callable[[], T]) -> T:
    """Cache the result of a function for setups that differ only in measured corrections or prices.

    Parameters
    ----------
    setup, plans : Setup, Plans
        Arguments of the function; the function must not use the measured corrections or the price.
    what : hashable
        Name of the function, and its arguments other than ``setup`` and ``plans``.
    compute : callable
        Function without arguments that computes the result.
    """
    # The setups in the cache keep these objects alive, so that no other object gets the same identity.
    objects = map(id, (setup.model, setup.hardware, setup.assumptions, *setup.engines))
    lengths = setup.context, setup.spread, setup.shared_prefix, setup.contexts
    key = (what, *objects, setup.precision, *lengths, plans.contents)
    found = _KNOWN.get(key)
    if found is None:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        found = _KNOWN[key] = setup, compute()
    result: T = found[1]
    return result


def _unmeasured_seconds(setup: Setup, plans: Plans, work: Work | None) -> Callable[[bool], list[Array]]:
    """Time of a step as in :func:`step_seconds`, without measured corrections, as a function of ``launches``."""
    possible = takes_turns(setup, plans)
    if possible is not None:
        work = setup.work(_with_halves(setup, plans))
    elif work is None:
        work = setup.work(plans)
    work = work.merged()
    alone, exchanged = _alone_and_exchanged(setup, work)
    by_layer, host = setup.assumptions.host.launches == "per_layer", host_seconds(setup, work)
    launching: Array | float = launch_seconds(setup, work) if by_layer else 0.0
    whole = [alone + seconds - hidden_seconds(setup, work, seconds) for seconds in exchanged]
    overhead, streamed = overhead_seconds(setup, plans) + cpu_seconds(setup, work), streamed_seconds(setup, plans)
    if possible is not None:
        # ``taken`` is the share of the GPU's processors that communication kernels use while other work runs.
        taken = setup.assumptions.network.exchange_processors if work.prefill else 0.0
        shape = (2, *plans.shape)
        working = np.broadcast_to(alone, shape)[1]
        sent = [np.broadcast_to(seconds, shape)[1] for seconds in exchanged]
        whole, (host, overhead) = (
            [np.broadcast_to(values, shape)[0] for values in every] for every in (whole, (host, overhead))
        )

    def seconds(launches: bool) -> list[Array]:
        fewer, least = (0.0, host) if launches else (launching, 0.0)
        totals = [np.maximum(total - fewer, least) for total in whole]
        if possible is not None:
            turns = [2.0 * np.maximum(np.maximum(working - fewer + taken * each, each), least) for each in sent]
            totals = [
                np.where(possible, np.minimum(total, turn), total) for total, turn in zip(totals, turns, strict=True)
            ]
        return [np.maximum(total, streamed) + overhead for total in totals]

    return seconds


def _with_halves(setup: Setup, plans: Plans) -> Plans:
    """Plans with their full and with half batches, along a new first axis."""
    full, half = replace(plans, fullest=fullest_group(plans, setup.assumptions.layout)), halved(setup, plans)
    names = ("batch", "fullest", "riding") if np.any(plans.riding) else ("batch", "fullest")
    pairs = {name: (getattr(full, name), getattr(half, name)) for name in names}
    return full.stacked(**{name: pair for name, pair in pairs.items() if pair[0] is not pair[1]})


def takes_turns(setup: Setup, plans: Plans) -> npt.NDArray[np.bool_] | None:
    """True for plans that may use two-batch overlap; None if no plan may use it."""
    kind = setup.assumptions.network.two_batch_overlap
    if kind == "never":
        return None
    if kind == "when_faster":
        return np.ones((), dtype=bool)
    possible = any_takes_turns(setup.engines, setup.model, setup.hardware.generation, plans)
    return possible if possible.any() else None


def halved(setup: Setup, plans: Plans) -> Plans:
    """Return plans with half of each batch, for two-batch overlap.

    In decode, each half-batch has at least one sequence per attention-DP group.
    """
    layout = setup.assumptions.layout
    ratio = fullest_group(plans, layout)
    if plans.prefill or np.any(plans.riding):
        return replace(plans, batch=plans.batch / 2.0, riding=plans.riding / 2.0, fullest=ratio)
    least = attention_groups(plans, layout) * plans.pp
    half = np.maximum(plans.batch / 2.0, least)
    return replace(plans, batch=half, fullest=np.maximum(plans.batch / 2.0 * ratio, least) / half)


def _alone_and_exchanged(setup: Setup, work: Work) -> tuple[Array, list[Array]]:
    """Time of operators and kernel launches, and time of communication for each split of weight matrices [s]."""
    network = Network.of(setup.hardware, setup.assumptions.network)
    alone = _overlapped(setup, work) + launch_seconds(setup, work)
    layouts = setup.assumptions.layout.tensor_layouts
    return alone, [communication(network, work, layout, work.operators) for layout in layouts]


def evaluate(setup: Setup, plans: Plans, layout: TensorLayout) -> StepCosts:
    """Compute the time of a step by part; the total equals :func:`step_seconds`.

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions.
    plans : Plans
        Deployments, shape (...).
    layout : {'1d', '2d'}
        Split of weight matrices, along one dimension (1D) or along both (2D).

    Returns
    -------
    StepCosts
        Total time and its parts, as arrays of shape (...) [s].
    """
    if setup.hardware.power_cap is not None:
        costs = evaluate(at_clock(setup, 1.0), plans, layout)
        seconds = step_seconds(setup, plans)[setup.assumptions.layout.tensor_layouts.index(layout)]
        # A lower clock slows down only arithmetic.
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
    parts["host_memory"] = parts["host_memory"] + cpu_seconds(setup, work)
    if setup.levels is not None and not plans.prefill:
        beyond = setup.measured_factor(plans, prefill=False) - 1.0
        parts[MEASURED] = beyond * np.sum(list(parts.values()), axis=0)
    return replace(costs, parts=parts, seconds=np.sum(list(parts.values()), axis=0))


def _not_before(end: Array | float, costs: StepCosts, part: str = "host") -> StepCosts:
    """Extend a step that is shorter than ``end``, for example until the CPU has launched all kernels."""
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


#: Parts of a step that overlap with the other half-batch in two-batch overlap.
_EXCHANGED = ("all_reduce_latency", "all_reduce_bandwidth", "all_to_all_latency", "all_to_all_bandwidth", "pipeline")


def _in_turns(half: StepCosts, taken: float) -> StepCosts:
    """Time of a step with two-batch overlap, from the time of a half-batch, by part.

    Communication adds time only if it takes longer than the computation of the other half-batch.

    Computation slows down by the share of the GPU's processors that communication uses (``taken``).
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
    """Arithmetic and memory time of one operator, over all of its occurrences in a step [s]."""
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
    """True if any value is not 0; plain floats, which are frequent, are tested without slower numpy calls."""
    return values != 0.0 if isinstance(values, float) else bool(values.any())


def _rooflines(setup: Setup, work: Work) -> list[Roofline]:
    """One roofline per operator, or a single roofline for the step, depending on the assumed overlap."""
    rooflines = [operator_roofline(setup, operator, work) for operator in work.operators]
    if setup.assumptions.chip.overlap != "step":
        return rooflines
    compute, weights, activations, cache = (
        np.asarray(sum(getattr(roofline, name) for roofline in rooflines))
        for name in ("compute", "weights", "activations", "kv_cache")
    )
    return [Roofline(compute, weights, activations, cache)]


def _overlapped(setup: Setup, work: Work) -> Array:
    """Time of arithmetic and memory traffic with overlap [s]."""
    if setup.assumptions.chip.overlap != "step" or not work.even:
        return np.asarray(sum(roofline.seconds for roofline in _rooflines(setup, work)))
    # The time is the longer of total arithmetic and total memory traffic. Operators are summed before the
    # multiplication by tokens, so that arrays are small.
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
    """Time of a step's communication that overlaps with other work of the step [s].

    Parameters
    ----------
    setup : Setup
        Setup with the assumptions ``network.hidden`` and ``chip.prefetched_bytes``; if both are 0, nothing overlaps.
    work : Work
        Operator table of the step.
    exchanged : ndarray, shape (...)
        Time of communication [s].

    Returns
    -------
    ndarray or float, shape (...)
        Overlapped time [s], at most the time of communication and at most the time of the operators.

    Notes
    -----
    Sections 2.2 (1) and 3.4 of Erdil (2025) assume no overlap of communication. At most the weights of one layer are
    prefetched during communication. Prefetching shortens a step by at most the time by which memory traffic exceeds
    arithmetic.
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
    """Time of the collectives of some operators [s]."""
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
    """Time of kernel launches on the critical path of a step [s]."""
    assumed = setup.assumptions
    if assumed.host.launches == "per_layer":
        return assumed.host.launches_per_layer * work.layers * assumed.host.launch
    return sum(operator.repeats * setup.rates.fixed_seconds(operator, work) for operator in work.operators)


def host_seconds(setup: Setup, work: Work) -> Array | float:
    """CPU time to launch the kernels of a step, which overlaps with the chip's work [s]; 0 for decode with CUDA graphs.

    With CUDA graphs, small prefill steps launch attention kernels one by one, and the operators between two attention
    layers as one graph.
    """
    assumed = setup.assumptions
    if assumed.host.launches == "per_layer" or (assumed.host.cuda_graphs and not work.prefill):
        return 0.0
    rates = setup.rates
    launching = sum(row.repeats * rates.kernels(row, work) for row in work.operators) * assumed.host.launch
    captured = setup.captured_tokens
    if not captured:
        return launching
    # Engines launch rotary embeddings together with attention, but they are part of the graphs.
    scores = (operator.repeats * operator.launches for operator in work.operators if operator.kind == "scores")
    pieces = sum(scores) + work.layers + 1.0
    tokens = work.tokens * work.fullest_tokens / work.groups
    return np.where(tokens <= captured, np.minimum(pieces * assumed.host.launch, launching), launching)


def streamed_seconds(setup: Setup, plans: Plans) -> Array | float:
    """Time to read weights and KV cache from host memory in a step, which overlaps with all other work [s].

    Notes
    -----
    The data of a layer arrive while earlier layers are computed, so a step takes the longer of the read time and the
    time of other work. The error of this assumption is at most the time of the longest layer. Writes of the KV cache of
    prefilled tokens use the other direction of the link and overlap with reads.
    """
    assumed, rate = setup.assumptions.capacity, setup.rates.host_bytes_per_second
    if not rate or not (assumed.host_weights or assumed.host_cache) or setup.assumptions.cpu.layers:
        return 0.0
    streamed = memory.streamed_bytes(setup, plans)
    if assumed.host_cache:
        streamed = streamed + memory.paged_bytes(setup.memory(plans), plans, setup.assumptions)
    return streamed / rate


def cpu_seconds(setup: Setup, work: Work) -> Array | float:
    """Time that layers in host memory add to a step, while the chip waits [s].

    Notes
    -----
    In small steps, the CPU computes the layers in host memory, and arithmetic overlaps with reads from host memory. In
    larger steps, the chip computes these layers. Their weights and KV cache are first copied over the host link, once
    per ``cpu.copied_together`` tokens. Activations cross the host link once in each direction.
    """
    if not work.in_host_memory:
        return 0.0
    assumed, rows, tokens, sequences = setup.assumptions.cpu, work.in_host_memory, work.tokens, work.sequences
    width = setup.model.hidden_size * BYTES_PER_ELEMENT[setup.precision.activations]
    weights = sum(row.repeats * row.weight_bytes for row in rows)
    cache = sum(row.repeats * (row.kv_bytes_per_sequence * sequences + row.shared_kv_bytes) for row in rows)
    flop = sum(row.repeats * (row.flop_per_token * tokens + row.flop_per_sequence * sequences) for row in rows)
    rate = assumed.memory_bandwidth * assumed.memory_efficiency
    computed = np.maximum(flop / assumed.flops_per_second, (weights + cache) / rate)
    copied = weights * np.ceil(tokens / assumed.copied_together) + cache
    link = setup.rates.host_bytes_per_second
    return np.asarray(np.where(tokens < assumed.copied_from, computed, copied / link) + 2.0 * width * tokens / link)


def overhead_seconds(setup: Setup, plans: Plans) -> Array:
    """CPU time per step during which the chip waits [s]; each attention-DP group runs in a separate process."""
    assumed = setup.assumptions
    overhead = np.asarray(assumed.host.step_overhead)
    if not assumed.host.sequence_overhead:
        return overhead
    return overhead + assumed.host.sequence_overhead * host_sequences(setup, plans)


def host_sequences(setup: Setup, plans: Plans) -> Array:
    """Number of sequences in a step of the fullest attention-DP group, which one CPU process handles [1]."""
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
    """Model FLOPs utilization (MFU): time of the useful arithmetic at peak rates, divided by the actual time [1].

    Parameters
    ----------
    setup : Setup
        Model, chip, formats and assumptions. Operators use the peak of the math unit on which they run.
    accelerators, batch : array_like
        Number of accelerators of the instance, and number of its sequences [1], broadcastable to (...).
    seconds : array_like
        Time per token, or per prompt [s], broadcastable to (...).
    prompt : float, optional
        Prompt tokens of each sequence in a prefill [tokens]; by default, a decode step of one token is assumed.
    """
    single = np.ones(())
    alone = Plans(single, single, single, single, single, new_tokens=prompt or 1, prefill=prompt is not None)
    work = setup.work(alone)
    on_cpu = work.in_host_memory if alone.new_tokens < setup.assumptions.cpu.copied_from else ()
    useful = sum(
        row.repeats
        * (row.flop_per_token * alone.new_tokens + row.flop_per_sequence)
        / setup.peaks[setup.rates.unit(row.dtype)]
        for row in (*work.operators, *on_cpu)
    )
    return np.asarray(useful * np.asarray(batch) / (np.asarray(accelerators) * np.asarray(seconds)))
