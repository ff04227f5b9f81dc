"""Agents and conversations on a fleet: how many it carries within promises, and what a task costs.

Their number is what is given, not a rate of requests: a turn is sent when the tools, or the user, are through with the
answer before it. All of it is played, with the blocks of prompts that memories still have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from inference_econ._types import Indices, Progress
from inference_econ.answers.agent_answers import (
    AgentChoice,
    AgentCurve,
    AgentRecommendation,
    AgentSheet,
    AnyAgentChoice,
    MostAgents,
)
from inference_econ.answers.agent_play import (
    TOGETHER,
    PlayedInstance,
    cheapest_fleet,
    check_runs,
    fullest_fleet,
    in_flight,
    point_of,
    shortlist,
)
from inference_econ.answers.agent_pools import PlayedGroup, groups, most_groups
from inference_econ.answers.agent_purchase import AgentPurchase, lots_of_agents
from inference_econ.answers.agent_sessions import AgentSessions
from inference_econ.answers.buy import MONTHLY, crossovers, dollars_per_request
from inference_econ.answers.candidates import Candidate
from inference_econ.answers.lots import Way, no_price
from inference_econ.answers.means import Means
from inference_econ.answers.most_traffic import affordable
from inference_econ.answers.picks import Pick
from inference_econ.answers.prefix_cache import Offloading, offload
from inference_econ.answers.price import Sheet
from inference_econ.answers.promises import Targets
from inference_econ.answers.recommend import ChoiceT, as_candidates, some_of_each_chip
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import TierSpec, catalog
from inference_econ.serving import Router, Services

#: Numbers of agents that are tried where none are given, over those that keep an instance full [1].
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5)
#: What agents are promised where nothing else is: 20 tokens/s, and an answer that begins within ten seconds [s].
USUAL: Mapping[str, float] = {"ttft_seconds": 10.0, "tpot_seconds": 0.05}
#: Layouts of a chip that are played [1].
_PLAYED = 2


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
        instance = self._instance(layouts, row, tiers)
        full = instance.service.at(instance.service.slots)
        rate_of_full = float(full.requests_per_second)
        most = replicas * float(self.agents(rate_of_full, float(full.concurrency)) + self.resting(rate_of_full))
        if agents is None:
            agents = sorted({max(round(share * most), 1) for share in SHARES})
        asked: list[tuple[int, float]] = [(number, 0.0) for number in agents]
        if rates is not None:
            under_way = [float(self.agents(rate, replicas * in_flight(instance, rate / replicas))) for rate in rates]
            asked = [(max(round(min(number, most)), 1), rate) for number, rate in zip(under_way, rates, strict=True)]
        if any(number < 1 for number, _ in asked) or any(not 0.0 <= rate < math.inf for _, rate in asked):
            raise InputError("numbers of agents, and rates, must be positive", option="agents")
        check_runs(len(asked), "agents")
        points = []
        together = min(replicas, TOGETHER)
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
        both, wanted = self._played(offers), promises(targets or Targets())
        choices: list[AnyAgentChoice] = [*self._fleets(both, agents, wanted, router, tiers, most, progress)]

        def pooled(group: PlayedGroup, guess: int) -> AnyAgentChoice | None:
            best, carried = group.best(wanted, guess, agents, math.inf)
            return best.fleet(agents, carried, wanted, router) if carried else None

        choices += self._apart(offers, choices, wanted, tiers, pooled, agents, None)
        kept = some_of_each_chip(sorted(self._kept(choices, wanted), key=_rank), most)
        return AgentRecommendation(tuple(kept), wanted, _layouts(offers), 1.0)

    def _fleets(
        self, both: Sequence[Services], agents: int, wanted: Targets, router: Router, tiers: Sequence[str], most: int,
        progress: Progress | None, played: Mapping[tuple[int, int], PlayedInstance] | None = None,
    ) -> list[AgentChoice]:  # fmt: skip
        """Fleets of instances that carry some agents; those that were played already are given by offer and layout."""
        costs: dict[str, list[float]] = {}

        def fleet(instance: PlayedInstance, _: int, guess: int) -> AnyAgentChoice | None:
            chip = costs.setdefault(instance.service.setup.hardware.name, [])
            # Behind as many of its chip as are wanted it would not be named.
            dearest = sorted(chip)[most - 1] if len(chip) >= most else math.inf
            choice = cheapest_fleet(instance, agents, wanted, min(guess, agents), router, dearest)
            chip += [] if choice is None else [choice.dollars_per_hour]
            return choice

        return self._choices(both, None, wanted, tiers, fleet, progress, agents, played)

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
            Descending in the number of agents; of equal ones the cheaper first.

        Raises
        ------
        InputError
            As :meth:`check` says.
        NothingFitsError
            If not one instance can be had, with how many chips it takes; or if nothing keeps the promises even for a
            single agent.
        """
        wanted = promises(targets or Targets())
        played = self._played(offers)
        both, counts = affordable(played, means) if played else ([], [])

        def fleet(instance: PlayedInstance, replicas: int, guess: int) -> AnyAgentChoice | None:
            return fullest_fleet(instance, replicas, wanted, guess, router)

        choices: list[AnyAgentChoice] = [*self._choices(both, counts, wanted, tiers, fleet, progress)]

        def pooled(group: PlayedGroup, guess: int) -> AnyAgentChoice | None:
            chips = means.most_accelerators(group.service.setup)
            best, carried = group.best(wanted, guess, 0, chips)
            count = most_groups(best, chips)
            return fullest_fleet(best, count, wanted, carried, router) if carried and count else None

        choices += self._apart(offers, choices, wanted, tiers, pooled, None, means)
        ranked = sorted(choices, key=lambda choice: (-choice.use.agents, choice.dollars_per_hour))
        kept = some_of_each_chip(self._kept(ranked, wanted), most)
        return MostAgents(tuple(kept), wanted, _layouts(offers), 1.0, means)

    def _apart(
        self, offers: Sequence[Candidate | Services], choices: Sequence[AnyAgentChoice], wanted: Targets,
        tiers: Sequence[str], fleet: Callable[[PlayedGroup, int], AnyAgentChoice | None], agents: int | None,
        means: Means | None,
    ) -> list[AnyAgentChoice]:  # fmt: skip
        """The fleets of promising groups that prefill and decode apart, where closed forms have them cheaper."""
        least, promising = dict[str, float](), dict[str, list[tuple[PlayedGroup, int, float]]]()
        for choice in choices:
            cost = choice.dollars_per_hour / (choice.use.agents if agents is None else 1.0)
            chip = choice.service.setup.hardware.name
            least[chip] = min(least.get(chip, math.inf), cost)
        for candidate in as_candidates(offers):
            if candidate.pools is None:
                continue
            self.check(candidate.services)
            chip, room = candidate.setup.hardware.name, math.inf
            if means is not None:
                room = means.most_accelerators(candidate.setup)
            every = groups(candidate.pools.pools, self, tuple(map(catalog.tier, tiers)), wanted, agents, room)
            cheaper = [group for group in every if group[2] < least.get(chip, math.inf)]
            promising.setdefault(chip, []).extend(cheaper)
        found = []
        for several in promising.values():
            of_sizes = dict[tuple[int, ...], tuple[PlayedGroup, int]]()
            for group, guess, _ in sorted(several, key=lambda group: group[2]):
                of_sizes.setdefault(group.sizes, (group, guess))
            for group, guess in list(of_sizes.values())[:_PLAYED]:
                choice_apart = fleet(group, guess)
                found += [] if choice_apart is None else [choice_apart]
        return found

    def _kept(self, choices: list[ChoiceT], wanted: Targets) -> list[ChoiceT]:
        """Some choices.

        Raises
        ------
        NothingFitsError
            If there are none.
        """
        if not choices:
            raise NothingFitsError(f"nothing keeps {wanted.text} for a single agent of {self.name}; promise less")
        return choices

    def _choices(
        self, both: Sequence[Services], counts: Sequence[Indices] | None, wanted: Targets, tiers: Sequence[str],
        fleet: Callable[[PlayedInstance, int, int], AnyAgentChoice | None], progress: Progress | None,
        agents: int | None = None, played: Mapping[tuple[int, int], PlayedInstance] | None = None,
    ) -> list[AgentChoice]:  # fmt: skip
        """Fleets of promising layouts of each offer, of so many instances or for so many agents if that is given.

        Those of a chip are played until closed forms, which carry no fewer, say that the next is no better.
        """
        check_runs(_PLAYED * len(both) * 10, "agents" if counts is None else "max_instance_gpus", quick=True)
        promising: list[tuple[float, int, int, int]] = []
        for index, layouts in enumerate(both):
            room = None if counts is None else counts[index]
            rows = shortlist(layouts, self, wanted, tiers=bool(tiers), most=_PLAYED, counts=room, agents=agents)
            promising += [(bound, index, row, guess) for row, guess, bound in rows]
        choices, found = list[AgentChoice](), dict[str, list[float]]()
        for number, (bound, index, row, guess) in enumerate(sorted(promising)):
            layouts, room = both[index], None if counts is None else counts[index]
            costs = found.setdefault(layouts.setup.hardware.name, [])
            if len(costs) >= _PLAYED and bound > min(costs):
                continue
            if progress is not None:
                progress(number / len(promising), layouts.setup.hardware.name)
            instance = (played or {}).get((index, row)) or self._instance(layouts, row, tiers)
            choice = fleet(instance, 1 if room is None else int(room[row]), guess)
            if isinstance(choice, AgentChoice):
                choices.append(choice)
                fewest = -float(choice.use.agents) if agents is None else choice.dollars_per_hour
                costs.append(_dollars_per_agent(choice) if agents is None and counts is None else fewest)
        return choices

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
        number, played = agents, dict[tuple[int, int], PlayedInstance]()
        wanted, both = promises(targets or Targets()), self._played(offers)
        if number is None:
            for index, layouts in enumerate(both):
                for row, guess, _ in shortlist(layouts, self, wanted, tiers=bool(tiers), most=1):
                    if not played:
                        instance = played[index, row] = self._instance(layouts, row, tiers)
                        number = instance.carried(wanted.predicted(instance.service), guess)[0]
        fleets = self._fleets(both, number or 1, wanted, router, tiers, 1, progress, played)
        best = min(self._kept(fleets, wanted), key=_rank)
        bill = PlayedInstance(best.service, self, ()).bill(best.use.trace, best.replicas, best.load)
        pick = Pick(f"the cheapest fleet that carries {number or 1:,} agents", sum(map(len, both)))
        named = {name: getattr(bill, name) for name in Sheet.__dataclass_fields__}
        return AgentSheet(**{**named, "targets": wanted, "pick": pick}, use=best.use)

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
            Of each chip with the instance that carries most agents per dollar.

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
        wanted, best = promises(targets or Targets()), dict[str, AgentChoice]()
        both = self._played(offers)

        def fleet(instance: PlayedInstance, replicas: int, guess: int) -> AnyAgentChoice | None:
            return fullest_fleet(instance, replicas, wanted, guess, router)

        found = self._kept(self._choices(both, None, wanted, tiers, fleet, progress), wanted)
        for choice in sorted(found, key=_dollars_per_agent):
            best.setdefault(choice.service.setup.hardware.name, choice)
        lots = tuple(lot for choice in best.values() for lot in lots_of_agents(choice, ways))
        if not lots:
            raise no_price(ways)
        chips = dict.fromkeys(layouts.setup.hardware.name for layouts in both)
        left_out = (f"{chip}: nothing keeps {wanted.text} for a single agent" for chip in chips if chip not in best)
        return AgentPurchase(
            lots, ranked, crossovers(lots, ranked), self.requests, wanted, None, tuple(left_out), agents=agents
        )

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
        known, rate = self.requests.cached, requests_per_second
        offloading = offload(layouts, tiers, prefix_tokens=known, requests_per_second=rate)
        instance, rate = PlayedInstance(offloading.service, self, tuple(tiers)), offloading.requests_per_second
        hits = instance.play(max(round(float(self.agents(rate, in_flight(instance, rate)))), 1), rate=rate).hit_rates
        readings = (replace(reading, hit_rate=hits[reading.tier]) for reading in offloading.readings)
        return replace(offloading, readings=tuple(readings), traffic=self.name)

    def _instance(self, layouts: Services, row: int, tiers: Sequence[str]) -> PlayedInstance:
        return PlayedInstance(layouts.service(row), self, tuple(map(catalog.tier, tiers)))

    def _played(self, offers: Sequence[Candidate | Services]) -> list[Services]:
        """Instances that read prompts and decode: pools are not played."""
        both = [candidate.services for candidate in as_candidates(offers) if candidate.pools is None]
        for layouts in both:
            self.check(layouts)
        return both


def _layouts(offers: Sequence[Candidate | Services]) -> int:
    """Layouts that are tried [1]."""
    return sum(map(len, as_candidates(offers)))


def _rank(choice: AnyAgentChoice) -> tuple[float, float]:
    """Key that fleets are ordered by: cost, then the mean TPOT."""
    return choice.dollars_per_hour, choice.load.tpot_seconds["mean"]


def _dollars_per_agent(choice: AgentChoice) -> float:
    """Of machines that instances fill [USD/h]."""
    service = choice.service
    return float(service.setup.dollars_per_hour_in_bulk(service.accelerators)) / choice.use.agents


def promises(targets: Targets) -> Targets:
    """Return promises with those that agents have where nothing is said of the first token or those after it."""
    given = targets.given
    ttft, tpot = (given.get(name, USUAL[f"{name}_seconds"]) for name in ("ttft", "tpot"))
    return replace(targets, ttft_seconds=ttft, tpot_seconds=tpot)
