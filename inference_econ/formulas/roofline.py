"""Rooflines, and the toy models of sections 2.1 and 2.2 with their closed forms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array

ArrayLike = npt.ArrayLike


def single_device_latency(
    parameters: ArrayLike,
    batch: ArrayLike,
    bytes_per_parameter: float,
    bytes_per_second: float,
    flops_per_second: float,
) -> Array:
    """Seconds per token on one device: weight reads or arithmetic, whichever is longer.

    Parameters
    ----------
    parameters : array_like, shape (...)
        Parameters of a dense model [1].
    batch : array_like, shape (...)
        Requests decoded together [1].
    bytes_per_parameter : float
        Stored width of a weight [B].
    bytes_per_second : float
        Memory bandwidth [B/s].
    flops_per_second : float
        Arithmetic rate [FLOP/s].

    Returns
    -------
    ndarray, shape (...)
        Latency of a step [s].

    Notes
    -----
    Eq. (1) of Erdil (2025). Valid for short contexts, where the KV cache is negligible.

    Examples
    --------
    >>> float(single_device_latency(8e9, 1, 2, 3.3e12, 1e15).round(5))
    0.00485
    """
    reads = np.multiply(parameters, bytes_per_parameter) / bytes_per_second
    arithmetic = 2.0 * np.multiply(parameters, batch) / flops_per_second
    return np.maximum(reads, arithmetic)


def attainable(flop_per_byte: ArrayLike, bytes_per_second: float, flops_per_second: float) -> Array:
    """Return the rate of a chip at an arithmetic intensity: its bandwidth's worth of arithmetic, or its peak.

    Parameters
    ----------
    flop_per_byte : array_like, shape (...)
        Arithmetic over memory traffic [FLOP/B].
    bytes_per_second : float
        Memory bandwidth [B/s].
    flops_per_second : float
        Arithmetic rate [FLOP/s].

    Returns
    -------
    ndarray, shape (...)
        [FLOP/s]

    Notes
    -----
    Williams, Waterman and Patterson (2009), for one memory and one kind of arithmetic.

    Examples
    --------
    >>> attainable([100, 500], 3e12, 1e15).tolist()
    [300000000000000.0, 1000000000000000.0]
    """
    return np.minimum(np.multiply(flop_per_byte, bytes_per_second), flops_per_second)


def critical_batch(
    bytes_per_parameter: float, bytes_per_second: float, flops_per_second: float, sparsity: float = 1.0
) -> float:
    """Batch at which weight reads and arithmetic take equally long.

    Parameters
    ----------
    bytes_per_parameter : float
        Stored width of a weight [B].
    bytes_per_second : float
        Memory bandwidth [B/s].
    flops_per_second : float
        Arithmetic rate [FLOP/s].
    sparsity : float
        Experts over those that a token visits, 1 for a dense model [1].

    Returns
    -------
    float
        Requests [1].

    Notes
    -----
    b* = s p C / (2 B): the text below eq. (2) of Erdil (2025) for s = 1. With experts each of them gets b / s tokens
    of a batch, so that its weights are read for as many. Valid for weights alone: activations that are moved make it
    larger, and attention has no such batch, since every request reads a cache of its own.

    Examples
    --------
    >>> round(critical_batch(2, 3.35e12, 989.4e12)), round(critical_batch(1, 3.35e12, 1978.9e12, sparsity=256 / 8))
    (295, 9451)
    """
    return sparsity * bytes_per_parameter * flops_per_second / (2.0 * bytes_per_second)


class ToyNetwork(NamedTuple):
    """All-reduces of the toy model, on a network of infinite bandwidth."""

    reductions: float = 4.0
    """All-reduces per layer [1]: 4, or 2 with parallel attention."""
    hop_seconds: float = 1e-6
    """Time between neighbours [s]."""
    base_seconds: float = 0.0
    """Further time of every reduction [s]: 0 in eq. (5), 6 us in the published code."""


#: As the study has it.
_STUDY = ToyNetwork()


def toy_latency(
    parameters: ArrayLike,
    layers: ArrayLike,
    accelerators: ArrayLike,
    batch: ArrayLike,
    *,
    bytes_per_parameter: float,
    bytes_per_second: float,
    flops_per_second: float,
    network: ToyNetwork = _STUDY,
) -> Array:
    """Seconds per token of a tensor-parallel instance on a network of infinite bandwidth.

    Parameters
    ----------
    parameters, layers : array_like, shape (...)
        Parameters [1] and layers [1] of a dense model.
    accelerators : array_like, shape (...)
        Instance size N [1], fractions allowed; below 1 the network is free.
    batch : array_like, shape (...)
        Requests decoded together [1].
    bytes_per_parameter : float
        Stored width of a weight [B].
    bytes_per_second, flops_per_second : float
        Memory bandwidth [B/s] and arithmetic rate [FLOP/s] of one accelerator.
    network : ToyNetwork
        All-reduces per layer [1] and what each takes [s].

    Returns
    -------
    ndarray, shape (...)
        Latency of a step [s].

    Notes
    -----
    Eqs. (3), (5) and (8) of Erdil (2025); an all-reduce crosses 2 (sqrt(N) - 1) hops.
    """
    size = np.asarray(accelerators, dtype=float)
    reduction = 2.0 * network.hop_seconds * np.maximum(np.sqrt(size) - 1.0, 0.0) + network.base_seconds
    device = single_device_latency(parameters, batch, bytes_per_parameter, bytes_per_second, flops_per_second)
    return np.asarray(np.multiply(layers, network.reductions) * reduction + device / size)


class ToyOptimum(NamedTuple):
    """The instance size that decodes fastest, and its speed."""

    accelerators: Array
    """[1]"""
    seconds: Array
    """[s]"""


def toy_minimum_latency(
    parameters: ArrayLike,
    layers: ArrayLike,
    *,
    bytes_per_parameter: float,
    bytes_per_second: float,
    reductions: float = 4.0,
    hop_seconds: float = 1e-6,
) -> ToyOptimum:
    """Smallest latency of :func:`toy_latency` over the instance size, in closed form.

    Parameters
    ----------
    parameters, layers : array_like, shape (...)
        Parameters [1] (all experts included) and layers [1].
    bytes_per_parameter : float
        Stored width of a weight [B].
    bytes_per_second : float
        Memory bandwidth of one accelerator [B/s].
    reductions : float
        All-reduces per layer [1].
    hop_seconds : float
        Time between neighbours [s].

    Returns
    -------
    ToyOptimum
        Instance size [1] and latency [s], each of shape (...).

    Notes
    -----
    Eqs. (13) and (14) of Erdil (2025); valid at or below the critical batch.

    Examples
    --------
    >>> best = toy_minimum_latency(70.55e9, 80, bytes_per_parameter=2, bytes_per_second=3.3e12)
    >>> round(1 / float(best.seconds)), round(float(best.accelerators))
    (234, 26)
    """
    read = np.multiply(parameters, bytes_per_parameter) / bytes_per_second
    hops = np.multiply(layers, reductions) * hop_seconds
    size = np.maximum(read / hops, 1.0) ** (2.0 / 3.0)
    spread = 3.0 * hops ** (2.0 / 3.0) * read ** (1.0 / 3.0) - 2.0 * hops
    return ToyOptimum(size, np.where(size > 1.0, spread, read))


def toy_asymptotic_latency(
    parameters: ArrayLike,
    layers: ArrayLike,
    *,
    bytes_per_parameter: float,
    bytes_per_second: float,
    reductions: float = 4.0,
    hop_seconds: float = 1e-6,
) -> Array:
    """Smallest latency of :func:`toy_latency` where the best instance is large, in closed form.

    Parameters
    ----------
    parameters, layers : array_like, shape (...)
        Parameters [1] (all experts included) and layers [1].
    bytes_per_parameter : float
        Stored width of a weight [B].
    bytes_per_second : float
        Memory bandwidth of one accelerator [B/s].
    reductions : float
        All-reduces per layer [1].
    hop_seconds : float
        Time between neighbours [s].

    Returns
    -------
    ndarray, shape (...)
        Latency [s].

    Notes
    -----
    Eq. (18) of Erdil (2025): eq. (14) without the hop that a ring saves, 2 L R T_h. It is too long by a share of
    2 / (3 sqrt(N*) - 2): 15 % for an instance of 26.

    Examples
    --------
    >>> round(1 / float(toy_asymptotic_latency(70.55e9, 80, bytes_per_parameter=2, bytes_per_second=3.3e12)))
    204
    """
    read = np.multiply(parameters, bytes_per_parameter) / bytes_per_second
    hops = np.multiply(layers, reductions) * hop_seconds
    return np.asarray(3.0 * hops ** (2.0 / 3.0) * read ** (1.0 / 3.0))


def square_root_law(parameters: ArrayLike, reference_parameters: float, reference_seconds: float) -> Array:
    """Latency of a dense model by the rule that it grows with the root of the parameter count.

    Parameters
    ----------
    parameters : array_like, shape (...)
        Parameters [1].
    reference_parameters : float
        Parameters of a model whose latency is known [1].
    reference_seconds : float
        Its latency [s].

    Returns
    -------
    ndarray, shape (...)
        Latency [s].

    Notes
    -----
    Eq. (19) of Erdil (2025): valid where depth grows as the fourth root of the parameter count.

    Examples
    --------
    >>> float(square_root_law(540e9, 8e9, 0.004).round(4))
    0.0329
    """
    return reference_seconds * np.sqrt(np.divide(parameters, reference_parameters))
