"""Prompts among decode steps: what they add to the steps that they share, and what they wait for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.engine import Plans, Prefill, Setup, group_steps, prompts_of_a_step, reading_groups
from inference_econ.formulas import special
from inference_econ.inputs import Requests
from inference_econ.serving.lengths import PromptTimes

#: Numbers of prompts in a step whose work is calculated [1].
_SHARED = 12
#: Fewer prompts in a step than this are none [1].
TINY = 1e-6
#: Least divisor in the place of none.
LEAST = float(np.finfo(float).tiny)


@dataclass(frozen=True, slots=True)
class Parts:
    """Part of a prompt that a step reads: all of it, or a chunk in the middle.

    Attributes
    ----------
    tokens, cached : float
        New tokens, and those in the cache before [tokens].
    number : int
        Of a prompt [1].
    most : float
        Parts that a group of attention ranks reads in a step [1].
    """

    tokens: float
    cached: float
    number: int
    most: float

    @classmethod
    def of(cls, setup: Setup, requests: Requests) -> Parts:
        """Of the prompts of some requests."""
        limit, tokens = setup.assumptions.serving.prefill_chunk, requests.new_tokens
        number = max(1, math.ceil(tokens / limit)) if limit else 1
        part = tokens / number
        return cls(part, requests.cached + (tokens - part) / 2.0, number, prompts_of_a_step(setup, part))


@dataclass(frozen=True, slots=True)
class SharedWork:
    """Work of the chips for parts of prompts that share a step, over that for one by itself.

    Attributes
    ----------
    counts : ndarray, shape (m,)
        Parts of a group of attention ranks: 1, .. and as many as a step has room for [1].
    even, uneven : ndarray, shape (..., m)
        Work where every group has so many, and where one has so many and all others one less [1].
    groups : ndarray, shape (..., 1)
        Groups that step together [1].
    alone : ndarray, shape (..., 1)
        Step that reads one part [s].
    """

    counts: Array
    even: Array
    uneven: Array
    groups: Array
    alone: Array

    @classmethod
    def of(cls, setup: Setup, plans: Plans, requests: Requests) -> SharedWork:
        """Of the prompts of some requests, on plans of shape (...)."""
        parts = Parts.of(setup, requests)
        counts = np.unique(np.rint(np.geomspace(1.0, parts.most, _SHARED)))
        groups = reading_groups(setup, plans)[..., None]
        full, fewer = counts * groups, (counts - 1.0) * groups + 1.0
        columns = plans.column(full)
        even = group_steps(setup, columns, parts.tokens, parts.cached, full, counts)
        if np.all(groups == 1.0):
            alone = even[..., :1]
            return cls(counts, even / alone, even / alone, groups, alone)
        uneven = group_steps(setup, columns, parts.tokens, parts.cached, fewer, counts)
        alone = uneven[..., :1]
        return cls(counts, np.maximum(even, uneven) / alone, uneven / alone, groups, alone)

    def at(self, parts: Array) -> Array:
        """Of other numbers of parts of a stage, shape (..., k) [1]; what a step has no room for takes further steps."""
        if np.all(self.groups == 1.0):
            inside = np.minimum(parts, self.counts[-1])
            work = _along(np.append(0.0, self.counts), _from_zero(self.even), inside)
            return np.asarray(work * (np.maximum(parts, inside) / np.maximum(inside, TINY)))
        below = np.floor(parts)
        low = self._whole(below)
        return np.asarray(low + (parts - below) * (self._whole(below + 1.0) - low))

    def _whole(self, parts: Array) -> Array:
        """Of a whole number of parts that are dealt out: the fullest group has one more than any other at most."""
        groups = self.groups
        inside = np.minimum(parts, self.counts[-1] * groups)
        most = np.ceil(inside / groups)
        first = (most - 1.0) * groups + 1.0
        counts = np.append(0.0, self.counts)
        low, high = (_along(counts, _from_zero(work), most) for work in (self.uneven, self.even))
        share = np.clip((inside - first) / np.maximum(groups - 1.0, 1.0), 0.0, 1.0)
        return np.asarray((low + share * (high - low)) * (np.maximum(parts, inside) / np.maximum(inside, TINY)))


def _from_zero(work: Array) -> Array:
    """Work of some numbers of parts, after that of none."""
    return np.concatenate([np.zeros((*work.shape[:-1], 1)), work], axis=-1)


def _along(counts: Array, work: Array, at: Array) -> Array:
    """Work of shape (..., m) between some counts, shape (..., k)."""
    above = np.clip(np.searchsorted(counts, at), 1, counts.size - 1)
    shape = (*np.broadcast_shapes(work.shape[:-1], above.shape[:-1]), counts.size)
    places = np.broadcast_to(above, (*shape[:-1], above.shape[-1]))
    low, high = (np.take_along_axis(np.broadcast_to(work, shape), places - k, axis=-1) for k in (1, 0))
    along = (at - counts[above - 1]) / (counts[above] - counts[above - 1])
    return np.asarray(low + along * (high - low))


@dataclass(frozen=True, slots=True)
class Batches:
    """Times of decode steps and of prompts by themselves, from which a steady state follows.

    Attributes
    ----------
    setup : Setup
        Its assumptions count.
    requests : Requests
        Lengths.
    size : ndarray, shape (...)
        Requests that a decode step works on, as one of them sees it [1].
    decode : ndarray, shape (...)
        A decode step without prefill, or a round of speculation [s].
    tokens : ndarray, shape (...)
        Tokens that a step gives each request on average [1].
    prompts : PromptTimes
        Of prompts by themselves; their average counts.
    parts : Parts
        Part of a prompt that a step reads.
    shared : SharedWork
        Work of the chips for prompts that begin in the same step.
    saved : ndarray, shape (...)
        Time that a step which decodes and reads prompts takes less than two steps for both [s].
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
        """One prompt by itself, the average over their lengths."""
        return self.prompts.mean

    @property
    def groups(self) -> Array:
        """Groups of attention ranks that step together, shape (...) [1]."""
        return np.asarray(self.shared.groups[..., 0])

    @property
    def steps(self) -> Array:
        """Decode steps of an answer, shape (...) [1]."""
        return np.asarray(self.requests.decode_steps / self.tokens)

    @property
    def others(self) -> Array:
        """Other requests that decode beside one, shape (...) [1]."""
        return self.size - 1.0

    @property
    def company(self) -> Array:
        """Share of the time that any other request decodes, shape (...) [1]."""
        return np.minimum(self.others, 1.0)

    @property
    def begun(self) -> Array:
        """Prompts that begin per step on average: one for each other request that ends, shape (...) [1]."""
        return np.asarray(self.others / np.maximum(self.steps, 1.0))

    def answer_seconds(self, prompt: Array) -> Array:
        """Return the time of all steps of an answer and of the prompts of others between them, shape (...) [s]."""
        return np.asarray(self.steps * self.decode + self.others * prompt)


#: So many prompts in a step that chance hardly matters [1].
_MANY = 40.0
#: Passes after which the number of prompts that come during a step hardly changes [1].
_PASSES = 3
#: The same where groups hold prompts back, which begins with one by itself [1].
_HELD_PASSES = 8
#: Steps that find a mean and a rate [1].
_NEWTON, _HALVINGS = 6, 30


class Added(NamedTuple):
    """Time that each prompt adds to the steps that it shares with decoding and with other prompts [s]."""

    mean: Array
    """All that come taken together, the waits of chips for the host included."""
    chips: Array
    """Work of the chips for all that come taken together."""
    following: Array
    """Work for one that comes beside those that come anyway."""
    joining: Array
    """Work for each of the others in a prompt's own step."""
    joined: Array
    """Work for all others in a prompt's own steps, on groups that step together."""


def _where_alone(groups: Array, single: Added, several: Added) -> Added:
    """Return what is added where one group of attention ranks is all, and elsewhere."""
    return Added(*(np.where(groups == 1.0, *values) for values in zip(single, several, strict=True)))


def prefill_first(batches: Batches) -> Added:
    """Return the time that decoding waits for each prompt, where it waits for all which begin after a step.

    Groups of attention ranks that step together read what comes meanwhile beside each other: as many as come during a
    step, at most one each.
    """
    busy = batches.reading.busy_seconds
    mean = busy * _part_share(batches, np.maximum(batches.begun, 1.0))
    single = Added(mean, mean, busy, mean, np.zeros(()))
    if np.all(batches.groups == 1.0):
        return single
    begun, reading, decode = batches.begun, batches.reading, batches.decode
    # The rate at which as many prompts come per cycle of decoding and reading as begin, by bisection [1/s].
    low, high = np.zeros_like(busy * begun), begun / decode
    for _ in range(_HALVINGS - 1):
        rate = (low + high) / 2.0
        more = rate * (decode + _read_between(batches, rate)[0]) < begun
        low, high = np.where(more, rate, low), np.where(more, high, rate)
    seconds, number = _read_between(batches, np.asarray((low + high) / 2.0))
    mean = np.where(begun > 0.0, seconds / np.maximum(begun, TINY), busy)
    # Never less than what full groups take.
    mean = np.clip(mean, np.minimum(reading.full_seconds, busy), busy)
    joined = np.maximum(busy * number * _part_share(batches, number) - busy, 0.0)
    several = Added(mean, mean, np.minimum(reading.full_seconds, mean), mean, joined)
    return _where_alone(batches.groups, single, several)


def _read_between(batches: Batches, rate: Array) -> tuple[Array, Array]:
    """Return the time that groups read prompts between two decode steps [s], and how many they read at a time [1].

    They go on as long as any come during the step before: with steps of T and a rate of L, exp(L T) of them once one
    has come.
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
    """Return the work of each of some parts that are read together, over that of one by itself [1]."""
    stages = batches.reading.seconds / batches.reading.busy_seconds
    return np.asarray(stages * batches.shared.at((number / stages)[..., None])[..., 0] / number)


def in_shared_steps(batches: Batches, added: Added) -> tuple[Array, Array]:
    """Return the work of prompts before one, and the step that it meets, where several share a step [s].

    Notes
    -----
    Those that come while a step lasts make the next one longer by what chips work for one more of them; the rest of the
    mean step is as if fixed. The host makes all steps longer alike.
    """
    decode, others = batches.decode, batches.others
    share, working = (
        others * seconds / np.maximum(batches.answer_seconds(seconds), LEAST) for seconds in (added.mean, added.chips)
    )
    mean = decode / np.maximum(1.0 - working, TINY)
    part = working * added.following / np.maximum(added.chips, LEAST)
    step = through_gates(added.following, mean * (1.0 - part), part, batches.requests)
    # Divided first: the number of those before is at most that of all others, however short what each adds.
    before = np.minimum(part * step, others * added.following) / np.maximum(added.following, LEAST)
    return before * added.joining, step + decode / np.maximum(1.0 - share, TINY) - mean


class _Part(NamedTuple):
    """Times of a step for one part of a prompt; every array has shape (...)."""

    working: Array
    """Work of the chips [s]."""
    waiting: Array
    """Time of the host, which launches its kernels [s]."""
    stages: Array
    """Pipeline stages that read parts in turn [1]."""
    saved: Array
    """Time that a step takes less as decoding and the part read weights together [s]."""


def _part(batches: Batches) -> _Part:
    reading, number = batches.reading, batches.parts.number
    launching = reading.busy_seconds * (1.0 - batches.decode * reading.chunks / reading.seconds)
    working, waiting = (seconds / number for seconds in (reading.chip_share * reading.busy_seconds, launching))
    stages = np.asarray(reading.seconds / reading.busy_seconds)
    if number > 1:
        # Chunks of a prompt follow each other through a pipeline.
        stages = np.maximum(number * reading.seconds / reading.busy_seconds - number + 1.0, 1.0)
    return _Part(working, waiting, stages, batches.saved / stages)


def chunked_steps(batches: Batches) -> Added:
    """Return the time that each prompt adds to the steps that it shares with decoding and with other prompts.

    Notes
    -----
    The host launches once for all parts of a step, which takes W, while they are work C w(N) - O for the chips: the
    longer of both. By chance N is Poisson-distributed, as a prompt of c parts is in c steps: one more on average is one
    more whatever N was. Where G groups step together, w is that of the fullest, which has ceil(N / G) of parts that are
    dealt out one by one; and more come during a step that reads others (:func:`_gated`, :func:`_by_length`). A prompt
    finds as many others in its step as there are on average, and what they add for the chips is C less than what all
    take. With pipeline stages N up to their number are read in turn. Every prompt adds a share of W at least: no more
    of them share a step than its tokens allow.
    """
    parts, part = batches.parts, _part(batches)
    # Of prompts of some parts, no two of which share a step.
    chips = np.maximum(part.working - part.saved, 0.0)
    longer = np.asarray(parts.number * np.maximum(chips, part.waiting))
    single = Added(longer, parts.number * chips, longer, longer, np.zeros(()))
    if parts.number > 1 and np.all(batches.groups == 1.0):
        return single
    several = _added_by_chance(batches, part)
    return _where_alone(batches.groups, single, several) if parts.number > 1 else several


def _added_by_chance(batches: Batches, part: _Part) -> Added:
    """Return what prompts add that share steps with as many others as come by chance."""
    parts = batches.parts.number
    number = np.maximum(batches.begun * parts, TINY)
    usual = np.minimum(number, _MANY)
    steps = _counted(batches, part, usual)
    growth, further = _beyond_counts(batches, part, usual, number)
    # Of the numbers that are looked at.
    growth = 1.0 / (steps.chance * steps.parts).sum(axis=-1) * growth
    mean, chips = (parts * (steps.chance * seconds).sum(axis=-1) * growth for seconds in (steps.taken, steps.work))
    following = parts * (steps.chance * (steps.work_of_one_more - steps.work)).sum(axis=-1) * further
    all_others = (steps.met * steps.work_of_one_more).sum(axis=-1) - steps.work_of_one_more[..., 0]
    joined = parts * np.maximum(all_others, 0.0)
    least = min(batches.requests.new_tokens / batches.setup.assumptions.serving.prefill_chunk, 1.0)
    mean = np.maximum(mean, least * parts * part.waiting / batches.groups)
    # One more takes no more than each of all does, and no less than nothing; formats of messages may change in
    # between.
    return Added(mean, chips, np.clip(following, 0.0, chips), np.minimum(joined * growth, chips), joined)


class _Counted(NamedTuple):
    """Steps by the number of parts that they read; arrays have shape (..., k)."""

    parts: Array
    """0, 1, .. parts, shape (k,) [1]."""
    work: Array
    """Work of the chips [s]."""
    work_of_one_more: Array
    """Work of the chips with another part [s]."""
    taken: Array
    """The longer of that work and of the time of the host [s]."""
    chance: Array
    """Share of the steps [1]."""
    met: Array
    """Chance that a prompt meets such a step [1]."""


def _counted(batches: Batches, part: _Part, mean: Array) -> _Counted:
    """Return steps by the number of parts that they read, which are ``mean`` on average [1]."""
    counts = np.arange(np.ceil(mean.max() + 8.0 * np.sqrt(mean.max())) + 9.0)
    stages, several = part.stages[..., None], batches.parts.number > 1
    begun = np.minimum(counts, stages)
    # What a step has no room for takes further ones, which decode as well; more parts are never less work.
    room = (part.stages * batches.parts.most * batches.groups)[..., None]
    saved = part.saved[..., None] * begun * np.maximum(np.ceil(counts / room), 1.0)
    work = part.working[..., None] * (stages * batches.shared.at(counts / stages)) - saved
    work = np.maximum.accumulate(np.maximum(work, 0.0), axis=-1)
    counts, work, more = counts[:-1], work[..., :-1], work[..., 1:]
    taken = np.maximum(part.waiting[..., None] * begun[..., :-1], work)
    chance = _poisson(mean, counts, special.log_gamma(counts + 1.0))
    together = np.broadcast_to(batches.groups > 1.0, mean.shape)
    if not together.any():
        return _Counted(counts, work, more, taken, chance, chance)
    length = np.broadcast_to(batches.decode[..., None] + taken, chance.shape)
    met = chance.copy()
    chance[together], met[together] = (_by_length if several else _gated)(mean[together], length[together], counts)
    return _Counted(counts, work, more, taken, chance, met)


def _beyond_counts(batches: Batches, part: _Part, usual: Array, number: Array) -> tuple[Array | float, Array]:
    """Return factors on all work and on that of one more part, where more parts come than are counted one by one [1].

    Of many, what all of them take, and what one more takes, are in proportion to those of their mean number.
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
    """Return what each prompt adds, and its mean wait for others [s], where prompts are held back.

    They are for some decode steps at most, until every group of attention ranks has one.

    Parameters
    ----------
    batches : Batches
        Decode steps and prompts.
    steps : float
        Longest wait, H [1].

    Notes
    -----
    R prompts have come when a step that reads has ended, or one comes later. Prompts come at random with the rate L, so
    that those who join them are as many as come in the time H D of so many decode steps, or as are missing of one for
    each of G groups: E min(G - R, P) for P that is Poisson-distributed about L H D. By Wald's identity the wait of the
    first lasts that number over L, and those who come meanwhile wait for half of it.
    """
    part, parts, decode, prompts = _part(batches), batches.parts.number, batches.decode, batches.begun
    full = batches.groups * part.stages

    def chips_for(number: Array) -> Array:
        """Return the work of the chips for so many prompts that are read together [s]."""
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


def _gated(mean: Array, length: Array, count: Array) -> tuple[Array, Array]:
    """Return the chance of each of some counts in a step that serves those who came during the one before, twice [1].

    Of two kinds of steps, with prompts and without: more come during the former. A prompt meets others as a step does,
    so that both arrays, of shape (..., k), are the same.
    """
    factorials = special.log_gamma(count + 1.0)
    chance = _poisson(mean, count, factorials)
    for _ in range(_PASSES):
        none = chance[..., 0]
        longer = (chance[..., 1:] * length[..., 1:]).sum(axis=-1) / np.maximum(1.0 - none, TINY)
        short = length[..., 0]
        rate = mean / (none * short + (1.0 - none) * longer)
        idle, full = (_poisson(np.maximum(rate * step, TINY), count, factorials) for step in (short, longer))
        none = full[..., 0] / np.maximum(1.0 - idle[..., 0] + full[..., 0], TINY)
        chance = none[..., None] * idle + (1.0 - none)[..., None] * full
        chance = chance / chance.sum(axis=-1, keepdims=True)
    return chance, chance


def _by_length(mean: Array, length: Array, count: Array) -> tuple[Array, Array]:
    """Return the chance of each of some counts in a step, and at a random time, shape (..., k) [1].

    At a random time counts are Poisson-distributed about a mean that follows from the mean of a step, by Newton's
    method; a step of twice the length is met twice as often.
    """
    highest, factorials = np.log(2.0 * count[-1]), special.log_gamma(count + 1.0)
    log = np.minimum(np.log(mean * length[..., 1] / length[..., 0]), highest)
    for _ in range(_NEWTON):
        met = _poisson(np.exp(log), count, factorials)
        steps = met / length
        steps = steps / steps.sum(axis=-1, keepdims=True)
        average = (steps * count).sum(axis=-1)
        variance = (steps * count**2).sum(axis=-1) - average**2
        change = np.log(mean / average) * average / np.maximum(variance, TINY * average)
        log = np.minimum(log + np.clip(change, -1.0, 1.0), highest)
    met = _poisson(np.exp(log), count, factorials)
    steps = met / length
    return steps / steps.sum(axis=-1, keepdims=True), met / met.sum(axis=-1, keepdims=True)


def _poisson(mean: Array, count: Array, factorials: Array) -> Array:
    """Return probabilities of counts, whose factorials' logarithms are given, about means of shape (...) [1]."""
    # In place, as copies of such tables take longer than what is done to them.
    logarithm = count * np.log(mean)[..., None]
    logarithm -= mean[..., None]
    logarithm -= factorials
    return np.asarray(np.exp(logarithm, out=logarithm))


def several_fit(setup: Setup, requests: Requests) -> bool:
    """Return whether several prompts can be read in the same step, beside decoding."""
    return 2.0 * requests.new_tokens <= setup.assumptions.serving.prefill_chunk


def through_gates(alone: Array, decode: Array, share: Array, requests: Requests) -> Array:
    """Return the length of the step that a prompt meets which rides along in one chunk [s].

    Notes
    -----
    A step serves all that came during the one before (gated service: Takagi, 1991): the mean step is D / (1 - r); the
    one that a prompt meets, more likely a long one, (D + P r (1 + c2) / (1 + r)) / (1 - r), with the share r of the
    time that prefill takes, P for a prompt, D without, and the squared coefficient of variation c2 of prompts. Those
    that come in the same step, before or after, take r times that, and all get their first token at the end of the next
    one.
    """
    return (decode + alone * share * (1.0 + requests.isl.scv) / (1.0 + share)) / np.maximum(1.0 - share, 1e-9)


def waits(batches: Batches, turn: Array, added: Added, *, beside_decoding: bool) -> tuple[Array, Array]:
    """Return the mean time that a new prompt waits for those before it [s], and the chance that it waits [1].

    Parameters
    ----------
    batches : Batches
        Decode steps and prompts; the squared coefficient of variation of the prompts' lengths is c2.
    turn : ndarray, shape (...)
        From the first to the last step of a prompt, S [s].
    added : Added
        Time that each prompt adds to steps.
    beside_decoding : bool
        Groups, G of them, each read a prompt beside decoding; otherwise prompts pause decoding.

    Notes
    -----
    Prompts that pause decoding: Pollaczek and Khinchine, S (1 + c2) / 2 x r / (1 - r), with the share r of the time
    that prefill takes. Groups that step together read more of them at a time when there are more, so that less than r
    counts for those that follow.

    Prompts of which no two fit a step of a group, or of several chunks, take turns of their chunks with the decode
    steps beside them: as many servers as there are groups, busy for the share x of their time. With one, Pollaczek and
    Khinchine; with more, S (1 + c2) / 2 x x^(sqrt(2 (G + 1)) - 1) / (G (1 - x)): Sakasegawa (1977).
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
