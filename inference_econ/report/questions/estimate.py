"""Page with the estimate of one deployment."""

from __future__ import annotations

from collections.abc import Sequence

from inference_econ.answers.estimate import DeploymentEstimate
from inference_econ.records.deviations import SERVED
from inference_econ.records.texts import assumptions_label
from inference_econ.report.fields import Column, Record, field, view
from inference_econ.report.headings import subject_label
from inference_econ.report.notes import doubts, grounds
from inference_econ.report.page import AnswerPage, Pieces, Table
from inference_econ.report.service import fleet_label, service_title

#: Columns that narrow terminals leave out, least important first.
_LEAST = ("joules_per_output_token", "e2e_seconds", "requests_per_second")


class EstimatePage(AnswerPage[DeploymentEstimate]):
    """Page that shows one deployment at several concurrencies."""

    def tables(self) -> Sequence[Table]:
        """Table with one row per concurrency."""
        answer, records = self.answer, self.answer.records()
        columns: list[Column] = [
            "concurrency", "requests_per_second", "ttft_seconds", _bounded(records, "tpot_seconds"), "e2e_seconds",
            "tokens_per_second_per_user", "tokens_per_second_per_accelerator",
            *([_bounded(records, "dollars_per_million_output_tokens")] if answer.states.setup.is_priced else []),
            *(["joules_per_output_token"] if records[0]["joules_per_output_token"] is not None else []),
        ]  # fmt: skip
        subjects = answer.states.subjects()
        title = service_title(
            f"Estimate for {fleet_label(answer.service, answer.replicas)}", [answer.service], self.setups()
        )
        notes = ("TTFT excludes queueing; --request-rate includes queueing.", *doubts(self.setups(), subjects))
        why = (
            "Concurrency and requests/s are totals over all replicas. Parentheses contain 80% intervals.",
            f"This layout was selected from {answer.pick.layouts} by this criterion: {answer.pick.rule}. "
            f"Assumptions: {assumptions_label(self.setups())}.",
            *grounds(self.setups(), subjects, SERVED),
        )
        return (view(title, records, columns, kind="estimate_point", notes=notes, why=why, least=_LEAST),)

    def question(self) -> str:
        """Question that the page answers: how fast the deployment is at each concurrency."""
        return f"How fast is {subject_label(self.answer.states.setup)} at each concurrency?"

    def conclusion(self) -> Pieces:
        """Sentence on speed and throughput at the largest concurrency."""
        last = self.answer.records()[-1]
        return (
            f"At {last['concurrency']:,.0f} concurrent requests each user gets "
            f"{last['tokens_per_second_per_user']:.3g} tokens/s, and each GPU generates "
            f"{last['tokens_per_second_per_accelerator']:,.0f} output tokens/s.",
        )


def _bounded(records: Sequence[Record], name: str) -> tuple[str, list[str]]:
    """Heading and table cells of a field, with its 80% interval in parentheses."""
    shown = field(name, "estimate_point")
    cells = []
    for record in records:
        low, high = record.get(f"{name}_low"), record.get(f"{name}_high")
        interval = "" if low is None or high is None else f" ({shown.text(low)}-{shown.text(high)})"
        cells.append(f"{shown.text(record[name])}{interval}")
    return shown.head(), cells
