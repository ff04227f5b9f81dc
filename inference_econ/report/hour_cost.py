"""The cost of an hour as a table and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inference_econ.answers.hour_cost import HourCost
from inference_econ.report.page import Page
from inference_econ.report.table import Table

#: The parts of an hour, as people call them.
_PARTS = {
    "depreciation": "depreciation",
    "capital": "cost of capital",
    "operations": "operations",
    "accelerator_energy": "energy of the accelerator",
    "host_energy": "energy of host and network",
}


@dataclass(frozen=True)
class HourCostPage(Page):
    """The cost of an hour, ready to be shown."""

    cost: HourCost

    def tables(self) -> Sequence[Table]:
        """Dollars by cause."""
        cost, total = self.cost, float(self.cost.parts.total)
        rows = [(_PARTS[name], f"{value:.3f}", f"{100 * value / total:.0f}") for name, value in self._parts().items()]
        rows.append(("hour in use", f"{total:.3f}", "100"))
        note = (
            f"{cost.ownership.utilisation:g} of all hours in use; the chip draws {cost.board_watts:g} W at work, its "
            f"host {cost.ownership.host_watts:g} W."
        )
        return (Table(f"One hour of {cost.hardware.name}", ("part", "$", "share %"), tuple(rows), why=(note,)),)

    def record(self) -> object:
        """Dollars by cause."""
        total = float(self.cost.parts.total)
        return {"hardware": self.cost.hardware.name, "dollars_per_accelerator_hour": total, "parts": self._parts()}

    def _parts(self) -> dict[str, float]:
        return {name: float(value) for name, value in self.cost.parts._asdict().items()}
