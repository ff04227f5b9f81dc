"""Recommended deployments as a table and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inference_econ.answers.promises import Targets
from inference_econ.answers.recommend import Choice
from inference_econ.answers.subjects import under_load
from inference_econ.engine import Setup
from inference_econ.report import caveats
from inference_econ.report.page import Page
from inference_econ.report.record import finite_or_none
from inference_econ.report.service import SEEN, bounded_load, fleet_label, layout_of, service_record, service_title
from inference_econ.report.startable import startable_notes, with_engines, with_notes
from inference_econ.report.table import Table, assumptions_label, dollars, layout_label


@dataclass(frozen=True)
class RecommendationPage(Page):
    """Deployments that keep some promises, ready to be shown.

    Attributes
    ----------
    choices : sequence of Choice
        The cheapest first.
    targets : Targets
        The promises.
    startable : Choice or None
        Beside any layout, the cheapest that an engine can start.
    """

    choices: Sequence[Choice]
    targets: Targets
    startable: Choice | None = None

    def tables(self) -> Sequence[Table]:
        """One row per deployment."""
        return (with_notes(recommend_table(self.choices, self.targets), _distance(self.choices[0], self.startable)),)

    def record(self) -> object:
        """The promises and every deployment."""
        record = recommend_record(self.choices, self.targets)
        if self.startable is None:
            return record
        service = self.startable.service
        return {
            **record,
            "startable": {
                "layout": layout_of(service),
                "accelerators": self.startable.accelerators,
                "dollars_per_hour": self.startable.dollars_per_hour,
            },
        }


def _distance(bound: Choice, startable: Choice | None) -> list[str]:
    """What any layout saves over the cheapest that an engine can start; nothing where that was not asked."""
    if startable is None:
        return []
    saved = max(1.0 - bound.dollars_per_hour / startable.dollars_per_hour, 0.0)
    return [
        f"The cheapest that can be started is {fleet_label(startable.service, startable.replicas)} at "
        f"${startable.dollars_per_hour:,.2f} per hour: an unrestricted layout is {100 * saved:.0f} % cheaper."
    ]


def recommend_table(choices: Sequence[Choice], targets: Targets) -> Table:
    """Choices, the cheapest first."""
    which = targets.percentile
    partly = any(choice.rented != choice.accelerators for choice in choices)
    columns = (
        "hardware", "GPUs", *(("rented",) if partly else ()), "instances", "layout", "$ per hour", "$/M output",
        "busy %", f"TTFT {which} ms", f"TPOT {which} ms", f"E2E {which} s", "binding",
    )  # fmt: skip
    rows = []
    for choice in choices:
        load, service = choice.load, choice.service
        rows.append(
            (
                service.setup.hardware.name,
                str(choice.accelerators),
                *((str(choice.rented),) if partly else ()),
                str(choice.replicas),
                layout_label(layout_of(service)),
                f"{choice.dollars_per_hour:,.2f}",
                dollars(choice.dollars_per_million_output_tokens),
                f"{100 * load.utilization:.0f}",
                f"{1e3 * load.ttft_seconds[which]:.0f}",
                f"{1e3 * load.tpot_seconds[which]:.1f}",
                f"{load.e2e_seconds[which]:.3g}",
                choice.binding,
            )
        )
    best, setups = choices[0], [choice.service.setup for choice in choices]
    notes = (
        f"The first is the cheapest. Binding: what one instance less would break. $/M output carries the whole bill. "
        f"{_prices(setups)}. Assumptions: {assumptions_label(setups)}.",
        *_played(choices),
        *startable_notes(setups),
        *caveats.remarks(under_load((choice.service, choice.load) for choice in choices), SEEN),
    )
    table = Table(service_title(best.service), columns, tuple(rows), notes)
    return with_engines(table, [layout_of(choice.service) for choice in choices], setups)


def _prices(setups: Sequence[Setup]) -> str:
    """What each kind of hardware costs."""
    return "; ".join(dict.fromkeys(f"{setup.hardware.name} at {setup.price_label}" for setup in setups))


def _played(choices: Sequence[Choice]) -> list[str]:
    """Which choices do not rest on closed forms, in words."""
    rows = [str(row) for row, choice in enumerate(choices, 1) if choice.load.played]
    if not rows:
        return []
    which = "Loads" if len(rows) == len(choices) else f"Row{'s' if len(rows) > 1 else ''} {', '.join(rows)}"
    return [f"{which}: played request by request, as closed forms are not within 10 % there."]


def recommend_record(choices: Sequence[Choice], targets: Targets) -> dict[str, object]:
    """Choices as plain data."""
    return {"targets": targets_record(targets), "choices": [choice_record(choice) for choice in choices]}


def targets_record(targets: Targets) -> dict[str, object]:
    """Promises as plain data; null where there is none."""
    return {
        **{f"{name}_seconds": finite_or_none(seconds) for name, seconds in targets.every.items()},
        "percentile": targets.percentile,
    }


def choice_record(choice: Choice) -> dict[str, object]:
    """One deployment as plain data."""
    return {
        **service_record(choice.service, choice.replicas, choice.load),
        "dollars_per_hour": choice.dollars_per_hour,
        "dollars_per_million_output_tokens": choice.dollars_per_million_output_tokens,
        "binding": choice.binding,
        **bounded_load(choice.service, choice.load, choice.replicas),
    }
