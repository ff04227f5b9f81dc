"""Which page shows which answer of the Python API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from inference_econ.answers.assessment import Assessment
from inference_econ.answers.disaggregated.answer import Disaggregation
from inference_econ.answers.explain import Explanation
from inference_econ.answers.hour_cost import HourCost
from inference_econ.answers.implied import ImpliedHour, RevealedExponents
from inference_econ.answers.intensity import Intensity
from inference_econ.answers.load import LoadCurve
from inference_econ.answers.most_traffic import MostTraffic
from inference_econ.answers.prefill import PrefillWays
from inference_econ.answers.prefix_cache import Offloading
from inference_econ.answers.price import Sheet
from inference_econ.answers.recommend import Recommendation
from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.answers.speculate import Speculated
from inference_econ.calibration.calibrate import Calibrated
from inference_econ.calibration.validation.validated import Validated
from inference_econ.report.assess import AssessmentPage
from inference_econ.report.calibrate import CalibrationPage
from inference_econ.report.claims import ClaimsPage
from inference_econ.report.compare import ComparisonPage
from inference_econ.report.disaggregated import DisaggregatedPage
from inference_econ.report.explain import ExplanationPage
from inference_econ.report.frontier import FrontierPage
from inference_econ.report.hour_cost import HourCostPage
from inference_econ.report.implied import ExponentsPage, ImpliedHourPage
from inference_econ.report.infer import InferencePage
from inference_econ.report.intensity import IntensityPage
from inference_econ.report.load import LoadPage
from inference_econ.report.most_traffic import MostTrafficPage
from inference_econ.report.page import Page
from inference_econ.report.prefill import PrefillPage
from inference_econ.report.prefix_cache import PrefixCachePage
from inference_econ.report.price import PricePage
from inference_econ.report.recommend import RecommendationPage
from inference_econ.report.scenario import ScenarioPage
from inference_econ.report.serving_frontier import ServingFrontierPage
from inference_econ.report.speculate import SpeculationPage
from inference_econ.report.sweep import SweepPage
from inference_econ.report.uncertainty import UncertaintyPage
from inference_econ.report.validate import ValidationPage
from inference_econ.report.what_if import WhatIfPage
from inference_econ.search import Frontier
from inference_econ.studies.inference import Inferred
from inference_econ.studies.ledger import Ledger
from inference_econ.studies.results import COMPARISON, Result
from inference_econ.studies.sweep.stored import Sweep
from inference_econ.studies.swept import Swept
from inference_econ.studies.uncertainty.answer import Uncertainty
from inference_econ.studies.what_if import WhatIf


def scenario_page(answer: Result) -> Page:
    """The page of the answer to a scenario: that of its study, or what all scenarios have."""
    return ScenarioPage(answer) if answer.study is None else page(answer.study)


def _result(answer: Result) -> Page:
    return ComparisonPage(answer) if answer.scenario.name == COMPARISON else scenario_page(answer)


def _validated(answer: Validated) -> Page:
    return ValidationPage(
        lambda: answer.servers, None, beyond=lambda _: None, command="inference-econ validate", named=True
    )


_PAGES: Mapping[type, Callable[[Any], Page]] = {
    Assessment: AssessmentPage,
    Calibrated: lambda answer: CalibrationPage(answer.fitted, answer.folds, answer.left_out),
    Disaggregation: lambda answer: DisaggregatedPage(answer.comparison, answer.fleet, answer.together),
    Explanation: ExplanationPage,
    Frontier: FrontierPage,
    HourCost: HourCostPage,
    Ledger: ClaimsPage,
    Intensity: IntensityPage,
    ImpliedHour: ImpliedHourPage,
    Inferred: InferencePage,
    LoadCurve: lambda answer: LoadPage(answer.points, answer.targets, answer.arrival_scv, answer.bursts, answer.pick),
    MostTraffic: lambda answer: MostTrafficPage(answer.choices, answer.means, answer.targets),
    Offloading: PrefixCachePage,
    PrefillWays: PrefillPage,
    Recommendation: lambda answer: RecommendationPage(answer.choices, answer.targets, layouts=answer.layouts),
    Result: _result,
    RevealedExponents: ExponentsPage,
    ServiceFrontier: lambda answer: ServingFrontierPage(answer, "cost"),
    Sheet: PricePage,
    Speculated: SpeculationPage,
    Uncertainty: UncertaintyPage,
    Sweep: lambda answer: SweepPage(answer.summary()),
    Swept: SweepPage,
    Validated: _validated,
    WhatIf: WhatIfPage,
}


def page(answer: object) -> Page:
    """The page of an answer, with what its command shows when nothing else is wanted."""
    return _PAGES[type(answer)](answer)
