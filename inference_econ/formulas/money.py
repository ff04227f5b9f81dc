"""Costs of a chip-hour and of tokens, and preferences of buyers between speed and cost."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.errors import InputError

_HOURS_PER_YEAR = 8760.0
_SECONDS_PER_HOUR = 3600.0


def dollars_per_million_tokens(
    accelerators: npt.ArrayLike,
    seconds_per_token: npt.ArrayLike,
    batch: npt.ArrayLike,
    dollars_per_accelerator_hour: float,
) -> Array:
    """Cost of a million output tokens for an instance at full load.

    Parameters
    ----------
    accelerators : array_like, shape (...)
        Number of accelerators in the instance [1].
    seconds_per_token : array_like, shape (...)
        Time between two tokens of one user [s].
    batch : array_like, shape (...)
        Number of concurrent users [1]. For a known throughput, set ``seconds_per_token`` to 1 and ``batch`` to the
        throughput.
    dollars_per_accelerator_hour : float
        Price [USD/h].

    Returns
    -------
    ndarray, shape (...)
        Cost [USD per 1e6 tokens].

    Notes
    -----
    Eq. (2) of Erdil (2025) times the price. The order of operations follows the published code.

    Examples
    --------
    >>> round(float(dollars_per_million_tokens(8, 0.01, 100, 2.1)), 4)
    0.4667
    """
    seconds = np.multiply(accelerators, seconds_per_token) / batch
    return np.asarray(seconds * (dollars_per_accelerator_hour / _SECONDS_PER_HOUR) * 1e6, dtype=float)


def preference(tokens_per_second: npt.ArrayLike, dollars_per_million: npt.ArrayLike, exponent: float) -> Array:
    """Objective of a buyer for whom the value of a token is a power of its speed.

    Parameters
    ----------
    tokens_per_second : array_like, shape (...)
        Speed per user [tokens/s].
    dollars_per_million : array_like, shape (...)
        Cost [USD per 1e6 tokens].
    exponent : float
        Exponent a of the speed [1]; 3 in the tables of the study.

    Returns
    -------
    ndarray, shape (...)
        speed^a / cost [1]; only ratios of these values are meaningful.

    Notes
    -----
    Eq. (45) of Erdil (2025).
    """
    speed, cost = np.asarray(tokens_per_second, dtype=float), np.asarray(dollars_per_million, dtype=float)
    return np.asarray(speed**exponent / cost)


class Exponents(NamedTuple):
    """Range of the exponent of :func:`preference` for which a buyer chooses each point, in arrays of shape (n,) [1]."""

    low: Array
    """Lower end of the range, at least 0; at smaller exponents, the buyer prefers a slower point."""
    high: Array
    """Upper end of the range; at larger exponents, the buyer prefers a faster point.

    The upper end is infinite for the fastest point, and below ``low`` if no exponent selects the point.
    """


def revealed_exponents(tokens_per_second: npt.ArrayLike, dollars_per_million: npt.ArrayLike) -> Exponents:
    """Revealed preference: range of the exponent of :func:`preference` for which a buyer chooses each point.

    Parameters
    ----------
    tokens_per_second : array_like, shape (n,)
        Speed per user at each point [tokens/s].
    dollars_per_million : array_like, shape (n,)
        Price at each point [USD per 1e6 tokens].

    Returns
    -------
    Exponents
        Range of the exponent for every point [1]; the range is empty (``high < low``) if no exponent selects the point.

    Raises
    ------
    InputError
        If the arrays differ in length or are empty, or if a number is not positive.

    Notes
    -----
    Eq. (45) of Erdil (2025), solved for the exponent. speed^a / price is largest if a is between two slopes of
    ln(price) over ln(speed). The exponent a is at least the slope to every slower point, and at most the slope to every
    faster point. If several points have equal speed, a buyer can choose only the cheapest of these points.

    Examples
    --------
    >>> revealed_exponents([10.0, 20.0, 40.0], [1.0, 2.0, 16.0])
    Exponents(low=array([0., 1., 3.]), high=array([ 1.,  3., inf]))
    """
    speed, cost = np.asarray(tokens_per_second, dtype=float), np.asarray(dollars_per_million, dtype=float)
    if speed.ndim != 1 or speed.shape != cost.shape or not speed.size:
        raise InputError(f"give as many speeds as prices, and some, got the shapes {speed.shape} and {cost.shape}")
    if not ((speed > 0).all() and (cost > 0).all()):
        raise InputError("speeds and prices must be positive")
    faster = np.log(speed)[None, :] - np.log(speed)[:, None]
    dearer = np.log(cost)[None, :] - np.log(cost)[:, None]
    slope = dearer / np.where(faster == 0.0, 1.0, faster)
    low = np.where(faster < 0.0, slope, 0.0).max(axis=1)
    high = np.where(faster > 0.0, slope, np.inf).min(axis=1)
    undercut = ((faster == 0.0) & (dearer < 0.0)).any(axis=1)
    return Exponents(np.maximum(low, 0.0), np.where(undercut, -np.inf, high))


class HourCostByCause(NamedTuple):
    """Cost per hour of use of one owned accelerator, by cause; every field has the shape of the inputs [USD/h]."""

    depreciation: Array
    """Depreciation: purchase price divided by the hours of use in its lifetime."""
    capital: Array
    """Interest on the remaining value of the accelerator."""
    operations: Array
    """Staff, space and repairs: a yearly share of the purchase price."""
    accelerator_energy: Array
    """Electricity of the accelerator, including cooling."""
    host_energy: Array
    """Electricity of the accelerator's share of host and network, including cooling and idle hours."""

    @property
    def total(self) -> Array:
        """Total cost per hour of use [USD/h]."""
        return np.asarray(sum(self[1:], start=self[0]))


class Power(NamedTuple):
    """Power that an accelerator draws, and the price of electricity."""

    board_watts: npt.ArrayLike = 0.0
    """Power of the accelerator while it works [W]; an idle accelerator is assumed to draw no power."""
    host_watts: npt.ArrayLike = 0.0
    """Power of the accelerator's share of host and network, which is drawn at all hours [W]."""
    pue: npt.ArrayLike = 1.0
    """Power of the facility divided by the power of its servers, at least 1 [1]."""
    dollars_per_kwh: npt.ArrayLike = 0.0
    """Price of electricity [USD per kWh]."""


_NO_POWER = Power()


def accelerator_hour_cost(
    purchase_dollars: npt.ArrayLike,
    lifetime_years: npt.ArrayLike,
    *,
    utilisation: npt.ArrayLike = 1.0,
    power: Power = _NO_POWER,
    yearly_operations: npt.ArrayLike = 0.0,
    cost_of_capital: npt.ArrayLike = 0.0,
) -> HourCostByCause:
    """Cost per hour of use of a purchased accelerator: total cost divided by the hours in which it works.

    Parameters
    ----------
    purchase_dollars : array_like, shape (...)
        Price of one accelerator with its share of host and network [USD].
    lifetime_years : array_like, shape (...)
        Depreciation period [years].
    utilisation : array_like, shape (...)
        Share of all hours in which the accelerator works, above 0 and at most 1 [1].
    power : Power
        Power [W], and price of electricity [USD per kWh]; arrays of shape (...).
    yearly_operations : array_like, shape (...)
        Yearly operating cost as a share of the purchase price [1].
    cost_of_capital : array_like, shape (...)
        Yearly interest rate [1].

    Returns
    -------
    HourCostByCause
        Cost by cause [USD/h]; the sum is ``total``.

    Raises
    ------
    InputError
        If a value is negative or not finite, the lifetime or ``utilisation`` is zero, ``utilisation`` is above 1, or
        the PUE is below 1.

    Notes
    -----
    The owner makes equal yearly payments of an annuity, P r / (1 - (1 + r)^-n). P / n of each payment is depreciation,
    and the remainder is the cost of capital. The breakdown follows the chapter on costs of Barroso, Hoelzle and
    Ranganathan (2018).

    Examples
    --------
    A chip for 40,000 dollars over five years, which works for 80% of the time:

    >>> cost = accelerator_hour_cost(40e3, 5, utilisation=0.8, power=Power(700, 500, 1.25, 0.08),
    ...     yearly_operations=0.05, cost_of_capital=0.08)
    >>> [round(float(part), 3) for part in cost], round(float(cost.total), 3)
    ([1.142, 0.288, 0.285, 0.07, 0.062], 1.847)
    """
    price = _known("purchase_dollars", purchase_dollars)
    years = _known("lifetime_years", lifetime_years, above=0.0)
    share = _known("utilisation", utilisation, above=0.0, most=1.0)
    rate = _known("cost_of_capital", cost_of_capital)
    hours = _HOURS_PER_YEAR * share
    # Costs are first calculated per hour of clock time, and then divided by ``utilisation``.
    dollars_per_watt = _known("pue", power.pue, least=1.0) * _known("dollars_per_kwh", power.dollars_per_kwh) / 1e3
    with np.errstate(divide="ignore", invalid="ignore"):
        payment = rate / -np.expm1(-years * np.log1p(rate))
    yearly = np.where(rate > 0.0, payment, 1.0 / years)
    depreciation = price / years / hours
    parts = (
        depreciation,
        depreciation * (yearly * years - 1.0),
        price * _known("yearly_operations", yearly_operations) / hours,
        _known("board_watts", power.board_watts) * dollars_per_watt,
        _known("host_watts", power.host_watts) * dollars_per_watt / share,
    )
    return HourCostByCause(*(np.asarray(part, dtype=float) for part in np.broadcast_arrays(*parts)))


def dollars_per_second(accelerators: npt.ArrayLike, dollars_per_accelerator_hour: npt.ArrayLike) -> Array:
    """Price of an instance per second [USD/s].

    Parameters
    ----------
    accelerators : array_like, shape (...)
        Number of accelerators in the instance [1].
    dollars_per_accelerator_hour : array_like, shape (...)
        Price [USD/h].

    Returns
    -------
    ndarray, shape (...)
        Price [USD/s].

    Notes
    -----
    The price of an instance is a factor of eq. (2) of Erdil (2025).

    Examples
    --------
    >>> float(dollars_per_second(8, 1.8))
    0.004
    """
    return np.asarray(np.multiply(accelerators, dollars_per_accelerator_hour) / _SECONDS_PER_HOUR, dtype=float)


def dollars_per_million(dollars: npt.ArrayLike, tokens: npt.ArrayLike) -> Array:
    """Cost per million tokens, for a total cost and a number of tokens.

    Parameters
    ----------
    dollars : array_like, shape (...)
        Cost [USD].
    tokens : array_like, shape (...)
        Number of tokens [tokens].

    Returns
    -------
    ndarray, shape (...)
        Cost [USD per 1e6 tokens]; 0 without tokens.

    Notes
    -----
    Eq. (2) of Erdil (2025), with a number of tokens instead of a speed.

    Examples
    --------
    >>> dollars_per_million(6.0, [3e6, 0.0])
    array([2., 0.])
    """
    bill, count = np.broadcast_arrays(np.asarray(dollars, dtype=float), np.asarray(tokens, dtype=float))
    return np.asarray(np.divide(bill * 1e6, count, out=np.zeros(bill.shape), where=count > 0.0))


def joules_per_token(watts: npt.ArrayLike, accelerators: npt.ArrayLike, tokens_per_second: npt.ArrayLike) -> Array:
    """Energy per token of an instance.

    Parameters
    ----------
    watts : array_like, shape (...)
        Power of one accelerator [W].
    accelerators : array_like, shape (...)
        Number of accelerators in the instance [1].
    tokens_per_second : array_like, shape (...)
        Throughput of the instance over all users [tokens/s].

    Returns
    -------
    ndarray, shape (...)
        Energy [J].

    Notes
    -----
    Eq. (2) of Erdil (2025), with power instead of a price.

    Examples
    --------
    >>> float(joules_per_token(700.0, 8, 1400.0))
    4.0
    """
    return np.asarray(np.multiply(watts, accelerators) / tokens_per_second, dtype=float)


class Bill(NamedTuple):
    """Division of a total cost by kind of token; every field has the shape of the cost."""

    input: Array
    """Cost of prefilled prompt tokens [USD]."""
    cached_input: Array
    """Cost of cached prompt tokens [USD]."""
    output: Array
    """Cost of output tokens [USD]."""


def allocate(
    bill: npt.ArrayLike, input_seconds: npt.ArrayLike, cached_seconds: npt.ArrayLike, output_seconds: npt.ArrayLike
) -> Bill:
    """Divide a total cost between input, cached input and output tokens, in proportion to accelerator time.

    Parameters
    ----------
    bill : array_like, shape (...)
        Total cost [USD].
    input_seconds, cached_seconds, output_seconds : array_like, shape (...)
        Accelerator time of prefill, of loading and attending to cached prompts, and of decoding [s].

    Returns
    -------
    Bill
        Three parts that add up to the cost [USD].

    Raises
    ------
    InputError
        If all times are zero.

    Notes
    -----
    Cost is proportional to accelerator time, as in eq. (2) of Erdil (2025).

    Examples
    --------
    >>> [float(part) for part in allocate(10.0, 1.0, 0.0, 3.0)]
    [2.5, 0.0, 7.5]
    """
    seconds = np.stack(np.broadcast_arrays(input_seconds, cached_seconds, output_seconds))
    spent = seconds.sum(axis=0)
    if not (spent > 0.0).all():
        raise InputError("a bill cannot be divided where no time was spent; give the seconds of at least one phase")
    return Bill(*(np.asarray(bill * part / spent, dtype=float) for part in seconds))


def _known(
    name: str, values: npt.ArrayLike, *, least: float = 0.0, above: float | None = None, most: float = np.inf
) -> Array:
    """Convert values to an array; reject values that are not finite or not within limits.

    Values must be above ``above``, and from ``least`` to ``most``.
    """
    numbers = np.asarray(values, dtype=float)
    good = np.isfinite(numbers) & (numbers >= least) & (numbers <= most)
    if above is not None:
        good &= numbers > above
    if not good.all():
        low = f">= {least:g}" if above is None else f"> {above:g}"
        high = "" if most == np.inf else f" and <= {most:g}"
        raise InputError(f"{name} must be a number {low}{high}, got {numbers[~good].flat[0]:g}")
    return numbers
