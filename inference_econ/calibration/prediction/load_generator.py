"""What a load generator sees of a server in a run that begins and ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from inference_econ.engine.prefill import fastest_cut, prompts_together, unhindered
from inference_econ.serving.services import Service
from inference_econ.serving.simulation import arrivals
from inference_econ.serving.simulation.events import Server, simulate
from inference_econ.serving.simulation.trace import Trace

Array = npt.NDArray[np.float64]

#: Of the random arrivals of a run that is played [1].
_SEED = 0


def together_seconds(service: Service, prompts: npt.ArrayLike) -> Array:
    """Time of the instance that each of some prompts takes if they are read together.

    Parameters
    ----------
    service : Service
        With a limit to the tokens of a step in its assumptions (``prefill_chunk``), or none.
    prompts : array_like, shape (...)
        How many wait [1].

    Returns
    -------
    ndarray, shape (...)
        Less than that of a single prompt where several share a step: weights are read once for all [s].
    """
    setup, requests, plans = service.setup, service.requests, service.plans
    each = _in_a_step(service, prompts)
    groups = prompts_together(setup, plans)
    asked = replace(setup, context=requests.cached)
    steps = fastest_cut(asked, replace(plans, batch=each * groups, new_tokens=requests.new_tokens, prefill=True))
    alone = service.prefill_busy_seconds
    return np.where(each > 1.0, np.minimum(steps / (each * groups), alone), alone).reshape(np.shape(prompts))


def first_round(service: Service, prompts: npt.ArrayLike) -> tuple[Array, Array]:
    """When those that come to an empty server at the same time get their first token: the first, and the last [s]."""
    many = np.asarray(prompts, dtype=float)
    each = together_seconds(service, many)
    groups, overhead = (
        prompts_together(service.setup, service.plans),
        service.setup.assumptions.host.request_overhead,
    )
    own = service.prefill_seconds + overhead
    first = np.minimum((_in_a_step(service, many) * groups).reshape(many.shape), many) * each
    return np.maximum(first + overhead, own), np.maximum(many * each + overhead, own)


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
    each = float(together_seconds(service, prompts))
    work = prompts * each
    decode = service.requests.decode_steps * float(np.interp(prompts, service.batch, service.decode_seconds))
    windows = spread * np.sqrt(np.arange(count)) * decode
    waits = np.maximum(work - each - windows, 0.0) / 2.0
    later = (work - each) / 2.0
    return waits, later if spread == 0.0 else 2.0 * later


def played(service: Service, requests_per_second: float, count: int) -> tuple[Trace, float]:
    """A run of random arrivals from the first to the last, played through the server.

    Parameters
    ----------
    service : Service
        One instance; of its lengths, the means.
    requests_per_second : float
        Offered to it [1/s].
    count : int
        Requests of the run [1].

    Returns
    -------
    (Trace, float)
        What its requests saw, and the time from its beginning to the last token [s].
    """
    isl, osl = max(round(service.requests.new_tokens), 1), max(round(service.requests.osl.mean), 1)
    stream = arrivals.draw(count, requests_per_second, arrivals.fixed(isl), arrivals.fixed(osl), seed=_SEED)
    # As long as such a run is on average.
    stretched = stream.arrival * (count / requests_per_second / float(stream.arrival[-1]))
    trace = simulate(_server(service, isl), replace(stream, arrival=stretched), warm_up=0.0, cool_down=0.0)
    return trace, float(np.max(stretched + trace.e2e))


def _server(service: Service, isl: int) -> Server:
    """A service for prompts of one length, whose steps do not depend on what each request has in the cache."""
    assumed = service.setup.assumptions
    limit = int(assumed.serving.prefill_chunk)
    step = service.reading(min(isl, limit or isl), service.requests.cached)
    share, alone = float(step.chip_share[0]), float(step.busy_seconds[0])
    groups, chips = float(step.seconds[0]) / alone, service.prefill_busy_seconds * share
    host = alone if share < 1.0 else 0.0
    # Several prompts of a step read the weights once; what the host needs for them counts by itself.
    many = np.arange(1.0, max((limit or isl) // isl, 1) * groups + 1.0)
    shares = (
        together_seconds(replace(service, setup=unhindered(service.setup), prefill_busy_seconds=chips), many) / chips
    )
    every = np.interp(np.arange(service.slots + 1.0), service.batch, service.decode_seconds).tolist()
    return Server(
        lambda batch, _: every[batch],
        lambda tokens, _: max(chips * tokens / isl, host),
        service.slots,
        "chunked" if limit else "prefill_first",
        limit or 1,
        lambda tokens, _: chips * tokens / isl,
        lambda prompts: float(np.interp(prompts, many, shares)),
        groups=groups,
        steps_ahead=round(assumed.host.steps_ahead),
    )


def _in_a_step(service: Service, prompts: npt.ArrayLike) -> Array:
    """Prompts that each group of attention ranks reads in one step [1]."""
    most = np.asarray(prompts, dtype=float) / prompts_together(service.setup, service.plans)
    limit = service.setup.assumptions.serving.prefill_chunk
    if limit:
        most = np.minimum(most, max(limit // service.requests.new_tokens, 1.0))
    return np.maximum(most, 1.0)
