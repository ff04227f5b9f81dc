"""Instances that are played with agents: how many they carry within promises, and what these see and pay."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from inference_econ import _work
from inference_econ._types import Array, Indices
from inference_econ.answers.agent_answers import AgentChoice, AgentPoint, AnyAgentChoice, Use
from inference_econ.answers.agent_sessions import AgentSessions
from inference_econ.answers.chances import chances
from inference_econ.answers.prefix_cache import behind
from inference_econ.answers.price import Sheet, sheet
from inference_econ.answers.promises import Targets, promised_rates
from inference_econ.inputs import TierSpec
from inference_econ.serving import SLOTS_OF_SESSIONS, Gamma, Loaded, Router, Server, Service, Services, Sessions, Trace
from inference_econ.serving.simulation import play

#: Requests of a run: so many for each agent, at least and at most [1]. A third is enough to look for a number of
#: agents; as many as these are sent by each in any case.
_PER_AGENT, _LEAST, _MOST = 20, 3_000, 10_000
_QUICK, _FEWEST = 3, 2
#: Share of a run that is not measured: until caches hold what they hold in the long run [1].
WARM_UP = 0.25
#: Instances that are played together at most; of more, as many agents come to each [1].
TOGETHER = 4
#: How near a number of agents is found to the largest that keeps promises [1].
_NEAR = 0.05
#: From a number that is nearly right to the next, until there is one on either side of the one looked for [1].
_STRIDE = 1.2
#: What a request takes that is played with its blocks [s].
_SECONDS = 2.5e-4


def check_runs(count: int, smaller: str, *, quick: bool = False) -> None:
    """Refuse runs that would take too long; see :func:`inference_econ._work.check` for the errors."""
    seconds = count * _MOST * _SECONDS / (_QUICK if quick else 1)
    _work.check(f"{count} runs of up to {_MOST:,} requests", seconds=seconds, smaller=smaller)


@dataclass(frozen=True)
class PlayedInstance:
    """An instance that is played with numbers of agents."""

    service: Service
    work: AgentSessions
    tiers: tuple[TierSpec, ...]

    @cached_property
    def _server(self) -> Server:
        lengths = np.array([1, int(self.work.means.prompts.max())])
        slots = SLOTS_OF_SESSIONS * self.service.slots
        return play.server(self.service, lengths, slots=slots, tiers=behind(self.service, self.tiers))

    @property
    def together(self) -> int:
        """Instances that are played together at most [1]."""
        return TOGETHER

    def predicted(self, targets: Targets) -> Targets:
        """What predictions must keep, so that measured instances keep the promises with confidence."""
        return targets.predicted(self.service)

    def sessions(self, agents: int, rate: float = 0.0, quick: int = 1) -> Sessions:
        """What some agents do in a run; or sessions that begin so that requests come at a rate [1/s]."""
        work = self.work
        count = max(int(np.clip(_PER_AGENT * agents, _LEAST, _MOST)) // quick, _FEWEST * agents)
        return Sessions(
            work.drawn, round(work.spec.shared_tokens), agents, count, rate / work.means.turns,
            0.0 if rate else work.spec.rest,
        )  # fmt: skip

    def play(
        self, agents: int, instances: int = 1, router: Router = "prefix_aware", rate: float = 0.0, quick: int = 1
    ) -> Trace:
        """Play some agents on some instances; or sessions that begin so that requests come at a rate [1/s].

        A run that was played before is not played again.
        """
        run = (agents, instances, router, rate, quick)
        if run not in self._traces:
            self._traces[run] = self._played(*run)
        return self._traces[run]

    @cached_property
    def _traces(self) -> dict[tuple[object, ...], Trace]:
        return {}

    def _played(self, agents: int, instances: int, router: Router, rate: float, quick: int) -> Trace:
        sessions = self.sessions(agents, rate, quick)
        return play.play(self.service, self._server, sessions, warm_up=WARM_UP, instances=instances, router=router)

    def play_part(self, agents: int, replicas: int, router: Router) -> Trace:
        """Play some agents on some instances, of which a few stand for all."""
        together = min(replicas, self.together)
        return self.play(max(round(agents * together / replicas), 1), together, router)

    def choice(self, agents: int, replicas: int, router: Router, trace: Trace, binding: str) -> AnyAgentChoice:
        """A fleet of some instances for some agents, of which a few were played together."""
        service, together = self.service, min(replicas, self.together)
        dollars = float(service.setup.dollars_per_hour(replicas, service.accelerators))
        use = Use(self.work, agents, together, router, trace, self.work.spec.rest)
        return AgentChoice(service, replicas, self.load(trace, together), dollars, binding, use)

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
        found = min(round(sum(trace.hit_rates.values()) * requests.isl.mean), requests.isl.mean - 1.0)
        service = replace(self.service, requests=requests.replace(cached=found))
        return sheet(service, load.requests_per_second * replicas, replicas=replicas, load=load)

    def broken(self, trace: Trace, targets: Targets) -> str | None:
        """The promise that requests did not see kept; None if all are."""
        times = {name: trace.statistics(name)[targets.percentile_of(name)] for name in self.promised(targets)}
        return next((name for name, seconds in times.items() if seconds > targets.every[name]), None)

    def promised(self, targets: Targets) -> Collection[str]:
        """The latencies that are promised, in the order in which they are looked at."""
        return targets.given

    def carried(self, targets: Targets, guess: int, most: int = 0) -> tuple[int, str]:
        """The most agents within promises, near enough, and what breaks with more of them; 0 if a single one does."""
        return _most(lambda number: self.broken(self.play(number, quick=_QUICK), targets), guess, most or _MOST, 2.0)


def _most(broken: Callable[[int], str | None], guess: int, most: int, stride: float) -> tuple[int, str]:
    """The largest number of which nothing is broken, near enough, and what is of more; strides, then halves.

    It is 0 if something is broken of 1.
    """
    kept, beyond, binding = 0, 0, ""
    number = min(max(guess, 1), most)
    while kept < most and (not beyond or beyond - kept > max(_NEAR * kept, 1)):
        problem = broken(number)
        if problem is None:
            kept = number
        else:
            beyond, binding = number, problem
        if kept and beyond:
            number = (kept + beyond) // 2
        else:
            number = int(beyond / stride) if beyond else min(math.ceil(stride * number), most)
        number = max(number, 1)
    return kept, binding


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
    rates, states = promised_rates(layouts, targets), layouts.states
    in_flight = [
        float(np.interp(rate, known, concurrency))
        for rate, known, concurrency in zip(rates, states.requests_per_second, states.concurrency, strict=True)
    ]
    at_most = np.where(rates > 0.0, work.agents(rates, np.array(in_flight)) + work.resting(rates), 0.0)
    carried = at_most if tiers else np.minimum(at_most, layouts.slots)
    setup, accelerators = layouts.setup, layouts.plans.accelerators

    def ranked(each: Array) -> list[int]:
        """One row of each size, the best first, of instances that carry so many agents each [1]."""
        value = each / setup.dollars_per_hour_in_bulk(accelerators)
        first = -value if counts is None else -each * counts
        if agents is not None:
            first = setup.dollars_per_hour(np.ceil(agents / np.maximum(each, 1e-9)), accelerators)
        sizes: dict[float, int] = {}
        for row in np.lexsort((-value, first)).tolist():
            if each[row] > 0.0:
                sizes.setdefault(float(accelerators[row]), row)
        return list(sizes.values())

    rows = ranked(carried)[:most] + ([] if agents is None else ranked(at_most)[:1])
    most_each = np.maximum(at_most, 1.0)
    bound = setup.dollars_per_hour_in_bulk(accelerators) / most_each if counts is None else -most_each * counts
    if agents is not None:
        bound = setup.dollars_per_hour(np.ceil(agents / most_each), accelerators)
    return [(row, max(int(carried[row]), 1), float(bound[row])) for row in dict.fromkeys(rows)]


def in_flight(instance: PlayedInstance, rate: float) -> float:
    """Requests in flight at a rate by closed forms [1]."""
    states = instance.service.states
    return float(np.interp(rate, states.requests_per_second, states.concurrency))


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
) -> AnyAgentChoice | None:
    """The fewest instances that carry some agents, near enough, played together; None if no number of them does.

    None, too, if these cost more than some dollars [USD/h].
    """
    limits, service = instance.predicted(targets), instance.service
    bills = service.setup.dollars_per_hour(np.arange(1.0, 2.0 * agents + 1.0), service.accelerators)
    most = int(np.searchsorted(bills, dollars, side="right"))
    if not most:
        return None
    carried, binding = (agents, "") if most == 1 else instance.carried(limits, guess, agents)
    if not carried:
        return None
    # Beside one another instances carry more, or fewer, than a short run of one of them said.
    replicas, too_few = min(math.ceil(agents / carried), most), 0
    fewest, best = 0, None
    while best is None or fewest - too_few > max(_NEAR * too_few, 1):
        trace = instance.play_part(agents, replicas, router)
        problem = instance.broken(trace, limits)
        if problem is None:
            fewest, best = replicas, trace
        elif best is None and replicas >= most:
            return None
        else:
            too_few, binding = replicas, problem
        if best is None:
            replicas = min(replicas + max(round(_NEAR * replicas), 1), most)
        else:
            replicas = (fewest + too_few) // 2 if too_few else max(int(fewest / _STRIDE), 1)
    return instance.choice(agents, fewest, router, best, "instance" if fewest == 1 else binding)


def fullest_fleet(
    instance: PlayedInstance, replicas: int, targets: Targets, guess: int, router: Router
) -> AnyAgentChoice | None:
    """Some instances with the most agents that they carry, played together; None if not even one is carried."""
    limits, kept = instance.predicted(targets), dict[int, Trace]()

    def broken(agents: int) -> str | None:
        kept[agents] = instance.play_part(agents, replicas, router)
        return instance.broken(kept[agents], limits)

    carried, _ = instance.carried(limits, guess)
    agents, binding = _most(broken, carried * replicas, _MOST * replicas, _STRIDE) if carried else (0, "")
    return instance.choice(agents, replicas, router, kept[agents], binding or "capacity") if agents else None
