"""Memory traffic of a weight matrix that is split over several accelerators."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array


def balanced_split(rows: float, columns: float, ranks: npt.ArrayLike) -> tuple[Array, Array]:
    """Split of a (rows x columns) matrix over ``ranks`` accelerators into pieces that are as square as possible.

    Parameters
    ----------
    rows, columns : float
        Shape of the weight matrix [1].
    ranks : array_like, shape (...)
        Number of accelerators, each with one piece of the matrix, at least 1 [1].

    Returns
    -------
    (ndarray, ndarray), each of shape (...)
        Number of ranks that read or write each element of the column side, and of the row side [1]. The product of both
        numbers is ``ranks``, and each is at least 1.

    Notes
    -----
    Erdil (2025), published code, final state: t1 = clip(sqrt(m t / k), 1, t), t2 = t / t1. The rule is symmetric in
    rows and columns.
    """
    split = np.asarray(ranks, dtype=float)
    column_copies = np.clip(np.sqrt(split * (rows / columns)), 1.0, split)
    return column_copies, split / column_copies


def unbalanced_split(rows: float, columns: float, ranks: npt.ArrayLike) -> tuple[Array, Array]:
    """Number of ranks per input and output element, by the rule of the published code until 22 May 2025.

    Parameters
    ----------
    rows, columns : float
        Shape of the weight matrix [1].
    ranks : array_like, shape (...)
        Number of accelerators, each with one piece of the matrix, at least 1 [1].

    Returns
    -------
    (ndarray, ndarray), each of shape (...)
        Number of ranks that read or write each element of the column side, and of the row side [1]. The product of both
        numbers may exceed ``ranks``.

    Notes
    -----
    Published code of Erdil (2025), in the state that produced Table 5: t1 = max(1, t sqrt(m / k)), t2 = max(1, t sqrt(k
    / m)).
    """
    split = np.asarray(ranks, dtype=float)
    aspect = np.sqrt(rows / columns)
    return np.maximum(1.0, split * aspect), np.maximum(1.0, split / aspect)


def single_copy(rows: float, columns: float, ranks: npt.ArrayLike) -> tuple[Array, Array]:
    """Rule by which one rank reads or writes each input and output element, for any number of ranks.

    Parameters
    ----------
    rows, columns : float
        Shape of the weight matrix [1]; it has no effect.
    ranks : array_like, shape (...)
        Number of accelerators, each with one piece of the matrix [1].

    Returns
    -------
    (ndarray, ndarray), each of shape (...)
        Ones.

    Notes
    -----
    Eq. (35) of Erdil (2025), which has no factors for tensor parallelism.
    """
    del rows, columns
    ones = np.ones_like(np.asarray(ranks, dtype=float))
    return ones, ones


#: Rules for the split of weight matrices, by their name in the assumptions.
SPLITS = {"balanced": balanced_split, "unbalanced": unbalanced_split, "single_copy": single_copy}


def activation_elements_per_token(rows: float, columns: float, ranks: npt.ArrayLike, split: str = "balanced") -> Array:
    """Number of activation elements that a weight matrix reads and writes per token, over all ranks.

    Parameters
    ----------
    rows, columns : float
        Shape of the weight matrix [1].
    ranks : array_like, shape (...)
        Number of accelerators, each with one piece of the matrix [1].
    split : str
        A key of :data:`SPLITS`.

    Returns
    -------
    ndarray, shape (...)
        t1 k + t2 m [1].

    Notes
    -----
    Section 3.6 of Erdil (2025), eq. (35). The factors t1 and t2 are from the published code: elements that several
    ranks read or write.

    Examples
    --------
    >>> float(activation_elements_per_token(8192, 28672, 1))
    36864.0
    """
    column_copies, row_copies = SPLITS[split](rows, columns, ranks)
    return column_copies * columns + row_copies * rows
