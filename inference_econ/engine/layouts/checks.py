"""Degrees that a user pins and a model cannot have, refused with the nearest that it can."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from inference_econ.engine.layouts.divisibility import indivisible_context
from inference_econ.engine.layouts.pins import Pins, divisors, nearest
from inference_econ.errors import InputError
from inference_econ.inputs import Attention, ModelSpec


def check_pins(model: ModelSpec, pins: Pins) -> None:
    """Refuse degrees that a model cannot have, however large the instance is.

    Parameters
    ----------
    model : ModelSpec
        What is served.
    pins : Pins
        Degrees that are given.

    Raises
    ------
    InputError
        If there are more pipeline stages than layers, a stage does not split into the ranks that experts are spread
        over, or more ranks share the tokens of a sequence than hold copies.
    """
    if pins.pp is not None and pins.pp > model.layers:
        raise InputError(
            f"pp={pins.pp}: the {model.layers} layers of {model.name} fill at most {model.layers} pipeline stages"
        )
    if pins.ep is not None and pins.tp is not None and pins.dp is not None:
        stage = int(pins.tp * pins.dp)
        if stage % pins.ep:
            raise InputError(
                f"ep={pins.ep}: the {stage} accelerators of a stage, tp x dp, do not split over {pins.ep} "
                f"expert-parallel ranks; nearest: {nearest(int(pins.ep), divisors(int(pins.tp), int(pins.dp)))}"
            )
    if pins.dcp is not None and pins.tp is not None:
        _check_context(model, pins.dcp, pins.tp)


def _check_context(model: ModelSpec, dcp: int, tp: int) -> None:
    """Refuse more ranks that share the tokens of a sequence than there would be copies of its cache."""
    specs = [block.attention for block in model.blocks]
    possible = [degree for degree in divisors(tp) if degree == 1 or _can_share(specs, degree, tp)]
    if dcp in possible:
        return
    heads = max(spec.cache.heads for spec in specs)
    copies = max(tp // heads, 1.0)
    raise InputError(
        f"dcp={dcp} on tp={tp}: {model.name} has {heads:g} KV head{'' if heads == 1 else 's'}, so that its ranks hold "
        f"{copies:g} cop{'y' if copies == 1 else 'ies'} of a sequence's cache to share; "
        f"nearest: {nearest(dcp, possible)}"
    )


def _can_share(specs: Iterable[Attention], dcp: int, tp: int) -> bool:
    ranks = np.asarray(float(tp))
    return not any(np.any(problem.where) for spec in specs for problem in indivisible_context(spec, ranks, dcp))
