"""Likelihood of an offer under drawn models, and what lies beyond all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.inputs import LEVELS, ObservedOffer, Priors, number
from inference_econ.studies.inference.draws import Draws, spread_of

#: An observation that is further from all draws than this many standard deviations of its noise is out of reach [1].
_REACH = 2.0
#: Standard deviations between the quantiles of 10 and 90 % of a normal distribution [1].
_EIGHTY = 2.5631


@dataclass(frozen=True, slots=True)
class Normal:
    """The logarithm of a factor.

    Attributes
    ----------
    mean, sigma : float
        Mean and standard deviation [1].
    """

    mean: float
    sigma: float

    def log_density(self, values: Array) -> Array:
        """Of each value, in natural logarithms [1]."""
        return np.asarray(-0.5 * ((values - self.mean) / self.sigma) ** 2 - math.log(self.sigma * math.sqrt(math.tau)))


def revenue(offer: ObservedOffer, priors: Priors) -> float:
    """Revenue of a request; a price that is not known follows from the other [USD]."""
    ratio = priors.output_over_input.median
    first, then = offer.dollars_per_million_input_tokens, offer.dollars_per_million_output_tokens
    if then is None:
        assert first is not None
        then = first * ratio
    if first is None:
        first = then / ratio
    return (priors.isl * first + priors.osl * then) / 1e6


def markup(offer: ObservedOffer, priors: Priors) -> Normal:
    """Revenue of a request over its cost on a full instance at the median price of an hour."""
    over, used = priors.price_over_cost, priors.utilisation
    guessed = None in (offer.dollars_per_million_input_tokens, offer.dollars_per_million_output_tokens)
    parts = [over.sigma, used.sigma, math.log(priors.hour_price_spread)]
    return Normal(over.mean_log - used.mean_log, math.hypot(*parts, priors.output_over_input.sigma if guessed else 0.0))


def log_likelihood(draws: Draws, offer: ObservedOffer) -> Array:
    """Of an offer under every draw, manner and place, in natural logarithms; shape (N, C, M) [1].

    Minus infinity where the model does not fit, or on another chip than the offer's.
    """
    priors = draws.priors
    likely = np.where(np.isfinite(draws.speed), 0.0, -np.inf)
    if offer.hardware is not None:
        likely[:, [manner.chip != offer.hardware for manner in draws.manners]] = -np.inf
    if offer.tokens_per_second is not None:
        noise = Normal(0.0, math.log(priors.observed_speed))
        likely += noise.log_density(math.log(offer.tokens_per_second) - draws.speed)
    if offer.priced:
        likely += markup(offer, priors).log_density(math.log(revenue(offer, priors)) - draws.cost)
    if offer.ttft_seconds is not None:
        waits = np.log(np.exp(draws.ttft) + priors.network)
        noises = [_waiting(priors, manner.chip) for manner in draws.manners]
        off = math.log(offer.ttft_seconds) - waits
        likely += np.stack([noise.log_density(off[:, column]) for column, noise in enumerate(noises)], axis=1)
    return np.nan_to_num(likely, nan=-np.inf)


def _waiting(priors: Priors, chip: str) -> Normal:
    """A time to first token over the one that is predicted: noise, and the error of the profile."""
    spread = spread_of(chip, "ttft")
    wide = 0.0 if spread is None else (spread[LEVELS.index(0.9)] - spread[LEVELS.index(0.1)]) / _EIGHTY
    return Normal(0.0, math.hypot(math.log(priors.observed_ttft), wide))


def over_manners(draws: Draws, likely: Array, offer: ObservedOffer) -> Array:
    """A likelihood averaged over manners and places, in natural logarithms; shape (N,) [1]."""
    return np.asarray(special.logsumexp(likely, axis=(1, 2), b=manner_weights(draws, offer)))


def manner_weights(draws: Draws, offer: ObservedOffer) -> Array:
    """Prior probabilities of manners and places that an offer may have; shape (1, C, 1) [1]."""
    on_it = np.array([offer.hardware in (None, manner.chip) for manner in draws.manners])
    weights = np.where(on_it, draws.likely, 0.0)
    return np.asarray(weights / weights.sum() / draws.speed.shape[-1])[None, :, None]


def check_reach(draws: Draws, offer: ObservedOffer) -> None:
    """Refuse what no draw comes near.

    Raises
    ------
    InputError
        Saying by how much the nearest one is missed.
    """
    priors = draws.priors
    on_it = [offer.hardware in (None, manner.chip) for manner in draws.manners]
    where = "" if offer.hardware is None else f" on {offer.hardware}"
    if not np.isfinite(draws.speed[:, on_it]).any():
        raise InputError(f"none of the models of the priors {priors.name!r} fits{where}; change their sizes or chips")
    if offer.tokens_per_second is not None:
        noise = Normal(0.0, math.log(priors.observed_speed))
        _within(offer.tokens_per_second, draws.speed[:, on_it], noise, ("{} tokens/s", "fastest", "slowest"), where)
    if offer.priced:
        bringing = ("${} per request (" + offer.words + ")", "dearest", "cheapest")
        _within(revenue(offer, priors), draws.cost[:, on_it], markup(offer, priors), bringing, where)
    if offer.ttft_seconds is not None:
        waits = np.log(np.exp(draws.ttft[:, on_it]) + priors.network)
        noise = Normal(0.0, max(_waiting(priors, manner.chip).sigma for manner in draws.manners))
        _within(offer.ttft_seconds, waits, noise, ("a first token after {} s", "latest", "soonest"), where)


def _within(value: float, logs: Array, noise: Normal, words: tuple[str, str, str], where: str) -> None:
    """Refuse a value that noise does not carry any draw to."""
    low, high = float(np.nanmin(logs)) + noise.mean, float(np.nanmax(logs)) + noise.mean
    text, most, least = words
    seen, slack = math.log(value), _REACH * noise.sigma
    for missed, end, name in ((seen - high - slack, high, most), (low - slack - seen, low, least)):
        if missed > 0:
            factor = math.exp(abs(seen - end))
            times = f"{factor:.2g} times" if end == high else f"1/{factor:.2g} of"
            raise InputError(
                f"{text.format(_rounded(value))} is {times} the {name} of any prior sample{where} "
                f"({_shown(text, end)}), "
                "further than what was seen can be off; check its unit, or widen the priors (--priors FILE)"
            )


def _shown(text: str, log: float) -> str:
    return text.partition(" (")[0].format(_rounded(math.exp(log)))


def _rounded(value: float) -> str:
    """A number with three digits, as people write it."""
    return number(float(f"{value:.3g}"))
