"""Pools that prefill and decode apart under agents: which groups of instances are played, and what they carry."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.agent_answers import AgentDeployment, Use
from inference_econ.answers.agent_play import PlayedInstance, fullest_fleet
from inference_econ.answers.agent_sessions import AgentSessions
from inference_econ.answers.disaggregated.load import Fleet, rented
from inference_econ.answers.disaggregated.pools import Pools
from inference_econ.answers.disaggregated.terms import Terms
from inference_econ.answers.prefix_cache import behind
from inference_econ.answers.promises import FILLED, Targets
from inference_econ.inputs import TierSpec
from inference_econ.serving import Loaded, Router, Server, Sessions, Trace, Writing
from inference_econ.serving.simulation import play

#: Decode instances of a group at most, chips of it, and instances that are played together [1].
_WRITERS, _LARGEST, _TOGETHER = 4, 144, 4
#: Share of the promised time between tokens that the mean request may take, so that 90 % do [1].
_MEAN = 0.9
#: Groups with another number of instances that read, which are tried one after the other [1].
_TRIED = 3
#: Fleets for some agents that are played, and by which share of its instances of a kind one differs from the next [1].
_ADJUSTED, _FINER = 8, 0.08
#: By which factor of those that read there may be fewer in the next of these, as a logarithm [1].
_FASTER = 0.7
#: Agents who are played together at most, with their share of the instances [1].
_PART = 1000


@dataclass(frozen=True)
class PlayedGroup(PlayedInstance):
    """Some instances that read prompts beside some that decode, played with numbers of agents as one instance is.

    Attributes
    ----------
    pools : Pools
        The layouts to choose from; ``service`` is an instance that decodes.
    layouts, instances : (int, int)
        Which layout prefill and decode instances have, and how many there are [1].
    """

    pools: Pools
    layouts: tuple[int, int]
    instances: tuple[int, int]

    @classmethod
    def of(
        cls, pools: Pools, layouts: tuple[int, int], instances: tuple[int, int], work: AgentSessions,
        tiers: tuple[TierSpec, ...],
    ) -> PlayedGroup:  # fmt: skip
        """A group of some layouts."""
        return cls(pools.decode.services.service(layouts[1]), work, tiers, pools, layouts, instances)

    @property
    def together(self) -> int:
        """Groups that are played together at most [1]."""
        return max(_TOGETHER // self.instances[1], 1)

    @cached_property
    def servers(self) -> tuple[Server, Writing]:
        """One that reads, with the memories behind it, and one that decodes."""
        lengths = np.array([1, int(self.work.means.prompts.max())])
        reader, moved = self.pools.prefill.services.service(self.layouts[0]), self.pools.transfer
        reading, decoding = (
            play.server(service, lengths, slots=service.slots_of_blocks, tiers=tiers)
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
        """Promises that predictions must keep, so that measured pools keep those of users with confidence."""
        return _predicted(self.pools, targets)

    def promised(self, targets: Targets) -> Collection[str]:
        """The latencies that are promised: where few places to decode are, first tokens wait for one as well."""
        return sorted(targets.given, key=lambda name: name != "tpot")

    def _played(self, sessions: Sessions, warm_up: float, instances: int, router: Router) -> Trace:
        """Play some agents on some groups, whose instances share all requests."""
        (reading, writing), (readers, writers) = self.servers, self.instances
        service = self.pools.prefill.services.service(self.layouts[0])
        return play.play(
            service, reading, sessions, warm_up=warm_up, instances=readers * instances,
            router=router, writing=replace(writing, instances=writers * instances),
        )  # fmt: skip

    @property
    def rates(self) -> tuple[float, float]:
        """Rates that the instances which read, and those that decode, complete at most [1/s]."""
        (reader, writer), (readers, writers) = self.layouts, self.instances
        reading, decoding = (
            self.pools.busy_seconds[reader, writer],
            self.pools.decode.states.requests_per_second[writer],
        )
        return readers / float(reading), writers * float(decoding.max())

    def load(self, trace: Trace, instances: int) -> Loaded:
        """Load that requests saw, of one of the groups."""
        load = super().load(trace, instances)
        return replace(load, utilization=load.requests_per_second / min(self.rates))

    def with_instances(self, readers: int, writers: int) -> PlayedGroup:
        """Pools of these layouts with other numbers of instances; what was played of these is known."""
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
        """Chips of an instance that reads, and of one that decodes [1]."""
        pools = self.pools.prefill, self.pools.decode
        return tuple(int(pool.accelerators[layout]) for pool, layout in zip(pools, self.layouts, strict=True))

    @property
    def accelerators(self) -> int:
        """Chips of the group [1]."""
        return sum(count * size for count, size in zip(self.instances, self.sizes, strict=True))

    def fleet(self, agents: int, carried: int, targets: Targets, router: Router) -> AgentDeployment | None:
        """The fewest instances of both kinds, near enough, for some agents, if this group carries so many of them.

        None if no number of them that was tried keeps the promises.
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
        """Agents that are played together of some [1]."""
        return agents / math.ceil(agents / _PART)

    def filled(self, carried: int, chips: float, targets: Targets, router: Router) -> AgentDeployment | None:
        """As many instances as some chips are enough for [1], a few more of those that read, with the most agents.

        This group carries so many. None if the chips are not enough for it, or nobody is carried.
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
        """The group with as many instances that read, within some chips [1], as carry most agents per chip; and these.

        Of at most so many agents, if their number is not 0.
        """
        limits, group, best, tried = self.predicted(targets), self, (self, 0), set[int]()
        for _ in range(_TRIED):
            tried.add(readers := group.instances[0])
            # One more than the best so far carries on as many chips: a group that does not is not looked at further.
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
        """A fleet of some groups for some agents, of which a few were played together."""
        together = min(replicas, self.together)
        load, (reading, decoding) = self.load(trace, together), self.rates
        rate = load.requests_per_second
        every = replace(
            load, requests_per_second=replicas * rate, completed_per_second=replicas * rate,
            in_flight=replicas * load.in_flight,
        )  # fmt: skip
        readers, writers = self.instances
        fleet = Fleet(
            self.pools, *self.layouts, replicas * readers, replicas * writers, every, rate / reading, rate / decoding,
            self.service.slots_of_blocks,
        )  # fmt: skip
        use = Use(self.work, agents, together, router, trace, self.work.spec.rest)
        return AgentDeployment.of_pools(fleet, binding=binding, use=use, parts=replicas)


def groups(
    pools: Pools, work: AgentSessions, tiers: tuple[TierSpec, ...], targets: Targets, agents: int | None, room: float
) -> list[tuple[PlayedGroup, int, float]]:
    """Groups that carry agents for least by closed forms, one of each decode layout, within some chips [1].

    Of each how many agents it carries, and what it costs of them all, or where their number is open per agent [USD/h].

    Notes
    -----
    Instances that decode are as full as the mean request may be slow. There are as many instances that read as keep up
    with what is new and with the answers, which are read again, and as hold the prompts of all agents between turns.
    """
    requests, states, price = work.requests, pools.decode.states, pools.prefill.setup.dollars_per_accelerator_hour
    reading, decoding = pools.prefill.accelerators, pools.decode.accelerators
    limits = _predicted(pools, targets)
    again = 1.0 + float(requests.osl.mean) / requests.new_tokens
    # Groups of attention ranks have prompts of their own to read: some have none while others are behind.
    half_full = pools.prefill.shared_prefill_seconds[:, pools.prefill.waiting_prompts.shape[1] // 2]
    moved = pools.transfer
    busy = np.maximum((half_full[:, None] + moved.handover_seconds) * again, moved.sending_seconds)
    shared = work.spec.shared_tokens
    own = max(float(requests.isl.mean) - shared, 1.0)
    held = np.maximum(pools.prefill.services.slots * float(requests.isl.mean) - shared, own) / own
    # A single group is what is priced where nobody says how many agents or chips there are.
    scaled = agents is not None or math.isfinite(room)
    promising: list[tuple[PlayedGroup, int, float]] = []
    for writer in range(decoding.size):
        rate, flight = _fullest(states.tpot_seconds[writer], states.requests_per_second[writer], states.batch[writer],
                                _MEAN * limits.tpot_seconds)  # fmt: skip
        possible = np.isfinite(pools.transfer.seconds[:, writer]) & (
            pools.first_token_seconds[:, writer] <= limits.ttft_seconds
        )
        if not rate or not possible.any() or rate * pools.transfer.receiving_seconds[:, writer].min() > 1.0:
            continue
        per_writer = float(work.all_agents(rate, flight + rate * pools.first_token_seconds[possible, writer].min()))
        contexts = per_writer * work.means.side_by_side
        needed = np.where(possible, np.maximum(rate * busy[:, writer] / FILLED, contexts / held), np.inf)
        # Where first tokens may wait, those that read may be busy all the time: plays say whether they may.
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
    """Chips of a fleet for some agents, or per agent of as many as some chips carry, by the layout that reads [1].

    One instance that decodes carries so many agents each, and needs so many that read [1]. Fleets have as many of both
    kinds as they need, whatever their ratio is in a group.
    """
    if agents is not None:
        share = agents / per_writer
        return np.asarray(np.ceil(needed * share) * reading + math.ceil(share) * decoding)
    writers = np.floor(room / (needed * reading + decoding)) + np.array([[0.0], [1.0]])
    readers = np.floor((room - writers * decoding) / reading)
    carried = per_writer * np.minimum(writers, readers / needed).max(axis=0)
    return np.asarray(np.where(carried >= 1.0, room / np.maximum(carried, 1.0), np.inf))


def _predicted(pools: Pools, targets: Targets) -> Targets:
    """Promises that predictions of pools must keep; the time to the last token of those that are played is known."""
    first = Terms(replace(targets, e2e_seconds=math.inf)).predicted(pools).targets
    return replace(first, e2e_seconds=targets.e2e_seconds)


def _fullest(tpot: Array, rates: Array, batches: Array, limit: float) -> tuple[float, float]:
    """The largest rate [1/s], and requests that decode [1], while steps take no longer than a limit [s]; 0 if none."""
    feasible = np.isfinite(tpot) & np.isfinite(rates)
    if not feasible.any() or tpot[feasible][0] > limit:
        return 0.0, 0.0
    slower = np.maximum.accumulate(tpot[feasible])
    return float(np.interp(limit, slower, rates[feasible])), float(np.interp(limit, slower, batches[feasible]))
