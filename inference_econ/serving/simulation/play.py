"""A service played request by request in the simulated server: a second opinion on its load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from inference_econ._types import Array
from inference_econ.engine import fastest_cut, group_steps, reading_groups, saved_seconds, unhindered
from inference_econ.inputs import Length
from inference_econ.serving.services import Service
from inference_econ.serving.shared_work import Parts
from inference_econ.serving.simulation import arrivals
from inference_econ.serving.simulation.arrivals import Counts, Stream
from inference_econ.serving.simulation.events import Server, simulate
from inference_econ.serving.simulation.step_table import StepTable
from inference_econ.serving.simulation.trace import Trace

#: Points of the tables of step times: batches or prompt tokens in equal ratios, and contexts over the mean one.
_SIZES, _CONTEXTS = 40, (0.0, 0.5, 1.0, 2.0, 4.0)
#: The same of what steps with decoding and prompts save [1].
_SAVED = 12
#: Requests of a rehearsal: so many, and so many times those that can be in flight, at most.
_LEAST, _PER_SLOT, _MOST = 6_000, 10, 40_000


def server(service: Service, lengths: Counts) -> Server:
    """What the simulation needs to know of a service.

    Parameters
    ----------
    service : Service
        One instance.
    lengths : ndarray of int, shape (n,)
        New tokens of the prompts that it will read [tokens].

    Returns
    -------
    Server
        With step times from the engine, interpolated. Cached tokens do not come in as new ones; they count as context.

    Notes
    -----
    Groups of attention ranks have requests of their own and step together. Pipeline stages read prompts in turn, each
    in its share of the time of the instance. Prompts that share a step take what as many of the mean length do.
    """
    chunk, longest = service.setup.assumptions.serving.prefill_chunk, int(lengths.max())
    requests = service.requests
    contexts = requests.mean_context * np.array(_CONTEXTS)
    steps, lone, most = _decode_tables(service, contexts)
    sizes = _prompt_sizes(service, longest)
    # Of a prompt that fits one chunk, a part may have been read before.
    done = contexts if longest > chunk > 0 else np.array([0.0, longest] if chunk else [0.0])
    read = [[service.reading(float(size), requests.cached + float(before)) for before in done] for size in sizes]
    alone = [[float(prompt.busy_seconds[0]) for prompt in row] for row in read]
    chips = [[float((prompt.busy_seconds * prompt.chip_share)[0]) for prompt in row] for row in read]
    groups, stages = round(float(reading_groups(service.setup, service.plans)[0])), float(service.plans.pp[0])
    own, together = _shared(service, groups, stages)
    return Server(
        lambda batch, context: steps(min(batch, most), context + requests.cached),
        StepTable(sizes.tolist(), done.tolist(), alone),
        service.slots,
        "chunked" if chunk else "prefill_first",
        int(chunk) or 1,
        StepTable(sizes.tolist(), done.tolist(), chips),
        together,
        stages=stages,
        steps_ahead=round(service.setup.assumptions.host.steps_ahead),
        groups=groups,
        lone_step_seconds=lambda batch, context: lone(batch, context + requests.cached),
        own_share=own,
        saved_seconds=_saved_table(service, groups, stages) if chunk and requests.decode_steps > 0 else None,
    )


def _prompt_sizes(service: Service, longest: int) -> Array:
    """Tokens that are read at a time; usual ones are among them, so that they are not interpolated [tokens]."""
    chunk, usual = service.setup.assumptions.serving.prefill_chunk, service.requests.new_tokens
    largest = min(longest, chunk or longest)
    exact = [size for size in (usual, usual % (chunk or np.inf)) if 1.0 <= size <= largest]
    return np.unique(np.append(np.rint(np.geomspace(1.0, largest, _SIZES)), exact))


def _shared(service: Service, groups: int, stages: float) -> tuple[float, Callable[[float, float], float]]:
    """Share of a prompt's work that is its group's own; and the work of prompts that share a step, over one by one.

    The latter of (prompts of the group that reads most, prompts of all) [1].
    """
    free, parts = unhindered(service.setup), Parts.of(service.setup, service.requests)
    counts = np.unique(np.rint(np.geomspace(1.0, parts.most, _SIZES)))
    plans = service.plans.column(counts[None])
    single = group_steps(free, plans, parts.tokens, parts.cached, counts[None], counts[None])[0]
    even = group_steps(free, plans, parts.tokens, parts.cached, groups * counts[None], counts[None])[0]
    own = 1.0
    if groups > 1:
        own = 1.0 - float(np.clip((even[0] - single[0]) / (groups - 1.0) / single[0], 0.0, 1.0))
    low, high = (values / single[0] for values in (single, even))

    def share(fullest: float, every: float) -> float:
        each = max(fullest / stages, 1e-9)
        most = max(each, 1.0)
        total = every / stages * most / each
        step = float(np.interp(most, counts, low))
        if groups > 1:
            step += (float(np.interp(most, counts, high)) - step) * (total - most) / ((groups - 1.0) * most)
        return step / (most * own + total * (1.0 - own))

    return own, share


def _saved_table(service: Service, groups: int, stages: float) -> Callable[[int, float], float]:
    """What steps with decoding requests and prompts take less than two [s]."""
    free, parts = unhindered(service.setup), Parts.of(service.setup, service.requests)
    batches = np.unique(np.rint(np.geomspace(1.0, service.slots, _SAVED)))
    counts = np.unique(np.rint(np.geomspace(1.0, parts.most * groups, _SAVED)))
    rows = service.plans.column(np.maximum(np.repeat(batches, counts.size), stages)[None])
    prompts = np.tile(counts, batches.size)[None]
    seconds = saved_seconds(free, rows, parts.tokens, parts.cached, prompts).reshape(batches.size, counts.size)
    table = StepTable(batches.tolist(), counts.tolist(), seconds)

    def saved(batch: int, every: float) -> float:
        each = every / stages
        inside = min(max(each, 1.0), counts[-1])
        return table(min(batch, int(batches[-1])), inside) * min(each, 1.0)

    return saved


def _decode_tables(service: Service, contexts: Array) -> tuple[StepTable, StepTable, int]:
    """Decode steps by batch and context, of groups that are equally full and of one by itself; and the largest batch.

    Of speculation rounds over the tokens that they give, at the mean context.
    """
    setup, plans, states = service.setup, service.plans, service.states
    groups = round(float(reading_groups(setup, plans)[0]))
    if service.speculation is not None:
        table = StepTable(states.batch.tolist(), [service.requests.mean_context], states.decode_seconds[:, None])
        return table, table, int(states.batch[-1])
    batches = np.unique(np.rint(np.geomspace(1.0, -(-service.slots // groups), _SIZES)))

    def of(sequences: Array, fullest: float) -> StepTable:
        rows = replace(plans, batch=np.maximum(sequences, plans.pp), fullest=fullest)
        seconds = [fastest_cut(replace(setup, context=float(context)), rows) for context in contexts]
        return StepTable(sequences.tolist(), contexts.tolist(), np.stack(np.broadcast_arrays(*seconds), axis=-1))

    return of(batches * groups, 1.0), of(batches, float(groups)), int(batches[-1]) * groups


def rehearse(
    service: Service,
    requests_per_second: float,
    *,
    arrival_scv: float = 1.0,
    count: int | None = None,
    seed: int = 0,
) -> Trace:
    """Play a random stream of requests through a service.

    Parameters
    ----------
    service : Service
        One instance.
    requests_per_second : float
        Arrivals at this instance [1/s].
    arrival_scv : float
        Squared coefficient of variation of the times between arrivals [1].
    count : int, optional
        Requests [1]; by default some thousands, more where many can be in flight.
    seed : int
        Of the random numbers.

    Returns
    -------
    Trace
        What the requests saw. Of a saturated service TTFT and waits depend on how long the stream is.

    Raises
    ------
    InputError
        If a rate, variation or count is impossible.
    """
    requests = service.requests
    number = min(_LEAST + _PER_SLOT * service.slots, _MOST) if count is None else count
    prompts, cached = law(requests.isl), round(requests.cached)
    stream = arrivals.draw(
        number,
        requests_per_second,
        lambda size, random: np.maximum(prompts(size, random) - cached, 1),
        law(requests.osl),
        scv=arrival_scv,
        seed=seed,
    )
    return play(service, server(service, stream.isl), stream)


def play(
    service: Service, simulated: Server, stream: Stream, *, warm_up: float = 0.1, cool_down: float = 0.05
) -> Trace:
    """Play a stream of requests through a service.

    Parameters
    ----------
    service : Service
        One instance.
    simulated : Server
        The same from :func:`server`.
    stream : Stream
        What arrives; its prompts without what is cached.
    warm_up, cool_down : float
        See :func:`inference_econ.serving.simulation.events.simulate` [1].

    Returns
    -------
    Trace
        What the requests saw, each with the time that is spent on it apart from others.
    """
    seen = simulate(simulated, stream, warm_up=warm_up, cool_down=cool_down)
    # A prompt takes longer than its share of the time of the instance where groups read several at a time.
    apart = service.prefill_seconds - service.prefill_busy_seconds + service.setup.assumptions.host.request_overhead
    return replace(seen, ttft=seen.ttft + apart, e2e=seen.e2e + apart)


def law(length: Length) -> arrivals.LengthLaw:
    """How to draw lengths, as whole numbers [tokens]."""
    if length.kind == "uniform":
        return arrivals.uniform(round(length.values[0]), round(length.values[1]))
    if length.kind == "lognormal":
        return arrivals.lognormal(length.mean, length.scv)
    values = np.rint(length.values).astype(np.int64)
    return lambda size, random: random.choice(values, size, p=length.probabilities or None)
