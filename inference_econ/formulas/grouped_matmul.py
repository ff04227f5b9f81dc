"""Overhead of grouped matrix products of many experts, relative to the necessary arithmetic."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array


def padded_share(
    tokens_per_expert: npt.ArrayLike,
    width: npt.ArrayLike,
    depth: npt.ArrayLike,
    *,
    extra_tokens: npt.ArrayLike,
    extra_elements: npt.ArrayLike,
) -> Array:
    """Arithmetic of a grouped product, including overheads such as partly filled tiles, over the necessary arithmetic.

    Parameters
    ----------
    tokens_per_expert : array_like, shape (...)
        Mean number of tokens m of an expert, over experts with tokens; above 0 [1].
    width, depth : array_like, shape (...)
        Number of columns n of an expert's matrix on one chip, and number of rows k that are summed over [1].
    extra_tokens : array_like, shape (...)
        Overhead m0 of an expert, as equivalent tokens [tokens]: the empty part of its last tile, and the work per tile.
    extra_elements : array_like, shape (...)
        Overhead x0 along width and depth, as equivalent elements [1]: partly filled tiles, and the start and end of
        each tile's sum.

    Returns
    -------
    ndarray, shape (...)
        (1 + m0/m) (1 + x0/n) (1 + x0/k), at least 1 [1].

    Notes
    -----
    A matrix product is computed in tiles. The last tile of an expert is half empty on average, which adds half a tile
    of rows to every expert. The time of the product is therefore linear in m + m0. Before a tile's sum over k, the load
    pipeline is filled; after the sum, the result is written. Filling the pipeline and writing the result each take the
    time of some elements of k. Tiles have a similar overhead along n.

    The achieved rate is the rate of large products divided by this ratio. The ratio is also valid if experts have
    different numbers of tokens, because the overhead occurs once per expert with tokens. Data: DeepGEMM's README (2025)
    reports 1,288 TFLOP/s for n = 4,096 and k = 7,168. At the same m, the README reports 1,093 TFLOP/s for n = 7,168 and
    k = 2,048.

    Examples
    --------
    >>> float(padded_share(64, 4096, 7168, extra_tokens=64, extra_elements=0))
    2.0
    >>> padded_share([1e9, 1e9], [4096, 7168], [7168, 2048], extra_tokens=64, extra_elements=800).round(3)
    array([1.329, 1.546])
    """
    rows = 1.0 + np.asarray(extra_tokens) / np.asarray(tokens_per_expert, dtype=float)
    if not np.any(extra_elements):
        return np.asarray(rows)
    elements = np.asarray(extra_elements, dtype=float)
    columns = 1.0 + elements / np.asarray(width, dtype=float)
    return np.asarray(rows * columns * (1.0 + elements / np.asarray(depth, dtype=float)))
