"""Throughput of measured servers as predicted of themselves: at the load that they had, and at their speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from inference_econ.calibration.measurements import Measurement
from inference_econ.calibration.prediction.predict import Prediction, Profiles, predict
from inference_econ.formulas import pareto

#: Loads of a server that its speed is looked for between, over the one that it had [1].
_LOADS = (2.0 ** np.arange(-2.0, 2.5, 0.5)).tolist()


class Itself(NamedTuple):
    """Output tokens/s of a chip of a measured server as predicted; None where that is not known [tokens/s]."""

    at_load: float | None
    """With as many requests as it had."""
    at_speed: float | None
    """With as many as leave a user the speed that was measured."""


def itself(servers: Sequence[Measurement], profiles: Profiles) -> list[Itself]:
    """Predict measured servers as they were deployed, in their versions.

    Parameters
    ----------
    servers : sequence of Measurement
        Under a constant number of requests.
    profiles : callable
        The assumptions for a measurement.

    Returns
    -------
    list of Itself
        In the order of the servers.
    """
    loaded = [
        replace(row, concurrency=max(load * (row.concurrency or 1.0), 1.0), requests=None, spread=None)
        for row in servers
        for load in _LOADS
    ]
    states, number = predict(loaded, profiles), len(_LOADS)
    return [
        Itself(
            prediction.output_tokens_per_second_per_accelerator,
            _at_speed(row, states[index * number : (index + 1) * number]),
        )
        for index, (row, prediction) in enumerate(zip(servers, predict(servers, profiles), strict=True))
    ]


def _at_speed(row: Measurement, loads: Sequence[Prediction]) -> float | None:
    """Output tokens/s of a chip at the measured speed [tokens/s], as a power of speed between two loads."""
    states = [
        (1.0 / load.tpot_seconds, 1.0 / load.output_tokens_per_second_per_accelerator)
        for load in loads
        if load.tpot_seconds and load.output_tokens_per_second_per_accelerator
    ]
    if not states or not row.tpot_seconds:
        return None
    speeds, seconds = (np.array([values]) for values in zip(*states, strict=True))
    least = pareto.least_from(speeds, seconds, 1.0 / row.tpot_seconds)
    return None if least is None else 1.0 / least[0]
