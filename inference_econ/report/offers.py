"""Recorded API offers of models: who charges what for a million tokens, since when, and who says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inference_econ.answers import buyer
from inference_econ.inputs import catalog, known_offers, offers
from inference_econ.report.page import Page
from inference_econ.report.table import Table

_COLUMNS = ("provider", "model", "hours", "$/M input", "$/M cached", "$/M output", "tokens/s", "date", "source")
_NOTES = (
    "The last recorded day of each offer, cheapest output first. 'inference-econ offers --refresh FILE' adds today's: "
    "the JSON of models.dev, or a CSV of one's own. --json says where in its source each stands.",
)


@dataclass(frozen=True)
class OffersPage(Page):
    """The last offers of a model, or of all."""

    model: str | None = None
    """Name or path; None for all models."""

    def tables(self) -> Sequence[Table]:
        """One row per offer."""
        rows = tuple(_row(record) for record in self.record())
        of = "" if self.model is None else f" of {catalog.model(self.model).name}"
        return (Table(f"{len(rows)} API offers{of}", _COLUMNS, rows, _NOTES),)

    def record(self) -> list[dict[str, object]]:
        """One record per offer."""
        listed = known_offers() if self.model is None else buyer.offers_of(catalog.model(self.model))
        return [offer.model_dump() for offer in offers.latest(listed)]


def _row(record: dict[str, object]) -> tuple[str, ...]:
    numbers = ("input_tokens", "cached_input_tokens", "output_tokens")
    return (
        *(str(record[name] or "-") for name in ("provider", "model_as_written", "hours")),
        *(_number(record[f"dollars_per_million_{name}"]) for name in numbers),
        _number(record["tokens_per_second"]),
        str(record["date"]),
        str(record["source"]),
    )


def _number(value: object) -> str:
    return "-" if value is None else f"{value:.4g}"
