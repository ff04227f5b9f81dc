"""Page of token prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from inference_econ.answers.deployments.deployment import at_rate
from inference_econ.answers.price import KINDS, Sheet
from inference_econ.answers.slo import Targets
from inference_econ.inputs import Offer
from inference_econ.records.deviations import SEEN
from inference_econ.records.texts import dollars
from inference_econ.report import charts, service
from inference_econ.report.fields import Column, Record, view
from inference_econ.report.notes import doubts, grounds
from inference_econ.report.page import AnswerPage, Table
from inference_econ.report.questions.recommend import choice_label
from inference_econ.serving import loaded

if TYPE_CHECKING:
    from inference_econ.answers.launching.plan import Start

#: Display names of the kinds of tokens.
KIND_NAMES = {"input": "input", "cached_input": "cached input", "output": "output"}
#: Note on a table in which full instances increase the cost of input tokens.
_EXPENSIVE_INPUT = (
    "Input tokens cost more when full, because prompts that share a step save less time each, or are recomputed after "
    "preemptions."
)


class PricePage(AnswerPage[Sheet]):
    """Page of token prices."""

    def tables(self) -> Sequence[Table]:
        """Table of costs by kind of token."""
        sheet, api = self.answer, self.answer.api
        records = [record for record in sheet.records() if record["tokens_per_hour"]]
        kinds = [str(record["tokens"]) for record in records]
        every: Record = {
            "tokens_per_hour": sum(sheet.tokens_per_hour.values()),
            "dollars_per_million_tokens": sheet.dollars_per_million_tokens,
            "dollars_per_hour": sheet.dollars_per_hour,
        }
        columns: list[Column] = [
            ("tokens", [*(KIND_NAMES[kind] for kind in kinds), "all"]),
            *("tokens_per_hour", "dollars_per_million_tokens", "marginal_dollars_per_million", "dollars_per_hour"),
        ]
        if api is not None:
            costs = [api.get(kind, 0.0) for kind in kinds]
            margins = [
                (cost - sheet.average[kind]) * sheet.tokens_per_hour[kind] / 1e6
                for cost, kind in zip(costs, kinds, strict=True)
            ]
            margins.append(sheet.revenue_per_hour(api) - sheet.dollars_per_hour)
            columns.append(("API $/M", [*(f"{cost:g}" for cost in costs), ""]))
            columns.append(("margin $/h", [f"{margin:,.2f}" for margin in margins]))
        setup, chosen = sheet.service.setup, service.picked(sheet.service, sheet.pick)
        if sheet.fleet is not None and sheet.pick is not None:
            chosen = [
                f"This deployment was selected from {sheet.pick.layouts} layouts by this criterion: {sheet.pick.rule}. "
                "For aggregated instances, use --aggregated."
            ]
        earned = [
            *([] if api is None else [break_even(sheet, api)]),
            *([] if sheet.input_price is None else [_output_price(sheet, sheet.input_price)]),
        ]
        load = f"{choice_label(sheet)}. The load is {100 * sheet.load.utilization:.0f}% of capacity."
        power = service.power_notes(setup, sheet.power())
        notes = [
            *([] if setup.grid is None else power),
            # Comparisons with prices share a note, so that they do not displace the notes on prediction errors.
            " ".join([load, *earned]),
            *service.default_slo_notes(sheet.usual),
            *service.wait_notes([sheet.load]),
            *service.kept_with(sheet.chances(sheet.targets), sheet.targets),
            *doubts([setup], sheet.subjects()),
            *([_EXPENSIVE_INPUT] if sheet.marginal["input"] > sheet.average["input"] else []),
            *([] if sheet.offer is None else [offer_label(sheet.offer)]),
        ]
        why = [
            *chosen,
            *service.load_notes(sheet.load, sheet.replicas, sheet.targets),
            *(power if setup.grid is None else []),
            f"Assumptions: {setup.assumptions.name}.",
            "Each kind of token (new input, cached input, output) pays for its share of GPU time. Idle time is "
            "divided in the same proportion.",
            *grounds([setup], sheet.subjects(), SEEN),
        ]
        rows, least = [*records, every], ("marginal_dollars_per_million",)
        rate, promises = sheet.requests_per_second, sheet.targets
        title = service.service_title("Token prices", [sheet.service], rate=rate, promises=promises)
        return (view(title, rows, columns, kind="kind_price", notes=notes, why=why, least=least),)

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Chart of the hourly cost by kind of token."""
        sheet, rate = self.answer, self.answer.load.completed_per_second * self.answer.replicas
        title = (
            "How does the hourly cost divide among tokens?\n"
            f"{service.service_title('Token prices', [sheet.service], rate=rate)}\n"
            f"{choice_label(sheet)}"
        )
        bill = {kind: sheet.average[kind] * sheet.tokens_per_hour[kind] / 1e6 for kind in KINDS}
        parts = {
            KIND_NAMES[kind]: (cost, f"${dollars(cost)}, ${dollars(sheet.average[kind])}/M")
            for kind, cost in bill.items()
        }
        text = f"${dollars(sheet.dollars_per_hour)}, ${dollars(sheet.dollars_per_million_tokens)}/M"
        return {"price": charts.waterfall_chart(title, "US dollars per hour", parts, ("all tokens", text))}

    def start(self) -> Start:
        """Priced deployment, as input of a launch plan."""
        from inference_econ.report.deployment_reader import start_of  # only launch plans need it

        return start_of(self.answer, self.answer.targets, "what is priced")


def offer_label(offer: Offer) -> str:
    """Describe the compared API offer: provider, model and date."""
    hours = f", {offer.hours} hours" if offer.hours else ""
    cached = "" if offer.dollars_per_million_cached_input_tokens else "; no price for cached input"
    return f"API: {offer.provider}, {offer.model_as_written}{hours}, {offer.date} ({offer.source}){cached}."


def _output_price(sheet: Sheet, input_price: float) -> str:
    """Sentence on the output token price that covers the cost, for a given input token price [USD per 1e6 tokens]."""
    price = sheet.break_even_output_price or 0.0
    if price <= 0.0:
        return f"At ${input_price:g} per million input tokens, input revenue alone covers the cost."
    return f"At ${input_price:g} per million input tokens, ${dollars(price)} per million output tokens covers the cost."


def break_even(sheet: Sheet, api: Mapping[str, float]) -> str:
    """Sentence on the request rate at which the revenue of the fleet at API prices covers its cost."""
    revenue, fleet = sheet.revenue_per_hour(api), sheet.fleet
    if revenue <= 0:
        return "There is no revenue at these prices."
    needed, reach = sheet.load.completed_per_second * sheet.replicas * sheet.dollars_per_hour / revenue, ""
    # Capacity of all instances [1/s].
    most = sheet.service.most_requests_per_second * sheet.replicas
    if fleet is not None:
        most = sheet.load.requests_per_second / max(fleet.prefill_utilization, fleet.decode_utilization)
    if needed > most:
        reach = f", above its capacity of {most:.3g}"
    elif sheet.targets.given:
        arrivals = sheet.load.arrivals
        earning = (
            loaded(sheet.service, needed / sheet.replicas, arrivals=arrivals)
            if fleet is None
            else at_rate(sheet, needed, targets=Targets(), arrival_scv=arrivals.scv).load
        )
        broken = sheet.targets.predicted(sheet.service).first_violated(earning)
        if broken == "capacity":
            reach = f", {100 * earning.utilization:.0f}% of its capacity"
        elif broken is not None:
            reach = f", where it violates the {broken.upper()} SLO"
    return f"Revenue is ${revenue:,.2f} per hour. This fleet breaks even at {needed:.3g} requests/s{reach}."
