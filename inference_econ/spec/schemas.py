"""JSON schemas of the files that people write."""

from __future__ import annotations

from typing import Any

from inference_econ.errors import InputError
from inference_econ.spec._base import Spec
from inference_econ.spec.assumptions import Assumptions
from inference_econ.spec.hardware import HardwareSpec
from inference_econ.spec.model import ModelSpec
from inference_econ.spec.scenario import Scenario
from inference_econ.spec.traffic import Traffic

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
