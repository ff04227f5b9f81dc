"""Roofline economics of serving language models: speed per user against dollars per million tokens.

Examples
--------
>>> import inference_econ as ie
>>> front = ie.frontier("llama_3_70b", "h100_sxm", ie.Traffic(isl=2000, osl=500), weights="fp8")
>>> best = front.preferred(exponent=3)
>>> best.tokens_per_second_per_user > 50
True
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inference_econ.assessment import Assessment, assess
    from inference_econ.catalog import assumptions, hardware, model, names, scenario
    from inference_econ.comparison import compare
    from inference_econ.errors import InferenceEconError, InputError, NothingFitsError, SpecError
    from inference_econ.explanation import Explanation, explain
    from inference_econ.frontier import Frontier, Point, Sampling
    from inference_econ.gallery import reproduce
    from inference_econ.solve import DraftModel, best_step_seconds
    from inference_econ.solve import solve as frontier
    from inference_econ.spec.assumptions import Assumptions
    from inference_econ.spec.hardware import HardwareSpec
    from inference_econ.spec.model import ModelSpec
    from inference_econ.spec.scaling import scaled
    from inference_econ.spec.scenario import Scenario
    from inference_econ.spec.source import Source
    from inference_econ.spec.traffic import Traffic
    from inference_econ.study import Result, run

#: Public name -> module and name there. Loaded when first used, so that ``--help`` answers in a blink.
_PUBLIC = {
    "Assessment": ("assessment", "Assessment"),
    "assess": ("assessment", "assess"),
    "assumptions": ("catalog", "assumptions"),
    "hardware": ("catalog", "hardware"),
    "model": ("catalog", "model"),
    "names": ("catalog", "names"),
    "scenario": ("catalog", "scenario"),
    "compare": ("comparison", "compare"),
    "InferenceEconError": ("errors", "InferenceEconError"),
    "InputError": ("errors", "InputError"),
    "NothingFitsError": ("errors", "NothingFitsError"),
    "SpecError": ("errors", "SpecError"),
    "Frontier": ("frontier", "Frontier"),
    "Point": ("frontier", "Point"),
    "Sampling": ("frontier", "Sampling"),
    "reproduce": ("gallery", "reproduce"),
    "Assumptions": ("spec.assumptions", "Assumptions"),
    "HardwareSpec": ("spec.hardware", "HardwareSpec"),
    "ModelSpec": ("spec.model", "ModelSpec"),
    "scaled": ("spec.scaling", "scaled"),
    "Scenario": ("spec.scenario", "Scenario"),
    "Source": ("spec.source", "Source"),
    "Traffic": ("spec.traffic", "Traffic"),
    "DraftModel": ("solve", "DraftModel"),
    "Explanation": ("explanation", "Explanation"),
    "Result": ("study", "Result"),
    "best_step_seconds": ("solve", "best_step_seconds"),
    "explain": ("explanation", "explain"),
    "offer": ("offers", "offer"),
    "price": ("offers", "price"),
    "recommend": ("offers", "choose"),
    "Length": ("spec.traffic", "Length"),
    "Pins": ("pins", "Pins"),
    "Requests": ("spec.traffic", "Requests"),
    "Targets": ("recommendation", "Targets"),
    "run": ("study", "run"),
    "frontier": ("solve", "solve"),
}

__all__ = [
    "Assessment", "Assumptions", "DraftModel", "Explanation", "Frontier", "HardwareSpec", "InferenceEconError",
    "InputError", "Length", "ModelSpec", "NothingFitsError", "Pins", "Point", "Requests", "Result", "Sampling",
    "Scenario", "Source", "SpecError", "Targets", "Traffic", "assess", "assumptions", "best_step_seconds", "compare",
    "explain", "frontier", "hardware", "model", "names", "offer", "price", "recommend", "reproduce", "run", "scaled",
    "scenario",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'inference_econ' has no attribute {name!r}")
    module, attribute = _PUBLIC[name]
    return getattr(importlib.import_module(f"inference_econ.{module}"), attribute)


def __dir__() -> list[str]:
    return [*globals(), *_PUBLIC]


class _Package(ModuleType):
    """Keeps ``inference_econ.frontier`` the function when the module of that name is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _PUBLIC and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
