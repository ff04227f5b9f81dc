"""Validated range of the analytical load model. Loads outside this range are simulated.

The limits come from comparisons with the simulator: see "Streams of requests" in docs/evidence/closed_loop.md.
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
from inference_econ.serving.simulation.arrivals import POISSON, ArrivalProcess, Gamma
from inference_econ.serving.simulation.events import Server
from inference_econ.serving.simulation.trace import Trace
from inference_econ.serving.statistics import of_constant

#: Largest share of instance time that prefill may take at the mean concurrency [1].
PROMPTS = 0.4
#: Largest ratio of the prefill time of a prompt to the decode time of a request at batch 1 [1]. Above this ratio,
#: prefills are so long and rare that their mean is not representative of a request.
SINGLE = 0.1
#: Largest squared coefficient of variation of prompt or output lengths [1].
VARIATION = 0.5
#: Largest utilization [1].
FILLED = 0.8
#: 99% quantile of the standard normal distribution [1].
_P99 = 2.33
#: Largest share of requests that may still queue at the end of a run on a server that keeps up [1].
_BACKLOG = 0.05
#: Approximate number of simulated runs per query [1].
_PLAYED = 6


def delays_prefill(service: Service) -> bool:
    """Check whether attention-DP groups of an instance delay prefill until every group has a prompt."""
    return service.setup.held_steps > 0.0 and float(reading_groups(service.setup, service.plans)[0]) > 1.0


def needs_simulation(service: Service, load: Loaded) -> bool:
    """Check whether latencies of the analytical model may be wrong by more than 10% at a load.

    Parameters
    ----------
    service : Service
        Instance, with its layout and workload.
    load : Loaded
        Load of the instance, predicted by :func:`inference_econ.serving.load.loaded`. A saturated load is never
        simulated, because its queue has no steady state.

    Returns
    -------
    bool
        True if an error above 10% is possible for the p50, p90 or p99 of TTFT, TPOT or end-to-end latency.
    """
    steps = service.requests.decode_steps
    if load.saturated or steps <= 0.0:
        return False
    # The analytical model uses only means and variances. These describe neither the TTFT under bursts nor correlated
    # lengths.
    if load.arrivals.scv > 1.0 or not service.requests.is_simple:
        return True
    if max(service.requests.isl.scv, service.requests.osl.scv) > VARIATION or load.utilization > FILLED * (1.0 + 1e-9):
        return True
    # If attention-DP groups delay prefill for each other, the analytical model has only the mean of this delay.
    if delays_prefill(service):
        return True
    # If the peak concurrency exceeds memory, requests queue for memory.
    if load.in_flight + _P99 * np.sqrt(load.in_flight) > max(service.slots, 1.0 + _P99):
        return True
    state = service.at(max(load.in_flight, 1.0))
    single = float(state.prefill_share / state.requests_per_second) / (steps * float(service.states.tpot_seconds[0]))
    return float(state.prefill_share) > PROMPTS or single > SINGLE


@dataclass(frozen=True)
class ServiceUnderLoad:
    """Callable that predicts the load of one replica from its request rate.

    The analytical model predicts loads in its validated range; all other loads are simulated. Simulations of different
    request rates use the same step times and random numbers.

    Attributes
    ----------
    service : Service
        Instance, with its layout and workload.
    arrivals : ArrivalProcess
        Arrival process of the whole workload, which replicas share.
    """

    service: Service
    arrivals: ArrivalProcess = POISSON

    @cached_property
    def _simulated(self) -> Server:
        return simulator.rehearsing(self.service, self.arrivals)

    def __call__(self, requests_per_second: float, replicas: int = 1) -> Loaded:
        """Predict the load of one replica at a request rate.

        Parameters
        ----------
        requests_per_second : float
            Rate of arrivals at this replica [1/s].
        replicas : int
            Number of replicas that share the workload [1].

        Raises
        ------
        InputError
            If the rate is not positive and finite.
        TooMuchError
            If the simulation takes too long.
        """
        load = loaded(self.service, requests_per_second, arrivals=self.arrivals.among(replicas))
        return self.played(load) if needs_simulation(self.service, load) else load

    def played(self, load: Loaded) -> Loaded:
        """Return a load with simulated latencies, even if the analytical model is valid at this load."""
        return seen(load, self.trace(load))

    def trace(self, load: Loaded) -> Trace:
        """Simulate a load.

        Raises
        ------
        TooMuchError
            If the simulation takes too long.
        """
        count = simulator.requests_of_a_run(self.service, self.arrivals)
        parts = simulator.parts_of_a_prompt(self.service)
        chunk = self.service.setup.assumptions.serving.prefill_chunk
        work = f"simulated requests, prompts in {parts:,.0f} steps of {chunk:g} tokens (--token-budget),"
        _work.check(work, seconds=_PLAYED * simulator.rehearsal_seconds(self.service, count), smaller="isl")
        return simulator.rehearse(
            self.service, load.requests_per_second, arrivals=load.arrivals, count=count, simulated=self._simulated
        )


def simulate_where_needed(service: Service, arrivals: ArrivalProcess = POISSON) -> ServiceUnderLoad:
    """Return the load model of a service: analytical where validated, else simulated."""
    return ServiceUnderLoad(service, arrivals)


def seen(load: Loaded, trace: Trace) -> Loaded:
    """Replace the latencies and the concurrency of an analytical load by simulated values.

    The load is saturated if many requests are still queued at the end of a run. In this case, the rate of completed
    requests is the simulated rate. This rule does not apply to recorded requests and rate curves, because their runs
    may end with a burst.
    """
    if not trace.requests_per_second:
        return load  # no request of the measurement window completed
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
