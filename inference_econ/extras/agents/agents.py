"""Capacity, prices and fleets for agents and conversations, all computed by simulations with prefix caches.

The load is a number of agents, not a request rate. An agent sends its next turn after the tools or the user have
processed the previous output.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from inference_econ._types import Array, Indices, Progress
from inference_econ.answers.deployments.deployment import SelectionRule
from inference_econ.answers.deployments.recommend import as_candidates, instances_within, some_of_each_chip
from inference_econ.answers.deployments.serving_options import Candidate
from inference_econ.answers.prefix_cache import Offloading, offload
from inference_econ.answers.price import Sheet, fleet_sheet
from inference_econ.answers.resource_limit import Means
from inference_econ.answers.simplest import SIMPLER
from inference_econ.answers.slo import Targets, best_reachable
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.agents.simulation import (
    TOGETHER,
    AgentCurve,
    AgentDeployment,
    AgentLoad,
    AgentRecommendation,
    AgentSessions,
    AgentSheet,
    MostAgents,
    PlayedGroup,
    PlayedInstance,
    cheapest_fleet,
    check_runs,
    found_tokens,
    fullest_fleet,
    groups,
    point_of,
    run_of,
    shortlist,
)
from inference_econ.extras.fleets.buy import MONTH_HOURS, MONTHLY, Crossover, Purchase, crossovers, dollars_per_request
from inference_econ.extras.fleets.capacity_blocks import WAYS, CapacityBlock, Way, lots_of, no_price
from inference_econ.extras.fleets.day import DayOfFleet, Policy, PooledDay, check_day, needed, planned
from inference_econ.inputs import Elasticity, TierSpec, catalog
from inference_econ.serving import Router, Services

#: Maximum number of simulated layouts per chip [1].
_PLAYED = 2
#: Approximate number of simulations to find the capacity of an instance or group, and then the size of a fleet [1].
_LOOKS, _FLEETS = 5, 3


@dataclass(frozen=True)
class AgentMarket:
    """Aggregated and disaggregated candidate deployments for agents, with cached simulations.

    Attributes
    ----------
    work : AgentSessions
        Sessions of the agents.
    candidates : sequence of Candidate
        Candidate deployments.
    wanted : Targets
        SLOs.
    router : str
        Routing of turns to instances.
    tiers : sequence of str
        KV-cache offload tiers.
    progress : callable, optional
        Function that receives the completed share of the work [1].
    """

    work: AgentSessions
    candidates: Sequence[Candidate]
    wanted: Targets
    router: Router = "prefix_aware"
    tiers: Sequence[str] = ()
    progress: Progress | None = None
    _played: dict[tuple[object, ...], PlayedInstance] = field(default_factory=dict, init=False, repr=False)

    def fleets(self, agents: int | None = None, means: Means | None = None, *, most: int = 5) -> list[AgentDeployment]:
        """Find the best fleets. Each chip that meets the SLOs has at least one fleet in the result.

        Parameters
        ----------
        agents : int, optional
            Number of agents [1]. If given, the cheapest fleets for this number are returned.
        means : Means, optional
            Limit on chips, cost or power. If given, the fleets with the most agents within this limit are returned.
            Without ``agents`` and ``means``, single instances or prefill/decode groups with the most agents per dollar
            are returned.
        most : int
            Number of fleets [1].

        Raises
        ------
        NothingFitsError
            If no deployment meets the SLOs for one agent, or the limits are too small for an instance.
        """

        def rank(choice: AgentDeployment) -> tuple[float, float]:
            last = choice.dollars_per_hour if means is not None else choice.load.tpot_seconds["mean"]
            return self._cost(choice, agents, means), last

        together = self.together(agents, means, most)
        every: list[AgentDeployment] = [*together, *self.apart(together, agents, means)]
        if not every:
            reached = best_reachable([candidate.services for candidate in self.candidates], self.wanted)
            raise NothingFitsError(
                f"no deployment meets {self.wanted.text} for a single agent of {self.work.name}; relax the SLOs. "
                f"{reached}, with the mean turn alone"
            )
        return some_of_each_chip(sorted(every, key=rank), most)

    def _cost(self, choice: AgentDeployment, agents: int | None, means: Means | None = None) -> float:
        """Value by which fleets are ranked: hourly cost, negative number of agents, or hourly cost per agent."""
        if means is not None:
            return -float(choice.use.agents)
        if agents is not None:
            return choice.dollars_per_hour
        # Instances or prefill/decode groups leave no GPU of a rented machine unused.
        setup, accelerators = choice.service.setup, choice.accelerators / choice.parts
        return choice.parts * float(setup.dollars_per_hour_in_bulk(accelerators)) / choice.use.agents

    def together(self, agents: int | None = None, means: Means | None = None, most: int = 5) -> list[AgentDeployment]:
        """Best fleets of aggregated instances. The analytical model selects the layouts to simulate.

        The analytical model is an upper bound on capacity. After a few layouts of a chip, a layout is simulated only if
        its analytical bound is better than the best result.
        """
        both = [candidate.services for candidate in self.candidates if candidate.pools is None]
        counts: Sequence[Indices | None] = [None] * len(both)
        if both and means is not None:
            both, counts = instances_within(both, means)
        promising: list[tuple[float, int, int, int]] = []
        for index, (layouts, room) in enumerate(zip(both, counts, strict=True)):
            rows = shortlist(layouts, self.work, self.wanted, tiers=bool(self.tiers), most=_PLAYED, counts=room,
                             agents=agents)  # fmt: skip
            promising += [(bound, index, row, guess) for row, guess, bound in rows]
        guesses = [min(guess, agents or guess) for _, _, _, guess in promising]
        self._check([(guess, TOGETHER * guess) for guess in guesses], agents)
        choices, share = list[AgentDeployment](), 1.0
        costs_by_chip, bills = dict[str, list[float]](), dict[str, list[float]]()
        for number, (bound, index, row, guess) in enumerate(sorted(promising)):
            layouts, room = both[index], counts[index]
            chip = layouts.setup.hardware.name
            costs, paid = costs_by_chip.setdefault(chip, []), sorted(bills.setdefault(chip, []))
            if len(costs) >= _PLAYED and bound > min(costs):
                continue
            if self.progress is not None:
                self.progress(number / len(promising), chip)
            # The analytical capacity is scaled by the ratio that was found for the previous layout.
            start = max(round(share * guess), 1)
            instance = self._instance(layouts, row, (index, row, means))
            if agents is None:
                count = 1 if room is None else int(room[row])
                choice = fullest_fleet(instance, count, self.wanted, start, self.router)
            else:
                # Only the requested number of fleets on this chip is reported, so more expensive ones are skipped.
                dearest = paid[most - 1] if len(paid) >= most else math.inf
                choice = cheapest_fleet(instance, agents, self.wanted, min(start, agents), self.router, dearest)
            if choice is not None:
                choices.append(choice)
                costs.append(self._cost(choice, agents, means))
                bills[chip].append(choice.dollars_per_hour)
                share = min(choice.use.agents / choice.replicas / guess, 1.0)
        return choices

    def apart(
        self, together: Sequence[AgentDeployment], agents: int | None = None, means: Means | None = None
    ) -> list[AgentDeployment]:
        """Best disaggregated fleets that are noticeably cheaper than every aggregated fleet on their chip."""
        least, promising = dict[str, float](), dict[str, list[tuple[PlayedGroup, int, float]]]()

        for single in together:
            chip = single.service.setup.hardware.name
            least[chip] = min(least.get(chip, math.inf), self._cost(single, agents))
        tiers = tuple(map(catalog.tier, self.tiers))
        for index, candidate in enumerate(self.candidates):
            if candidate.pools is None:
                continue
            chip = candidate.setup.hardware.name
            room = math.inf if means is None else means.most_accelerators(candidate.setup)
            every = groups(candidate.pools.pools, self.work, tiers, self.wanted, agents, room)
            cheaper = [
                (self._group(index, group), guess, cost)
                for group, guess, cost in every
                if cost < least.get(chip, math.inf)
            ]
            promising.setdefault(chip, []).extend(cheaper)
        cheaper_fleets: list[AgentDeployment] = []
        for chip, several in promising.items():
            of_sizes = dict[tuple[int, ...], tuple[PlayedGroup, int]]()
            for group, guess, _ in sorted(several, key=lambda group: group[2]):
                of_sizes.setdefault(group.sizes, (group, guess))
            chosen = list(of_sizes.values())[:_PLAYED]
            self._check([(guess, group.part(agents or guess)) for group, guess in chosen], agents)
            for group, guess in chosen:
                choice = self._pooled(group, guess, agents, means)
                if choice is not None and (1.0 + SIMPLER) * self._cost(choice, agents) < least.get(chip, math.inf):
                    cheaper_fleets.append(choice)
        return cheaper_fleets

    def _pooled(
        self, group: PlayedGroup, guess: int, agents: int | None, means: Means | None
    ) -> AgentDeployment | None:
        """Best fleet of a prefill/decode group; None if the group cannot serve a single agent."""
        wanted, router, room = self.wanted, self.router, math.inf
        if means is not None:
            room = float(means.most_accelerators(group.pools.prefill.setup))
        if agents is not None and guess >= agents:
            return group.fleet(agents, agents, wanted, router)
        best, carried = group.best(wanted, guess, agents or 0, room)
        if not carried:
            return None
        if agents is not None:
            return best.fleet(agents, carried, wanted, router)
        if means is not None:
            return best.filled(carried, room, wanted, router)
        return fullest_fleet(best, 1, wanted, carried, router, certain=True)

    def _check(self, wanted: Sequence[tuple[float, float]], agents: int | None) -> None:
        """Reject a search whose simulations, short runs for capacity and full runs for fleets, would take too long."""
        looks = [float(run_of(self.work, count, quick=True)[0]) for count, _ in wanted]
        whole = [float(run_of(self.work, every)[0]) for _, every in wanted]
        check_runs([*looks * _LOOKS, *whole * _FLEETS], "max_instance_gpus" if agents is None else "agents")

    def _instance(self, layouts: Services, row: int, name: tuple[object, ...]) -> PlayedInstance:
        """Simulated instance of a layout; the result is cached."""
        if name not in self._played:
            service, tiers = layouts.service(row), tuple(map(catalog.tier, self.tiers))
            self._played[name] = PlayedInstance(service, self.work, tiers)
        return self._played[name]

    def _group(self, candidate: int, group: PlayedGroup) -> PlayedGroup:
        """Simulated prefill/decode group. Groups with the same layouts share cached runs."""
        before = self._played.setdefault(("disaggregated", candidate, group.layouts), group)
        assert isinstance(before, PlayedGroup)
        return before.with_instances(*group.instances)


#: Autoscaler metrics for agents. Utilization is excluded: waiting agents send no requests, so an overloaded fleet is no
#: busier than a full one.
POLICIES: tuple[Policy, ...] = ("in_flight", "rate")


@dataclass(frozen=True, slots=True)
class AgentLot(CapacityBlock):
    """Rental unit with its number of agents.

    A disaggregated rental unit is one decode instance with its share of the prefill instances.

    Attributes
    ----------
    use : AgentLoad
        Load of one replica.
    """

    use: AgentLoad = field(kw_only=True)

    @property
    def pace(self) -> float:
        """Request rate per agent at capacity [1/s]."""
        return self.load.requests_per_second / self.use.agents

    @property
    def counted(self) -> str:
        """Name of the unit in which the load is given, for headings."""
        return "agents"

    @property
    def carried(self) -> float:
        """Agents that a rental unit serves within the SLOs [1]."""
        return self.replicas * self.use.agents

    @property
    def most_carried(self) -> float:
        """Practically unlimited number of agents, because waiting agents send no requests, so no queue grows [1]."""
        return 1e9 * self.carried

    def in_flight(self, shares: Array) -> Array:
        """Concurrent requests of a rental unit that serves ``shares`` of its maximum number of agents, shape (n,) [1].

        The analytical model predicts the concurrency, which is scaled to equal the simulated concurrency at full load.
        Agents that find no free slot wait.
        """
        work, states, full = self.use.work, self.service.states, self.use.agents
        agents = np.maximum.accumulate(work.all_agents(states.requests_per_second, states.concurrency))
        many = np.append(shares, 1.0) * full
        flight = np.interp(many, (0.0, *agents), (0.0, *states.concurrency))
        flight += np.maximum(many - agents[-1], 0.0) * work.means.side_by_side
        return np.asarray(self.replicas * flight[:-1] * self.load.in_flight / flight[-1])


@dataclass(frozen=True, slots=True, repr=False)
class AgentPurchase(Purchase):
    """Monthly cost of serving agents. The rental units are :class:`AgentLot` objects.

    Attributes
    ----------
    agents : int or None
        Number of agents; None if unspecified [1].
    """

    page = "extras.agents.page:AgentBuyPage"

    agents: int | None = None

    @property
    def use(self) -> AgentLoad:
        """Load of a replica of the first rental unit."""
        (lot, *_) = self.lots
        assert isinstance(lot, AgentLot)
        return lot.use

    def record(self) -> dict[str, Any]:
        """Result as plain data."""
        return {**super(AgentPurchase, self).record(), **({} if self.agents is None else {"agents": self.agents})}

    def records(self) -> list[Mapping[str, Any]]:
        """One record per break-even point.

        The cost per agent applies to agents that send as many requests as agents on a full rental unit.
        """
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
    """Plan and simulation of a fleet that serves agents for a day.

    Rental units are :class:`AgentLot` objects; ``rates`` are the agents in session in each hour [1].
    """

    page = "extras.agents.page:AgentDayPage"
    counted: ClassVar[str] = "agents"

    @property
    def use(self) -> AgentLoad:
        """Load of a replica of the first rental unit."""
        (lot, *_) = self.lots
        assert isinstance(lot, AgentLot)
        return lot.use

    def unit_cost(self, dollars: float) -> dict[str, float]:
        """Cost of a day divided by the agent hours in session [USD/h]."""
        return {"dollars_per_agent_hour": dollars / sum(self.rates)}

    def lot_records(self) -> list[dict[str, Any]]:
        """One record per type of rental unit in the fleet, with its number of agents."""
        records = super(DayOfAgents, self).lot_records()
        return [{**record, "agents": lot.carried} for record, lot in zip(records, self.lots, strict=True)]


def lots_of_each_chip(
    market: AgentMarket, choices: Sequence[AgentDeployment], ways: Collection[Way]
) -> tuple[tuple[AgentLot, ...], list[str]]:
    """Rental units of the best deployment of each chip, and messages on chips that cannot serve an agent.

    Raises
    ------
    NothingFitsError
        If no chip has a price in the requested pricing models.
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
    """Rental units of a replica, or of a decode instance with its share of prefill, in every pricing model."""
    count = choice.replicas if choice.fleet is None else choice.fleet.decode_instances
    use = replace(choice.use, agents=choice.use.agents / count)
    return [
        AgentLot(lot.service, lot.load, lot.replicas, lot.way, lot.price, lot.pools, use=use)
        for lot in lots_of(choice, ways)
    ]


#: Default numbers of agents of a curve, relative to a full instance [1].
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5)
#: Default SLOs of agents: 20 tokens/s, and a TTFT of ten seconds [s].
USUAL: Mapping[str, float] = {"ttft_seconds": 10.0, "tpot_seconds": 0.05}


@dataclass(frozen=True)
class Agents(AgentSessions):
    """Agents or users with sessions of a workload: capacity, costs and fleets.

    Attributes
    ----------
    name : str
        Name of the workload.
    spec : SessionSpec
        Structure of the sessions.
    place : str
        Path of the sessions file, for error messages.

    Examples
    --------
    >>> from inference_econ import Pins, Setup, Space, offer
    >>> agents, setup = Agents.of("rag"), Setup.of("llama_3_8b", "h100_sxm")
    >>> curve = agents.load(offer(setup, agents.requests, Space(Pins(tp=1))), [5, 20])
    >>> [round(point.use.record(point.sheet, 1)["hit_rate"], 2) for point in curve.points]
    [0.31, 0.31]
    """

    def load(
        self,
        layouts: Services,
        agents: Sequence[int] | None = None,
        *,
        rates: Sequence[float] | None = None,
        replicas: int = 1,
        targets: Targets | None = None,
        router: Router = "prefix_aware",
        tiers: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> AgentCurve:
        """Simulate a fleet at several numbers of agents.

        Parameters
        ----------
        layouts : Services
            Layouts of a model on a chip. The analytical model selects the layout with the most agents per dollar.
        agents : sequence of int, optional
            Numbers of agents [1]; by default up to 1.5 times the capacity of the fleet (:data:`SHARES`).
        rates : sequence of float, optional
            Request rates of sessions that start at random times, as an alternative to ``agents`` [1/s].
        replicas : int
            Number of instances [1].
        targets : Targets, optional
            SLOs, to compute the share of requests that meet all SLOs.
        router : str
            Routing of turns; see :func:`inference_econ.serving.simulation.events.simulate`.
        tiers : sequence of str
            KV-cache offload tiers, by name or path.
        progress : callable, optional
            Function that receives the completed share of the work [1].

        Returns
        -------
        AgentCurve
            One point per number of agents or session rate, in the given order.

        Raises
        ------
        InputError
            If a number of agents or a rate is not positive; see also :meth:`check`.
        """
        self.check(layouts)
        promised = Targets() if targets is None else targets
        rows = shortlist(layouts, self, promised, tiers=bool(tiers), most=1) or shortlist(
            layouts, self, Targets(), tiers=bool(tiers), most=1
        )
        row, *_ = rows[0]
        instance = PlayedInstance(layouts.service(row), self, tuple(map(catalog.tier, tiers)))
        full = instance.service.at(instance.service.slots)
        rate_of_full = float(full.requests_per_second)
        most = replicas * float(self.all_agents(rate_of_full, float(full.concurrency)))
        if agents is None:
            agents = sorted({max(round(share * most), 1) for share in SHARES})
        asked: list[tuple[int, float]] = [(number, 0.0) for number in agents]
        if rates is not None:
            under_way = [float(self.agents(rate, replicas * instance.in_flight(rate / replicas))) for rate in rates]
            asked = [(max(round(min(number, most)), 1), rate) for number, rate in zip(under_way, rates, strict=True)]
        if any(number < 1 for number, _ in asked) or any(not 0.0 <= rate < math.inf for _, rate in asked):
            raise InputError("numbers of agents, and rates, must be positive", option="agents")
        together, points = min(replicas, TOGETHER), []
        check_runs([run_of(self, number * together / replicas)[0] for number, _ in asked], "agents")
        for index, (number, rate) in enumerate(asked):
            if progress is not None:
                progress(index / len(asked), f"{number:,} agents")
            part = max(round(number * together / replicas), 1)
            trace = instance.play(part, together, router, rate * together / replicas)
            points.append(point_of(instance, trace, number, together, replicas, router, promised, rate))
        return AgentCurve(
            tuple(points),
            promised,
            1.0,
            None,
            SelectionRule("the most agents per dollar", len(layouts)),
        )

    def recommend(
        self,
        offers: Sequence[Candidate | Services],
        agents: int | None,
        targets: Targets | None = None,
        *,
        router: Router = "prefix_aware",
        tiers: Sequence[str] = (),
        most: int = 5,
        progress: Progress | None = None,
    ) -> AgentRecommendation:
        """Find the cheapest deployments that serve a number of agents within SLOs.

        Parameters
        ----------
        offers : sequence of Candidate or Services
            Aggregated and disaggregated candidates.
        agents : int
            Number of agents [1].
        targets : Targets, optional
            SLOs; TTFT and TPOT default to :data:`USUAL`.
        router, tiers, progress
            See :meth:`load`.
        most : int
            Number of deployments [1].

        Returns
        -------
        AgentRecommendation
            Deployments, cheapest first.

        Raises
        ------
        InputError
            If ``agents`` is below 1; see also :meth:`check`.
        NothingFitsError
            If no deployment meets the SLOs for one agent.
        """
        if not agents or agents < 1:
            raise InputError(
                f"say how many --agents there are, at least 1, got {agents or 'none'}, or what there is to serve them "
                "with (--gpus, --budget, --power-budget)",
                option="agents",
            )
        market = self._market(offers, targets, router, tiers, progress)
        return AgentRecommendation(
            tuple(market.fleets(agents, most=most)), market.wanted, sum(map(len, market.candidates)), 1.0
        )

    def most_agents(
        self,
        offers: Sequence[Candidate | Services],
        means: Means,
        targets: Targets | None = None,
        *,
        router: Router = "prefix_aware",
        tiers: Sequence[str] = (),
        most: int = 5,
        progress: Progress | None = None,
    ) -> MostAgents:
        """Find the deployments that serve the most agents within a limit, the inverse of :meth:`recommend`.

        Parameters
        ----------
        offers, targets, router, tiers, most, progress
            See :meth:`recommend`.
        means : Means
            Limit on chips, cost or power, for one kind of chip.

        Returns
        -------
        MostAgents
            Deployments sorted by number of agents, largest first, then by cost. Disaggregated deployments have as many
            prefill and decode instances as the limit allows.

        Raises
        ------
        InputError
            See :meth:`check`.
        NothingFitsError
            If the limit is too small for one instance (the message has the chips that an instance needs), or if no
            deployment meets the SLOs for one agent.
        """
        market = self._market(offers, targets, router, tiers, progress)
        best = market.fleets(means=means, most=most)
        return MostAgents(tuple(best), market.wanted, sum(map(len, market.candidates)), 1.0, means)

    def price(
        self,
        offers: Sequence[Candidate | Services],
        agents: int | None = None,
        targets: Targets | None = None,
        *,
        router: Router = "prefix_aware",
        tiers: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> AgentSheet:
        """Price tasks, agent hours and tokens on the cheapest deployment for a number of agents.

        Parameters
        ----------
        offers, targets, router, tiers, progress
            See :meth:`recommend`.
        agents : int, optional
            Number of agents [1]; by default the capacity of one instance.

        Returns
        -------
        AgentSheet
            Cost breakdown.
        """
        market = self._market(offers, targets, router, tiers, progress)
        number = agents or int(market.fleets(most=1)[0].use.agents)
        best = market.fleets(number, most=1)[0]
        found_in_cache = found_tokens(best.use.trace, self.requests)
        if best.fleet is not None:
            bill = fleet_sheet(best.fleet, found_in_cache)
        else:
            bill = PlayedInstance(best.service, self, ()).bill(best.use.trace, best.replicas, best.load)
        pick = SelectionRule(f"the cheapest fleet for {number:,} agents", sum(map(len, market.candidates)))
        named = {name: getattr(bill, name) for name in Sheet.__dataclass_fields__}
        return AgentSheet(**{**named, "targets": market.wanted, "pick": pick}, use=best.use, parts=best.parts)

    def buy(
        self,
        offers: Sequence[Candidate | Services],
        api: Mapping[str, Mapping[str, float]],
        agents: int | None = None,
        targets: Targets | None = None,
        *,
        ways: Collection[Way] = MONTHLY,
        router: Router = "prefix_aware",
        tiers: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> AgentPurchase:
        """Compare API offers with rented and owned fleets for agents, per month.

        Parameters
        ----------
        offers, targets, router, tiers, progress
            See :meth:`recommend`.
        api, ways
            See :func:`inference_econ.extras.fleets.buy.buy`; API offers are assumed to cache all earlier turns.
        agents : int, optional
            Number of agents [1]; by default the capacity of a rental unit of each chip.

        Returns
        -------
        AgentPurchase
            Comparison with one deployment per chip: the fleet of :meth:`recommend`, or, without ``agents``, the
            instance or prefill/decode group with the most agents per dollar.

        Raises
        ------
        InputError
            If ``api`` is empty, an API offer is free, or ``agents`` is below 1; see also :meth:`check`.
        NothingFitsError
            If no deployment meets the SLOs for one agent, or no chip has a price in the pricing models of ``ways``.
        """
        if agents is not None and agents < 1:
            raise InputError(f"say how many --agents there are, at least 1, got {agents}", option="agents")
        ranked = dollars_per_request(api, self.requests)
        market = self._market(offers, targets, router, tiers, progress)
        lots, left_out = lots_of_each_chip(market, market.fleets(agents, most=1), ways)
        return AgentPurchase(
            lots,
            ranked,
            crossovers(lots, ranked, {}),
            self.requests,
            market.wanted,
            None,
            tuple(left_out),
            agents=agents,
        )

    def fleet(
        self,
        offers: Sequence[Candidate | Services],
        agents: Sequence[float],
        targets: Targets | None = None,
        *,
        router: Router = "prefix_aware",
        tiers: Sequence[str] = (),
        stock: Mapping[str, int] | None = None,
        ways: Collection[Way] = WAYS,
        policy: Policy = "in_flight",
        target: float | None = None,
        min_replicas: int = 1,
        elasticity: Elasticity | None = None,
        progress: Progress | None = None,
    ) -> DayOfFleet:
        """Find the cheapest combination of chips and contracts for a day of agents, and simulate its autoscaler.

        Parameters
        ----------
        offers, targets, router, tiers, progress
            See :meth:`recommend`.
        agents : sequence of float
            Agents in session in each hour [1], interpolated between the middles of hours; the day repeats.
        stock, ways, target, min_replicas, elasticity
            See :func:`inference_econ.fleet`.
        policy : {'in_flight', 'rate'}
            Metric of the autoscaler.

        Returns
        -------
        DayOfFleet
            Simulated day. Replicas have the layout that :meth:`recommend` selects for the busiest hour, and share the
            agents equally. For disaggregated fleets, only the planned cost is reported.

        Raises
        ------
        InputError
            If numbers are out of range, or ``stock`` names a chip that is not a candidate; see also :meth:`check`.
        NothingFitsError
            If no deployment meets the SLOs, or too few GPUs are available.
        """
        market, day = self._market(offers, targets, router, tiers, progress), tuple(map(float, agents))
        check_day(day, policy, target, min_replicas, ways, "agents", "agents", POLICIES)
        most, wanted = max(round(max(day)), 1), market.wanted
        together = sorted(market.together(most, most=1), key=lambda choice: choice.dollars_per_hour)
        if not together:
            raise NothingFitsError(
                f"no aggregated deployment meets {wanted.text} for a single agent of {self.name}, and disaggregated "
                "pools are not scaled by the hour; relax the SLOs"
            )
        apart = min(market.apart(together, most), key=lambda choice: choice.dollars_per_hour, default=None)
        pools = None
        if apart is not None and apart.dollars_per_hour < together[0].dollars_per_hour / (1.0 + SIMPLER):
            assert apart.fleet is not None
            pools = PooledDay.shared(apart.fleet, [number / most for number in needed(day)], f"--agents {most}")
        lots, left_out = lots_of_each_chip(market, together, ways)
        return planned(
            lots, day, wanted, [candidate.services for candidate in market.candidates], ways=ways, stock=stock,
            policy=policy, target=target, min_replicas=min_replicas, elasticity=elasticity, left_out=left_out,
            apart=pools, progress=progress, kind=DayOfAgents,
        )  # fmt: skip

    def offload(
        self, layouts: Services, tiers: Sequence[TierSpec], *, requests_per_second: float | None = None
    ) -> Offloading:
        """Cost of loading the cached part of a turn, and simulated hit rates of each tier.

        Parameters
        ----------
        layouts, tiers, requests_per_second
            See :func:`inference_econ.answers.prefix_cache.offload`.

        Returns
        -------
        Offloading
            Costs for the mean turn, with the share of prompt tokens in each tier.

        Raises
        ------
        InputError
            See :func:`inference_econ.answers.prefix_cache.offload` and :meth:`check`.
        """
        self.check(layouts)
        cached, rate = self.requests.cached, requests_per_second
        offloading = offload(layouts, tiers, prefix_tokens=cached, requests_per_second=rate)
        instance, rate = PlayedInstance(offloading.service, self, tuple(tiers)), offloading.requests_per_second
        hits = instance.play(max(round(float(self.agents(rate, instance.in_flight(rate)))), 1), rate=rate).hit_rates
        readings = (replace(reading, hit_rate=hits[reading.tier]) for reading in offloading.readings)
        return replace(offloading, readings=tuple(readings), traffic=self.name)

    def _market(
        self, offers: Sequence[Candidate | Services], targets: Targets | None, router: Router, tiers: Sequence[str],
        progress: Progress | None,
    ) -> AgentMarket:  # fmt: skip
        candidates = as_candidates(offers)
        for candidate in candidates:
            self.check(candidate.services)
        return AgentMarket(self, candidates, promises(targets or Targets()), router, tiers, progress)


def promises(targets: Targets) -> Targets:
    """SLOs, with defaults for agents where no TTFT or TPOT limit is given."""
    given = targets.given
    ttft, tpot = (given.get(name, USUAL[f"{name}_seconds"]) for name in ("ttft", "tpot"))
    return replace(targets, ttft_seconds=ttft, tpot_seconds=tpot)
