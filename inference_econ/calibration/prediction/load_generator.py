"""What a load generator sees of a server in a run that begins and ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.engine import prompts_of_a_step, prompts_together
from inference_econ.inputs import Requests
from inference_econ.serving import Server, Service, Trace
from inference_econ.serving.simulation import arrivals, play

#: Of the random arrivals, or lengths, of a run that is played [1].
_SEED = 0


def first_round(service: Service, prompts: npt.ArrayLike) -> tuple[Array, Array]:
    """When those that come to an empty server at the same time get their first token: the first, and the last [s]."""
    setup, count = service.setup, np.asarray(prompts, dtype=float)
    each = service.shared_prefill_seconds(count)
    most = prompts_together(setup, service.plans) * prompts_of_a_step(setup, service.requests.new_tokens)
    overhead = setup.assumptions.host.request_overhead
    own = service.prefill_seconds + overhead
    first = np.minimum(count, float(most[0])) * each
    return np.maximum(first + overhead, own), np.maximum(count * each + overhead, own)


def with_start(steady: float, share: float, first: float, last: float, *, median: bool) -> float:
    """Mean or median of a time that is the same in the steady state, and spread evenly at the start of a run.

    Parameters
    ----------
    steady : float
        Time of those that come later [s].
    share : float
        Of all, those that the run starts with [1].
    first, last : float
        Their shortest and longest time [s].
    median : bool
        The median of all, otherwise the mean.

    Examples
    --------
    >>> with_start(1.0, 0.1, 2.0, 6.0, median=False), with_start(1.0, 0.1, 2.0, 6.0, median=True)
    (1.3, 1.0)
    """
    if not median:
        return (1.0 - share) * steady + share * (first + last) / 2.0
    shorter = share * min(max((steady - first) / max(last - first, 1e-12), 0.0), 1.0)
    if shorter <= 0.5 <= shorter + 1.0 - share:
        return steady
    place = 0.5 if shorter > 0.5 else 0.5 - (1.0 - share)
    return first + place / share * (last - first)


def rounds(service: Service, prompts: float, spread: float, count: int) -> tuple[Array, float]:
    """A closed loop whose requests come in rounds, on an engine that reads all prompts before it goes on decoding.

    Parameters
    ----------
    service : Service
        One instance.
    prompts : float
        Requests at a time, n [1].
    spread : float
        Longest less shortest output length, over the mean [1].
    count : int
        Rounds of the run [1].

    Returns
    -------
    (ndarray, float)
        Mean time that a prompt waits for others in each round, and what prompts of others add to the decoding of a
        request [s].

    Notes
    -----
    All come together, decode together and, of equal length, end together: the next round finds the server as the
    first did. Prompts take P each; a request waits for half of the others before its first token and for the other
    half after it. Of uniform lengths of the relative width w, requests end over w sqrt(k - 1) of the time of decoding
    in round k, as the differences of k - 1 lengths add up, and those who end later wait for prompts of those who end
    before. Where this is longer than reading n prompts takes, nobody waits for a round.
    """
    each = float(service.shared_prefill_seconds(prompts))
    work = prompts * each
    decode = service.requests.decode_steps * float(service.step_seconds(prompts))
    windows = spread * np.sqrt(np.arange(count)) * decode
    waits = np.maximum(work - each - windows, 0.0) / 2.0
    later = (work - each) / 2.0
    return waits, later if spread == 0.0 else 2.0 * later


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
    """Decode steps of the answers of a run, uniform about the mean.

    Parameters
    ----------
    requests : Requests
        Whose answers have some steps on average.
    spread : float
        Longest less shortest length, over the mean [1].
    count : int
        Requests of the run [1].
    """
    random = np.random.default_rng(_SEED).uniform(-0.5, 0.5, count)
    return np.maximum(requests.decode_steps * (1.0 + spread * random), 1.0)


def prompt_tokens(service: Service) -> int:
    """New tokens of every prompt of a run: the mean [tokens]."""
    return max(round(service.requests.new_tokens), 1)
