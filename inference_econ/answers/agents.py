"""Agents and conversations on a fleet: how many it carries within promises, and what a task costs.

Their number is what is given, not a rate of requests: a turn is sent when the tools, or the user, are through with the
answer before it. All of it is played, with the blocks of prompts that memories still have.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from inference_econ._types import Progress
from inference_econ.answers.agent_answers import (
    AgentCurve,
    AgentRecommendation,
    AgentSheet,
    MostAgents,
)
from inference_econ.answers.agent_market import AgentMarket
from inference_econ.answers.agent_play import (
    TOGETHER,
    PlayedInstance,
    check_runs,
    found_tokens,
    point_of,
    run_of,
    shortlist,
)
from inference_econ.answers.agent_purchase import POLICIES, AgentPurchase, DayOfAgents, lots_of_each_chip
from inference_econ.answers.agent_sessions import AgentSessions
from inference_econ.answers.buy import MONTHLY, crossovers, dollars_per_request
from inference_econ.answers.candidates import Candidate
from inference_econ.answers.disaggregated.terms import NOTICED
from inference_econ.answers.fleet import DayOfFleet, check_day, needed, planned
from inference_econ.answers.fleet_play import Policy
from inference_econ.answers.fleet_pools import PooledDay
from inference_econ.answers.lots import WAYS, Way
from inference_econ.answers.means import Means
from inference_econ.answers.prefix_cache import Offloading, offload
from inference_econ.answers.price import Sheet, fleet_sheet
from inference_econ.answers.promises import Targets
from inference_econ.answers.service_record import Pick
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Elasticity, TierSpec, catalog
from inference_econ.serving import Router, Services

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
            tuple(points), promised, 1.0, None, Pick("the one that carries most agents per dollar", len(layouts))
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
        pick = Pick(f"the cheapest fleet that carries {number:,} agents", sum(map(len, market.candidates)))
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
            See :func:`inference_econ.answers.buy.buy`; offers have all in their caches that was there before.
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
        if apart is not None and apart.dollars_per_hour < together[0].dollars_per_hour / (1.0 + NOTICED):
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
