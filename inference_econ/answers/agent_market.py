"""Market of deployments for agents: the fleets among which every question about agents chooses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from inference_econ._types import Indices, Progress
from inference_econ.answers.agent_answers import AgentDeployment
from inference_econ.answers.agent_play import (
    TOGETHER,
    PlayedInstance,
    cheapest_fleet,
    check_runs,
    fullest_fleet,
    run_of,
    shortlist,
)
from inference_econ.answers.agent_pools import PlayedGroup, groups
from inference_econ.answers.agent_sessions import AgentSessions
from inference_econ.answers.candidates import Candidate
from inference_econ.answers.disaggregated.terms import NOTICED
from inference_econ.answers.means import Means
from inference_econ.answers.most_traffic import affordable
from inference_econ.answers.promises import Targets
from inference_econ.answers.recommend import as_candidates, some_of_each_chip
from inference_econ.answers.relax import best_reachable
from inference_econ.errors import NothingFitsError
from inference_econ.inputs import catalog
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
            both, counts = affordable(both, means)
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
                if choice is not None and (1.0 + NOTICED) * self._cost(choice, agents) < least.get(chip, math.inf):
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
        before = self._played.setdefault(("apart", candidate, group.layouts), group)
        assert isinstance(before, PlayedGroup)
        return before.with_instances(*group.instances)


def dollars_per_agent(choice: AgentDeployment) -> float:
    """Of machines that instances, or groups, fill [USD/h]."""
    setup, accelerators = choice.service.setup, choice.accelerators / choice.parts
    return choice.parts * float(setup.dollars_per_hour_in_bulk(accelerators)) / choice.use.agents
