"""The most traffic that some chips or a budget carry, as a table and as data."""

from __future__ import annotations

from collections.abc import Sequence

from inference_econ.answers.heading import promises_label
from inference_econ.answers.most_traffic import MostTraffic, output_record
from inference_econ.answers.promises import Targets
from inference_econ.records.texts import assumptions_label, per_hour
from inference_econ.report.page import AnswerPage, Pieces
from inference_econ.report.promises import chances_column, planned_notes
from inference_econ.report.recommend import choices_table, several_chips, shown_record
from inference_econ.report.service import fleet_name, service_title
from inference_econ.report.table import Table


class MostTrafficPage(AnswerPage[MostTraffic]):
    """Deployments that carry the most with some means, ready to be shown."""

    def tables(self) -> Sequence[Table]:
        """One row per deployment."""
        answer, targets = self.answer, self.answer.targets
        ttft, tpot = (f"{name}_seconds.{targets.percentile_of(name)}" for name in ("ttft", "tpot"))
        kept = [choice.chances(targets) for choice in answer]
        power = () if answer.means.provisioned_watts is None else ("provisioned_watts",)
        columns = (
            *several_chips(answer), "accelerators", "accelerators_rented", "replicas", "layout", "request_rate",
            "output_tokens_per_second", *power, "dollars_per_hour", "dollars_per_million_output_tokens", "utilization",
            ttft, tpot, *chances_column(targets, kept), "binding",
        )  # fmt: skip
        services = [choice.service for choice in answer]
        together = "With an SLO of the E2E no pools that prefill and decode apart are compared."
        table = choices_table(
            service_title(f"Most requests for {answer.means.text}", services, answer.setups, promises=answer.targets),
            answer,
            [{**shown_record(choice, targets), **output_record(choice)} for choice in answer],
            columns,
            notes=(
                f"The most requests for {answer.means.text}, {_within(targets)}.",
                *planned_notes(targets, kept),
                *([together] if "e2e" in targets.given else []),
            ),
            why=(
                "tokens/s and $/M are of output, and $/M carries the whole bill; of xPyD (x prefill and y decode "
                "instances) the fuller pool binds; binding: what a little more would break. "
                f"Assumptions: {assumptions_label(self.setups())}.",
            ),
            least=(
                *("output_tokens_per_second", "utilization", "accelerators_rented"),
                *("dollars_per_million_output_tokens", "binding", *(("dollars_per_hour",) if power else ())),
            ),
        )
        return (table,)

    def question(self) -> str:
        """Question about how much the means carry."""
        means, promise = self.answer.means.text, promises_label(self.answer.targets)
        model = self.answer[0].service.setup.model.name
        return f"How much traffic of {model} do {means} carry{f' with {promise}' if promise else ''}?"

    def conclusion(self) -> Pieces:
        """Sentence on the deployment that carries the most."""
        best = self.answer[0]
        rate, fleet = best.load.requests_per_second * best.replicas, fleet_name(best.service, best.replicas)
        return (f"{rate:.4g} requests/s on {fleet}, for $", per_hour(best.dollars_per_hour), " per hour.")

    @property
    def proportional(self) -> bool:
        """True for chips alone: at other prices a budget buys other fleets."""
        return self.answer.means.dollars_per_hour is None


def _within(targets: Targets) -> str:
    """Up to where instances are filled, in words."""
    if targets.given:
        return "within the SLOs"
    return f"{100 * targets.fullest:g} % of what is completed"
