"""How times vary among requests that find a server in the same state."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from inference_econ._types import Array
from inference_econ.formulas import special
from inference_econ.inputs import Requests
from inference_econ.serving.lengths import levels, new_tokens, quantiles
from inference_econ.serving.steady import Steady

#: Prompts ahead whose lengths are drawn one by one; further ones are as long as the mean [1].
_ONE_BY_ONE = 8
#: Share of the time beyond which a server is taken to be busy, and the least that counts [1].
_BUSIEST, _LEAST = 1.0 - 1e-9, 1e-9
#: Mean number from which chance is normally distributed [1].
_MANY = 40.0


@dataclass(frozen=True)
class Drawn:
    """Some requests that stand for all, each as likely as the others.

    Attributes
    ----------
    requests : Requests
        Lengths.
    count : int
        How many [1].
    """

    requests: Requests
    count: int

    def shares(self, respect: str, place: int = 0) -> Array:
        """Where each request stands among all in one respect, shape (count,) [1].

        Middles of equal parts of all, in an order that has nothing to do with that of other respects.
        """
        return _shuffled(self.count, respect, place)

    def prompts(self) -> Array:
        """Own prompts, shape (count,) [tokens]."""
        return new_tokens(self.requests, self.shares("prompt"))

    def answers(self) -> Array:
        """Own answers, shape (count,) [tokens]."""
        return quantiles(self.requests.osl, self.shares("answer"))

    def work(self, prompts: Array, respect: str) -> Array:
        """All tokens of some numbers of other prompts over those of a mean one, shape (count,) [1]."""
        if self.requests.isl.scv == 0.0:
            return prompts
        usual = float(self.prompts().mean())
        total = self._sum(prompts, lambda place: new_tokens(self.requests, self.shares(respect, place)) / usual)
        # Of many, the sum is nearly normally distributed.
        further = np.sqrt(np.maximum(prompts - _ONE_BY_ONE, 0.0) * self.requests.isl.scv)
        return np.asarray(np.maximum(total + further * _scores(self.count, respect, _ONE_BY_ONE), 0.0))

    def found(self, respect: str, place: int = 0) -> Array:
        """Tokens of a prompt over those of a mean one that is found at a random time: of long ones more often [1]."""
        if self.requests.isl.scv == 0.0:
            return np.ones(self.count)
        tokens = np.sort(self.prompts())
        drawn = np.searchsorted(np.cumsum(tokens), self.shares(respect, place) * tokens.sum())
        return np.asarray(tokens[drawn] / tokens.mean())

    def left(self, prompts: Array) -> Array:
        """Return the rest of some prompts, each met at a random time, over a mean one, shape (count,) [1]."""
        mean = (1.0 + self.requests.isl.scv) / 2.0
        return self._sum(prompts, lambda place: self.found("found", place) * self.shares("left", place), mean)

    def _sum(self, prompts: Array, share_at: Callable[[int], Array], mean: float = 1.0) -> Array:
        total = mean * np.maximum(prompts - _ONE_BY_ONE, 0.0)
        for place in range(min(_ONE_BY_ONE, int(prompts.max()))):
            total += np.where(prompts > place, share_at(place), 0.0)
        return np.asarray(total)

    def numbers(self, respect: str, mean: Array) -> Array:
        """Numbers that are Poisson-distributed about means of shape (count,), one for each request [1]."""
        shares, few = self.shares(respect), mean <= _MANY
        count = np.zeros(shares.shape)
        if few.any():
            count[few] = _poisson(shares[few], mean[few])
        if few.all():
            return count
        many = np.rint(np.maximum(mean + np.sqrt(mean) * _scores(self.count, respect, 0), 0.0))
        return np.where(few, count, many)


def _poisson(shares: Array, mean: Array) -> Array:
    """Quantiles of Poisson distributions about means, none above :data:`_MANY`, shape (n,) [1]."""
    chance = np.exp(-mean)
    below, count = chance.copy(), np.zeros(shares.shape)
    for number in range(1, round(_MANY + 8.0 * math.sqrt(_MANY))):
        more = shares > below
        if not more.any():
            break
        count += more
        chance *= mean / number
        below += chance
    return count


@cache
def _scores(count: int, respect: str, place: int) -> Array:
    """Normally distributed numbers in the order of :func:`_shuffled`."""
    return special.normal_quantiles(_shuffled(count, respect, place))


@cache
def _shuffled(count: int, respect: str, place: int) -> Array:
    return np.random.default_rng([count, place, *respect.encode()]).permutation(levels(count))


def in_shared_steps(states: Steady, drawn: Drawn, bursts: float, steps_ahead: float) -> Array:
    """Waits of prompts that share steps with decoding and with each other, shape (count,) [s].

    Parameters
    ----------
    found : Steady
        The state that each request finds; arrays of shape (count,).
    drawn : Drawn
        The requests.
    bursts : float
        How much longer prompts of bursts take than others [1].
    steps_ahead : float
        Steps that are prepared when a request comes [1].

    Returns
    -------
    ndarray
        The rest of the running step, and others in the own one: with the means of the states. What prompts of the steps
        that were prepared take is there less its mean, which the states have counted.

    Notes
    -----
    A step takes D + k P with the k prompts that came during the one before, Poisson-distributed about what comes in
    that time, and is met in proportion to its length: with a chance of k P / (D + k P) as one that has a prompt more.
    Whoever comes during it joins the same step; the others there are Poisson-distributed about what comes in its time.
    """
    # Nobody decodes where nobody else is in flight.
    decode, rate = states.decode_seconds * np.clip(states.batch - 1.0, 0.0, 1.0), states.requests_per_second
    following, share = states.follow_share / rate, np.minimum(states.follow_share, _BUSIEST)
    usual = rate * decode / (1.0 - share)
    more = usual * following / np.maximum(decode + usual * following, np.finfo(float).tiny)
    long, longer = (drawn.shares(which) < more for which in ("running is long", "one before is long"))
    before = drawn.work(drawn.numbers("before", usual), "before lengths")
    before = before + (long & longer) * drawn.found("before length")
    running = drawn.work(drawn.numbers("running", rate * (decode + following * before)), "running lengths")
    met = decode + following * (running + long * drawn.found("running length"))
    joining = drawn.work(drawn.numbers("joining", rate * met), "joining lengths")
    waits = drawn.shares("rest") * met + following * joining
    biased = more * (1.0 + drawn.requests.isl.scv)
    mean = (0.5 + share) * (decode + following * (usual + biased * (1.0 + more * share)))
    prepared = drawn.work(drawn.numbers("prepared", usual), "prepared lengths") - usual
    return (
        _with_mean(waits, mean, bursts * states.queue_seconds + states.running_seconds)
        + steps_ahead * following * prepared
    )


def in_turn(states: Steady, drawn: Drawn, bursts: float) -> Array:
    """Waits of prompts that are read one after the other, shape (count,) [s]; see :func:`in_shared_steps`.

    Notes
    -----
    Prompts ahead take what is left of as many of them as a geometric distribution has, each found at a random time:
    Pollaczek and Khinchine's formula as a sum. The rest of the running step is anything from none to the whole.
    """
    busy = np.clip(states.apart_share, _LEAST, _BUSIEST)
    ahead = np.floor(np.log1p(-drawn.shares("ahead")) / np.log(busy))
    mean = busy / (1.0 - busy) * (1.0 + drawn.requests.isl.scv) / 2.0
    waits = _with_mean(drawn.left(ahead), mean, bursts * states.queue_seconds)
    return np.asarray(waits + 2.0 * states.running_seconds * drawn.shares("rest"))


def per_token(states: Steady, drawn: Drawn) -> Array:
    """Mean time between two tokens of each request, shape (count,) [s]; see :func:`in_shared_steps`.

    Notes
    -----
    Decode steps are those of the state that a request finds. Prompts that make them longer come while it decodes: their
    number is Poisson-distributed, and a short answer may meet none or several.
    """
    share, steps = np.minimum(states.prefill_share, _BUSIEST), np.maximum(drawn.answers() - 1.0, 1.0)
    expected = np.maximum(states.requests_per_second * steps * states.tpot_seconds, _LEAST)
    met = drawn.work(drawn.numbers("met", expected), "met lengths")
    # Alone in the house nobody is met.
    return np.asarray(
        states.tpot_seconds * (1.0 + share * np.clip(states.batch - 1.0, 0.0, 1.0) * (met / expected - 1.0))
    )


def _with_mean(times: Array, mean: Array, wanted: Array) -> Array:
    """Times of some means in proportion to others [s]; the means themselves where nothing varies."""
    return np.where(mean > 0.0, times * (wanted / np.where(mean > 0.0, mean, 1.0)), wanted)
