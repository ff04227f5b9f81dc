"""View of a load generator on a server in a run that begins and ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from inference_econ._types import Array
from inference_econ.inputs import Requests
from inference_econ.serving import Server, Service, Trace
from inference_econ.serving.simulation import arrivals, play

#: Of the random arrivals, or lengths, of a run that is played [1].
_SEED = 0
#: Rounds and requests of a closed loop that are played at least, if it has as many [1].
_PLAYED_ROUNDS, _PLAYED_REQUESTS = 5, 640


@dataclass(frozen=True, slots=True)
class Run:
    """Report of a load generator on a run.

    Attributes
    ----------
    trace : Trace
        What requests saw.
    weights : ndarray, shape (n,)
        Requests of the run that each of them stands for [1].
    requests_per_second : float
        Over the whole run, from its beginning to its last token [1/s].
    """

    trace: Trace
    weights: Array
    requests_per_second: float

    def typical(self, values: Array, *, median: bool) -> float:
        """Mean or median over the run of a value of each request, shape (n,); what is unknown is left out."""
        present = ~np.isnan(values)
        values, weights = values[present], self.weights[present]
        if not median:
            return float(np.average(values, weights=weights))
        order = np.argsort(values)
        share = np.cumsum(weights[order]) / weights.sum()
        return float(np.interp(0.5, share - weights[order] / weights.sum() / 2.0, values[order]))


def closed_loop(service: Service, simulated: Server, clients: int, count: int, spread: float) -> Run:
    """A run of a closed loop from the first request to the last, played through the server.

    Parameters
    ----------
    service : Service
        One instance.
    simulated : Server
        The same; see :func:`inference_econ.serving.simulation.play.server`.
    clients : int
        Requests at a time, all of which come at once when the run begins [1].
    count : int
        Requests of the run, at least as many as clients [1].
    spread : float
        Longest less shortest length, over the mean, of uniform lengths; 0 if all are equal [1].

    Returns
    -------
    Run
        Of a long run its beginning, its end and some rounds in between, which stand for all others.
    """
    number = min(count, max(_PLAYED_ROUNDS * clients, _PLAYED_REQUESTS))
    random = np.random.default_rng(_SEED)
    isl, osl = (
        uniform_lengths(mean, spread, number, random)
        for mean in (service.requests.new_tokens, service.requests.osl.mean)
    )
    trace = play.play(service, simulated, arrivals.Loop(clients, isl, osl), warm_up=0.0, cool_down=0.0)
    ends = np.sort(trace.arrival + trace.e2e)
    weights, seconds = np.ones(number), float(ends[-1])
    if number < count:
        middle = number - 2 * clients
        weights[clients:-clients] = (count - 2 * clients) / middle
        seconds += (float(weights[clients]) - 1.0) * float(ends[middle] - ends[0])
    return Run(trace, weights, count / seconds)


def uniform_lengths(mean: float, spread: float, count: int, random: np.random.Generator) -> arrivals.Counts:
    """Uniform lengths as evenly as can be, in random order [tokens]."""
    places = (np.arange(count) + 0.5) / count - 0.5
    return random.permutation(np.maximum(np.rint(mean * (1.0 + spread * places)), 1.0).astype(np.int64))


def played(service: Service, simulated: Server, requests_per_second: float, count: int) -> tuple[Trace, float]:
    """A run of random arrivals from the first to the last, played through the server.

    Parameters
    ----------
    service : Service
        One instance.
    simulated : Server
        The same for prompts of :func:`prompt_tokens`; see :func:`inference_econ.serving.simulation.play.server`.
    requests_per_second : float
        Offered to it [1/s].
    count : int
        Requests of the run [1].

    Returns
    -------
    (Trace, float)
        What its requests saw, and the time from its beginning to the last token [s].
    """
    isl, osl = prompt_tokens(service), max(round(service.requests.osl.mean), 1)
    stream = arrivals.draw(count, requests_per_second, arrivals.fixed(isl), arrivals.fixed(osl), seed=_SEED)
    # As long as such a run is on average.
    stretched = stream.arrival * (count / requests_per_second / float(stream.arrival[-1]))
    trace = play.play(service, simulated, replace(stream, arrival=stretched), warm_up=0.0, cool_down=0.0)
    return trace, float(np.max(stretched + trace.e2e))


def decode_steps(requests: Requests, spread: float, count: int) -> Array:
    """Decode steps of the answers of a run: of :func:`uniform_lengths`, at least one each [1]."""
    lengths = uniform_lengths(requests.osl.mean, spread, count, np.random.default_rng(_SEED))
    return np.maximum(lengths.astype(float) - 1.0, 1.0)


def prompt_tokens(service: Service) -> int:
    """New tokens of every prompt of a run: the mean [tokens]."""
    return max(round(service.requests.new_tokens), 1)


def ends(service: Service, spread: float) -> arrivals.Counts:
    """New tokens of the shortest and the longest prompt of a run with uniform lengths [tokens]."""
    mean = service.requests.new_tokens
    return np.maximum(np.rint([mean * (1.0 - spread / 2.0), mean * (1.0 + spread / 2.0)]), 1.0).astype(np.int64)
