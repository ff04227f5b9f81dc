"""Uncertain inputs, and the quasi-Monte-Carlo design that samples it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.inputs import PROFILE, UncertainInput, UncertaintyAsk

#: Inputs that change no frontier: a price scales its costs, errors of a profile its costs and speeds.
CHEAP = ("price", PROFILE)


@dataclass(frozen=True, slots=True)
class Variable:
    """One uncertain input.

    Attributes
    ----------
    name : str
        Of a number, see :func:`inference_econ.studies.settings.number`, or ``profile``.
    series : tuple of str
        Labels of the series that have it, all with the same value.
    given : Distribution or str
        What is known of it.
    label : str
        What tables call it: its name, with its series if not all have it.
    """

    name: str
    series: tuple[str, ...]
    given: UncertainInput
    label: str


def variables(ask: UncertaintyAsk) -> tuple[Variable, ...]:
    """Everything that is uncertain in a study: what all series share, then what each has for itself."""
    labels = tuple(series.label for series in ask.series)
    shared = [Variable(name, labels, distribution, name) for name, distribution in ask.inputs.items()]
    separate = [
        Variable(name, (series.label,), distribution, f"{name} of {series.label}" if len(labels) > 1 else name)
        for series in ask.series
        for name, distribution in series.inputs.items()
    ]
    return (*shared, *separate)


@dataclass(frozen=True, slots=True)
class Design:
    """Samples of k variables for Sobol shares: two independent sets, and the first with one variable of the second.

    Attributes
    ----------
    shares : ndarray, shape (samples * (k + 2), k)
        Each variable by the share of its values that are lower [1], in the order that SALib analyses.
    samples : int
        Points of each set [1].
    """

    shares: Array
    samples: int

    @property
    def block(self) -> int:
        """Rows of one point: of the first set, one for each variable, and of the second set [1]."""
        return int(self.shares.shape[1]) + 2

    def both(self, values: Array) -> Array:
        """Values of the two independent sets, one point after the other; shape (2 * samples, ...)."""
        return values.reshape(self.samples, self.block, *values.shape[1:])[:, [0, -1]].reshape(-1, *values.shape[1:])

    @property
    def first_half(self) -> npt.NDArray[np.bool_]:
        """Which rows of :meth:`both` are of the first set; bool, shape (2 * samples,)."""
        return np.tile([True, False], self.samples)


def design(count: int, samples: int, seed: int) -> Design:
    """A scrambled Sobol sequence as Saltelli's design.

    Parameters
    ----------
    count : int
        Variables [1].
    samples : int
        Points, a power of two [1].
    seed : int
        Of the scrambling.

    Raises
    ------
    InputError
        If SALib is not installed.

    Notes
    -----
    Saltelli et al. (2010). The sequence is that of :class:`scipy.stats.qmc.Sobol`.
    """
    sobol = salib("sample.sobol")
    sampled = sobol.sample(problem(count), samples, calc_second_order=False, scramble=True, seed=seed)
    return Design(np.asarray(sampled), samples)


def problem(count: int) -> dict[str, Any]:
    """So many variables as SALib describes them, each uniform from 0 to 1."""
    return {"num_vars": count, "names": [f"x{index}" for index in range(count)], "bounds": [[0.0, 1.0]] * count}


def salib(module: str) -> Any:
    """A module of SALib, which is loaded by who needs it.

    Raises
    ------
    InputError
        If it is not installed, with what to type.
    """
    from importlib import import_module

    try:
        return import_module(f"SALib.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "SALib":
            raise
        raise InputError(
            "SALib is not installed, which studies of uncertainty need: pip install 'inference-econ[studies]'"
        ) from error


#: Spreads below this share of the mean are rounding [1].
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of a variance by input.

    Attributes
    ----------
    first, total : ndarray, shape (k,)
        Of each input by itself, and together with all others: the variance that is gone once it is known, and the
        variance that is left if all others are known [1].
    first_half_width, total_half_width : ndarray, shape (k,)
        Half the width of their 95 % confidence intervals, from resampling [1].
    """

    first: Array
    first_half_width: Array
    total: Array
    total_half_width: Array


def shares(plan: Design, output: Array, seed: int) -> Shares | None:
    """Sobol shares of first order, and in total.

    Parameters
    ----------
    plan : Design
        The samples.
    output : ndarray, shape (rows of the design,)
        What is explained, finite [any].
    seed : int
        Of the resampling.

    Returns
    -------
    Shares or None
        None if the output does not vary.

    Notes
    -----
    Saltelli et al. (2010); the variance is that of the design itself, so that shares may be a little below 0 or
    above 1.
    """
    if float(output.std()) <= _ROUNDING * max(float(np.abs(output).max()), 1.0):
        return None
    # SALib takes a seed of 0 for none.
    analysed = salib("analyze.sobol").analyze(
        problem(plan.shares.shape[1]), output, calc_second_order=False, seed=seed + 1
    )
    columns = (np.asarray(analysed[name], dtype=float) for name in ("S1", "S1_conf", "ST", "ST_conf"))
    return Shares(*columns)
