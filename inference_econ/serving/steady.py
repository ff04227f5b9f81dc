"""From steps to requests: prefill, continuous batching in steady state, and what a user sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array, Indices
from inference_econ.engine import (
    Plans,
    Prefill,
    Setup,
    Speculation,
    fastest_cut,
    rounds,
    saved_seconds,
    unhindered,
)
from inference_econ.inputs import Requests
from inference_econ.serving.lengths import PromptTimes
from inference_econ.serving.prompts import beside, held, in_shared_steps, paused, several_fit, waits
from inference_econ.serving.shared_work import Parts, SharedWork


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
    apart_share : ndarray
        The same if no step read weights for both decoding and prompts [1].
    follow_share : ndarray
        Prompts that come on average while one is read, and make those who came before wait longer [1].
    queue_seconds, running_seconds : ndarray
        Parts of the TTFT that vary from request to request: prompts ahead, and the rest of the running step; means
        [s].
    beside_seconds : ndarray
        What decoding adds to each step that reads a part of a prompt; none where it waits for prompts [s].
    prompts : PromptTimes
        Of prompts by themselves, by length.
    """

    batch: Array
    concurrency: Array
    ttft_seconds: Array
    tpot_seconds: Array
    requests_per_second: Array
    decode_seconds: Array
    prefill_share: Array
    apart_share: Array
    follow_share: Array
    queue_seconds: Array
    running_seconds: Array
    beside_seconds: Array
    prompts: PromptTimes

    @property
    def prefill(self) -> Prefill:
        """Of one prompt, the average over their lengths."""
        return self.prompts.mean

    @property
    def fixed_seconds(self) -> Array:
        """The TTFT without prompts ahead and the rest of the running step, of the average prompt [s]."""
        return self.ttft_seconds - self.queue_seconds - self.running_seconds

    @property
    def tokens_per_second(self) -> Array:
        """Speed of one user while tokens arrive [tokens/s]."""
        with np.errstate(divide="ignore"):
            return 1.0 / self.tpot_seconds

    def take(self, index: int | Indices) -> Steady:
        """The states of some layouts, by their place on the first axis."""
        return replace(self._each(lambda values: values[index]), prompts=self.prompts.take(index))

    def among(self, chosen: Indices) -> Steady:
        """Some states of one layout, by their place; arrays of shape (k,)."""
        return self._each(lambda values: values[chosen])

    @classmethod
    def stacked(cls, parts: Sequence[Steady]) -> Steady:
        """The states of some layouts, shape (n, k), with those of others below them; at least one part."""
        if len(parts) == 1:
            return parts[0]
        together = parts[0]._each(lambda *values: np.concatenate(values), *parts[1:])
        return replace(together, prompts=PromptTimes.stacked([part.prompts for part in parts]))

    def joined(self, other: Steady) -> Steady:
        """These states, shape (n, k), and others of the same layouts after them."""
        return self._each(lambda *values: np.concatenate(values, axis=1), other)

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

    def of_each_at(self, concurrency: float) -> Steady:
        """The states of each of n layouts with some requests in flight [1], see :meth:`at`; shape (n, 1)."""
        first, *others = (self.take(index).at(concurrency) for index in range(len(self.batch)))
        return replace(first._each(lambda *values: np.stack(values)[:, None], *others), prompts=self.prompts)

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
        nothing = 0.0 * self.prefill.seconds
        reading = replace(self.prefill, seconds=nothing, busy_seconds=nothing, full_seconds=nothing)
        unread = 0.0 * self.prompts.seconds
        return Steady(
            batch=self.batch,
            concurrency=self.batch,
            ttft_seconds=none,
            tpot_seconds=self.decode_seconds,
            requests_per_second=1.0 / working,
            decode_seconds=self.decode_seconds,
            prefill_share=none,
            apart_share=none,
            follow_share=none,
            queue_seconds=none,
            running_seconds=none,
            beside_seconds=none,
            prompts=replace(self.prompts, seconds=unread, chip_seconds=unread, mean=reading),
        )

    def or_better(self, other: Steady, possible: npt.NDArray[np.bool_]) -> Steady:
        """These states, but others of the same batches from the first one on that is possible and completes more.

        Batches ascend along the last axis. A server does not go back: with more requests in flight it would complete
        as much with fewer.
        """
        better = possible & (other.requests_per_second > self.requests_per_second)
        better = np.logical_or.accumulate(better, axis=-1)
        return self._each(lambda values, others: np.asarray(np.where(better, others, values)), other)

    def _each(self, change: Callable[..., Array], *others: Steady) -> Steady:
        """With another array in the place of each, from that of these states and of others; the prompt stays."""
        every = (self, *others)
        return Steady(
            batch=change(*(states.batch for states in every)),
            concurrency=change(*(states.concurrency for states in every)),
            ttft_seconds=change(*(states.ttft_seconds for states in every)),
            tpot_seconds=change(*(states.tpot_seconds for states in every)),
            requests_per_second=change(*(states.requests_per_second for states in every)),
            decode_seconds=change(*(states.decode_seconds for states in every)),
            prefill_share=change(*(states.prefill_share for states in every)),
            apart_share=change(*(states.apart_share for states in every)),
            follow_share=change(*(states.follow_share for states in every)),
            queue_seconds=change(*(states.queue_seconds for states in every)),
            running_seconds=change(*(states.running_seconds for states in every)),
            beside_seconds=change(*(states.beside_seconds for states in every)),
            prompts=self.prompts,
        )


def steady(setup: Setup, plans: Plans, requests: Requests, speculation: Speculation | None = None) -> Steady:
    """Continuous batching in steady state, from the batch that decode steps work on.

    Parameters
    ----------
    setup : Setup
        What, on what, how, at the mean context of the requests (:attr:`Requests.mean_context`).
    plans : Plans
        Deployments, shape (...); the batch is what one of its requests sees, itself included, and ascends along the
        last axis. Groups that have no sequence run along without work.
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
    prefill of a new one, for which decoding waits (or by which steps get longer, with chunks: the mean is the
    same). A step thus takes T(B) + (B - 1) / decode_steps x P. Where prompts share steps with decoding, P is what
    chips work for it, or what is left of the time that the host launches it: see
    :func:`inference_econ.serving.prompts.beside`. Those that begin in the same step are read together, and each
    takes less (:func:`inference_econ.engine.prefill.shared_steps`); where decoding pauses, that counts if more than
    one begins per step on average. The number in flight follows from the share of its time that a request decodes,
    as an arriving one finds the others (Reiser and Lavenberg, 1980), but no instance is more than busy. A new
    prompt waits for the rest of the running step and for prompts before it: see
    :func:`inference_econ.serving.prompts.waits`.

    With speculation there are (osl - 1) / V rounds per answer in the place of osl - 1 steps, V tokens each on
    average. Prefill is not made shorter by it, so that it weighs more: its share per token stays (B - 1) / (osl -
    1) x P. The proposer reads every prompt as well, whether a batch speculates or not, since it may have to propose
    as soon as the batch is small again. A new prompt waits for the rest of a whole round. What the last round of an
    answer gives beyond its end is not counted: answers are long beside drafts.
    """
    batch = np.broadcast_to(plans.batch, plans.shape)
    decode, tokens = decode_steps(setup, replace(plans, batch=batch), speculation)
    prompts = PromptTimes.of(setup, plans, requests, speculation)
    if not setup.assumptions.serving.prefill_chunk:
        shared = SharedWork.of(setup, plans, requests)
        return balanced(setup, requests, batch, decode, prompts, tokens=tokens, shared=shared)
    # What the host launches for prompts beside decoding is counted there.
    free = unhindered(setup)
    shared = SharedWork.of(free, plans, requests)
    saved = _saved(free, replace(plans, batch=np.maximum(batch, plans.pp)), requests, tokens, shared)
    state = balanced(setup, requests, batch, decode, prompts, tokens=tokens, shared=shared, saved=saved)
    longest = setup.held_steps
    if not longest or np.all(shared.groups == 1.0):
        return state
    later = balanced(
        setup, requests, batch, decode, prompts, tokens=tokens, shared=shared, saved=saved, held_steps=longest
    )
    return state.or_better(later, shared.groups[..., 0] > 1.0)


def _saved(setup: Setup, plans: Plans, requests: Requests, tokens: Array, shared: SharedWork) -> Array:
    """What a step takes less as decoding and prompts read weights together, for a usual number of prompts [s]."""
    parts, stages = Parts.of(setup, requests), plans.pp
    begun = parts.number * (plans.batch - 1.0) / np.maximum(requests.decode_steps / tokens, 1.0)
    # Of the steps that read any.
    usual = np.where(begun > 0.0, begun / np.maximum(-np.expm1(-begun), 1e-12), 1.0) / stages
    prompts = np.broadcast_to(np.clip(usual, 1.0, parts.most * shared.groups[..., 0]), plans.shape)
    alone = (shared.alone * shared.at(prompts[..., None]))[..., 0]
    return saved_seconds(setup, plans, parts.tokens, parts.cached, prompts, alone)


def decode_steps(setup: Setup, plans: Plans, speculation: Speculation | None) -> tuple[Array, Array]:
    """Time of a decode step, or of a round of the best draft length [s], and the tokens that it gives a request [1]."""
    if speculation is None:
        # Every stage has a sequence.
        batch = np.maximum(plans.batch, plans.pp)
        return fastest_cut(setup, replace(plans, batch=batch)), np.ones(())
    drafts = rounds(setup, plans, speculation)
    length = drafts.best().length
    return np.take_along_axis(drafts.seconds, length[..., None], axis=-1)[..., 0], drafts.tokens[length]


def balanced(
    setup: Setup,
    requests: Requests,
    batch: Array,
    decode: Array,
    prompts: PromptTimes,
    *,
    tokens: Array | float = 1.0,
    shared: SharedWork,
    saved: Array | float = 0.0,
    held_steps: float = 0.0,
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
    prompts : PromptTimes
        Of prompts by themselves; their average counts.
    tokens : ndarray, shape (...), or float
        Tokens that a step gives each request on average [1].
    shared : SharedWork
        What prompts that begin in the same step are for the chips.
    saved : ndarray, shape (...), or float
        What a step that decodes and reads prompts takes less than two steps for both [s].
    held_steps : float
        Decode steps for which groups of attention ranks hold prompts back at most, until each has one [1].
    """
    reading, steps, others = prompts.mean, np.asarray(requests.decode_steps / tokens), batch - 1.0
    beside_each = np.zeros_like(decode)
    own, idle, begun = reading.seconds, np.zeros(()), others / np.maximum(steps, 1.0)
    hold = None
    parts, chunk = Parts.of(setup, requests), setup.assumptions.serving.prefill_chunk
    saved = (1.0 if requests.decode_steps > 0 else 0.0) * np.broadcast_to(saved, decode.shape)
    if chunk:
        # Decoding beside it is work for the chips while the host launches kernels.
        beside_each = np.minimum(others, 1.0) * (decode - saved)
        own = reading.chip_share * own + reading.chunks * beside_each
        idle = np.maximum(reading.seconds - own, 0.0)
        waiting = reading.busy_seconds * (1.0 - decode * reading.chunks / reading.seconds)
        # No more of them than the tokens of a step allow.
        least = min(requests.new_tokens / chunk, 1.0)
        if held_steps:
            each, hold = held(parts, reading, decode, waiting, begun, shared, saved, held_steps)
        else:
            each = beside(parts, reading, decode, waiting, begun, shared, saved, least)
    else:
        each = paused(reading, begun, decode, shared)
    prompt, several, tiny = each.mean, several_fit(setup, requests), np.finfo(float).tiny
    # All steps of an answer, and the prompts of others between them.
    answer = steps * decode + others * prompt
    if hold is not None:
        own, step, met = own + np.minimum(others, 1.0) * each.joined, decode, np.zeros(())
        ahead = np.minimum(others, 1.0) * hold
    elif several:
        ahead, step = in_shared_steps(requests, each, decode, steps, others)
        met = np.zeros(())
        # Nor does it wait for them while its own prompt waits for the host anyway.
        ahead = np.maximum(ahead - idle, 0.0)
    else:
        own, step = own + np.minimum(others, 1.0) * each.joined, decode
        single = reading.busy_seconds
        if chunk:
            turns = np.where(shared.groups[..., 0] > 1.0, each.chips + each.joined, each.following)
            single = turns + reading.chunks * decode
        share = others * prompt / np.maximum(answer, tiny)
        ahead, met = waits(single, each, share, requests, shared.groups[..., 0] if chunk else None)
        # Nobody waits for more than all others.
        ahead = np.minimum(ahead, others * prompt)
    running = np.minimum(others, 1.0) * np.minimum(step, decode + others * prompt) / 2.0
    # What prompts before it have in the steps that were prepared when it came: one after the other, that is counted.
    prepared = decode + begun * prompt if several else decode
    own = own + idle + setup.assumptions.host.request_overhead
    if requests.decode_steps > 0:
        own = own + setup.assumptions.host.steps_ahead * np.minimum(others, 1.0) * prepared
    ttft = own + ahead + running
    cycle = ttft + answer
    rate = 1.0 / cycle + others / np.maximum(answer, tiny)
    rate = np.minimum(rate, batch / (steps * decode + batch * prompt))
    follow = rate * (each.following if several or hold is not None else prompt)
    if not several and hold is None:
        follow = np.where(shared.groups[..., 0] > 1.0, met, follow)
    # A step with prompts saves once, for all of them.
    once = parts.number * -np.expm1(-begun * parts.number) / np.maximum(begun * parts.number, tiny)
    tpot = answer / requests.decode_steps if requests.decode_steps > 0 else np.zeros_like(answer)
    return Steady(
        batch=batch,
        concurrency=rate * cycle,
        ttft_seconds=ttft,
        tpot_seconds=tpot,
        requests_per_second=rate,
        decode_seconds=decode / tokens,
        prefill_share=rate * prompt,
        apart_share=np.minimum(rate * (prompt + saved * once), 1.0),
        follow_share=follow,
        queue_seconds=ahead,
        running_seconds=running,
        beside_seconds=beside_each,
        prompts=prompts,
    )
