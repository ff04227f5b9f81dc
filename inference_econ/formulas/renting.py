"""From instances to machines: how many accelerators are rented for a fleet, of which some may have nothing to do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array


def rented(instances: npt.ArrayLike, accelerators: npt.ArrayLike, machines: Sequence[int]) -> Array:
    """Accelerators of the machines that hold some equal instances.

    Parameters
    ----------
    instances : array_like, shape (...)
        Whole numbers of instances, n [1].
    accelerators : array_like, shape (...)
        Of each, k [1].
    machines : sequence of int
        Sizes that can be rented, ascending, each a multiple of the one before [1]; none if any number can be had.

    Returns
    -------
    ndarray, shape (...)
        The fewest; n k where any number can be had [1].

    Notes
    -----
    An instance does not span machines unless it is larger than the largest of them, and then has its own: n ceil(k / m)
    m. Otherwise a machine of m holds f = floor(m / k) instances. As each size is a multiple of the one before, the
    larger machine never holds less per accelerator; so as many of the largest as are full, and for the rest one more of
    them or the same with the smaller sizes. Sizes that divide each other are what makes packing easy: Coffman, Garey
    and Johnson (1987).

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
    """Return the accelerators rented for instances that fit the largest machine; ``inf`` where they fit none."""
    if not len(machines):
        return np.where(number > 0.0, np.inf, 0.0)
    whole, smaller = float(machines[-1]), machines[:-1]
    fitting = np.floor(whole / size)
    full = np.maximum(fitting, 1.0)
    rest = _packed(number % full, size, smaller)
    best = np.floor(number / full) * whole + np.minimum(rest, np.where(number % full > 0.0, whole, 0.0))
    return np.where(fitting >= 1.0, best, np.inf)


def rented_in_bulk(accelerators: npt.ArrayLike, machines: Sequence[int]) -> Array:
    """Accelerators rented for each instance of a fleet so large that only its last machine is not full.

    Parameters
    ----------
    accelerators : array_like, shape (...)
        Of an instance [1].
    machines : sequence of int
        See :func:`rented` [1].

    Returns
    -------
    ndarray, shape (...)
        What :func:`rented` comes to per instance, and never exceeds it [1].

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
    """Accelerators of the machines that hold two kinds of instances, such as those of two pools.

    Parameters
    ----------
    first, second : (int, int)
        Whole numbers of instances, and accelerators of each [1].
    machines : sequence of int
        See :func:`rented` [1].

    Returns
    -------
    float
        Each kind on its own machines; or whole ones whose places that the larger instances leave are taken by the
        smaller, if that is less [1].

    Notes
    -----
    The larger first, as in the first-fit decreasing that packs sizes dividing each other in the fewest machines:
    Coffman, Garey and Johnson (1987).

    Examples
    --------
    One of 4 beside another of 4, and beside three of 2:

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
