"""Loads that closed forms are proven for, and others played request by request.

The limits are read off the player: see "Streams of requests" in docs/closed_loop.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from inference_econ.serving.load import SHARES, Loaded, loaded
from inference_econ.serving.services import Service
from inference_econ.serving.simulation import play
from inference_econ.serving.simulation.events import Server
from inference_econ.serving.simulation.trace import Trace

#: Share of the time that prompts may take, with as many requests in flight as there are on average, where steps carry
#: prompts beside decoding, and where decoding waits for them [1].
MIXED, PAUSED = 0.4, 0.3
#: Squared coefficient of variation of lengths, of prompts or of answers, beyond which no load is proven [1].
VARIATION = 0.15
#: Share of the requests that may wait at the end of a run for a server that keeps up [1].
_BACKLOG = 0.05
#: Requests of a run: so many, and so many times those in flight, at most.
_REQUESTS, _PER_FLIGHT, _MOST_REQUESTS = 3_000, 8, 12_000
#: So many times as many at most where arrivals come in crowds, of which there are fewer than of requests [1].
_MOST_CROWDS = 4.0


def is_unproven(service: Service, load: Loaded) -> bool:
    """Whether closed forms may be off by more than 5 % at a load that they say the instance completes.

    Parameters
    ----------
    service : Service
        One instance.
    load : Loaded
        From :func:`inference_econ.serving.load.loaded`. One that saturates the instance is never played: what it
        completes is that of full slots, and its queue has no steady state.
    """
    if load.saturated or service.requests.decode_steps <= 0.0:
        return False
    if max(service.requests.isl.scv, service.requests.osl.scv) > VARIATION:
        return True
    limit = MIXED if service.setup.assumptions.serving.prefill_chunk else PAUSED
    return float(service.at(max(load.in_flight, 1.0)).prefill_share) > limit


def served(service: Service, arrival_scv: float = 1.0) -> Callable[[float], Loaded]:
    """A service under steady streams of requests: by closed forms where they are proven, else played.

    Parameters
    ----------
    service : Service
        One instance.
    arrival_scv : float
        See :func:`inference_econ.serving.load.loaded` [1].

    Returns
    -------
    callable
        From arrivals at this instance [1/s] to its load; see :func:`played`.
    """
    by_playing = played(service, arrival_scv)

    def at(requests_per_second: float) -> Loaded:
        load = loaded(service, requests_per_second, arrival_scv=arrival_scv)
        return by_playing(requests_per_second) if is_unproven(service, load) else load

    return at


def played(service: Service, arrival_scv: float = 1.0) -> Callable[[float], Loaded]:
    """A service under steady streams of requests, each played request by request.

    Parameters
    ----------
    service : Service
        One instance.
    arrival_scv : float
        See :func:`inference_econ.serving.load.loaded` [1].

    Returns
    -------
    callable
        From arrivals at this instance [1/s] to its load, the same for the same rates: random numbers are. What the
        player asks the engine for is asked once for all rates. Loads that saturate the instance, and answers of one
        token, are left to closed forms. Raises as :func:`inference_econ.serving.load.loaded`.
    """
    known: list[tuple[int, Server]] = []

    def at(requests_per_second: float) -> Loaded:
        load = loaded(service, requests_per_second, arrival_scv=arrival_scv)
        if load.saturated or service.requests.decode_steps <= 0.0:
            return load
        if not known:
            several = min(_REQUESTS + _PER_FLIGHT * load.in_flight, _MOST_REQUESTS)
            count = round(several * min(max(arrival_scv, 1.0), _MOST_CROWDS))
            known.append((count, play.server(service, play.prompts(service, count))))
        count, simulated = known[0]
        trace = play.rehearse(service, requests_per_second, arrival_scv=arrival_scv, count=count, simulated=simulated)
        return seen(load, trace)

    return at


def seen(load: Loaded, trace: Trace) -> Loaded:
    """A load as its requests saw it when it was played; ``load`` is the same by closed forms.

    Of a run at whose end many wait, the queue grows without end: it saturates the server, which completes what it
    completed. Otherwise all that comes is completed in the end.
    """
    if not trace.requests_per_second:
        return load  # it ended before any request that came in its window was answered, and tells nothing
    summary = trace.summary()
    ttft, tpot = (
        {statistic: summary[name][statistic].value for statistic in ("mean", *SHARES)} for name in ("ttft", "tpot")
    )
    same = replace(
        load,
        in_flight=trace.in_flight,
        waiting=float(trace.in_flight_shares[-1]),
        ttft_seconds=ttft,
        tpot_seconds=tpot,
        played=True,
    )
    if trace.backlog <= _BACKLOG * trace.ttft.size:
        return same
    return replace(
        same,
        saturated=True,
        utilization=max(load.requests_per_second / trace.requests_per_second, 1.0),
        completed_per_second=min(trace.requests_per_second, load.requests_per_second),
        ttft_seconds=dict.fromkeys(ttft, np.inf),
    )
