"""Accelerators to rent for a fleet of instances, given the sizes of rentable machines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array


def rented(instances: npt.ArrayLike, accelerators: npt.ArrayLike, machines: Sequence[int]) -> Array:
    """Accelerators of the machines for several equal instances.

    Parameters
    ----------
    instances : array_like, shape (...)
        Integer numbers of instances, n [1].
    accelerators : array_like, shape (...)
        Size of each instance, k [1].
    machines : sequence of int
        Rentable sizes, ascending, each a multiple of the one before [1]; empty if any number can be rented.

    Returns
    -------
    ndarray, shape (...)
        Minimum number of accelerators; n k if any number can be rented [1].

    Notes
    -----
    An instance spans machines only if it is larger than the largest machine. It then has separate machines: n ceil(k /
    m) m. Otherwise a machine of m contains f = floor(m / k) instances. Each size is a multiple of the one before, so
    larger machines never contain less per accelerator. The solution therefore fills machines of the largest size first.
    The rest uses one more machine of this size, or the same procedure with smaller sizes. Divisible sizes make this
    packing easy: Coffman, Garey and Johnson (1987).

    Examples
    --------
    Five instances of 2, and three of 3, on machines of 1, 2, 4 and 8; two of 12:

    >>> rented([5, 3, 2], [2, 3, 12], [1, 2, 4, 8])
    array([10., 12., 32.])
    >>> float(rented(5, 2, [8]))
    16.0
    """
    number, size = np.broadcast_arrays(np.asarray(instances, dtype=float), np.asarray(accelerators, dtype=float))
    if not len(machines):
        return np.asarray(number * size)
    whole = float(machines[-1])
    return np.where(size > whole, number * np.ceil(size / whole) * whole, _packed(number, size, machines))


def _packed(number: Array, size: Array, machines: Sequence[int]) -> Array:
    """Accelerators rented for instances that fit the largest machine; ``inf`` if they fit none."""
    if not len(machines):
        return np.where(number > 0.0, np.inf, 0.0)
    whole, smaller = float(machines[-1]), machines[:-1]
    fitting = np.floor(whole / size)
    full = np.maximum(fitting, 1.0)
    rest = _packed(number % full, size, smaller)
    best = np.floor(number / full) * whole + np.minimum(rest, np.where(number % full > 0.0, whole, 0.0))
    return np.where(fitting >= 1.0, best, np.inf)


def rented_in_bulk(accelerators: npt.ArrayLike, machines: Sequence[int]) -> Array:
    """Accelerators rented per instance in the limit of a large fleet.

    Parameters
    ----------
    accelerators : array_like, shape (...)
        Size of an instance [1].
    machines : sequence of int
        See :func:`rented` [1].

    Returns
    -------
    ndarray, shape (...)
        Limit and lower bound of :func:`rented` per instance [1].

    Examples
    --------
    >>> rented_in_bulk([1, 3, 8, 12], [8])
    array([ 1.,  4.,  8., 16.])
    """
    size = np.asarray(accelerators, dtype=float)
    if not len(machines):
        return size
    whole = float(machines[-1])
    fitting = np.maximum(np.floor(whole / size), 1.0)
    return np.asarray(np.ceil(size / whole) * whole / fitting)


def rented_together(first: tuple[int, int], second: tuple[int, int], machines: Sequence[int]) -> float:
    """Accelerators of the machines for two kinds of instances, such as prefill and decode instances.

    Parameters
    ----------
    first, second : (int, int)
        Integer numbers of instances, and accelerators of each [1].
    machines : sequence of int
        See :func:`rented` [1].

    Returns
    -------
    float
        Minimum of two solutions: separate machines for each kind, or full machines in which smaller instances use the
        space that larger ones leave [1].

    Notes
    -----
    Larger instances first, as in first-fit decreasing, which is optimal for divisible sizes: Coffman, Garey and Johnson
    (1987).

    Examples
    --------
    One instance of 4 with another of 4, and with three of 2:

    >>> rented_together((1, 4), (1, 4), [8]), rented_together((1, 4), (3, 2), [8])
    (8.0, 16.0)
    """
    apart = float(rented(*first, machines)) + float(rented(*second, machines))
    if not len(machines):
        return apart
    whole = machines[-1]
    (few, large), (many, small) = sorted((first, second), key=lambda kind: -kind[1])
    if large > whole:
        return apart
    fitting = whole // large
    full, rest = divmod(few, fitting)
    places = full * ((whole - fitting * large) // small) + ((whole - rest * large) // small if rest else 0)
    shared = float(rented(few, large, [whole])) + float(rented(max(many - places, 0), small, [whole]))
    return min(apart, shared)
