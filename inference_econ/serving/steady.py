"""From steps to requests: prefill, continuous batching in steady state, and what a user sees."""

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
        return replace(self._mapped(lambda values: values[index]), prompts=self.prompts.take(index))

    def among(self, chosen: Indices) -> Steady:
        """Some states of one layout, by their place; arrays of shape (k,)."""
        return self._mapped(lambda values: values[chosen])

    @classmethod
    def stacked(cls, parts: Sequence[Steady]) -> Steady:
        """The states of some layouts, shape (n, k), with those of others below them; at least one part."""
        if len(parts) == 1:
            return parts[0]
        together = parts[0]._mapped(lambda *values: np.concatenate(values), *parts[1:])
        return replace(together, prompts=PromptTimes.stacked([part.prompts for part in parts]))

    def joined(self, other: Steady) -> Steady:
        """These states, shape (n, k), and others of the same layouts after them."""
        return self._mapped(lambda *values: np.concatenate(values, axis=1), other)

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
        flight, flights = np.log(np.asarray(concurrency, dtype=float)), np.log(self.concurrency)
        by_field: dict[int, Array] = {}

        def between(values: Array) -> Array:
            # Without prompts most fields are the same array.
            if id(values) not in by_field:
                positive = bool(np.all(values > 0.0))
                read = np.interp(flight, flights, np.log(values) if positive else values)
                by_field[id(values)] = np.asarray(np.exp(read) if positive else read)
            return by_field[id(values)]

        return self._mapped(between)

    def of_each_at(self, concurrency: float) -> Steady:
        """The states of each of n layouts with some requests in flight [1], see :meth:`at`; shape (n, 1)."""
        first, *others = (self.take(index).at(concurrency) for index in range(len(self.batch)))
        return replace(first._mapped(lambda *values: np.stack(values)[:, None], *others), prompts=self.prompts)

    def without_prompts(self, steps: float, taken_seconds: float = 0.0) -> Steady:
        """Return the states of these batches on an instance that decodes what others have read.

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
        """Steady states of these numbers in flight where a share of the prompts is read again, shape (...)."""
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
        """These states, but others of the same batches from the first one on that is possible and completes more.

        Batches ascend along the last axis. A server does not go back: with more requests in flight it would complete
        as much with fewer.
        """
        better = possible & (other.requests_per_second > self.requests_per_second)
        better = np.logical_or.accumulate(better, axis=-1)
        return self._mapped(lambda values, others: np.asarray(np.where(better, others, values)), other)

    def _mapped(self, change: Callable[..., Array], *others: Steady) -> Steady:
        """Return states whose every array is made of that of these states and of others; the prompts stay."""
        states = (self, *others)
        arrays = {name: change(*(getattr(state, name) for state in states)) for name in _ARRAYS}
        return replace(self, **arrays)  # type: ignore[arg-type]


#: Fields of steady states that have a value for each state.
_ARRAYS = tuple(field.name for field in fields(Steady) if field.name != "prompts")


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
    :func:`inference_econ.serving.prefill_interference.chunked_steps`. Those that begin in the same step are read
    together, and each takes less (:func:`inference_econ.engine.prefill.shared_steps`); where decoding pauses, that
    counts if more than one begins per step on average. The number in flight follows from the share of its time that a
    request decodes, as an arriving one finds the others (Reiser and Lavenberg, 1980). No instance is more than busy.
    A new prompt waits for the rest of the running step and for prompts before it: see
    :func:`inference_econ.serving.prefill_interference.waits`.

    With speculation there are (osl - 1) / V rounds per answer in the place of osl - 1 steps, V tokens each on
    average. Prefill is not made shorter by it, so that it weighs more: its share per token stays (B - 1) / (osl -
    1) x P. The proposer reads every prompt as well, whether a batch speculates or not, since it may have to propose
    as soon as the batch is small again. A new prompt waits for the rest of a whole round. What the last round of an
    answer gives beyond its end is not counted: answers are long beside drafts.
    """
    batches = _batches(setup, plans, requests, speculation)
    reading, groups = batches.reading, batches.groups
    if not setup.assumptions.serving.prefill_chunk:
        nothing = np.zeros_like(batches.decode)
        turn = reading.busy_seconds
        return _state(batches, _in_turns(batches, prefill_first(batches), reading.seconds, np.zeros(()), nothing, turn))
    # Decoding beside a prompt is work for the chips while the host launches kernels.
    decoding = batches.company * (batches.decode - batches.saved)
    own = reading.chip_share * reading.seconds + reading.chunks * decoding
    idle, added = np.maximum(reading.seconds - own, 0.0), chunked_steps(batches)
    if several_fit(setup, requests):
        ahead, step = in_shared_steps(batches, added)
        # Nor does a prompt wait for those ahead while it waits for the host anyway.
        prompts = _Reading(added, own, idle, np.maximum(ahead - idle, 0.0), step, added.following, decoding)
    else:
        single = np.where(groups > 1.0, added.chips + added.joined, added.following)
        prompts = _in_turns(batches, added, own, idle, decoding, single + reading.chunks * batches.decode)
    state = _state(batches, prompts)
    if not setup.held_steps or np.all(groups == 1.0):
        return state
    # Groups of attention ranks hold prompts back for some decode steps at most.
    added, wait = delayed(batches, setup.held_steps)
    own, wait = own + batches.company * added.joined, batches.company * wait
    prompts = _Reading(added, own, idle, wait, batches.decode, added.following, decoding)
    return state.or_better(_state(batches, prompts), groups > 1.0)


def _batches(setup: Setup, plans: Plans, requests: Requests, speculation: Speculation | None) -> Batches:
    """Return the times of decode steps and prompts of plans, shape (...)."""
    size = np.broadcast_to(plans.batch, plans.shape)
    decode, tokens = decode_steps(setup, replace(plans, batch=size), speculation)
    prompts, parts = PromptTimes.of(setup, plans, requests, speculation), Parts.of(setup, requests)
    if not setup.assumptions.serving.prefill_chunk:
        shared = SharedWork.of(setup, plans, requests)
        return Batches(setup, requests, size, decode, tokens, prompts, parts, shared, np.zeros(decode.shape))
    # What the host launches for prompts beside decoding is counted in the steps that they share.
    free = unhindered(setup)
    shared = SharedWork.of(free, plans, requests)
    # The time that a step saves as decoding and prompts read weights together, with usual prompts.
    full, stages = replace(plans, batch=np.maximum(size, plans.pp)), plans.pp
    begun = parts.number * (full.batch - 1.0) / np.maximum(requests.decode_steps / tokens, 1.0)
    # Of the steps that read any.
    usual = np.where(begun > 0.0, begun / np.maximum(-np.expm1(-begun), 1e-12), 1.0) / stages
    together = np.broadcast_to(np.clip(usual, 1.0, parts.most * shared.groups[..., 0]), full.shape)
    alone = (shared.alone * shared.at(together[..., None]))[..., 0]
    saved = saved_seconds(free, full, parts.tokens, parts.cached, together, alone)
    saved = (1.0 if requests.decode_steps > 0 else 0.0) * np.broadcast_to(saved, decode.shape)
    return Batches(setup, requests, size, decode, tokens, prompts, parts, shared, saved)


def decode_steps(setup: Setup, plans: Plans, speculation: Speculation | None) -> tuple[Array, Array]:
    """Time of a decode step, or of a round of the best draft length [s], and the tokens that it gives a request [1]."""
    if speculation is None:
        # Every stage has a sequence.
        batch = np.maximum(plans.batch, plans.pp)
        return fastest_cut(setup, replace(plans, batch=batch)), np.ones(())
    drafts = rounds(setup, plans, speculation)
    length = drafts.best().length
    return np.take_along_axis(drafts.seconds, length[..., None], axis=-1)[..., 0], drafts.tokens[length]


class _Reading(NamedTuple):
    """Prompts among decode steps: what they add, and what a new one waits for; every array has shape (...) [s]."""

    added: Added
    """Time that each adds to steps."""
    own: Array
    """Time of a prompt in its own steps, that of others and of decoding there included."""
    idle: Array
    """Time for which its chips wait for the host."""
    ahead: Array
    """Mean wait for prompts that came before."""
    step: Array
    """Step that runs when a prompt comes, with the prompts in it."""
    following: Array
    """Time in which a prompt makes those wait that came before, as it is read with them or they wait for its turn."""
    beside: Array
    """Time that decoding adds to each step that reads a part of a prompt."""
    chance: Array | None = None
    """Chance that a prompt waits for its turn, where prompts take turns [1]."""


def _in_turns(batches: Batches, added: Added, own: Array, idle: Array, decoding: Array, turn: Array) -> _Reading:
    """Return how prompts are read one after the other, each for the time of its turn [s]."""
    chunked = bool(batches.setup.assumptions.serving.prefill_chunk)
    ahead, chance = waits(batches, turn, added, beside_decoding=chunked)
    # Nobody waits for more than all others.
    ahead = np.minimum(ahead, batches.others * added.mean)
    own = own + batches.company * added.joined
    return _Reading(added, own, idle, ahead, batches.decode, added.mean, decoding, chance)


def _state(batches: Batches, reading: _Reading) -> Steady:
    """Return the steady state that follows from the times of decode steps and prompts; see :func:`steady`."""
    setup, requests, prompt, decode = batches.setup, batches.requests, reading.added.mean, batches.decode
    answer, begun, parts = batches.answer_seconds(prompt), batches.begun, batches.parts.number
    running = batches.company * np.minimum(reading.step, decode + batches.others * prompt) / 2.0
    # Without prompts ahead and the rest of the running step. Steps that were prepared when a prompt came have prompts
    # of others, too; one after the other, those are ahead.
    fixed = reading.own + reading.idle + request_seconds(setup, requests.cached)
    if requests.decode_steps > 0:
        prepared = decode + begun * prompt if several_fit(setup, requests) else decode
        fixed = fixed + setup.assumptions.host.steps_ahead * batches.company * prepared
    ttft = fixed + reading.ahead + running
    cycle = ttft + answer
    rate = 1.0 / cycle + batches.others / np.maximum(answer, LEAST)
    rate = np.minimum(rate, batches.size / (batches.steps * decode + batches.size * prompt))
    # Steps with prompts, per prompt: several share one, which saves once for all of them.
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
