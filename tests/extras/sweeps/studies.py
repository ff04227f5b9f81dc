"""Small sweeps for several tests: instances of one chip, which finish at once."""

from __future__ import annotations

from typing import Any

from inference_econ.inputs import Scenario

#: Two models on two chips in two formats: one chip has no price, one model does not fit the other.
AXES: dict[str, Any] = {
    "traffic": {"chat": {"isl": 500, "osl": 200}, "documents": {"isl": 4000, "osl": 200}},
    "model": ["llama_3_8b", "llama_3_70b"],
    "hardware": ["l4", "h100_sxm", "gaudi3"],
}
COMMON: dict[str, Any] = {"max_instance_gpus": 1, "weights": "fp8"}
SOURCES = {"ask": {"ref": "user", "where": "made up", "kind": "assumed"}}


def study(axes: dict[str, Any] | None = None, /, **further: Any) -> Scenario:
    """Return a sweep over some axes."""
    ask = {"kind": "sweep", "common": COMMON, "axes": AXES if axes is None else axes, **further}
    return Scenario.build({"name": "Small sweep", "ask": ask, "sources": SOURCES}, origin="study")
