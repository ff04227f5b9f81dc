"""Comparison of API offers and fleets as a table, data and a chart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from inference_econ.answers.deployments.deployment import Deployment, under_load
from inference_econ.answers.slo import Chances, Targets, chances, least_chance
from inference_econ.extras.fleets.buy import MONTH_HOURS, Crossover, Purchase
from inference_econ.extras.fleets.capacity_blocks import CapacityBlock
from inference_econ.extras.fleets.day_page import RENTAL_UNITS, lot_prices
from inference_econ.records.deviations import SEEN
from inference_econ.records.texts import amount, assumptions_label, chance_percent
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, PlotSeries
from inference_econ.report.fields import Record, view
from inference_econ.report.notes import doubts, grounds, unused_drafts
from inference_econ.report.page import AnswerPage, Pieces, Table
from inference_econ.report.questions.recommend import choice_label
from inference_econ.report.service import default_slo_notes, kept_with, service_title

#: Number of steps of a fleet that are drawn, and factor by which the chart exceeds the first and last break-even [1].
_STEPS, _BEYOND = 12, 5.0
#: Maximum number of distinguishable lines [1].
_LINES = 6


class BuyPage(AnswerPage[Purchase]):
    """Page that compares API offers and fleets."""

    #: API prices do not change with the price of a chip.
    proportional = False
    #: Fleet whose cost is shown.
    fleet = "the smallest fleet"

    def tables(self) -> Sequence[Table]:
        """Table with one row per fleet and offer."""
        answer = self.answer
        columns = (
            "hardware", "paid", "accelerators", "dollars_per_month", "dollars_per_million_when_full", "offer",
            "dollars_per_million_tokens", "cheaper_from", "always_cheaper_from", "probability",
        )  # fmt: skip
        rate, rows = answer.request_rate, answer.records()
        traffic = "" if rate is None else f", {rate:g} requests/s"
        title = service_title(f"API, rented or owned{traffic}", answer.services, promises=answer.targets)
        if rate is None:
            return (self.table(title, rows, columns, least=("dollars_per_month", "accelerators")),)
        billed = (
            "hardware", "paid", "accelerators", "dollars_per_month", "offer", "offer_dollars_per_month",
            "cheaper_from", "always_cheaper_from", "probability",
        )  # fmt: skip
        rows = [{**row, **row["rate_bill"]} for row in rows]
        return (self.table(title, rows, billed, least=("always_cheaper_from", "probability")),)

    def table(
        self, title: str, rows: Sequence[Record], columns: Sequence[str], *why: str, least: Sequence[str]
    ) -> Table:
        """Table of break-even points with the given columns and explanations."""
        answer = self.answer
        # Without a request rate, rental units are loaded to their predicted SLO capacity, which about half of measured
        # servers would not reach.
        loaded = answer.fleets.values() or answer.lots
        filled = min((_chances(each, answer.targets) for each in loaded), key=least_chance)
        subjects = under_load((lot.service, lot.load) for lot in answer.lots)
        return view(
            title,
            rows,
            columns,
            kind="crossover",
            least=least,
            notes=(
                " ".join((*self.conclusion(), *(f"Left out: {reason}." for reason in answer.left_out))),
                *default_slo_notes(answer.usual),
                *kept_with(filled, answer.targets),
                *unused_drafts(subjects),
                *doubts(self.setups(), subjects),
            ),
            why=(
                *why,
                f"{RENTAL_UNITS} 'cheaper from': lowest load at which one rental unit costs less than the API.",
                "'always from': load above which the fleet always costs less, even right after it adds a rental unit.",
                "'P(cheaper) %': probability that a measured fleet at full load costs less than the API.",
                f"The table has the cheapest and the median of {len(answer.offers)} API offers. '$ a month': rent "
                f"of {self.fleet if answer.request_rate is None else 'the fleet for this rate'} for {MONTH_HOURS:g} "
                "hours, busy or idle.",
                f"P(SLO met) applies to {'fleets at this rate' if answer.request_rate else 'full rental units'}.",
                *_pools(answer.fleets.values() or [lot.pools for lot in answer.lots]),
                *lot_prices(answer.lots),
                f"Assumptions: {assumptions_label(self.setups())}.",
                *grounds(self.setups(), subjects, SEEN),
            ),
        )

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Chart of monthly cost over the request rate, for the offers and a limited number of fleets."""
        answer = self.answer
        marks = [rate for crossover in answer.crossovers for rate in (crossover.first, crossover.always) if rate]
        marks += [lot.requests_per_second for lot in answer.lots]
        marks += [] if answer.request_rate is None else [answer.request_rate]
        low, high = min(marks) / _BEYOND, max(marks) * _BEYOND
        shown = dict.fromkeys(crossover.offer for crossover in answer.crossovers)
        seconds = 3600.0 * MONTH_HOURS
        series = [
            PlotSeries(f"API: {name}", [low, high], [rate * seconds * answer.offers[name] for rate in (low, high)])
            for name in shown
        ]
        cheap = sorted(self.answer.lots, key=lambda lot: lot.dollars_per_hour / lot.requests_per_second)
        firsts = list({lot.chip: lot for lot in reversed(cheap)}.values())
        others = [lot for lot in cheap if not any(lot is first for first in firsts)]
        drawn = [*firsts, *others[: max((_LINES - len(series) - (answer.request_rate is not None)) - len(firsts), 0)]]
        for lot in [lot for lot in self.answer.lots if any(lot is chosen for chosen in drawn)]:
            ends = [number * lot.requests_per_second for number in range(1, _STEPS)]
            further = np.geomspace(ends[-1], high, _STEPS)[1:].tolist() if high > ends[-1] else []
            # The line has a step at the rate at which a rental unit is full and the next unit starts.
            rates = [low, *(rate * side for rate in ends if rate < high for side in (1.0, 1.0 + 1e-6)), *further]
            bills = [answer.fleet_dollars_per_month(lot, rate) for rate in rates]
            series.append(PlotSeries(f"{lot.chip}, {lot.way.replace('_', ' ')}", rates, bills))
        if answer.request_rate is not None:
            bills = [bill for line in series for bill in line.y]
            rate = answer.request_rate
            series.append(PlotSeries(f"your load: {rate:g} requests/s", [rate, rate], [min(bills), max(bills)]))
        title = f"{self.question()}\n{self.tables()[0].title}"
        return {"buy": charts.line_chart(Plot(title, "requests/s", "US dollars a month", tuple(series)))}

    def question(self) -> str:
        """Title of the page."""
        return f"From which load is a fleet of {self.answer.lots[0].setup.model.name} cheaper than an API?"

    def conclusion(self) -> Pieces:
        """Sentence on the cheapest option at the given rate, or on the fleet that breaks even first."""
        cheapest, rate = next(iter(self.answer.offers)), self.answer.request_rate
        if rate is not None:
            bills = {f"the API of {cheapest}": self.answer.offer_dollars_per_month(cheapest, rate)}
            for lot in self.answer.lots:
                name = f"{self.answer.fleets[lot.chip].rented} x {lot.chip} ({lot.way.replace('_', ' ')})"
                bills[name] = self.answer.bill(lot)
            first, second = sorted(bills, key=bills.__getitem__)[:2]
            return (
                f"At {rate:g} requests/s, {first} is cheapest (${bills[first]:,.0f} a month), followed by {second} "
                f"(${bills[second]:,.0f} a month).",
            )
        rows = [row for row in self.answer.crossovers if row.offer == cheapest and row.first is not None]
        if not rows:
            return (f"At these prices, no fleet is cheaper than the API of {cheapest}, even at full load.",)
        best = min(rows, key=lambda row: row.first or 0.0)
        chance = "" if best.probability is None else f" (probability {chance_percent(best.probability)}%)"
        return (
            f"{best.lot.accelerators} x {best.lot.chip} ({best.lot.way.replace('_', ' ')}) cost less than the API of "
            f"{cheapest}, from {self.traffic(best)}{chance}.",
        )

    def traffic(self, crossover: Crossover) -> str:
        """Break-even rate as text."""
        return f"{amount(crossover.first or 0.0)} requests/s"


def _chances(each: CapacityBlock | Deployment, targets: Targets) -> Chances:
    """Probabilities that a full rental unit, or a fleet at its request rate, meets the SLOs."""
    if isinstance(each, Deployment):
        return each.chances(targets)
    return chances(each.service, each.load, targets) if each.pools is None else each.pools.chances(targets)


def _pools(choices: Iterable[Deployment | None]) -> list[str]:
    """Sentence on disaggregated fleets; empty if all fleets are aggregated."""
    labels = dict.fromkeys(
        choice_label(choice) for choice in choices if choice is not None and choice.fleet is not None
    )
    if not labels:
        return []
    return [
        f"Prefill (P) and decode (D) instances: {'; '.join(labels)}. A rental unit has one decode instance and its "
        "prefill instances."
    ]
