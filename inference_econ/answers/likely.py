"""Costs with what they may be, and how probably one of them is below another."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from inference_econ.engine import Instances, bounds
from inference_econ.formulas import special

#: Half of the width of an interval of 80 % of a normal distribution, in standard deviations [1].
_HALF_WIDTH = float(special.normal_quantiles(np.array(0.9)))


#: The least cost at a speed [tokens/s] or beyond, in any unit, and whose it is: of all layouts, or of those alone that
#: some measured server had; None where nothing is as fast.
LeastAt = Callable[[float, bool], tuple[float, Instances] | None]


class Likely(NamedTuple):
    """A predicted cost, and where it probably is."""

    dollars: float
    """As predicted, in any unit that is compared."""
    low: float | None
    """The lower end of the 80 % interval of measured servers; None where nobody knows errors."""
    high: float | None
    """The upper end; None where nobody knows errors, or nothing is as fast at it."""
    instances: Instances
    """Instances that cost so much."""

    @property
    def spread(self) -> tuple[float, float] | None:
        """Mean and standard deviation of ln(measured) if errors are normal [1]; None where nobody knows them."""
        if self.low is None or self.high is None:
            return None
        low, high = math.log(self.low), math.log(self.high)
        return (low + high) / 2.0, (high - low) / 2.0 / _HALF_WIDTH


def likely_ends(least: LeastAt, speed: float, instances: Instances) -> tuple[float | None, float | None] | None:
    """Where the least cost of a speed probably is.

    Parameters
    ----------
    least : callable
        Costs of speeds.
    speed : float
        Of a user [tokens/s].
    instances : Instances
        Whose errors count: those that are the cheapest.

    Returns
    -------
    (float or None, float or None) or None
        The lower end is that of a frontier that is faster and cheaper by the good ends of errors of speed and of cost,
        the upper one that of a frontier that is slower and dearer by the bad ones; None where nothing is as fast. None
        for both where nobody knows the errors.

    Notes
    -----
    The cheapest of many candidates is probably dearer than it was predicted to be, most of all where nobody measured
    its layout. Whoever deploys it and is disappointed falls back on one that was measured: so the upper end is no less
    than that of the cheapest such layout.
    """
    tpot, rate = (bounds.around(instances, quantity) for quantity in ("tpot", "throughput"))
    if tpot is None or rate is None:
        return None
    good, bad = least(speed * tpot.low, False), least(speed * tpot.high, False)
    low, high = None if good is None else good[0] / rate.high, None if bad is None else bad[0] / rate.low
    measured = None if high is None or any(instances.measured) else least(speed, True)
    beside = None if measured is None else likely_ends(lambda at, _: least(at, True), speed, measured[1])
    if high is not None and beside is not None and beside[1] is not None:
        high = max(high, beside[1])
    return low, high


def of_throughput(dollars: float, instances: Instances) -> Likely:
    """A cost that is in inverse proportion to what instances complete."""
    likely = bounds.around(instances, "throughput")
    if likely is None:
        return Likely(dollars, None, None, instances)
    return Likely(dollars, dollars / likely.high, dollars / likely.low, instances)


def chance_below(first: Likely, second: Likely) -> float | None:
    """The probability that the first cost is below the second; None where nobody knows the errors of one of them.

    Parameters
    ----------
    first, second : Likely
        In one unit.

    Returns
    -------
    float or None
        From 0.05 to 0.95, which stand for less and for more: tails are not known [1].

    Notes
    -----
    ln(measured / predicted) of both is taken to be normal, with the mean and the width of its interval of 80 %; the
    correlation is :func:`shared_share`. So the difference is normal too.
    """
    spread, other = first.spread, second.spread
    if spread is None or other is None:
        return None
    shared = shared_share(first.instances, second.instances)
    variance = spread[1] ** 2 + other[1] ** 2 - 2.0 * shared * spread[1] * other[1]
    if variance <= 0.0:
        return 0.5 if spread[0] == other[0] else 0.95 if spread[0] < other[0] else 0.05
    chance = float(special.normal_shares(np.array((other[0] - spread[0]) / math.sqrt(variance))))
    return min(max(chance, 0.05), 0.95)


def shared_share(first: Instances, second: Instances) -> float:
    """The share of the variance of errors that two predictions have in common [1].

    Nothing under different profiles, or for different models or chips: errors of the time per token of two chips under
    the same engine, model and load hardly go together (rank correlation 0.15, ``sh run.sh error-correlations``). For
    one model on one chip under one profile, what its levels vary by around the profile, by version, and, if both are
    served in the same way, by that (:class:`inference_econ.inputs.MeasuredLevels`); nothing where none were measured.
    A chip or model with some fields changed stands for the same servers, so that all of it is shared.
    """
    setup, other = first.setup, second.setup
    levels = setup.assumptions.levels
    alike = setup.model.name == other.model.name and setup.hardware.name == other.hardware.name
    if levels is None or not alike or setup.assumptions.name != other.assumptions.name:
        return 0.0
    if setup.model != other.model or setup.hardware != other.hardware:
        return 1.0
    spreads = levels.spreads["tpot"]
    common = spreads.subject**2 + spreads.version**2
    if first.speculates == second.speculates:
        common += spreads.way**2
    if list(first.layouts) == list(second.layouts):
        common += spreads.deployment**2
    every = (spreads.subject, spreads.version, spreads.way, spreads.deployment, spreads.row)
    return common / sum(spread**2 for spread in every)
