"""Rooflines, and toy models of decoding from sections 2.1 and 2.2 of Erdil (2025) with exact optima."""

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
    """Time per token on one device: weight reads or arithmetic, whichever takes longer.

    Parameters
    ----------
    parameters : array_like, shape (...)
        Number of parameters of a dense model [1].
    batch : array_like, shape (...)
        Number of requests that are decoded together (batch) [1].
    bytes_per_parameter : float
        Size of a stored weight [B].
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
    Eq. (1) of Erdil (2025). The formula is valid for short contexts, for which the KV cache is negligible.

    Examples
    --------
    >>> float(single_device_latency(8e9, 1, 2, 3.3e12, 1e15).round(5))
    0.00485
    """
    reads = np.multiply(parameters, bytes_per_parameter) / bytes_per_second
    arithmetic = 2.0 * np.multiply(parameters, batch) / flops_per_second
    return np.maximum(reads, arithmetic)


def attainable(flop_per_byte: ArrayLike, bytes_per_second: float, flops_per_second: float) -> Array:
    """Arithmetic rate that a chip can reach at a given arithmetic intensity (roofline).

    Parameters
    ----------
    flop_per_byte : array_like, shape (...)
        Arithmetic divided by memory traffic [FLOP/B].
    bytes_per_second : float
        Memory bandwidth [B/s].
    flops_per_second : float
        Arithmetic rate [FLOP/s].

    Returns
    -------
    ndarray, shape (...)
        Rate [FLOP/s].

    Notes
    -----
    Williams, Waterman and Patterson (2009), for one memory and one kind of arithmetic.

    Examples
    --------
    >>> attainable([100, 500], 3e12, 1e15).tolist()
    [300000000000000.0, 1000000000000000.0]
    """
    return np.minimum(np.multiply(flop_per_byte, bytes_per_second), flops_per_second)


def product_intensity(rows: ArrayLike, inner: ArrayLike, columns: ArrayLike, bytes_per_element: float) -> Array:
    """Arithmetic intensity of a matrix product, if each matrix is moved once.

    Parameters
    ----------
    rows, inner, columns : array_like, shape (...)
        Sizes of the two matrices, rows x inner and inner x columns [1].
    bytes_per_element : float
        Size of an element in all three matrices [B].

    Returns
    -------
    ndarray, shape (...)
        Intensity [FLOP/B].

    Notes
    -----
    The intensity is 2 m k n / (p (m k + k n + m n)), or 2 / (p (1 / m + 1 / k + 1 / n)). The smallest of m, k and n
    dominates. Following Zhao (2026), the product of a prompt of n tokens and a d x d weight matrix has the intensity 2
    n d / (p (2 n + d)), up to d / p. Prefill is therefore compute-bound. In decode, n is the batch b, and the intensity
    is about 2 b / p. The product of one query and n keys has one row, so its intensity is below 2 / p at any context.
    The formula is valid for kernels that keep reused data on the chip.

    Examples
    --------
    A prompt of 4,096 tokens, decode of 1 and of 64 sequences, and a query over 100,000 keys, in 16 bits:

    >>> product_intensity([4096, 1, 64, 1], 8192, [8192, 8192, 8192, 100_000], 2.0).round().astype(int).tolist()
    [2048, 1, 63, 1]
    """
    sides = (1.0 / np.asarray(side, dtype=float) for side in (rows, inner, columns))
    return np.asarray(2.0 / (bytes_per_element * sum(sides)))


def critical_batch(
    bytes_per_parameter: float, bytes_per_second: float, flops_per_second: float, sparsity: float = 1.0
) -> float:
    """Batch at which weight reads and arithmetic take the same time.

    Parameters
    ----------
    bytes_per_parameter : float
        Size of a stored weight [B].
    bytes_per_second : float
        Memory bandwidth [B/s].
    flops_per_second : float
        Arithmetic rate [FLOP/s].
    sparsity : float
        Number of experts divided by the number of active experts [1]; 1 for a dense model.

    Returns
    -------
    float
        Number of requests [1].

    Notes
    -----
    The critical batch is b* = s p C / (2 B), from the text below eq. (2) of Erdil (2025) for s = 1. In an MoE model,
    each expert gets b / s tokens of a batch, and reads its weights once for these tokens. The formula includes only the
    traffic of weights. Activation traffic increases the critical batch. Attention has no critical batch, because every
    request reads its own cache.

    Examples
    --------
    >>> round(critical_batch(2, 3.35e12, 989.4e12)), round(critical_batch(1, 3.35e12, 1978.9e12, sparsity=256 / 8))
    (295, 9451)
    """
    return sparsity * bytes_per_parameter * flops_per_second / (2.0 * bytes_per_second)


class ToyNetwork(NamedTuple):
    """Number and latency of all-reduces in the toy model, whose network has infinite bandwidth."""

    reductions: float = 4.0
    """Number of all-reduces per layer [1]: 4, or 2 with parallel attention."""
    hop_seconds: float = 1e-6
    """Latency between neighbors [s]."""
    base_seconds: float = 0.0
    """Additional time of every all-reduce [s]: 0 in eq. (5), 6 us in the published code."""


class ToyModel(NamedTuple):
    """Dense model on an instance of equal accelerators in the toy model; arrays have the shape (...)."""

    parameters: ArrayLike
    """Number of parameters, including all experts [1]."""
    layers: ArrayLike
    """Number of layers [1]."""
    bytes_per_parameter: float
    """Size of a stored weight [B]."""
    bytes_per_second: float
    """Memory bandwidth of one accelerator [B/s]."""
    flops_per_second: float = np.inf
    """Arithmetic rate of one accelerator [FLOP/s]."""
    network: ToyNetwork = ToyNetwork()
    """Number of all-reduces per layer, and latency of an all-reduce; by default the network of the published study."""


def toy_latency(model: ToyModel, accelerators: ArrayLike, batch: ArrayLike) -> Array:
    """Time per token of a tensor-parallel instance on a network of infinite bandwidth.

    Parameters
    ----------
    model : ToyModel
        Sizes of the model [1], bandwidth [B/s] and arithmetic rate [FLOP/s] of one accelerator, and network [s].
    accelerators : array_like, shape (...)
        Number of accelerators N in the instance [1]; fractions are allowed. For N below 1, the network takes no time.
    batch : array_like, shape (...)
        Number of requests that are decoded together (batch) [1].

    Returns
    -------
    ndarray, shape (...)
        Latency of a step [s].

    Notes
    -----
    Eqs. (3), (5) and (8) of Erdil (2025). An all-reduce over N accelerators crosses 2 (sqrt(N) - 1) hops.
    """
    parameters, layers, *rates, network = model
    size = np.asarray(accelerators, dtype=float)
    reduction = 2.0 * network.hop_seconds * np.maximum(np.sqrt(size) - 1.0, 0.0) + network.base_seconds
    device = single_device_latency(parameters, batch, *rates)
    return np.asarray(np.multiply(layers, network.reductions) * reduction + device / size)


def toy_accelerator_seconds(model: ToyModel, accelerators: ArrayLike, batch: ArrayLike) -> Array:
    """Accelerator time per token, for the instance of :func:`toy_latency`.

    Parameters
    ----------
    model : ToyModel
        Sizes of the model [1], bandwidth [B/s] and arithmetic rate [FLOP/s] of one accelerator, and network [s].
    accelerators : array_like, shape (...)
        Number of accelerators N in the instance [1].
    batch : array_like, shape (...)
        Number of requests that are decoded together (batch) [1].

    Returns
    -------
    ndarray, shape (...)
        Accelerator-seconds per token [s].

    Notes
    -----
    Eq. (4) of Erdil (2025), N / b times the latency: (N / b) L R t + max(p P / (b B), 2 P / C). The cost of reads and
    arithmetic does not depend on the number of accelerators. The cost of the network grows with the number of
    accelerators.

    Examples
    --------
    >>> toy_accelerator_seconds(ToyModel(70.55e9, 80, 2.0, 3.3e12, 1e15), [1, 16], 64).round(5)
    array([0.00067, 0.00115])
    """
    return np.asarray(np.divide(accelerators, batch) * toy_latency(model, accelerators, batch))


def toy_critical_latency(model: ToyModel, accelerators: ArrayLike) -> Array:
    """Time per token in the toy model (:func:`toy_latency`) at batches up to the critical batch.

    Parameters
    ----------
    model : ToyModel
        Sizes of the model [1], bandwidth [B/s] and arithmetic rate [FLOP/s] of one accelerator, and network [s].
    accelerators : array_like, shape (...)
        Number of accelerators N in the instance [1].

    Returns
    -------
    ndarray, shape (...)
        Latency [s].

    Notes
    -----
    Eq. (9) of Erdil (2025). The latency is constant up to :func:`critical_batch`, because weight reads take longer than
    arithmetic at these batches.

    Examples
    --------
    >>> float(toy_critical_latency(ToyModel(70.55e9, 80, 2, 3.3e12), 26).round(5))
    0.00427
    """
    return toy_latency(model, accelerators, 0.0)


class ToyOptimum(NamedTuple):
    """Lowest latency of the toy model, and instance size with this latency."""

    accelerators: Array
    """Number of accelerators in the instance [1]."""
    seconds: Array
    """Latency [s]."""


def toy_minimum_latency(model: ToyModel) -> ToyOptimum:
    """Lowest time per token in the toy model (:func:`toy_latency`) over all instance sizes, from the exact solution.

    Parameters
    ----------
    model : ToyModel
        Sizes of the model [1], bandwidth of one accelerator [B/s], and network [s] without ``base_seconds``.

    Returns
    -------
    ToyOptimum
        Number of accelerators [1] and latency [s], each of shape (...).

    Notes
    -----
    Eqs. (13) and (14) of Erdil (2025), which are valid for batches up to the critical batch.

    Examples
    --------
    >>> best = toy_minimum_latency(ToyModel(70.55e9, 80, bytes_per_parameter=2, bytes_per_second=3.3e12))
    >>> round(1 / float(best.seconds)), round(float(best.accelerators))
    (234, 26)
    """
    read, hops = _read_and_hop_seconds(model)
    size = np.maximum(read / hops, 1.0) ** (2.0 / 3.0)
    spread = 3.0 * hops ** (2.0 / 3.0) * read ** (1.0 / 3.0) - 2.0 * hops
    return ToyOptimum(size, np.where(size > 1.0, spread, read))


def _read_and_hop_seconds(model: ToyModel) -> tuple[Array, Array]:
    """Time to read all weights on one accelerator, and time of one hop in all all-reduces of a token [s]."""
    read = np.multiply(model.parameters, model.bytes_per_parameter) / model.bytes_per_second
    return read, np.multiply(model.layers, model.network.reductions) * model.network.hop_seconds


class FastestCost(NamedTuple):
    """Cost of a token in the toy model at the lowest latency and at the critical batch [accelerator-seconds]."""

    exact: Array
    """Exact cost on the fastest instance: size N* divided by critical batch b*, times latency [s]."""
    by_reads: Array
    """Limit of the cost for large instances: three times the cost of weight reads [s]."""
    by_arithmetic: Array
    """Limit of the cost for large instances: three times the cost of arithmetic [s].

    At the critical batch, arithmetic takes as long as weight reads, so this limit equals ``by_reads``.
    """


def toy_cost_at_minimum_latency(model: ToyModel) -> FastestCost:
    """Accelerator time per token at the minimum latency (:func:`toy_minimum_latency`).

    Parameters
    ----------
    model : ToyModel
        Sizes of the model [1], bandwidth [B/s] and arithmetic rate [FLOP/s] of one accelerator, and network [s].

    Returns
    -------
    FastestCost
        Accelerator time per token, each of shape (...) [s].

    Notes
    -----
    Eqs. (15), (16) and (17) of Erdil (2025). The fastest tokens cost about three times 2 P / C, the cost of the
    cheapest tokens. The exact cost is lower than this limit by a share of 2 / (3 sqrt(N*)).

    Examples
    --------
    >>> cost = toy_cost_at_minimum_latency(ToyModel(70.55e9, 80, 2, 3.3e12, 1e15))
    >>> [round(1e6 * float(seconds)) for seconds in cost], round(float(cost.exact) / (2 * 70.55e9 / 1e15), 2)
    ([368, 423, 423], 2.61)
    """
    best = toy_minimum_latency(model)
    batch = critical_batch(model.bytes_per_parameter, model.bytes_per_second, model.flops_per_second)
    reads = 3.0 * np.multiply(model.parameters, model.bytes_per_parameter) / (model.bytes_per_second * batch)
    arithmetic = 6.0 * np.asarray(model.parameters, dtype=float) / model.flops_per_second
    return FastestCost(best.accelerators / batch * best.seconds, np.asarray(reads), arithmetic)


def toy_asymptotic_latency(model: ToyModel) -> Array:
    """Lowest time per token in the toy model, in the limit of large instances.

    Parameters
    ----------
    model : ToyModel
        Sizes of the model [1], bandwidth of one accelerator [B/s], and network [s] without ``base_seconds``.

    Returns
    -------
    ndarray, shape (...)
        Latency [s].

    Notes
    -----
    Eq. (18) of Erdil (2025), which is eq. (14) without the term for the hop that a ring saves, 2 L R T_h. The
    asymptotic latency is too long by a share of 2 / (3 sqrt(N*) - 2): 15 % for an instance of 26 accelerators.

    Examples
    --------
    >>> round(1 / float(toy_asymptotic_latency(ToyModel(70.55e9, 80, bytes_per_parameter=2, bytes_per_second=3.3e12))))
    204
    """
    read, hops = _read_and_hop_seconds(model)
    return np.asarray(3.0 * hops ** (2.0 / 3.0) * read ** (1.0 / 3.0))


def square_root_law(parameters: ArrayLike, reference_parameters: float, reference_seconds: float) -> Array:
    """Latency of a dense model, if latency grows with the square root of the parameter count.

    Parameters
    ----------
    parameters : array_like, shape (...)
        Number of parameters [1].
    reference_parameters : float
        Number of parameters of a model with a known latency [1].
    reference_seconds : float
        Known latency of this reference model [s].

    Returns
    -------
    ndarray, shape (...)
        Latency [s].

    Notes
    -----
    Eq. (19) of Erdil (2025). The law is valid if the number of layers grows as the fourth root of the parameter count.

    Examples
    --------
    >>> float(square_root_law(540e9, 8e9, 0.004).round(4))
    0.0329
    """
    return reference_seconds * np.sqrt(np.divide(parameters, reference_parameters))
