"""Queueing model of a continuous-batching server: occupancy and waiting times.

With n concurrent requests, the server completes mu(n) requests per second. At most ``slots`` requests run concurrently,
because the KV cache or the maximum batch limits their number. Additional requests wait in a queue, first come, first
served.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.errors import InputError

ArrayLike = npt.ArrayLike

#: Sum of the squared coefficients of variation of arrivals and work below which a stream is treated as deterministic
#: [1].
_REGULAR = 1e-6
#: Negative logarithm of a number that is smaller than all positive floating-point numbers [1].
_UNDERFLOW = 800.0


class Load(NamedTuple):
    """State of a server under a steady stream of requests; every field has the shape (...) of the arrival rates."""

    probabilities: Array
    """Share of time with 0, 1, .. slots concurrent requests, shape (..., slots + 1) [1].

    The last entry includes the time in which requests wait. Under Poisson arrivals, this is also the distribution at
    the arrival of a request (PASTA: Wolff, 1982).
    """
    work: Array
    """Share of all output that is generated with 1, 2, .. slots concurrent requests, shape (..., slots) [1].

    The shares are also the shares of output tokens by batch size. Step times, weighted with these shares, give the
    distribution of the time between two tokens.
    """
    offered: Array
    """Arrival rate divided by the completion rate with all slots occupied [1]; the server is saturated at 1 or more."""
    busy: Array
    """Share of time with at least one running request [1]."""
    in_flight: Array
    """Mean number of running requests, without waiting requests [1]."""
    waiting: Array
    """Probability that an arriving request waits [1]."""
    wait_seconds: Array
    """Mean wait of all requests, including requests that do not wait [s]; ``inf`` if saturated."""
    wait_scale: Array
    """Mean wait of requests that wait, whose waits are exponentially distributed [s]; ``inf`` if saturated."""
    service_seconds: Array
    """Mean run time of a request, from Little's law [s]."""
    saturated: npt.NDArray[np.bool_]
    """True if requests arrive at least as fast as the server can complete them.

    The queue then grows without bound, and the other fields are limits for an infinite queue.
    """


def load(
    arrivals_per_second: ArrayLike,
    completions_per_second: ArrayLike,
    *,
    arrival_scv: ArrayLike = 1.0,
    service_scv: ArrayLike = 1.0,
    bunching: ArrayLike = 0.0,
) -> Load:
    """Compute the occupancy of a server and the waits of its requests from its completion rates.

    Parameters
    ----------
    arrivals_per_second : array_like, shape (...)
        Mean arrival rate of requests [1/s].
    completions_per_second : array_like, shape (..., slots)
        Mean completion rate with 1, 2, .. slots concurrent requests [1/s].
    arrival_scv : array_like, shape (...)
        Squared coefficient of variation ca2 of interarrival times [1]; 1 for Poisson arrivals, more for bursts.
    service_scv : array_like, shape (...)
        Squared coefficient of variation cs2 of the work of a request [1]; 1 if exponentially distributed, 0 if
        constant.
    bunching : array_like, shape (...)
        Addition to ca2 for the occupancy of slots, but not for waits [1]. This term describes arrivals in small groups,
        which are not burstier over long times.

    Returns
    -------
    Load
        Shares of time [1], numbers of requests [1], and waits [s].

    Raises
    ------
    InputError
        If a rate or variation is negative or not finite, or a completion rate is zero.

    Notes
    -----
    Under Poisson arrivals and without waiting requests, the server is a generalized processor-sharing queue, p(n) ~
    prod_k lambda / mu(k). The product form is valid for any distribution of lengths: Cohen (1979), Kelly (1979). Above
    ``slots`` requests, consecutive probabilities have the ratio lambda / mu(slots), which is exact for exponential
    lengths. If a request waits, the wait is exponentially distributed with mean 1 / (mu(slots) - lambda). Varying
    lengths and burstier arrivals multiply the mean wait by (ca2 + cs2) / 2: Kingman (1961), and Allen and Cunneen in
    Allen (1990).

    Bursty arrivals also occupy more slots at once. Under bursty arrivals, the products are raised to the power (1 +
    cs2) / (ca2 + cs2). The share of idle time is set so that the completion rate equals the arrival rate. If the
    completion rate does not depend on n, the result is the heavy-traffic limit of Zhang, Dai and Zwart (2011). If each
    slot has a constant speed, the number of running requests has the peakedness (ca2 + cs2) / (1 + cs2). This
    peakedness is correct for exponential and for constant lengths. For other lengths, this peakedness is an
    approximation.

    Examples
    --------
    An M/M/1 queue (one slot) at 80 % utilization. A request waits for four service times on average.

    >>> found = load(0.8, [1.0])
    >>> round(float(found.wait_seconds), 9), round(float(found.waiting), 9)
    (4.0, 0.8)

    Four slots, each of which completes one request per second. The arrival rates are 3 and 5 requests per second.

    >>> found = load([3.0, 5.0], np.arange(1.0, 5.0))
    >>> found.in_flight.round(9), found.saturated
    (array([3., 4.]), array([False,  True]))
    """
    arrivals = _checked("arrivals_per_second", arrivals_per_second, least=0.0)
    rates = _checked("completions_per_second", completions_per_second, least=0.0, open_=True)
    if rates.ndim == 0 or rates.shape[-1] == 0:
        raise InputError("completions_per_second must be a list: one rate for each number of concurrent requests")
    lengths = _checked("service_scv", service_scv, least=0.0)
    variation = np.maximum(_checked("arrival_scv", arrival_scv, least=0.0) + lengths, _REGULAR)
    power = (1.0 + lengths) / (variation + _checked("bunching", bunching, least=0.0))
    shape = np.broadcast_shapes(arrivals.shape, power.shape, rates.shape[:-1])
    arrivals, variation, power = (np.broadcast_to(v, shape) for v in (arrivals, variation, power))
    rates = np.broadcast_to(rates, (*shape, rates.shape[-1]))
    saturated = arrivals >= rates[..., -1]
    weights = _log_weights(arrivals, rates, power)
    seen = _weighed(weights)
    idle, full = (seen[..., place] / seen.sum(axis=-1) for place in (0, -1))
    # The weights are reused unless the server is mostly idle, because exponentials are slow to compute.
    busy = seen[..., 1:] if (seen[..., 0] < 1.0).all() else _weighed(weights[..., 1:])
    busy = busy / busy.sum(axis=-1, keepdims=True)
    if saturated.any():
        busy = np.where(saturated[..., None], np.arange(rates.shape[-1]) == rates.shape[-1] - 1, busy)
    rate = (busy * rates).sum(axis=-1)
    # Idle time is set so that completions equal arrivals. For Poisson arrivals, the product form already does this.
    share = np.where(power == 1.0, 1.0 - idle, np.minimum(arrivals / rate, 1.0))
    share = np.where(saturated, 1.0, share)
    in_flight = (busy * np.arange(1.0, rates.shape[-1] + 1.0)).sum(axis=-1)
    waiting = np.where(saturated, 1.0, full)
    scale = variation / 2.0 / np.where(saturated, 1.0, rates[..., -1] - arrivals)
    return Load(
        probabilities=np.concatenate(((1.0 - share)[..., None], share[..., None] * busy), axis=-1),
        work=busy * rates / rate[..., None],
        offered=arrivals / rates[..., -1],
        busy=share,
        in_flight=share * in_flight,
        waiting=waiting,
        wait_seconds=np.where(saturated, np.inf, waiting * scale),
        wait_scale=np.where(saturated, np.inf, scale),
        service_seconds=in_flight / rate,
        saturated=saturated,
    )


def reached(arrivals_per_second: float, rates: Array, variation: float) -> int:
    """Number of concurrent requests that a server practically never exceeds [1].

    Parameters
    ----------
    arrivals_per_second : float
        Mean arrival rate of requests [1/s].
    rates : ndarray, shape (slots,)
        Mean completion rates with 1, 2, .. slots concurrent requests, which never decrease [1/s].
    variation : float
        Sum of ``arrival_scv``, ``service_scv`` and ``bunching`` of :func:`load` [1].

    Returns
    -------
    int
        Number of slots with which :func:`load` has the same results as with all slots, except ``offered`` and the waits
        for a slot [1].

    Notes
    -----
    Above n requests, each weight of the product form is at most the previous weight times a power of lambda / mu(n).
    Weights below the smallest positive floating-point number are omitted.

    Examples
    --------
    >>> reached(3.0, np.arange(1.0, 100_001.0), 2.0), reached(3.0, np.arange(1.0, 4.0), 2.0)
    (562, 3)
    """
    first = int(np.searchsorted(rates, arrivals_per_second, "right"))
    places = first + 2 ** np.arange(64 - 1)
    places = places[places < rates.size]
    if not places.size:
        return rates.size
    ratios = np.log(rates[places] / arrivals_per_second)
    # The power is at least 1 / variation. Unequal completion rates change weights by at most a power of their ratio.
    needed = (_UNDERFLOW + np.log(rates[-1] / arrivals_per_second)) * max(variation, 1.0) / np.maximum(ratios, 1e-9)
    return int(min(rates.size, np.min(places + 2.0 + np.ceil(needed))))


def _log_weights(arrivals: Array, rates: Array, power: Array) -> Array:
    """Logarithms of product-form weights for 0, 1, .. slots requests; the last weight includes waiting requests."""
    logs = np.log(rates)
    steps = power[..., None] * (np.log(np.maximum(arrivals, np.finfo(float).tiny))[..., None] - logs)
    # If completion rates grow with n, the power alone would increase the mean of n. The term ``tilt`` restores the
    # mean.
    tilt = (1.0 - power[..., None]) / 2.0 * (logs - logs[..., :1])
    weights = np.cumsum(steps, axis=-1) - tilt
    # 1 + r + r^2 + .. = 1 / (1 - r), if the sum converges.
    weights[..., -1] -= np.log(-np.expm1(np.where(steps[..., -1] < 0.0, steps[..., -1], -1.0)))
    return np.concatenate((np.zeros((*arrivals.shape, 1)), weights), axis=-1)


def _weighed(weights: Array) -> Array:
    """Weights from their logarithms, scaled so that the largest weight is 1."""
    return np.asarray(np.exp(weights - weights.max(axis=-1, keepdims=True)))


def split_scv(scv: ArrayLike, instances: ArrayLike) -> Array:
    """Burstiness of the arrivals at one of several instances, if requests are assigned to instances randomly.

    Parameters
    ----------
    scv : array_like, shape (...)
        Squared coefficient of variation c2 of interarrival times in the full stream [1].
    instances : array_like, shape (...)
        Number n of instances that receive equal parts of the stream [1]. The value 1 / n reverses the split: ``scv``
        then belongs to a part, and the result to the full stream.

    Returns
    -------
    ndarray, shape (...)
        1 + (c2 - 1) / n [1]; for many instances, each part is nearly a Poisson process.

    Notes
    -----
    The result is exact for renewal processes if each arrival goes to an instance with probability 1 / n, independently
    of other arrivals. The formula is the splitting rule of Whitt (1983).

    Examples
    --------
    >>> split_scv(10.0, [1.0, 3.0, 90.0])
    array([10. ,  4. ,  1.1])
    """
    whole, parts = (np.asarray(values, dtype=float) for values in (scv, instances))
    return np.asarray(np.maximum(1.0 + (whole - 1.0) / parts, 0.0))


def wait_quantiles(queue: Load, shares: ArrayLike = (0.5, 0.9, 0.99)) -> Array:
    """Quantiles of the time that requests wait for a slot [s].

    Parameters
    ----------
    queue : Load
        State of the server from :func:`load`, shape (...) [1].
    shares : array_like, shape (k,)
        Shares q of the requests, at least 0 and below 1 [1].

    Returns
    -------
    ndarray, shape (..., k)
        Waits, max(0, ln(P / (1 - q))) times ``queue.wait_scale`` [s]; ``inf`` if saturated.

    Raises
    ------
    InputError
        If a share is not from 0 to below 1.

    Notes
    -----
    P(wait > t) = P exp(-t / ``wait_scale``), where P is the probability that a request waits. The exponential form is
    exact for exponentially distributed lengths. For other lengths, the exponential form is the heavy-traffic limit,
    Kingman (1961).

    Examples
    --------
    >>> wait_quantiles(load(0.8, [1.0]), [0.1, 0.5, 0.9]).round(3)
    array([ 0.   ,  2.35 , 10.397])
    """
    wanted = np.asarray(shares, dtype=float)
    if not ((wanted >= 0.0) & (wanted < 1.0)).all():
        raise InputError(f"the shares of quantiles must be from 0 to below 1, got {_listed(wanted)}")
    with np.errstate(divide="ignore", invalid="ignore"):
        lengths = np.maximum(np.log(queue.waiting[..., None] / (1.0 - wanted)), 0.0)
        waits = lengths * queue.wait_scale[..., None]
    return np.where(queue.saturated[..., None], np.inf, np.where(lengths > 0.0, waits, 0.0))


def mixture_quantiles(values: ArrayLike, weights: ArrayLike, shares: ArrayLike = (0.5, 0.9, 0.99)) -> Array:
    """Quantiles of a value that depends on the number of concurrent requests.

    Parameters
    ----------
    values : array_like, shape (n,)
        One value for each number of requests, for example the time of a step [s].
    weights : array_like, shape (..., n)
        Frequency of each value, for example :attr:`Load.work` [1]; the sum need not be 1.
    shares : array_like, shape (k,)
        Shares q of the weight, from 0 to 1 [1].

    Returns
    -------
    ndarray, shape (..., k)
        Quantiles, in the unit of the values, for example [s]: at least the share q of the weight is at or below the
        quantile.

    Raises
    ------
    InputError
        If weights are negative, are all zero or do not match the values, or if a share is not from 0 to 1.

    Notes
    -----
    The quantile is the inverse of the distribution function, definition 1 of Hyndman and Fan (1996). For step times,
    the quantile is over tokens. The mean step time over the life of a request varies less. For constant lengths and
    without waits, this mean has two thirds of the variance, because the concurrency hardly changes from step to step.

    Examples
    --------
    >>> mixture_quantiles([10.0, 20.0, 30.0], [0.5, 0.3, 0.2], [0.5, 0.8, 0.99])
    array([10., 20., 30.])
    """
    of, wanted = np.asarray(values, dtype=float), np.asarray(shares, dtype=float)
    mass = _checked("weights", weights, least=0.0)
    if of.ndim != 1 or mass.ndim == 0 or mass.shape[-1] != of.size:
        raise InputError(f"weights must have one entry per value ({of.size}) along the last axis, got {mass.shape}")
    if not ((wanted >= 0.0) & (wanted <= 1.0)).all():
        raise InputError(f"the shares of quantiles must be from 0 to 1, got {_listed(wanted)}")
    total = mass.sum(axis=-1, keepdims=True)
    if not (total > 0.0).all():
        raise InputError("weights must not all be zero")
    order = np.argsort(of, kind="stable")
    below = np.cumsum(mass[..., order] / total, axis=-1)
    # The tolerance is for rounding, which may lower a sum that should equal the share.
    reached = below[..., None, :] >= np.atleast_1d(wanted)[:, None] - 1e-12
    quantiles = of[order][np.argmax(reached, axis=-1)]
    return np.asarray(quantiles.reshape((*mass.shape[:-1], *wanted.shape)))


def _checked(name: str, values: ArrayLike, *, least: float, open_: bool = False) -> Array:
    """Convert values to an array; reject values that are not finite or below a limit."""
    numbers = np.asarray(values, dtype=float)
    good = np.isfinite(numbers) & ((numbers > least) if open_ else (numbers >= least))
    if not good.all():
        raise InputError(f"{name} must be finite and {'>' if open_ else '>='} {least:g}, got {_listed(numbers[~good])}")
    return numbers


def _listed(numbers: Array) -> str:
    first = [f"{number:g}" for number in numbers.ravel()[:3]]
    return ", ".join(first) + (", .." if numbers.size > 3 else "")
