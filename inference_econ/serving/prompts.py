"""Prompts among decode steps: what they add to the steps that they share, and what they wait for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.engine import (
    Prefill,
    Setup,
)
from inference_econ.formulas import special
from inference_econ.inputs import Requests
from inference_econ.serving.shared_work import TINY, Parts, SharedWork

#: So many prompts in a step that chance hardly matters [1].
_MANY = 40.0
#: Passes after which the number of prompts that come during a step hardly changes [1].
_PASSES = 3
#: The same where groups hold prompts back, which begins with one by itself [1].
_HELD_PASSES = 8
#: Steps that find a mean and a rate [1].
_NEWTON, _HALVINGS = 6, 30


class Added(NamedTuple):
    """What each prompt adds to the steps that it shares with decoding and with other prompts [s]."""

    mean: Array
    """All that come taken together, the waits of chips for the host included."""
    chips: Array
    """The same of the chips' work alone."""
    following: Array
    """Work for one that comes beside those that come anyway."""
    joining: Array
    """Work for each of the others in a prompt's own step."""
    joined: Array
    """Work for all others in a prompt's own steps, on groups that step together."""


def paused(reading: Prefill, prompts: Array, decode: Array, shared: SharedWork) -> Added:
    """What a prompt takes of the time that decoding waits for all which begin after a step.

    Groups of attention ranks that step together read what comes meanwhile beside each other: as many as come during a
    step, at most one each.
    """
    stages, groups = reading.seconds / reading.busy_seconds, shared.groups[..., 0]
    number, mean = np.maximum(prompts, 1.0), np.asarray(reading.busy_seconds)
    each = reading.busy_seconds * _each(shared, stages, number)
    single = Added(each, each, reading.busy_seconds, each, np.zeros(()))
    if np.all(groups == 1.0):
        return single
    low, high = np.zeros_like(mean * prompts), prompts / decode
    for _ in range(_HALVINGS):
        rate = (low + high) / 2.0
        took, number = _read_between(reading, rate, decode, shared)
        more = rate * (decode + took) < prompts
        low, high = np.where(more, rate, low), np.where(more, high, rate)
    mean = np.where(prompts > 0.0, took / np.maximum(prompts, TINY), mean)
    # Never less than what full groups take.
    mean = np.clip(mean, np.minimum(reading.full_seconds, reading.busy_seconds), reading.busy_seconds)
    joined = np.maximum(reading.busy_seconds * number * _each(shared, stages, number) - reading.busy_seconds, 0.0)
    several = Added(mean, mean, np.minimum(reading.full_seconds, mean), mean, joined)
    return _where_alone(groups, single, several)


def _where_alone(groups: Array, single: Added, several: Added) -> Added:
    """What is added where one group of attention ranks is all, and elsewhere."""
    return Added(*(np.where(groups == 1.0, *values) for values in zip(single, several, strict=True)))


def _read_between(reading: Prefill, rate: Array, decode: Array, shared: SharedWork) -> tuple[Array, Array]:
    """Time that groups read prompts between two decode steps [s], and how many at a time [1].

    They go on as long as any come during the step before: with steps of T and a rate of L, exp(L T) of them once one
    has come.
    """
    stages, most = reading.seconds / reading.busy_seconds, shared.groups[..., 0] * shared.counts[-1]
    number, step = np.ones_like(rate), np.broadcast_to(reading.busy_seconds, rate.shape)
    for _ in range(_PASSES):
        expected = rate * step
        number = np.clip(expected / np.maximum(-np.expm1(-expected), TINY), 1.0, most * stages)
        step = reading.busy_seconds * number * _each(shared, stages, number)
    return -np.expm1(-rate * decode) * np.exp(np.minimum(rate * step, 50.0)) * step, number


def _each(shared: SharedWork, stages: Array, number: Array) -> Array:
    """Work of each of some parts that are read together [1]."""
    return np.asarray(stages * shared.at((number / stages)[..., None])[..., 0] / number)


def in_shared_steps(requests: Requests, each: Added, decode: Array, steps: Array, others: Array) -> tuple[Array, Array]:
    """Of prompts that share steps: the work of those before one, and the step that it meets [s].

    Notes
    -----
    Those that come while a step lasts make the next one longer by what chips work for one more of them; the rest of the
    mean step is as if fixed. The host makes all steps longer alike.
    """
    share, working = (
        others * added / np.maximum(steps * decode + others * added, np.finfo(float).tiny)
        for added in (each.mean, each.chips)
    )
    least = np.finfo(float).tiny
    mean, part = decode / np.maximum(1.0 - working, TINY), working * each.following / np.maximum(each.chips, least)
    step = through_gates(each.following, mean * (1.0 - part), part, requests)
    # Divided first: the number of those before is at most that of all others, however short what each adds.
    before = np.minimum(part * step, others * each.following) / np.maximum(each.following, least)
    return before * each.joining, step + decode / np.maximum(1.0 - share, TINY) - mean


def beside(
    parts: Parts,
    reading: Prefill,
    decode: Array,
    waiting: Array,
    prompts: Array,
    shared: SharedWork,
    saved: Array,
    least: float,
) -> Added:
    """What each prompt adds to the steps that it shares with decoding and with other prompts.

    Parameters
    ----------
    parts : Parts
        What a step reads of a prompt.
    reading : Prefill
        Of one prompt.
    decode : ndarray, shape (...)
        A step without prompts, D [s].
    waiting : ndarray, shape (...)
        What a single prompt would add if only the host counted, which launches its kernels, W [s].
    prompts : ndarray, shape (...)
        That begin per step, on average [1].
    shared : SharedWork
        What the parts of a step are for the chips, w [1].
    saved : ndarray, shape (...)
        What a step takes less because decoding and prompts read weights together, O [s].
    least : float
        Share of W that every prompt adds: no more of them share a step than its tokens allow [1].

    Notes
    -----
    The host launches once for all parts of a step, while they are work C w(N) - O for the chips: the longer of that
    and W. By chance N is Poisson-distributed, as a prompt of c parts is in c steps: one more on average is one more
    whatever N was. Where G groups step together, w is that of the fullest, which has ceil(N / G) of parts that are
    dealt out one by one; and more come during a step that reads others (:func:`_gated`, :func:`_by_length`). A prompt
    finds as many others in its step as there are on average, and what they add for the chips is C less than what all
    take. With pipeline stages N up to their number are read in turn.
    """
    working, waiting = (values / parts.number for values in (reading.chip_share * reading.busy_seconds, waiting))
    groups = shared.groups[..., 0]
    stages = np.asarray(reading.seconds / reading.busy_seconds)
    if parts.number > 1:
        # Chunks of a prompt follow each other through a pipeline.
        stages = np.maximum(parts.number * reading.seconds / reading.busy_seconds - parts.number + 1.0, 1.0)
    taken_once = saved / stages
    alone = np.maximum(np.maximum(working - taken_once, 0.0), waiting)
    longer = np.asarray(parts.number * alone)
    single = Added(longer, parts.number * np.maximum(working - taken_once, 0.0), longer, longer, np.zeros(()))
    if parts.number > 1 and np.all(groups == 1.0):
        return single
    number = np.maximum(prompts * parts.number, TINY)
    usual = np.minimum(number, _MANY)
    count = np.arange(np.ceil(usual.max() + 8.0 * np.sqrt(usual.max())) + 9.0)
    chance = found = _poisson(usual, count[:-1], special.log_gamma(count[:-1] + 1.0))
    begun = np.minimum(count, stages[..., None])
    work = stages[..., None] * shared.at(count / stages[..., None])
    # Work of the chips for 0, 1, .. parts; what a step has no room for takes further ones, which decode as well.
    room = (stages * parts.most * groups)[..., None]
    saving = taken_once[..., None] * begun * np.maximum(np.ceil(count / room), 1.0)
    work = np.maximum.accumulate(np.maximum(working[..., None] * work - saving, 0.0), axis=-1)
    more, work = work[..., 1:], work[..., :-1]
    taken = np.maximum(waiting[..., None] * begun[..., :-1], work)
    if np.any(groups > 1.0):
        through = _by_length if parts.number > 1 else _gated
        steps, met = through(usual, decode[..., None] + taken, count[:-1])
        together = groups[..., None] > 1.0
        chance, found = np.where(together, steps, chance), np.where(together, met, found)
    # Of the numbers that are looked at.
    grown, further = 1.0 / (chance * count[:-1]).sum(axis=-1), np.ones(())
    if np.any(number > usual):
        # Of many, what all of them take, and what one more takes, are in proportion to those of their mean number.
        (all_usual, one_usual), (all_now, one_now) = (
            (shared.at(some)[..., 0], (shared.at(some + 1.0 / stages[..., None]) - shared.at(some))[..., 0])
            for some in ((usual / stages)[..., None], (number / stages)[..., None])
        )
        grown = grown * np.where(number > usual, all_now / all_usual * usual / number, 1.0)
        further = np.where(number > usual, one_now / np.maximum(one_usual, TINY), 1.0)
    mean, chips = (parts.number * (chance * added).sum(axis=-1) * grown for added in (taken, work))
    following = parts.number * (chance * (more - work)).sum(axis=-1) * further
    joined = parts.number * np.maximum((found * more).sum(axis=-1) - more[..., 0], 0.0)
    mean = np.maximum(mean, least * parts.number * waiting / groups)
    # One more takes no more than each of all does, and no less than nothing; formats of messages may change in
    # between.
    several = Added(mean, chips, np.clip(following, 0.0, chips), np.minimum(joined * grown, chips), joined)
    return _where_alone(groups, single, several) if parts.number > 1 else several


class Held(NamedTuple):
    """What prompts add that groups of attention ranks hold back until each has one, or the first waited its steps."""

    added: Added
    wait: Array
    """For the others, a mean [s]."""


def held(
    parts: Parts,
    reading: Prefill,
    decode: Array,
    waiting: Array,
    prompts: Array,
    shared: SharedWork,
    saved: Array,
    steps: float,
) -> Held:
    """What each prompt adds where a prompt is held back for some decode steps at most, until every group has one.

    Parameters
    ----------
    parts, reading, decode, waiting, prompts, shared, saved
        As of :func:`beside`.
    steps : float
        Longest wait, H [1].

    Notes
    -----
    R prompts have come when a step that reads has ended, or one comes later. Prompts come at random with the rate L, so
    that those who join them are as many as come in the time H D of so many decode steps, or as are missing of one for
    each of G groups: E min(G - R, P) for P that is Poisson-distributed about L H D. By Wald's identity the wait of the
    first lasts that number over L, and those who come meanwhile wait for half of it.
    """
    working, waiting = (values / parts.number for values in (reading.chip_share * reading.busy_seconds, waiting))
    stages = np.asarray(reading.seconds / reading.busy_seconds)
    if parts.number > 1:
        stages = np.maximum(parts.number * reading.seconds / reading.busy_seconds - parts.number + 1.0, 1.0)
    full = shared.groups[..., 0] * stages

    def read(number: Array) -> Array:
        """Work of the chips for so many prompts that are read together [s]."""
        work = working * stages * shared.at((number / stages)[..., None])[..., 0]
        return np.asarray(parts.number * np.maximum(work - saved / stages * np.minimum(number, stages), 0.0))

    number = np.ones(np.broadcast_shapes(np.shape(decode), np.shape(full)))
    for _ in range(_HELD_PASSES):
        chips = read(number)
        taken = np.maximum(chips, parts.number * waiting)
        rate = np.maximum(prompts, TINY) / (decode + prompts * taken / number)
        begun = np.maximum(rate * (taken + parts.number * decode), 1.0)
        joining = special.poisson_capped(rate * steps * decode, np.maximum(full - begun, 0.0))
        number = begun + joining
    one = read(np.ones_like(number))
    following = np.clip((chips - one) / np.maximum(number - 1.0, TINY), 0.0, chips / number)
    wait = joining / rate * (begun + joining / 2.0) / number
    return Held(Added(taken / number, chips / number, following, following, np.maximum(chips - one, 0.0)), wait)


def _gated(mean: Array, length: Array, count: Array) -> tuple[Array, Array]:
    """Chance of each of some counts in a step that serves those who came during the one before, shape (..., k) [1].

    Of two kinds of steps, with prompts and without: more come during the former. Twice the same: a prompt meets others
    as a step does.
    """
    factorials = special.log_gamma(count + 1.0)
    chance = _poisson(mean, count, factorials)
    for _ in range(_PASSES):
        none = chance[..., 0]
        longer = (chance[..., 1:] * length[..., 1:]).sum(axis=-1) / np.maximum(1.0 - none, TINY)
        short = length[..., 0]
        rate = mean / (none * short + (1.0 - none) * longer)
        idle, full = (_poisson(np.maximum(rate * each, TINY), count, factorials) for each in (short, longer))
        none = full[..., 0] / np.maximum(1.0 - idle[..., 0] + full[..., 0], TINY)
        chance = none[..., None] * idle + (1.0 - none)[..., None] * full
        chance = chance / chance.sum(axis=-1, keepdims=True)
    return chance, chance


def _by_length(mean: Array, length: Array, count: Array) -> tuple[Array, Array]:
    """Chance of each of some counts in a step, and at a random time, shape (..., k) [1].

    At a random time counts are Poisson-distributed about a mean that follows from the mean of a step; a step of twice
    the length is met twice as often.
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
    """Probability of each of some counts, whose factorials' logarithms are given, about means of shape (...) [1]."""
    # In place, as copies of such tables take longer than what is done to them.
    logarithm = count * np.log(mean)[..., None]
    logarithm -= mean[..., None]
    logarithm -= factorials
    return np.asarray(np.exp(logarithm, out=logarithm))


def several_fit(setup: Setup, requests: Requests) -> bool:
    """Whether several prompts can be read in the same step, beside decoding."""
    return 2.0 * requests.new_tokens <= setup.assumptions.serving.prefill_chunk


def through_gates(alone: Array, decode: Array, share: Array, requests: Requests) -> Array:
    """Length of the step that a prompt meets which rides along in one chunk [s].

    Notes
    -----
    A step serves all that came during the one before (gated service: Takagi, 1991): the mean step is D / (1 - r); the
    one that a prompt meets, more likely a long one, (D + P r (1 + c2) / (1 + r)) / (1 - r), with the share r of the
    time that prefill takes, P for a prompt, D without, and the squared coefficient of variation c2 of prompts. Those
    that come in the same step, before or after, take r times that, and all get their first token at the end of the next
    one.
    """
    return (decode + alone * share * (1.0 + requests.isl.scv) / (1.0 + share)) / np.maximum(1.0 - share, 1e-9)


def waits(turn: Array, each: Added, share: Array, requests: Requests, groups: Array | None) -> tuple[Array, Array]:
    """Time that a new prompt waits for those before it, a mean [s]; and the chance that it waits [1].

    Parameters
    ----------
    turn : ndarray, shape (...)
        From the first to the last step of a prompt, S [s].
    each : Added
        What each prompt adds to steps.
    share : ndarray, shape (...)
        Share of the time that prefill takes, r [1].
    requests : Requests
        Lengths; the squared coefficient of variation of the prompts is c2.
    groups : ndarray, shape (...), or None
        Groups that each read a prompt beside decoding, G [1]; None if prompts pause decoding.

    Notes
    -----
    Prompts that pause decoding: Pollaczek and Khinchine, S (1 + c2) / 2 x r / (1 - r). Groups that step together read
    more of them at a time when there are more, so that less than r counts for those that follow.

    Prompts of which no two fit a step of a group, or of several chunks, take turns of their chunks with the decode
    steps beside them: as many servers as there are groups, busy for the share x of their time. With one, Pollaczek and
    Khinchine; with more, S (1 + c2) / 2 x x^(sqrt(2 (G + 1)) - 1) / (G (1 - x)): Sakasegawa (1977).
    """
    half = turn * (1.0 + requests.isl.scv) / 2.0
    if groups is None:
        crowded = share * np.minimum(each.following / each.mean, 1.0)
        return np.asarray(half * share / np.maximum(1.0 - crowded, 1e-9)), crowded
    taken = np.minimum(share * turn / np.maximum(each.mean, np.finfo(float).tiny) / groups, 1.0)
    chance = taken ** (np.sqrt(2.0 * (groups + 1.0)) - 1.0)
    return np.asarray(half * chance / (groups * np.maximum(1.0 - taken, 1e-9))), chance
