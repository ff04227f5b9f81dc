"""The most traffic that some chips or a budget carry, as a table and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inference_econ.answers.chances import fleet_chances
from inference_econ.answers.disaggregated.load import Fleet
from inference_econ.answers.means import Means
from inference_econ.answers.most_traffic import fullest
from inference_econ.answers.promises import Targets
from inference_econ.answers.recommend import Choice
from inference_econ.answers.subjects import under_load
from inference_econ.formulas import money
from inference_econ.report import caveats
from inference_econ.report.disaggregated_record import fleet_record
from inference_econ.report.page import Page
from inference_econ.report.promises import chances_column, planned_notes
from inference_econ.report.recommend import choice_chances, choice_record
from inference_econ.report.record import flat_frame, targets_record
from inference_econ.report.service import SEEN, layout_of, milliseconds, service_title
from inference_econ.report.startable import nobody_starts, startable_notes, with_engines
from inference_econ.report.table import Table, assumptions_label, dollars, layout_label, per_hour
from inference_econ.serving import Loaded

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class MostTrafficPage(Page):
    """Deployments that carry the most with some means, ready to be shown.

    Attributes
    ----------
    choices : sequence of Choice
        Aggregated ones, at least one, the one that carries most first.
    apart : Fleet or None
        The best disaggregated one.
    means : Means
        Chips or a budget.
    targets : Targets
        The promises.
    """

    choices: Sequence[Choice]
    apart: Fleet | None
    means: Means
    targets: Targets

    def tables(self) -> Sequence[Table]:
        """One row per deployment."""
        return (most_traffic_table(self),)

    def frame(self) -> pd.DataFrame:
        """One row per deployment, unrounded."""
        record = most_traffic_record(self)
        rows = [{"serving": "aggregated", **choice} for choice in record["choices"]]
        apart = record["disaggregated"]
        return flat_frame(rows if apart is None else [*rows, {"serving": "disaggregated", **apart}])

    def record(self) -> object:
        """The means, the promises and every deployment."""
        return most_traffic_record(self)


def most_traffic_table(page: MostTrafficPage) -> Table:
    """Deployments, the one that carries most first."""
    targets, apart, given = page.targets, page.apart, page.targets.given
    ttft, tpot = (targets.percentile_of(name) for name in ("ttft", "tpot"))
    services = [choice.service for choice in page.choices]
    if apart is not None:
        services.append(apart.pools.decode.services.service(apart.decode))
    chips = {service.setup.hardware.name for service in services}
    several = len(chips) > 1
    kept = [choice_chances(choice, targets) for choice in page.choices]
    rows = [
        (choice.load.requests_per_second * choice.replicas, _row(choice, targets), layout_of(choice.service))
        for choice in page.choices
    ]
    if apart is not None:
        kept.append(fleet_chances(apart, targets))
        rows.append((apart.load.requests_per_second, _apart_row(apart, targets), layout_of(services[-1])))
    holds, cells = chances_column(targets, kept)
    columns = (
        *(("hardware",) if several else ()), "GPUs", "rented", "instances", "layout", "requests/s", "tokens/s",
        "$ per hour", "$/M output", "busy %", f"TTFT {ttft} ms", f"TPOT {tpot} ms", *holds, "binding",
    )  # fmt: skip
    rows = [(rate, (*row[:-1], *cell, row[-1]), layout) for (rate, row, layout), cell in zip(rows, cells, strict=True)]
    rows.sort(key=lambda row: -row[0])
    subjects = under_load((choice.service, choice.load) for choice in page.choices)
    setups = [service.setup for service in services]
    notes = (
        f"The most requests for {page.means.text}, {_within(page.targets)}; binding: what a little more would break.",
        *planned_notes(targets, kept),
        *(["With a promised E2E no pools that prefill and decode apart are compared."] if "e2e" in given else []),
        *nobody_starts(setups),
        *caveats.warnings(subjects),
    )
    why = (
        f"tokens/s and $/M are of output, and $/M carries the whole bill{_pools_label(apart)}. "
        f"Assumptions: {assumptions_label(setups)}.",
        *startable_notes(setups),
        *caveats.remarks(subjects, SEEN),
    )
    least = ("engine", "tokens/s", "instances", "busy %", "rented", "$/M output")
    title = service_title(f"Most requests for {page.means.text}", services, promises=page.targets)
    lines = tuple(row if several else row[1:] for _, row, _ in rows)
    table = Table(title, columns, lines, notes, why, least)
    return with_engines(table, [layout for _, _, layout in rows], setups)


def _within(targets: Targets) -> str:
    """Up to where instances are filled, in words."""
    if targets.given:
        return "within the promises"
    return f"{100 * fullest(targets):g} % of what is completed"


def _pools_label(apart: Fleet | None) -> str:
    """How a fleet of two pools is read, in words."""
    if apart is None:
        return ""
    return (
        f"; of xPyD (x prefill and y decode instances, see 'disaggregate') the fuller pool binds: {fuller_pool(apart)}"
    )


def _row(choice: Choice, targets: Targets) -> tuple[str, ...]:
    """An aggregated deployment, the name of its chip first."""
    service = choice.service
    layout = layout_label(layout_of(service))
    return (
        service.setup.hardware.name, str(choice.accelerators), str(choice.rented), str(choice.replicas), layout,
        *_numbers(choice.load, choice.replicas, service.requests.osl.mean, choice.dollars_per_hour, targets),
        choice.binding,
    )  # fmt: skip


def _apart_row(fleet: Fleet, targets: Targets) -> tuple[str, ...]:
    """A disaggregated deployment, the name of the chip that decodes first."""
    pools = fleet.pools
    sides = ((pools.prefill, fleet.prefill), (pools.decode, fleet.decode))
    layouts = " + ".join(layout_label(layout_of(pool.services.service(index))) for pool, index in sides)
    instances = f"{fleet.prefill_instances}P{fleet.decode_instances}D"
    return (
        pools.decode.setup.hardware.name, str(sum(fleet.accelerators)), str(sum(fleet.rented)), instances, layouts,
        *_numbers(fleet.load, 1, pools.requests.osl.mean, fleet.dollars_per_hour, targets),
        fuller_pool(fleet),
    )  # fmt: skip


def fuller_pool(fleet: Fleet) -> str:
    """Which pool has less to spare."""
    return "prefill" if fleet.prefill_utilization > fleet.decode_utilization else "decode"


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


def most_traffic_record(page: MostTrafficPage) -> dict[str, Any]:
    """Deployments as plain data."""
    apart = None
    if page.apart is not None:
        tokens = page.apart.load.requests_per_second * page.apart.pools.requests.osl.mean
        apart = {
            **fleet_record(page.apart, page.targets),
            "output_tokens_per_second": tokens,
            "binding": fuller_pool(page.apart),
        }
    return {
        "means": {"accelerators": page.means.accelerators, "dollars_per_hour": page.means.dollars_per_hour},
        "targets": targets_record(page.targets),
        "choices": [
            {
                **choice_record(choice, page.targets),
                "output_tokens_per_second": choice.load.requests_per_second
                * choice.replicas
                * choice.service.requests.osl.mean,
            }
            for choice in page.choices
        ],
        "disaggregated": apart,
    }
