"""Posterior that offers leave of the priors: weights of drawn models, and how each offer is probably served."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from inference_econ._shown import Shown
from inference_econ._types import Array, Indices
from inference_econ.errors import InputError
from inference_econ.inputs import ModelSpec, ObservedOffer, Priors
from inference_econ.records.plain import attributes, records_of
from inference_econ.studies.inference.draws import Draws
from inference_econ.studies.inference.frontiers import Manner
from inference_econ.studies.inference.likelihood import (
    check_reach,
    log_likelihood,
    manner_weights,
    markup,
    over_manners,
    revenue,
)

#: Quantiles that are shown: an interval of 80 % and its middle [1].
LEVELS = (0.1, 0.5, 0.9)
#: Ways of serving that are drawn for each offer to say how it is probably served [1].
_SERVED = 4096
#: An offer that the best model of all misses by so much more than its own best one is not explained beside the others,
#: in natural logarithms of the likelihood: 4.9 standard deviations [1].
_APART = 12.0


class Interval(NamedTuple):
    """Where a quantity probably is: quantiles of 10, 50 and 90 %."""

    low: float
    """Less with 10 % [as the quantity]."""
    median: float
    """Less with 50 % [as the quantity]."""
    high: float
    """Less with 90 % [as the quantity]."""

    def holds(self, value: float) -> bool:
        """Return whether a value is between the ends."""
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Served:
    """Probable serving of one offer.

    Attributes
    ----------
    offer : ObservedOffer
        What was seen.
    stray : float
        See :attr:`Inferred.strays` [1].
    chips, formats : mapping of str to float
        Posterior probabilities [1].
    speculation : float
        Posterior probability that tokens are proposed [1].
    acceptance : Interval or None
        Share of proposals accepted, if any are made [1].
    in_flight : Interval
        Requests in flight of an instance [1].
    price_over_cost : Interval or None
        What tokens are sold for over what they cost, idle time included [1]; None without a price.
    hour_price : Interval or None
        What an hour of the chip costs [USD/h]; None without a price.
    """

    offer: ObservedOffer
    stray: float
    chips: Mapping[str, float]
    formats: Mapping[str, float]
    speculation: float
    acceptance: Interval | None
    in_flight: Interval
    price_over_cost: Interval | None
    hour_price: Interval | None

    def record(self) -> dict[str, Any]:
        """Return the offer and how it is probably served as plain data."""
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
    """Sizes that a closed model could have, by what was seen of its offers: never a point.

    Attributes
    ----------
    offers : tuple of ObservedOffer
        What was seen.
    draws : Draws
        Models drawn from the priors.
    weights : ndarray, shape (N,)
        Posterior probability of each [1].
    strays : tuple of float
        Posterior probability of each offer that it says nothing of the model, as it does not go with the others [1].
    truth : ModelSpec or None
        What the model is, where that is known.
    """

    page = "report.infer:InferencePage"

    offers: tuple[ObservedOffer, ...]
    draws: Draws
    weights: Array
    strays: tuple[float, ...]
    truth: ModelSpec | None = None

    @property
    def priors(self) -> Priors:
        """Priors before the offers."""
        return self.draws.priors

    @property
    def effective(self) -> float:
        """Draws of equal weight that would say as much [1]."""
        return float(1.0 / np.sum(self.weights**2))

    @cached_property
    def total_parameters(self) -> Interval:
        """Posterior of all parameters [1]."""
        return interval(self.draws.total, self.weights)

    @cached_property
    def active_parameters(self) -> Interval:
        """Posterior of the parameters that a token goes through [1]."""
        return interval(self.draws.active, self.weights)

    @cached_property
    def served(self) -> tuple[Served, ...]:
        """Probable serving of each offer."""
        pairs = zip(self.offers, self.strays, strict=True)
        return tuple(_served(self.draws, offer, self.weights, stray) for offer, stray in pairs)

    @property
    def families(self) -> dict[str, float]:
        """Posterior probabilities of the kinds of models [1]."""
        names = self.draws.families
        return {name: float(self.weights[self.draws.family == index].sum()) for index, name in enumerate(names)}

    def mean_of(self, probabilities: Callable[[Served], Mapping[str, float]]) -> dict[str, float]:
        """Probabilities averaged over the offers [1]."""
        by_offer = [probabilities(served) for served in self.served]
        names = dict.fromkeys(name for shares in by_offer for name in shares)
        return {name: sum(shares.get(name, 0.0) for shares in by_offer) / len(by_offer) for name in names}

    @property
    def manners(self) -> dict[str, dict[str, float]]:
        """Probabilities of chips, formats and speculation, in the mean over the offers [1]."""
        return {
            "chips": self.mean_of(lambda served: served.chips),
            "weights": self.mean_of(lambda served: served.formats),
            "speculation": self.mean_of(lambda served: {"yes": served.speculation}),
        }

    def record(self) -> dict[str, Any]:
        """Return sizes, kinds and how each offer is served as plain data; what the model is, where that is known."""
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
        """Return the models drawn from the priors with their weights, one record each."""
        draws = self.draws
        return records_of(
            {
                "family": [draws.families[index] for index in draws.family],
                "total_parameters": draws.total,
                "active_parameters": draws.active,
                "weight": self.weights,
            }
        )


def interval(values: Array, weights: Array) -> Interval:
    """Quantiles of weighted values: the least that so much of the weight is at or below."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    places = np.searchsorted(reached, np.array(LEVELS) * reached[-1])
    return Interval(*(float(values[order[place]]) for place in places))


def posterior(draws: Draws, offers: Sequence[ObservedOffer], truth: ModelSpec | None = None) -> Inferred:
    """Posterior that some offers of one model leave of the draws.

    Parameters
    ----------
    draws : Draws
        Models drawn from the priors.
    offers : sequence of ObservedOffer
        What was seen.
    truth : ModelSpec, optional
        What the model is; nothing follows from it.

    Raises
    ------
    InputError
        If an offer is out of reach of all draws, or the offers contradict each other.

    Notes
    -----
    Importance sampling with the prior as the proposal: the weight of a model is the product over the offers of their
    likelihood, averaged over chips, formats, speculation and places on the frontier. An offer may be a stray, with a
    small prior probability: then it is as likely as under all draws together. Offers of one model are alike in more
    than priors say (traffic, engines, the published format): n of them count as n / (1 + (n - 1) r), the effective size
    of a sample with the correlation r (Kish 1965, design effect of clusters).
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
    """Of an offer under all draws together, in natural logarithms [1]."""
    return float(special.logsumexp(likely) - math.log(likely.size))


def _with_strays(likely: Array, share: float) -> Array:
    """A likelihood of draws, in natural logarithms, where a share of offers says nothing of its model."""
    return np.asarray(np.logaddexp(math.log1p(-share) + likely, math.log(share) + _evidence(likely)))


def _stray(likely: Array, share: float) -> Array:
    """Probability under each draw that an offer is a stray [1]."""
    return np.exp(math.log(share) + _evidence(likely) - _with_strays(likely, share))


def _check_agreement(offers: Sequence[ObservedOffer], likely: Array, strays: Sequence[float]) -> None:
    """Refuse offers of which no model explains the half.

    Raises
    ------
    InputError
        With two that no model explains together.
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


def _served(draws: Draws, offer: ObservedOffer, weights: Array, stray: float) -> Served:
    """Probable serving of an offer, from ways to serve drawn in proportion to their posterior."""
    likely = log_likelihood(draws, offer)
    flat = np.exp(likely - likely.max(axis=(1, 2), keepdims=True, initial=-700.0)) * manner_weights(draws, offer)
    sums = flat.sum(axis=(1, 2), keepdims=True)
    shares = weights[:, None, None] * flat / np.where(sums > 0, sums, 1.0)
    model, column, place = np.unravel_index(_systematic(shares.ravel(), _SERVED), shares.shape)
    manners = [draws.manners[index] for index in column]
    speculates = np.array([manner.speculates for manner in manners])
    sold = _sold(draws, offer, draws.cost[model, column, place], np.array([_hour(draws, way) for way in manners]))
    return Served(
        offer,
        stray,
        _shares(manner.chip for manner in manners),
        _shares(str(manner.weights) for manner in manners),
        float(speculates.mean()),
        _plain_interval(draws.acceptance[place[speculates]]) if speculates.any() else None,
        _plain_interval(np.exp(draws.flight[model, column, place])),
        *sold,
    )


def _sold(draws: Draws, offer: ObservedOffer, cost: Array, hour: Array) -> tuple[Interval | None, Interval | None]:
    """Posterior of what tokens are sold for over their cost, and of the price of an hour.

    Both are parts of a sum of normal logarithms whose total is known of each draw, so that each is normal again.
    """
    if not offer.priced:
        return None, None
    priors, whole = draws.priors, markup(offer, draws.priors)
    surprise = math.log(revenue(offer, priors)) - cost - whole.mean
    # Two orders of evenly spread normal numbers that have nothing to do with each other.
    normal = stats.norm.ppf((np.arange(len(cost)) * np.array([[0.6180339887498949], [0.7548776662466927]]) + 0.5) % 1.0)
    parts = []
    for mean, sigma, draw in (
        (priors.price_over_cost.mean_log, priors.price_over_cost.sigma, normal[0]),
        (0.0, math.log(priors.hour_price_spread), normal[1]),
    ):
        share = (sigma / whole.sigma) ** 2
        parts.append(np.exp(mean + share * surprise + sigma * math.sqrt(1.0 - share) * draw))
    return _plain_interval(parts[0]), _plain_interval(hour * parts[1])


def _hour(draws: Draws, manner: Manner) -> float:
    return draws.priors.chips[manner.chip].hour_price


def _systematic(weights: Array, draws: int) -> Indices:
    """Indices drawn in proportion to weights, at even steps of their sum."""
    reached = np.cumsum(weights)
    steps = (np.arange(draws) + 0.5) / draws * reached[-1]
    return np.asarray(np.minimum(np.searchsorted(reached, steps), len(weights) - 1))


def _plain_interval(values: Array) -> Interval:
    return Interval(*(float(value) for value in np.quantile(values, LEVELS)))


def _shares(names: Iterable[str]) -> dict[str, float]:
    """Share of each name, the most frequent first [1]."""
    distinct, times = np.unique(list(names), return_counts=True)
    return {str(distinct[index]): float(times[index] / times.sum()) for index in np.argsort(-times, kind="stable")}
