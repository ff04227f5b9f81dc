"""Simulation of agent or user sessions on instances and prefill/decode groups, and search for their capacity."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from inference_econ import _work
from inference_econ._types import Array, Indices
from inference_econ.answers.deployments.deployment import Deployment
from inference_econ.answers.deployments.recommend import Recommendation
from inference_econ.answers.disaggregated.load import DisaggregationTerms, PooledFleet, rented
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.load import LoadCurve, LoadPoint
from inference_econ.answers.prefix_cache import behind
from inference_econ.answers.price import Sheet, sheet
from inference_econ.answers.resource_limit import Means
from inference_econ.answers.slo import FILLED, Targets, chances, promised_rates
from inference_econ.engine import chip_power
from inference_econ.errors import InputError
from inference_econ.extras.agents.sessions import Session, Sessions, Usual, draw_sessions, usual
from inference_econ.extras.agents.simulated_pools import Writing, simulate_apart
from inference_econ.inputs import Requests, SessionSpec, TierSpec, catalog
from inference_econ.inputs.catalog import Name
from inference_econ.serving import (
    Gamma,
    Loaded,
    Router,
    Server,
    Service,
    Services,
    Trace,
)
from inference_econ.serving.simulation import simulator

#: Relative tolerance of searches in which each evaluation is a simulation [1].
NEAR = 0.05


def bracket_capacity(
    over: Callable[[int], tuple[float, str]], guess: int, most: int, stride: float, *, rising: bool = True
) -> tuple[int, str]:
    """Return the largest load (integer) that meets all SLOs, and the SLO that a larger load misses.

    If small numbers miss SLOs (``rising`` is False), return the smallest integer that meets all SLOs. Return 0 if no
    integer meets all SLOs.

    Parameters
    ----------
    over : callable
        Function that returns ln(latency / SLO) and the name of the first missed SLO. The logarithm is at most 0 if all
        SLOs are met.
    guess : int
        First integer to evaluate [1].
    most : int
        Largest integer to evaluate [1].
    stride : float
        Largest ratio of two successive trial integers [1]. This limit applies until one trial meets the SLOs and one
        trial misses an SLO.
    rising : bool
        True if larger numbers miss SLOs, False if smaller numbers do.

    Notes
    -----
    The search makes few evaluations, because an evaluation may be a simulation. The result has the relative tolerance
    :data:`NEAR`. ln(latency / SLO) is interpolated linearly between a trial that meets the SLOs and a trial that misses
    an SLO. The next trial is the integer at which the interpolated value is 0.
    """
    kept = beyond = None
    binding, last = "", most if rising else 1
    number = min(max(guess, 1), most)
    while True:
        far, name = over(number)
        if far <= 0.0:
            kept = (number, far)
        else:
            beyond, binding = (number, far), name
            if number == (1 if rising else most):
                return 0, binding
        if kept is None or beyond is None:
            if number == last and kept is not None:
                return number, binding
            factor = min(max(math.exp(abs(far)), 1.0 + NEAR), stride)
            more = rising == (far <= 0.0)
            number = min(max(math.ceil(number * factor) if more else int(number / factor), 1), most)
            continue
        gap, near = abs(kept[0] - beyond[0]), max(round(NEAR * min(kept[0], beyond[0])), 1)
        if gap <= near:
            return kept[0], binding
        # The logarithm is nearly linear in the trial integer. The limits keep the next trial away from both ends of the
        # interval.
        step = min(max(round(gap * kept[1] / (kept[1] - beyond[1])), near, gap // 5), gap - min(near, gap // 2))
        number = kept[0] + (step if rising else -step)


@dataclass(frozen=True)
class AgentSessions:
    """Sessions of agents or users. An agent has one session after the other; see :class:`inference_econ.Agents`."""

    name: str
    spec: SessionSpec
    place: str = ""

    @classmethod
    def of(cls, traffic: Name) -> Self:
        """Sessions of a workload, by name or path (``--traffic``).

        Raises
        ------
        InputError
            If the workload is unknown, or has no sessions.
        """
        sessions = catalog.traffic(traffic).sessions
        if sessions is None:
            raise InputError(
                f"{traffic} has no sessions of agents; name coding_agent, chat, rag or batch, or a file with sessions"
            )
        return cls(str(traffic), sessions, catalog.place("traffic", traffic, ("sessions",)))

    @cached_property
    def drawn(self) -> tuple[Session, ...]:
        """Sampled sessions."""
        return draw_sessions(self.spec)

    @cached_property
    def means(self) -> Usual:
        """Means over the turns of the sampled sessions."""
        return usual(self.drawn, self.spec.shared_tokens)

    @property
    def requests(self) -> Requests:
        """Requests for which layouts are enumerated: the mean turn, with all earlier turns cached."""
        isl, osl, known = (
            round(float(np.mean(tokens))) for tokens in (self.means.prompts, self.means.answers, self.means.known)
        )
        # The sample of short sessions is small, so the longest context also follows from the distributions.
        longest = max(self.longest, math.ceil(self.spec.longest_context))
        return Requests(isl, osl, cached=min(known, isl - 1), longest_turn=longest)

    @property
    def longest(self) -> int:
        """Prompt and output of the longest sampled turn [tokens]."""
        return int(np.max(self.means.prompts + self.means.answers))

    def check(self, layouts: Services) -> None:
        """Reject contexts above the model's limit, and layouts that were enumerated for different requests.

        Raises
        ------
        InputError
            If a context or layout is rejected; the message starts with the file of the sessions.
        """
        most = layouts.setup.model.max_context
        if most is not None and self.longest > most:
            shipped = self.name in catalog.names("traffic")
            start = (
                f"write {self.name} to a file ('inference-econ show traffic {self.name} -o mine.yaml'), "
                if shipped
                else ""
            )
            end = ", and name the file in its place (--traffic mine.yaml)" if shipped else ""
            raise InputError(
                f"{'' if shipped else f'{self.place or self.name}: '}sessions of {self.name} grow to {self.longest:,} "
                f"tokens, beyond the {most:,} that {layouts.setup.model.name} was made for; {start}give 'compacts_at: "
                f"{most}' or less, or fewer and shorter turns{end}",
                option="traffic",
            )
        if layouts.requests != self.requests:
            raise InputError(
                f"these layouts are offered for other requests than those of {self.name}; offer them for the requests "
                "of the agents (agents.requests)"
            )

    def agents(self, requests_per_second: Array | float, in_flight: Array | float) -> Array:
        """Number of running sessions at a request rate [1/s] and concurrency, by Little's law [1]."""
        waiting = requests_per_second * self.means.pause_seconds
        return np.asarray((waiting + in_flight) / self.means.side_by_side)

    def all_agents(self, requests_per_second: Array | float, in_flight: Array | float) -> Array:
        """Number of agents [1] at a request rate [1/s] and concurrency, including agents that rest between sessions."""
        resting = requests_per_second * self.spec.rest / self.means.turns
        return np.asarray(self.agents(requests_per_second, in_flight) + resting)

    def sending(self, requests_per_second: float, ttft_seconds: float, tpot_seconds: float) -> int:
        """Number of agents that produce a request rate [1/s] at given latencies [s], including resting agents [1]."""
        in_flight = requests_per_second * (ttft_seconds + tpot_seconds * float(np.mean(self.means.answers) - 1.0))
        return max(round(float(self.all_agents(requests_per_second, in_flight))), 1)


@dataclass(frozen=True, slots=True)
class AgentLoad:
    """Simulated load of agents on a fleet.

    Attributes
    ----------
    work : AgentSessions
        Sessions of the agents.
    agents : float
        Number of agents [1].
    instances : int
        Number of instances in the simulation, which serve a proportional share of the agents [1].
    router : str
        Routing of turns.
    trace : Trace
        Simulated requests.
    rest_seconds : float
        Time between two sessions of an agent [s].
    """

    work: AgentSessions
    agents: float
    instances: int
    router: Router
    trace: Trace
    rest_seconds: float

    def record(self, fleet: Deployment, replicas: int) -> dict[str, Any]:
        """Tasks of the agents and their cost on a number of instances, as plain data."""
        trace, turns = self.trace, self.work.means.turns
        hourly = 3600.0 * trace.requests_per_second * replicas / self.instances / turns
        power = chip_power(fleet.service.setup.hardware)
        dollars, watts = fleet.dollars_per_hour, None if power is None else fleet.accelerators * power.provisioned_watts
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


@dataclass(frozen=True, slots=True)
class AgentPoint(LoadPoint):
    """Simulated fleet at one number of agents.

    Attributes
    ----------
    use : AgentLoad
        Load of the agents.
    """

    use: AgentLoad

    def record(self, targets: Targets) -> dict[str, object]:
        """Point as plain data, with the load of the agents."""
        return {
            **super(AgentPoint, self).record(targets),
            "agent_use": self.use.record(self.sheet, self.sheet.replicas),
        }


@dataclass(frozen=True, slots=True, repr=False)
class AgentCurve(LoadCurve):
    """Fleet at several numbers of agents: a :class:`~inference_econ.answers.load.LoadCurve` of :class:`AgentPoint`."""

    page = "extras.agents.page:AgentCurvePage"

    points: tuple[AgentPoint, ...]

    def record(self) -> dict[str, Any]:
        """Result as plain data. The record has no arrival variability, because the agents determine the arrivals."""
        return {**super(AgentCurve, self).record(), "arrival_scv": None}


@dataclass(frozen=True, slots=True)
class AgentDeployment(Deployment):
    """Deployment that serves a number of agents within SLOs.

    Attributes
    ----------
    use : AgentLoad
        Load of the agents.
    parts : int
        Number of instances or prefill/decode groups [1]. :attr:`AgentLoad.instances` is the number in the simulation.
    """

    use: AgentLoad = field(kw_only=True)
    parts: int = field(kw_only=True)

    def served_record(self, targets: Targets) -> dict[str, object]:
        """Deployment with cost and load as plain data, with the load of the agents."""
        return {**super(AgentDeployment, self).served_record(targets), "agent_use": use_record(self)}


@dataclass(frozen=True, slots=True, repr=False)
class AgentRecommendation(Recommendation):
    """Deployments that serve a number of agents, cheapest first."""

    page = "extras.agents.page:AgentChoicesPage"

    choices: tuple[AgentDeployment, ...]

    def record(self) -> dict[str, Any]:
        """Result as plain data."""
        return {"targets": self.targets.record(), "choices": self.records(), "first_is_cheaper": None}


@dataclass(frozen=True, slots=True, repr=False)
class MostAgents(AgentRecommendation):
    """Deployments that serve the most agents within a limit, best first.

    Attributes
    ----------
    means : Means
        Limit on chips, cost or power, for one kind of chip.
    """

    means: Means

    def record(self) -> dict[str, Any]:
        """Result as plain data."""
        return {"means": self.means.record(), "targets": self.targets.record(), "choices": self.records()}


@dataclass(frozen=True, slots=True, repr=False)
class AgentSheet(Sheet):
    """Costs of a fleet of agents: tasks and agent hours in addition to tokens.

    Attributes
    ----------
    use : AgentLoad
        Load of the agents.
    parts : int
        See :attr:`AgentDeployment.parts` [1].
    """

    page = "extras.agents.page:AgentSheetPage"

    use: AgentLoad = field(kw_only=True)
    parts: int = field(kw_only=True)

    def record(self) -> dict[str, Any]:
        """Result as plain data."""
        return {**super(AgentSheet, self).record(), "agent_use": use_record(self)}


def use_record(fleet: AgentDeployment | AgentSheet) -> dict[str, Any]:
    """Load of agents on a fleet as plain data."""
    return fleet.use.record(fleet, fleet.parts)


#: Minimum number of requests of a run, including warm-up, and divisor of this number in searches [1].
_LEAST, _QUICK = 3_000, 3
#: Minimum and maximum number of warm-up turns per agent; half a session if it is in between [1]. Fleets with too little
#: memory for all contexts collapse within 20 turns. They did not recover in runs of 160 turns.
_FEWEST, _SETTLED = 2, 20
#: Minimum share of a run that is warm-up, in which caches reach their steady state [1].
WARM_UP = 0.25
#: Maximum number of agents per instance [1].
_MOST = 1_000_000
#: Maximum number of instances in one simulation [1]. In larger fleets, all instances have equal numbers of agents.
TOGETHER = 4
#: Maximum factor between consecutive numbers in a capacity search: for an instance, and for a fleet [1].
_FAR, _STRIDE = 2.0, 1.2
#: Run time per simulated request with cache blocks [s].
_SECONDS = 1.5e-4
#: Smallest latency, for logarithms [s].
_NO_TIME = 1e-9


def check_runs(runs: Sequence[float], smaller: str) -> None:
    """Reject runs of given lengths [requests] that take too long; see :func:`inference_econ._work.check`."""
    most = f"{max(runs, default=0.0):,.0f} requests"
    work = f"the {most} of a run" if len(runs) == 1 else f"{len(runs)} runs of up to {most}"
    _work.check(work, seconds=sum(runs) * _SECONDS, smaller=smaller)


def run_of(work: AgentSessions, agents: float, *, quick: bool = False) -> tuple[int, float]:
    """Number of requests in a run for a number of agents, and the share of warm-up requests [1].

    The warm-up is half a session of every agent, because shorter runs overestimate fleets that collapse under load. In
    long sessions, the warm-up is at most 20 turns, within which fleets collapse.
    """
    settled = agents * float(np.clip(work.means.turns / 2.0, _FEWEST, _SETTLED))
    measured = max((1.0 - WARM_UP) * _LEAST / (_QUICK if quick else 1), _FEWEST * agents)
    return math.ceil(settled + measured), max(settled / (settled + measured), WARM_UP)


@dataclass(frozen=True)
class PlayedInstance:
    """Instance that is simulated with different numbers of agents."""

    service: Service
    work: AgentSessions
    tiers: tuple[TierSpec, ...]
    _traces: dict[tuple[object, ...], Trace] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def _server(self) -> Server:
        lengths = np.array([1, int(self.work.means.prompts.max())])
        slots, tiers = self.service.slots_of_blocks, behind(self.service, self.tiers)
        return simulator.server(self.service, lengths, slots=slots, tiers=tiers)

    @property
    def together(self) -> int:
        """Maximum number of instances that are simulated together [1]."""
        return TOGETHER

    def predicted(self, targets: Targets) -> Targets:
        """SLOs tightened for the confidence level of the user's SLOs."""
        return targets.predicted(self.service)

    def sessions(self, agents: int, count: int, rate: float = 0.0) -> Sessions:
        """Sessions of a run, for a number of agents or a request rate [1/s]."""
        work = self.work
        return Sessions(
            work.drawn, round(work.spec.shared_tokens), agents, count, rate / work.means.turns,
            0.0 if rate else work.spec.rest,
        )  # fmt: skip

    def play(
        self, agents: int, instances: int = 1, router: Router = "prefix_aware", rate: float = 0.0, *,
        quick: bool = False,
    ) -> Trace:  # fmt: skip
        """Simulate a number of agents on instances, or sessions at a request rate [1/s].

        Results are cached.
        """
        count, warm_up = run_of(self.work, agents, quick=quick)
        run = (agents, instances, router, rate, count)
        if run not in self._traces:
            self._traces[run] = self._played(self.sessions(agents, count, rate), warm_up, instances, router)
        return self._traces[run]

    def _played(self, sessions: Sessions, warm_up: float, instances: int, router: Router) -> Trace:
        return simulator.play(self.service, self._server, sessions, warm_up=warm_up, instances=instances, router=router)

    def play_part(self, agents: int, replicas: int, router: Router) -> Trace:
        """Simulate agents on a few instances, which represent all instances."""
        together = min(replicas, self.together)
        return self.play(max(round(agents * together / replicas), 1), together, router)

    def choice(self, agents: int, replicas: int, router: Router, trace: Trace, binding: str) -> AgentDeployment:
        """Fleet for a number of agents, from a simulation of some of its instances."""
        service, together = self.service, min(replicas, self.together)
        dollars = float(service.setup.dollars_per_hour(replicas, service.accelerators))
        use = AgentLoad(self.work, agents, together, router, trace, self.work.spec.rest)
        return AgentDeployment(service, replicas, self.load(trace, together), dollars, binding, use=use, parts=replicas)

    def load(self, trace: Trace, instances: int) -> Loaded:
        """Load of one instance, with simulated latencies."""
        rate, times = trace.requests_per_second / instances, ("ttft", "tpot", "e2e", "e2e_per_output_token")
        ttft, tpot, e2e, per_token = (trace.statistics(name) for name in times)
        full = self.service.most_requests_per_second
        waits = trace.waiting / max(trace.waiting + trace.in_flight, 1e-9)
        return Loaded(
            rate, False, rate / full, rate, trace.in_flight / instances, waits, ttft, tpot, e2e, per_token, played=True,
            arrivals=Gamma(1.0),
        )  # fmt: skip

    def bill(self, trace: Trace, replicas: int, load: Loaded) -> Sheet:
        """Cost breakdown, with the simulated cache hits."""
        requests = self.service.requests
        service = replace(self.service, requests=requests.replace(cached=found_tokens(trace, requests)))
        return sheet(service, load.requests_per_second * replicas, replicas=replicas, load=load)

    def in_flight(self, rate: float) -> float:
        """Concurrency at a request rate from the analytical model [1]."""
        states = self.service.states
        return float(np.interp(rate, states.requests_per_second, states.concurrency))

    def over(self, trace: Trace, targets: Targets) -> tuple[float, str]:
        """Largest log ratio of a latency to its SLO, and the name of the first missed SLO.

        If the latencies meet all SLOs, the log ratio is at most 0 and the name is empty.
        """
        seen = {name: trace.statistics(name)[targets.percentile_of(name)] for name in self.promised(targets)}
        over = {name: math.log(max(seconds, _NO_TIME) / targets.every[name]) for name, seconds in seen.items()}
        return max(over.values()), next((name for name, far in over.items() if far > 0.0), "")

    def promised(self, targets: Targets) -> Collection[str]:
        """Latencies with an SLO, in the order of the SLO checks."""
        return targets.given

    def carried(self, targets: Targets, guess: int, most: int = 0) -> tuple[int, str]:
        """Approximate number of agents within the SLOs, and the SLO that limits this number.

        The number is 0 if the instance cannot serve one agent within the SLOs.
        """
        return bracket_capacity(
            lambda number: self.over(self.play(number, quick=True), targets), guess, most or _MOST, _FAR
        )


def shortlist(
    layouts: Services, work: AgentSessions, targets: Targets, *, tiers: bool, most: int, counts: Indices | None = None,
    agents: int | None = None,
) -> list[tuple[int, int, float]]:  # fmt: skip
    """Layouts that serve the most agents per dollar according to the analytical model; one per size.

    Layouts are returned with their agents per instance [1] and a ranking value, which is a lower bound. For a number of
    agents, the ranking value is the cost of the fleet [USD/h]. For given numbers of instances, the ranking value is the
    negative largest number of agents [1]. Without numbers of agents and instances, the ranking value is the cost per
    agent [USD/h]. Without offload tiers, an instance gets at most as many agents as it has slots, so every turn hits
    the cache. Because agents rest between sessions, an instance may serve more agents than it has slots. For a number
    of agents, the best layout without the slot limit is therefore added.
    """
    rates = promised_rates(layouts, targets)
    at_most = np.where(rates > 0.0, work.all_agents(rates, flights(layouts, rates)), 0.0)
    carried = at_most if tiers else np.minimum(at_most, layouts.slots)
    setup, accelerators = layouts.setup, layouts.plans.accelerators

    def ranked(capacity: Array) -> list[int]:
        """Index of the best layout of each size, best size first; ``capacity`` is in agents per instance [1]."""
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
    # If slots limit the rate, a simulation may fit more requests, because shared blocks are stored once.
    full = rates >= (1.0 - NEAR) * layouts.states.requests_per_second[:, -1]
    most_each = np.maximum((1.0 + NEAR) * np.where(full, layouts.slots_of_blocks / layouts.slots, 1.0) * at_most, 1.0)
    bound = setup.dollars_per_hour_in_bulk(accelerators) / most_each if counts is None else -most_each * counts
    if agents is not None:
        bound = setup.dollars_per_hour(np.ceil(agents / most_each), accelerators)
    return [(row, max(int(carried[row]), 1), float(bound[row])) for row in dict.fromkeys(rows)]


def found_tokens(trace: Trace, requests: Requests) -> float:
    """Cached tokens of the mean prompt [tokens]."""
    return min(round(sum(trace.hit_rates.values()) * requests.isl.mean), requests.isl.mean - 1.0)


def flights(layouts: Services, rates: Array) -> Array:
    """Concurrency of each layout at its request rate, from the analytical model [1]."""
    states = zip(rates, layouts.states.requests_per_second, layouts.states.concurrency, strict=True)
    return np.array([float(np.interp(*state)) for state in states])


def point_of(
    instance: PlayedInstance, trace: Trace, number: int, together: int, replicas: int, router: Router, targets: Targets,
    rate: float,
) -> AgentPoint:  # fmt: skip
    """Simulated point with its costs, for a number of agents or a session rate [1/s]."""
    load = instance.load(trace, together)
    limits = targets.predicted(instance.service)
    kept = trace.slo_met_share(*limits.every.values()) if targets.given else None
    if rate:
        flight = float(trace.e2e.mean()) * trace.requests_per_second
        number = round(float(instance.work.agents(trace.requests_per_second, flight)) * replicas / together)
    use = AgentLoad(instance.work, number, together, router, trace, 0.0 if rate else instance.work.spec.rest)
    return AgentPoint(
        instance.bill(trace, replicas, load), kept, None, chances(instance.service, load, targets), load, use
    )


def cheapest_fleet(
    instance: PlayedInstance, agents: int, targets: Targets, guess: int, router: Router, dollars: float = math.inf
) -> AgentDeployment | None:
    """Approximately smallest fleet for a number of agents, found by simulations of fleets.

    None if no size is sufficient, or if the fleet costs more than ``dollars`` [USD/h].
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
    # Several instances may serve more or fewer agents each than one instance in the short run.
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
    """Largest number of agents on a fleet of a given size, found by simulations of the fleet; None if below one agent.

    ``guess`` is the estimated capacity of one instance, or of the fleet if ``certain`` [agents].
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


#: Maximum number of decode instances per group, of chips per group, and of decode instances in one simulation [1].
_WRITERS, _LARGEST, _TOGETHER = 4, 144, 4
#: Share of the TPOT SLO that the mean request may take [1]. About 90% of requests then meet the SLO.
_MEAN = 0.9
#: Maximum number of simulated groups that differ in the number of prefill instances [1].
_TRIED = 3
#: Maximum number of simulated fleets per number of agents, and relative step of their instance numbers [1].
_ADJUSTED, _FINER = 8, 0.08
#: Largest log factor by which prefill instances decrease from one fleet to the next [1].
_FASTER = 0.7
#: Maximum number of agents in one simulation [1]. In larger fleets, a proportional part of the instances is simulated.
_PART = 1000


@dataclass(frozen=True)
class PlayedGroup(PlayedInstance):
    """Disaggregated group of prefill and decode instances, which is simulated like an instance.

    Attributes
    ----------
    pools : Pools
        Available prefill and decode layouts.
    layouts, instances : (int, int)
        Layout indices and numbers of prefill and decode instances [1].
    """

    pools: Pools
    layouts: tuple[int, int]
    instances: tuple[int, int]

    @classmethod
    def of(
        cls, pools: Pools, layouts: tuple[int, int], instances: tuple[int, int], work: AgentSessions,
        tiers: tuple[TierSpec, ...],
    ) -> PlayedGroup:  # fmt: skip
        """Create a group from the indices of its layouts and the numbers of its instances."""
        return cls(pools.decode.services.service(layouts[1]), work, tiers, pools, layouts, instances)

    @property
    def together(self) -> int:
        """Maximum number of groups in one simulation [1]."""
        return max(_TOGETHER // self.instances[1], 1)

    @cached_property
    def servers(self) -> tuple[Server, Writing]:
        """Simulated servers: a prefill server with its tiers, and a decode server."""
        lengths = np.array([1, int(self.work.means.prompts.max())])
        reader, moved = self.pools.prefill.services.service(self.layouts[0]), self.pools.transfer
        reading, decoding = (
            simulator.server(service, lengths, slots=service.slots_of_blocks, tiers=tiers)
            for service, tiers in ((reader, behind(reader, self.tiers)), (self.service, ()))
        )
        exposed, sending, receiving = (
            float(seconds[self.layouts])
            for seconds in (
                moved.exposed_seconds + moved.handover_seconds, moved.sending_seconds, moved.receiving_seconds
            )
        )  # fmt: skip
        isl = self.work.requests.isl.mean
        return reading, Writing(decoding, 1, isl, exposed, sending, receiving)

    def predicted(self, targets: Targets) -> Targets:
        """SLOs tightened for the confidence level of the user's SLOs."""
        return _predicted(self.pools, targets)

    def promised(self, targets: Targets) -> Collection[str]:
        """Latencies with an SLO, TPOT first. With few decode slots, first tokens also wait for slots."""
        return sorted(targets.given, key=lambda name: name != "tpot")

    def _played(self, sessions: Sessions, warm_up: float, instances: int, router: Router) -> Trace:
        """Simulate agents on several groups, with requests routed among all their instances."""
        (reading, writing), (readers, writers) = self.servers, self.instances
        service = self.pools.prefill.services.service(self.layouts[0])
        run = partial(
            simulate_apart, reading, replace(writing, instances=writers * instances),
            warm_up=warm_up, instances=readers * instances, router=router,
        )  # fmt: skip
        return simulator.with_cpu_time(service, sessions, run)

    @property
    def rates(self) -> tuple[float, float]:
        """Request rates that the prefill instances, and the decode instances, can sustain [1/s]."""
        (reader, writer), (readers, writers) = self.layouts, self.instances
        reading, decoding = self.pools.busy_seconds[reader, writer], self.pools.decode.rates[writer]
        return readers / float(reading), writers * float(decoding.max())

    def load(self, trace: Trace, instances: int) -> Loaded:
        """Simulated load of one group."""
        load = super().load(trace, instances)
        return replace(load, utilization=load.requests_per_second / min(self.rates))

    def with_instances(self, readers: int, writers: int) -> PlayedGroup:
        """Group with the same layouts and the given numbers of prefill and decode instances, cached."""
        counts = readers, writers
        if counts not in self._family:
            group = self._family[counts] = replace(self, instances=counts)
            vars(group).update(servers=self.servers, _family=self._family)
        return self._family[counts]

    @cached_property
    def _family(self) -> dict[tuple[int, int], PlayedGroup]:
        return {self.instances: self}

    @property
    def sizes(self) -> tuple[int, ...]:
        """Chips per prefill and per decode instance [1]."""
        pools = self.pools.prefill, self.pools.decode
        return tuple(int(pool.accelerators[layout]) for pool, layout in zip(pools, self.layouts, strict=True))

    @property
    def accelerators(self) -> int:
        """Chips of the group [1]."""
        return sum(count * size for count, size in zip(self.instances, self.sizes, strict=True))

    def fleet(self, agents: int, carried: int, targets: Targets, router: Router) -> AgentDeployment | None:
        """Approximately smallest fleet for a number of agents, given the capacity of this group.

        None if no simulated fleet size meets the SLOs.
        """
        parts, limits, kept = math.ceil(agents / _PART), self.predicted(targets), None
        readers, writers = (math.ceil(count * agents / parts / carried - _FINER) for count in self.instances)
        too_few, binding = 0, "ttft"
        for _ in range(_ADJUSTED):
            group = self.with_instances(readers, writers)
            trace = group.play_part(agents, parts, router)
            far, problem = group.over(trace, limits)
            if not problem:
                kept = group, trace
            elif problem == "tpot" and kept is None:
                writers += max(round(writers * _FINER), 1)
                continue
            else:
                too_few, binding = readers, problem
            enough = readers if kept is None else kept[0].instances[0]
            step = max(round(enough * _FINER), 1)
            if kept is not None and enough - too_few <= step:
                break
            if kept is None:
                readers += step
            elif too_few:
                readers = (enough + too_few) // 2
            else:
                readers = max(min(int(enough * math.exp(max(far, -_FASTER))), enough - step), 1)
        return None if kept is None else kept[0].choice(agents, parts, router, kept[1], binding)

    @staticmethod
    def part(agents: float) -> float:
        """Number of agents in one simulation, if a fleet serves ``agents`` [1]."""
        return agents / math.ceil(agents / _PART)

    def filled(self, carried: int, chips: float, targets: Targets, router: Router) -> AgentDeployment | None:
        """Fleet of a number of chips [1] that serves the most agents, given the capacity of this group.

        Chips that decode instances leave unused go to prefill instances. None if the chips are too few, or the fleet
        cannot serve an agent.
        """
        share = chips / self.accelerators
        parts = max(math.ceil(share * carried / _PART), 1)
        writers = max(int(share / parts * self.instances[1] + 1e-9), 1)
        readers = int((chips / parts - writers * self.sizes[1]) // self.sizes[0])
        while readers > 0 and sum(rented(self.pools, self.layouts, (parts * readers, parts * writers))) > chips:
            readers -= 1
        if readers < 1:
            return None
        group = self.with_instances(readers, writers)
        guess = int(carried * group.accelerators / self.accelerators)
        return fullest_fleet(group, parts, targets, parts * guess, router, certain=True)

    def best(self, targets: Targets, guess: int, most: int, room: float) -> tuple[PlayedGroup, int]:
        """Group with the number of prefill instances that maximizes agents per chip, and its capacity in agents [1].

        The group has at most ``room`` chips [1], and serves at most ``most`` agents (0 means no limit).
        """
        limits, group, best, tried = self.predicted(targets), self, (self, 0), set[int]()
        for _ in range(_TRIED):
            tried.add(readers := group.instances[0])
            # The guess is at least one agent more than the best group so far, for the same number of chips.
            guess = max(guess, int(best[1] * group.accelerators / best[0].accelerators) + 1) if best[1] else guess
            if best[1] and (guess > (most or guess) or group.over(group.play(guess, quick=True), limits)[1]):
                break
            carried, binding = group.carried(limits, guess, most)
            best = group, carried
            change = max(round(readers / 4), 1)
            following = readers + change if binding == "ttft" or not carried else readers - change
            if following < 1 or following in tried:
                break
            group = self.with_instances(following, self.instances[1])
            if group.accelerators > room:
                break
        return best

    def choice(self, agents: int, replicas: int, router: Router, trace: Trace, binding: str) -> AgentDeployment:
        """Fleet of groups for a number of agents, from a simulation of some of its groups."""
        together = min(replicas, self.together)
        load, (reading, decoding) = self.load(trace, together), self.rates
        rate = load.requests_per_second
        every = replace(
            load, requests_per_second=replicas * rate, completed_per_second=replicas * rate,
            in_flight=replicas * load.in_flight,
        )  # fmt: skip
        readers, writers = self.instances
        fleet = PooledFleet(
            self.pools, *self.layouts, replicas * readers, replicas * writers, every, rate / reading, rate / decoding,
            self.service.slots_of_blocks,
        )  # fmt: skip
        use = AgentLoad(self.work, agents, together, router, trace, self.work.spec.rest)
        return AgentDeployment.of_pools(fleet, binding=binding, use=use, parts=replicas)


def groups(
    pools: Pools, work: AgentSessions, tiers: tuple[TierSpec, ...], targets: Targets, agents: int | None, room: float
) -> list[tuple[PlayedGroup, int, float]]:
    """Prefill/decode groups that serve agents at the lowest cost by the analytical model; one per decode layout.

    Each group has its capacity in agents [1], and the cost of a fleet for ``agents`` [USD/h]. Without ``agents``, the
    cost is per agent.

    Notes
    -----
    Decode instances run at the largest batch that meets the SLO for the mean request. A group has enough prefill
    instances to process new tokens and previous outputs, and to store the prompts of all agents between turns.
    """
    requests, decode, price = work.requests, pools.decode, pools.prefill.setup.dollars_per_accelerator_hour
    reading, decoding = pools.prefill.accelerators, pools.decode.accelerators
    limits = _predicted(pools, targets)
    again = 1.0 + float(requests.osl.mean) / requests.new_tokens
    # Attention-DP groups process separate prompts, so some are idle while others have a backlog.
    half_full = pools.prefill.shared_prefill_seconds[:, pools.prefill.waiting_prompts.shape[1] // 2]
    moved = pools.transfer
    busy = np.maximum((half_full[:, None] + moved.handover_seconds) * again, moved.sending_seconds)
    shared = work.spec.shared_tokens
    own = max(float(requests.isl.mean) - shared, 1.0)
    held = np.maximum(pools.prefill.services.slots * float(requests.isl.mean) - shared, own) / own
    # Without a number of agents or chips, the price is that of a single group.
    scaled = agents is not None or math.isfinite(room)
    promising: list[tuple[PlayedGroup, int, float]] = []
    for writer in range(decoding.size):
        rate, flight = _fullest(decode.step_seconds[writer], decode.rates[writer], decode.batch[writer],
                                _MEAN * limits.tpot_seconds)  # fmt: skip
        possible = np.isfinite(pools.transfer.seconds[:, writer]) & (
            pools.first_token_seconds[:, writer] <= limits.ttft_seconds
        )
        if not rate or not possible.any() or rate * pools.transfer.receiving_seconds[:, writer].min() > 1.0:
            continue
        per_writer = float(work.all_agents(rate, flight + rate * pools.first_token_seconds[possible, writer].min()))
        contexts = per_writer * work.means.side_by_side
        needed = np.where(possible, np.maximum(rate * busy[:, writer] / FILLED, contexts / held), np.inf)
        # If first tokens may wait, prefill instances can be fully utilized. The simulation decides.
        busiest = np.where(possible, np.maximum(rate * busy[:, writer], contexts / held), np.inf)
        fleet = price * _chips(busiest, reading, int(decoding[writer]), per_writer, agents, room) if scaled else None
        options: list[tuple[float, int, int, int, float]] = []
        for writers in range(1, _WRITERS + 1):
            wanted = writers * per_writer if agents is None else min(writers * per_writer, float(agents))
            readers = np.ceil(needed * wanted / per_writer - 1e-9)
            within = np.floor((min(room, _LARGEST) - writers * decoding[writer]) / reading)
            readers = np.minimum(readers, within)
            carried = np.where(readers >= 1.0, np.minimum(wanted, readers / needed * per_writer), 0.0)
            counts = np.ones_like(carried) if agents is None else np.ceil(agents / np.maximum(carried, 1e-9))
            chips = readers * reading + writers * decoding[writer]
            with np.errstate(divide="ignore", invalid="ignore"):
                cost = np.where(carried >= 1.0, price * chips * counts / (carried if agents is None else 1.0), np.inf)
            reader = int(np.lexsort((cost, cost if fleet is None else fleet))[0])
            if np.isfinite(cost[reader]):
                options.append((float(cost[reader]), writers, reader, int(readers[reader]), float(carried[reader])))
        if options:
            cost_of, writers, reader, count, carries = min(options)
            group = PlayedGroup.of(pools, (reader, writer), (count, writers), work, tiers)
            promising.append((group, max(int(carries), 1), cost_of if fleet is None else float(fleet[reader])))
    return promising


def _chips(
    needed: Array, reading: Array, decoding: int, per_writer: float, agents: int | None, room: float
) -> Array:  # fmt: skip
    """Chips of a fleet for ``agents``, for each prefill layout [1].

    Without ``agents``, the result is ``room`` divided by the number of agents that a fleet of ``room`` chips serves.

    ``per_writer`` is the number of agents per decode instance. ``needed`` is the number of prefill instances for each
    decode instance. The ratio of prefill to decode instances in a fleet may differ from the ratio in a group.
    """
    if agents is not None:
        share = agents / per_writer
        return np.asarray(np.ceil(needed * share) * reading + math.ceil(share) * decoding)
    writers = np.floor(room / (needed * reading + decoding)) + np.array([[0.0], [1.0]])
    readers = np.floor((room - writers * decoding) / reading)
    carried = per_writer * np.minimum(writers, readers / needed).max(axis=0)
    return np.asarray(np.where(carried >= 1.0, room / np.maximum(carried, 1.0), np.inf))


def _predicted(pools: Pools, targets: Targets) -> Targets:
    """SLOs tightened by the prediction errors of disaggregated serving; end-to-end latency is simulated."""
    first = DisaggregationTerms(replace(targets, e2e_seconds=math.inf)).predicted(pools).targets
    return replace(first, e2e_seconds=targets.e2e_seconds)


def _fullest(tpot: Array, rates: Array, batches: Array, limit: float) -> tuple[float, float]:
    """Largest request rate [1/s] and decode batch [1] with a TPOT of at most ``limit`` [s]; 0 if no batch meets it."""
    feasible = np.isfinite(tpot) & np.isfinite(rates)
    if not feasible.any() or tpot[feasible][0] > limit:
        return 0.0, 0.0
    slower = np.maximum.accumulate(tpot[feasible])
    return float(np.interp(limit, slower, rates[feasible])), float(np.interp(limit, slower, batches[feasible]))
