"""Closed models drawn from priors, and every way to serve them: speeds, costs and waits that one would see."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import stats

from inference_econ._types import Array, Indices
from inference_econ.engine import error_spread
from inference_econ.errors import InputError
from inference_econ.extras.closed_models.frontiers import (
    COST,
    FLIGHT,
    SPEED,
    TTFT,
    Manner,
    Surface,
    Surfaces,
    counts,
    manners,
)
from inference_econ.extras.closed_models.scenario_kinds import Lognormal, PriorFamily, Priors
from inference_econ.inputs import LEVELS, Assumptions, Quantity, catalog
from inference_econ.inputs.engine import profiles

#: Points of a frontier that an offer may stand at, with an acceptance each [1]: a power of two.
_PLACES = 16
#: Seconds of an hour [s].
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Draws:
    """N models drawn from priors, in C manners each, at M places of a frontier each.

    Attributes
    ----------
    priors : Priors
        Where they come from.
    families : tuple of str
        Of which ``family`` counts.
    family : ndarray of int, shape (N,)
        Kind of model.
    common_price, common_speed : ndarray, shape (N,)
        Natural logarithms of what all its prices, and all its speeds, are off by [1].
    total, active : ndarray, shape (N,)
        Parameters [1].
    manners : tuple of Manner
        C ways to serve.
    likely : ndarray, shape (C,)
        Their prior probabilities [1].
    acceptance : ndarray, shape (M,)
        Of proposals, where tokens are proposed [1].
    speed, cost, ttft, flight : ndarray, shape (N, C, M)
        Natural logarithms: speed of a user [tokens/s], what a request costs on a full instance at the median price of
        an hour [USD], time to the first token without queue and network [s], requests in flight of an instance [1].
        Errors of the model are in them, the same for all offers of a drawn model; NaN where it does not fit.
    """

    priors: Priors
    families: tuple[str, ...]
    family: Indices
    common_price: Array
    common_speed: Array
    total: Array
    active: Array
    manners: tuple[Manner, ...]
    likely: Array
    acceptance: Array
    speed: Array
    cost: Array
    ttft: Array
    flight: Array


def draw(priors: Priors, surfaces: Surfaces, wanted: Sequence[Manner], samples: int) -> Draws:
    """Draw models, and compute what one would see of each.

    Parameters
    ----------
    priors : Priors
        What is believed.
    surfaces : Surfaces
        Frontiers of the priors, which are prepared for the manners.
    wanted : sequence of Manner
        Ways to serve that an offer may have.
    samples : int
        How many models [1]; a power of two is used, the next if it is none.

    Notes
    -----
    A Sobol sequence in seven dimensions: family, size, experts, the quantiles of two held-out errors, and what is
    common to all prices and to all speeds of a model. The places on a frontier and the acceptance are a second one,
    the same for all models.
    """
    uniform = sobol(7, samples)
    names = tuple(name for name, family in priors.families.items() if family.probability > 0)
    shares = np.cumsum([priors.families[name].probability for name in names])
    family = np.searchsorted(shares / shares[-1], uniform[:, 0], side="right")
    place, chance = sobol(2, _PLACES).T
    low, high = priors.speculation.acceptance
    acceptance = low + (high - low) * chance
    likely = manners(priors)
    seen = np.full((len(uniform), len(wanted), _PLACES, 4), np.nan)
    total, active = np.empty(len(uniform)), np.empty(len(uniform))
    for index, name in enumerate(names):
        members, kind = np.flatnonzero(family == index), priors.families[name]
        where = [_between(kind.parameters, uniform[members, 1])]
        where += [_between(kind.experts, uniform[members, 2])] if kind.experts else []
        sizes = (np.exp(Surface(_axes(kind), values).at(*where)) for values in counts(kind))
        total[members], active[members] = sizes
        for column, manner in enumerate(wanted):
            spots = [np.repeat(coordinates[:, None], _PLACES, axis=1) for coordinates in where]
            spots += [np.broadcast_to(acceptance, spots[0].shape)] if manner.speculates else []
            spots.append(np.broadcast_to(place, spots[0].shape))
            seen[members, column] = surfaces.of(kind, manner).at(*spots)
    dearer = _normal(priors.common_price, uniform[:, 5])
    faster = np.select(
        [family == index for index in range(len(names))],
        [_normal(priors.families[name].common_speed, uniform[:, 6]) for name in names],
    )
    for column, manner in enumerate(wanted):
        slower = _error(manner.chip, "tpot", uniform[:, 3])
        cheaper = _error(manner.chip, "throughput", uniform[:, 4])
        hour = math.log(priors.chips[manner.chip].hour_price / _HOUR)
        seen[:, column, :, SPEED] += (faster - slower)[:, None]
        seen[:, column, :, COST] += (hour + dearer - cheaper)[:, None]
    return Draws(
        priors,
        names,
        family,
        dearer,
        faster,
        total,
        active,
        tuple(wanted),
        np.array([likely[manner] for manner in wanted]),
        acceptance,
        *(seen[..., kept] for kept in (SPEED, COST, TTFT, FLIGHT)),
    )


def sobol(dimensions: int, points: int) -> Array:
    """Evenly spread points of the unit cube, shape (n, dimensions), n the next power of two; none at its faces."""
    power = max(math.ceil(math.log2(points)), 0)
    return np.asarray(stats.qmc.Sobol(dimensions, scramble=False).random_base2(power) + 0.5 / 2**power)


def _between(nodes: Sequence[float], uniform: Array) -> Array:
    """Places between the first and the last node, even on a logarithmic scale."""
    low, high = math.log(nodes[0]), math.log(nodes[-1])
    return low + (high - low) * uniform


def _normal(quantity: Lognormal, uniform: Array) -> Array:
    """Natural logarithms of a quantity at some quantiles [1]."""
    return np.asarray(quantity.mean_log + quantity.sigma * stats.norm.ppf(uniform))


def _axes(family: PriorFamily) -> tuple[Array, ...]:
    return (np.log(family.parameters), *([np.log(family.experts)] if family.experts else []))


def _error(chip: str, quantity: Quantity, uniform: Array) -> Array:
    """Of ln(measured / predicted) at some quantiles, for a model that no fit has seen [1]; 0 where nobody knows."""
    spread = spread_of(chip, quantity)
    return np.zeros_like(uniform) if spread is None else np.interp(uniform, LEVELS, spread)


@lru_cache(maxsize=64)
def spread_of(chip: str, quantity: Quantity) -> tuple[float, ...] | None:
    """Quantiles of the held-out errors of a chip's profile for models that its fit had not seen; None if unknown."""
    profile = profile_of(chip)
    errors = {} if profile.calibration is None else profile.calibration.errors
    of_models = errors.get("model", {}).get(quantity)
    if of_models is not None:
        return tuple(of_models.quantiles)
    widest = error_spread(profile, quantity)
    return None if widest is None else tuple(widest.spread.quantiles)


def profile_of(chip: str) -> Assumptions:
    """The assumptions under which frontiers on a chip are computed."""
    return profiles.assumed(None, catalog.hardware(chip), None)


def manners_on(priors: Priors, chip: str | None) -> tuple[Manner, ...]:
    """Ways to serve on a chip, or on any.

    Raises
    ------
    InputError
        If the priors do not have the chip, or give it no probability.
    """
    every = tuple(manners(priors))
    on_it = tuple(manner for manner in every if chip in (None, manner.chip))
    if not on_it:
        chips = ", ".join(dict.fromkeys(manner.chip for manner in every))
        raise InputError(
            f"the priors {priors.name!r} have no chip {chip!r}; theirs: {chips}; another needs an entry under 'chips' "
            "in priors of your own (--priors FILE), with its hour price and formats"
        )
    return on_it
