"""From steps to requests: prefill, continuous batching in steady state, and what a user sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array, Indices
from inference_econ.engine.layouts.plans import Plans
from inference_econ.engine.prefill import (
    Prefill,
    fastest_cut,
    prompts_of_a_step,
    prompts_together,
    shared_steps,
    unhindered,
)
from inference_econ.engine.setup import Setup
from inference_econ.engine.speculation import Speculation, read_prompt, rounds
from inference_econ.inputs.traffic import Requests


@dataclass(frozen=True, slots=True)
class Steady:
    """An instance with a constant number of requests in flight; every array has shape (...).

    Attributes
    ----------
    batch : ndarray
        Requests that a decode step works on, as one of them sees it [1].
    concurrency : ndarray
        Requests in flight, those in prefill included [1].
    ttft_seconds, tpot_seconds : ndarray
        Time to first token, and per output token after it [s].
    requests_per_second : ndarray
        Completed by the instance [1/s].
    decode_seconds : ndarray
        A decode step without prefill; of speculation a round over the tokens that it gives [s].
    prefill_share : ndarray
        Share of the instance's time that prefill takes [1].
    queue_seconds, running_seconds : ndarray
        Parts of the TTFT that vary from request to request: prompts ahead, and the rest of the running step; means
        [s].
    prefill : Prefill
        Of one prompt.
    """

    batch: Array
    concurrency: Array
    ttft_seconds: Array
    tpot_seconds: Array
    requests_per_second: Array
    decode_seconds: Array
    prefill_share: Array
    queue_seconds: Array
    running_seconds: Array
    prefill: Prefill

    @property
    def tokens_per_second(self) -> Array:
        """Speed of one user while tokens arrive [tokens/s]."""
        with np.errstate(divide="ignore"):
            return 1.0 / self.tpot_seconds

    def take(self, index: int | Indices) -> Steady:
        """The states of some layouts, by their place on the first axis."""
        return replace(self._each(lambda values: values[index]), prefill=self.prefill.take(index))

    def at(self, concurrency: npt.ArrayLike) -> Steady:
        """The states of one layout with some requests in flight.

        Parameters
        ----------
        concurrency : array_like, shape (...)
            Requests in flight [1]; beyond the first and the last state, those are returned.

        Returns
        -------
        Steady
            Arrays of shape (...), from states of shape (k,) in ascending order. Between two of them, what is positive
            is a power of the number in flight.
        """
        flight, known = np.log(np.asarray(concurrency, dtype=float)), np.log(self.concurrency)

        def between(values: Array) -> Array:
            positive = bool(np.all(values > 0.0))
            read = np.interp(flight, known, np.log(values) if positive else values)
            return np.asarray(np.exp(read) if positive else read)

        return self._each(between)

    def without_prompts(self, steps: float, taken_seconds: float = 0.0) -> Steady:
        """The same batches on an instance that decodes what others have read.

        Parameters
        ----------
        steps : float
            Decode steps of an answer [1].
        taken_seconds : float
            Time of the instance that each request takes at least, such as that of its links [s].

        Returns
        -------
        Steady
            A request is in flight from its first step on.
        """
        none = np.zeros_like(self.decode_seconds)
        working = np.maximum(steps * self.decode_seconds / self.batch, taken_seconds)
        reading = replace(self.prefill, seconds=0.0 * self.prefill.seconds, busy_seconds=0.0 * self.prefill.seconds)
        return Steady(
            batch=self.batch,
            concurrency=self.batch,
            ttft_seconds=none,
            tpot_seconds=self.decode_seconds,
            requests_per_second=1.0 / working,
            decode_seconds=self.decode_seconds,
            prefill_share=none,
            queue_seconds=none,
            running_seconds=none,
            prefill=reading,
        )

    def _each(self, change: Callable[[Array], Array]) -> Steady:
        """With another array in the place of each, all from the same function; the prompt stays."""
        return Steady(
            batch=change(self.batch),
            concurrency=change(self.concurrency),
            ttft_seconds=change(self.ttft_seconds),
            tpot_seconds=change(self.tpot_seconds),
            requests_per_second=change(self.requests_per_second),
            decode_seconds=change(self.decode_seconds),
            prefill_share=change(self.prefill_share),
            queue_seconds=change(self.queue_seconds),
            running_seconds=change(self.running_seconds),
            prefill=self.prefill,
        )


def steady(setup: Setup, plans: Plans, requests: Requests, speculation: Speculation | None = None) -> Steady:
    """Continuous batching in steady state, from the batch that decode steps work on.

    Parameters
    ----------
    setup : Setup
        What, on what, how, at the mean context of the requests (:attr:`Requests.mean_context`).
    plans : Plans
        Deployments, shape (...); the batch is what one of its requests sees, itself included. Batches below one
        sequence per group and stage leave chips without work.
    requests : Requests
        Lengths and cached tokens.
    speculation : Speculation, optional
        Who proposes tokens: rounds of the best draft length for each batch take the place of steps.

    Returns
    -------
    Steady
        What users see, and what the instance completes. With speculation its ``decode_seconds`` are those of a round
        over the tokens that it gives.

    Raises
    ------
    InputError
        If the speculation does not go with the model; see :func:`inference_econ.engine.speculation.rounds`.

    Notes
    -----
    While a request decodes, each of the B - 1 others ends once per ``decode_steps`` steps, and is followed by the
    prefill of a new one, for which decoding waits (or by which steps get longer, with chunks: the mean is the same). A
    step thus takes T(B) + (B - 1) / decode_steps x P. Where prompts share steps with decoding, P is what chips work
    for it, or what is left of the time that the host launches it: see :func:`_beside`. Where more than one of them
    begins per step, those of a step are read together, and each takes less
    (:func:`inference_econ.engine.prefill.shared_steps`). The number in flight follows from the share of its time that a
    request decodes, as an arriving one finds the others (Reiser and Lavenberg, 1980), but no instance is more than
    busy. A new prompt waits for the rest of the running step and for prompts before it: see :func:`_waits`.

    With speculation there are (osl - 1) / V rounds per answer in the place of osl - 1 steps, V tokens each on average.
    Prefill is not made shorter by it, so that it weighs more: its share per token stays (B - 1) / (osl - 1) x P. The
    proposer reads every prompt as well, whether a batch speculates or not, since it may have to propose as soon as the
    batch is small again. A new prompt waits for the rest of a whole round. What the last round of an answer gives
    beyond its end is not counted: answers are long beside drafts.
    """
    batch = np.broadcast_to(plans.batch, plans.shape)
    decode, tokens = _decode(setup, replace(plans, batch=batch), speculation)
    reading = read_prompt(setup, plans, requests.new_tokens, requests.cached, speculation)
    prompts = (batch - 1.0) / np.maximum(requests.decode_steps / tokens, 1.0)
    share = shared_steps(unhindered(setup), plans, requests.new_tokens, requests.cached, prompts)
    return balanced(setup, requests, batch, decode, reading, tokens=tokens, shared=share)


def _decode(setup: Setup, plans: Plans, speculation: Speculation | None) -> tuple[Array, Array]:
    """Time of a decode step, or of a round of the best draft length [s], and the tokens that it gives a request [1]."""
    if speculation is None:
        # The fullest group sets the pace: none has less than one sequence.
        batch = np.maximum(plans.batch, prompts_together(setup, plans))
        return fastest_cut(setup, replace(plans, batch=batch)), np.ones(())
    drafts = rounds(setup, plans, speculation)
    length = drafts.best().length
    return np.take_along_axis(drafts.seconds, length[..., None], axis=-1)[..., 0], drafts.tokens[length]


def balanced(
    setup: Setup,
    requests: Requests,
    batch: Array,
    decode: Array,
    reading: Prefill,
    *,
    tokens: Array | float = 1.0,
    shared: Array | float = 1.0,
) -> Steady:
    """The steady state that follows from the times of a decode step and of a prompt; see :func:`steady`.

    Parameters
    ----------
    setup : Setup
        Its assumptions count.
    requests : Requests
        Lengths.
    batch : ndarray, shape (...)
        Requests that a decode step works on, as one of them sees it [1].
    decode : ndarray, shape (...)
        A decode step without prefill, or a round of speculation [s].
    reading : Prefill
        Of one prompt.
    tokens : ndarray, shape (...), or float
        Tokens that a step gives each request on average [1].
    shared : ndarray, shape (...), or float
        Time that chips work for a prompt among all that begin in the same step, over that for a single one [1].
    """
    steps, others = requests.decode_steps / tokens, batch - 1.0
    own, prompt, idle = reading.seconds, reading.busy_seconds, np.zeros(())
    working = shared * reading.chip_share * reading.busy_seconds
    if setup.assumptions.serving.prefill_chunk:
        # Decoding beside it is work for the chips while the host launches kernels.
        own = reading.chip_share * own + np.minimum(others, 1.0) * reading.chunks * decode
        idle = np.maximum(reading.seconds - own, 0.0)
        waiting = prompt - decode * reading.chunks * prompt / reading.seconds
        prompt = _beside(setup, requests, reading, working, waiting, others / np.maximum(steps, 1.0))
    # All steps of an answer, and the prompts of others between them.
    answer = steps * decode + others * prompt
    share = others * prompt / np.maximum(answer, np.finfo(float).tiny)
    queue, step = _waits(setup, replace(reading, busy_seconds=prompt), decode, share, requests)
    # Nobody waits for more than all others.
    most = others * prompt
    ahead, running = np.minimum(queue, most), np.minimum(others, 1.0) * np.minimum(step, decode + most) / 2.0
    # What prompts before it have in the steps that were prepared when it came: one after the other, that is counted.
    prepared = decode
    if _several_fit(setup, requests):
        # Of prompts in the same step only the work of chips counts, and not while they wait for the host anyway.
        ahead = np.maximum(ahead * working / prompt - idle, 0.0)
        prepared = decode + others / np.maximum(steps, 1.0) * prompt
    own = own + idle + setup.assumptions.host.request_overhead
    if requests.decode_steps > 0:
        own = own + setup.assumptions.host.steps_ahead * np.minimum(others, 1.0) * prepared
    ttft = own + ahead + running
    cycle = ttft + answer
    rate = 1.0 / cycle + others / np.maximum(answer, np.finfo(float).tiny)
    rate = np.minimum(rate, batch / (steps * decode + batch * prompt))
    tpot = answer / requests.decode_steps if requests.decode_steps > 0 else np.zeros_like(answer)
    busy = rate * prompt
    return Steady(batch, rate * cycle, ttft, tpot, rate, decode / tokens, busy, ahead, running, reading)


def _beside(
    setup: Setup, requests: Requests, reading: Prefill, working: Array, waiting: Array, prompts: Array
) -> Array:
    """What each prompt adds to the steps that it shares with decoding and with other prompts: a mean [s].

    Parameters
    ----------
    setup : Setup
        Its assumptions count.
    requests : Requests
        Lengths.
    reading : Prefill
        Of one prompt.
    working : ndarray, shape (...)
        What chips work for one of the prompts that begin in a step, C [s].
    waiting : ndarray, shape (...)
        What a single prompt would add if only the host counted, which launches its kernels, W [s].
    prompts : ndarray, shape (...)
        That begin per step, on average [1].

    Notes
    -----
    The host launches once for all prompts of a step, while each of N is work C for the chips: max(W, N C), or nothing
    where N is 0. By chance N is Poisson-distributed; groups that read beside each other count as one.
    """
    from scipy.special import pdtr

    if reading.chunks > 1:
        return np.maximum(working, waiting)
    mean = np.maximum(prompts * reading.busy_seconds / reading.seconds, 1e-6)
    # So many have less work for the chips than for the host.
    few = np.maximum(np.floor(waiting / working), 0.0)
    launching = waiting * (pdtr(few, mean) - np.exp(-mean)) / mean
    added = launching + working * np.where(few > 0.0, 1.0 - pdtr(np.maximum(few - 1.0, 0.0), mean), 1.0)
    # No more of them than the tokens of a step allow.
    least = waiting * min(requests.new_tokens / setup.assumptions.serving.prefill_chunk, 1.0)
    return np.asarray(np.maximum(added, least))


def _several_fit(setup: Setup, requests: Requests) -> bool:
    """Whether several prompts can be read in the same step, beside decoding."""
    return prompts_of_a_step(setup, requests.new_tokens) >= 2.0


def _waits(setup: Setup, reading: Prefill, decode: Array, share: Array, requests: Requests) -> tuple[Array, Array]:
    """What a new prompt finds before it: the prompts that wait, and the running step; means [s].

    Parameters
    ----------
    setup : Setup
        Whether prompts are read beside decoding.
    reading : Prefill
        Of one prompt: P.
    decode : ndarray, shape (...)
        A decode step without prefill, D [s].
    share : ndarray, shape (...)
        Share of the time that prefill takes, r [1].
    requests : Requests
        Lengths; the squared coefficient of variation of the prompts is c2.

    Returns
    -------
    (ndarray, ndarray), shape (...)
        Time that the prompts before it take, and the length of the step that it meets [s].

    Notes
    -----
    Prompts that pause decoding: Pollaczek and Khinchine, P (1 + c2) / 2 x r / (1 - r), and the step is D.

    Prompts that ride along in one chunk, so that a step serves all that came during the one before (gated service:
    Takagi, 1991): the mean step is D / (1 - r); the one that a prompt meets, more likely a long one,
    (D + P r (1 + c2) / (1 + r)) / (1 - r). Those that come in the same step, before or after, take r times that,
    and all get their first token at the end of the next one.

    Prompts of which no two fit a step, or of several chunks, take turns of their chunks with the decode steps beside
    them: Pollaczek and Khinchine.
    """
    alone, limit, scv = reading.busy_seconds, setup.assumptions.serving.prefill_chunk, requests.isl.scv
    chunked = limit > 0
    if _several_fit(setup, requests):
        step = (decode + alone * share * (1.0 + scv) / (1.0 + share)) / np.maximum(1.0 - share, 1e-9)
        return share * step, step
    turn = alone + reading.chunks * decode if chunked else alone
    taken = np.minimum(share * turn / alone, 1.0)
    return turn * (1.0 + scv) / 2.0 * taken / np.maximum(1.0 - taken, 1e-9), decode
