"""Grouped products of many experts: ratio of computed to necessary arithmetic."""

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
    """Arithmetic that determines the time of a grouped product, divided by the necessary arithmetic.

    Parameters
    ----------
    tokens_per_expert : array_like, shape (...)
        Mean number of rows m of a touched expert; above 0 [1].
    width, depth : array_like, shape (...)
        Columns n of an expert's matrix on one chip, and rows k that are summed over [1].
    extra_tokens : array_like, shape (...)
        Overhead of an expert in tokens: the empty part of its last tile, and work per tile [tokens].
    extra_elements : array_like, shape (...)
        Overhead along width and depth, in elements: partly filled tiles, and the start and end of each tile's sum [1].

    Returns
    -------
    ndarray, shape (...)
        (1 + m0/m) (1 + x0/n) (1 + x0/k), at least 1 [1].

    Notes
    -----
    A product is computed in tiles. The last tile of an expert is half empty on average, which adds half a tile of rows
    to every expert, so time is linear in m + m0. Before a tile's sum over k, its load pipeline is filled, and
    afterwards the result is written. Both cost the time of some elements of k. Tiles have a similar overhead along n.
    The rate of large products is divided by this factor. It is also valid for experts with different numbers of tokens,
    because the overhead occurs once per touched expert. Data: DeepGEMM's README (2025) has 1,288 TFLOP/s for n = 4,096
    and k = 7,168, and 1,093 for n = 7,168 and k = 2,048 at the same m.

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
