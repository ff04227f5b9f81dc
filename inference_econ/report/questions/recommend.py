"""Page of recommended deployments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inference_econ.answers.deployments import recommend
from inference_econ.answers.deployments.deployment import Deployment, under_load
from inference_econ.answers.deployments.serving_options import practice_of
from inference_econ.answers.slo import NAMES, Targets
from inference_econ.engine import Instances
from inference_econ.records.deviations import SEEN
from inference_econ.records.texts import assumptions_label, layout_label
from inference_econ.report import charts, service
from inference_econ.report.fields import Column, Record, details, view
from inference_econ.report.headings import enumerated, price_cell
from inference_econ.report.notes import doubts, grounds, unused_drafts
from inference_econ.report.page import AnswerPage, Table

if TYPE_CHECKING:
    from inference_econ.answers.launching.plan import Start

#: Memory suffix of a GPU name.
_LENGTHY = re.compile(r" \d+ ?GB.*$")
#: Instances below this utilization are called idle [1].
_IDLE = 0.05


class RecommendationPage(AnswerPage[recommend.Recommendation]):
    """Page that shows the cheapest deployments that meet the SLOs."""

    def tables(self) -> Sequence[Table]:
        """Table with one row per deployment."""
        startable, targets, notes = self.answer.startable, self.answer.targets, unused_drafts(_subjects(self.answer))
        if startable is not None:
            saved = max(1.0 - self.answer[0].dollars_per_hour / startable.dollars_per_hour, 0.0)
            notes.append(
                f"Ignoring engine limits saves {100 * saved:.0f}%. The cheapest supported fleet has "
                f"{choice_label(startable)}, ${startable.dollars_per_hour:,.2f}/hour."
            )
        notes += [*service.default_slo_notes(self.answer.usual), *_left_out_notes(self.answer)]
        if self.answer.bursts is not None:
            notes.append(service.burstiness_note(self.answer.bursts, targets, promised=True))
        kept = "meet the SLOs" if targets.given else f"stay within {100 * targets.fullest:g}% of capacity"
        why = [
            f"{self.answer.layouts} layouts were compared. Each layout has the fewest instances that serve the "
            f"rate and {kept}. Select a layout with --tp, --pp, --dp and --ep.",
            "'limited by': the constraint that a fleet with one replica less would violate.",
            *service.pools_meaning(any(choice.fleet is not None for choice in self.answer)),
        ]
        if self.answer.margin:
            # Add a sentence on the capacity above the load.
            margin = self.answer.margin
            parts = [
                *([f"{100 * margin.headroom:g}% headroom"] if margin.headroom else ()),
                *([f"{margin.spare} spare replica{'s' * (margin.spare > 1)}"] if margin.spare else ()),
                *([f"at most {100 * margin.utilization:g}% utilization"] if margin.utilization < 1.0 else ()),
            ]
            why.insert(0, f"Replicas include {', '.join(parts)}. Costs and latencies are for the requested load.")
        if self.answer.users is not None:
            why.insert(0, _users_note(self.answer.users, self.answer[0]))
        return (service.with_notes(recommend_table(self.answer, targets, self.answer.users), notes, why),)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Charts of cost against latency; the cheapest deployment is marked."""
        heading = recommend_title(self.answer, self.answer.targets, self.answer.users)
        title = f"What do deployments that meet the SLOs cost?\n{heading}"
        title += "\nHollow marks are disaggregated." if any(choice.fleet is not None for choice in self.answer) else ""
        return {"recommend": charts.line_charts(recommend_charts(self.answer, self.answer.targets), title)}

    def start(self) -> Start:
        """Cheapest deployment, as input of a launch plan."""
        from inference_econ.report.deployment_reader import start_of  # only launch plans need it

        return start_of(self.answer[0], self.answer.targets, "the first row")


def _users_note(users: recommend.Users, best: Deployment) -> str:
    """Sentence on the request rate that a number of users generates."""
    seconds, rate = best.load.e2e_seconds["mean"], best.requests_per_second
    if not users.think_seconds:
        latency = f"a mean E2E latency of {seconds:.3g} s"
        return f"{users.number:g} concurrent requests with {latency} are {rate:.4g} requests/s."
    pause = f"a think time of {users.think_seconds:g} s and a mean E2E latency of {seconds:.3g} s"
    return f"{users.number:g} users with {pause} send {rate:.4g} requests/s."


def _left_out_notes(answer: recommend.Recommendation) -> list[str]:
    """Sentence on GPUs without a row; empty if every GPU has a row."""
    return [f"Left out: {', '.join(answer.left_out)}. No deployment meets the SLOs."] if answer.left_out else []


def recommend_table(choices: Sequence[Deployment], targets: Targets, users: recommend.Users | None = None) -> Table:
    """Create the table of recommended deployments, cheapest first."""
    ttft, tpot, e2e = (f"{name}_seconds.{targets.percentile_of(name)}" for name in NAMES)
    kept = [choice.chances(targets) for choice in choices]
    best, setups = choices[0], [setup for choice in choices for setup in choice.setups]
    partly = ("accelerators_rented",) if any(choice.rented != choice.accelerators for choice in choices) else ()
    rates = () if users is None else ("request_rate",)
    columns = (
        *several_chips(choices), "accelerators", *partly, "replicas", "layout", *rates, "dollars_per_hour",
        "dollars_per_million_output_tokens", *service.power_columns(setups), "concurrency_per_replica", "utilization",
        ttft, tpot, e2e, *service.chances_column(targets, kept), evidence_column(choices), "limiting_constraint",
    )  # fmt: skip
    notes = service.wait_notes([choice.load for choice in choices])
    if best.binding in NAMES and best.load.utilization < _IDLE:
        notes.append(
            f"Even an idle server barely meets the {best.binding.upper()} SLO, so row 1 runs at "
            f"{100 * best.load.utilization:.2g}% load. Relax the SLO to need far fewer GPUs."
        )
    chance, place = recommend.first_before_second(choices)
    after = service.unknown_chances(targets, kept)
    after += [] if chance is None else [f"P(row 1 cheaper than row {place + 1}) {service.probability(chance)}."]
    after += service.planned_notes(targets, kept)
    why = [
        "'$/M output': total cost, including input, divided by the output tokens. Assumptions: "
        f"{assumptions_label(setups)}."
    ]
    if played := [str(row) for row, choice in enumerate(choices, 1) if choice.load.played]:
        which = f"row{'s' if len(played) > 1 else ''} {enumerated(played)}"
        which = which if len(played) < len(choices) else "all rows"
        why.append(
            f"Latencies of {which} are simulated, because the analytical queueing model may be off by more than 10%."
        )
    return choices_table(
        recommend_title(choices, targets, users),
        choices,
        [shown_record(choice, targets) for choice in choices],
        columns,
        notes=notes,
        after=after,
        why=(
            *why,
            *service.chances_meaning(targets, kept),
            *(() if best.fleet is None else service.slots_notes(best.fleet)),
        ),
        least=(
            "board_watts",
            "joules_per_output_token",
            "dollars_per_million_output_tokens",
            "utilization",
            "concurrency_per_replica",
            e2e,
            "limiting_constraint",
        ),
    )


def _subjects(choices: Iterable[Deployment]) -> tuple[Instances, ...]:
    """Instances of each deployment under load."""
    return under_load((choice.service, choice.instance_load) for choice in choices)


def evidence_column(choices: Iterable[Deployment]) -> Column:
    """Column that shows how similar measured servers are to each deployment."""
    return "evidence", [choice.evidence.text for choice in choices]


def choices_table(
    title: str,
    choices: Sequence[Deployment],
    records: Sequence[Record],
    columns: Sequence[Column],
    *,
    notes: Iterable[str],
    after: Iterable[str] = (),
    why: Iterable[str],
    least: Iterable[str],
) -> Table:
    """Create a table with one row per deployment, a column of engines, and a column of recipes if recipes differ.

    See :func:`inference_econ.report.fields.view` for the parameters. Warnings on the predictions are placed after
    ``notes`` and before ``after``.
    """
    setups = [choice.service.setup for choice in choices]
    subjects = _subjects(choices)
    noted, grounded = (*notes, *doubts(setups, subjects), *after), (*why, *grounds(setups, subjects, SEEN))
    # Names of GPUs without vendor and memory (``H200 SXM5``), if the short names are unique.
    names = {str(record["hardware"]) for record in records if "hardware" in record}
    short = {name: _LENGTHY.sub("", name.partition(" ")[2]) or name for name in names}
    short = short if len(set(short.values())) == len(names) else {name: name for name in names}
    shown = [{**record, "hardware": short.get(record.get("hardware", ""), "")} for record in records]
    table = view(title, shown, columns, notes=noted, why=grounded, least=least)
    table = service.with_engines(table, [choice.layout() for choice in choices], setups)
    return service.with_recipes(
        table, [practice_of(choice.service.setup, choice.service.speculation) for choice in choices]
    )


def several_chips(choices: Sequence[Deployment]) -> Sequence[Column]:
    """Columns with the GPU and its price; empty if all deployments use one kind of GPU."""
    setups = [choice.service.setup for choice in choices]
    prices = "$/GPU-h", [*map(price_cell, setups)]
    return ("hardware", prices) if len({setup.hardware.name for setup in setups}) > 1 else ()


def shown_record(choice: Deployment, targets: Targets) -> dict[str, Any]:
    """Record of one deployment for tables and charts, with its layouts, supporting engines, and recipe."""
    layout = choice.layout()
    return {
        **choice.served_record(targets),
        "replicas": instances_label(choice),
        "layout": layout,
        "engine": layout.get("engine", ""),
        "recipe": practice_of(choice.service.setup, choice.service.speculation),
    }


def instances_label(choice: Deployment) -> str:
    """Number of instances as text; ``4P2D`` for 4 prefill and 2 decode instances."""
    fleet = choice.fleet
    return str(choice.replicas) if fleet is None else f"{fleet.prefill_instances}P{fleet.decode_instances}D"


def recommend_title(choices: Sequence[Deployment], targets: Targets, users: recommend.Users | None) -> str:
    """Heading in one line: users or request rate, model, GPUs and SLOs. Users send requests at the rate of each row."""
    services, rate = [choice.service for choice in choices], None if users else choices[0].requests_per_second
    setups = [setup for choice in choices for setup in choice.setups]
    counted = "Cheapest deployments"
    if users is not None:
        counted += f" for {users.number:g} users" if users.think_seconds else f" at concurrency {users.number:g}"
    return service.service_title(counted, services, setups, rate=rate, promises=targets)


#: Fields of a deployment that hover texts show.
_HOVER = (
    *("accelerators", "replicas", "layout", "engine", "recipe", "dollars_per_million_output_tokens"),
    *("utilization", "limiting_constraint"),
)
#: Latencies that charts show, and their axis labels.
_WAITS = {"ttft": "Time to first token", "tpot": "Time per output token"}


def recommend_charts(choices: Sequence[Deployment], targets: Targets) -> list[charts.Plot]:
    """Charts of hourly cost against each latency, with one labelled mark per deployment, and the SLOs as lines."""
    records = [shown_record(choice, targets) for choice in choices]
    kinds = {
        f"{'the cheapest' if row == 1 else f'row {row}'}: {choice_label(choice)}": record
        for row, (choice, record) in enumerate(zip(choices, records, strict=True), 1)
    }
    plots = []
    for name, title in _WAITS.items():
        which, limit = targets.percentile_of(name), targets.given.get(name)
        series = tuple(
            charts.PlotSeries(
                label,
                [1e3 * record[f"{name}_seconds"][which]],
                [record["dollars_per_hour"]],
                points=True,
                band=_interval(record, name, which),
                details=details([record], _HOVER),
                hollow=record["serving"] == "disaggregated",
            )
            for label, record in kinds.items()
        )
        marks = {} if limit is None else {f"{name.upper()} SLO {which}: {1e3 * limit:.6g} ms": 1e3 * limit}
        label = f"{name.upper()} {which} [ms]"
        plots.append(charts.Plot(title, label, "US dollars per hour", series, marks=marks, bands="80% interval"))
    return plots


def _interval(record: Mapping[str, Any], name: str, which: str) -> charts.Band | None:
    """80% interval of a deployment's latency as a horizontal band [ms]; None if the interval is unknown."""
    low, high = (record.get(f"{name}_seconds_{end}", {}).get(which) for end in ("low", "high"))
    if low is None or high is None:
        return None
    return charts.Band([1e3 * low], [record["dollars_per_hour"]], [1e3 * high], [record["dollars_per_hour"]])


def choice_label(choice: Deployment) -> str:
    """Describe a deployment as text: instances, GPUs, layout, and engines that support the layout."""
    return f"{choice_name(choice)}{service.started(choice.layout())}"


def choice_name(choice: Deployment) -> str:
    """Describe a deployment as text: instances, GPUs and layout."""
    if choice.fleet is None:
        return service.fleet_name(choice.service, choice.replicas)
    chips = f"{choice.accelerators} x {choice.service.setup.hardware.name}"
    return f"{instances_label(choice)} on {chips}, {layout_label(choice.layout())}"


class MostTrafficPage(AnswerPage[recommend.MostTraffic]):
    """Page that shows the deployments with the largest request rates within a limit."""

    def tables(self) -> Sequence[Table]:
        """Table with one row per deployment."""
        answer, targets = self.answer, self.answer.targets
        ttft, tpot = (f"{name}_seconds.{targets.percentile_of(name)}" for name in ("ttft", "tpot"))
        kept = [choice.chances(targets) for choice in answer]
        power = () if answer.means.provisioned_watts is None else ("provisioned_watts",)
        columns = (
            *several_chips(answer), "accelerators", "accelerators_rented", "replicas", "layout", "request_rate",
            "output_tokens_per_second", *power, "dollars_per_hour", "dollars_per_million_output_tokens", "utilization",
            ttft, tpot, *service.chances_column(targets, kept), evidence_column(answer), "limiting_constraint",
        )  # fmt: skip
        services = [choice.service for choice in answer]
        within = "within the SLOs" if targets.given else f"at {100 * targets.fullest:g}% of capacity"
        table = choices_table(
            service.service_title(
                f"Most requests for {answer.means.text}", services, answer.setups, promises=answer.targets
            ),
            answer,
            [{**shown_record(choice, targets), **recommend.output_record(choice)} for choice in answer],
            columns,
            notes=(
                *unused_drafts(_subjects(answer)),
                *service.default_slo_notes(answer.usual),
                *_left_out_notes(answer),
                *service.wait_notes([choice.load for choice in answer]),
            ),
            after=[*service.unknown_chances(targets, kept), *service.planned_notes(targets, kept)],
            why=(
                f"Each row serves the largest possible request rate for {answer.means.text}, {within}.",
                "'tokens/s': output tokens per second. '$/M output': total cost divided by the output tokens. 'limited "
                "by': the constraint that a higher rate would violate.",
                *service.pools_meaning(any(choice.fleet is not None for choice in answer)),
                f"Assumptions: {assumptions_label(self.setups())}.",
                *service.chances_meaning(targets, kept),
            ),
            least=(
                *("output_tokens_per_second", "utilization", "accelerators_rented"),
                *("dollars_per_million_output_tokens", "limiting_constraint"),
                *(("dollars_per_hour",) if power else ()),
            ),
        )
        return (table,)
