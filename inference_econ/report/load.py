"""Loads of a fleet as tables, data and charts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inference_econ.answers.load import LoadPoint
from inference_econ.answers.promises import Targets
from inference_econ.answers.subjects import under_load
from inference_econ.report import caveats
from inference_econ.report.page import Page
from inference_econ.report.record import finite_or_none
from inference_econ.report.service import (
    SEEN,
    bounded_load,
    finite,
    fleet_label,
    milliseconds,
    service_record,
    service_title,
)
from inference_econ.report.startable import startable_notes
from inference_econ.report.table import Table, dollars
from inference_econ.serving import Trace, is_unproven
from inference_econ.studies.exhibits import Chart, Line

if TYPE_CHECKING:
    import pandas as pd

_PERCENTILES = ("p50", "p99")
#: Times of the simulation, by the names of their fields.
_SIMULATED = {
    "ttft_seconds": "ttft",
    "tpot_seconds": "tpot",
    "e2e_seconds": "e2e",
    "e2e_seconds_per_output_token": "e2e_per_output_token",
}


@dataclass(frozen=True)
class LoadPage(Page):
    """A fleet under some loads, ready to be shown.

    Attributes
    ----------
    points : sequence of LoadPoint
        One per load.
    targets : Targets
        What is promised.
    """

    points: Sequence[LoadPoint]
    targets: Targets

    def tables(self) -> Sequence[Table]:
        """One row per load; the same loads in the simulation, if they were played."""
        loads = load_table(self.points, self.targets)
        played = [point for point in self.points if point.simulated is not None]
        return (loads, simulation_table(played)) if played else (loads,)

    def record(self) -> object:
        """The fleet and its loads."""
        return load_sweep_record(self.points, self.targets)

    def frame(self) -> pd.DataFrame:
        """Every load, unrounded."""
        return load_frame(self.points)

    def draw(self, path: str) -> None:
        """Draw latencies and cost against the load."""
        from inference_econ.report import figures

        figures.draw_charts(load_charts(self.points), path, self.tables()[0].title)


def load_table(points: Sequence[LoadPoint], targets: Targets) -> Table:
    """What users see and what tokens cost, one row per load."""
    promised = points[0].kept is not None
    columns = [
        *("requests/s", "busy %", "in flight"),
        *(f"TTFT {name} ms" for name in _PERCENTILES),
        *(f"TPOT {name} ms" for name in _PERCENTILES),
        "E2E p99 s",
        *(("kept %", "good/s") if promised else ()),
        *("$/M tokens", "$/M output"),
    ]
    rows = []
    for point in points:
        load = point.load
        row = [f"{point.requests_per_second:.4g}", f"{100 * load.utilization:.0f}", f"{load.in_flight:.1f}"]
        row += [_or_without_end(load.ttft_seconds[name]) for name in _PERCENTILES]
        row += [milliseconds(load.tpot_seconds[name]) for name in _PERCENTILES]
        row.append(f"{load.e2e_seconds['p99']:.3g}" if math.isfinite(load.e2e_seconds["p99"]) else "grows")
        if point.kept is not None and point.good_per_second is not None:
            row += [f"{100 * point.kept:.1f}", f"{point.good_per_second:.3g}"]
        row += [dollars(point.sheet.dollars_per_million_tokens), dollars(point.dollars_per_million_output_tokens)]
        rows.append(tuple(row))
    sheet = points[0].sheet
    setup, fleet = sheet.service.setup, fleet_label(sheet.service, sheet.replicas)
    notes = [
        f"{fleet}, at {setup.price_label}: ${sheet.dollars_per_hour:,.2f} per hour, "
        f"idle or not. Assumptions: {setup.assumptions.name}.",
        *_saturation(points),
        *_unproven(points),
    ]
    if promised:
        notes.append(f"Kept: requests with {_promises(targets)}; good/s: such requests per second.")
    notes += startable_notes([setup])
    notes += caveats.remarks(under_load((point.sheet.service, point.load) for point in points), SEEN)
    return Table(service_title(sheet.service), tuple(columns), tuple(rows), tuple(notes))


def _saturation(points: Sequence[LoadPoint]) -> list[str]:
    """From which load on the fleet is saturated, in words."""
    sheet = points[0].sheet
    most = sheet.replicas * sheet.service.most_requests_per_second
    saturated = [point for point in points if point.load.saturated]
    if not saturated:
        return [f"It completes {most:.4g} requests/s at most."]
    rates = ", ".join(f"{point.requests_per_second:.4g}" for point in saturated)
    return [
        f"SATURATED at {rates} requests/s: it completes {most:.4g} at most, queues grow without end, and the rest is "
        "not served."
    ]


def _unproven(points: Sequence[LoadPoint]) -> list[str]:
    """At which loads the closed forms of the table are doubtful, in words."""
    doubtful = [point for point in points if is_unproven(point.sheet.service, point.closed)]
    if not doubtful:
        return []
    rates = ", ".join(f"{point.requests_per_second:.4g}" for point in doubtful)
    return [
        f"At {rates} requests/s it is too full, lengths vary too much or prompts take too much of the time for closed "
        "forms to be within 10 %: the simulation has played these loads, and counts there."
    ]


def _promises(targets: Targets) -> str:
    return " and ".join(f"{name.upper()} <= {milliseconds(value)} ms" for name, value in targets.given.items())


def _or_without_end(seconds: float) -> str:
    return milliseconds(seconds) if math.isfinite(seconds) else "grows"


def simulation_table(points: Sequence[LoadPoint]) -> Table:
    """The closed forms beside the simulation, one row per load that was simulated."""
    columns = (
        "requests/s",
        "in flight",
        "sim.",
        *("TTFT", "sim.", "±", "p99", "sim."),
        *("TPOT", "sim.", "±", "p99", "sim."),
    )
    rows = []
    for point in points:
        load, trace = point.closed, point.simulated
        assert trace is not None
        summary = trace.summary()
        row = [f"{point.requests_per_second:.4g}", f"{load.in_flight:.1f}", f"{trace.in_flight:.1f}"]
        for ours, simulated in ((load.ttft_seconds, summary["ttft"]), (load.tpot_seconds, summary["tpot"])):
            if math.isfinite(ours["mean"]):
                mean, tail = simulated["mean"], simulated["p99"]
                times = ours["mean"], mean.value, mean.half_width, ours["p99"], tail.value
                row += [_shown(1e3 * seconds) for seconds in times]
            else:
                row += ["grows", "grows", "", "grows", "grows"]
        rows.append(tuple(row))
    first = points[0].simulated
    count = 0 if first is None else first.ttft.size
    notes = [
        f"Simulated: {count} random requests per load and instance, one by one, with the same step times; ± is half "
        "of the 95 % confidence interval."
    ]
    if points[0].sheet.service.speculation is not None:
        notes.append("Rounds of speculation are simulated as steps of one token each, so that first tokens come early.")
    return Table("The same loads in the simulation (sim.): means and p99 in ms", columns, tuple(rows), tuple(notes))


def _shown(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4g}"


def load_sweep_record(points: Sequence[LoadPoint], targets: Targets) -> dict[str, object]:
    """A fleet and its loads as plain data; latencies without end are null."""
    first = points[0].sheet
    return {
        **service_record(first.service, first.replicas, *(point.load for point in points)),
        "dollars_per_accelerator_hour": first.service.setup.dollars_per_accelerator_hour,
        "dollars_per_hour": first.dollars_per_hour,
        "targets": finite({f"{name}_seconds": seconds for name, seconds in targets.every.items()}),
        "points": [_point_record(point) for point in points],
    }


def _point_record(point: LoadPoint) -> dict[str, object]:
    record: dict[str, object] = {
        **bounded_load(point.sheet.service, point.load, point.sheet.replicas),
        "kept_share": point.kept,
        "good_requests_per_second": point.good_per_second,
        "dollars_per_million_tokens": point.sheet.dollars_per_million_tokens,
        "dollars_per_million_output_tokens": point.dollars_per_million_output_tokens,
    }
    if point.simulated is not None:
        record["simulated"] = _simulated_record(point.simulated, saturated=point.load.saturated)
    return record


def _simulated_record(trace: Trace, *, saturated: bool) -> dict[str, object]:
    summary = trace.summary()
    record: dict[str, object] = {
        "requests": trace.ttft.size,
        "completed_requests_per_second_per_instance": trace.requests_per_second,
        "in_flight_per_instance": trace.in_flight,
        "busy": trace.busy,
    }
    for key, name in _SIMULATED.items():
        endless = saturated and name != "tpot"
        record[key] = {
            statistic: None if endless else finite_or_none(estimate.value)
            for statistic, estimate in summary[name].items()
        }
        record[key.replace("seconds", "half_widths")] = {
            statistic: None if endless else finite_or_none(estimate.half_width)
            for statistic, estimate in summary[name].items()
        }
    return record


def load_frame(points: Sequence[LoadPoint]) -> pd.DataFrame:
    """Every load, one row each, unrounded; what has no end is empty."""
    import pandas as pd

    return pd.DataFrame([_flat(_point_record(point)) for point in points])


def _flat(record: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested names joined by underscores."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        flat |= _flat(value, f"{before}{name}_") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return flat


def load_charts(points: Sequence[LoadPoint]) -> list[Chart]:
    """TTFT, TPOT and cost against the load; what was simulated as points."""
    rates = [point.requests_per_second for point in points]
    sheet = points[0].sheet
    mark = {"completes at most": sheet.replicas * sheet.service.most_requests_per_second}
    costs = (
        Line("$/M of all tokens", rates, [point.sheet.dollars_per_million_tokens for point in points]),
        Line("$/M of output tokens", rates, [point.dollars_per_million_output_tokens for point in points]),
    )
    x_label, y_label = "requests per second", "milliseconds"
    return [
        Chart("time to first token", x_label, y_label, tuple(_latencies(points, rates, "ttft")), "y", mark),
        Chart("time per output token", x_label, y_label, tuple(_latencies(points, rates, "tpot")), "y", mark),
        Chart("cost", x_label, "US dollars per million tokens", costs, "y", mark),
    ]


def _latencies(points: Sequence[LoadPoint], rates: Sequence[float], name: str) -> Iterator[Line]:
    for statistic in _PERCENTILES:
        seconds = [getattr(point.load, f"{name}_seconds")[statistic] for point in points]
        yield Line(statistic, rates, [1e3 * value if math.isfinite(value) else math.nan for value in seconds])
    for statistic in _PERCENTILES:
        simulated = [
            1e3 * point.simulated.summary()[name][statistic].value
            if point.simulated is not None and not (point.load.saturated and name == "ttft")
            else math.nan
            for point in points
        ]
        if not all(map(math.isnan, simulated)):
            yield Line(f"{statistic}, simulated", rates, simulated, points=True)
