"""Degrees that a user pins and a model cannot have, refused with the nearest that it can."""

from __future__ import annotations

from inference_econ.engine.layouts.pins import Pins
from inference_econ.errors import InputError
from inference_econ.inputs import ModelSpec


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
        If there are more pipeline stages than layers.
    """
    if pins.pp is not None and pins.pp > model.layers:
        raise InputError(
            f"pp={pins.pp}: the {model.layers} layers of {model.name} fill at most {model.layers} pipeline stages"
        )
