"""Day of a fleet as tables, data and a chart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from inference_econ.answers.deployments.deployment import under_load
from inference_econ.engine import Instances
from inference_econ.extras.fleets.capacity_blocks import CapacityBlock
from inference_econ.extras.fleets.day import DayOfFleet
from inference_econ.records.deviations import SEEN
from inference_econ.records.texts import amount, assumptions_label, words
from inference_econ.report import charts
from inference_econ.report.charts.plot import Plot, PlotSeries
from inference_econ.report.fields import view
from inference_econ.report.headings import targets_label
from inference_econ.report.notes import doubts, grounds
from inference_econ.report.page import AnswerPage, Pieces, Table
from inference_econ.report.service import default_slo_notes, service_title

#: Autoscaler metrics in words.
_LOOKS = words("policy")
#: Note on the term in fleets.
RENTAL_UNITS = "A rental unit is the smallest group of replicas that can be rented or bought."


class FleetPage(AnswerPage[DayOfFleet]):
    """Page of a day of a fleet."""

    #: A day has several kinds of prices, which do not change in proportion.
    proportional = False

    def tables(self) -> Sequence[Table]:
        """Tables of the rental units, the cost of constant, autoscaled and planned fleets, and the hours."""
        answer = self.answer
        records = answer.lot_records()
        counts = [_range(record["rental_units_by_hour"]) for record in records]
        mixture = view(
            self._title(),
            records,
            (
                *("hardware", "layout", "paid"), ("rental units", counts),
                *("accelerators", self.answer.counted, "dollars_per_hour"),
            ),
            kind="fleet_lot",
            notes=(
                *default_slo_notes(answer.usual),
                *doubts(self.setups(), self._subjects()),
                *(f"Left out: {reason}." for reason in answer.left_out),
            ),
            why=(
                f"The planned fleet costs at most {100 * answer.plan.gap:.2g}% more than the cheapest fleet of these "
                "rental units that changes only at full hours. Each GPU has one layout, and another layout may cost "
                "less; compare with --tp.",
                f"{RENTAL_UNITS} 'rental units': their smallest and largest number in any hour.",
                *lot_prices(answer.lots),
                f"Assumptions: {assumptions_label(self.setups())}.",
                *grounds(self.setups(), self._subjects(), SEEN),
            ),
        )  # fmt: skip
        runs = view(
            "Cost of the fleet by scaling policy",
            answer.run_records(),
            ("run", "gpu_hours", "most_accelerators", "dollars_per_day", *self.answer.unit_cost(1.0), "slo_met_share"),
            kind="fleet_run",
            notes=(self._saved(),),
            why=(self._scaled(), self._elasticity()),
        )
        columns = (
            "hour", answer.counted, "planned_gpus", "planned_dollars", "autoscaled_gpus", "autoscaled_dollars",
            "autoscaled_slo_met_share",
        )  # fmt: skip
        least = ("planned_dollars", "autoscaled_dollars")
        by_hour = "The day by hour" if len(answer.rates) == _DAY else "The hours"
        return mixture, runs, view(by_hour, answer.records(), columns, least=least)

    def _title(self) -> str:
        services = [lot.service for lot in self.answer.lots]
        chips = {service.setup.hardware.name: service for service in services}
        title = f"Cheapest fleet, {self._span()}"
        return service_title(title, list(chips.values()), promises=self.answer.targets)

    def _span(self) -> str:
        hours = len(self.answer.rates)
        return "a day" if hours == _DAY else f"{hours} hours"

    def _subjects(self) -> tuple[Instances, ...]:
        return under_load((lot.service, lot.load) for lot in self.answer.lots)

    def _saved(self) -> str:
        """Sentence on the savings of a perfect forecast, and on the cost of a constant fleet."""
        days = {run: float(day.dollars.sum()) for run, day in self.answer.runs.items()}
        share = 100.0 * self.answer.saved_by_knowing
        worth, better = f"a perfect forecast saves {share:.1f}%", ""
        if share < 0:
            met = {run: round(100.0 * day.slo_met_share, 2) for run, day in self.answer.runs.items()}
            better = " The plan meets the SLOs more often." if met["planned"] > met["autoscaled"] else ""
            worth = f"the plan costs {-share:.1f}% more: it changes only at full hours, for the peak load of each hour"
        constant = round(100.0 * (days["constant"] / days["autoscaled"] - 1.0))
        beside = f"{abs(constant)}% {'more' if constant > 0 else 'less'} than" if constant else "the same as"
        return (
            f"Compared with autoscaling, {worth}.{better} A constant fleet, sized for the busiest hour, "
            f"costs {beside} autoscaling."
        )

    def _scaled(self) -> str:
        answer = self.answer
        return (
            "The autoscaler adds replicas to the reserved rental units of the plan. The autoscaler keeps the load at "
            f"{100 * answer.target:.3g}% of the capacity within the SLOs, measured by {_LOOKS[answer.policy]}. 'SLO "
            "met %': share of requests that arrive while capacity suffices."
        )

    def _elasticity(self) -> str:
        terms = self.answer.elasticity
        return (
            f"A replica starts in {terms.startup_seconds:g} s. The autoscaler polls every {terms.polling_seconds:g} s "
            f"and ignores changes of load up to {100 * terms.tolerance:g}%. "
            f"The autoscaler removes a replica that was not needed for {terms.scale_down_seconds:g} s. The autoscaled "
            f"fleet has at most {terms.most_of_peak:g}x the capacity that the busiest hour needs. A spot machine is "
            f"interrupted {terms.interruptions_per_hour:g} times per hour. Spot machines provide at most "
            f"{100 * terms.spot_share:g}% of the capacity."
        )

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Charts of GPUs, load with capacity, and SLO attainment over the day."""
        answer, hours = self.answer, len(self.answer.rates)
        capacity = [lot.carried for lot in answer.lots]
        gpus = [_steps(run, answer.runs[run].gpu_hours) for run in _RUNS]
        served = [_steps(run, capacity @ answer.runs[run].serving) for run in _RUNS]
        kept = [_steps(run, 100.0 * answer.runs[run].kept) for run in _RUNS]
        traffic = PlotSeries("traffic", [hour + 0.5 for hour in range(hours)], list(answer.rates), points=True)
        plots = (
            Plot("Rented GPUs", "hour", "GPUs", tuple(gpus), "", from_zero=True),
            Plot("Capacity within the SLOs", "hour", answer.lots[0].counted, (*served, traffic), "", from_zero=True),
            Plot("SLO met", "hour", "% of requests", tuple(kept), "", from_zero=True),
        )
        return {"fleet": charts.line_charts(plots, f"{self.question()}\n{self._title()}")}

    def question(self) -> str:
        """Title of the page."""
        model, promise = self.answer.lots[0].setup.model.name, targets_label(self.answer.targets)
        promised = f" with {promise}" if promise else ""
        return f"Which fleet serves {self._span()} of {model}{promised} for the least money?"

    def conclusion(self) -> Pieces:
        """Sentence on the cost of the autoscaled fleet, and on the savings of a perfect forecast."""
        day = self.answer.runs["autoscaled"]
        return (
            f"With autoscaling, the fleet takes {amount(float(day.gpu_hours.sum()))} GPU-hours and costs "
            f"${day.dollars.sum():,.2f}. It meets the SLOs for {100 * day.slo_met_share:.4g}% of the requests. "
            f"{self._saved()}",
        )


def lot_prices(lots: Iterable[CapacityBlock]) -> list[str]:
    """Sentences on the hourly price in each pricing model, and its source."""
    return [f"{lot.chip}, {lot.way}: ${lot.price.dollars:.4g} per GPU-hour, {lot.price.terms}." for lot in lots]


#: Hours per day [1].
_DAY = 24
#: Legend of the constant, autoscaled and planned fleets.
_RUNS = ("planned", "autoscaled", "constant")


def _steps(label: str, values: Iterable[float]) -> PlotSeries:
    """Line that is constant within each hour."""
    levels = [float(value) for value in values]
    x = [float(end) for hour in range(len(levels)) for end in (hour, hour + 1)]
    return PlotSeries(label, x, [value for value in levels for _ in range(2)])


def _range(counts: Sequence[int]) -> str:
    """Range of numbers as text."""
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"
