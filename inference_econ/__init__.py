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
    from inference_econ.answers.assess import Assessment, assess
    from inference_econ.answers.explain import Explanation, explain
    from inference_econ.answers.frontier import DraftModel, best_step_seconds
    from inference_econ.answers.frontier import solve as frontier
    from inference_econ.errors import InferenceEconError, InputError, NothingFitsError, SpecError
    from inference_econ.inputs.assumptions import Assumptions
    from inference_econ.inputs.catalog import assumptions, hardware, model, names, scenario
    from inference_econ.inputs.hardware import HardwareSpec
    from inference_econ.inputs.model import ModelSpec
    from inference_econ.inputs.scaling import scaled
    from inference_econ.inputs.scenario import Scenario
    from inference_econ.inputs.source import Source
    from inference_econ.inputs.traffic import Traffic
    from inference_econ.report.gallery import reproduce
    from inference_econ.search.frontier import Frontier, Point, Sampling
    from inference_econ.studies.compare import compare
    from inference_econ.studies.results import Result
    from inference_econ.studies.scenario import run

#: Public name -> module and name there. Loaded when first used, so that ``--help`` answers in a blink.
_PUBLIC = {
    "Assessment": ("answers.assess", "Assessment"),
    "assess": ("answers.assess", "assess"),
    "assumptions": ("inputs.catalog", "assumptions"),
    "hardware": ("inputs.catalog", "hardware"),
    "model": ("inputs.catalog", "model"),
    "names": ("inputs.catalog", "names"),
    "scenario": ("inputs.catalog", "scenario"),
    "compare": ("studies.compare", "compare"),
    "InferenceEconError": ("errors", "InferenceEconError"),
    "InputError": ("errors", "InputError"),
    "NothingFitsError": ("errors", "NothingFitsError"),
    "SpecError": ("errors", "SpecError"),
    "Frontier": ("search.frontier", "Frontier"),
    "Point": ("search.frontier", "Point"),
    "Sampling": ("search.frontier", "Sampling"),
    "reproduce": ("report.gallery", "reproduce"),
    "Assumptions": ("inputs.assumptions", "Assumptions"),
    "HardwareSpec": ("inputs.hardware", "HardwareSpec"),
    "ModelSpec": ("inputs.model", "ModelSpec"),
    "scaled": ("inputs.scaling", "scaled"),
    "Scenario": ("inputs.scenario", "Scenario"),
    "Source": ("inputs.source", "Source"),
    "Traffic": ("inputs.traffic", "Traffic"),
    "DraftModel": ("answers.frontier", "DraftModel"),
    "Explanation": ("answers.explain", "Explanation"),
    "Result": ("studies.results", "Result"),
    "best_step_seconds": ("answers.frontier", "best_step_seconds"),
    "explain": ("answers.explain", "explain"),
    "offer": ("answers.offer", "offer"),
    "price": ("answers.offer", "price"),
    "recommend": ("answers.offer", "choose"),
    "Length": ("inputs.traffic", "Length"),
    "Pins": ("engine.layouts.pins", "Pins"),
    "Requests": ("inputs.traffic", "Requests"),
    "Targets": ("answers.recommend", "Targets"),
    "run": ("studies.scenario", "run"),
    "frontier": ("answers.frontier", "solve"),
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
