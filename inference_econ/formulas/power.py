"""Power of chips, servers and facilities, and carbon emissions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array


def drawn_watts(
    idle_watts: npt.ArrayLike, joules: npt.ArrayLike, seconds: npt.ArrayLike, limit_watts: npt.ArrayLike
) -> Array:
    """Mean power of an accelerator board during a period of work.

    Parameters
    ----------
    idle_watts : array_like, shape (...)
        Idle power, with a loaded model and no running kernel [W].
    joules : array_like, shape (...)
        Energy of the work, in addition to idle power [J].
    seconds : array_like, shape (...)
        Duration of the work, positive [s].
    limit_watts : array_like, shape (...)
        Power limit [W]; the firmware lowers the clock so that the power does not exceed the limit.

    Returns
    -------
    ndarray, shape (...)
        Power [W].

    Notes
    -----
    The power is the idle power plus the energy of operations over time, as in the energy roofline of Choi et al.
    (2013), eqs. (1) to (4). The formula is valid for means over many steps, but not for peaks within a step.

    Examples
    --------
    >>> drawn_watts(130.0, [5.0, 50.0], 0.02, 700.0)
    array([380., 700.])
    """
    return np.minimum(idle_watts + np.divide(joules, seconds), limit_watts)


def facility_watts(board_watts: npt.ArrayLike, host_watts: npt.ArrayLike, pue: npt.ArrayLike) -> Array:
    """Facility power of accelerators with their hosts and network, including cooling.

    Parameters
    ----------
    board_watts : array_like, shape (...)
        Power of accelerators [W].
    host_watts : array_like, shape (...)
        Power of the other parts of servers and of the network [W].
    pue : array_like, shape (...)
        Power usage effectiveness: power of the facility divided by the power of its servers, at least 1 [1].

    Returns
    -------
    ndarray, shape (...)
        Power [W].

    Notes
    -----
    Chapter on energy of Barroso, Hoelzle and Ranganathan (2018). The PUE is a yearly mean, which is assumed to apply at
    all loads.

    Examples
    --------
    >>> float(facility_watts(700.0, 700.0, 1.25))
    1750.0
    """
    return np.asarray(np.add(board_watts, host_watts) * pue, dtype=float)


def grams_of_carbon(joules: npt.ArrayLike, grams_per_kwh: npt.ArrayLike) -> Array:
    """Carbon emissions of electric energy.

    Parameters
    ----------
    joules : array_like, shape (...)
        Energy at the meter of the facility [J].
    grams_per_kwh : array_like, shape (...)
        Carbon intensity of electricity generation in the grid, in CO2 equivalents [g/kWh].

    Returns
    -------
    ndarray, shape (...)
        CO2 equivalents of the electricity [g]. Manufacturing of chips and buildings is excluded.

    Notes
    -----
    The formula is the location-based method of Sotos (2015), the Scope 2 Guidance of the GHG Protocol.

    Examples
    --------
    >>> float(grams_of_carbon(3.6e6, 481.0))
    481.0
    """
    return np.asarray(np.multiply(joules, grams_per_kwh) / 3.6e6, dtype=float)
