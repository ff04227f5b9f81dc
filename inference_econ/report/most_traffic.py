"""The most traffic that some chips or a budget carry, as a table and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from inference_econ.report.recommend import choice_record, targets_record
from inference_econ.report.service import SEEN, layout_of, service_title
from inference_econ.report.startable import startable_notes, with_engines
from inference_econ.report.table import Table, assumptions_label, dollars, layout_label
from inference_econ.serving import Loaded


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

    def record(self) -> object:
        """The means, the promises and every deployment."""
        return most_traffic_record(self)


def most_traffic_table(page: MostTrafficPage) -> Table:
    """Deployments, the one that carries most first."""
    which, apart, given = page.targets.percentile, page.apart, page.targets.given
    services = [choice.service for choice in page.choices]
    if apart is not None:
        services.append(apart.pools.decode.services.service(apart.decode))
    chips = {service.setup.hardware.name for service in services}
    several = len(chips) > 1
    columns = (
        *(("hardware",) if several else ()), "GPUs", "rented", "instances", "layout", "requests/s", "tokens/s",
        "$ per hour", "$/M output", "busy %", f"TTFT {which} ms", f"TPOT {which} ms", "binding",
    )  # fmt: skip
    rows = [
        (choice.load.requests_per_second * choice.replicas, _row(choice, which), layout_of(choice.service))
        for choice in page.choices
    ]
    if apart is not None:
        rows.append((apart.load.requests_per_second, _apart_row(apart, which), layout_of(services[-1])))
    rows.sort(key=lambda row: -row[0])
    on = "" if several else f" on {chips.pop()}"
    notes = (
        f"The most requests for {page.means.text}, {_within(page.targets)}; tokens/s and $/M are of output, and $/M "
        f"carries the whole bill. Binding: what a little more would break{_pools_label(apart)}. "
        f"Assumptions: {assumptions_label(service.setup for service in services)}.",
        *(["With a promised E2E no pools that prefill and decode apart are compared."] if "e2e" in given else []),
        *startable_notes([service.setup for service in services]),
        *caveats.remarks(under_load((choice.service, choice.load) for choice in page.choices), SEEN),
    )
    lines = tuple(row if several else row[1:] for _, row, _ in rows)
    table = Table(f"{service_title(services[0])}{on}", columns, lines, notes)
    return with_engines(table, [layout for _, _, layout in rows], [service.setup for service in services])


def _within(targets: Targets) -> str:
    """Up to where instances are filled, in words."""
    if targets.given:
        return "within the promises"
    return f"{100 * fullest(targets):g} % of what is completed"


def _pools_label(apart: Fleet | None) -> str:
    """How a fleet of two pools is read, in words."""
    if apart is None:
        return ""
    return f", of xPyD (x prefill and y decode instances, see 'disaggregate') the fuller pool: {fuller_pool(apart)}"


def _row(choice: Choice, which: str) -> tuple[str, ...]:
    """An aggregated deployment, the name of its chip first."""
    service = choice.service
    layout = layout_label(layout_of(service))
    return (
        service.setup.hardware.name, str(choice.accelerators), str(choice.rented), str(choice.replicas), layout,
        *_numbers(choice.load, choice.replicas, service.requests.osl.mean, choice.dollars_per_hour, which),
        choice.binding,
    )  # fmt: skip


def _apart_row(fleet: Fleet, which: str) -> tuple[str, ...]:
    """A disaggregated deployment, the name of the chip that decodes first."""
    pools = fleet.pools
    sides = ((pools.prefill, fleet.prefill), (pools.decode, fleet.decode))
    layouts = " + ".join(layout_label(layout_of(pool.services.service(index))) for pool, index in sides)
    instances = f"{fleet.prefill_instances}P{fleet.decode_instances}D"
    return (
        pools.decode.setup.hardware.name, str(sum(fleet.accelerators)), str(sum(fleet.rented)), instances, layouts,
        *_numbers(fleet.load, 1, pools.requests.osl.mean, fleet.dollars_per_hour, which),
        fuller_pool(fleet),
    )  # fmt: skip


def fuller_pool(fleet: Fleet) -> str:
    """Which pool has less to spare."""
    return "prefill" if fleet.prefill_utilization > fleet.decode_utilization else "decode"


def _numbers(load: Loaded, replicas: int, answer: float, bill: float, which: str) -> tuple[str, ...]:
    """What is carried, costs and is seen: from the load of each replica, answers [tokens] and the bill [USD/h]."""
    requests = load.requests_per_second * replicas
    return (
        f"{requests:.4g}",
        f"{requests * answer:,.0f}",
        f"{bill:,.2f}",
        dollars(float(money.dollars_per_million(bill / 3600.0, requests * answer))),
        f"{100 * load.utilization:.0f}",
        f"{1e3 * load.ttft_seconds[which]:.0f}",
        f"{1e3 * load.tpot_seconds[which]:.1f}",
    )


def most_traffic_record(page: MostTrafficPage) -> dict[str, object]:
    """Deployments as plain data."""
    apart = None
    if page.apart is not None:
        tokens = page.apart.load.requests_per_second * page.apart.pools.requests.osl.mean
        apart = {**fleet_record(page.apart), "output_tokens_per_second": tokens, "binding": fuller_pool(page.apart)}
    return {
        "means": {"accelerators": page.means.accelerators, "dollars_per_hour": page.means.dollars_per_hour},
        "targets": targets_record(page.targets),
        "choices": [
            {
                **choice_record(choice),
                "output_tokens_per_second": choice.load.requests_per_second
                * choice.replicas
                * choice.service.requests.osl.mean,
            }
            for choice in page.choices
        ],
        "disaggregated": apart,
    }
