"""Compute steady states of continuous batching: TTFT, TPOT and throughput from step times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array, Indices
from inference_econ.engine import (
    Plans,
    Prefill,
    Setup,
    Speculation,
    fastest_cut,
    request_seconds,
    rounds,
    saved_seconds,
    unhindered,
)
from inference_econ.inputs import Requests
from inference_econ.serving.lengths import PromptTimes
from inference_econ.serving.prefill_interference import (
    LEAST,
    Added,
    Batches,
    Parts,
    SharedWork,
    chunked_steps,
    delayed,
    in_shared_steps,
    prefill_first,
    several_fit,
    waits,
)

#: Ratio of two throughputs above which they count as equal [1].
_EQUAL = 0.99


@dataclass(frozen=True, slots=True)
class Steady:
    """Steady state of an instance at a constant concurrency, in arrays of shape (...).

    Attributes
    ----------
    batch : ndarray
        Mean decode batch at a step of a given request, including this request [1].
    concurrency : ndarray
        Number of concurrent requests, including requests in prefill [1].
    ttft_seconds, tpot_seconds : ndarray
        Time to first token, and time per further output token [s].
    requests_per_second : ndarray
        Completed requests [1/s].
    decode_seconds : ndarray
        Time of a decode step without prefill [s]; with speculation, time of a round divided by its tokens per request.
    prefill_share : ndarray
        Share of the instance's time that prefill takes [1].
    apart_share : ndarray
        Share of the instance's time that prefill would take if no step had both decode and prefill tokens [1].
    follow_share : ndarray
        Mean number of prompts that arrive during the prefill of a prompt and wait for this prompt [1].
    queue_seconds, running_seconds : ndarray
        Mean wait for earlier prompts, and mean remaining time of the running step on arrival; parts of the TTFT [s].
    beside_seconds : ndarray
        Decode time in each step that also processes a chunk [s]; 0 if decoding pauses for prefill.
    prompts : PromptTimes
        Prefill times of prompts that run alone, by prompt length.
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
        """Prefill of a prompt that runs alone, averaged over prompt lengths."""
        return self.prompts.mean

    @property
    def fixed_seconds(self) -> Array:
        """TTFT of the average prompt, without the waits for earlier prompts and for the end of the running step [s]."""
        return self.ttft_seconds - self.queue_seconds - self.running_seconds

    @property
    def tokens_per_second(self) -> Array:
        """Output speed of one user, 1 / TPOT [tokens/s]."""
        with np.errstate(divide="ignore"):
            return 1.0 / self.tpot_seconds

    def take(self, index: int | Indices) -> Steady:
        """Select layouts by their index on the first axis."""
        return replace(self._mapped(lambda values: values[index]), prompts=self.prompts.take(index))

    def among(self, chosen: Indices) -> Steady:
        """Select steady states of one layout by index, as arrays of shape (k,)."""
        return self._mapped(lambda values: values[chosen])

    @classmethod
    def stacked(cls, parts: Sequence[Steady]) -> Steady:
        """Concatenate states of shape (n, k) along the layout axis; at least one part is required."""
        if len(parts) == 1:
            return parts[0]
        together = parts[0]._mapped(lambda *values: np.concatenate(values), *parts[1:])
        return replace(together, prompts=PromptTimes.stacked([part.prompts for part in parts]))

    def joined(self, other: Steady) -> Steady:
        """Append states of the same layouts, in arrays of shape (n, k), along the batch axis."""
        return self._mapped(lambda *values: np.concatenate(values, axis=1), other)

    def at(self, concurrency: npt.ArrayLike) -> Steady:
        """Interpolate the steady states of one layout at a concurrency.

        Parameters
        ----------
        concurrency : array_like, shape (...)
            Number of concurrent requests [1]; limited to the range of the states.

        Returns
        -------
        Steady
            States of shape (...). Positive fields are interpolated as powers of the concurrency, between states of
            shape (k,) that ascend in concurrency.
        """
        flight, flights = np.log(np.asarray(concurrency, dtype=float)), np.log(self.concurrency)
        by_field: dict[int, Array] = {}

        def between(values: Array) -> Array:
            # Without prompts most fields share one array.
            if id(values) not in by_field:
                positive = bool(np.all(values > 0.0))
                read = np.interp(flight, flights, np.log(values) if positive else values)
                by_field[id(values)] = np.asarray(np.exp(read) if positive else read)
            return by_field[id(values)]

        return self._mapped(between)

    def of_each_at(self, concurrency: float) -> Steady:
        """Interpolate the states of each of n layouts at a concurrency [1], shape (n, 1); see :meth:`at`."""
        first, *others = (self.take(index).at(concurrency) for index in range(len(self.batch)))
        return replace(first._mapped(lambda *values: np.stack(values)[:, None], *others), prompts=self.prompts)

    def without_prompts(self, steps: float, taken_seconds: float = 0.0) -> Steady:
        """States of a decode instance at the same batch sizes, whose requests arrive after prefill on another instance.

        Parameters
        ----------
        steps : float
            Decode steps per request [1].
        taken_seconds : float
            Minimum instance time per request, for example the time for which a KV-cache transfer occupies the links
            [s].

        Returns
        -------
        Steady
            States in which a request starts with its first decode step.
        """
        none = np.zeros_like(self.decode_seconds)
        working = np.maximum(steps * self.decode_seconds / self.batch, taken_seconds)
        nothing = 0.0 * self.prefill.seconds
        reading = replace(self.prefill, seconds=nothing, busy_seconds=nothing, full_seconds=nothing)
        unread = 0.0 * self.prompts.seconds
        return replace(
            self,
            concurrency=self.batch,
            ttft_seconds=none,
            tpot_seconds=self.decode_seconds,
            requests_per_second=1.0 / working,
            prefill_share=none,
            apart_share=none,
            follow_share=none,
            queue_seconds=none,
            running_seconds=none,
            beside_seconds=none,
            prompts=replace(self.prompts, seconds=unread, chip_seconds=unread, mean=reading),
        )

    def reading_again(self, more: Array) -> Steady:
        """Steady states if preemption causes recomputation of ``more`` tokens per prompt token, shape (...) [1]."""
        cycle = self.concurrency / self.requests_per_second
        longer = 1.0 + self.prefill_share * more
        rate = self.concurrency / (self.ttft_seconds + (cycle - self.ttft_seconds) * longer)
        fewer = rate / self.requests_per_second
        return replace(
            self,
            tpot_seconds=self.tpot_seconds * longer,
            requests_per_second=rate,
            prefill_share=np.minimum(self.prefill_share * fewer * (1.0 + more), 1.0),
            apart_share=np.minimum(self.apart_share * fewer * (1.0 + more), 1.0),
            follow_share=self.follow_share * fewer,
        )

    def or_better(self, other: Steady, possible: npt.NDArray[np.bool_]) -> Steady:
        """Replace states by the states ``other``, where these complete more requests at the same batch.

        If both have nearly equal throughput, the state with the lower TTFT is better. Batches ascend along the
        last axis. Replacement starts at the first batch with a better state. States at larger batches are also
        replaced, because a server would not change its schedule back.
        """
        rate, other_rate = self.requests_per_second, other.requests_per_second
        sooner = (other_rate > _EQUAL * rate) & (other.ttft_seconds < self.ttft_seconds)
        better = possible & ((other_rate > rate) | sooner)
        better = np.logical_or.accumulate(better, axis=-1)
        return self._mapped(lambda values, others: np.asarray(np.where(better, others, values)), other)

    def _mapped(self, change: Callable[..., Array], *others: Steady) -> Steady:
        """Apply a function to each array field of these states and of ``others``; keep the field ``prompts``."""
        states = (self, *others)
        arrays = {name: change(*(getattr(state, name) for state in states)) for name in _ARRAYS}
        return replace(self, **arrays)  # type: ignore[arg-type]


#: Fields with one value per state.
_ARRAYS = tuple(field.name for field in fields(Steady) if field.name != "prompts")


def steady(setup: Setup, plans: Plans, requests: Requests, speculation: Speculation | None = None) -> Steady:
    """Compute steady states of continuous batching for given decode batches.

    Parameters
    ----------
    setup : Setup
        Model, chip, engine and assumptions, at the mean context of the requests (:attr:`Requests.mean_context`).
    plans : Plans
        Deployments, shape (...). The batch is the mean number of requests in a decode step of a given request,
        including this request. Batches ascend along the last axis. Attention-DP groups without a sequence also take
        part in each step, without work.
    requests : Requests
        Request lengths and cached tokens.
    speculation : Speculation, optional
        Speculation method. Speculation rounds with the fastest draft length for each batch replace the decode steps.

    Returns
    -------
    Steady
        Latencies and throughput of the steady states. With speculation, ``decode_seconds`` is the time of a round
        divided by its tokens per request.

    Raises
    ------
    InputError
        If the model does not support the speculation method; see :func:`inference_econ.engine.speculation.rounds`.

    Notes
    -----
    While a request decodes in a batch of B, each of the B - 1 other requests ends once per ``decode_steps`` steps. A
    new request then starts with its prefill. Decoding pauses for this prefill, or its chunks extend the decode steps;
    the mean effect is equal. A decode step thus takes T(B) + (B - 1) / decode_steps x P. T(B) is the step time without
    prefill, and P is the time that a prompt adds.

    If prompts share steps with decoding, P is the larger of their GPU time and their CPU launch time; see
    :func:`inference_econ.serving.prefill_interference.chunked_steps`. Prompts that start in the same step are processed
    together, which reduces the time per prompt (:func:`inference_econ.engine.prefill.shared_steps`). If decoding pauses
    for prefill, this reduction applies if more than one prompt starts per step on average.

    The concurrency follows from the share of time that a request spends in decoding. An arriving request finds the
    state of an instance with one request less (Reiser and Lavenberg, 1980). Utilization is at most 1. A new prompt
    waits for the end of the running step and for earlier prompts; see
    :func:`inference_econ.serving.prefill_interference.waits`.

    With speculation, (osl - 1) / V rounds of V tokens replace osl - 1 steps. The prefill time does not change, so its
    part per token is still (B - 1) / (osl - 1) x P. The draft model also processes every prompt, because drafting may
    start as soon as the batch is small. A new prompt waits for the end of a full round. Surplus tokens of a request's
    last round are ignored, because outputs are long compared with drafts.
    """
    batches = _batches(setup, plans, requests, speculation)
    reading, groups = batches.reading, batches.groups
    if not setup.assumptions.serving.prefill_chunk:
        nothing = np.zeros_like(batches.decode)
        turn = reading.busy_seconds
        return _state(batches, _in_turns(batches, prefill_first(batches), reading.seconds, np.zeros(()), nothing, turn))
    # While the CPU launches prefill kernels, the GPUs decode.
    decoding = batches.company * (batches.decode - batches.saved)
    own = reading.chip_share * reading.seconds + reading.chunks * decoding
    idle, added = np.maximum(reading.seconds - own, 0.0), chunked_steps(batches)
    if several_fit(setup, requests):
        ahead, step = in_shared_steps(batches, added)
        # The wait for prompts ahead overlaps with the wait for the CPU.
        prompts = _Reading(added, own, idle, np.maximum(ahead - idle, 0.0), step, added.following, decoding)
    else:
        single = np.where(groups > 1.0, added.chips + added.joined, added.following)
        prompts = _in_turns(batches, added, own, idle, decoding, single + reading.chunks * batches.decode)
    state = _state(batches, prompts)
    if not setup.held_steps or np.all(groups == 1.0):
        return state
    # Attention-DP groups delay prefill for a limited number of decode steps.
    added, wait = delayed(batches, setup.held_steps)
    own, wait = own + batches.company * added.joined, batches.company * wait
    prompts = _Reading(added, own, idle, wait, batches.decode, added.following, decoding)
    return state.or_better(_state(batches, prompts), groups > 1.0)


def _batches(setup: Setup, plans: Plans, requests: Requests, speculation: Speculation | None) -> Batches:
    """Compute the times of decode steps and prompts that determine steady states, on plans of shape (...)."""
    size = np.broadcast_to(plans.batch, plans.shape)
    decode, tokens = decode_steps(setup, replace(plans, batch=size), speculation)
    prompts, parts = PromptTimes.of(setup, plans, requests, speculation), Parts.of(setup, requests)
    if not setup.assumptions.serving.prefill_chunk:
        shared = SharedWork.of(setup, plans, requests)
        return Batches(setup, requests, size, decode, tokens, prompts, parts, shared, np.zeros(decode.shape))
    # ``shared`` excludes CPU time, because the model of shared steps adds it.
    free = unhindered(setup)
    shared = SharedWork.of(free, plans, requests)
    # Time that a step saves because decode and prefill share one read of the weights, for the mean number of prompts.
    full, stages = replace(plans, batch=np.maximum(size, plans.pp)), plans.pp
    begun = parts.number * (full.batch - 1.0) / np.maximum(requests.decode_steps / tokens, 1.0)
    # Mean number of prompts over the steps that have prompts.
    usual = np.where(begun > 0.0, begun / np.maximum(-np.expm1(-begun), 1e-12), 1.0) / stages
    together = np.broadcast_to(np.clip(usual, 1.0, parts.most * shared.groups[..., 0]), full.shape)
    alone = (shared.alone * shared.at(together[..., None]))[..., 0]
    saved = saved_seconds(free, full, parts.tokens, parts.cached, together, alone)
    saved = (1.0 if requests.decode_steps > 0 else 0.0) * np.broadcast_to(saved, decode.shape)
    return Batches(setup, requests, size, decode, tokens, prompts, parts, shared, saved)


def decode_steps(setup: Setup, plans: Plans, speculation: Speculation | None) -> tuple[Array, Array]:
    """Time of a decode step, or of a round with the fastest draft length [s], and tokens per request and step [1]."""
    if speculation is None:
        # Every pipeline stage has at least one sequence.
        batch = np.maximum(plans.batch, plans.pp)
        return fastest_cut(setup, replace(plans, batch=batch)), np.ones(())
    drafts = rounds(setup, plans, speculation)
    length = drafts.best().length
    return np.take_along_axis(drafts.seconds, length[..., None], axis=-1)[..., 0], drafts.tokens[length]


class _Reading(NamedTuple):
    """Prefill time in decode steps, and waits of a new prompt, in arrays of shape (...) [s]."""

    added: Added
    """Time that each prompt adds to steps."""
    own: Array
    """Duration of the steps that process a prompt, including other prompts and decoding in these steps."""
    idle: Array
    """Time during a prompt's prefill in which the GPUs wait for the CPU."""
    ahead: Array
    """Mean wait for earlier prompts."""
    step: Array
    """Duration of the step that is running when a prompt arrives, including prefill in this step."""
    following: Array
    """Time by which one prompt delays another prompt, in the same step or in the queue."""
    beside: Array
    """Decode time in each step that also processes a chunk."""
    chance: Array | None = None
    """Probability that a prompt waits for earlier prompts, if each step processes at most one prompt [1]."""


def _in_turns(batches: Batches, added: Added, own: Array, idle: Array, decoding: Array, turn: Array) -> _Reading:
    """Waits if each step processes at most one prompt per group; ``turn`` is the processing time of a prompt [s]."""
    chunked = bool(batches.setup.assumptions.serving.prefill_chunk)
    ahead, chance = waits(batches, turn, added, beside_decoding=chunked)
    # The wait is at most the time of all other prompts.
    ahead = np.minimum(ahead, batches.others * added.mean)
    own = own + batches.company * added.joined
    return _Reading(added, own, idle, ahead, batches.decode, added.mean, decoding, chance)


def _state(batches: Batches, reading: _Reading) -> Steady:
    """Compute the steady state from the times of decode steps and prompts; see :func:`steady`."""
    setup, requests, prompt, decode = batches.setup, batches.requests, reading.added.mean, batches.decode
    answer, begun, parts = batches.answer_seconds(prompt), batches.begun, batches.parts.number
    running = batches.company * np.minimum(reading.step, decode + batches.others * prompt) / 2.0
    # ``fixed`` excludes the waits for earlier prompts and for the end of the running step. Steps that were scheduled
    # before the arrival may also process other prompts. If prompts are processed one at a time, these are already
    # included as earlier prompts.
    fixed = reading.own + reading.idle + request_seconds(setup, requests.cached)
    if requests.decode_steps > 0:
        prepared = decode + begun * prompt if several_fit(setup, requests) else decode
        fixed = fixed + setup.assumptions.host.steps_ahead * batches.company * prepared
    ttft = fixed + reading.ahead + running
    cycle = ttft + answer
    rate = 1.0 / cycle + batches.others / np.maximum(answer, LEAST)
    rate = np.minimum(rate, batches.size / (batches.steps * decode + batches.size * prompt))
    # Number of steps with prompts, per prompt. Prompts that share a step save time only once.
    sharing = parts * -np.expm1(-begun * parts) / np.maximum(begun * parts, LEAST)
    follow = rate * reading.following
    if reading.chance is not None:
        follow = np.where(batches.groups > 1.0, reading.chance, follow)
    return Steady(
        batch=batches.size,
        concurrency=rate * cycle,
        ttft_seconds=ttft,
        tpot_seconds=answer / requests.decode_steps if requests.decode_steps > 0 else np.zeros_like(answer),
        requests_per_second=rate,
        decode_seconds=decode / batches.tokens,
        prefill_share=rate * prompt,
        apart_share=np.minimum(rate * (prompt + batches.saved * sharing), 1.0),
        follow_share=follow,
        queue_seconds=reading.ahead,
        running_seconds=running,
        beside_seconds=reading.beside,
        prompts=batches.prompts,
    )
