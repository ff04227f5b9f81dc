"""Made-up rows of measured servers for tests of corrections."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from inference_econ._types import Array
from inference_econ.extras.servers.levels import DEPTHS, Group, Observed, Spreads, places_of, shared_of
from inference_econ.extras.servers.prediction.predict import Prediction
from tests.measured import measurement

GROUP = Group("vllm", "hopper")
SPREADS = Spreads(np.array([[0.1, 0.2, 0.05, 0.1, 0.2, 0.2], [0.2, 0.1, 0.1, 0.3, 0.0, 0.2]]), np.array([0.05, 0.2]))
NESTED = slice(len(DEPTHS))


def observed(
    error: float, ttft: float = math.nan, *, slopes: Array | None = None, kinds: str = "speculation", **changes: Any
) -> Observed:
    """Return a row with a given error, with shared corrections of these kinds; releases 0.18.0 and later."""
    row = measurement(**changes)
    slopes = np.eye(2) if slopes is None else slopes
    prediction = Prediction(row, ttft_seconds=0.2, tpot_seconds=0.01, request_seconds=10.19)
    group = Group(row.engine, "hopper")
    shared = shared_of(group, row, {False: ["0.18.0", "0.24.0"] if row.engine == "vllm" else []})
    shared = tuple(name for name in shared if name[2][0] in kinds.split())
    return Observed(row, prediction, group, places_of(row), np.array([error, ttft]), slopes, shared)
