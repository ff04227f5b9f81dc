"""A day of agents: as many of them in every hour, on the instances that carry the most of them for least."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from inference_econ.answers.agent_answers import AgentChoice, AgentPools, Use
from inference_econ.answers.agent_market import AgentMarket
from inference_econ.answers.agent_purchase import AgentLot, lots_of_agents
from inference_econ.answers.disaggregated.terms import NOTICED
from inference_econ.answers.fleet import DayOfFleet, check_day, needed, planned
from inference_econ.answers.fleet_play import Policy
from inference_econ.answers.fleet_pools import PooledDay
from inference_econ.answers.lots import WAYS, Way, no_price
from inference_econ.errors import NothingFitsError

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


def day_of_agents(
    market: AgentMarket, agents: Sequence[float], *, ways: Collection[Way] = WAYS, policy: Policy = "in_flight",
    target: float | None = None, min_replicas: int = 1, **further: Any,
) -> DayOfFleet:  # fmt: skip
    """The cheapest mixture for a day of agents; see :meth:`inference_econ.Agents.fleet`."""
    day = tuple(map(float, agents))
    check_day(day, policy, target, min_replicas, ways, "agents", "agents", POLICIES)
    most, wanted = max(round(max(day)), 1), market.wanted
    best: dict[str, AgentChoice] = {}
    together = sorted(market.together(most, most=1), key=lambda choice: choice.dollars_per_hour)
    for choice in together:
        best.setdefault(choice.service.setup.hardware.name, choice)
    if not best:
        raise NothingFitsError(
            f"nothing keeps {wanted.text} for a single agent of {market.work.name}: instances that read prompts and "
            "decode are scaled by the hour, pools are not; promise less"
        )
    chips = dict.fromkeys(candidate.setup.hardware.name for candidate in market.candidates)
    left_out = [f"{chip}: nothing keeps {wanted.text} for a single agent" for chip in chips if chip not in best]
    apart = min(market.apart(together, most), key=lambda choice: choice.dollars_per_hour, default=None)
    pools = None
    if isinstance(apart, AgentPools) and apart.dollars_per_hour < together[0].dollars_per_hour / (1.0 + NOTICED):
        shares = [agents / most for agents in needed(day)]
        pools = PooledDay.shared(apart.fleet, shares, f"--agents {most}")
    lots = [lot for choice in best.values() for lot in lots_of_agents(choice, ways)]
    if not lots:
        raise no_price(ways)
    return planned(
        lots, day, wanted, [candidate.services for candidate in market.candidates], ways=ways, policy=policy,
        target=target, min_replicas=min_replicas, left_out=left_out, apart=pools, progress=market.progress,
        kind=DayOfAgents, **further,
    )  # fmt: skip
