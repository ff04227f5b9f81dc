"""Degrees that are pinned as deployments."""

from __future__ import annotations

import numpy as np

from inference_econ.engine import Pins, Setup, WholeLayouts
from inference_econ.engine.layouts import plans
from inference_econ.errors import InputError


def deployments(setup: Setup, pins: Pins) -> plans.Plans:
    """Pinned layouts, with experts over every number of ranks that divides them if that is open; shape (n,)."""
    tp, dp, pp, batch = pins.tp or 1, pins.dp or 1, pins.pp or 1, pins.batch or 1.0
    if pins.accelerators is not None and pins.accelerators != tp * dp * pp:
        raise InputError(f"accelerators={pins.accelerators:g} contradicts tp={tp}, dp={dp}, pp={pp}")
    if pins.ep is not None and pins.ep > 1 and not plans.has_experts(setup.model):
        raise InputError(f"{setup.model.name} has no experts, so ep must be 1, got {pins.ep}")
    single = np.ones(1)
    bare = plans.Plans(single * tp * dp * pp, single * batch, single * pp, single * tp, single)
    layouts = WholeLayouts(pipeline=True, pins=Pins(tp, dp, pp, pins.ep, dcp=pins.dcp))
    variants = layouts.variants(setup.model, setup.assumptions, bare)
    return variants.at(np.nonzero(np.ones(variants.shape, dtype=bool)))
