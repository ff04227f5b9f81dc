"""All prices that files list, with who said so and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inference_econ.answers.record import node_record
from inference_econ.inputs import HardwareSpec, HourPrice, catalog, prices
from inference_econ.report.page import Page
from inference_econ.report.table import Table

_COLUMNS = ("chip", "kind", "seller", "years", "$/GPU-h", "$/node-h", "node", "date", "verified", "default", "source")
_NOTES = (
    "Default: taken where nobody names a price, of one chip alone; several are compared by a kind and seller that all "
    "list. TCO: what an hour costs who owns it. Years: the term of a contract.",
    "Verified: read in the source; prices that are not, estimates and undated ones are taken only with a remark.",
)


@dataclass(frozen=True)
class PricesPage(Page):
    """The prices of some chips."""

    chips: Sequence[str]
    """Names or paths."""

    def tables(self) -> Sequence[Table]:
        """One row per price."""
        rows = tuple(_row(record) for record in self.record())
        return (Table(f"{len(rows)} prices of {len(self.chips)} chips", _COLUMNS, rows, _NOTES),)

    def record(self) -> list[dict[str, object]]:
        """One record per price, in the order of the files."""
        return [record for chip in self.chips for record in _records(chip, catalog.hardware(chip))]


def _records(name: str, chip: HardwareSpec) -> list[dict[str, object]]:
    usual = prices.best(chip)
    return [
        {
            "chip": name,
            "kind": price.kind,
            "seller": price.seller or None,
            "years": price.years,
            "usd_per_gpu_hour": price.dollars,
            **node_record(chip, price.dollars),
            "date": price.date,
            "verified": price.verified,
            "default": price == usual,
            "source": _source(price),
        }
        for price in prices.listed(chip)
    ]


def _source(price: HourPrice) -> str:
    return f"{price.ref}: {price.where}"


def _row(record: dict[str, object]) -> tuple[str, ...]:
    node = record["usd_per_node_hour"]
    return (
        str(record["chip"]),
        str(record["kind"]),
        str(record["seller"] or "-"),
        str(record["years"] or "-"),
        f"{record['usd_per_gpu_hour']:.4g}",
        "-" if node is None else f"{node:.4g}",
        "-" if node is None else str(record["gpus_per_node"]),
        str(record["date"]),
        "yes" if record["verified"] else "no",
        "*" if record["default"] else "",
        str(record["source"]),
    )
