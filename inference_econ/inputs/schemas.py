"""JSON schemas of the files that people write."""

from __future__ import annotations

from typing import Any

from inference_econ.errors import InputError
from inference_econ.inputs._base import Spec
from inference_econ.inputs.assumptions import Assumptions
from inference_econ.inputs.hardware import HardwareSpec
from inference_econ.inputs.model import ModelSpec
from inference_econ.inputs.scenario import Scenario
from inference_econ.inputs.traffic import Traffic

_KINDS: dict[str, type[Spec]] = {
    "hardware": HardwareSpec,
    "model": ModelSpec,
    "traffic": Traffic,
    "assumptions": Assumptions,
    "scenario": Scenario,
}


def json_schema(kind: str) -> dict[str, Any]:
    """The JSON schema of hardware, model, traffic, assumptions or scenario files.

    Raises
    ------
    InputError
        If there is no such kind.
    """
    if kind not in _KINDS:
        raise InputError(f"unknown kind {kind!r}; kinds: {', '.join(_KINDS)}")
    return _KINDS[kind].model_json_schema()
