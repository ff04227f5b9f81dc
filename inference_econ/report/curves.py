"""Curves in reports, whether their points are services or decode steps alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inference_econ.answers.heading import frontiers_title
from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.answers.startable import doubts, grounds
from inference_econ.engine import Instances
from inference_econ.inputs import Quantity
from inference_econ.records.deviations import SERVED
from inference_econ.report import frontier as decoding
from inference_econ.report import serving_frontier as serving
from inference_econ.report.speed_cost import speed_question
from inference_econ.report.table import scale_notes
from inference_econ.search import Frontier, Metric
from inference_econ.studies.results import AnyFrontier


def picture_title(fronts: Sequence[AnyFrontier], y: Metric = "cost") -> str:
    """The question that a picture of some frontiers of one kind answers, above their heading."""
    services = any(isinstance(front, ServiceFrontier) for front in fronts)
    question = speed_question(y, f"What does {'serving' if services else 'decoding'} cost at each speed?")
    return f"{question}\n{frontiers_title(fronts)}"


def measured_lengths(front: AnyFrontier) -> tuple[float, float] | None:
    """Input and output tokens of requests that measured servers can be held against; None without such."""
    if isinstance(front, Frontier):
        return decoding.lengths_of(front)
    requests = front.requests
    return (requests.isl.mean, requests.osl.mean) if serving.measured_alike(front) else None


def curve_details(front: AnyFrontier) -> dict[str, list[float | str]]:
    """Texts of hovering over the points of a frontier."""
    if isinstance(front, ServiceFrontier):
        return serving.point_details(front)
    return decoding.point_details(front)


def warned(fronts: Mapping[str, AnyFrontier]) -> list[str]:
    """Warnings on some series, which a reader must not miss."""
    setups = [front.setup for front in fronts.values()]
    return [*doubts(setups, _preferred(fronts)), *scale_notes(setups)]


def assumed(fronts: Mapping[str, AnyFrontier]) -> list[str]:
    """The assumptions of some series of one kind, and how far off their preferred points may be."""
    named = {label: front.setup.assumptions.name for label, front in fronts.items()}
    shown = [
        f"{name} ({', '.join(label for label, other in named.items() if other == name)})"
        for name in dict.fromkeys(named.values())
    ]
    text = next(iter(named.values())) if len(shown) == 1 else ", ".join(shown)
    services = any(isinstance(front, ServiceFrontier) for front in fronts.values())
    predicted: Sequence[Quantity] = SERVED if services else ("tpot",)
    return [
        f"Assumptions: {text}.",
        *grounds((front.setup for front in fronts.values()), _preferred(fronts), predicted),
    ]


def _preferred(fronts: Mapping[str, AnyFrontier]) -> list[Instances]:
    """The preferred points of some series, with their labels if there are several."""
    return [
        instances._replace(label=label if len(fronts) > 1 else "")
        for label, front in fronts.items()
        for instances in front.preferred_subjects()
    ]
