"""A day of agents: as many of them in every hour, on the instances that carry the most of them for least."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from inference_econ.answers.agent_answers import Use
from inference_econ.answers.agent_purchase import AgentLot
from inference_econ.answers.fleet import DayOfFleet
from inference_econ.answers.fleet_play import Policy

#: What an autoscaler of agents can look at: those that wait for a slow answer send nothing, so that a fleet which is
#: too small is no busier than one that is full.
POLICIES: tuple[Policy, ...] = ("in_flight", "rate")


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
