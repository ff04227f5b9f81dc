"""Predicted offers of the inferred model: densities of sizes, and prices by speed."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from inference_econ._types import Array
from inference_econ.inputs import ObservedOffer, Priors
from inference_econ.studies.inference.likelihood import markup, revenue
from inference_econ.studies.inference.posterior import Inferred, interval

#: Bins of a picture [1].
_BINS = 16


class Density(NamedTuple):
    """Probabilities of sizes, before and after."""

    sizes: Array
    """Middles of bins that are equally wide on a logarithmic scale."""
    before: Array
    """Probability of a factor of two in size under the priors [1]."""
    after: Array
    """Probability of a factor of two in size under the posterior [1]."""


def density(values: Array, weights: Array) -> Density:
    """Probabilities of some positive values, with equal weights and with those of a posterior."""
    logs = np.log2(values)
    edges = np.linspace(logs.min(), logs.max(), _BINS + 1)
    width = edges[1] - edges[0]
    before, after = (
        np.histogram(logs, edges, weights=masses)[0] / masses.sum() / width
        for masses in (np.ones_like(weights), weights)
    )
    return Density(2.0 ** ((edges[1:] + edges[:-1]) / 2.0), before, after)


class PriceBySpeed(NamedTuple):
    """Prices of offers at some speeds: quantiles of 10, 50 and 90 %."""

    speeds: Array
    """[tokens/s]"""
    low: Array
    """[USD per 1e6 tokens of input and output together]"""
    median: Array
    """[USD per 1e6 tokens]"""
    high: Array
    """[USD per 1e6 tokens]"""


def price_by_speed(inferred: Inferred) -> PriceBySpeed:
    """Price of tokens of the inferred model at every speed that it would have."""
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
    """Price of a token of the requests that priors are of, input and output together [USD per 1e6 tokens]."""
    return revenue(offer, priors) * 1e6 / (priors.isl + priors.osl)
