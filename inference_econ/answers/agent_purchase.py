"""Tokens of an API, rented machines or machines of one's own for agents: dollars a month of so many of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.agent_answers import AgentDeployment, Use
from inference_econ.answers.agent_market import AgentMarket
from inference_econ.answers.buy import MONTH_HOURS, Crossover, Purchase
from inference_econ.answers.fleet import DayOfFleet
from inference_econ.answers.fleet_play import Policy
from inference_econ.answers.lots import Lot, Way, lots_of, no_price

#: What an autoscaler of agents can look at: those that wait for a slow answer send nothing, so that a fleet which is
#: too small is no busier than one that is full.
POLICIES: tuple[Policy, ...] = ("in_flight", "rate")


@dataclass(frozen=True, slots=True)
class AgentLot(Lot):
    """Replicas that are rented together, with their agents; of pools an instance that decodes, and those that read.

    Attributes
    ----------
    use : Use
        What agents make of one replica.
    """

    use: Use = field(kw_only=True)

    @property
    def pace(self) -> float:
        """Requests that an agent sends, of as many as are carried [1/s]."""
        return self.load.requests_per_second / self.use.agents

    @property
    def counted(self) -> str:
        """Unit that a day consists of, in words."""
        return "agents"

    @property
    def carried(self) -> float:
        """Agents that a lot carries within the promises [1]."""
        return self.replicas * self.use.agents

    @property
    def most_carried(self) -> float:
        """More agents than there are: whoever waits for an answer sends nothing, so that nobody queues up [1]."""
        return 1e9 * self.carried

    def in_flight(self, shares: Array) -> Array:
        """Requests in flight in a lot at shares of the agents that it carries, shape (n,) [1].

        By closed forms, in proportion to what was played; whom no slot is left for waits.
        """
        work, states, full = self.use.work, self.service.states, self.use.agents
        agents = np.maximum.accumulate(work.all_agents(states.requests_per_second, states.concurrency))
        many = np.append(shares, 1.0) * full
        flight = np.interp(many, (0.0, *agents), (0.0, *states.concurrency))
        flight += np.maximum(many - agents[-1], 0.0) * work.means.side_by_side
        return np.asarray(self.replicas * flight[:-1] * self.load.in_flight / flight[-1])


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
        number = lot.parts * lot.carried if self.agents is None else self.agents
        charged, (chips, carried) = month * lot.pace * crossover.dollars_per_request, lot.fleet(number)
        paid = chips * lot.price.dollars * MONTH_HOURS
        return {
            "agents": number,
            "agents_carried": carried,
            "accelerators": chips,
            "dollars_per_month": paid,
            "offer_dollars_per_month": number * charged,
            "dollars_per_agent_month": paid / number,
            "offer_dollars_per_agent_month": charged,
            "cheaper_from_agents": None if crossover.first is None else crossover.first / lot.pace,
            "always_cheaper_from_agents": None if crossover.always is None else crossover.always / lot.pace,
        }


@dataclass(frozen=True, slots=True, repr=False)
class DayOfAgents(DayOfFleet):
    """A day of a fleet of agents: of :class:`AgentLot`; its rates are the agents in session of each hour [1]."""

    page = "report.agents:AgentDayPage"
    counted: ClassVar[str] = "agents"

    @property
    def use(self) -> Use:
        """Use that agents make of a replica of the first lot."""
        (lot, *_) = self.lots
        assert isinstance(lot, AgentLot)
        return lot.use

    def unit_cost(self, dollars: float) -> dict[str, float]:
        """Return what a day costs [USD] over the hours that agents are in session."""
        return {"dollars_per_agent_hour": dollars / sum(self.rates)}

    def lot_records(self) -> list[dict[str, Any]]:
        """Return one record per lot of the mixture, with the agents that it carries."""
        records = super(DayOfAgents, self).lot_records()
        return [{**record, "agents": lot.carried} for record, lot in zip(records, self.lots, strict=True)]


def lots_of_each_chip(
    market: AgentMarket, choices: Sequence[AgentDeployment], ways: Collection[Way]
) -> tuple[tuple[AgentLot, ...], list[str]]:
    """The lots of the first choice of each chip, and which chips carry nobody, in words.

    Raises
    ------
    NothingFitsError
        If no chip has a price of the ways.
    """
    best: dict[str, AgentDeployment] = {}
    for choice in choices:
        best.setdefault(choice.service.setup.hardware.name, choice)
    lots = tuple(lot for choice in best.values() for lot in _lots_of_agents(choice, ways))
    if not lots:
        raise no_price(ways)
    chips = dict.fromkeys(candidate.setup.hardware.name for candidate in market.candidates)
    nothing = f"nothing keeps {market.wanted.text} for a single agent"
    return lots, [f"{chip}: {nothing}" for chip in chips if chip not in best]


def _lots_of_agents(choice: AgentDeployment, ways: Collection[Way]) -> list[AgentLot]:
    """A replica, or an instance that decodes with those that read for it, in every way that its chip is paid for."""
    count = choice.replicas if choice.fleet is None else choice.fleet.decode_instances
    use = replace(choice.use, agents=choice.use.agents / count)
    return [
        AgentLot(lot.service, lot.load, lot.replicas, lot.way, lot.price, lot.pools, use=use)
        for lot in lots_of(choice, ways)
    ]
