"""A service played request by request in the simulated server: a second opinion on its load."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from inference_econ.engine.prefill import fastest_cut, prompts_together
from inference_econ.inputs.traffic import Length
from inference_econ.serving.services import Service
from inference_econ.serving.simulation import arrivals
from inference_econ.serving.simulation.events import Server, StepTable, simulate
from inference_econ.serving.simulation.trace import Trace

Array = npt.NDArray[np.float64]

#: Points of the tables of step times: batches or prompt tokens in equal ratios, and contexts over the mean one.
_SIZES, _CONTEXTS = 40, (0.0, 0.5, 1.0, 2.0, 4.0)
#: Requests of a rehearsal: so many, and so many times those that can be in flight, at most.
_LEAST, _PER_SLOT, _MOST = 6_000, 10, 40_000


def server(service: Service, longest: int) -> Server:
    """What the simulation needs to know of a service.

    Parameters
    ----------
    service : Service
        One instance.
    longest : int
        New tokens of the longest prompt [tokens].

    Returns
    -------
    Server
        With step times from the engine, interpolated. Cached tokens do not come in as new ones; they count as context.

    Notes
    -----
    Groups of chips and pipeline stages read prompts of their own. The simulated server reads one after the other,
    each in its share of the time of the instance.
    """
    chunk = service.setup.assumptions.serving.prefill_chunk
    requests = service.requests
    contexts = requests.mean_context * np.array(_CONTEXTS)
    steps = _decode_table(service, contexts)
    # Usual prompts are on the table, so that they are not interpolated.
    largest, usual = min(longest, chunk or longest), requests.new_tokens
    exact = [size for size in (usual, usual % (chunk or np.inf)) if 1.0 <= size <= largest]
    sizes = np.unique(np.append(np.rint(np.geomspace(1.0, largest, _SIZES)), exact))
    known = contexts if chunk else contexts[:1]
    read = [[service.reading(float(size), requests.cached + float(done)) for done in known] for size in sizes]
    alone = [[float(one.busy_seconds[0]) for one in row] for row in read]
    chips = [[float((one.busy_seconds * one.chip_share)[0]) for one in row] for row in read]
    return Server(
        lambda batch, context: steps(batch, context + requests.cached),
        StepTable(sizes.tolist(), known.tolist(), alone),
        service.slots,
        "chunked" if chunk else "prefill_first",
        int(chunk) or 1,
        StepTable(sizes.tolist(), known.tolist(), chips),
        groups=float(read[-1][0].seconds[0] / read[-1][0].busy_seconds[0]),
        steps_ahead=round(service.setup.assumptions.host.steps_ahead),
    )


def _decode_table(service: Service, contexts: Array) -> StepTable:
    """Decode steps by batch and context; of speculation rounds over the tokens that they give, at the mean context."""
    setup, plans = service.setup, service.plans
    if service.speculation is not None:
        return StepTable(service.batch.tolist(), [service.requests.mean_context], service.decode_seconds[:, None])
    batches = np.unique(np.rint(np.geomspace(1.0, service.slots, _SIZES)))
    rows = replace(plans, batch=np.maximum(batches, prompts_together(setup, plans)))
    seconds = [fastest_cut(replace(setup, context=float(context)), rows) for context in contexts]
    return StepTable(batches.tolist(), contexts.tolist(), np.stack(np.broadcast_arrays(*seconds), axis=-1))


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
    found = simulate(server(service, int(stream.isl.max())), stream)
    # A prompt takes longer than its share of the time of the instance where groups read several at a time.
    apart = service.prefill_seconds - service.prefill_busy_seconds + service.setup.assumptions.host.request_overhead
    return replace(found, ttft=found.ttft + apart, e2e=found.e2e + apart)


def law(length: Length) -> arrivals.LengthLaw:
    """How to draw lengths, as whole numbers [tokens]."""
    if length.kind == "uniform":
        return arrivals.uniform(round(length.values[0]), round(length.values[1]))
    if length.kind == "lognormal":
        return arrivals.lognormal(length.mean, length.scv)
    values = np.rint(length.values).astype(np.int64)
    return lambda size, random: random.choice(values, size, p=length.probabilities or None)
