"""The most traffic that some chips or a budget carry, as a table and as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from inference_econ.answers.most_traffic import MostTraffic
from inference_econ.answers.promises import Targets
from inference_econ.answers.recommend import AnyChoice
from inference_econ.answers.subjects import under_load
from inference_econ.engine import Setup
from inference_econ.formulas import money
from inference_econ.report import caveats
from inference_econ.report.heading import promises_label
from inference_econ.report.page import AnswerPage, Pieces
from inference_econ.report.promises import chances_column, planned_notes
from inference_econ.report.recommend import (
    choice_chances,
    choice_layout,
    choice_record,
    instances_label,
    with_practices,
)
from inference_econ.report.record import flat_frame, targets_record
from inference_econ.report.service import SEEN, fleet_name, milliseconds, service_title
from inference_econ.report.startable import cannot_start, startable_notes
from inference_econ.report.table import Table, assumptions_label, dollars, layout_label, per_hour
from inference_econ.serving import Loaded

if TYPE_CHECKING:
    import pandas as pd


class MostTrafficPage(AnswerPage[MostTraffic]):
    """Deployments that carry the most with some means, ready to be shown."""

    def tables(self) -> Sequence[Table]:
        """One row per deployment."""
        return (most_traffic_table(self.answer),)

    def frame(self) -> pd.DataFrame:
        """One row per deployment, unrounded."""
        return flat_frame(most_traffic_record(self.answer)["choices"])

    def record(self) -> object:
        """The means, the promises and every deployment."""
        return most_traffic_record(self.answer)

    def question(self) -> str:
        """How much the means carry."""
        means, promise = self.answer.means.text, promises_label(self.answer.targets)
        model = self.answer[0].service.setup.model.name
        return f"How much traffic of {model} do {means} carry{f' with {promise}' if promise else ''}?"

    def conclusion(self) -> Pieces:
        """What carries the most."""
        best = self.answer[0]
        rate, fleet = best.load.requests_per_second * best.replicas, fleet_name(best.service, best.replicas)
        return (f"{rate:.4g} requests/s on {fleet}, for $", per_hour(best.dollars_per_hour), " per hour.")

    def setups(self) -> Sequence[Setup]:
        """Those of all deployments."""
        return [choice.service.setup for choice in self.answer]

    @property
    def proportional(self) -> bool:
        """Of chips alone: at other prices a budget buys other fleets."""
        return self.answer.means.dollars_per_hour is None


def most_traffic_table(answer: MostTraffic) -> Table:
    """Deployments, the one that carries most first."""
    targets, given = answer.targets, answer.targets.given
    ttft, tpot = (targets.percentile_of(name) for name in ("ttft", "tpot"))
    services = [choice.service for choice in answer]
    several = len({service.setup.hardware.name for service in services}) > 1
    kept = [choice_chances(choice, targets) for choice in answer]
    holds, cells = chances_column(targets, kept)
    columns = (
        *(("hardware",) if several else ()), "GPUs", "rented", "instances", "layout", "requests/s", "tokens/s",
        "$ per hour", "$/M output", "busy %", f"TTFT {ttft} ms", f"TPOT {tpot} ms", *holds, "binding",
    )  # fmt: skip
    rows = [
        (*_row(choice, targets)[0 if several else 1 :], *cell, choice.binding)
        for choice, cell in zip(answer, cells, strict=True)
    ]
    subjects = under_load((choice.service, choice.instance_load) for choice in answer)
    setups = [service.setup for service in services]
    notes = (
        f"The most requests for {answer.means.text}, {_within(targets)}; binding: what a little more would break.",
        *planned_notes(targets, kept),
        *(["With a promised E2E no pools that prefill and decode apart are compared."] if "e2e" in given else []),
        *cannot_start(setups),
        *caveats.warnings(subjects),
    )
    why = (
        f"tokens/s and $/M are of output, and $/M carries the whole bill; of xPyD (x prefill and y decode instances, "
        f"see 'disaggregate') the fuller pool binds. Assumptions: {assumptions_label(setups)}.",
        *startable_notes(setups),
        *caveats.remarks(subjects, SEEN),
    )
    least = ("tokens/s", "busy %", "rented", "$/M output", "binding")
    title = service_title(f"Most requests for {answer.means.text}", services, promises=answer.targets)
    return with_practices(Table(title, columns, tuple(rows), notes, why, least), answer)


def _within(targets: Targets) -> str:
    """Up to where instances are filled, in words."""
    if targets.given:
        return "within the promises"
    return f"{100 * targets.fullest:g} % of what is completed"


def _row(choice: AnyChoice, targets: Targets) -> tuple[str, ...]:
    """A deployment, the name of its chip first."""
    service = choice.service
    return (
        service.setup.hardware.name, str(choice.accelerators), str(choice.rented), instances_label(choice),
        layout_label(choice_layout(choice)),
        *_numbers(choice.load, choice.replicas, service.requests.osl.mean, choice.dollars_per_hour, targets),
    )  # fmt: skip


def _numbers(load: Loaded, replicas: int, answer: float, bill: float, targets: Targets) -> tuple[str, ...]:
    """What is carried, costs and is seen: from the load of each replica, answers [tokens] and the bill [USD/h]."""
    requests = load.requests_per_second * replicas
    return (
        f"{requests:.4g}",
        f"{requests * answer:,.0f}",
        per_hour(bill),
        dollars(float(money.dollars_per_million(bill / 3600.0, requests * answer))),
        f"{100 * load.utilization:.0f}",
        milliseconds(targets.seen("ttft", load)),
        milliseconds(targets.seen("tpot", load)),
    )


def most_traffic_record(answer: MostTraffic) -> dict[str, Any]:
    """Deployments as plain data."""
    return {
        "means": {
            "accelerators": answer.means.accelerators,
            "dollars_per_hour": answer.means.dollars_per_hour,
        },
        "targets": targets_record(answer.targets),
        "choices": [
            {
                **choice_record(choice, answer.targets),
                "output_tokens_per_second": choice.load.requests_per_second
                * choice.replicas
                * choice.service.requests.osl.mean,
            }
            for choice in answer
        ],
    }
