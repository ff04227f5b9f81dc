"""Offers of providers beside the series of a figure: as a table, as data and as rows behind the figure."""

from __future__ import annotations

from collections.abc import Sequence

from inference_econ.report.table import Frame, Table, frame_of
from inference_econ.studies.results import Result


def offers_tables(result: Result) -> Sequence[Table]:
    """Offers against the series that they are drawn beside; none where a figure draws none."""
    records = offer_records(result)
    if not records:
        return ()
    rows = tuple(
        (
            *(str(record[name]) for name in ("provider", "model_as_written", "date")),
            f"{record['tokens_per_second']:.4g}",
            f"{record['dollars_per_million_output_tokens']:g}",
            str(record["series"]),
            *_against(record),
        )
        for record in records
    )
    columns = ("provider", "model", "date", "tokens/s", "$/M", "series", "$/M of the series", "price / cost")
    notes = (
        "Offers are list prices of output tokens and speeds measured from outside: on what chips, in what formats and "
        "with what speculation they are served nobody says. Of a model and day those that no other offer beats.",
    )
    return (Table(f"{result.scenario.name}: offers of providers", columns, rows, notes),)


def _against(record: dict[str, object]) -> tuple[str, str]:
    cost, price = record["series_dollars_per_million_output_tokens"], record["dollars_per_million_output_tokens"]
    if not isinstance(cost, float) or not isinstance(price, float):
        return "too fast for it", "-"
    return f"{cost:.3g}", f"{price / cost:.3g}"


def offer_records(result: Result) -> list[dict[str, object]]:
    """Offers as plain data, each with what its series costs at that speed; None where no point is as fast."""
    curves = {curve.label: curve for curve in result.curves}
    return [
        {
            **beside.offer.model_dump(),
            "series": beside.series,
            "series_dollars_per_million_output_tokens": curves[beside.series].dollars_at(beside.tokens_per_second),
        }
        for beside in result.offers
    ]


def offers_frame(result: Result) -> Frame:
    """Offers as rows behind a figure: points of their series, with provider and day."""
    rows = [
        {
            "series": beside.series,
            "tokens_per_second_per_user": beside.tokens_per_second,
            "dollars_per_million_output_tokens": beside.offer.dollars_per_million_output_tokens,
            "provider": beside.offer.provider,
            "date": beside.offer.date,
        }
        for beside in result.offers
    ]
    return frame_of(rows)
