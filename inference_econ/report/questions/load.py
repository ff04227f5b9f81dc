"""Pages of one deployment at several concurrencies, and of a fleet under several loads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from inference_econ.answers.deployments.deployment import layout_of, under_load
from inference_econ.answers.load import DeploymentEstimate, LoadCurve, LoadPoint
from inference_econ.answers.price import Sheet
from inference_econ.answers.slo import NAMES, Targets
from inference_econ.engine import bounds
from inference_econ.inputs.workload.percentiles import in_order
from inference_econ.records.deviations import SEEN, SERVED
from inference_econ.records.texts import amount, assumptions_label, layout_label
from inference_econ.report import charts, speed_cost
from inference_econ.report.fields import Column, Record, field, view
from inference_econ.report.headings import enumerated
from inference_econ.report.notes import doubts, grounds
from inference_econ.report.page import AnswerPage, Table
from inference_econ.report.service import (
    arrivals_label,
    burstiness_note,
    chances_column,
    chances_meaning,
    chances_notes,
    fleet_label,
    picked,
    power_columns,
    service_title,
    started,
    unknown_chances,
    with_notes,
)
from inference_econ.serving import (
    Gamma,
    Loaded,
    Service,
    delays_prefill,
    needs_simulation,
    seen,
    simulate_where_needed,
)

if TYPE_CHECKING:
    from inference_econ.answers.launching.plan import Start

#: Percentiles of each latency that are shown in addition to the percentiles of SLOs.
_PERCENTILES = {"ttft": {"p50", "p99"}, "tpot": {"p50", "p99"}, "e2e": {"p99"}}
#: Percentiles that narrow pages leave out, unless they have an SLO.
_LEAST = (("tpot", "p50"), ("ttft", "p50"), ("e2e", "p99"), ("tpot", "p99"), ("ttft", "p99"))
#: Maximum recommended load, as a share of the capacity [1]; slightly above this load, queues grow without bound.
_FULLEST = 0.85
#: Percentiles of a chart; the last one has a band, and the percentile of an SLO replaces it.
_DRAWN = ("p50", "p90")
#: Maximum number of loads in the lines of a chart for other arrivals than assumed [1].
_COMPARED = 6


class LoadPage(AnswerPage[LoadCurve]):
    """Page of a fleet under several loads."""

    def tables(self) -> Sequence[Table]:
        """Table with one row per load.

        If loads were simulated, a second table compares simulated and analytical latencies.
        """
        points, targets, bursts = self.answer.points, self.answer.targets, self.answer.bursts
        notes = [_capacity_note(points)]
        if bursts is not None:
            notes.append(burstiness_note(bursts, targets))
        elif rates := _doubtful(points):
            notes.append(f"{rates}. Remove --no-simulate to simulate these rates.")
        why = picked(points[0].sheet.service, self.answer.pick)
        why += [] if bursts is not None else ["All latencies come from the analytical model; nothing was simulated."]
        loads = with_notes(load_table(self.answer), notes, why)
        played = [point for point in points if point.simulated is not None]
        return (loads, simulation_table(played)) if played else (loads,)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Charts of latencies and cost against the load."""
        points, assumed, bursts = self.answer.points, self.answer.arrival_scv, self.answer.bursts
        under = {assumed: [point.load for point in points]}
        if bursts is not None:
            under = {scv: loads_under(points, scv, assumed) for scv in (assumed, bursts.other_scv)}
        title = f"How do latency and token cost change with the load?\n{_heading(points[0].sheet)}"
        return {"load": charts.line_charts(load_charts(points, under, self.answer.targets), title)}

    def start(self) -> Start:
        """Fleet at the largest recommended load, as input of a launch plan."""
        from inference_econ.report.deployment_reader import start_of  # only launch plans need it

        point = self.recommended()
        which = f"the fleet at {point.requests_per_second:.4g} requests/s"
        return start_of(point.sheet, self.answer.targets, which)

    def recommended(self) -> LoadPoint:
        """Largest load within the SLOs and below the recommended maximum; the smallest load if no load meets both."""
        points, targets = self.answer.points, self.answer.targets
        light = [
            point for point in points if point.load.utilization <= _FULLEST and not targets.first_violated(point.load)
        ]
        lightest = min(points, key=lambda point: point.load.utilization)
        return max(light, key=lambda point: point.load.utilization, default=lightest)


def load_table(curve: LoadCurve) -> Table:
    """Table of latencies and costs, one row per load."""
    points, targets = curve.points, curve.targets
    promised = points[0].kept is not None
    sheet = points[0].sheet
    setup = sheet.service.setup
    shown = [(name, which) for name in NAMES for which in in_order(_PERCENTILES[name] | _promised_of(name, targets))]
    chances = [point.chances for point in points]
    columns: list[Column] = [
        *("request_rate", "utilization", "concurrency_per_replica"),
        *(f"{name}_seconds.{which}" for name, which in shown),
        *(("slo_met_share", "good_requests_per_second") if promised else ()),
        *chances_column(targets, chances),
        *(("dollars_per_million_tokens", "dollars_per_million_output_tokens") if setup.is_priced else ()),
        *power_columns([setup]),
    ]
    subjects = under_load((point.sheet.service, point.load) for point in points)
    notes = [*_load_notes(points), *doubts([setup], subjects)]
    bill = f": ${sheet.dollars_per_hour:,.2f} per hour, busy or idle" if setup.is_priced else ""
    why = [f"Fleet: {fleet_label(sheet.service, sheet.replicas)}{bill}. Assumptions: {setup.assumptions.name}."]
    if rates := _doubtful(point for point in points if point.load.played):
        why.append(f"{rates}. Latencies at these rates are simulated.")
    if promised:
        limits = " and ".join(f"{name.upper()} <= {1e3 * value:.6g} ms" for name, value in targets.given.items())
        why.append(
            f"'SLO met %': share of requests with {limits}. 'goodput/s': requests per second that meet the SLOs."
        )
        why += chances_meaning(targets, chances)
        notes += [*unknown_chances(targets, chances), *chances_notes(targets, chances)]
        if targets.confidence is not None:
            why.append(f"These two columns include a margin for {100 * targets.confidence:g}% confidence.")
    why += [*_delay_notes(sheet.service), *grounds([setup], subjects, SEEN)]
    least = (
        *("board_watts", "joules_per_output_token", "concurrency_per_replica", "good_requests_per_second"),
        "dollars_per_million_output_tokens",
        *(f"{name}_seconds.{which}" for name, which in _LEAST if which not in _promised_of(name, targets)),
    )
    return view(_heading(sheet, targets), curve.records(), columns, notes=notes, why=why, least=least)


def _heading(sheet: Sheet, targets: Targets | None = None) -> str:
    """Heading with the fleet, its setup and the SLOs."""
    layout = layout_of(sheet.service)
    fleet = f"{sheet.replicas} x {layout_label(layout)}{started(layout)}"
    return service_title(f"Load on {fleet}", [sheet.service], promises=targets)


def _capacity_note(points: Sequence[LoadPoint]) -> str:
    """Note on the capacity of the fleet, and on request rates above this capacity."""
    sheet = points[0].sheet
    most = sheet.replicas * sheet.service.most_requests_per_second
    if rates := _rates(point for point in points if point.load.saturated):
        return f"OVERLOADED at {rates} requests/s: queues grow without bound above {most:.4g} requests/s."
    return f"Capacity: {most:.4g} requests/s."


def _delay_notes(service: Service) -> list[str]:
    """Sentence on the part of TTFT in which attention-DP groups delay prefill; empty without a delay."""
    if not delays_prefill(service):
        return []
    return [
        f"With concurrent requests, TTFT includes a delay of at most {service.setup.held_steps:g} decode steps, until "
        "every attention-DP group has a prompt. Change it with --set assumptions.serving.held_steps=N (0: no delay)."
    ]


def _load_notes(points: Sequence[LoadPoint]) -> Iterator[str]:
    """Notes on preemptions and cache hits in the simulations."""
    sheet = points[0].sheet
    shares = [
        f"{100 * point.simulated.preemptions / point.simulated.ttft.size:.2g}% at {point.requests_per_second:.4g}"
        for point in points
        if point.simulated is not None and point.simulated.preemptions
    ]
    if shares:
        yield f"The KV cache runs full, so requests are preempted and recomputed: {', '.join(shares)} requests/s."
    reuse = [
        f"{100 * point.hit_rate:.1f}% at {point.requests_per_second:.4g} requests/s"
        for point in points
        if point.hit_rate is not None
    ]
    if reuse:
        requests = sheet.service.requests
        yield (
            f"Cache hits: {', '.join(reuse)} (simulated per block). With an unlimited shared cache, the hit rate would "
            f"be {100 * requests.cached / requests.isl.mean:.1f}%."
        )


def _rates(points: Iterable[LoadPoint]) -> str:
    return enumerated(f"{point.requests_per_second:.4g}" for point in points)


def _doubtful(points: Iterable[LoadPoint]) -> str:
    """Sentence on loads outside the validated range of the analytical model; empty if there are none."""
    rates = _rates(point for point in points if needs_simulation(point.sheet.service, point.closed))
    if not rates:
        return ""
    return (
        f"At {rates} requests/s, the analytical queueing model may be off by more than 10%, because of high load, "
        "bursty arrivals, varied lengths or long prefill"
    )


def _promised_of(name: str, targets: Targets) -> set[str]:
    """Statistic of the SLO on a latency, as a set; empty without an SLO."""
    return {targets.percentile_of(name)} if name in targets.given else set()


def simulation_table(points: Sequence[LoadPoint]) -> Table:
    """Table of analytical and simulated latencies, one row per simulated load."""
    columns = (
        "requests/s",
        "concurrency",
        "sim.",
        *("TTFT", "sim.", "±", "p99", "sim."),
        *("TPOT", "sim.", "±", "p99", "sim."),
    )
    rows = []
    for point in points:
        load, trace = point.closed, point.simulated
        assert trace is not None
        summary = trace.summary()
        row = [f"{point.requests_per_second:.4g}", amount(load.in_flight), amount(trace.in_flight)]
        for ours, simulated in ((load.ttft_seconds, summary["ttft"]), (load.tpot_seconds, summary["tpot"])):
            if math.isfinite(ours["mean"]):
                mean, tail = simulated["mean"], simulated["p99"]
                times = ours["mean"], mean.value, mean.half_width, ours["p99"], tail.value
                row += ["" if math.isnan(seconds) else amount(1e3 * seconds) for seconds in times]
            else:
                row += ["grows", "grows", "", "grows", "grows"]
        rows.append(tuple(row))
    first = points[0].simulated
    count = 0 if first is None else first.ttft.size
    why = [
        f"Each simulation has {count} random requests per instance, and the step times of the analytical model. ±: "
        "half of the 95% confidence interval."
    ]
    if points[0].sheet.service.speculation is not None:
        why.append("The simulation splits a speculation round into one-token steps, so its TTFT is slightly too short.")
    return Table("Analytical and simulated (sim.) latencies: mean and p99 (ms)", columns, tuple(rows), why=tuple(why))


def loads_under(points: Sequence[LoadPoint], arrival_scv: float, assumed_scv: float) -> list[Loaded]:
    """Evaluate an instance at the loads of some points under given arrivals.

    Under the assumed arrivals, the points already have the loads and simulated latencies. Under other arrivals,
    loads outside the validated range of the analytical model are simulated, which takes about a second for each. At
    most :data:`_COMPARED` evenly spaced points are evaluated then, including the last.
    """
    if arrival_scv == assumed_scv:
        return [point.load if point.simulated is None else seen(point.load, point.simulated) for point in points]
    service, replicas = points[0].sheet.service, points[0].sheet.replicas
    load = simulate_where_needed(service, Gamma(arrival_scv))
    compared = points[:: -math.ceil(len(points) / _COMPARED)][::-1]
    return [load(point.load.requests_per_second, replicas) for point in compared]


def load_charts(
    points: Sequence[LoadPoint], under: Mapping[float, Sequence[Loaded]], targets: Targets
) -> list[charts.Plot]:
    """Create the chart data of TTFT, TPOT and cost against the load.

    Latencies are shown under several kinds of arrivals, with their SLOs.

    Parameters
    ----------
    points : sequence of LoadPoint
        Fleet under some loads.
    under : mapping of float to sequence of Loaded
        Loads of an instance under each kind of arrivals, by the squared coefficient of variation of the interarrival
        times [1]. The assumed arrivals are first, with a load for each point; others may have fewer loads.
    targets : Targets
        SLOs.
    """
    rates, sheet = [point.requests_per_second for point in points], points[0].sheet
    most = sheet.replicas * sheet.service.most_requests_per_second
    mark, x_label = {f"completes {most:.4g} requests/s at most": most}, "requests per second"
    assumed = next(iter(under))
    (instances,) = under_load((sheet.service, load) for load in under[assumed])
    around = bounds.ends(instances, bounds.LOAD)
    plots = []
    for name, title in (("ttft", "Time to first token"), ("tpot", "Time per output token")):
        drawn = (_DRAWN[0], *(_promised_of(name, targets) - {_DRAWN[0]} or _DRAWN[1:]))
        lines = []
        for scv, loads in under.items():
            x = rates if scv == assumed else [load.requests_per_second * sheet.replicas for load in loads]
            for statistic in drawn:
                # Percentiles of a latency [ms]; gaps where queues grow without bound.
                seconds = [getattr(load, f"{name}_seconds")[statistic] for load in loads]
                values = [1e3 * value if math.isfinite(value) else math.nan for value in seconds]
                banded = scv == assumed and statistic == drawn[-1]
                band = speed_cost.around_line(rates, values, around[f"{name}_seconds"]) if banded else None
                lines.append(charts.PlotSeries(f"{statistic}, {arrivals_label(scv)}", x, values, band=band))
        slo = {}
        if name in targets.given:
            limit = 1e3 * targets.given[name]
            slo = {f"SLO: {targets.percentile_of(name)} {name.upper()} <= {limit:.6g} ms": limit}
        caption = f"{speed_cost.bands_label([sheet.service.setup])}, around {drawn[-1]}"
        plots.append(charts.Plot(title, x_label, "milliseconds", tuple(lines), "y", mark, bands=caption, promises=slo))
    if not sheet.service.setup.is_priced:
        return plots
    costs = tuple(
        charts.PlotSeries(label, rates, [getattr(point.sheet, f"dollars_per_million_{tokens}") for point in points])
        for label, tokens in (("$/M of all tokens", "tokens"), ("$/M of output tokens", "output_tokens"))
    )
    return [*plots, charts.Plot("Cost", x_label, "US dollars per million tokens", costs, "y", mark, dollars="y")]


#: Columns that narrow terminals leave out, least important first.
_LEAST_OF_STATES = ("joules_per_output_token", "e2e_seconds", "requests_per_second")


class EstimatePage(AnswerPage[DeploymentEstimate]):
    """Page that shows one deployment at several concurrencies."""

    def tables(self) -> Sequence[Table]:
        """Table with one row per concurrency."""
        answer, records = self.answer, self.answer.records()
        columns: list[Column] = [
            "concurrency", "requests_per_second", "ttft_seconds", _with_interval(records, "tpot_seconds"),
            "e2e_seconds", "tokens_per_second_per_user", "tokens_per_second_per_accelerator",
            *([_with_interval(records, "dollars_per_million_output_tokens")] if answer.states.setup.is_priced else []),
            *(["joules_per_output_token"] if records[0]["joules_per_output_token"] is not None else []),
        ]  # fmt: skip
        subjects = answer.states.subjects()
        title = service_title(
            f"Estimate for {fleet_label(answer.service, answer.replicas)}", [answer.service], self.setups()
        )
        notes = ("TTFT excludes queueing; --request-rate includes queueing.", *doubts(self.setups(), subjects))
        why = (
            "Concurrency and requests/s are totals over all replicas. Parentheses contain 80% intervals.",
            f"This layout was selected from {answer.pick.layouts} by this criterion: {answer.pick.rule}. "
            f"Assumptions: {assumptions_label(self.setups())}.",
            *_delay_notes(answer.service),
            *grounds(self.setups(), subjects, SERVED),
        )
        return (view(title, records, columns, kind="estimate_point", notes=notes, why=why, least=_LEAST_OF_STATES),)


def _with_interval(records: Sequence[Record], name: str) -> tuple[str, list[str]]:
    """Heading and table cells of a field, with its 80% interval in parentheses."""
    shown = field(name, "estimate_point")
    cells = []
    for record in records:
        low, high = record.get(f"{name}_low"), record.get(f"{name}_high")
        interval = "" if low is None or high is None else f" ({shown.text(low)}-{shown.text(high)})"
        cells.append(f"{shown.text(record[name])}{interval}")
    return shown.head(), cells
