"""Pinned degrees that contradict each other, the model or an engine: said as such, and not as a lack of memory."""

from __future__ import annotations

import numpy as np

from inference_econ.engine import Pins, Setup, Space, WholeLayouts, check_pins, has_experts, whole_grid
from inference_econ.engine.layouts import plans
from inference_econ.errors import InputError
from inference_econ.search import common_problems


def check_space(setup: Setup, space: Space) -> None:
    """Refuse pinned degrees that cannot be, as far as that is seen without trying.

    Raises
    ------
    InputError
        If they are no whole numbers where those are needed, or contradict each other, the model, the engines or the
        largest instance.
    """
    pins, largest = space.pins, space.max_accelerators
    if space.grid == "whole":
        pins.check_whole()
        check_pins(setup.model, pins)
        setup.check_startable(pins)
    if pins.ep is not None and pins.ep > 1 and not has_experts(setup.model):
        raise InputError(f"{setup.model.name} has no experts, so ep must be 1, got {pins.ep}")
    if not space.pipeline and pins.pp is not None and pins.pp > 1:
        raise InputError(f"pp={pins.pp} contradicts 'no pipeline': leave one of them out")
    needed = pins.size or pins.chips
    if pins.given() and largest is not None and needed > largest:
        raise InputError(f"{pins.text}: {needed:g} accelerators are needed, and at most {largest:g} are allowed")


def refuse_impossible(setup: Setup, space: Space) -> None:
    """Say so if what is pinned divides nothing, whatever the memory: each axis by itself, then all together.

    Raises
    ------
    InputError
        With the degrees, and what they do not divide; nothing is said where none is pinned.
    """
    pinned = space.pins.given()
    for some in (*({name: value} for name, value in pinned.items()), pinned):
        alone = Pins(**{**dict.fromkeys(("tp", "dp", "pp"), "any"), **some})  # type: ignore[arg-type]
        problems = common_problems(setup, whole_grid(1.0, pipeline=space.pipeline, pins=alone)) if some else ()
        if problems:
            raise InputError(f"{setup.model.name} cannot be laid out with {alone.text}: {problems[0]}")


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
