"""Number of accelerators to rent for a fleet of instances, if only machines of some sizes can be rented."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array


def rented(instances: npt.ArrayLike, accelerators: npt.ArrayLike, machines: Sequence[int]) -> Array:
    """Number of accelerators in the rented machines that several equal instances need.

    Parameters
    ----------
    instances : array_like, shape (...)
        Number of instances n, an integer [1].
    accelerators : array_like, shape (...)
        Number of accelerators in each instance, k [1].
    machines : sequence of int
        Sizes of machines that can be rented, ascending [1]. Each size is a multiple of all smaller sizes. The sequence
        is empty if any number of accelerators can be rented.

    Returns
    -------
    ndarray, shape (...)
        Smallest sufficient number of accelerators [1]; n k if any number can be rented.

    Notes
    -----
    An instance spans several machines only if it is larger than the largest machine, of m accelerators. No other
    instance then uses these machines, so the number is n ceil(k / m) m. If k <= m, f = floor(m / k) instances fit in a
    machine of m accelerators. Larger machines never hold fewer instances per accelerator, because sizes are multiples
    of smaller sizes. The solution therefore fills machines of the largest size first. For the remaining instances, the
    solution rents one more machine of the largest size, or repeats the procedure with smaller sizes. For divisible
    sizes, this packing is optimal: Coffman, Garey and Johnson (1987).

    Examples
    --------
    Five instances of 2 accelerators, three instances of 3, and two instances of 12, on machines of 1, 2, 4 and 8:

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
    """Number of accelerators to rent for instances that fit in the largest machine; ``inf`` if no machine suffices."""
    if not len(machines):
        return np.where(number > 0.0, np.inf, 0.0)
    whole, smaller = float(machines[-1]), machines[:-1]
    fitting = np.floor(whole / size)
    full = np.maximum(fitting, 1.0)
    rest = _packed(number % full, size, smaller)
    best = np.floor(number / full) * whole + np.minimum(rest, np.where(number % full > 0.0, whole, 0.0))
    return np.where(fitting >= 1.0, best, np.inf)


def rented_in_bulk(accelerators: npt.ArrayLike, machines: Sequence[int]) -> Array:
    """Number of accelerators to rent per instance, for a fleet of many equal instances.

    Parameters
    ----------
    accelerators : array_like, shape (...)
        Number of accelerators in an instance [1].
    machines : sequence of int
        See :func:`rented` [1].

    Returns
    -------
    ndarray, shape (...)
        Limit of :func:`rented` per instance for many instances, which is also a lower bound for any number of instances
        [1].

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
    """Number of accelerators in the rented machines for two kinds of instances, such as prefill and decode instances.

    Parameters
    ----------
    first, second : (int, int)
        Number of instances of each kind, and number of accelerators in an instance, as integers [1].
    machines : sequence of int
        See :func:`rented` [1].

    Returns
    -------
    float
        The smaller of two solutions [1]: separate machines for each kind, or machines of the largest size in which
        smaller instances fill the space that larger instances leave.

    Notes
    -----
    Larger instances are placed first, as in first-fit decreasing, which is optimal for divisible sizes: Coffman, Garey
    and Johnson (1987).

    Examples
    --------
    One instance of 4 accelerators with another instance of 4, and then with three instances of 2:

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
