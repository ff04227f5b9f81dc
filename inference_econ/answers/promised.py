"""Promises to users of a steady state: which states keep them, and what would have to be promised if none does."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from inference_econ.answers.promises import NAMES, Targets
from inference_econ.engine import Setup
from inference_econ.errors import InputError
from inference_econ.inputs import percentiles


def check_mean(promises: Targets | None) -> Targets:
    """The promises, none by default.

    Raises
    ------
    InputError
        If they are not about means: a steady state has no queue, and no spread of latencies.
    """
    if promises is None:
        return Targets(percentile="mean")
    if promises.common != percentiles.MEAN:
        spread = next(name for name in promises.given or NAMES if promises.percentile_of(name) != percentiles.MEAN)
        raise InputError(
            f"{percentiles.MEANS_ONLY}, got {promises.percentile_of(spread)}; give percentile='mean', or ask recommend"
        )
    return promises


def kept_states(seen: Mapping[str, npt.NDArray[np.float64]], promises: Targets) -> npt.NDArray[np.bool_]:
    """Which states keep the promises as a mean, shape (n, k); what is seen are means by name, that of TPOT among them.

    Where there is no state, the TPOT is NaN, and nothing is kept.
    """
    kept = [seen[name] <= limit for name, limit in promises.given.items()]
    return np.asarray(np.logical_and.reduce([np.isfinite(seen["tpot"]), *kept]))


def why_none_is_kept(setup: Setup, seen: Mapping[str, npt.NDArray[np.float64]], promises: Targets) -> str:
    """Promise that is kept by no state, and the least that can be promised instead."""
    promised = " and ".join(f"{name.upper()} of {1e3 * value:.4g} ms" for name, value in promises.given.items())
    least = []
    for name in promises.given:
        others = kept_states(seen, promises.relaxed(name, math.inf))
        if others.any():
            least.append(f"a {name.upper()} of {_upwards(seen[name][others].min())} ms")
    if not least:
        first = np.lexsort([seen[name].ravel() for name in reversed(promises.given)])[0]
        every = (f"a {name.upper()} of {_upwards(seen[name].ravel()[first])} ms" for name in promises.given)
        least = [" and ".join(every)]
    return (
        f"nothing keeps a mean {promised}, not even without a queue: {setup.model.name} ({setup.precision.weights}) on "
        f"{setup.hardware.name}; relax the SLO to {' or to '.join(least)} at least"
    )


def _upwards(seconds: float) -> str:
    """A time with four digits, rounded up so that it can be promised [ms]."""
    milliseconds = 1e3 * seconds
    digit = 10.0 ** (math.floor(math.log10(milliseconds)) - 3)
    return f"{math.ceil(milliseconds / digit) * digit:.4g}"
