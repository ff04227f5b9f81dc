"""Simulate a service with random or recorded requests; the step times come from the cost model."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count as count_from
from itertools import pairwise
from typing import Any

import numpy as np

from inference_econ._types import Array, distinct
from inference_econ.engine import (
    fastest_cut,
    group_steps,
    needed_memory,
    reading_groups,
    request_seconds,
    saved_seconds,
    unhindered,
)
from inference_econ.inputs import Length, Requests
from inference_econ.serving.lengths import captured_ends, levels, quantiles
from inference_econ.serving.services import Service
from inference_econ.serving.simulation.arrivals import (
    POISSON,
    ArrivalProcess,
    Changing,
    Counts,
    Demand,
    LengthLaw,
    Recorded,
    Stream,
    arrivals_of,
    draw,
)
from inference_econ.serving.simulation.arrivals import Parts as BlockParts
from inference_econ.serving.simulation.events import KvCacheMemory, Router, Server, StepTimes, Tier, simulate
from inference_econ.serving.simulation.trace import StepTable, Trace
from inference_econ.serving.steady import Parts, decode_steps

#: Grid of the step-time tables: number of batches or prompt sizes, and contexts relative to the mean context [1].
_SIZES, _CONTEXTS = 40, (0.0, 0.5, 1.0, 2.0, 4.0)
#: Grid of the prefill tables: number of prompt sizes, and numbers of earlier tokens relative to the mean context [1].
#: Between grid points, times are nearly linear.
_PROMPT_SIZES, _READ = 16, (0.0, 1.0, 4.0)
#: Number of batches in the table if prompts have similar lengths, and largest ratio of lengths that are similar [1].
_FEW, _NEARLY = 16, 1.5
#: Grid of the time that steps with decode and prefill tokens save: number of batches, and number of prompt sizes [1].
_SAVED, _SAVED_PROMPTS = 8, 12
#: Maximum number of prompt tokens per step if the token budget is unlimited [tokens].
_NO_LIMIT = 2**17
#: Number of requests in a simulated run: minimum, addition per slot (concurrent request), and maximum [1].
_LEAST, _PER_SLOT, _MOST = 3_000, 4, 12_000
#: Largest factor on the number of simulated requests for bursty arrivals [1]. A run has fewer bursts than requests, so
#: bursty arrivals need more requests.
_MOST_CROWDS = 4.0
#: Factor on the number of simulated requests if the request rate follows a curve [1].
_OF_A_CURVE = 2.0
#: Most instances that are simulated together, if prompts are recorded as blocks [1].
_MOST_TOGETHER = 4
#: Minimum number of recorded requests in a run, unless the recording is shorter [1].
_LEAST_RECORDED = 200
#: Measured run times of the simulator [s]: per request, per prompt chunk, per request and attention-DP group, and per
#: request if the simulation tracks cache blocks.
_REQUEST_SECONDS, _PART_SECONDS, _GROUP_SECONDS, _BLOCKS_SECONDS = 3e-5, 3e-6, 7e-7, 2.5e-4


def server(
    service: Service,
    lengths: Counts,
    *,
    prefill_first: bool = False,
    slots: int | None = None,
    tiers: tuple[Tier, ...] = (),
) -> Server:
    """Build the simulated server of a service.

    Parameters
    ----------
    service : Service
        Instance, with its layout and workload.
    lengths : ndarray of int, shape (n,)
        Numbers of new tokens in the prompts [tokens]. If these lengths are similar, step times are computed for fewer
        prompt sizes.
    prefill_first : bool
        True if decoding pauses until all waiting prompts are processed; without a token budget, decoding always pauses.
    slots : int, optional
        Maximum number of concurrent requests, if cached prefixes are simulated block by block [1]. By default, all
        requests have the mean number of cached tokens.
    tiers : tuple of Tier
        Offload tiers.

    Returns
    -------
    Server
        Server with interpolated step times. Cached tokens are part of the context, but not of the prompt lengths.

    Notes
    -----
    Attention-DP groups have separate requests and step together. Each pipeline stage processes one prompt after the
    other. The GPU time of several prompts in a step equals the time of mean prompts with the same total length.
    """
    assumed, requests, chunk = service.setup.assumptions, service.requests, _chunk(service)
    groups, longest = _groups(service), int(lengths.max())
    few = not slots and bool(longest <= _NEARLY * lengths.min())
    # Prompt lengths exclude cached tokens, unless prefixes are simulated block by block.
    cached = 0.0 if slots else requests.cached
    cache = _cache(service, cached)
    service = service if slots is None else replace(service, slots=slots)
    first = float(lengths.min()) + requests.cached
    ends = distinct([first, 2.0 * requests.mean_context - first])
    contexts, sizes = (ends, _FEW) if few else (requests.mean_context * np.array(_CONTEXTS), _SIZES)
    steps, lone, most = _decode_tables(service, contexts, sizes, cached)
    alone, chips = _prompt_tables(service, longest, cached, few=few)
    together, whole = _together(service, longest), prefill_first or not chunk
    if service.speculation is None:
        times = StepTimes(steps, alone, chips, together, lone)
    else:
        times = StepTimes(
            lambda batch, context: steps(min(batch, most), context), alone, chips, together, lone,
            round_tokens=_round_table(service),
        )  # fmt: skip
    if not whole and requests.decode_steps > 0:
        times = replace(times, saved_seconds=_saved_table(service))
    return Server(
        times,
        service.slots,
        "prefill_first" if whole else "chunked",
        int(chunk) or _NO_LIMIT,
        stages=float(service.plans.pp[0]),
        steps_ahead=round(assumed.host.steps_ahead),
        groups=groups,
        dealing=service.setup.dealing,
        most_prompts=math.inf if chunk else 1.0,
        held_steps=round(service.setup.held_steps) if groups > 1 else 0,
        cache=cache,
        tiers=tiers,
    )


def _chunk(service: Service) -> float:
    """Token budget per step; 0 if unlimited [tokens]."""
    return service.setup.assumptions.serving.prefill_chunk


def _groups(service: Service) -> int:
    """Number of attention-DP groups [1]."""
    return round(float(reading_groups(service.setup, service.plans)[0]))


def _cache(service: Service, cached: float) -> KvCacheMemory | None:
    """KV-cache memory of each attention-DP group in blocks; None if output tokens need no additional memory.

    The memory of a request is a linear function of its context, through the memory at the start and at the end of a
    mean output. Recurrent states and attention windows are a constant number of tokens. The KV-cache memory is at least
    the mean need at maximum concurrency.
    """
    setup, requests, rules, groups = service.setup, service.requests, service.setup.admission, _groups(service)
    block, batch = setup.assumptions.capacity.kv_block, -(-service.slots // groups) * groups
    plans = replace(service.plans, batch=np.array([float(batch)]))
    first = math.ceil(requests.isl.mean / block) * block
    last = first + math.ceil(requests.osl.mean / block) * block
    held = []
    for context in (first, last):
        needed = needed_memory(replace(setup, context=float(context), spread=0.0), plans, service.speculation)
        prefix = float(np.ravel(needed.prefix_bytes)[0])
        held.append((float(np.ravel(needed.kv_bytes)[0]) - prefix) / batch)
    weights, _, available = needed.of_one_plan()
    of_a_token = (held[1] - held[0]) / (last - first)
    if of_a_token <= 0.0:
        return None
    fixed = max(round(held[0] / of_a_token - first + cached), 0)
    usual = math.ceil((fixed + requests.mean_context - cached) / block)
    blocks = max(int((available - weights - prefix) / groups / of_a_token / block), usual * batch // groups)
    if rules is None:
        return KvCacheMemory(blocks, block, fixed)
    return KvCacheMemory(blocks, block, fixed, rules.own_answer, rules.other_answers, rules.evicted)


def _prompt_tables(service: Service, longest: int, cached: float, *, few: bool) -> tuple[StepTable, StepTable]:
    """Tables of the time and of the GPU time of steps with one prompt chunk, by new tokens and earlier tokens."""
    chunk, requests = _chunk(service), service.requests
    largest = min(longest, int(chunk) or longest)
    # If a prompt fits in one chunk, it may still have cached tokens before it.
    several = longest > chunk > 0 or cached < requests.cached
    if few:
        usual = max(min(requests.new_tokens, float(largest)), 1.0)
        sizes, done = distinct([max(usual / 2.0, 1.0), usual]), np.array([0.0, longest] if several else [0.0])
    else:
        # Common sizes are grid points, so that their times are exact.
        exact = [
            size for size in (requests.new_tokens, requests.new_tokens % (chunk or np.inf)) if 1.0 <= size <= largest
        ]
        spread = np.rint(np.geomspace(1.0, largest, _PROMPT_SIZES))
        sizes = distinct([*spread, *exact, *captured_ends(service.setup, float(largest))])
        done = requests.mean_context * np.array(_READ) if several else np.array([0.0, longest] if chunk else [0.0])
    known = {(requests.new_tokens, requests.cached): service.prompt}
    read = [
        [known.get((size, cached + before)) or service.reading(size, cached + before) for before in done.tolist()]
        for size in sizes.tolist()
    ]
    alone = np.array([[float(prompt.busy_seconds[0]) for prompt in row] for row in read])
    chips = np.array([[float((prompt.busy_seconds * prompt.chip_share)[0]) for prompt in row] for row in read])
    # Preempted requests have prompts of any length.
    ends = np.array([1.0, chunk or _NO_LIMIT])
    return _with_ends(sizes, done, alone, ends), _with_ends(sizes, done, chips, ends)


def _with_ends(sizes: Array, done: Array, seconds: Array, ends: Array) -> StepTable:
    """Create a table of step times, extrapolated linearly to the sizes ``ends`` and never below 0.

    If the table has only one size, its times apply to all sizes.
    """
    points = distinct(np.concatenate([sizes, ends]))
    if sizes.size == 1:
        return StepTable(points.tolist(), done.tolist(), np.broadcast_to(seconds, (points.size, done.size)))
    below = np.clip(np.searchsorted(sizes, points, "right") - 1, 0, sizes.size - 2)
    share = ((points - sizes[below]) / (sizes[below + 1] - sizes[below]))[:, None]
    values = seconds[below] + share * (seconds[below + 1] - seconds[below])
    return StepTable(points.tolist(), done.tolist(), np.maximum(values, 0.0))


def _together(service: Service, longest: int) -> Callable[[int, int], float]:
    """GPU time of a step with mean prompts, by prompt tokens of the fullest group and of all groups [s].

    The number of mean prompts in a step is the number of tokens divided by the mean length, and may be fractional.
    """
    free, parts = unhindered(service.setup), Parts.of(service.setup, service.requests)
    chunk, groups, stages = _chunk(service), _groups(service), float(service.plans.pp[0])
    largest = float(chunk or longest)
    usual = [tokens for tokens in (parts.tokens, stages * parts.tokens) if tokens < largest]
    sizes = np.rint(np.geomspace(1.0, largest, _SIZES))
    tokens = distinct([*sizes, *usual, *captured_ends(service.setup, largest), chunk or _NO_LIMIT])
    # Number of micro-batches in the pipeline: one per prompt, up to the number of stages.
    batches = np.clip(tokens / parts.tokens, 1.0, stages)
    counts = tokens / parts.tokens / batches
    plans = service.plans.column(counts[None])
    even = single = group_steps(free, plans, parts.tokens, parts.cached, counts[None], counts[None])[0]
    if groups > 1:
        even = group_steps(free, plans, parts.tokens, parts.cached, groups * counts[None], counts[None])[0]
    # Times of the fullest group alone, and of equally full groups. Micro-batches run one after the other.
    table = StepTable(tokens.tolist(), [0.0, 1.0], (np.stack([single, even], axis=-1) * batches[:, None]) / stages)

    def seconds(fullest: int, every: int) -> float:
        along = 0.0 if groups == 1 else (every - fullest) / ((groups - 1.0) * fullest)
        return table(fullest, along)

    return seconds


def _saved_table(service: Service) -> Callable[[int, int], float]:
    """Time that a step with decode and prefill tokens saves, compared with two separate steps [s]."""
    free, parts = unhindered(service.setup), Parts.of(service.setup, service.requests)
    batches, stages = distinct(np.rint(np.geomspace(1.0, service.slots, _SAVED))), float(service.plans.pp[0])
    largest = _groups(service) * _chunk(service)
    usual = [tokens for tokens in (parts.tokens, stages * parts.tokens) if tokens < largest]
    tokens = distinct([*np.rint(np.geomspace(1.0, largest, _SAVED_PROMPTS)), *usual])
    passes = np.clip(tokens / parts.tokens, 1.0, stages)
    rows = service.plans.column(np.maximum(np.repeat(batches, tokens.size), stages)[None])
    prompts = np.tile(tokens / parts.tokens / passes, batches.size)[None]
    seconds = saved_seconds(free, rows, parts.tokens, parts.cached, prompts).reshape(batches.size, tokens.size)
    table, last = StepTable(batches.tolist(), tokens.tolist(), seconds * passes / stages), int(batches[-1])
    return lambda batch, every: table(min(batch, last), every)


def _decode_tables(service: Service, contexts: Array, sizes: int, cached: float) -> tuple[StepTable, StepTable, int]:
    """Tables of decode step times by batch and context: for equally full groups, and if all requests are in one group.

    The third result is the largest batch. With speculation, the step time is the time of a round divided by its tokens,
    at the mean context.
    """
    setup, plans, groups = service.setup, service.plans, _groups(service)
    if service.speculation is not None:
        batches, seconds = service.decoding()
        rounds, first = np.unique(batches, return_index=True)  # one batch if the concurrency is 1
        table = StepTable(rounds.tolist(), [service.requests.mean_context], seconds[first, None])
        return table, table, int(rounds[-1])
    batches = distinct(np.rint(np.geomspace(1.0, -(-service.slots // groups), sizes)))

    def of(sequences: Array, fullest: float) -> StepTable:
        rows = replace(plans, batch=np.maximum(sequences, plans.pp), fullest=fullest)
        seconds = [fastest_cut(replace(setup, context=float(context)), rows) for context in contexts]
        seen = (contexts - cached).tolist()
        return StepTable(sequences.tolist(), seen, np.stack(np.broadcast_arrays(*seconds), axis=-1))

    even = of(batches * groups, 1.0)
    return even, even if groups == 1 else of(batches, float(groups)), int(batches[-1]) * groups


def _round_table(service: Service) -> Callable[[int], float]:
    """Number of tokens per request and speculation round, by batch [1]."""
    batches = distinct(service.decoding()[0])
    plans = service.plans.column(batches[None])
    tokens = np.broadcast_to(decode_steps(service.setup, plans, service.speculation)[1], (1, batches.size))
    table, last = StepTable(batches.tolist(), [0.0], tokens.T), int(batches[-1])
    return lambda batch: table(min(batch, last), 0.0)


def rehearse(
    service: Service,
    requests_per_second: float,
    *,
    arrivals: ArrivalProcess = POISSON,
    count: int | None = None,
    seed: int = 0,
    simulated: Server | None = None,
) -> Trace:
    """Simulate a stream of random or recorded requests on a service.

    Parameters
    ----------
    service : Service
        Instance, with its layout and workload.
    requests_per_second : float
        Rate of arrivals at this replica [1/s].
    arrivals : ArrivalProcess
        Arrival process.
    count : int, optional
        Number of requests [1]; by default some thousands, and more at a high maximum concurrency.
    seed : int
        Seed of the random numbers.
    simulated : Server, optional
        Result of :func:`rehearsing` for this service; by default, the function builds a new server.

    Returns
    -------
    Trace
        Latencies, and rates per instance. If the service is saturated, TTFT and queueing time grow with the number of
        simulated requests. If the workload has recorded prefix blocks, all instances behind a prefix-aware router are
        simulated. Otherwise, a single simulated instance represents all instances.

    Raises
    ------
    InputError
        If a rate, variation or count is out of range.
    """
    number = requests_of_a_run(service, arrivals) if count is None else count
    size = block_tokens(service)
    recorded = service.requests.arrivals
    fewer = 1.0 if recorded is None or recorded.rate is None else recorded.rate / requests_per_second
    # Instances are simulated together, because the router selects the instance with a prompt's cached prefix.
    together = max(min(round(fewer), _MOST_TOGETHER), 1) if size else 1
    stream = stream_of(service.requests, together * requests_per_second, arrivals, number, seed, size)
    simulated = _server_of(service, stream) if simulated is None else simulated
    return play(service, simulated, stream, instances=together, router="prefix_aware").of_one(together)


def _server_of(service: Service, stream: Stream) -> Server:
    """Build the simulated server of a service.

    If the stream lists cache blocks, cached prefixes are simulated block by block.
    """
    return server(service, stream.isl, slots=None if stream.parts is None else service.slots)


def block_tokens(service: Service) -> int:
    """Size of a cache block, for workloads with recorded prefix blocks [tokens].

    The size is 0 if the workload has no recorded blocks, or if requests need no memory per token.
    """
    cache = _cache(service, 0.0) if service.requests.blocks else None
    return 0 if cache is None else cache.block_tokens


def stream_of(
    requests: Requests,
    requests_per_second: float,
    arrivals: ArrivalProcess,
    count: int,
    seed: int = 0,
    block_tokens: int = 0,
) -> Stream:
    """Stream of a workload's requests at a mean rate [1/s]; prompt lengths exclude cached tokens.

    Recorded requests arrive once, at their recorded times. At lower rates, only every n-th recorded request is used, as
    if n servers shared the recording. If prompts are recorded as blocks and ``block_tokens`` is positive, the stream
    lists cache blocks, and prompt lengths include cached tokens. The requests are then in recorded order under every
    arrival process.
    """
    if requests.table is None:
        prompts, cached = length_sampler(requests.isl), round(requests.cached)

        def unread(size: int, random: np.random.Generator) -> Counts:
            return np.maximum(prompts(size, random) - cached, 1)

        return draw(count, requests_per_second, unread, length_sampler(requests.osl), arrivals=arrivals, seed=seed)
    rows = np.array(requests.table.rows)
    offered = requests.arrivals
    if offered is not None and offered.gaps and (isinstance(arrivals, Recorded) or block_tokens):
        fewer = float(1.0 / np.mean(offered.gaps)) / requests_per_second
        every = max(min(round(fewer), len(rows) // _LEAST_RECORDED), 1)
        chosen, times = rows[::every], np.cumsum(offered.gaps)[::every] * (fewer / every)
        if not isinstance(arrivals, Recorded):
            times = arrivals.times(len(chosen), requests_per_second, np.random.default_rng([seed, 0]))
        if block_tokens:
            isl, osl = (np.maximum(np.rint(chosen[:, column]), 1.0).astype(np.int64) for column in (0, 1))
            return Stream(times, isl, osl, _parts(requests, isl.tolist(), every, block_tokens))
    else:
        order, place = (np.random.default_rng([seed, stream]) for stream in range(2))
        times = arrivals.times(count, requests_per_second, order)
        below = np.cumsum(rows[:, 3]) / np.sum(rows[:, 3])
        chosen = rows[place.permutation(np.searchsorted(below, levels(count)))]
    new, answers = (np.maximum(np.rint(values), 1.0) for values in (chosen[:, 0] - chosen[:, 2], chosen[:, 1]))
    return Stream(times, new.astype(np.int64), answers.astype(np.int64))


def _parts(requests: Requests, prompts: list[int], every: int, block_tokens: int) -> list[BlockParts]:
    """Convert recorded prefix blocks into runs of full cache blocks.

    A recorded block is split if some prompts contain only the first part of the block.
    """
    size, ends = requests.block_tokens, defaultdict[int, set[int]](set)
    chosen: list[list[tuple[int, int]]] = []
    for blocks, tokens in zip(requests.blocks[::every], prompts, strict=True):
        whole = [min(place * size, tokens) // block_tokens for place in range(len(blocks) + 1)]
        chosen.append([(block, end - begin) for block, (begin, end) in zip(blocks, pairwise(whole), strict=True)])
        for block, count in chosen[-1]:
            ends[block].add(count)
    names = count_from(0)
    of_a_block = {
        block: [(end, next(names), end - before) for before, end in pairwise(sorted({0, *counts}))]
        for block, counts in ends.items()
    }
    return [
        tuple((name, part) for block, count in prompt for end, name, part in of_a_block[block] if end <= count)
        for prompt in chosen
    ]


def requests_of_a_run(service: Service, arrivals: ArrivalProcess) -> int:
    """Number of requests in one simulation run [1].

    The number grows with the maximum concurrency and the burstiness, but not with the request rate. Simulations at
    different rates therefore have the same request lengths and, up to a time scale, the same arrivals. For this reason,
    random noise cannot hide the effect of a small change of the rate.
    """
    if isinstance(arrivals, Recorded):
        return len(arrivals.seconds)
    return round(min(_LEAST + _PER_SLOT * service.slots, _MOST) * _crowds(arrivals))


def _crowds(arrivals: ArrivalProcess) -> float:
    """Factor on the number of simulated requests for bursty arrivals; 1 for Poisson arrivals [1]."""
    if isinstance(arrivals, Changing):
        return _OF_A_CURVE
    return min(max(arrivals.scv, 1.0), _MOST_CROWDS)


def parts_of_a_prompt(service: Service) -> float:
    """Number of steps in the prefill of a mean prompt [1]."""
    chunk = _chunk(service)
    return max(service.requests.new_tokens / chunk, 1.0) if chunk else 1.0


def rehearsal_seconds(service: Service, count: int) -> float:
    """Estimated run time of :func:`rehearse` with ``count`` requests [s].

    The estimate depends on the number of requests, prompt chunks, cache blocks and groups.
    """
    lone = _BLOCKS_SECONDS if service.requests.blocks else _REQUEST_SECONDS
    return count * (lone + _PART_SECONDS * parts_of_a_prompt(service) + _GROUP_SECONDS * _groups(service))


def rehearsing(service: Service, arrivals: ArrivalProcess = POISSON) -> Server:
    """Build the server that :func:`rehearse` simulates. The server can be used at any request rate."""
    count = round(_MOST * _crowds(arrivals))
    arrivals = arrivals_of(service.requests, 1.0)
    return _server_of(service, stream_of(service.requests, 1.0, arrivals, count, block_tokens=block_tokens(service)))


def play(
    service: Service,
    simulated: Server,
    stream: Demand,
    *,
    warm_up: float = 0.1,
    cool_down: float = 0.05,
    instances: int = 1,
    router: Router = "least_busy",
    stop_after: int | None = None,
) -> Trace:
    """Simulate requests on a service.

    Parameters
    ----------
    service : Service
        Instance, with its layout and workload.
    simulated : Server
        Simulated server, from :func:`server` for this service.
    stream : Demand
        Requests to simulate. Prompt lengths exclude cached tokens, except in sessions and in streams that list cache
        blocks. The CPU time per request delays the next request of a client or session.
    warm_up, cool_down : float
        Shares of the first and the last arrivals that are not measured [1].
    instances, router, stop_after
        See :func:`inference_econ.serving.simulation.events.simulate`.

    Returns
    -------
    Trace
        Latencies, including the CPU time per request.
    """
    settings: dict[str, Any] = {"instances": instances, "router": router, "stop_after": stop_after}
    run = partial(simulate, simulated, warm_up=warm_up, cool_down=cool_down, **settings)
    return with_cpu_time(service, stream, run)


def with_cpu_time(service: Service, stream: Demand, run: Callable[[Demand], Trace]) -> Trace:
    """Run a simulation of a service, and add the CPU time per request to its latencies."""
    # If groups process several prompts at once, the prefill of a prompt takes longer than its share of instance time.
    apart = service.prefill_seconds - service.prefill_busy_seconds
    setup, cached = service.setup, service.requests.cached
    seen = run(stream.delayed(setup, cached))
    waits = np.full(seen.ttft.shape, apart)
    if isinstance(stream, Stream):
        tokens_found = cached if stream.parts is None else sum(seen.found_tokens.values())
        waits += request_seconds(setup, np.asarray(tokens_found, dtype=float))
    return replace(seen, ttft=seen.ttft + waits, e2e=seen.e2e + waits)


def length_sampler(length: Length) -> LengthLaw:
    """Return a function that samples integer lengths [tokens]; samples are stratified and in random order."""

    def drawn(size: int, random: np.random.Generator) -> Counts:
        tokens = np.rint(quantiles(length, levels(size)))
        return np.asarray(np.maximum(random.permutation(tokens), 1.0), dtype=np.int64)

    return drawn
