"""A measured deployment beside what could be, as data and in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from inference_econ._shown import Shown
from inference_econ.answers.assess_findings import findings, verdict
from inference_econ.answers.gaps import Assessed, ComparedPoint, Gap, SteadyService
from inference_econ.engine import Setup, bounds
from inference_econ.records.deviations import calibration_record
from inference_econ.records.facts import HEAD, facts
from inference_econ.records.plain import attributes
from inference_econ.records.sources import priced_sources, source_records


@dataclass(frozen=True, slots=True, repr=False)
class Assessment(Assessed, Shown):
    """A measured deployment held against frontiers and a bound: :class:`.gaps.Assessed` has its attributes."""

    page = "report.assess:AssessmentPage"

    @property
    def setups(self) -> Sequence[Setup]:
        """Setup of the measured point."""
        return [self.setup]

    def record(self) -> dict[str, object]:
        """Return gaps, parts of the step, and findings as plain data."""
        gaps = self.gaps
        return {
            **facts(
                self.setup,
                *(*HEAD, "calibration", "weights", "activations", "kv", "context"),
                *(() if self.requests is None else ("isl", "osl", "cached", "shared_prefix")),
                requests=self.requests,
                calibration=calibration_record(*self.subjects()),
            ),
            "dollars_per_accelerator_hour": self.setup.dollars_per_accelerator_hour,
            "verdict": self.verdict_record(),
            "measured": asdict(self.measured),
            "frontiers": {name: _gap_record(gap, fits=self.predicted is not None) for name, gap in gaps.items()},
            "predicted": _point_record(self.predicted, self.same_size),
            "parts": [
                attributes(part, "name seconds ideal_seconds")
                | {f"closes_of_{name}": part.closes(gap) for name, gap in gaps.items()}
                for part in self.parts
            ],
            "unexplained_seconds": self.unexplained_seconds,
            "shortage": asdict(self.shortage) if self.shortage else None,
            "findings": list(findings(self)),
            "sources": source_records(priced_sources(self.setup)),
        }

    def verdict_record(self) -> dict[str, object]:
        """Return the verdict as plain data: beside the prediction and the frontier, and what that rests on."""
        predicted, likely = self.predicted, self.likely_seconds
        return {
            "compared_with": "decode steps" if self.requests is None else "services",
            "beside_prediction": self.expected,
            "beside_frontier": self.anywhere.verdict,
            "measured_seconds": self.measured.seconds,
            "predicted_seconds": None if predicted is None else 1.0 / predicted.tokens_per_second_per_user,
            "predicted_seconds_low": None if likely is None else likely.low,
            "predicted_seconds_high": None if likely is None else likely.high,
            "layouts_tried": self.tried,
            "lines": list(verdict(self)),
        }

    def records(self) -> list[dict[str, object]]:
        """Return the measured point and every deployment beside it, one row each, seconds by part included."""
        measured = asdict(self.measured)
        measured |= {"unexplained_seconds": self.unexplained_seconds}
        rows: list[dict[str, object]] = [{"deployment": "measured", **measured}]
        points = {"predicted": (self.predicted, self.same_size)}
        for name, gap in self.gaps.items():
            points |= {f"{name}_equal_cost": (gap.faster, gap), f"{name}_equal_speed": (gap.cheaper, gap)}
        for name, (point, gap) in points.items():
            row = _point_record(point, gap)
            if point is None or row is None:
                continue
            del row["layout"], row["seconds_per_token"]
            if isinstance(point, SteadyService):
                row["throughput"] = point.throughput
            parts = {f"{part}_seconds": seconds for part, seconds in point.parts.items()}
            throughput = point.batch * point.tokens_per_second_per_user
            rows.append({"deployment": name, "throughput": throughput, **row, **point.layout, **parts})
        return rows


def _gap_record(gap: Gap, *, fits: bool) -> dict[str, object]:
    likely = gap.likely_seconds if fits else None
    return {
        **attributes(gap, "verdict speed_factor"),
        "tokens_per_second_lost": gap.speed_lost,
        "cost_factor": gap.cost_factor,
        "dollars_lost": gap.dollars_lost,
        "gap_seconds": gap.seconds,
        "on_it_seconds": gap.on_it_seconds,
        "on_it_seconds_low": None if likely is None else likely.low,
        "on_it_seconds_high": None if likely is None else likely.high,
        "beyond_uncertainty": gap.certain if fits else None,
        "equal_cost": _point_record(gap.faster, gap),
        "equal_speed": _point_record(gap.cheaper, gap),
    }


def _point_record(point: ComparedPoint | None, gap: Gap) -> dict[str, object] | None:
    if point is None:
        return None
    follows = bounds.FULL if isinstance(point, SteadyService) else bounds.STEP
    return bounds.bounded(point.record(), bounds.ends(gap.instances(point), follows))
