"""Loads that closed forms are proven for, and others played request by request.

The limits are read off the player: see "Streams of requests" in docs/evidence/closed_loop.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from inference_econ import _work
from inference_econ.engine import reading_groups
from inference_econ.serving.load import Loaded, loaded
from inference_econ.serving.services import Service
from inference_econ.serving.simulation import simulator
from inference_econ.serving.simulation.arrivals import POISSON, ArrivalProcess, Changing, Gamma, Recorded
from inference_econ.serving.simulation.events import Server
from inference_econ.serving.simulation.trace import Trace
from inference_econ.serving.statistics import of_constant

#: Share of the time that prompts may take, with as many requests in flight as there are on average [1].
PROMPTS = 0.4
#: Time that one prompt may take, over that of an answer by itself: longer ones come too seldom for an average [1].
SINGLE = 0.1
#: Squared coefficient of variation of lengths, of prompts or of answers, beyond which no load is proven [1].
VARIATION = 0.5
#: Share of what an instance completes beyond which no load is proven [1].
FILLED = 0.8
#: Standard deviations of a Poisson-distributed number up to its 99th percentile [1].
_P99 = 2.33
#: Share of the requests that may wait at the end of a run for a server that keeps up [1].
_BACKLOG = 0.05
#: Requests of a run: so many, and so many times those that can be in flight, at most.
_REQUESTS, _PER_FLIGHT, _MOST_REQUESTS = 3_000, 4, 12_000
#: Runs that a question plays before it has its answer, about [1].
_PLAYED = 6
#: So many times as many at most where arrivals come in crowds, of which there are fewer than of requests [1].
_MOST_CROWDS = 4.0
#: So many times as many where their rate follows a curve, whose crowds are those of its intervals [1].
_OF_A_CURVE = 2.0


def needs_simulation(service: Service, load: Loaded) -> bool:
    """Return whether closed forms may be off by more than 10 % at a load that they say the instance completes.

    Parameters
    ----------
    service : Service
        One instance.
    load : Loaded
        From :func:`inference_econ.serving.load.loaded`. One that saturates the instance is never played: what it
        completes is that of full slots, and its queue has no steady state.

    Returns
    -------
    bool
        Of the median, the 90th or the 99th percentile of TTFT, TPOT or request latency.
    """
    steps = service.requests.decode_steps
    if load.saturated or steps <= 0.0:
        return False
    # Two moments say too little of the TTFT under bursts, and nothing of lengths that know of each other.
    if load.arrivals.scv > 1.0 or not service.requests.is_simple:
        return True
    if max(service.requests.isl.scv, service.requests.osl.scv) > VARIATION or load.utilization > FILLED * (1.0 + 1e-9):
        return True
    # Groups that wait for each other: of the waits the mean alone is known.
    if service.setup.held_steps and float(reading_groups(service.setup, service.plans)[0]) > 1.0:
        return True
    # As many as there are at the worst of times must have room, or memory is what requests wait for.
    if load.in_flight + _P99 * np.sqrt(load.in_flight) > max(service.slots, 1.0 + _P99):
        return True
    state = service.at(max(load.in_flight, 1.0))
    single = float(state.prefill_share / state.requests_per_second) / (steps * float(service.states.tpot_seconds[0]))
    return float(state.prefill_share) > PROMPTS or single > SINGLE


@dataclass(frozen=True)
class ServiceUnderLoad:
    """A service under steady streams of requests: by closed forms where they are proven, else played.

    What the player asks the engine for is asked once for all rates, and all rates have the same random numbers.

    Attributes
    ----------
    service : Service
        One instance.
    arrivals : ArrivalProcess
        How the whole traffic arrives.
    """

    service: Service
    arrivals: ArrivalProcess = POISSON

    @cached_property
    def _simulated(self) -> Server:
        return simulator.rehearsing(self.service, round(_MOST_REQUESTS * _crowds(self.arrivals)))

    def __call__(self, requests_per_second: float, replicas: int = 1) -> Loaded:
        """Its load at a rate of its own, as one of some replicas; raises as :func:`inference_econ.serving.load.loaded`.

        Parameters
        ----------
        requests_per_second : float
            Arrivals at this instance [1/s].
        replicas : int
            Instances that the whole traffic is dealt to [1].

        Raises
        ------
        TooMuchError
            If it is played, and takes too long.
        """
        load = loaded(self.service, requests_per_second, arrivals=self.arrivals.among(replicas))
        return self.played(load) if needs_simulation(self.service, load) else load

    def played(self, load: Loaded) -> Loaded:
        """A load of closed forms as its requests see it where it is played, even if it need not be.

        Raises
        ------
        TooMuchError
            If it takes too long.
        """
        count = requests_of_a_run(self.service, self.arrivals)
        parts = simulator.parts_of_a_prompt(self.service)
        chunk = self.service.setup.assumptions.serving.prefill_chunk
        work = f"simulated requests, prompts in {parts:,.0f} steps of {chunk:g} tokens (--token-budget),"
        _work.check(work, seconds=_PLAYED * simulator.rehearsal_seconds(self.service, count), smaller="isl")
        trace = simulator.rehearse(
            self.service,
            load.requests_per_second,
            arrivals=load.arrivals,
            count=count,
            simulated=self._simulated,
        )
        return seen(load, trace)


def simulate_where_needed(service: Service, arrivals: ArrivalProcess = POISSON) -> ServiceUnderLoad:
    """A service under steady streams of requests; see :class:`Served`."""
    return ServiceUnderLoad(service, arrivals)


def requests_of_a_run(service: Service, arrivals: ArrivalProcess) -> int:
    """Requests that are played, more where more can be in flight, or come in crowds [1].

    As many at every rate, so that all rates have the same lengths, and arrivals that differ by a factor alone: what a
    little more traffic does is not hidden by chance.
    """
    if isinstance(arrivals, Recorded):
        return len(arrivals.seconds)
    return round(min(_REQUESTS + _PER_FLIGHT * service.slots, _MOST_REQUESTS) * _crowds(arrivals))


def _crowds(arrivals: ArrivalProcess) -> float:
    """How many times as many requests are played as of Poisson arrivals [1]."""
    if isinstance(arrivals, Changing):
        return _OF_A_CURVE
    return min(max(arrivals.scv, 1.0), _MOST_CROWDS)


def seen(load: Loaded, trace: Trace) -> Loaded:
    """A load as its requests saw it when it was played; ``load`` is the same by closed forms.

    Of a run at whose end many wait, the queue grows without end: it saturates the server, which completes what it
    completed. Otherwise all that comes is completed in the end, as it is of recorded requests and of curves of rates:
    a run of them may end behind a crowd.
    """
    if not trace.requests_per_second:
        return load  # it ended before any request that came in its window was answered, and tells nothing
    ttft, tpot, e2e, e2e_per_token = (
        trace.statistics(name) for name in ("ttft", "tpot", "e2e", "e2e_per_output_token")
    )
    same = replace(
        load,
        in_flight=trace.in_flight,
        waiting=float(trace.in_flight_shares[-1]),
        ttft_seconds=ttft,
        tpot_seconds=tpot,
        e2e_seconds=e2e,
        e2e_seconds_per_output_token=e2e_per_token,
        played=True,
    )
    if trace.backlog <= _BACKLOG * trace.ttft.size or not isinstance(load.arrivals, Gamma):
        return same
    endless = of_constant(np.inf)
    return replace(
        same,
        saturated=True,
        utilization=max(load.requests_per_second / trace.requests_per_second, 1.0),
        completed_per_second=min(trace.requests_per_second, load.requests_per_second),
        ttft_seconds=endless,
        e2e_seconds=endless,
        e2e_seconds_per_output_token=endless,
    )
