"""Curves in reports, whether their points are services or decode steps alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from inference_econ.answers.service_record import SERVED
from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.engine import Instances, Setup
from inference_econ.inputs import Quantity
from inference_econ.report import frontier as decoding
from inference_econ.report import serving_frontier as serving
from inference_econ.report.speed_cost import frontiers_title, speed_question
from inference_econ.report.startable import doubts, grounds
from inference_econ.report.table import Frame, frame_of, scale_notes
from inference_econ.search import Frontier, Metric
from inference_econ.studies.results import AnyFrontier, Curve


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


def curve_record(front: AnyFrontier) -> dict[str, object]:
    """A frontier as plain data, the fastest point last."""
    if isinstance(front, ServiceFrontier):
        return serving.service_frontier_record(front)
    return decoding.frontier_record(front)


def curve_details(front: AnyFrontier) -> dict[str, list[float | str]]:
    """Texts of hovering over the points of a frontier."""
    if isinstance(front, ServiceFrontier):
        return serving.point_details(front)
    return decoding.point_details(front)


def curve_columns(curve: Curve) -> dict[str, object]:
    """The numbers of a curve by their names, those of services with their latencies; arrays of shape (n,)."""
    columns: dict[str, object] = {
        "tokens_per_second_per_user": curve.tokens_per_second,
        "dollars_per_million_output_tokens": curve.dollars,
        "accelerators": curve.accelerators,
        "batch": curve.batch,
    }
    if isinstance(curve.frontier, ServiceFrontier):
        front = curve.frontier
        columns |= {
            "ttft_seconds": front.ttft_seconds,
            "tpot_seconds": front.tpot_seconds,
            "concurrency": front.concurrency,
        }
    return columns


def stacked(frames: Iterable[Frame]) -> Frame:
    """Rows of several frames as one; what a frame has no column or no value for is missing.

    Row by row, since releases of pandas differ in what a column becomes that one frame has no value of.
    """
    return frame_of([row for frame in frames for row in frame.to_dict("records")])


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


def setups_of(curves: Sequence[Curve]) -> list[Setup]:
    """Setups of series that have a frontier."""
    return [curve.frontier.setup for curve in curves if curve.frontier is not None]
