"""Compute steady states of continuous batching: TTFT, TPOT and throughput from step times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array, Indices, distinct
from inference_econ.engine import (
    Plans,
    Prefill,
    Setup,
    Speculation,
    fastest_cut,
    group_steps,
    prompts_of_a_step,
    reading_groups,
    request_seconds,
    rounds,
    saved_seconds,
    unhindered,
)
from inference_econ.formulas import special
from inference_econ.inputs import Requests
from inference_econ.serving.lengths import PromptTimes

#: Largest number of prompts per step for which GPU time is calculated [1].
_SHARED = 12
#: Smallest number of prompts per step; it replaces zero in divisions [1].
TINY = 1e-6
#: Smallest divisor, to avoid division by zero.
LEAST = float(np.finfo(float).tiny)


@dataclass(frozen=True, slots=True)
class Parts:
    """Average chunk of a mean prompt under chunked prefill; a step processes one chunk of a prompt.

    Attributes
    ----------
    tokens, cached : float
        New tokens of the chunk, and earlier tokens of the prompt in the KV cache [tokens].
    number : int
        Number of chunks per prompt [1].
    most : float
        Maximum number of chunks that an attention-DP group processes per step [1].
    """

    tokens: float
    cached: float
    number: int
    most: float

    @classmethod
    def of(cls, setup: Setup, requests: Requests) -> Parts:
        """Split the mean prompt of a workload into chunks."""
        limit, tokens = setup.assumptions.serving.prefill_chunk, requests.new_tokens
        number = max(1, math.ceil(tokens / limit)) if limit else 1
        part = tokens / number
        return cls(part, requests.cached + (tokens - part) / 2.0, number, prompts_of_a_step(setup, part))


@dataclass(frozen=True, slots=True, eq=False)
class SharedWork:
    """GPU time of a step with several prompt chunks, divided by the GPU time of a step with one chunk.

    Attributes
    ----------
    counts : ndarray, shape (m,)
        Numbers of chunks in an attention-DP group: 0, then from 1 to the maximum that fits in a step [1].
    work : ndarray, shape (2, ..., m)
        Time of a step with n chunks per group, for each n in ``counts``, relative to a step with a single chunk [1]. In
        the first row, one group has n chunks, and the other groups have n - 1. In the second row, every group has n
        chunks.
    groups : ndarray, shape (..., 1)
        Number of attention-DP groups that step together [1].
    alone : ndarray, shape (..., 1)
        Time of a step with one chunk [s].
    """

    counts: Array
    work: Array
    groups: Array
    alone: Array

    @classmethod
    def of(cls, setup: Setup, plans: Plans, requests: Requests) -> SharedWork:
        """Compute the relative GPU times for a workload's prompts on plans of shape (...)."""
        parts = Parts.of(setup, requests)
        counts = distinct(np.rint(np.geomspace(1.0, parts.most, _SHARED)))
        groups = reading_groups(setup, plans)[..., None]
        full, fewer = counts * groups, (counts - 1.0) * groups + 1.0
        if np.all(groups == 1.0):
            uneven = even = group_steps(setup, plans.column(full), parts.tokens, parts.cached, full, counts)
        else:
            both, most = np.concatenate([fewer, full], axis=-1), np.concatenate([counts, counts])
            steps = group_steps(setup, plans.column(both), parts.tokens, parts.cached, both, most)
            uneven, even = np.split(steps, 2, axis=-1)
        alone = uneven[..., :1]
        times = np.stack([uneven, np.maximum(even, uneven)]) / alone
        work = np.concatenate([np.zeros((*times.shape[:-1], 1)), times], axis=-1)
        return cls(np.append(0.0, counts), work, groups, alone)

    def at(self, parts: Array) -> Array:
        """Relative GPU time for given numbers of chunks per pipeline stage, shape (..., k) [1].

        Chunks that exceed a full step need additional steps.
        """
        if np.all(self.groups == 1.0):
            inside = np.minimum(parts, self.counts[-1])
            return np.asarray(self._along(inside)[1] * (np.maximum(parts, inside) / np.maximum(inside, TINY)))
        below = np.floor(parts)
        low, high = np.split(self._whole(np.concatenate([below, below + 1.0], axis=-1)), 2, axis=-1)
        return np.asarray(low + (parts - below) * (high - low))

    def _whole(self, parts: Array) -> Array:
        """Relative GPU time for an integer number of chunks, which are distributed evenly over groups."""
        groups = self.groups
        inside = np.minimum(parts, self.counts[-1] * groups)
        most = np.ceil(inside / groups)
        low, high = self._along(most)
        share = np.clip((inside - (most - 1.0) * groups - 1.0) / np.maximum(groups - 1.0, 1.0), 0.0, 1.0)
        return np.asarray((low + share * (high - low)) * (np.maximum(parts, inside) / np.maximum(inside, TINY)))

    def _along(self, parts: Array) -> Array:
        """Interpolate both rows of ``work`` at the numbers of chunks per group ``parts``, shape (2, ..., k)."""
        counts = self.counts
        above = np.clip(np.searchsorted(counts, parts), 1, counts.size - 1)
        low, high = (np.take_along_axis(self.work, above[None] - k, axis=-1) for k in (1, 0))
        return np.asarray(low + (parts - counts[above - 1]) / (counts[above] - counts[above - 1]) * (high - low))


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """Times of decode steps, and prefill times of prompts that run alone, which determine a steady state.

    Attributes
    ----------
    setup : Setup
        Model, chip, engine and assumptions.
    requests : Requests
        Request lengths and cached tokens.
    size : ndarray, shape (...)
        Mean decode batch at a step of a given request, including this request [1].
    decode : ndarray, shape (...)
        Time of a decode step without prefill, or of a speculation round [s].
    tokens : ndarray, shape (...)
        Mean tokens per request and step [1].
    prompts : PromptTimes
        Prefill times of single prompts.
    parts : Parts
        Average chunk of a prompt.
    shared : SharedWork
        GPU time of prompts that start in the same step, relative to prompts that run alone.
    saved : ndarray, shape (...)
        Time saved if one step processes decode and prefill tokens, compared with two separate steps [s].
    """

    setup: Setup
    requests: Requests
    size: Array
    decode: Array
    tokens: Array
    prompts: PromptTimes
    parts: Parts
    shared: SharedWork
    saved: Array

    @property
    def reading(self) -> Prefill:
        """Prefill of a prompt that runs alone, averaged over prompt lengths."""
        return self.prompts.mean

    @property
    def groups(self) -> Array:
        """Number of attention-DP groups that step together, shape (...) [1]."""
        return np.asarray(self.shared.groups[..., 0])

    @property
    def steps(self) -> Array:
        """Number of decode steps per request, shape (...) [1]."""
        return np.asarray(self.requests.decode_steps / self.tokens)

    @property
    def others(self) -> Array:
        """Number of other requests in the decode batch, shape (...) [1]."""
        return self.size - 1.0

    @property
    def company(self) -> Array:
        """Share of time in which at least one other request decodes, shape (...) [1]."""
        return np.minimum(self.others, 1.0)

    @property
    def begun(self) -> Array:
        """Mean number of prompts that start per step, one for each request that completes, shape (...) [1]."""
        return np.asarray(self.others / np.maximum(self.steps, 1.0))

    def columns(self, chosen: slice) -> Batches:
        """Select batches by their place on the last axis."""
        size, decode, saved = (values[..., chosen] for values in (self.size, self.decode, self.saved))
        tokens = self.tokens[..., chosen] if self.tokens.ndim else self.tokens
        return replace(self, size=size, decode=decode, tokens=tokens, saved=saved)

    def answer_seconds(self, prompt: Array) -> Array:
        """Duration of a request's decode steps, with the prefill of other prompts between them, shape (...) [s]."""
        return np.asarray(self.steps * self.decode + self.others * prompt)


#: Number of prompts per step above which the random variation of this number is neglected [1].
_MANY = 40.0
#: Borders of the ranges of mean numbers of prompts per step for which equally many numbers are enumerated [1].
_MEANS = (4.0, 12.0)
#: Number of iterations for the number of prompts that arrive during a step [1].
_PASSES = 3
#: Number of iterations for delayed prefill; the first iteration assumes a single prompt [1].
_HELD_PASSES = 8
#: Number of Newton steps that find a mean, and of bisection steps that find a request rate [1].
_NEWTON, _HALVINGS = 6, 30


class Added(NamedTuple):
    """Time that the prefill of one prompt adds to the steps that process the prompt [s].

    Decoding requests and other prompts are delayed by the added time.
    """

    mean: Array
    """Mean added time per prompt, including CPU overhead."""
    chips: Array
    """Mean added GPU time per prompt, without CPU overhead."""
    following: Array
    """GPU time that one additional prompt takes in a step with other prompts."""
    joining: Array
    """GPU time that each other prompt contributes to a step that also processes a new prompt."""
    joined: Array
    """GPU time of all other prompts in a new prompt's steps, if attention-DP groups step together; 0 otherwise."""


def _where_alone(groups: Array, single: Added, several: Added) -> Added:
    """Select ``single`` where an instance has one attention-DP group, and ``several`` elsewhere."""
    return Added(*(np.where(groups == 1.0, *values) for values in zip(single, several, strict=True)))


def prefill_first(batches: Batches) -> Added:
    """Time that prompts add if decoding pauses until all waiting prompts are processed.

    Attention-DP groups step together. Prompts that arrive during a step are processed in parallel in the next step, at
    most one per group.
    """
    busy = batches.reading.busy_seconds
    mean = busy * _part_share(batches, np.maximum(batches.begun, 1.0))
    single = Added(mean, mean, busy, mean, np.zeros(()))
    if np.all(batches.groups == 1.0):
        return single
    begun, reading, decode = batches.begun, batches.reading, batches.decode
    # Bisect for the rate at which prompts arrive as fast as requests end [1/s].
    low, high = np.zeros_like(busy * begun), begun / decode
    for _ in range(_HALVINGS - 1):
        rate = (low + high) / 2.0
        more = rate * (decode + _read_between(batches, rate)[0]) < begun
        low, high = np.where(more, rate, low), np.where(more, high, rate)
    seconds, number = _read_between(batches, np.asarray((low + high) / 2.0))
    mean = np.where(begun > 0.0, seconds / np.maximum(begun, TINY), busy)
    # Steps in which every group has a prompt are the most efficient, so their time per prompt is a lower bound.
    mean = np.clip(mean, np.minimum(reading.full_seconds, busy), busy)
    joined = np.maximum(busy * number * _part_share(batches, number) - busy, 0.0)
    several = Added(mean, mean, np.minimum(reading.full_seconds, mean), mean, joined)
    return _where_alone(batches.groups, single, several)


def _read_between(batches: Batches, rate: Array) -> tuple[Array, Array]:
    """Prefill time between two decode steps [s], and number of prompts per prefill step [1].

    Prefill steps continue as long as a prompt arrived during the previous step. At a request rate L, exp(L T) prefill
    steps of duration T follow each other on average.
    """
    busy, most = batches.reading.busy_seconds, batches.groups * batches.shared.counts[-1]
    stages = batches.reading.seconds / busy
    number, step = np.ones_like(rate), np.broadcast_to(busy, rate.shape)
    for _ in range(_PASSES):
        expected = rate * step
        number = np.clip(expected / np.maximum(-np.expm1(-expected), TINY), 1.0, most * stages)
        step = busy * number * _part_share(batches, number)
    return -np.expm1(-rate * batches.decode) * np.exp(np.minimum(rate * step, 50.0)) * step, number


def _part_share(batches: Batches, number: Array) -> Array:
    """GPU time per chunk if ``number`` chunks share a step, relative to a step with one chunk [1]."""
    stages = batches.reading.seconds / batches.reading.busy_seconds
    return np.asarray(stages * batches.shared.at((number / stages)[..., None])[..., 0] / number)


def in_shared_steps(batches: Batches, added: Added) -> tuple[Array, Array]:
    """GPU time of prompts ahead of a new prompt, and duration of the step that is running when the prompt arrives [s].

    These times are valid if several prompts fit in a step.

    Notes
    -----
    A prompt that arrives during a step extends the next step by the GPU time of one additional prompt. The remaining
    part of the mean step duration is treated as constant. CPU overhead extends all steps equally.
    """
    decode, others = batches.decode, batches.others
    share, working = (
        others * seconds / np.maximum(batches.answer_seconds(seconds), LEAST) for seconds in (added.mean, added.chips)
    )
    mean = decode / np.maximum(1.0 - working, TINY)
    part = working * added.following / np.maximum(added.chips, LEAST)
    step = through_gates(added.following, mean * (1.0 - part), part, batches.requests)
    # The prompts ahead are at most all other prompts. The division comes first, because the added time may be nearly
    # zero.
    before = np.minimum(part * step, others * added.following) / np.maximum(added.following, LEAST)
    return before * added.joining, step + decode / np.maximum(1.0 - share, TINY) - mean


class _Part(NamedTuple):
    """Times of a step with one chunk of a prompt; every array has shape (...)."""

    working: Array
    """GPU time of the chunk [s]."""
    waiting: Array
    """CPU time to launch the kernels of the step [s]."""
    stages: Array
    """Number of pipeline stages; each chunk passes through all stages [1]."""
    saved: Array
    """Time saved because the step reads weights once for decode and the chunk [s]."""


def _part(batches: Batches) -> _Part:
    reading, number = batches.reading, batches.parts.number
    launching = reading.busy_seconds * (1.0 - batches.decode * reading.chunks / reading.seconds)
    working, waiting = (seconds / number for seconds in (reading.chip_share * reading.busy_seconds, launching))
    stages = np.asarray(reading.seconds / reading.busy_seconds)
    if number > 1:
        # Chunks of one prompt fill the stages of a pipeline.
        stages = np.maximum(number * reading.seconds / reading.busy_seconds - number + 1.0, 1.0)
    return _Part(working, waiting, stages, batches.saved / stages)


def chunked_steps(batches: Batches) -> Added:
    """Time that each prompt adds to steps that it shares with decoding and other prompts, under chunked prefill.

    Notes
    -----
    A step launches its kernels once, in the CPU time W. N chunks take the GPU time C w(N) - O. C is the GPU time of one
    chunk, w is the relative time of N chunks, and O is the saved time. The longer of the CPU time and the GPU time
    applies. N is Poisson-distributed, because a prompt of c chunks takes part in c steps. If G groups step together, w
    is the time of the fullest group, with ceil(N / G) chunks. More prompts arrive during longer steps (:func:`_gated`,
    :func:`_by_length`).

    The other prompts in a prompt's step add the GPU time of all chunks minus C. Each pipeline stage processes one chunk
    after the other. Every prompt adds at least a share of W, because its tokens use a share of the token budget of a
    step.
    """
    parts, part = batches.parts, _part(batches)
    # This case applies to prompts of several chunks; no two prompts share a step.
    chips = np.maximum(part.working - part.saved, 0.0)
    longer = np.asarray(parts.number * np.maximum(chips, part.waiting))
    single = Added(longer, parts.number * chips, longer, longer, np.zeros(()))
    if parts.number > 1 and np.all(batches.groups == 1.0):
        return single
    several = _added_by_chance(batches)
    return _where_alone(batches.groups, single, several) if parts.number > 1 else several


def _added_by_chance(batches: Batches) -> Added:
    """Added time per prompt if a random number of prompts share each step.

    Fewer counts are enumerated for batches with a small mean number of chunks per step.
    """
    number = np.maximum(batches.begun * batches.parts.number, TINY)
    means = np.maximum.accumulate(number.reshape(-1, number.shape[-1]).max(axis=0))
    # The distribution of several chunks per prompt is found by iteration, which needs all counts.
    borders = _MEANS if batches.parts.number == 1 else ()
    ends = [0, *np.searchsorted(means, borders).tolist(), means.size]
    added = [
        _added_in_range(batches.columns(slice(start, end)), min(highest, float(means[-1])))
        for (start, end), highest in zip(pairwise(ends), (*borders, _MANY), strict=True)
        if start < end
    ]
    return added[0] if len(added) == 1 else Added(*(np.concatenate(each, axis=-1) for each in zip(*added, strict=True)))


def _added_in_range(batches: Batches, most: float) -> Added:
    """Added time per prompt, as in :func:`_added_by_chance`, if a step has at most ``most`` chunks on average [1]."""
    parts, part = batches.parts.number, _part(batches)
    number = np.maximum(batches.begun * parts, TINY)
    usual = np.minimum(number, _MANY)
    steps = _counted(batches, part, usual, most)
    growth, further = _beyond_counts(batches, part, usual, number)
    # Probabilities are normalized, because only a finite number of chunks is enumerated.
    growth = 1.0 / _expected(steps.chance, steps.parts) * growth
    mean, chips = (parts * _expected(steps.chance, seconds) * growth for seconds in (steps.taken, steps.work))
    following = parts * _expected(steps.chance, steps.work_of_one_more - steps.work) * further
    all_others = _expected(steps.met, steps.work_of_one_more) - steps.work_of_one_more[0]
    joined = parts * np.maximum(all_others, 0.0)
    least = min(batches.requests.new_tokens / batches.setup.assumptions.serving.prefill_chunk, 1.0)
    mean = np.maximum(mean, least * parts * part.waiting / batches.groups)
    # An additional prompt adds at least zero and at most the mean. The limits matter where the message protocol changes
    # with the number of prompts.
    return Added(mean, chips, np.clip(following, 0.0, chips), np.minimum(joined * growth, chips), joined)


class _Counted(NamedTuple):
    """Durations and probabilities of steps with 0, 1, ... prompt chunks, in arrays of shape (k, ...)."""

    parts: Array
    """Numbers of chunks: 0, 1, ..., shape (k, 1, ...) [1]."""
    work: Array
    """GPU time of all chunks in the step [s]."""
    work_of_one_more: Array
    """GPU time of a step with one more chunk [s]."""
    taken: Array
    """Time that the chunks add to the step: the longer of GPU time and CPU time [s]."""
    chance: Array
    """Share of all steps that have each number of chunks [1]."""
    met: Array
    """Probability that a new prompt's step has each number of other chunks [1]."""


def _counted(batches: Batches, part: _Part, mean: Array, most: float) -> _Counted:
    """Durations and probabilities of steps by number of chunks.

    ``mean`` is the mean number of chunks per step, at most ``most`` [1]. Larger numbers than those that are enumerated
    have negligible probabilities.
    """
    numbers = np.arange(np.ceil(most + 8.0 * np.sqrt(most)) + 9.0)
    counts = numbers.reshape(-1, *[1] * mean.ndim)
    begun, several = np.minimum(counts, part.stages), batches.parts.number > 1
    # Chunks that exceed a full step need additional steps, which also decode. More chunks never take less GPU time.
    room = part.stages * batches.parts.most * batches.groups
    saved = part.saved * begun * np.maximum(np.ceil(counts / room), 1.0)
    relative = np.moveaxis(batches.shared.at(numbers / part.stages[..., None]), -1, 0)
    work = part.working * (part.stages * relative) - saved
    work = np.maximum.accumulate(np.maximum(work, 0.0, order="C"), axis=0)
    counts, work, more = counts[:-1], work[:-1], work[1:]
    taken = np.maximum(part.waiting * begun[:-1], work)
    together = np.broadcast_to(batches.groups > 1.0, mean.shape)
    chance = np.empty((len(counts), *mean.shape))
    chance[:, ~together] = _poisson(mean[~together], len(counts))
    met = chance.copy() if several else chance
    if together.any():
        length = np.broadcast_to(batches.decode + taken, chance.shape)[:, together]
        chance[:, together], met[:, together] = (_by_length if several else _gated)(mean[together], length)
    return _Counted(counts, work, more, taken, chance, met)


def _expected(chance: Array, values: Array) -> Array:
    """Mean of values weighted with probabilities, over the first axis."""
    return np.asarray(np.einsum("k...,k...->...", chance, values))


def _beyond_counts(batches: Batches, part: _Part, usual: Array, number: Array) -> tuple[Array | float, Array]:
    """Factors for more than :data:`_MANY` chunks per step: on the time per chunk, and per additional chunk [1].

    The distribution is calculated for a mean of at most :data:`_MANY` chunks. The factors convert the resulting times
    to the actual mean number of chunks.
    """
    if not np.any(number > usual):
        return 1.0, np.ones(())
    shared, stages = batches.shared, part.stages[..., None]
    (all_usual, one_usual), (all_now, one_now) = (
        (shared.at(parts)[..., 0], (shared.at(parts + 1.0 / stages) - shared.at(parts))[..., 0])
        for parts in ((usual / part.stages)[..., None], (number / part.stages)[..., None])
    )
    growth = np.where(number > usual, all_now / all_usual * usual / number, 1.0)
    return growth, np.where(number > usual, one_now / np.maximum(one_usual, TINY), 1.0)


def delayed(batches: Batches, steps: float) -> tuple[Added, Array]:
    """Added time per prompt, and mean time that a prompt waits for other prompts [s], under delayed prefill.

    Prefill is delayed until every attention-DP group has a prompt, but for at most ``steps`` decode steps.

    Parameters
    ----------
    batches : Batches
        Times of decode steps and prompts.
    steps : float
        Longest delay, H [decode steps].

    Notes
    -----
    Prompts arrive as a Poisson process with rate L. A server has G groups, and a decode step takes the time D. If R
    prompts are waiting when the delay starts, min(G - R, P) more prompts join, where P is Poisson-distributed with mean
    L H D. By Wald's identity, the waiting prompts are delayed by the expected number of joining prompts divided by L.
    Joining prompts wait half of this time on average.
    """
    part, parts, decode, prompts = _part(batches), batches.parts.number, batches.decode, batches.begun
    full = batches.groups * part.stages

    def chips_for(number: Array) -> Array:
        """GPU time of ``number`` prompts that are processed together [s]."""
        work = part.working * part.stages * batches.shared.at((number / part.stages)[..., None])[..., 0]
        return np.asarray(parts * np.maximum(work - part.saved * np.minimum(number, part.stages), 0.0))

    number = np.ones(np.broadcast_shapes(np.shape(decode), np.shape(full)))
    for _ in range(_HELD_PASSES):
        chips = chips_for(number)
        taken = np.maximum(chips, parts * part.waiting)
        rate = np.maximum(prompts, TINY) / (decode + prompts * taken / number)
        begun = np.maximum(rate * (taken + parts * decode), 1.0)
        joining = special.poisson_capped(rate * steps * decode, np.maximum(full - begun, 0.0))
        number = begun + joining
    single = chips_for(np.ones_like(number))
    following = np.clip((chips - single) / np.maximum(number - 1.0, TINY), 0.0, chips / number)
    wait = joining / rate * (begun + joining / 2.0) / number
    return Added(taken / number, chips / number, following, following, np.maximum(chips - single, 0.0)), wait


def _gated(mean: Array, length: Array) -> tuple[Array, Array]:
    """Probability of each number of chunks per step, if a step processes the arrivals of the previous step [1].

    More prompts arrive during steps with prompts, because steps without prompts are shorter. The array of shape (k,
    ...) is returned twice: for all steps, and for the steps of a new prompt, which have the same distribution.
    """
    chance, short = _poisson(mean, len(length)), length[0]
    for _ in range(_PASSES):
        none = chance[0]
        longer = _expected(chance[1:], length[1:]) / np.maximum(1.0 - none, TINY)
        rate = mean / (none * short + (1.0 - none) * longer)
        idle, chance = (_poisson(np.maximum(rate * step, TINY), len(length)) for step in (short, longer))
        none = chance[0] / np.maximum(1.0 - idle[0] + chance[0], TINY)
        idle *= none
        chance *= 1.0 - none
        chance += idle
        chance /= chance.sum(axis=0)
    return chance, chance


def _by_length(mean: Array, length: Array) -> tuple[Array, Array]:
    """Probability of each number of chunks: over all steps, and in the step at a random time, shape (k, ...) each [1].

    The number of chunks in the step at a random time is assumed to be Poisson-distributed. Newton's method finds the
    mean of this distribution from the mean number per step. A random time falls in a step with a probability
    proportional to the duration of the step.
    """
    count = np.arange(float(len(length)))[:, None]
    highest = np.log(2.0 * count[-1])
    log = np.minimum(np.log(mean * length[1] / length[0]), highest)
    for _ in range(_NEWTON):
        steps = _poisson(np.exp(log), len(length)) / length
        steps /= steps.sum(axis=0)
        average = _expected(steps, count)
        variance = _expected(steps, count**2) - average**2
        change = np.log(mean / average) * average / np.maximum(variance, TINY * average)
        log = np.minimum(log + np.clip(change, -1.0, 1.0), highest)
    met = _poisson(np.exp(log), len(length))
    steps = met / length
    return steps / steps.sum(axis=0), met / met.sum(axis=0)


def _poisson(mean: Array, counts: int) -> Array:
    """Poisson probabilities of 0, 1, ..., counts - 1 for means of shape (...), in shape (counts, ...) [1]."""
    chance = np.empty((counts, *mean.shape))
    # Below e^-700 numbers lose digits. Each probability follows from the previous one, faster than exponentials.
    np.exp(-np.minimum(mean, 700.0), out=chance[0])
    for number in range(1, counts):
        np.multiply(chance[number - 1], mean, out=chance[number])
        chance[number] *= 1.0 / number
    return chance


def several_fit(setup: Setup, requests: Requests) -> bool:
    """Check whether the token budget of a step fits at least two mean prompts."""
    return 2.0 * requests.new_tokens <= setup.assumptions.serving.prefill_chunk


def through_gates(alone: Array, decode: Array, share: Array, requests: Requests) -> Array:
    """Mean duration of the step that is running when a prompt arrives, if prompts have one chunk [s].

    Notes
    -----
    A step processes all prompts that arrived during the previous step (gated service: Takagi, 1991). The mean step
    takes D / (1 - r). A step during which a prompt arrives takes (D + P r (1 + c2) / (1 + r)) / (1 - r) on average,
    because arrivals are more likely during long steps.

    r is the share of time that prefill takes, P is the time of a prompt, and D is the time without prompts. The symbol
    c2 is the squared coefficient of variation of prompt lengths. Prompts that arrive during a step get their first
    token at the end of the next step.
    """
    return (decode + alone * share * (1.0 + requests.isl.scv) / (1.0 + share)) / np.maximum(1.0 - share, 1e-9)


def waits(batches: Batches, turn: Array, added: Added, *, beside_decoding: bool) -> tuple[Array, Array]:
    """Mean time that a new prompt waits for earlier prompts [s], and the probability that it waits [1].

    Parameters
    ----------
    batches : Batches
        Times of decode steps and prompts. The symbol c2 is the squared coefficient of variation of prompt lengths.
    turn : ndarray, shape (...)
        Time from the start of the first to the end of the last prefill step of a prompt, S [s].
    added : Added
        Time that each prompt adds to steps.
    beside_decoding : bool
        True if each of the G groups processes a prompt while it decodes; False if decoding pauses for prompts.

    Notes
    -----
    If decoding pauses, the Pollaczek-Khinchine formula gives the wait S (1 + c2) / 2 x r / (1 - r), where r is the
    share of time that prefill takes. Under load, groups that step together process more prompts at once, which reduces
    r in the denominator.

    If no two prompts fit in a step, or prompts have several chunks, prompts wait in a queue for G servers of
    utilization x. For G = 1 the Pollaczek-Khinchine formula applies. For larger G, the wait is S (1 + c2) / 2 x
    x^(sqrt(2 (G + 1)) - 1) / (G (1 - x)) (Sakasegawa, 1977).
    """
    share = batches.others * added.mean / np.maximum(batches.answer_seconds(added.mean), LEAST)
    half = turn * (1.0 + batches.requests.isl.scv) / 2.0
    if not beside_decoding:
        crowded = share * np.minimum(added.following / added.mean, 1.0)
        return np.asarray(half * share / np.maximum(1.0 - crowded, 1e-9)), crowded
    groups = batches.groups
    taken = np.minimum(share * turn / np.maximum(added.mean, LEAST) / groups, 1.0)
    chance = taken ** (np.sqrt(2.0 * (groups + 1.0)) - 1.0)
    return np.asarray(half * chance / (groups * np.maximum(1.0 - taken, 1e-9))), chance


#: Ratio of two throughputs above which they count as equal [1].
_EQUAL = 0.99


@dataclass(frozen=True, slots=True, eq=False)
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

        def between(values: Array) -> Array:
            positive = bool(np.all(values > 0.0))
            read = np.interp(flight, flights, np.log(values) if positive else values)
            return np.asarray(np.exp(read) if positive else read)

        return self._mapped(between)

    def of_each_at(self, concurrency: float) -> Steady:
        """Interpolate the states of each of n layouts at a concurrency [1], shape (n, 1); see :meth:`at`."""
        first, *others = (self.take(index).at(concurrency) for index in range(len(self.batch)))
        return replace(first._mapped(lambda *values: np.stack(values)[:, None], *others), prompts=self.prompts)

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
    :func:`inference_econ.serving.steady.chunked_steps`. Prompts that start in the same step are processed
    together, which reduces the time per prompt (:func:`inference_econ.engine.prefill.shared_steps`). If decoding pauses
    for prefill, this reduction applies if more than one prompt starts per step on average.

    The concurrency follows from the share of time that a request spends in decoding. An arriving request finds the
    state of an instance with one request less (Reiser and Lavenberg, 1980). Utilization is at most 1. A new prompt
    waits for the end of the running step and for earlier prompts; see
    :func:`inference_econ.serving.steady.waits`.

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
