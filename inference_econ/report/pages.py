"""Which page shows which answer of the Python API."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inference_econ.report.page import Page

#: The kind of an answer, and the module and class of its page: of all pages only that one is imported.
PAGES: Mapping[str, tuple[str, str]] = {
    "Assessment": ("assess", "AssessmentPage"),
    "Calibrated": ("calibrate", "CalibrationPage"),
    "Disaggregation": ("disaggregated", "DisaggregatedPage"),
    "Explanation": ("explain", "ExplanationPage"),
    "Frontier": ("frontier", "FrontierPage"),
    "HourCost": ("hour_cost", "HourCostPage"),
    "ImpliedHour": ("implied", "ImpliedHourPage"),
    "Inferred": ("infer", "InferencePage"),
    "Intensity": ("intensity", "IntensityPage"),
    "Ledger": ("claims", "ClaimsPage"),
    "LoadCurve": ("load", "LoadPage"),
    "MostTraffic": ("most_traffic", "MostTrafficPage"),
    "Offloading": ("prefix_cache", "PrefixCachePage"),
    "PrefillWays": ("prefill", "PrefillPage"),
    "Recommendation": ("recommend", "RecommendationPage"),
    "RevealedExponents": ("implied", "ExponentsPage"),
    "ServiceFrontier": ("serving_frontier", "ServingFrontierPage"),
    "Sheet": ("price", "PricePage"),
    "Speculated": ("speculate", "SpeculationPage"),
    "Sweep": ("sweep", "SweepPage"),
    "Swept": ("sweep", "SweepPage"),
    "Uncertainty": ("uncertainty", "UncertaintyPage"),
    "Validated": ("validate", "ValidationPage"),
    "WhatIf": ("what_if", "WhatIfPage"),
}


def page(answer: Any) -> Page:
    """The page of an answer, with what its command shows when nothing else is wanted."""
    if type(answer).__name__ == "Result":
        return _of_scenario(answer)
    module, name = PAGES[type(answer).__name__]
    made: Page = getattr(import_module(f"inference_econ.report.{module}"), name).of(answer)
    return made


def _of_scenario(answer: Any) -> Page:
    """The page of the answer to a scenario: of its study, of series side by side, or what all scenarios have."""
    from inference_econ.studies.results import COMPARISON

    if answer.study is not None:
        return page(answer.study)
    if answer.scenario.name == COMPARISON:
        from inference_econ.report.compare import ComparisonPage

        return ComparisonPage.of(answer)
    from inference_econ.report.scenario import ScenarioPage

    return ScenarioPage.of(answer)
