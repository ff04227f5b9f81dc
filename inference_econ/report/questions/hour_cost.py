"""The cost of an hour as a table and as data."""

from __future__ import annotations

from collections.abc import Sequence

from inference_econ.answers.hour_cost import HourCost
from inference_econ.records.facts import node_record
from inference_econ.records.texts import amount, words
from inference_econ.report.page import AnswerPage, Pieces, Table

#: The parts of an hour, as people call them.
_PARTS = words("hour")


class HourCostPage(AnswerPage[HourCost]):
    """The cost of an hour, ready to be shown."""

    proportional = False

    def tables(self) -> Sequence[Table]:
        """Dollars by cause, and what a whole node costs."""
        cost, total = self.answer, float(self.answer.parts.total)
        rows = [(_PARTS[name], f"{value:.3f}", f"{100 * value / total:.0f}") for name, value in self._parts().items()]
        rows.append(("hour in use", f"{total:.3f}", "100"))
        notes = (
            f"{cost.terms.utilisation:g} of all hours in use; the chip draws {cost.board_watts:g} W at work, its host "
            f"{cost.terms.host_watts:g} W.",
            f"Bought for ${cost.purchase_dollars:,.0f}{self._seller()}, over {cost.terms.lifetime_years:g} years at "
            f"{100 * cost.terms.cost_of_capital:g} % interest; --price {total:.4g} in other commands.",
            *self._whole_node(total),
            self._power(),
        )
        return (
            Table(f"One hour of {cost.hardware.name}", ("part", "$", "share %"), tuple(rows), notes[1:], notes[:1]),
        )

    def _parts(self) -> dict[str, float]:
        return {name: float(value) for name, value in self.answer.parts._asdict().items()}

    def _power(self) -> str:
        """Power of board, server and facility, and emissions."""
        drawn, grid = self.answer.power_record(), self.answer.grid
        carbon = (
            "" if grid is None else f", {amount(drawn['grams_co2e_per_accelerator_hour'])} g per hour at {grid.text}"
        )
        return (
            f"At work the board draws {drawn['board_watts']:g} W, with its host {drawn['server_watts']:g} W, the "
            f"facility {drawn['facility_watts']:g} W{carbon}."
        )

    def _seller(self) -> str:
        """Words for who said the purchase price, where it is that of the file."""
        bought = self.answer.hardware.purchase
        if bought is None or bought.dollars_per_accelerator != self.answer.purchase_dollars:
            return ""
        return f" ({bought.kind}, {bought.date})"

    def _whole_node(self, total: float) -> list[str]:
        node = node_record(self.answer.hardware, total)
        if node["usd_per_node_hour"] is None:
            return []
        return [f"A node of {node['gpus_per_node']} costs ${node['usd_per_node_hour']:.4g} per hour."]

    def question(self) -> str:
        """Question about the cost of an hour."""
        return f"What does an hour of {self.answer.hardware.name} cost its owner?"

    def conclusion(self) -> Pieces:
        """The cost of an hour, and what it follows from."""
        cost = self.answer
        bought = f"if it is bought for ${cost.purchase_dollars:,.0f} and used for {cost.terms.lifetime_years:g} years."
        return (f"${float(cost.parts.total):.3f}, {bought}",)
