"""Promises to users of a steady state: which states keep them, and what would have to be promised if none does."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from inference_econ.answers.recommend import Targets
from inference_econ.engine import Setup
from inference_econ.errors import InputError
from inference_econ.serving import Steady


def check_mean(promises: Targets | None) -> Targets:
    """The promises, none by default.

    Raises
    ------
    InputError
        If they are not about means: a steady state has no queue, and no spread of latencies.
    """
    if promises is None:
        return Targets(percentile="mean")
    if promises.percentile != "mean":
        raise InputError(
            f"a frontier has no queue, so that only means can be promised on it, got {promises.percentile}; give "
            "percentile='mean', or ask recommend"
        )
    return promises


def kept_states(states: Steady, promises: Targets) -> npt.NDArray[np.bool_]:
    """Which states keep the promises as a mean, shape (n, k)."""
    return (states.ttft_seconds <= promises.ttft_seconds) & (states.tpot_seconds <= promises.tpot_seconds)


def why_none_is_kept(setup: Setup, states: Steady, promises: Targets) -> str:
    """What is promised and kept by no state, and the least that can be promised instead."""
    ttft, tpot = states.ttft_seconds.ravel(), states.tpot_seconds.ravel()
    limits = {"TTFT": promises.ttft_seconds, "TPOT": promises.tpot_seconds}
    said = " and ".join(f"{name} of {1e3 * value:.4g} ms" for name, value in limits.items() if math.isfinite(value))
    least = [
        f"a {name} of {_upwards(values[others].min())} ms"
        for name, values, others in (("TTFT", ttft, tpot <= limits["TPOT"]), ("TPOT", tpot, ttft <= limits["TTFT"]))
        if others.any() and math.isfinite(limits[name])
    ]
    if not least:
        both = np.lexsort((tpot, ttft))[0]
        least = [f"a TTFT of {_upwards(ttft[both])} ms and a TPOT of {_upwards(tpot[both])} ms"]
    return (
        f"nothing keeps a mean {said}, not even without a queue: {setup.model.name} ({setup.precision.weights}) on "
        f"{setup.hardware.name}; relax the promise to {' or to '.join(least)} at least"
    )


def _upwards(seconds: float) -> str:
    """A time with four digits, rounded up so that it can be promised [ms]."""
    milliseconds = 1e3 * seconds
    digit = 10.0 ** (math.floor(math.log10(milliseconds)) - 3)
    return f"{math.ceil(milliseconds / digit) * digit:.4g}"
