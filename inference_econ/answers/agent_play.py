"""Instances that are played with agents: how many they carry within promises, and what these see and pay."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from inference_econ import _work
from inference_econ._types import Array, Indices
from inference_econ.answers.agent_answers import AgentDeployment, AgentPoint, Use
from inference_econ.answers.agent_sessions import AgentSessions
from inference_econ.answers.capacity import NEAR, bracket_capacity
from inference_econ.answers.chances import chances
from inference_econ.answers.prefix_cache import behind
from inference_econ.answers.price import Sheet, sheet
from inference_econ.answers.promises import Targets, promised_rates
from inference_econ.inputs import Requests, TierSpec
from inference_econ.serving import Gamma, Loaded, Router, Server, Service, Services, Sessions, Trace
from inference_econ.serving.simulation import play

#: Requests of a run at least [1]; a third is enough to look for a number of agents.
_LEAST, _QUICK = 3_000, 3
#: Turns of every agent before those that are measured, half a session, and of these: at least and at most [1]. Fleets
#: whose memory is too small for all contexts tip over within 20 turns, and stay so in plays of 160.
_FEWEST, _SETTLED = 2, 20
#: Share of a run that is not measured, at least: until caches hold what they hold in the long run [1].
WARM_UP = 0.25
#: Agents of an instance at most [1].
_MOST = 1_000_000
#: Instances that are played together at most; of more, as many agents come to each [1].
TOGETHER = 4
#: By which a number that is looked for changes at most from a run to the next: of one instance, and of a fleet [1].
_FAR, _STRIDE = 2.0, 1.2
#: What a request takes that is played with its blocks [s].
_SECONDS = 1.5e-4
#: Of a time that nobody has to wait [s].
_NO_TIME = 1e-9


def check_runs(runs: Sequence[float], smaller: str) -> None:
    """Refuse runs of some requests each that would take too long; see :func:`inference_econ._work.check`."""
    most = f"{max(runs, default=0.0):,.0f} requests"
    work = f"the {most} of a run" if len(runs) == 1 else f"{len(runs)} runs of up to {most}"
    _work.check(work, seconds=sum(runs) * _SECONDS, smaller=smaller)


def run_of(work: AgentSessions, agents: float, *, quick: bool = False) -> tuple[int, float]:
    """Requests of a run of some agents, and the share of them that is not measured [1].

    Every agent plays half a session before what is measured: a run that is shorter flatters fleets that tip over. Of
    long sessions the turns count in which they do so.
    """
    settled = agents * float(np.clip(work.means.turns / 2.0, _FEWEST, _SETTLED))
    measured = max((1.0 - WARM_UP) * _LEAST / (_QUICK if quick else 1), _FEWEST * agents)
    return math.ceil(settled + measured), max(settled / (settled + measured), WARM_UP)


@dataclass(frozen=True)
class PlayedInstance:
    """An instance that is played with numbers of agents."""

    service: Service
    work: AgentSessions
    tiers: tuple[TierSpec, ...]

    @cached_property
    def _server(self) -> Server:
        lengths = np.array([1, int(self.work.means.prompts.max())])
        slots, tiers = self.service.slots_of_blocks, behind(self.service, self.tiers)
        return play.server(self.service, lengths, slots=slots, tiers=tiers)

    @property
    def together(self) -> int:
        """Instances that are played together at most [1]."""
        return TOGETHER

    def predicted(self, targets: Targets) -> Targets:
        """Promises that predictions must keep, so that measured instances keep those of users with confidence."""
        return targets.predicted(self.service)

    def sessions(self, agents: int, count: int, rate: float = 0.0) -> Sessions:
        """Sessions of some agents in a run of requests; or those that begin so that requests come at a rate [1/s]."""
        work = self.work
        return Sessions(
            work.drawn, round(work.spec.shared_tokens), agents, count, rate / work.means.turns,
            0.0 if rate else work.spec.rest,
        )  # fmt: skip

    def play(
        self, agents: int, instances: int = 1, router: Router = "prefix_aware", rate: float = 0.0, *,
        quick: bool = False,
    ) -> Trace:  # fmt: skip
        """Play some agents on some instances; or sessions that begin so that requests come at a rate [1/s].

        A run that was played before is not played again.
        """
        count, warm_up = run_of(self.work, agents, quick=quick)
        run = (agents, instances, router, rate, count)
        if run not in self._traces:
            self._traces[run] = self._played(self.sessions(agents, count, rate), warm_up, instances, router)
        return self._traces[run]

    @cached_property
    def _traces(self) -> dict[tuple[object, ...], Trace]:
        return {}

    def _played(self, sessions: Sessions, warm_up: float, instances: int, router: Router) -> Trace:
        return play.play(self.service, self._server, sessions, warm_up=warm_up, instances=instances, router=router)

    def play_part(self, agents: int, replicas: int, router: Router) -> Trace:
        """Play some agents on some instances, of which a few stand for all."""
        together = min(replicas, self.together)
        return self.play(max(round(agents * together / replicas), 1), together, router)

    def choice(self, agents: int, replicas: int, router: Router, trace: Trace, binding: str) -> AgentDeployment:
        """A fleet of some instances for some agents, of which a few were played together."""
        service, together = self.service, min(replicas, self.together)
        dollars = float(service.setup.dollars_per_hour(replicas, service.accelerators))
        use = Use(self.work, agents, together, router, trace, self.work.spec.rest)
        return AgentDeployment(service, replicas, self.load(trace, together), dollars, binding, use=use, parts=replicas)

    def load(self, trace: Trace, instances: int) -> Loaded:
        """Load of one of the instances, with the latencies that requests saw."""
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
        service = replace(self.service, requests=requests.replace(cached=found_tokens(trace, requests)))
        return sheet(service, load.requests_per_second * replicas, replicas=replicas, load=load)

    def in_flight(self, rate: float) -> float:
        """Requests in flight at a rate by closed forms [1]."""
        states = self.service.states
        return float(np.interp(rate, states.requests_per_second, states.concurrency))

    def over(self, trace: Trace, targets: Targets) -> tuple[float, str]:
        """How far requests are beyond promises, as the logarithm of their times over these; and the first broken one.

        That is at most 0, and the name empty, where all are kept.
        """
        seen = {name: trace.statistics(name)[targets.percentile_of(name)] for name in self.promised(targets)}
        over = {name: math.log(max(seconds, _NO_TIME) / targets.every[name]) for name, seconds in seen.items()}
        return max(over.values()), next((name for name, far in over.items() if far > 0.0), "")

    def promised(self, targets: Targets) -> Collection[str]:
        """The latencies that are promised, in the order in which they are looked at."""
        return targets.given

    def carried(self, targets: Targets, guess: int, most: int = 0) -> tuple[int, str]:
        """The most agents within promises, near enough, and what breaks with more of them; 0 if a single one does."""
        return bracket_capacity(
            lambda number: self.over(self.play(number, quick=True), targets), guess, most or _MOST, _FAR
        )


def shortlist(
    layouts: Services, work: AgentSessions, targets: Targets, *, tiers: bool, most: int, counts: Indices | None = None,
    agents: int | None = None,
) -> list[tuple[int, int, float]]:  # fmt: skip
    """Layouts that carry most agents per dollar by closed forms, one of each size, and how many an instance does [1].

    Where counts of instances are given, those that carry most in all; where a number of agents is, those whose fleets
    for it cost least. All is found that has room: with nothing behind HBM no more agents than there are contexts that
    fit. As agents also rest, more of them may keep the promises: a layout that would be the cheapest then is one more.
    With each the least that such a fleet costs, as many as may keep them taken to do so: for so many agents, or for one
    [USD/h]; where counts are given, the most that it carries, as a negative number [1].
    """
    rates = promised_rates(layouts, targets)
    at_most = np.where(rates > 0.0, work.all_agents(rates, flights(layouts, rates)), 0.0)
    carried = at_most if tiers else np.minimum(at_most, layouts.slots)
    setup, accelerators = layouts.setup, layouts.plans.accelerators

    def ranked(capacity: Array) -> list[int]:
        """One row of each size, the best first, of instances that carry so many agents each [1]."""
        value = capacity / setup.dollars_per_hour_in_bulk(accelerators)
        first = -value if counts is None else -capacity * counts
        if agents is not None:
            first = setup.dollars_per_hour(np.ceil(agents / np.maximum(capacity, 1e-9)), accelerators)
        sizes: dict[float, int] = {}
        for row in np.lexsort((-value, first)).tolist():
            if capacity[row] > 0.0:
                sizes.setdefault(float(accelerators[row]), row)
        return list(sizes.values())

    rows = ranked(carried)[:most] + ([] if agents is None else ranked(at_most)[:1])
    # Where slots are what limits them, a play has room for more: shared blocks are held once.
    full = rates >= (1.0 - NEAR) * layouts.states.requests_per_second[:, -1]
    most_each = np.maximum((1.0 + NEAR) * np.where(full, layouts.slots_of_blocks / layouts.slots, 1.0) * at_most, 1.0)
    bound = setup.dollars_per_hour_in_bulk(accelerators) / most_each if counts is None else -most_each * counts
    if agents is not None:
        bound = setup.dollars_per_hour(np.ceil(agents / most_each), accelerators)
    return [(row, max(int(carried[row]), 1), float(bound[row])) for row in dict.fromkeys(rows)]


def found_tokens(trace: Trace, requests: Requests) -> float:
    """Tokens of the mean prompt that were found in memories [tokens]."""
    return min(round(sum(trace.hit_rates.values()) * requests.isl.mean), requests.isl.mean - 1.0)


def flights(layouts: Services, rates: Array) -> Array:
    """Requests in flight of each layout at a rate of its own by closed forms [1]."""
    states = zip(rates, layouts.states.requests_per_second, layouts.states.concurrency, strict=True)
    return np.array([float(np.interp(*state)) for state in states])


def point_of(
    instance: PlayedInstance, trace: Trace, number: int, together: int, replicas: int, router: Router, targets: Targets,
    rate: float,
) -> AgentPoint:  # fmt: skip
    """A played number of agents, or sessions that begin at a rate [1/s], with its bill."""
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


def cheapest_fleet(
    instance: PlayedInstance, agents: int, targets: Targets, guess: int, router: Router, dollars: float = math.inf
) -> AgentDeployment | None:
    """The fewest instances that carry some agents, near enough, played together; None if no number of them does.

    None, too, if these cost more than some dollars [USD/h].
    """
    limits, service = instance.predicted(targets), instance.service
    bills = service.setup.dollars_per_hour(np.arange(1.0, 2.0 * agents + 1.0), service.accelerators)
    most = int(np.searchsorted(bills, dollars, side="right"))
    if not most:
        return None
    if dollars < math.inf and instance.over(instance.play_part(agents, most, router), limits)[1]:
        return None
    carried = agents if most == 1 else instance.carried(limits, max(guess, math.ceil(agents / most)), agents)[0]
    if not carried:
        return None
    # Beside one another instances carry more, or fewer, than a short run of one of them said.
    replicas, binding = bracket_capacity(
        lambda count: instance.over(instance.play_part(agents, count, router), limits),
        math.ceil(agents / carried), most, _STRIDE, rising=False,
    )  # fmt: skip
    if not replicas:
        return None
    trace = instance.play_part(agents, replicas, router)
    return instance.choice(agents, replicas, router, trace, "instance" if replicas == 1 else binding)


def fullest_fleet(
    instance: PlayedInstance, replicas: int, targets: Targets, guess: int, router: Router, *, certain: bool = False
) -> AgentDeployment | None:
    """Some instances with the most agents that they carry, played together; None if not even one is carried.

    The guess is of an instance, or of all of them if that is known.
    """
    limits = instance.predicted(targets)
    carried = guess if certain else replicas * instance.carried(limits, guess)[0]
    if not carried:
        return None
    agents, binding = bracket_capacity(
        lambda number: instance.over(instance.play_part(number, replicas, router), limits),
        carried, _MOST * replicas, _STRIDE,
    )  # fmt: skip
    if not agents:
        return None
    trace = instance.play_part(agents, replicas, router)
    return instance.choice(agents, replicas, router, trace, binding or "capacity")
