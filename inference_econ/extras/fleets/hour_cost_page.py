"""Cost of an hour as a table and data."""

from __future__ import annotations

from collections.abc import Sequence

from inference_econ.extras.fleets.hour_cost import HourCost
from inference_econ.records.facts import node_record
from inference_econ.records.texts import amount, words
from inference_econ.report.page import AnswerPage, Pieces, Table

#: Names of the parts of an hour.
_PARTS = words("hour")


class HourCostPage(AnswerPage[HourCost]):
    """Page of the cost of an hour."""

    proportional = False

    def tables(self) -> Sequence[Table]:
        """Table of the hourly cost by cause, with notes on the cost of a node and on power."""
        cost, chip, total = self.answer, self.answer.hardware, float(self.answer.parts.total)
        parts = {name: float(value) for name, value in cost.parts._asdict().items()}
        rows = [(_PARTS[name], f"{value:.3f}", f"{100 * value / total:.0f}") for name, value in parts.items()]
        always = cost.terms.utilisation == 1.0
        rows.append(("hour" if always else "hour in use", f"{total:.3f}", "100"))

        bought, seller = chip.purchase, ""
        if bought is not None and bought.dollars_per_accelerator == cost.purchase_dollars:
            seller = f" ({bought.kind}, {bought.date})"
        drawn, grid = cost.power_record(), cost.grid
        notes = []
        if grid is not None:
            notes.append(
                f"In use, a GPU emits {amount(drawn['grams_co2e_per_accelerator_hour'])} gCO2e per hour at {grid.text}."
            )
        notes.append(
            f"The GPU is bought for ${cost.purchase_dollars:,.0f}{seller} and used for {cost.terms.lifetime_years:g} "
            f"years, at {100 * cost.terms.cost_of_capital:g}% interest. In other commands, use --price {total:.4g}."
        )
        node = node_record(chip, total)
        if node["usd_per_node_hour"] is not None:
            notes.append(f"A node of {node['gpus_per_node']} costs ${node['usd_per_node_hour']:.4g} per hour.")
        notes.append(
            f"In use, a GPU draws {drawn['board_watts']:g} W, {drawn['server_watts']:g} W with its share of the "
            f"server, and {drawn['facility_watts']:g} W with cooling and power losses."
        )
        use = f"The cost is divided among {100 * cost.terms.utilisation:g}% of all hours."
        if always:
            use = "Every hour has this cost, busy or idle. --utilization 0.8 divides the cost among 80% of the hours."
        why = (
            f"{use} In use, its board draws "
            f"{cost.board_watts:g} W, and its share of the server {cost.terms.host_watts:g} W.",
        )
        return (Table(f"One hour of {chip.name}", ("part", "$", "share %"), tuple(rows), tuple(notes), why),)

    def question(self) -> str:
        """Title of the page."""
        return f"What does an hour of {self.answer.hardware.name} cost an owner?"

    def conclusion(self) -> Pieces:
        """Sentence on the cost of an hour."""
        cost = self.answer
        bought = f"if it is bought for ${cost.purchase_dollars:,.0f} and used for {cost.terms.lifetime_years:g} years."
        return (f"${float(cost.parts.total):.3f}, {bought}",)
