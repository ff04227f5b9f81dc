"""Prompts among decode steps: what they add to the steps that they share, and what they wait for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.engine import (
    Plans,
    Prefill,
    Setup,
    prompts_of_a_step,
    prompts_together,
    shared_steps,
)
from inference_econ.inputs import Requests

#: Numbers of prompts in a step whose work is calculated; and so many that chance hardly matters [1].
_SHARED, _MANY = 12, 40.0
#: Fewer prompts in a step than this are none [1].
_TINY = 1e-6


@dataclass(frozen=True, slots=True)
class SharedWork:
    """What prompts that share a step are for the chips, over what one is.

    Attributes
    ----------
    counts : ndarray, shape (m,)
        Prompts of a group of attention ranks: 0, 1, .. and as many as a step has room for [1].
    work : ndarray, shape (..., m)
        Of so many [1].
    """

    counts: Array
    work: Array

    @classmethod
    def of(cls, setup: Setup, plans: Plans, requests: Requests) -> SharedWork:
        """Of the prompts of some requests, on plans of shape (...)."""
        most = prompts_of_a_step(setup, requests.new_tokens)
        counts = np.unique(np.rint(np.geomspace(1.0, most, _SHARED)))
        prompts = counts * prompts_together(setup, plans)[..., None]
        share = shared_steps(setup, plans.column(prompts), requests.new_tokens, requests.cached, prompts)
        none = np.zeros((*share.shape[:-1], 1))
        return cls(np.append(0.0, counts), np.concatenate([none, counts * share], axis=-1))

    def at(self, prompts: Array) -> Array:
        """Of other numbers of prompts, shape (..., k) [1]; what a step has no room for takes further steps."""
        inside = np.minimum(prompts, self.counts[-1])
        above = np.clip(np.searchsorted(self.counts, inside), 1, self.counts.size - 1)
        shape = (*np.broadcast_shapes(self.work.shape[:-1], above.shape[:-1]), self.counts.size)
        places = np.broadcast_to(above, (*shape[:-1], above.shape[-1]))
        low, high = (np.take_along_axis(np.broadcast_to(self.work, shape), places - k, axis=-1) for k in (1, 0))
        along = (inside - self.counts[above - 1]) / (self.counts[above] - self.counts[above - 1])
        return np.asarray((low + along * (high - low)) * (np.maximum(prompts, inside) / np.maximum(inside, _TINY)))


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


def paused(reading: Prefill, prompts: Array, shared: SharedWork) -> Added:
    """What a prompt takes of the time that decoding waits for all which begin after a step."""
    groups, number = reading.seconds / reading.busy_seconds, np.maximum(prompts, 1.0)
    share = groups * shared.at((number / groups)[..., None])[..., 0] / number
    mean = np.asarray(reading.busy_seconds * share)
    return Added(mean, mean, reading.busy_seconds, mean)


def in_shared_steps(
    setup: Setup, requests: Requests, reading: Prefill, each: Added, decode: Array, steps: Array, others: Array
) -> tuple[Array, Array]:
    """As :func:`waits`, of prompts that share steps: the work of those before one, and the step that it meets [s].

    Notes
    -----
    Those that come while a step lasts make the next one longer by what chips work for one more of them; the rest of the
    mean step is as if fixed. The host makes all steps longer alike.
    """
    share, working = (
        others * added / np.maximum(steps * decode + others * added, np.finfo(float).tiny)
        for added in (each.mean, each.chips)
    )
    mean, part = decode / np.maximum(1.0 - working, _TINY), working * each.following / each.chips
    follows = replace(reading, busy_seconds=each.following)
    queue, step = waits(setup, follows, mean * (1.0 - part), part, requests)
    ahead = np.minimum(queue, others * each.following) * each.joining / each.following
    return ahead, step + decode / np.maximum(1.0 - share, _TINY) - mean


def beside(
    setup: Setup, requests: Requests, reading: Prefill, waiting: Array, prompts: Array, shared: SharedWork
) -> Added:
    """What each prompt adds to the steps that it shares with decoding and with other prompts.

    Parameters
    ----------
    setup : Setup
        Its assumptions count.
    requests : Requests
        Lengths.
    reading : Prefill
        Of one prompt.
    waiting : ndarray, shape (...)
        What a single prompt would add if only the host counted, which launches its kernels, W [s].
    prompts : ndarray, shape (...)
        That begin per step, on average [1].
    shared : SharedWork
        What the prompts of a step are for the chips, w [1].

    Notes
    -----
    The host launches once for all prompts of a step, in each of the G groups that read beside each other, while they
    are work C G w(N / G) for the chips: the longer of that and min(N, G) W. By chance N is Poisson-distributed: one
    prompt more on average is one more whatever N was. A prompt finds as many others in its step as there are on
    average, and what they add for the chips is C less than what all take.
    """
    working = reading.chip_share * reading.busy_seconds
    if reading.chunks > 1:
        longer = np.maximum(working, waiting)
        return Added(longer, working, longer, longer)
    groups, number = reading.seconds / reading.busy_seconds, np.maximum(prompts, _TINY)
    usual = np.minimum(number, _MANY)
    count = np.arange(np.ceil(usual.max() + 8.0 * np.sqrt(usual.max())) + 8.0)
    chance = _poisson(usual, count)
    work, more = (groups[..., None] * shared.at(some / groups[..., None]) for some in (count, count + 1.0))
    taken = np.maximum(waiting[..., None] * np.minimum(count, groups[..., None]), working[..., None] * work)
    # Of many, what all of them take, and what one more takes, are in proportion to those of their mean number.
    (all_usual, one_usual), (all_now, one_now) = (
        (shared.at(some)[..., 0], (shared.at(some + 1.0 / groups[..., None]) - shared.at(some))[..., 0])
        for some in ((usual / groups)[..., None], (number / groups)[..., None])
    )
    grown = all_now / all_usual / number
    mean, chips = ((chance * added).sum(axis=-1) * grown for added in (taken, working[..., None] * work))
    following = working * (chance * (more - work)).sum(axis=-1) * one_now / one_usual
    joining = working * ((chance * more).sum(axis=-1) - 1.0) * grown
    # No more of them than the tokens of a step allow.
    least = waiting * min(requests.new_tokens / setup.assumptions.serving.prefill_chunk, 1.0)
    # One more takes no more than each of all does; formats of messages may change in between.
    return Added(np.maximum(mean, least), chips, np.minimum(following, chips), np.minimum(joining, chips))


def _poisson(mean: Array, count: Array) -> Array:
    """Probability of each of some counts, shape (..., k), about means of shape (...) [1]."""
    from scipy.special import gammaln

    return np.asarray(np.exp(count * np.log(mean)[..., None] - mean[..., None] - gammaln(count + 1.0)))


def several_fit(setup: Setup, requests: Requests) -> bool:
    """Whether several prompts can be read in the same step, beside decoding."""
    return 2.0 * requests.new_tokens <= setup.assumptions.serving.prefill_chunk


def waits(setup: Setup, reading: Prefill, decode: Array, share: Array, requests: Requests) -> tuple[Array, Array]:
    """What a new prompt finds before it: the prompts that wait, and the running step; means [s].

    Parameters
    ----------
    setup : Setup
        Whether prompts are read beside decoding.
    reading : Prefill
        Of one prompt: P.
    decode : ndarray, shape (...)
        A step without what prompts add to it, D [s].
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
    if several_fit(setup, requests):
        step = (decode + alone * share * (1.0 + scv) / (1.0 + share)) / np.maximum(1.0 - share, 1e-9)
        return share * step, step
    turn = alone + reading.chunks * decode if chunked else alone
    taken = np.minimum(share * turn / alone, 1.0)
    return turn * (1.0 + scv) / 2.0 * taken / np.maximum(1.0 - taken, 1e-9), decode
