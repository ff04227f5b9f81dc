"""Tokens of an API, rented machines or machines of one's own for agents: dollars a month of so many of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from inference_econ.answers.agent_answers import AgentChoice, Use
from inference_econ.answers.buy import MONTH_HOURS, Crossover, Purchase
from inference_econ.answers.lots import Lot, Way, lots_of


@dataclass(frozen=True, slots=True)
class AgentLot(Lot):
    """Replicas that are rented together, each with the most agents that it carries within promises.

    Attributes
    ----------
    use : Use
        What agents make of one replica.
    """

    use: Use

    @property
    def agents(self) -> float:
        """Most agents that a lot carries within the promises [1]."""
        return self.replicas * self.use.agents

    @property
    def pace(self) -> float:
        """Requests that an agent sends, of as many as are carried [1/s]."""
        return self.load.requests_per_second / self.use.agents

    def count(self, agents: float) -> int:
        """Lots that carry some agents [1]."""
        return max(math.ceil(agents / self.agents - 1e-9), 1)


@dataclass(frozen=True, slots=True, repr=False)
class AgentPurchase(Purchase):
    """Ways to have the answers that agents need for a month: of :class:`AgentLot`.

    Attributes
    ----------
    agents : int or None
        How many there are [1]; None where that is left open.
    """

    page = "report.agents:AgentBuyPage"

    agents: int | None = None

    @property
    def use(self) -> Use:
        """Use that agents make of a replica of the first lot."""
        (lot, *_) = self.lots
        assert isinstance(lot, AgentLot)
        return lot.use

    def record(self) -> dict[str, Any]:
        """Return all of the answer as plain data."""
        return {**super(AgentPurchase, self).record(), **({} if self.agents is None else {"agents": self.agents})}

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per crossover, with what it is for agents at the pace of a lot that is full of them."""
        rows = zip(super(AgentPurchase, self).records(), self.crossovers, strict=True)
        return [{**record, "agent_bill": self._bill(crossover)} for record, crossover in rows]

    def _bill(self, crossover: Crossover) -> dict[str, Any]:
        lot = crossover.lot
        assert isinstance(lot, AgentLot)
        month = 3600.0 * MONTH_HOURS
        number = lot.agents if self.agents is None else self.agents
        lots, charged = lot.count(number), month * lot.pace * crossover.dollars_per_request
        return {
            "agents": number,
            "agents_carried": lots * lot.agents,
            "accelerators": lots * lot.accelerators,
            "dollars_per_month": lots * lot.dollars_per_hour * MONTH_HOURS,
            "offer_dollars_per_month": number * charged,
            "dollars_per_agent_month": lots * lot.dollars_per_hour * MONTH_HOURS / number,
            "offer_dollars_per_agent_month": charged,
            "cheaper_from_agents": None if crossover.first is None else crossover.first / lot.pace,
            "always_cheaper_from_agents": None if crossover.always is None else crossover.always / lot.pace,
        }


def lots_of_agents(choice: AgentChoice, ways: Collection[Way]) -> list[AgentLot]:
    """A replica with the most agents that it carries, in every way that its chip can be paid for."""
    return [
        AgentLot(lot.service, lot.load, lot.replicas, lot.way, lot.price, choice.use)
        for lot in lots_of(choice.service, choice.load, ways)
    ]
