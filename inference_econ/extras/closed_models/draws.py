"""Models sampled from priors, with speed, cost and latency of every serving method."""

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

#: Number of points of a frontier at which an offer may be, each with an acceptance rate [1]; a power of two.
_PLACES = 16
#: Seconds per hour [s].
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Draws:
    """N models sampled from priors, each with C serving methods at M points of its frontier.

    Attributes
    ----------
    priors : Priors
        Priors.
    families : tuple of str
        Names of the model families; ``family`` has indices into them.
    family : ndarray of int, shape (N,)
        Family of each model, as an index.
    common_price, common_speed : ndarray, shape (N,)
        Logarithms of the factors on all prices, and on all speeds, of a model [1].
    total, active : ndarray, shape (N,)
        Parameters [1].
    manners : tuple of Manner
        The C serving methods.
    likely : ndarray, shape (C,)
        Prior probabilities of the serving methods [1].
    acceptance : ndarray, shape (M,)
        Acceptance rates for methods with speculation [1].
    speed, cost, ttft, flight : ndarray, shape (N, C, M)
        Logarithms of user speed [tokens/s], cost of a request on a full instance at the median hourly price [USD], time
        to first token without queue and network [s], and concurrency per instance [1]. They include prediction errors,
        which all offers of a model share. NaN means that the model does not fit.
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
    """Sample models and compute their observable quantities.

    Parameters
    ----------
    priors : Priors
        Priors.
    surfaces : Surfaces
        Frontiers of the priors, which must be prepared for these serving methods.
    wanted : sequence of Manner
        Serving methods to evaluate.
    samples : int
        Number of models [1], rounded up to a power of two.

    Notes
    -----
    The draws are a Sobol sequence in seven dimensions: family, size, experts, quantiles of two cross-validated errors,
    and common factors of prices and of speeds. A second sequence, which all models share, determines the points on the
    frontier and the acceptance rates.
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
    """Sobol points in the open unit cube, shape (n, dimensions), where n is the next power of two."""
    power = max(math.ceil(math.log2(points)), 0)
    return np.asarray(stats.qmc.Sobol(dimensions, scramble=False).random_base2(power) + 0.5 / 2**power)


def _between(nodes: Sequence[float], uniform: Array) -> Array:
    """Logarithms of log-uniform values between the first and the last node."""
    low, high = math.log(nodes[0]), math.log(nodes[-1])
    return low + (high - low) * uniform


def _normal(quantity: Lognormal, uniform: Array) -> Array:
    """Logarithms of a quantity at given quantiles [1]."""
    return np.asarray(quantity.mean_log + quantity.sigma * stats.norm.ppf(uniform))


def _axes(family: PriorFamily) -> tuple[Array, ...]:
    return (np.log(family.parameters), *([np.log(family.experts)] if family.experts else []))


def _error(chip: str, quantity: Quantity, uniform: Array) -> Array:
    """ln(measured / predicted) at given quantiles for a model outside the fit [1]; 0 if unknown."""
    spread = spread_of(chip, quantity)
    return np.zeros_like(uniform) if spread is None else np.interp(uniform, LEVELS, spread)


@lru_cache(maxsize=64)
def spread_of(chip: str, quantity: Quantity) -> tuple[float, ...] | None:
    """Error quantiles of a chip's profile for models that were left out of the fit; None if unknown."""
    profile = profile_of(chip)
    errors = {} if profile.calibration is None else profile.calibration.errors
    of_models = errors.get("model", {}).get(quantity)
    if of_models is not None:
        return tuple(of_models.quantiles)
    widest = error_spread(profile, quantity)
    return None if widest is None else tuple(widest.spread.quantiles)


def profile_of(chip: str) -> Assumptions:
    """Assumptions for frontiers on a chip."""
    return profiles.assumed(None, catalog.hardware(chip), None)


def manners_on(priors: Priors, chip: str | None) -> tuple[Manner, ...]:
    """Serving methods on a given chip, or on any chip.

    Raises
    ------
    InputError
        If the priors do not contain the chip, or give it no probability.
    """
    every = tuple(manners(priors))
    on_it = tuple(manner for manner in every if chip in (None, manner.chip))
    if not on_it:
        chips = ", ".join(dict.fromkeys(manner.chip for manner in every))
        raise InputError(
            f"the priors {priors.name!r} have no chip {chip!r}; known: {chips}; to add a chip, list it under 'chips' "
            "in your priors (--priors FILE), with its price per hour and its formats"
        )
    return on_it
