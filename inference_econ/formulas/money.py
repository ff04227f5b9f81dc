"""From seconds to dollars: what an hour of a chip costs, what tokens cost, and what a buyer would pick."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.errors import InputError

_HOURS_PER_YEAR = 8760.0
_JOULES_PER_KWH = 3.6e6


def dollars_per_million_tokens(
    accelerators: npt.ArrayLike,
    seconds_per_token: npt.ArrayLike,
    batch: npt.ArrayLike,
    dollars_per_accelerator_hour: float,
) -> Array:
    """Cost of a million output tokens on an instance that is always full.

    Parameters
    ----------
    accelerators : array_like, shape (...)
        Instance size [1].
    seconds_per_token : array_like, shape (...)
        Time between two tokens of one user [s].
    batch : array_like, shape (...)
        Users served together [1].
    dollars_per_accelerator_hour : float
        Price [USD/h].

    Returns
    -------
    ndarray, shape (...)
        [USD per 1e6 tokens].

    Notes
    -----
    Eq. (2) of Erdil (2025) times the price; the operations are ordered as in the published code.

    Examples
    --------
    >>> round(float(dollars_per_million_tokens(8, 0.01, 100, 2.1)), 4)
    0.4667
    """
    seconds = np.multiply(accelerators, seconds_per_token) / batch
    return np.asarray(seconds * (dollars_per_accelerator_hour / 3600.0) * 1e6, dtype=float)


def preference(tokens_per_second: npt.ArrayLike, dollars_per_million: npt.ArrayLike, exponent: float) -> Array:
    """What a buyer maximises whose value of a token grows as a power of its speed.

    Parameters
    ----------
    tokens_per_second : array_like, shape (...)
        Speed of one user [tokens/s].
    dollars_per_million : array_like, shape (...)
        Cost [USD per 1e6 tokens].
    exponent : float
        The power [1]; 3 in the tables of the study.

    Returns
    -------
    ndarray, shape (...)
        speed^a / cost, in arbitrary units [1].

    Notes
    -----
    Eq. (45) of Erdil (2025).
    """
    speed, cost = np.asarray(tokens_per_second, dtype=float), np.asarray(dollars_per_million, dtype=float)
    return np.asarray(speed**exponent / cost)


class HourCost(NamedTuple):
    """What an hour in use of one accelerator costs, by cause; every field has the shape of the inputs [USD/h]."""

    depreciation: Array
    """The purchase price over the hours in use of its lifetime."""
    capital: Array
    """Interest on what is not yet written off."""
    operations: Array
    """Staff, space, repairs: a share of the purchase price every year."""
    accelerator_energy: Array
    """Electricity of the accelerator and its cooling."""
    host_energy: Array
    """Electricity of its share of the host and network, idle hours included, and their cooling."""

    @property
    def total(self) -> Array:
        """The sum of the parts [USD/h]."""
        return np.asarray(sum(self[1:], start=self[0]))


def accelerator_hour_cost(
    purchase_dollars: npt.ArrayLike,
    lifetime_years: npt.ArrayLike,
    *,
    utilisation: npt.ArrayLike = 1.0,
    board_watts: npt.ArrayLike = 0.0,
    host_watts: npt.ArrayLike = 0.0,
    pue: npt.ArrayLike = 1.0,
    dollars_per_kwh: npt.ArrayLike = 0.0,
    yearly_operations: npt.ArrayLike = 0.0,
    cost_of_capital: npt.ArrayLike = 0.0,
) -> HourCost:
    """Cost of an hour in which one owned accelerator does paid work.

    Parameters
    ----------
    purchase_dollars : array_like, shape (...)
        Price of one accelerator with its share of host and network [USD].
    lifetime_years : array_like, shape (...)
        Until it is worth nothing [years].
    utilisation : array_like, shape (...)
        Share of all hours in which it works, above 0 to 1 [1].
    board_watts : array_like, shape (...)
        Power of the accelerator at work; idle it is taken to draw none [W].
    host_watts : array_like, shape (...)
        Power of its share of the host and network, drawn at all hours [W].
    pue : array_like, shape (...)
        Power of the whole building over that of the computers, at least 1 [1].
    dollars_per_kwh : array_like, shape (...)
        Price of electricity [USD per kWh].
    yearly_operations : array_like, shape (...)
        Yearly cost of running it as a share of the purchase price [1].
    cost_of_capital : array_like, shape (...)
        Yearly interest [1].

    Returns
    -------
    HourCost
        The parts [USD/h]; their sum is ``total``.

    Raises
    ------
    InputError
        If a value is negative or no finite number, the lifetime or the utilisation is zero, the utilisation is above
        1, or the PUE below 1.

    Notes
    -----
    Equal yearly payments of an annuity, P r / (1 - (1 + r)^-n), of which P / n is depreciation and the rest capital.
    The build-up follows the chapter on costs of Barroso, Hoelzle and Ranganathan (2018).

    Examples
    --------
    A chip for 40,000 dollars over five years, in use four hours of five:

    >>> cost = accelerator_hour_cost(40e3, 5, utilisation=0.8, board_watts=700, host_watts=500, pue=1.25,
    ...     dollars_per_kwh=0.08, yearly_operations=0.05, cost_of_capital=0.08)
    >>> [round(float(part), 3) for part in cost], round(float(cost.total), 3)
    ([1.142, 0.288, 0.285, 0.07, 0.062], 1.847)
    """
    price = _known("purchase_dollars", purchase_dollars)
    years = _known("lifetime_years", lifetime_years, above=0.0)
    share = _known("utilisation", utilisation, above=0.0, most=1.0)
    rate = _known("cost_of_capital", cost_of_capital)
    hours = _HOURS_PER_YEAR * share
    # Power bought for an hour of clock, then per hour of work.
    dollars_per_watt = _known("pue", pue, least=1.0) * _known("dollars_per_kwh", dollars_per_kwh) / 1e3
    depreciation = price / years / hours
    parts = (
        depreciation,
        depreciation * (_annuity(rate, years) * years - 1.0),
        price * _known("yearly_operations", yearly_operations) / hours,
        _known("board_watts", board_watts) * dollars_per_watt,
        _known("host_watts", host_watts) * dollars_per_watt / share,
    )
    return HourCost(*(np.asarray(part, dtype=float) for part in np.broadcast_arrays(*parts)))


def _annuity(rate: Array, years: Array) -> Array:
    """Yearly payment for one dollar of debt; 1 / years without interest."""
    with np.errstate(divide="ignore", invalid="ignore"):
        payment = rate / -np.expm1(-years * np.log1p(rate))
    return np.where(rate > 0.0, payment, 1.0 / years)


def joules_per_token(
    watts: npt.ArrayLike,
    accelerators: npt.ArrayLike,
    seconds_per_token: npt.ArrayLike,
    batch: npt.ArrayLike,
    pue: npt.ArrayLike = 1.0,
) -> Array:
    """Energy of one token on an instance that is always full.

    Parameters
    ----------
    watts : array_like, shape (...)
        Power of one accelerator with its share of the host [W].
    accelerators : array_like, shape (...)
        Instance size [1].
    seconds_per_token : array_like, shape (...)
        Time between two tokens of one user [s].
    batch : array_like, shape (...)
        Users served together [1].
    pue : array_like, shape (...)
        Power of the whole building over that of the computers [1].

    Returns
    -------
    ndarray, shape (...)
        [J].

    Notes
    -----
    Eq. (2) of Erdil (2025) with power in the place of a price.

    Examples
    --------
    >>> float(joules_per_token(1000.0, 8, 0.02, 64, pue=1.25))
    3.125
    """
    seconds = np.multiply(accelerators, seconds_per_token) / batch
    return np.asarray(seconds * np.multiply(watts, pue), dtype=float)


def energy_dollars_per_million_tokens(joules: npt.ArrayLike, dollars_per_kwh: npt.ArrayLike) -> Array:
    """Price of the energy of a million tokens.

    Parameters
    ----------
    joules : array_like, shape (...)
        Energy of one token, from :func:`joules_per_token` [J].
    dollars_per_kwh : array_like, shape (...)
        Price of electricity [USD per kWh].

    Returns
    -------
    ndarray, shape (...)
        [USD per 1e6 tokens].

    Notes
    -----
    Energy times price, as in the chapter on costs of Barroso, Hoelzle and Ranganathan (2018).

    Examples
    --------
    >>> round(float(energy_dollars_per_million_tokens(3.6, 0.1)), 9)
    0.1
    """
    return np.asarray(np.multiply(joules, dollars_per_kwh) / _JOULES_PER_KWH * 1e6, dtype=float)


class Bill(NamedTuple):
    """A bill by the kind of token; every field has the shape of the bill."""

    input: Array
    """For prompt tokens that were computed [USD]."""
    cached_input: Array
    """For prompt tokens that were found in the cache [USD]."""
    output: Array
    """For generated tokens [USD]."""


def allocate(
    bill: npt.ArrayLike, input_seconds: npt.ArrayLike, cached_seconds: npt.ArrayLike, output_seconds: npt.ArrayLike
) -> Bill:
    """Divide a bill over the kinds of tokens by the time that the accelerators spent on each.

    Parameters
    ----------
    bill : array_like, shape (...)
        What all of it costs [USD].
    input_seconds, cached_seconds, output_seconds : array_like, shape (...)
        Accelerator-seconds of prefill, of loading and attending to cached prompts, and of decoding [s].

    Returns
    -------
    Bill
        Three parts that add up to the bill exactly, in any order [USD].

    Raises
    ------
    InputError
        If a value is negative or no finite number, or no time was spent at all.

    Notes
    -----
    Shares in proportion to time, as in eq. (2) of Erdil (2025). Parts are whole multiples of the spacing of
    floating-point numbers at the bill, so that no rounding is left over.

    Examples
    --------
    >>> [float(part) for part in allocate(10.0, 1.0, 0.0, 3.0)]
    [2.5, 0.0, 7.5]
    """
    total = _known("bill", bill)
    seconds = np.stack(
        np.broadcast_arrays(
            _known("input_seconds", input_seconds),
            _known("cached_seconds", cached_seconds),
            _known("output_seconds", output_seconds),
        )
    )
    spent = seconds.sum(axis=0)
    if not (spent > 0.0).all():
        raise InputError("a bill cannot be divided where no time was spent; give the seconds of at least one phase")
    total, seconds = np.broadcast_to(total, np.broadcast_shapes(total.shape, spent.shape)), seconds / spent
    step = np.spacing(total)
    parts = np.floor(seconds * total / step) * step
    # The largest part takes what rounding left; it is at least a third of the bill.
    largest = np.argmax(parts, axis=0)[None]
    rest = total - (parts.sum(axis=0) - np.take_along_axis(parts, largest, axis=0)[0])
    np.put_along_axis(parts, largest, rest[None], axis=0)
    return Bill(*parts)


def break_even_tokens_per_hour(dollars_per_hour: npt.ArrayLike, price_per_million: npt.ArrayLike) -> Array:
    """Tokens per hour that pay for an instance.

    Parameters
    ----------
    dollars_per_hour : array_like, shape (...)
        Cost of the whole instance [USD/h].
    price_per_million : array_like, shape (...)
        What a customer pays [USD per 1e6 tokens].

    Returns
    -------
    ndarray, shape (...)
        [tokens/h].

    Raises
    ------
    InputError
        If the price is zero or negative.

    Notes
    -----
    Income equals cost: eq. (2) of Erdil (2025) solved for the throughput.

    Examples
    --------
    >>> float(break_even_tokens_per_hour(16.0, 2.0))
    8000000.0
    """
    return np.asarray(np.divide(dollars_per_hour, _known("price_per_million", price_per_million, above=0.0)) * 1e6)


def break_even_utilisation(cost_per_million: npt.ArrayLike, price_per_million: npt.ArrayLike) -> Array:
    """Share of the hours that must be sold for a price to pay.

    Parameters
    ----------
    cost_per_million : array_like, shape (...)
        Cost of tokens on an instance that is always full [USD per 1e6 tokens].
    price_per_million : array_like, shape (...)
        What a customer pays [USD per 1e6 tokens].

    Returns
    -------
    ndarray, shape (...)
        [1]; above 1 where the price pays at no utilisation.

    Raises
    ------
    InputError
        If the price is zero or negative.

    Notes
    -----
    The cost of eq. (2) of Erdil (2025) is spread over fewer tokens in proportion to the utilisation.

    Examples
    --------
    >>> float(break_even_utilisation(0.6, 2.4))
    0.25
    """
    return np.asarray(np.divide(cost_per_million, _known("price_per_million", price_per_million, above=0.0)))


def margin(cost_per_million: npt.ArrayLike, price_per_million: npt.ArrayLike) -> Array:
    """Share of the price that is left after the cost.

    Parameters
    ----------
    cost_per_million, price_per_million : array_like, shape (...)
        What tokens cost, and what a customer pays [USD per 1e6 tokens].

    Returns
    -------
    ndarray, shape (...)
        1 - cost / price [1]; negative at a loss.

    Raises
    ------
    InputError
        If the price is zero or negative.

    Notes
    -----
    The gross margin: one less :func:`break_even_utilisation`.

    Examples
    --------
    >>> float(margin(0.6, 2.4))
    0.75
    """
    return np.asarray(1.0 - break_even_utilisation(cost_per_million, price_per_million))


def _known(
    name: str, given: npt.ArrayLike, *, least: float = 0.0, above: float | None = None, most: float = np.inf
) -> Array:
    """An array of finite numbers within limits; ``above`` excludes the limit itself."""
    found = np.asarray(given, dtype=float)
    good = np.isfinite(found) & (found >= least) & (found <= most)
    if above is not None:
        good &= found > above
    if not good.all():
        low = f">= {least:g}" if above is None else f"> {above:g}"
        high = "" if most == np.inf else f" and <= {most:g}"
        raise InputError(f"{name} must be a number {low}{high}, got {found[~good].flat[0]:g}")
    return found
