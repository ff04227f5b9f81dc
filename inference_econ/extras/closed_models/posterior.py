"""Posterior of closed models given their offers: weights of sampled models, and likely serving methods."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from inference_econ._answer import Shown
from inference_econ._types import Array, Indices
from inference_econ.errors import InputError
from inference_econ.extras.closed_models.draws import Draws, spread_of
from inference_econ.extras.closed_models.scenario_kinds import ObservedOffer, Priors
from inference_econ.inputs import LEVELS, ModelSpec, number
from inference_econ.records.plain import attributes, records_of

#: Maximum distance of an observation from the nearest draw [standard deviations of its noise].
_REACH = 2.0
#: Distance between the 10% and 90% quantiles of a normal distribution [standard deviations].
_EIGHTY = 2.5631


@dataclass(frozen=True, slots=True)
class Normal:
    """Normal distribution of the logarithm of a factor.

    Attributes
    ----------
    mean, sigma : float
        Mean and standard deviation [1].
    """

    mean: float
    sigma: float

    def log_density(self, values: Array) -> Array:
        """Log density of each value [1]."""
        return np.asarray(-0.5 * ((values - self.mean) / self.sigma) ** 2 - math.log(self.sigma * math.sqrt(math.tau)))


def revenue(offer: ObservedOffer, priors: Priors) -> float:
    """Revenue of a request [USD]. A missing price is derived from the other one."""
    ratio = priors.output_over_input.median
    first, then = offer.dollars_per_million_input_tokens, offer.dollars_per_million_output_tokens
    if then is None:
        assert first is not None
        then = first * ratio
    if first is None:
        first = then / ratio
    return (priors.isl * first + priors.osl * then) / 1e6


def markup(offer: ObservedOffer, priors: Priors) -> Normal:
    """Distribution of the ratio of revenue to cost of a request, for a full instance at the median hourly price."""
    over, used = priors.price_over_cost, priors.utilisation
    guessed = None in (offer.dollars_per_million_input_tokens, offer.dollars_per_million_output_tokens)
    parts = [over.sigma, used.sigma, math.log(priors.hour_price_spread)]
    return Normal(over.mean_log - used.mean_log, math.hypot(*parts, priors.output_over_input.sigma if guessed else 0.0))


def log_likelihood(draws: Draws, offer: ObservedOffer) -> Array:
    """Log likelihood of an offer for every sampled model, serving method and frontier point; shape (N, C, M) [1].

    The value is minus infinity if the model does not fit, or if the serving method uses another chip than the offer.
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
    """Distribution of the ratio of observed to predicted time to first token: noise, and errors of the profile."""
    spread = spread_of(chip, "ttft")
    wide = 0.0 if spread is None else (spread[LEVELS.index(0.9)] - spread[LEVELS.index(0.1)]) / _EIGHTY
    return Normal(0.0, math.hypot(math.log(priors.observed_ttft), wide))


def over_manners(draws: Draws, likely: Array, offer: ObservedOffer) -> Array:
    """Log likelihood of an offer, averaged over serving methods and frontier points; shape (N,) [1]."""
    return np.asarray(special.logsumexp(likely, axis=(1, 2), b=manner_weights(draws, offer)))


def manner_weights(draws: Draws, offer: ObservedOffer) -> Array:
    """Prior probabilities of the serving methods for an offer; shape (1, C, 1) [1]."""
    on_it = np.array([offer.hardware in (None, manner.chip) for manner in draws.manners])
    weights = np.where(on_it, draws.likely, 0.0)
    return np.asarray(weights / weights.sum() / draws.speed.shape[-1])[None, :, None]


def check_reach(draws: Draws, offer: ObservedOffer) -> None:
    """Reject observations that no sampled model explains.

    Raises
    ------
    InputError
        If there is such an observation; the message has the distance to the nearest sampled model.
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
    """Reject a value that noise cannot explain for any sampled model."""
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
    """Number with three digits as text."""
    return number(float(f"{value:.3g}"))


#: Quantiles of results: 80% interval and median [1].
QUANTILES = (0.1, 0.5, 0.9)
#: Number of sampled ways to serve per offer [1].
_SERVED = 4096
#: Maximum log-likelihood deficit of an offer under the best common model; a larger one is not explained [1]. It
#: corresponds to 4.9 standard deviations.
_APART = 12.0


class CredibleInterval(NamedTuple):
    """Quantiles of 10, 50 and 90% of a quantity."""

    low: float
    """10% quantile [as the quantity]."""
    median: float
    """Median [as the quantity]."""
    high: float
    """90% quantile [as the quantity]."""

    def holds(self, value: float) -> bool:
        """Check whether a value is within the interval."""
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class ServedOffer:
    """Offer with its probable serving method.

    Attributes
    ----------
    offer : ObservedOffer
        Observations.
    stray : float
        See :attr:`Inferred.strays` [1].
    chips, formats : mapping of str to float
        Posterior probabilities [1].
    speculation : float
        Posterior probability of speculation [1].
    acceptance : CredibleInterval or None
        Acceptance rate, with speculation [1].
    in_flight : CredibleInterval
        Concurrency per instance [1].
    price_over_cost : CredibleInterval or None
        Ratio of the price of tokens to their cost, including idle time [1]; None without a price.
    hour_price : CredibleInterval or None
        Hourly price of the chip [USD/h]; None without a price.
    """

    offer: ObservedOffer
    stray: float
    chips: Mapping[str, float]
    formats: Mapping[str, float]
    speculation: float
    acceptance: CredibleInterval | None
    in_flight: CredibleInterval
    price_over_cost: CredibleInterval | None
    hour_price: CredibleInterval | None

    def record(self) -> dict[str, Any]:
        """Offer and its probable serving method, as plain data."""
        intervals = attributes(self, "acceptance in_flight price_over_cost hour_price")
        return {
            **self.offer.model_dump(exclude_none=True, exclude_unset=True),
            "stray": self.stray,
            "chips": dict(self.chips),
            "weights": dict(self.formats),
            "speculation": self.speculation,
            **{name: None if value is None else value._asdict() for name, value in intervals.items()},
        }


@dataclass(frozen=True, repr=False)
class Inferred(Shown):
    """Posterior of a closed model given its offers.

    Attributes
    ----------
    offers : tuple of ObservedOffer
        Observations.
    draws : Draws
        Models drawn from the priors.
    weights : ndarray, shape (N,)
        Posterior probability of each sampled model [1].
    strays : tuple of float
        Posterior probability, per offer, that it is an outlier because its price or speed contradicts the other offers
        [1].
    truth : ModelSpec or None
        Actual model, if known.
    """

    page = "extras.closed_models.page:InferencePage"

    offers: tuple[ObservedOffer, ...]
    draws: Draws
    weights: Array
    strays: tuple[float, ...]
    truth: ModelSpec | None = None

    @property
    def priors(self) -> Priors:
        """Priors."""
        return self.draws.priors

    @property
    def effective(self) -> float:
        """Effective sample size [1]."""
        return float(1.0 / np.sum(self.weights**2))

    @cached_property
    def total_parameters(self) -> CredibleInterval:
        """Posterior of total parameters [1]."""
        return interval(self.draws.total, self.weights)

    @cached_property
    def active_parameters(self) -> CredibleInterval:
        """Posterior of active parameters [1]."""
        return interval(self.draws.active, self.weights)

    @cached_property
    def served(self) -> tuple[ServedOffer, ...]:
        """Probable serving method of each offer."""
        pairs = zip(self.offers, self.strays, strict=True)
        return tuple(_served(self.draws, offer, self.weights, stray) for offer, stray in pairs)

    @property
    def families(self) -> dict[str, float]:
        """Posterior probabilities of the kinds of models [1]."""
        names = self.draws.families
        return {name: float(self.weights[self.draws.family == index].sum()) for index, name in enumerate(names)}

    def mean_of(self, probabilities: Callable[[ServedOffer], Mapping[str, float]]) -> dict[str, float]:
        """Probabilities averaged over the offers [1]."""
        by_offer = [probabilities(served) for served in self.served]
        names = dict.fromkeys(name for shares in by_offer for name in shares)
        return {name: sum(shares.get(name, 0.0) for shares in by_offer) / len(by_offer) for name in names}

    @property
    def manners(self) -> dict[str, dict[str, float]]:
        """Probabilities of chips, formats and speculation, averaged over the offers [1]."""
        return {
            "chips": self.mean_of(lambda served: served.chips),
            "weights": self.mean_of(lambda served: served.formats),
            "speculation": self.mean_of(lambda served: {"yes": served.speculation}),
        }

    def record(self) -> dict[str, Any]:
        """Sizes, families and serving methods as plain data, with the actual model if known."""
        record: dict[str, Any] = {
            "priors": self.priors.name,
            "samples": int(self.weights.size),
            "effective_samples": self.effective,
            "total_parameters": self.total_parameters._asdict(),
            "active_parameters": self.active_parameters._asdict(),
            "families": self.families,
            **self.manners,
            "speculation": self.manners["speculation"]["yes"],
            "offers": [served.record() for served in self.served],
        }
        if self.truth is not None:
            record["truth"] = {
                "model": self.truth.name,
                **attributes(self.truth, "total_parameters active_parameters"),
                "total_inside": self.total_parameters.holds(self.truth.total_parameters),
                "active_inside": self.active_parameters.holds(self.truth.active_parameters),
            }
        return record

    def records(self) -> list[dict[str, Any]]:
        """One record per sampled model, with its weight."""
        draws = self.draws
        return records_of(
            {
                "family": [draws.families[index] for index in draws.family],
                "total_parameters": draws.total,
                "active_parameters": draws.active,
                "weight": self.weights,
            }
        )


def interval(values: Array, weights: Array) -> CredibleInterval:
    """Weighted quantiles: smallest values that reach the cumulative weights."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    places = np.searchsorted(reached, np.array(QUANTILES) * reached[-1])
    return CredibleInterval(*(float(values[order[place]]) for place in places))


def posterior(draws: Draws, offers: Sequence[ObservedOffer], truth: ModelSpec | None = None) -> Inferred:
    """Calculate the posterior of the draws given offers of one model.

    Parameters
    ----------
    draws : Draws
        Models drawn from the priors.
    offers : sequence of ObservedOffer
        Observations.
    truth : ModelSpec, optional
        Actual model; not used.

    Raises
    ------
    InputError
        If no sampled model explains an offer, or the offers contradict each other.

    Notes
    -----
    The method is importance sampling from the prior. The weight of a model is the product of the likelihoods of its
    offers, averaged over chips, formats, speculation and places on the frontier. With a small prior probability, an
    offer is an outlier (stray) that is unrelated to the model. The likelihood of an outlier is its mean over all
    sampled models.

    Offers of one model have more in common than the priors describe, such as workload, engine and the published format.
    Therefore n offers have the weight of n / (1 + (n - 1) r) offers, the effective size of a sample with correlation r
    (Kish 1965, design effect of clusters).
    """
    for offer in offers:
        check_reach(draws, offer)
    alone = [over_manners(draws, log_likelihood(draws, offer), offer) for offer in offers]
    logs = np.stack([_with_strays(likelihood, draws.priors.stray) for likelihood in alone])
    weights = special.softmax(logs.sum(axis=0) / (1.0 + (len(offers) - 1) * draws.priors.alike))
    strays = tuple(float(weights @ _stray(likelihood, draws.priors.stray)) for likelihood in alone)
    _check_agreement(offers, np.stack(alone), strays)
    return Inferred(tuple(offers), draws, weights, strays, truth)


def _evidence(likely: Array) -> float:
    """Logarithm of the mean likelihood of an offer over all draws [1]."""
    return float(special.logsumexp(likely) - math.log(likely.size))


def _with_strays(likely: Array, share: float) -> Array:
    """Log likelihoods of the draws if a share of the offers are outliers."""
    return np.asarray(np.logaddexp(math.log1p(-share) + likely, math.log(share) + _evidence(likely)))


def _stray(likely: Array, share: float) -> Array:
    """Probability under each draw that an offer is a stray [1]."""
    return np.exp(math.log(share) + _evidence(likely) - _with_strays(likely, share))


def _check_agreement(offers: Sequence[ObservedOffer], likely: Array, strays: Sequence[float]) -> None:
    """Reject offers if no model explains half of them.

    Raises
    ------
    InputError
        If no model does; the message names two offers that no model explains together.
    """
    gone = np.array(strays) > 0.5
    if gone.sum() * 2 < len(offers) or len(offers) == 1:
        return
    best = int(np.argmax(likely.sum(axis=0)))
    missed = likely.max(axis=1) - likely[:, best]
    if missed.max() < _APART:
        return
    first = int(np.argmax(missed))
    apart = [float((likely[first] + row).max() - likely[first].max() - row.max()) for row in likely]
    second = int(np.argmin(apart))
    raise InputError(
        f"the offers contradict each other: no model of the priors explains both '{offers[first].words}' and "
        f"'{offers[second].words}' (the best one is {math.sqrt(-2.0 * apart[second]):.1f} standard deviations off); "
        "ask about them one by one, or widen the priors (--priors FILE)"
    )


def _served(draws: Draws, offer: ObservedOffer, weights: Array, stray: float) -> ServedOffer:
    """Probable serving method of an offer, from posterior samples."""
    likely = log_likelihood(draws, offer)
    flat = np.exp(likely - likely.max(axis=(1, 2), keepdims=True, initial=-700.0)) * manner_weights(draws, offer)
    sums = flat.sum(axis=(1, 2), keepdims=True)
    shares = weights[:, None, None] * flat / np.where(sums > 0, sums, 1.0)
    model, column, place = np.unravel_index(_systematic(shares.ravel(), _SERVED), shares.shape)
    manners = [draws.manners[index] for index in column]
    speculates = np.array([manner.speculates for manner in manners])
    hour = np.array([draws.priors.chips[manner.chip].hour_price for manner in manners])
    sold = _sold(draws, offer, draws.cost[model, column, place], hour)
    return ServedOffer(
        offer,
        stray,
        _shares(manner.chip for manner in manners),
        _shares(str(manner.weights) for manner in manners),
        float(speculates.mean()),
        _plain_interval(draws.acceptance[place[speculates]]) if speculates.any() else None,
        _plain_interval(np.exp(draws.flight[model, column, place])),
        *sold,
    )


def _sold(
    draws: Draws, offer: ObservedOffer, cost: Array, hour: Array
) -> tuple[CredibleInterval | None, CredibleInterval | None]:
    """Posterior of the ratio of price to cost, and of the hourly price.

    Their logarithms are normal and have a known sum per draw, so each is normally distributed given the sum.
    """
    if not offer.priced:
        return None, None
    priors, whole = draws.priors, markup(offer, draws.priors)
    surprise = math.log(revenue(offer, priors)) - cost - whole.mean
    # The evenly spread normal numbers are used in two independent orders.
    normal = stats.norm.ppf((np.arange(len(cost)) * np.array([[0.6180339887498949], [0.7548776662466927]]) + 0.5) % 1.0)
    parts = []
    for mean, sigma, draw in (
        (priors.price_over_cost.mean_log, priors.price_over_cost.sigma, normal[0]),
        (0.0, math.log(priors.hour_price_spread), normal[1]),
    ):
        share = (sigma / whole.sigma) ** 2
        parts.append(np.exp(mean + share * surprise + sigma * math.sqrt(1.0 - share) * draw))
    return _plain_interval(parts[0]), _plain_interval(hour * parts[1])


def _systematic(weights: Array, draws: int) -> Indices:
    """Systematic sampling of indices in proportion to weights."""
    reached = np.cumsum(weights)
    steps = (np.arange(draws) + 0.5) / draws * reached[-1]
    return np.asarray(np.minimum(np.searchsorted(reached, steps), len(weights) - 1))


def _plain_interval(values: Array) -> CredibleInterval:
    return CredibleInterval(*(float(value) for value in np.quantile(values, QUANTILES)))


def _shares(names: Iterable[str]) -> dict[str, float]:
    """Share of each name, most frequent first [1]."""
    distinct, times = np.unique(list(names), return_counts=True)
    return {str(distinct[index]): float(times[index] / times.sum()) for index in np.argsort(-times, kind="stable")}


#: Bins of a chart [1].
_BINS = 16


class Density(NamedTuple):
    """Prior and posterior probabilities of sizes."""

    sizes: Array
    """Centers of logarithmic bins."""
    before: Array
    """Prior probability per factor of two [1]."""
    after: Array
    """Posterior probability per factor of two [1]."""


def density(values: Array, weights: Array) -> Density:
    """Histogram of positive values, with equal and with posterior weights."""
    logs = np.log2(values)
    edges = np.linspace(logs.min(), logs.max(), _BINS + 1)
    width = edges[1] - edges[0]
    before, after = (
        np.histogram(logs, edges, weights=masses)[0] / masses.sum() / width
        for masses in (np.ones_like(weights), weights)
    )
    return Density(2.0 ** ((edges[1:] + edges[:-1]) / 2.0), before, after)


class PriceBySpeed(NamedTuple):
    """Prices of offers by speed: quantiles of 10, 50 and 90%."""

    speeds: Array
    """Speeds [tokens/s]."""
    low: Array
    """10% quantile [USD per 1e6 tokens of input and output]."""
    median: Array
    """Median [USD per 1e6 tokens]."""
    high: Array
    """90% quantile [USD per 1e6 tokens]."""


def price_by_speed(inferred: Inferred) -> PriceBySpeed:
    """Token price of the inferred model at every speed."""
    draws, priors = inferred.draws, inferred.priors
    weights = inferred.weights[:, None, None] * draws.likely[:, None] * np.ones_like(draws.speed)
    usable = np.isfinite(draws.speed) & (weights > weights.max() * 1e-6)
    speed, cost, weight = draws.speed[usable], draws.cost[usable], weights[usable]
    over = markup(inferred.offers[0], priors)
    noise = stats.norm.ppf((np.arange(cost.size) * 0.6180339887498949 + 0.5) % 1.0)
    price = np.exp(cost + over.mean + over.sigma * noise) * 1e6 / (priors.isl + priors.osl)
    ends = interval(speed, weight)
    edges = np.linspace(ends.low - math.log(2.0), ends.high + math.log(2.0), _BINS + 1)
    place = np.digitize(speed, edges)
    filled = [index for index in range(1, _BINS + 1) if (place == index).sum() > _BINS]
    quantiles = np.array([interval(price[place == index], weight[place == index]) for index in filled])
    middles = np.exp((edges[:-1] + edges[1:]) / 2.0)[np.array(filled) - 1]
    return PriceBySpeed(middles, *quantiles.T)


def blended_price(offer: ObservedOffer, priors: Priors) -> float:
    """Mean price of input and output tokens for the requests of the priors [USD per 1e6 tokens]."""
    return revenue(offer, priors) * 1e6 / (priors.isl + priors.osl)
