"""Agents and conversations on a fleet: how many it carries within promises, and what a task costs.

Their number is what is given, not a rate of requests: a turn is sent when the tools, or the user, are through with the
answer before it. All of it is played, with the blocks of prompts that memories still have.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from inference_econ._types import Array, Indices, Progress
from inference_econ.answers.deployments.most_traffic import instances_within
from inference_econ.answers.deployments.recommend import as_candidates, some_of_each_chip
from inference_econ.answers.deployments.service_record import SelectionRule
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
from inference_econ.extras.fleets.autoscaler import Policy
from inference_econ.extras.fleets.buy import MONTH_HOURS, MONTHLY, Crossover, Purchase, crossovers, dollars_per_request
from inference_econ.extras.fleets.capacity_blocks import WAYS, CapacityBlock, Way, lots_of, no_price
from inference_econ.extras.fleets.day import DayOfFleet, check_day, needed, planned
from inference_econ.extras.fleets.pools import PooledDay
from inference_econ.inputs import Elasticity, TierSpec, catalog
from inference_econ.serving import Router, Services

#: Layouts of a chip that are played [1].
_PLAYED = 2
#: Runs of an instance or a group until it is known how many agents it carries, and of fleets of it, about [1].
_LOOKS, _FLEETS = 5, 3


@dataclass(frozen=True)
class AgentMarket:
    """Instances that do both, and pools, that compete for agents; what was played of them is not played again.

    Attributes
    ----------
    work : AgentSessions
        What agents do.
    candidates : sequence of Candidate
        What competes.
    wanted : Targets
        What is promised.
    router : str
        Which instance a turn goes to.
    tiers : sequence of str
        Memories behind that of the chips.
    progress : callable, optional
        Told the share of the work done.
    """

    work: AgentSessions
    candidates: Sequence[Candidate]
    wanted: Targets
    router: Router = "prefix_aware"
    tiers: Sequence[str] = ()
    progress: Progress | None = None
    _played: dict[tuple[object, ...], PlayedInstance] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls, work: AgentSessions, offers: Sequence[Candidate | Services], wanted: Targets, router: Router,
        tiers: Sequence[str], progress: Progress | None,
    ) -> AgentMarket:  # fmt: skip
        """The market of some offers.

        Raises
        ------
        InputError
            As :meth:`AgentSessions.check` says.
        """
        candidates = as_candidates(offers)
        for candidate in candidates:
            work.check(candidate.services)
        return cls(work, candidates, wanted, router, tiers, progress)

    def fleets(self, agents: int | None = None, means: Means | None = None, *, most: int = 5) -> list[AgentDeployment]:
        """The best fleets, at least one of each chip that keeps the promises.

        Parameters
        ----------
        agents : int, optional
            Whom the cheapest ones carry [1].
        means : Means, optional
            What those that carry most agents have; without either, one instance or group that carries most per dollar.
        most : int
            Fleets wanted [1].

        Raises
        ------
        NothingFitsError
            If nothing keeps the promises for a single agent, or the means are not enough for an instance.
        """

        def rank(choice: AgentDeployment) -> tuple[float, float]:
            last = choice.dollars_per_hour if means is not None else choice.load.tpot_seconds["mean"]
            return self._cost(choice, agents, means), last

        together = self.together(agents, means, most)
        every: list[AgentDeployment] = [*together, *self.apart(together, agents, means)]
        if not every:
            reached = best_reachable([candidate.services for candidate in self.candidates], self.wanted)
            raise NothingFitsError(
                f"nothing keeps {self.wanted.text} for a single agent of {self.work.name}; promise less. {reached}, "
                "with the mean turn alone"
            )
        return some_of_each_chip(sorted(every, key=rank), most)

    def _cost(self, choice: AgentDeployment, agents: int | None, means: Means | None = None) -> float:
        """Cost that fleets are ranked by: the bill, the carried agents as a negative number, or the bill of one."""
        if means is not None:
            return -float(choice.use.agents)
        return choice.dollars_per_hour if agents is not None else dollars_per_agent(choice)

    def together(self, agents: int | None = None, means: Means | None = None, most: int = 5) -> list[AgentDeployment]:
        """Fleets of promising layouts that read prompts and decode.

        Those of a chip are played until closed forms, which carry no fewer, say that the next is no better.
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
            # As much less than closed forms say as it was of the layout before.
            start = max(round(share * guess), 1)
            instance = self._instance(layouts, row, (index, row, means))
            if agents is None:
                count = 1 if room is None else int(room[row])
                choice = fullest_fleet(instance, count, self.wanted, start, self.router)
            else:
                # Behind as many of its chip as are wanted it would not be named.
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
        """The fleets of promising groups that prefill and decode apart, where they are noticeably cheaper."""
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
        """The best fleet of instances of both kinds of a group, if it carries anybody."""
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
        """Refuse plays of numbers of agents, quick and whole ones, that take too long."""
        looks = [float(run_of(self.work, count, quick=True)[0]) for count, _ in wanted]
        whole = [float(run_of(self.work, every)[0]) for _, every in wanted]
        check_runs([*looks * _LOOKS, *whole * _FLEETS], "max_instance_gpus" if agents is None else "agents")

    def _instance(self, layouts: Services, row: int, name: tuple[object, ...]) -> PlayedInstance:
        """One of a layout."""
        if name not in self._played:
            service, tiers = layouts.service(row), tuple(map(catalog.tier, self.tiers))
            self._played[name] = PlayedInstance(service, self.work, tiers)
        return self._played[name]

    def _group(self, candidate: int, group: PlayedGroup) -> PlayedGroup:
        """Group of pools as before, if there was one of its layouts."""
        before = self._played.setdefault(("disaggregated", candidate, group.layouts), group)
        assert isinstance(before, PlayedGroup)
        return before.with_instances(*group.instances)


def dollars_per_agent(choice: AgentDeployment) -> float:
    """Of machines that instances, or groups, fill [USD/h]."""
    setup, accelerators = choice.service.setup, choice.accelerators / choice.parts
    return choice.parts * float(setup.dollars_per_hour_in_bulk(accelerators)) / choice.use.agents


#: What an autoscaler of agents can look at: those that wait for a slow answer send nothing, so that a fleet which is
#: too small is no busier than one that is full.
POLICIES: tuple[Policy, ...] = ("in_flight", "rate")


@dataclass(frozen=True, slots=True)
class AgentLot(CapacityBlock):
    """Replicas that are rented together, with their agents; of pools an instance that decodes, and those that read.

    Attributes
    ----------
    use : Use
        What agents make of one replica.
    """

    use: AgentLoad = field(kw_only=True)

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

    page = "extras.agents.page:AgentBuyPage"

    agents: int | None = None

    @property
    def use(self) -> AgentLoad:
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

    page = "extras.agents.page:AgentDayPage"
    counted: ClassVar[str] = "agents"

    @property
    def use(self) -> AgentLoad:
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


#: Numbers of agents that are tried where none are given, over those that keep an instance full [1].
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5)
#: What agents are promised where nothing else is: 20 tokens/s, and an answer that begins within ten seconds [s].
USUAL: Mapping[str, float] = {"ttft_seconds": 10.0, "tpot_seconds": 0.05}


@dataclass(frozen=True)
class Agents(AgentSessions):
    """Agents or users who play sessions of a traffic, and the questions of how many are carried and what they cost.

    Attributes
    ----------
    name : str
        Of the traffic.
    spec : SessionSpec
        What their sessions consist of.
    place : str
        Where that is written, for messages.

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
        """A fleet with some numbers of agents.

        Parameters
        ----------
        layouts : Services
            What a model on a chip can offer; the one is taken that carries most agents per dollar by closed forms.
        agents : sequence of int, optional
            How many there are [1]; by default up to 1.5 times those that keep the fleet full (:data:`SHARES`).
        rates : sequence of float, optional
            Instead of them, requests per second of sessions that begin at random [1/s].
        replicas : int
            Instances [1].
        targets : Targets, optional
            What is promised, for the share of the requests that see it.
        router : str
            Which instance a turn goes to, see :func:`inference_econ.serving.simulation.events.simulate`.
        tiers : sequence of str
            Memories behind that of the chips, by name or path.
        progress : callable, optional
            Told the share of the work done.

        Returns
        -------
        AgentCurve
            In the order of the numbers.

        Raises
        ------
        InputError
            If a number is not positive, or as :meth:`check` says.
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
            SelectionRule("the one that carries most agents per dollar", len(layouts)),
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
        """The cheapest deployments that carry some agents within promises.

        Parameters
        ----------
        offers : sequence of Candidate or Services
            What competes, together and apart.
        agents : int
            How many there are [1].
        targets : Targets, optional
            What is promised; of the first token and those after it as :data:`USUAL` where nothing is said.
        router, tiers, progress
            See :func:`load`.
        most : int
            Deployments wanted [1].

        Returns
        -------
        AgentRecommendation
            Ascending in cost.

        Raises
        ------
        InputError
            If there is not at least one agent, or as :meth:`check` says.
        NothingFitsError
            If nothing keeps the promises even for a single agent.
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
        """The deployments that carry the most agents with some means: the inverse of :meth:`recommend`.

        Parameters
        ----------
        offers, targets, router, tiers, most, progress
            See :meth:`recommend`.
        means : Means
            Chips, money or power, for one kind of chip.

        Returns
        -------
        MostAgents
            Descending in the number of agents; of equal ones the cheaper first. Pools have as many instances of either
            kind as the means are enough for.

        Raises
        ------
        InputError
            As :meth:`check` says.
        NothingFitsError
            If not one instance can be had, with how many chips it takes; or if nothing keeps the promises even for a
            single agent.
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
        """Price of tasks, hours of agents and tokens on the cheapest deployment that carries some agents.

        Parameters
        ----------
        offers, targets, router, tiers, progress
            See :func:`recommend`.
        agents : int, optional
            How many there are [1]; by default as many as one instance carries.

        Returns
        -------
        AgentSheet
            The bill.
        """
        market = self._market(offers, targets, router, tiers, progress)
        number = agents or int(market.fleets(most=1)[0].use.agents)
        best = market.fleets(number, most=1)[0]
        found_in_cache = found_tokens(best.use.trace, self.requests)
        if best.fleet is not None:
            bill = fleet_sheet(best.fleet, found_in_cache)
        else:
            bill = PlayedInstance(best.service, self, ()).bill(best.use.trace, best.replicas, best.load)
        pick = SelectionRule(f"the cheapest fleet that carries {number:,} agents", sum(map(len, market.candidates)))
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
        """Hold API offers, rented and owned fleets for agents against each other, month by month.

        Parameters
        ----------
        offers, targets, router, tiers, progress
            See :meth:`recommend`.
        api, ways
            See :func:`inference_econ.extras.fleets.buy.buy`; offers have all in their caches that was there before.
        agents : int, optional
            How many there are [1]; by default as many as a lot of each chip carries.

        Returns
        -------
        AgentPurchase
            Of each chip with the fleet that :meth:`recommend` has for so many agents, by which they are billed; or with
            the instance, or group of pools, that carries most per dollar.

        Raises
        ------
        InputError
            If there is no offer, one is free, there is no agent, or as :meth:`check` says.
        NothingFitsError
            If nothing keeps the promises even for a single agent, or no chip has a price of the ways.
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
        """The cheapest mixture of chips and contracts for a day of agents, and what an autoscaler makes of it.

        Parameters
        ----------
        offers, targets, router, tiers, progress
            See :meth:`recommend`.
        agents : sequence of float
            In session in each hour; between the middles of hours they are interpolated, and the first hour follows the
            last [1].
        stock, ways, target, min_replicas, elasticity
            See :func:`inference_econ.fleet`.
        policy : {'in_flight', 'rate'}
            What the autoscaler looks at.

        Returns
        -------
        DayOfFleet
            Replicas are those of :meth:`recommend` in the busiest hour, each with its share of the agents; of pools it
            is said only what the day would cost with them, as planned.

        Raises
        ------
        InputError
            If numbers cannot be, a stock is of a chip that does not compete, or as :meth:`check` says.
        NothingFitsError
            If nothing keeps the promises, or the stock is too small.
        """
        market, day = self._market(offers, targets, router, tiers, progress), tuple(map(float, agents))
        check_day(day, policy, target, min_replicas, ways, "agents", "agents", POLICIES)
        most, wanted = max(round(max(day)), 1), market.wanted
        together = sorted(market.together(most, most=1), key=lambda choice: choice.dollars_per_hour)
        if not together:
            raise NothingFitsError(
                f"nothing keeps {wanted.text} for a single agent of {self.name}: instances that read prompts and "
                "decode are scaled by the hour, pools are not; promise less"
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
        """Return what reading the known part of a turn takes, and what memories have of it when turns are played.

        Parameters
        ----------
        layouts, tiers, requests_per_second
            See :func:`inference_econ.answers.prefix_cache.offload`.

        Returns
        -------
        Offloading
            Of the mean turn, with the share of prompt tokens that each memory had.

        Raises
        ------
        InputError
            As that function and :meth:`check` say.
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
        return AgentMarket.of(self, offers, promises(targets or Targets()), router, tiers, progress)


def promises(targets: Targets) -> Targets:
    """Return promises with those that agents have where nothing is said of the first token or those after it."""
    given = targets.given
    ttft, tpot = (given.get(name, USUAL[f"{name}_seconds"]) for name in ("ttft", "tpot"))
    return replace(targets, ttft_seconds=ttft, tpot_seconds=tpot)
