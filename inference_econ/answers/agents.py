"""Agents and conversations on a fleet: how many it carries within promises, and what a task costs.

Their number is what is given, not a rate of requests: a turn is sent when the tools, or the user, are through with the
answer before it. All of it is played, with the blocks of prompts that memories still have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from inference_econ import _work
from inference_econ._types import Array, Progress
from inference_econ.answers.candidates import Candidate
from inference_econ.answers.chances import chances
from inference_econ.answers.load import LoadCurve, LoadPoint, point_record
from inference_econ.answers.picks import Pick
from inference_econ.answers.prefix_cache import Offloading, behind, offload
from inference_econ.answers.price import Sheet, sheet
from inference_econ.answers.promises import Targets, promised_rates
from inference_econ.answers.recommend import Recommendation, as_candidates, choice_record, some_of_each_chip
from inference_econ.answers.record import targets_record
from inference_econ.answers.service_record import pick_record, service_record
from inference_econ.answers.together import Choice
from inference_econ.engine import Setup, chip_power
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Requests, SessionSpec, TierSpec, catalog
from inference_econ.inputs.catalog import Name
from inference_econ.serving import (
    SLOTS_OF_SESSIONS,
    Gamma,
    Loaded,
    Router,
    Server,
    Service,
    Services,
    Session,
    Sessions,
    Trace,
    Usual,
    draw_sessions,
    usual,
)
from inference_econ.serving.simulation import play

#: Numbers of agents that are tried where none are given, over those that keep an instance full [1].
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5)
#: What agents are promised where nothing else is: 20 tokens/s, and an answer that begins within ten seconds [s].
TPOT, TTFT = 0.05, 10.0
#: Requests of a run: so many for each agent, at least and at most [1]. Fewer are enough to look for a number of agents.
_PER_AGENT, _LEAST, _MOST = 20, 3_000, 10_000
_QUICK = 3
#: Share of a run that is not measured: until caches hold what they hold in the long run [1].
_WARM_UP = 0.25
#: Instances that are played together at most; of more, as many agents come to each [1].
_TOGETHER = 4
#: Layouts of a chip that are played; and how near a number of agents is found to the largest that keeps promises [1].
_PLAYED, _NEAR = 2, 0.05
#: What a request takes that is played with its blocks [s].
_SECONDS = 2.5e-4


@dataclass(frozen=True)
class Agents:
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

    name: str
    spec: SessionSpec
    place: str = ""

    @classmethod
    def of(cls, traffic: Name) -> Agents:
        """Return those of a traffic with sessions, by name or path (``--traffic``).

        Raises
        ------
        InputError
            If it is unknown, or has no sessions.
        """
        sessions = catalog.traffic(traffic).sessions
        if sessions is None:
            raise InputError(
                f"{traffic} has no sessions that agents could play; name coding_agent, chat, rag or batch, or a file "
                "with sessions"
            )
        return cls(str(traffic), sessions, catalog.place("traffic", traffic, ("sessions",)))

    @cached_property
    def drawn(self) -> tuple[Session, ...]:
        """Sessions that stand for all."""
        return draw_sessions(self.spec)

    @cached_property
    def means(self) -> Usual:
        """Means over their turns."""
        return usual(self.drawn, self.spec.shared_tokens)

    @property
    def requests(self) -> Requests:
        """The mean turn, with all in the cache that was there before; layouts are offered for it."""
        isl, osl, known = (
            round(float(np.mean(tokens))) for tokens in (self.means.prompts, self.means.answers, self.means.known)
        )
        # Few sessions are drawn of short ones: what most of them do not reach follows from their lengths.
        longest = max(self.longest, math.ceil(self.spec.longest_context))
        return Requests(isl, osl, cached=min(known, isl - 1), longest_turn=longest)

    @property
    def longest(self) -> int:
        """Prompt and answer of the longest turn of all that are drawn [tokens]."""
        return int(np.max(self.means.prompts + self.means.answers))

    def check(self, layouts: Services) -> None:
        """Refuse contexts that a model was not made for, and layouts that were offered for other requests.

        Raises
        ------
        InputError
            Beginning with the place of the sessions in their file.
        """
        most = layouts.setup.model.max_context
        if most is not None and self.longest > most:
            raise InputError(
                f"{self.place or self.name}: sessions of {self.name} grow to {self.longest:,} tokens, beyond the "
                f"{most:,} of {layouts.setup.model.name}; give compacts_at, or fewer and shorter turns"
            )
        if layouts.requests != self.requests:
            raise InputError(
                f"these layouts are offered for other requests than those of {self.name}; offer them for the requests "
                "of the agents (agents.requests)"
            )

    def agents(self, requests_per_second: Array | float, in_flight: Array | float) -> Array:
        """Sessions under way that send requests at a rate [1/s] while so many are in flight, by Little's law [1]."""
        waiting = requests_per_second * self.means.pause_seconds
        return np.asarray((waiting + in_flight) / self.means.side_by_side)

    def resting(self, requests_per_second: Array | float) -> Array:
        """Agents between two sessions at such a rate [1]."""
        return np.asarray(requests_per_second * self.spec.rest / self.means.turns)

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
        rows = _short(layouts, self, promised, tiers=bool(tiers), most=1) or _short(
            layouts, self, Targets(), tiers=bool(tiers), most=1
        )
        row, _ = rows[0]
        instance = _Instance(layouts.service(row), self, tuple(map(catalog.tier, tiers)))
        full = instance.service.at(instance.service.slots)
        rate_of_full = float(full.requests_per_second)
        most = replicas * float(self.agents(rate_of_full, float(full.concurrency)) + self.resting(rate_of_full))
        if agents is None:
            agents = sorted({max(round(share * most), 1) for share in SHARES})
        asked: list[tuple[int, float]] = [(number, 0.0) for number in agents]
        if rates is not None:
            under_way = [float(self.agents(rate, replicas * _in_flight(instance, rate / replicas))) for rate in rates]
            asked = [(max(round(min(number, most)), 1), rate) for number, rate in zip(under_way, rates, strict=True)]
        if any(number < 1 for number, _ in asked) or any(not 0.0 <= rate < math.inf for _, rate in asked):
            raise InputError("numbers of agents, and rates, must be positive", option="agents")
        _work.check(
            f"{len(asked)} runs of up to {_MOST:,} requests", seconds=len(asked) * _MOST * _SECONDS, smaller="agents"
        )
        points = []
        together = min(replicas, _TOGETHER)
        for index, (number, rate) in enumerate(asked):
            if progress is not None:
                progress(index / len(asked), f"{number:,} agents")
            part = max(round(number * together / replicas), 1)
            trace = instance.play(part, together, router, rate * together / replicas)
            points.append(_point(instance, trace, number, together, replicas, router, promised, rate))
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
            What competes; pools that prefill and decode apart do not.
        agents : int
            How many there are [1].
        targets : Targets, optional
            What is promised; of the first token and those after it :data:`TTFT` and :data:`TPOT` where nothing is said.
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
            raise InputError(f"say how many --agents there are, at least 1, got {agents or 'none'}", option="agents")
        wanted = promises(targets or Targets())
        both = self._played(offers)
        runs = _PLAYED * len(both) * 10
        _work.check(f"{runs} runs of {_MOST:,} requests", seconds=runs * _MOST * _SECONDS / _QUICK, smaller="agents")
        choices: list[AgentChoice] = []
        for layouts in both:
            rows = _short(layouts, self, wanted, tiers=bool(tiers), most=_PLAYED)
            for row, guess in rows:
                if progress is not None:
                    progress(len(choices) / (_PLAYED * len(both)), layouts.setup.hardware.name)
                instance = _Instance(layouts.service(row), self, tuple(map(catalog.tier, tiers)))
                choice = _fleet(instance, agents, wanted, min(guess, agents), router)
                if choice is not None:
                    choices.append(choice)
        if not choices:
            raise NothingFitsError(f"nothing keeps {wanted.text} for a single agent of {self.name}; promise less")
        ranked = sorted(choices, key=lambda choice: (choice.dollars_per_hour, choice.load.tpot_seconds["mean"]))
        return AgentRecommendation(tuple(some_of_each_chip(ranked, most)), wanted, sum(map(len, both)), 1.0)

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
        """What tasks, hours of agents and tokens cost on the cheapest deployment that carries some agents.

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
        number = agents
        if number is None:
            wanted = promises(targets or Targets())
            both = self._played(offers)
            rows = [
                (layouts, *row) for layouts in both for row in _short(layouts, self, wanted, tiers=bool(tiers), most=1)
            ]
            if rows:
                layouts, row, guess = rows[0]
                instance = _Instance(layouts.service(row), self, tuple(map(catalog.tier, tiers)))
                number = instance.carried(wanted.predicted(instance.service), guess, _MOST)[0]
        deployments = self.recommend(
            offers, number or 1, targets, router=router, tiers=tiers, most=1, progress=progress
        )
        best = deployments[0]
        assert isinstance(best, AgentChoice)
        bill = _Instance(best.service, self, tuple(map(catalog.tier, tiers))).bill(
            best.use.trace, best.replicas, best.load
        )
        pick = Pick(f"the cheapest fleet that carries {number or 1:,} agents", deployments.layouts)
        named = {name: getattr(bill, name) for name in Sheet.__dataclass_fields__}
        return AgentSheet(**{**named, "targets": deployments.targets, "pick": pick}, use=best.use)

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
        instance, rate = _Instance(offloading.service, self, tuple(tiers)), offloading.requests_per_second
        hits = instance.play(max(round(float(self.agents(rate, _in_flight(instance, rate)))), 1), rate=rate).hit_rates
        readings = (replace(reading, hit_rate=hits[reading.tier]) for reading in offloading.readings)
        return replace(offloading, readings=tuple(readings), traffic=self.name)

    def _played(self, offers: Sequence[Candidate | Services]) -> list[Services]:
        """Instances that read prompts and decode: pools are not played."""
        both = [candidate.services for candidate in as_candidates(offers) if candidate.pools is None]
        for layouts in both:
            self.check(layouts)
        return both


@dataclass(frozen=True, slots=True)
class Use:
    """What agents make of a fleet.

    Attributes
    ----------
    work : Agents
        What they do.
    agents : float
        How many there are [1].
    instances : int
        Instances that were played together, with their share of the agents [1].
    router : str
        Where turns go.
    trace : Trace
        What their requests saw.
    rest_seconds : float
        Between two sessions of an agent [s].
    """

    work: Agents
    agents: float
    instances: int
    router: Router
    trace: Trace
    rest_seconds: float

    def record(self, fleet: Sheet | Choice, replicas: int) -> dict[str, Any]:
        """Return their tasks and what these cost on some instances, as plain data."""
        trace, turns = self.trace, self.work.means.turns
        hourly = 3600.0 * trace.requests_per_second * replicas / self.instances / turns
        dollars, watts = fleet.dollars_per_hour, _watts(fleet.service.setup, fleet.accelerators)
        return {
            "traffic": self.work.name,
            "router": self.router,
            "agents": self.agents,
            "agents_per_accelerator": self.agents / fleet.accelerators,
            "agents_per_megawatt": None if watts is None else 1e6 * self.agents / watts,
            "requests_per_task": turns,
            "tasks_per_hour": hourly,
            "task_seconds": 3600.0 * self.agents / hourly - self.rest_seconds,
            "dollars_per_task": dollars / hourly,
            "dollars_per_agent_hour": dollars / self.agents,
            "hit_rate": sum(trace.hit_rates.values()),
            "hit_rates": dict(trace.hit_rates),
        }


def _watts(setup: Setup, accelerators: float) -> float | None:
    """Power that a facility provisions for some chips [W]; None where their file has none."""
    power = chip_power(setup.hardware)
    return None if power is None else accelerators * power.provisioned_watts


@dataclass(frozen=True, slots=True)
class AgentPoint(LoadPoint):
    """A fleet with some agents.

    Attributes
    ----------
    use : Use
        The agents.
    """

    use: Use


@dataclass(frozen=True, slots=True, repr=False)
class AgentCurve(LoadCurve):
    """A fleet with more and more agents: a :class:`~inference_econ.answers.load.LoadCurve` of :class:`AgentPoint`."""

    page = "report.agents:AgentCurvePage"

    points: tuple[AgentPoint, ...]

    def record(self) -> dict[str, Any]:
        """Return all of the answer as plain data."""
        bill = self.points[0].sheet
        return {
            **service_record(bill.service, bill.replicas, *(point.load for point in self.points)),
            "dollars_per_accelerator_hour": bill.service.setup.dollars_per_accelerator_hour,
            "dollars_per_hour": bill.dollars_per_hour,
            "targets": targets_record(self.targets),
            "points": self.records(),
            **pick_record(self.pick),
            "arrival_scv": None,
            "burstiness": None,
        }

    def records(self) -> list[Mapping[str, Any]]:
        """Return every number of agents."""
        return [
            {**point_record(point, self.targets), "agent_use": point.use.record(point.sheet, point.sheet.replicas)}
            for point in self.points
        ]


@dataclass(frozen=True, slots=True)
class AgentChoice(Choice):
    """A deployment that carries some agents within promises.

    Attributes
    ----------
    use : Use
        The agents.
    """

    use: Use


@dataclass(frozen=True, slots=True, repr=False)
class AgentRecommendation(Recommendation):
    """Deployments that carry some agents, the cheapest first: of :class:`AgentChoice`."""

    page = "report.agents:AgentChoicesPage"

    def record(self) -> dict[str, Any]:
        """Return all of the answer as plain data."""
        return {"targets": targets_record(self.targets), "choices": self.records(), "first_is_cheaper": None}

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per deployment."""
        return [
            {**choice_record(choice, self.targets), "agent_use": choice.use.record(choice, choice.replicas)}
            for choice in self
            if isinstance(choice, AgentChoice)
        ]


@dataclass(frozen=True, slots=True, repr=False)
class AgentSheet(Sheet):
    """The bill of a fleet of agents: tasks and hours of agents beside kinds of tokens.

    Attributes
    ----------
    use : Use
        The agents.
    """

    page = "report.agents:AgentSheetPage"

    use: Use | None = None

    def record(self) -> dict[str, Any]:
        """Return all of the answer as plain data."""
        assert self.use is not None
        return {**super(AgentSheet, self).record(), "agent_use": self.use.record(self, self.replicas)}


def promises(targets: Targets) -> Targets:
    """Return promises with those that agents have where nothing is said of the first token or those after it."""
    ttft, tpot = (
        usual if math.isinf(given) else given
        for given, usual in ((targets.ttft_seconds, TTFT), (targets.tpot_seconds, TPOT))
    )
    return replace(targets, ttft_seconds=ttft, tpot_seconds=tpot)


@dataclass(frozen=True)
class _Instance:
    """An instance that is played with numbers of agents."""

    service: Service
    work: Agents
    tiers: tuple[TierSpec, ...]

    @cached_property
    def _server(self) -> Server:
        lengths = np.array([1, int(self.work.means.prompts.max())])
        slots = SLOTS_OF_SESSIONS * self.service.slots
        return play.server(self.service, lengths, slots=slots, tiers=behind(self.service, self.tiers))

    def play(
        self, agents: int, instances: int = 1, router: Router = "prefix_aware", rate: float = 0.0, quick: int = 1
    ) -> Trace:
        """Play some agents on some instances; or sessions that begin so that requests come at a rate [1/s]."""
        work = self.work
        count = int(np.clip(_PER_AGENT * agents, _LEAST, _MOST)) // quick
        sessions = Sessions(
            work.drawn, round(work.spec.shared_tokens), agents, count, rate / work.means.turns,
            0.0 if rate else work.spec.rest,
        )  # fmt: skip
        return play.play(self.service, self._server, sessions, warm_up=_WARM_UP, instances=instances, router=router)

    def load(self, trace: Trace, instances: int) -> Loaded:
        """What requests saw, of one of the instances."""
        rate, times = trace.requests_per_second / instances, ("ttft", "tpot", "e2e", "e2e_per_output_token")
        ttft, tpot, e2e, per_token = (trace.statistics(name) for name in times)
        full = self.service.most_requests_per_second
        waits = trace.waiting / max(trace.waiting + trace.in_flight, 1e-9)
        return Loaded(
            rate, False, rate / full, rate, trace.in_flight / instances, waits, ttft, tpot, e2e, per_token, played=True,
            arrivals=Gamma(1.0),
        )  # fmt: skip

    def bill(self, trace: Trace, replicas: int, load: Loaded) -> Sheet:
        """The bill, with the cached tokens that were found."""
        requests = self.service.requests
        found = min(round(sum(trace.hit_rates.values()) * requests.isl.mean), requests.isl.mean - 1.0)
        service = replace(self.service, requests=requests.replace(cached=found))
        return sheet(service, load.requests_per_second * replicas, replicas=replicas, load=load)

    def broken(self, trace: Trace, targets: Targets) -> str | None:
        """The promise that requests did not see kept; None if all are."""
        times = {name: trace.statistics(name)[targets.percentile_of(name)] for name in targets.given}
        return next((name for name, seconds in times.items() if seconds > targets.every[name]), None)

    def carried(self, targets: Targets, guess: int, most: int) -> tuple[int, str]:
        """The most agents within promises, near enough, and what breaks with more of them; 0 if a single one does."""
        kept, broken, binding = 0, 0, ""
        number = min(max(guess, 1), most)
        while kept < most and (not broken or broken - kept > max(_NEAR * kept, 1)):
            problem = self.broken(self.play(number, quick=_QUICK), targets)
            if problem is None:
                kept = number
            else:
                broken, binding = number, problem
            if broken == 1:
                break
            number = (kept + broken) // 2 if broken else min(2 * number, most)
        return kept, binding


def _short(layouts: Services, work: Agents, targets: Targets, *, tiers: bool, most: int) -> list[tuple[int, int]]:
    """Layouts that carry most agents per dollar by closed forms, one of each size, and how many agents [1].

    All is found that has room: with nothing behind HBM no more agents than there are contexts that fit.
    """
    rates, states = promised_rates(layouts, targets), layouts.states
    in_flight = [
        float(np.interp(rate, known, concurrency))
        for rate, known, concurrency in zip(rates, states.requests_per_second, states.concurrency, strict=True)
    ]
    agents = work.agents(rates, np.array(in_flight)) + work.resting(rates)
    if not tiers:
        agents = np.minimum(agents, layouts.slots)
    agents = np.where(rates > 0.0, agents, 0.0)
    per_dollar = agents / layouts.setup.dollars_per_hour_in_bulk(layouts.plans.accelerators)
    sizes: dict[float, int] = {}
    for row in np.argsort(-per_dollar, kind="stable").tolist():
        if agents[row] > 0.0:
            sizes.setdefault(float(layouts.plans.accelerators[row]), row)
    return [(row, max(int(agents[row]), 1)) for row in list(sizes.values())[:most]]


def _in_flight(instance: _Instance, rate: float) -> float:
    """Requests in flight at a rate by closed forms [1]."""
    states = instance.service.states
    return float(np.interp(rate, states.requests_per_second, states.concurrency))


def _point(
    instance: _Instance, trace: Trace, number: int, together: int, replicas: int, router: Router, targets: Targets,
    rate: float,
) -> AgentPoint:  # fmt: skip
    load = instance.load(trace, together)
    limits = targets.predicted(instance.service)
    kept = trace.kept_share(*limits.every.values()) if targets.given else None
    if rate:
        flight = float(trace.e2e.mean()) * trace.requests_per_second
        number = round(float(instance.work.agents(trace.requests_per_second, flight)) * replicas / together)
    use = Use(instance.work, number, together, router, trace, 0.0 if rate else instance.work.spec.rest)
    return AgentPoint(
        instance.bill(trace, replicas, load), kept, None, chances(instance.service, load, targets), load, use
    )


def _fleet(instance: _Instance, agents: int, targets: Targets, guess: int, router: Router) -> AgentChoice | None:
    """The fewest instances that carry some agents, played together."""
    service, limits = instance.service, targets.predicted(instance.service)
    carried, binding = instance.carried(limits, guess, agents)
    if not carried:
        return None
    replicas = math.ceil(agents / carried)
    while True:
        together = min(replicas, _TOGETHER)
        trace = instance.play(max(round(agents * together / replicas), 1), together, router)
        problem = instance.broken(trace, limits)
        if problem is None:
            break
        if replicas >= 2 * agents:
            return None
        binding, replicas = problem, replicas + max(round(_NEAR * replicas), 1)
    load = instance.load(trace, together)
    dollars = float(service.setup.dollars_per_hour(replicas, service.accelerators))
    use = Use(instance.work, agents, together, router, trace, instance.work.spec.rest)
    return AgentChoice(service, replicas, load, dollars, "instance" if replicas == 1 else binding, use)
