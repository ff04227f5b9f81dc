"""Results for agents as tables and charts: capacity, cost of tasks, and cache hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from inference_econ.answers.deployments.deployment import under_load
from inference_econ.answers.launching.plan import Start
from inference_econ.answers.slo import Targets
from inference_econ.engine import Setup
from inference_econ.extras.agents.agents import AgentPurchase, DayOfAgents
from inference_econ.extras.agents.simulation import (
    AgentCurve,
    AgentDeployment,
    AgentLoad,
    AgentPoint,
    AgentRecommendation,
    AgentSheet,
    MostAgents,
    use_record,
)
from inference_econ.extras.fleets.buy_page import BuyPage
from inference_econ.extras.fleets.day_page import FleetPage
from inference_econ.records.deviations import SEEN
from inference_econ.records.texts import amount, assumptions_label, dollars, per_hour
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, PlotSeries
from inference_econ.report.deployment_reader import agents_said, start_of
from inference_econ.report.fields import view
from inference_econ.report.headings import heading
from inference_econ.report.notes import doubts, grounds
from inference_econ.report.page import AnswerPage, Pieces, Table
from inference_econ.report.questions.price import PricePage
from inference_econ.report.questions.recommend import (
    RecommendationPage,
    choice_label,
    choices_table,
    several_chips,
    shown_record,
)
from inference_econ.report.service import chances_column, chances_meaning, fleet_label, fleet_name, milliseconds, picked

#: Columns of all tables on agents, and columns that are omitted on a narrow terminal.
_UNITS = ("hit_rate", "tasks_per_hour", "dollars_per_task", "dollars_per_agent_hour")
_LEAST = ("task_seconds", "tasks_per_hour", "agents_per_megawatt", "concurrency_per_replica")
#: Note on the cache of disaggregated deployments that serve sessions.
_REREAD = (
    "Prefill instances (P) cache prompts, but recompute the outputs of earlier turns. Decode instances (D) receive the "
    "whole KV cache of each prompt.",
)
#: Maximum number of requests of a session in a chart [1].
_SHOWN = 40


class AgentCurvePage(AnswerPage[AgentCurve]):
    """Page of a fleet at several numbers of agents."""

    def tables(self) -> Sequence[Table]:
        """Table with one row per number of agents."""
        answer, targets = self.answer, self.answer.targets
        bill, use = answer.points[0].sheet, answer.points[0].use
        shown = [f"{name}_seconds.{which}" for name in ("ttft", "tpot") for which in _percentiles(name, targets)]
        columns = (
            "agents", "request_rate", "concurrency_per_replica", *_UNITS, "task_seconds", *shown,
            *(("slo_met_share",) if targets.given else ()),
        )  # fmt: skip
        subjects = under_load((point.sheet.service, point.load) for point in answer.points)
        notes = [*_preempted(*(point.use for point in answer.points)), *doubts([bill.service.setup], subjects)]
        rows = [{**record, **record["agent_use"]} for record in answer.records()]
        title = _title("A fleet of agents", [bill.service.setup], use, targets)
        why = [
            f"{fleet_label(bill.service, bill.replicas)}: ${bill.dollars_per_hour:,.2f} per hour, busy or idle.",
            *picked(bill.service, answer.pick),
            *_simulated(*(point.use for point in answer.points)),
            *_meaning(self.setups()),
            *grounds(self.setups(), subjects, SEEN),
        ]
        return (view(title, rows, columns, notes=notes, why=why, least=_LEAST),)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Charts of cache hits and latencies by number of agents, and of one session over time."""
        points, targets = self.answer.points, self.answer.targets
        agents = [float(point.use.agents) for point in points]
        found = tuple(
            PlotSeries(f"hits in {name}", agents, [100.0 * point.use.trace.hit_rates[name] for point in points])
            for name in points[0].use.trace.hit_rates
        )
        plots = [Plot("Cache hits", "agents", "% of prompt tokens", found, "", from_zero=True)]
        for name, title in (("ttft", "Time to first token"), ("tpot", "Time per output token")):
            lines = tuple(
                PlotSeries(which, agents, [1e3 * getattr(point.load, f"{name}_seconds")[which] for point in points])
                for which in _percentiles(name, targets)
            )
            limit = 1e3 * targets.every[name] if name in targets.given else None
            promises = {} if limit is None else {f"SLO: {limit:.4g} ms": limit}
            plots.append(Plot(title, "agents", "milliseconds", lines, "y", promises=promises))
        costs = [point.use.record(point.sheet, point.sheet.replicas)["dollars_per_task"] for point in points]
        line = PlotSeries("$ per task", agents, costs)
        plots.append(Plot("Cost", "agents", "US dollars per task", (line,), "y", dollars="y"))
        heading = _title("A fleet of agents", self.setups(), points[0].use, targets)
        session = [session_plot(points[len(points) // 2].use)]
        return {
            "agents": charts.line_charts(plots, f"Cache hits, latency and cost by number of agents\n{heading}"),
            "session": charts.line_charts(session, f"One session in time\n{heading}"),
        }

    def question(self) -> str:
        """Title of the page."""
        bill, use = self.answer.points[0].sheet, self.answer.points[0].use
        fleet = fleet_name(bill.service, bill.replicas)
        return f"How do cache hits, latency and cost of agents ({use.work.name}) change with their number on {fleet}?"

    def start(self) -> Start:
        """Launch settings of the fleet with the most agents within the SLOs."""
        point = self._kept
        start = start_of(point.sheet, self.answer.targets, f"the fleet with {point.use.agents:,.0f} agents")
        replicas = point.sheet.replicas
        return replace(start, said=agents_said(point.use.record(point.sheet, replicas), replicas))

    @property
    def _kept(self) -> AgentPoint:
        """Point with the most agents within the SLOs; the point with the fewest agents if none meets them."""
        targets, points = self.answer.targets, self.answer.points
        kept = [point for point in points if not targets.first_violated(point.load)]
        return kept[-1] if kept else points[0]

    def conclusion(self) -> Pieces:
        """Sentence on the largest number of agents within the SLOs."""
        point = self._kept
        record = point.use.record(point.sheet, point.sheet.replicas)
        return (
            f"With {point.use.agents:,.0f} agents, {100 * record['hit_rate']:.0f} % of prompt tokens hit a cache, p90 "
            f"TTFT is {milliseconds(point.load.ttft_seconds['p90'])} ms, and a task costs $",
            dollars(record["dollars_per_task"]), ".",
        )  # fmt: skip


class AgentChoicesPage(RecommendationPage):
    """Page of deployments for agents."""

    answer: AgentRecommendation

    @property
    def proportional(self) -> bool:
        """False if the limit is a budget, because the GPU price then determines which fleet is affordable."""
        return not isinstance(self.answer, MostAgents) or self.answer.means.dollars_per_hour is None

    @property
    def _best(self) -> AgentDeployment:
        """Best deployment."""
        return self.answer.choices[0]

    @property
    def _counted(self) -> str:
        """Objective of the search as text."""
        if isinstance(self.answer, MostAgents):
            return f"Most agents for {self.answer.means.text}"
        return f"Cheapest for {self._best.use.agents:,.0f} agents"

    def tables(self) -> Sequence[Table]:
        """Table with one row per deployment."""
        answer, targets = self.answer, self.answer.targets
        choices, setups, use = answer.choices, self.setups(), self._best.use
        kept = [choice.chances(targets) for choice in choices]
        columns = (
            *several_chips(answer), *(("agents",) if isinstance(answer, MostAgents) else ()), "accelerators",
            "replicas", "layout", "dollars_per_hour", *_UNITS,
            "agents_per_accelerator", "agents_per_megawatt", f"ttft_seconds.{targets.percentile_of('ttft')}",
            f"tpot_seconds.{targets.percentile_of('tpot')}", *chances_column(targets, kept), "limiting_constraint",
        )  # fmt: skip
        promising = "the most agents" if isinstance(answer, MostAgents) else "the lowest cost"
        uses = [choice.use for choice in choices]
        title = _title(self._counted, setups, use, targets)
        rows = [{**shown_record(choice, targets), **use_record(choice)} for choice in choices]
        least = (*_LEAST, "hit_rate", "agents_per_accelerator")
        why = [
            f"The analytical queueing model ranked {answer.layouts} layout{'s' * (answer.layouts != 1)}. The layouts "
            f"with {promising} were then simulated to find the largest number of agents that meets the SLOs.",
            *(_REREAD if any(choice.fleet for choice in choices) else ()),
            *_simulated(*uses),
            "'agents/MW': agents per MW of provisioned facility power, with all boards at their power limit.",
            *chances_meaning(targets, kept),
            *_meaning(setups),
        ]
        table = choices_table(title, choices, rows, columns, notes=_preempted(*uses), why=why, least=least)
        if table.least[-1] == "recipe":
            # A redundant column is omitted if rows of one engine differ only in the recipe.
            table = replace(table, least=(*table.least[:-1], "$/task", "recipe"))
        return (table,)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Chart of one session on the best deployment."""
        best = self._best
        title = _title(self._counted, [best.service.setup], best.use, self.answer.targets)
        return {"session": charts.line_charts([session_plot(best.use)], f"One session in time\n{title}")}

    def start(self) -> Start:
        """Best deployment."""
        best = self._best
        behind_router = best.replicas if best.fleet is None else best.fleet.prefill_instances
        return replace(super().start(), said=agents_said(use_record(best), behind_router))

    def question(self) -> str:
        """Title of the page."""
        best = self._best
        model = best.service.setup.model.name
        if isinstance(self.answer, MostAgents):
            return f"How many agents ({best.use.work.name}) with {model} do {self.answer.means.text} serve?"
        return f"Which deployment of {model} serves {best.use.agents:,.0f} agents ({best.use.work.name}) for least?"

    def conclusion(self) -> Pieces:
        """Sentence on the best deployment and its cost per task."""
        best = self._best
        record = use_record(best)
        most = f"serves most, {best.use.agents:,.0f} agents"
        rank = most if isinstance(self.answer, MostAgents) else "is the cheapest"
        return (
            f"{choice_label(best)} {rank}: $", per_hour(best.dollars_per_hour),
            " per hour, $", dollars(record["dollars_per_task"]), " per task, $",
            dollars(record["dollars_per_agent_hour"]), " per hour of an agent.",
        )  # fmt: skip


class AgentSheetPage(PricePage):
    """Page of the costs of a fleet that serves agents."""

    answer: AgentSheet

    def tables(self) -> Sequence[Table]:
        """Tables of costs per task, agent hour and request, and per kind of token."""
        sheet, use = self.answer, self.answer.use
        record = use_record(sheet)
        tasks = record["tasks_per_hour"]
        counts = {"task": tasks, "hour of an agent": use.agents, "request": tasks * record["requests_per_task"]}
        rows = tuple((name, amount(count), dollars(sheet.dollars_per_hour / count)) for name, count in counts.items())
        title = _title(f"{use.agents:,.0f} agents", [sheet.service.setup], use, sheet.targets)
        notes = (
            f"{record['agents_per_accelerator']:.3g} agents per GPU. A task takes {record['task_seconds']:,.0f} s.",
            *_preempted(use),
        )
        why = (*(_REREAD if sheet.fleet else ()), *_simulated(use))
        return (Table(title, ("what", "an hour", "$ each"), rows, notes, why), *super().tables())

    def start(self) -> Start:
        """Launch settings of the priced fleet."""
        sheet = self.answer
        behind_router = sheet.replicas if sheet.fleet is None else sheet.fleet.prefill_instances
        return replace(super().start(), said=agents_said(use_record(sheet), behind_router))


class AgentDayPage(FleetPage):
    """Page of a day of a fleet that serves agents."""

    answer: DayOfAgents

    def _title(self) -> str:
        title = f"Cheapest fleet for agents, {self._span()}"
        return _title(title, self.setups(), self.answer.use, self.answer.targets)

    def _scaled(self) -> str:
        said = super()._scaled().replace("requests that arrive", "agents in session")
        return f"{said} Agents wait for each answer, so missing capacity slows down all agents."


class AgentBuyPage(BuyPage):
    """Page that compares API offers with fleets for agents."""

    answer: AgentPurchase
    fleet = "the units that serve the agents"

    def tables(self) -> Sequence[Table]:
        """Table with one row per fleet and offer."""
        answer, use, requests = self.answer, self.answer.use, self.answer.use.work.requests
        columns = (
            "hardware", "paid", "agents", "accelerators", "dollars_per_month", "offer", "offer_dollars_per_month",
            "cheaper_from_agents", "always_cheaper_from_agents", "probability",
        )  # fmt: skip
        counted = "" if answer.agents is None else f", {answer.agents:,} agents"
        title = _title(f"API, rented or owned{counted}", self.setups(), use, answer.targets)
        why = (
            *(_REREAD if any(getattr(lot, "pools", None) for lot in answer.lots) else ()),
            "The API and the fleet serve equal requests: the requests of as many agents as one rental unit serves "
            "within the SLOs.",
            f"APIs are assumed to cache all repeated prompt tokens ({100 * requests.cached / requests.isl.mean:.1f}%). "
            "An API without a price for cached tokens charges the input price.",
            *_preempted(use),
            *_simulated(use),
        )
        rows = [{**record, **record["agent_bill"]} for record in answer.records()]
        return (self.table(title, rows, columns, *why, least=("accelerators", "always_cheaper_from_agents")),)

    def question(self) -> str:
        """Title of the page."""
        model = self.answer.lots[0].setup.model.name
        return f"How many agents ({self.answer.use.work.name}) make a fleet of {model} cheaper than an API?"


def session_plot(use: AgentLoad) -> Plot:
    """Plot of the longest session: context over time, with prefill and decode of each turn."""
    trace = use.trace
    numbers, counts = np.unique(trace.sessions, return_counts=True)
    turns = np.flatnonzero(trace.sessions == numbers[np.argmax(np.minimum(counts, _SHOWN))])[:_SHOWN]
    sent, prompt = trace.arrival[turns] - trace.arrival[turns[0]], trace.prompt_tokens[turns]
    reused = sum(tokens[turns] for tokens in trace.found_tokens.values())
    lines = []
    for label, begin, end, low, high in (
        ("prefill", sent, sent + trace.ttft[turns], reused, prompt),
        ("decode", sent + trace.ttft[turns], sent + trace.e2e[turns], prompt, prompt + trace.output_tokens[turns]),
    ):
        gap = np.full(turns.size, np.nan)
        x, y = (np.stack(part, axis=1).ravel().tolist() for part in ((begin, end, gap), (low, high, gap)))
        lines.append(PlotSeries(label, x, y))
    return Plot("Tokens of a session, without cache hits", "seconds", "tokens", tuple(lines), "")


def _percentiles(name: str, targets: Targets) -> tuple[str, ...]:
    """Percentiles of a latency that the table shows."""
    promised = (targets.percentile_of(name),) if name in targets.given else ()
    return tuple(dict.fromkeys(("p50", *promised, "p90" if not promised else "p99")))


def _title(counted: str, setups: Sequence[Setup], use: AgentLoad, targets: Targets) -> str:
    requests, turns = use.work.requests, use.work.means.turns
    label = (
        f"{use.work.name} ({turns:.3g} turn{'s' * (turns != 1)}, ISL {requests.isl.mean:,.0f}, new "
        f"{requests.new_tokens:,.0f}, OSL {requests.osl.mean:,.0f})"
    )
    return heading(counted, setups, [label], promises=[targets])


def _simulated(*uses: AgentLoad) -> list[str]:
    """Lines of text on the workload and its simulation."""
    use, traces = uses[0], [use.trace for use in uses]
    ideal = dict.fromkeys(f"{100 * share:.1f}" for share in sorted({trace.known_share for trace in traces}))
    shares = " to ".join(list(ideal)[:: max(len(ideal) - 1, 1)])
    together = "" if use.instances == 1 else f" of {use.instances} instances behind a {use.router} router"
    helpers = max(step.agents for step in use.work.spec.steps)
    side = f" and start up to {helpers} side agents" if helpers > 1 else ""
    return [
        f"In the workload {use.work.name}, agents pause {use.work.means.pause_seconds:.3g} s between turns{side}.",
        f"The prefix cache{together} is simulated. With an unlimited cache, {shares}% of prompt tokens would be cache "
        "hits.",
    ]


def _preempted(*uses: AgentLoad) -> list[str]:
    """Note on preemptions; empty without preemptions."""
    share = max(use.trace.preemptions / use.trace.ttft.size for use in uses)
    return (
        [f"The KV cache runs full: up to {100 * share:.2g}% of requests are preempted and recomputed."] if share else []
    )


def _meaning(setups: Sequence[Setup]) -> list[str]:
    """Explanations of columns and assumptions, one per line."""
    return [
        "'hit %': share of prompt tokens that hit a cache in any memory tier. A task is one session, from its first to "
        "its last turn.",
        "TTFT includes reads of cache blocks from slower tiers (host memory, SSD). Writes to slower tiers are free. "
        f"Assumptions: {assumptions_label(setups)}.",
    ]
