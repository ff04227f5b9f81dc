"""Setups and plans of one layout for tests of steps, and rows of their operator table."""

from __future__ import annotations

from typing import Any

import numpy as np

from inference_econ.engine import Operator, Plans, Setup
from inference_econ.inputs import Precision, catalog


def setup_of(
    model: str, chip: str, context: float = 0.0, *changes: str, preset: str = "deployable", weights: str | None = None
) -> Setup:
    """Return a setup under changed assumptions of a preset, without engines, a price or the cache of a recipe."""
    spec, assumed = catalog.model(model), catalog.assumptions(preset, changes=changes)
    precision = Precision.of(spec, weights, embeddings=assumed.capacity.embedding_format)
    return Setup(spec, catalog.hardware(chip), precision, context, assumed)


def row_of(setup: Setup, plans: Plans, name: str) -> Operator:
    """Return the first row of that name; each block of a model has one."""
    return next(row for row in setup.work(plans).operators if row.name == name)


def plan_of(
    tp: float = 1, dp: float = 1, pp: float = 1, ep: float = 1, batch: float = 1, *, whole: bool = True, **further: Any
) -> Plans:
    """Return one layout with some degrees, for an instance of ``tp x dp x pp`` accelerators."""
    one = np.ones(1)
    return Plans(one * tp * dp * pp, one * batch, one * pp, one * tp, one * ep, whole=whole, **further)
