"""Prompts that were seen before: computed again, or read from a tier of memory."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache as cache_prefix_cache
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from inference_econ._answer import Shown
from inference_econ._types import Array
from inference_econ.answers.deployments.service_record import layout_of
from inference_econ.answers.layout_services import offer
from inference_econ.answers.slo import FILLED, Targets, promised_rates
from inference_econ.engine import Instances, Setup, Space, bounds, kv_bytes_per_sequence, layout_keys, request_seconds
from inference_econ.errors import InputError
from inference_econ.formulas import money, prefix_cache, routing
from inference_econ.inputs import DEFAULT_ISL, DEFAULT_OSL, Requests, TierSpec, catalog
from inference_econ.records.deviations import calibration_record
from inference_econ.records.facts import HEAD, facts
from inference_econ.serving import Service, Services, Tier, check_rate, loaded

#: Where a router sends the turns of a conversation.
Routing = Literal["prefix_aware", "round_robin"]
ROUTINGS: tuple[Routing, ...] = get_args(Routing)


@dataclass(frozen=True, slots=True)
class Conversation:
    """Conversations of users with a service.

    Attributes
    ----------
    turns : float
        Questions of a conversation [1].
    user_tokens, answer_tokens : float
        New tokens of a question and of its answer [tokens].
    think_seconds : float
        Mean time between an answer and the next question [s].
    lifetime_seconds : float
        Time that the cache of a turn is kept at most [s].
    system_tokens : float
        Prompt before the first question, equal for all users [tokens].
    replicas : int
        Instances behind a router, which share the requests evenly [1].
    routing : {'prefix_aware', 'round_robin'}
        All turns of a conversation go to the replica that holds it, or each to the next one.

    Raises
    ------
    InputError
        If there is less than one turn, a length or time is negative, or an entry is kept for ever; if turns that are
        dealt to several replicas are no whole number; or there is no such routing.
    """

    turns: float
    user_tokens: float
    answer_tokens: float
    think_seconds: float = 60.0
    lifetime_seconds: float = 600.0
    system_tokens: float = 0.0
    replicas: int = 1
    routing: Routing = "prefix_aware"

    def __post_init__(self) -> None:
        """Refuse impossible conversations."""
        if self.routing not in ROUTINGS:
            raise InputError(f"routing: got {self.routing!r}; allowed: {', '.join(ROUTINGS)}")
        if self.replicas < 1:
            raise InputError(f"replicas must be a whole number from 1 on, got {self.replicas:g}")
        self.stored_tokens(0.0, self.lifetime_seconds)
        self.mean(1.0)

    def mean(self, returning: float) -> prefix_cache.Turns:
        """The mean request if users find the cache of their last turn with some probability."""
        return prefix_cache.turns(
            self.turns, self.user_tokens, self.answer_tokens, system_tokens=self.system_tokens, returning=returning
        )

    @property
    def scattered(self) -> bool:
        """Whether turns come to replicas that hold nothing, or only an earlier part, of their conversation."""
        return self.replicas > 1 and self.routing == "round_robin"

    def found(self, lifetime_seconds: float) -> prefix_cache.Turns:
        """The mean request if unused entries stay for some time [s]."""
        if not self.scattered:
            return self.mean(float(prefix_cache.returning(lifetime_seconds, self.think_seconds)))
        return routing.scattered_turns(
            self.turns, self.user_tokens, self.answer_tokens, self.replicas,
            lifetime_seconds=lifetime_seconds, **self._pauses,
        )  # fmt: skip

    def stored_tokens(self, requests_per_second: float, lifetime_seconds: float) -> float:
        """Tokens whose cache waits on an instance for its next use, at some rate of requests there [tokens]."""
        lengths = requests_per_second, self.turns, self.user_tokens, self.answer_tokens
        if self.scattered:
            return routing.scattered_tokens(*lengths, self.replicas, lifetime_seconds=lifetime_seconds, **self._pauses)
        return float(prefix_cache.stored_tokens(*lengths, lifetime_seconds=lifetime_seconds, **self._pauses))

    def lifetime(self, requests_per_second: float, tokens: float) -> float:
        """How long entries stay where there is room for some tokens, but no longer than they are kept [s]."""
        if self.stored_tokens(requests_per_second, self.lifetime_seconds) <= tokens:
            return self.lifetime_seconds
        lengths = tokens, requests_per_second, self.turns, self.user_tokens, self.answer_tokens
        if self.scattered:
            return routing.scattered_lifetime(*lengths, self.replicas, **self._pauses)
        return float(prefix_cache.lifetime_that_fits(*lengths, **self._pauses))

    @property
    def _pauses(self) -> dict[str, Any]:
        return {"think_seconds": self.think_seconds, "system_tokens": self.system_tokens}


@dataclass(frozen=True, slots=True)
class TierReuse:
    """Reuse of some conversations that a tier holds.

    Attributes
    ----------
    lifetime_seconds : float
        Time that an unused entry stays [s]; less than wanted where the room is short.
    needed_bytes : float
        Room that the wanted lifetime takes [B].
    returning : float
        Share of the users whose last turn is still there, on the replica that they come to [1].
    cached_tokens : float
        Tokens of the mean prompt that are found [tokens].
    hit_rate : float
        Of all prompt tokens [1].
    """

    lifetime_seconds: float
    needed_bytes: float
    returning: float
    cached_tokens: float
    hit_rate: float


def reuse(
    conversation: Conversation, requests_per_second: float, capacity_bytes: float, bytes_per_token: float
) -> TierReuse:
    """Reuse of some conversations that a memory holds, the least recently used entries going first where room is short.

    Parameters
    ----------
    conversation : Conversation
        What users do.
    requests_per_second : float
        Turns of all conversations together that come to the instance [1/s].
    capacity_bytes : float
        Room [B].
    bytes_per_token : float
        Of the cache [B].

    Returns
    -------
    Reuse
        What is found, and the room that would be needed.

    Raises
    ------
    InputError
        If a value is out of its range.
    """
    needed = conversation.stored_tokens(requests_per_second, conversation.lifetime_seconds) * bytes_per_token
    lifetime = conversation.lifetime(requests_per_second, capacity_bytes / bytes_per_token)
    back = float(prefix_cache.returning(lifetime, conversation.think_seconds))
    returning = back / conversation.replicas if conversation.scattered else back
    mean = conversation.found(lifetime)
    return TierReuse(lifetime, needed, returning, float(mean.cached), float(mean.cached / mean.prompt))


#: What the memory of the accelerators is called among the tiers.
HBM = "HBM"
#: Seconds of an hour [s].
_HOUR = 3600.0
#: Prefixes are looked at for a break-even up to a million tokens, in doublings.
_DOUBLINGS = 20
#: An instance is taken if its requests cost at most so much more than the cheapest [1].
_NEARLY = 0.1


@dataclass(frozen=True, slots=True)
class Reading:
    """One tier: what reading a prefix from it takes.

    Attributes
    ----------
    tier : str
        :data:`HBM`, or the name of a :class:`inference_econ.inputs.TierSpec`.
    bytes_per_second : float
        With which the cache of one prompt arrives; ``inf`` where it lies already [B/s].
    capacity_bytes : float
        Of an instance; of HBM what weights and running requests leave [B].
    seconds : float
        To read the prefix [s].
    dollars_per_million : float
        If the chips wait for it: at most, reading may hide behind other work [USD per 1e6 tokens].
    ttft_seconds : float
        To read the prefix, then the new tokens [s].
    utilization : float
        Share of what the tier can deliver to all chips if every request reads its prefix from it [1].
    break_even_tokens : float
        From this prefix on reading is quicker than computing; ``inf`` if it never is up to a million tokens [tokens].
    reuse : Reuse or None
        If conversations are given.
    hit_rate : float or None
        Share of prompt tokens that is found here; of sessions that are played, and not in a tier before [1].
    """

    tier: str
    bytes_per_second: float
    capacity_bytes: float
    seconds: float
    dollars_per_million: float
    ttft_seconds: float
    utilization: float
    break_even_tokens: float
    reuse: TierReuse | None
    hit_rate: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Offloading(Shown):
    """A repeated prefix on an instance: computed again, or read.

    Attributes
    ----------
    service : Service
        The instance.
    dollars_per_second : float
        Its price [USD/s].
    prefix_tokens, new_tokens : float
        What a prompt repeats, and what follows [tokens].
    requests_per_second : float
        At the instance [1/s].
    conversation : Conversation or None
        Where the lengths come from.
    bytes_per_prefix : float
        Cache of the prefix, each byte once [B].
    computing_seconds : float
        Time that the prefix adds to a prefill if it is computed [s].
    computing_dollars_per_million : float
        What it takes of the instance's time [USD per 1e6 tokens].
    ttft_seconds : float
        If nothing is cached [s].
    holding_dollars_per_million_hour : float
        To keep a million tokens in HBM for an hour, by the share of the room for caches [USD per 1e6 tokens].
    readings : tuple of Reading
        HBM first, then the tiers asked for.
    traffic : str or None
        Whose sessions were played.
    """

    page = "report.questions.prefix_cache:PrefixCachePage"

    service: Service
    dollars_per_second: float
    prefix_tokens: float
    new_tokens: float
    requests_per_second: float
    conversation: Conversation | None
    bytes_per_prefix: float
    computing_seconds: float
    computing_dollars_per_million: float
    ttft_seconds: float
    holding_dollars_per_million_hour: float
    readings: tuple[Reading, ...]
    traffic: str | None = None

    @property
    def bytes_per_token(self) -> float:
        """Cache of a token of the prefix [B]."""
        setup = self.service.setup
        tokens = self.prefix_tokens or 1.0
        return kv_bytes_per_sequence(setup.model, setup.precision, tokens, setup.assumptions) / tokens

    def subjects(self) -> tuple[Instances]:
        """The instance that computes a prefix again."""
        service, requests = self.service, self.service.requests
        layouts = layout_keys(service.plans, service.setup.assumptions.layout)
        sizes = [float(service.accelerators)]
        return (Instances(service.setup, sizes, (), requests.isl.mean, requests.osl.mean, layouts=layouts),)

    @property
    def keeping_seconds(self) -> float:
        """How long a prefix may wait in HBM until computing it again is cheaper [s]; Gray and Putzolu (1987)."""
        return _HOUR * self.computing_dollars_per_million / self.holding_dollars_per_million_hour

    @property
    def setups(self) -> Sequence[Setup]:
        """Setup of an instance."""
        return [self.service.setup]

    def record(self) -> dict[str, Any]:
        """Return all of the answer as plain data; what never happens is null."""
        service, conversation, (instances,) = self.service, self.conversation, self.subjects()
        record = {
            **facts(
                service.setup,
                *(*HEAD, "calibration", "weights", "kv"),
                calibration=calibration_record(instances, ("ttft",)),
            ),
            "layout": layout_of(service),
            "accelerators": service.accelerators,
            "requests_per_second": self.requests_per_second,
            "prefix_tokens": self.prefix_tokens,
            "new_tokens": self.new_tokens,
            "bytes_per_prefix": self.bytes_per_prefix,
            "computing_seconds": self.computing_seconds,
            "computing_dollars_per_million_tokens": self.computing_dollars_per_million,
            "ttft_seconds": self.ttft_seconds,
            "hbm_dollars_per_million_tokens_and_hour": self.holding_dollars_per_million_hour,
            "hbm_keeping_seconds": self.keeping_seconds,
            "traffic": self.traffic,
            "conversation": None
            if conversation is None
            else {
                "turns": conversation.turns,
                "user_tokens": conversation.user_tokens,
                "answer_tokens": conversation.answer_tokens,
                "system_tokens": conversation.system_tokens,
                "think_seconds": conversation.think_seconds,
                "lifetime_seconds": conversation.lifetime_seconds,
                "replicas": conversation.replicas,
                "routing": conversation.routing if conversation.replicas > 1 else None,
            },
            "tiers": [_tier_record(reading) for reading in self.readings],
        }
        return bounds.bounded(record, bounds.ends(instances, _FOLLOWS))

    def records(self) -> list[Mapping[str, Any]]:
        """Return computing the prefix again, then every tier."""
        record = self.record()
        names = {
            "computing_seconds": "seconds",
            "computing_dollars_per_million_tokens": "dollars_per_million_tokens",
            "ttft_seconds": "ttft_seconds",
        }
        ends = ("", "_low", "_high")
        computing = {f"{ours}{end}": record[f"{name}{end}"] for name, ours in names.items() for end in ends}
        return [{"tier": "computing", **computing}, *record["tiers"]]


def prompt(
    isl: float | None = None, hit_rate: float | None = None, *, conversation: Conversation | None = None
) -> tuple[float, float]:
    """Tokens of a prompt, and how many of them were seen before.

    Parameters
    ----------
    isl : float, optional
        Prompt [tokens].
    hit_rate : float, optional
        Share of it that was seen before [1].
    conversation : Conversation, optional
        Gives both in their place: the mean request, and what it repeats.

    Returns
    -------
    (float, float)
        [tokens]

    Raises
    ------
    InputError
        If the share is not from 0 to 1, or leaves no new token.
    """
    if conversation is not None:
        mean = conversation.mean(1.0)
        return float(mean.prompt), float(mean.repeated)
    tokens, share = isl or 0.0, hit_rate or 0.0
    if not 0 <= share <= 1:
        raise InputError(f"a hit rate must be from 0 to 1, got {share:g}")
    if tokens * (1.0 - share) < 1.0:
        raise InputError(
            f"a hit rate of {share:g} leaves less than one new token of a prompt of {tokens:g}; give a lower one"
        )
    return tokens, tokens * share


def offload(
    layouts: Services,
    tiers: Sequence[TierSpec],
    *,
    prefix_tokens: float,
    conversation: Conversation | None = None,
    requests_per_second: float | None = None,
) -> Offloading:
    """Whether to read a prefix that was seen before, from which tier, or to compute it again.

    Parameters
    ----------
    layouts : Services
        Of a model on a chip (``offer``); the smallest whose requests are nearly the
        cheapest is taken.
    tiers : sequence of TierSpec
        Memory of the hosts that may hold caches.
    prefix_tokens : float
        Tokens of a prompt that were seen before, see :func:`prompt` [tokens].
    conversation : Conversation, optional
        What users do, for what each tier holds of it.
    requests_per_second : float, optional
        At the instance [1/s]; by default :data:`inference_econ.answers.slo.FILLED` of what it completes.

    Returns
    -------
    Offloading
        Seconds and dollars of every choice, and what each tier would hold.

    Raises
    ------
    InputError
        If the prefix leaves no new token, a rate is not positive, or the chip's link to its host is unknown.

    Notes
    -----
    Computing costs what the prefix adds to a prefill of the new tokens that finds it in the cache. That cache lies on
    the chips of one attention group and of all stages; each reads its part over its own link to the host, or from its
    share of a slower tier. Nothing is hidden behind other work, and writing is not counted.
    """
    tokens, prefix = layouts.requests.isl.mean, prefix_tokens
    if not 0 <= prefix <= tokens - 1:
        raise InputError(f"the prefix must leave at least one new token of the prompt ({tokens:g}), got {prefix:g}")
    service = layouts.service(_cheapest(layouts))
    rate = FILLED * service.most_requests_per_second if requests_per_second is None else requests_per_second
    check_rate(rate)
    price = float(money.dollars_per_second(service.accelerators, service.setup.dollars_per_accelerator_hour))
    case = _Case(service, tokens - prefix)
    # Memory of the instance for caches, without the copies that a layout keeps, and what running requests leave of it.
    room, load = service.slots * case.bytes(service.setup.context), loaded(service, rate)
    running = service.slots if load.saturated else load.in_flight
    left = max(room * (1.0 - running / service.slots), 0.0)
    computing, busy = case.computing(prefix)
    held = prefix or 1.0
    offloading = Offloading(
        service, price, prefix, tokens - prefix, rate, conversation, case.bytes(prefix),
        computing, float(money.dollars_per_million(price * busy, prefix)), case.first_token(tokens, 0.0),
        float(money.dollars_per_million(price * _HOUR, room * held / case.bytes(held))),
        (),
    )  # fmt: skip
    places = [(HBM, math.inf, 0.0, left)]
    places += [
        (tier.name, _read_rate(service, tier), tier.access, service.accelerators * tier.bytes_per_accelerator)
        for tier in tiers
    ]
    return replace(offloading, readings=tuple(_reading(offloading, case, *place) for place in places))


def curve(offloading: Offloading, prefixes: npt.ArrayLike) -> dict[str, Array]:
    """Seconds against the length of the prefix, with the same new tokens after it.

    Parameters
    ----------
    offloading : Offloading
        The instance and its tiers.
    prefixes : array_like, shape (n,)
        Lengths [tokens].

    Returns
    -------
    dict of str to ndarray, shape (n,)
        ``computed``, then every tier but HBM by name [s].
    """
    lengths = np.asarray(prefixes, dtype=float)
    case = _Case(offloading.service, offloading.new_tokens)
    lines = {"computed": np.array([case.computing(float(length))[0] for length in lengths])}
    for reading in offloading.readings[1:]:
        size = np.array([case.bytes(float(length)) for length in lengths])
        access = reading.seconds - offloading.bytes_per_prefix / reading.bytes_per_second
        lines[reading.tier] = access + size / reading.bytes_per_second
    return lines


def _cheapest(layouts: Services) -> int:
    """The smallest layout whose requests are nearly the cheapest."""
    per_chip = promised_rates(layouts, Targets()) / layouts.plans.accelerators
    good = np.flatnonzero(per_chip >= (1.0 - _NEARLY) * per_chip.max())
    smallest = good[layouts.plans.accelerators[good] == layouts.plans.accelerators[good].min()]
    return int(smallest[np.argmax(per_chip[smallest])])


def behind(service: Service, tiers: Sequence[TierSpec]) -> tuple[Tier, ...]:
    """Return memories behind that of an instance as blocks of caches, which it is played with.

    Raises
    ------
    InputError
        If the link of the chip to its host is unknown.
    """
    setup, requests = service.setup, service.requests
    block = setup.assumptions.capacity.kv_block
    of_a_prompt = kv_bytes_per_sequence(setup.model, setup.precision, requests.isl.mean, setup.assumptions)
    size = block * of_a_prompt / requests.isl.mean
    return tuple(
        Tier(
            tier.name,
            int(service.accelerators * tier.bytes_per_accelerator / size),
            size / _read_rate(service, tier),
            tier.access,
        )
        for tier in tiers
    )


def _read_rate(service: Service, tier: TierSpec) -> float:
    """With which the cache of one prompt arrives from a tier [B/s]."""
    chip = service.setup.hardware
    link = chip.host_link_bytes_per_second_one_way
    if link is None:
        raise InputError(
            f"{chip.name} lists no link to its host, so reading from {tier.name} cannot be timed; "
            "set hardware.host_link_bytes_per_second_one_way"
        )
    rate = min(link * tier.link_efficiency, tier.read_bytes_per_second or math.inf)
    return rate * _cache_chips(service)


def _cache_chips(service: Service) -> float:
    """Chips that hold the cache of one sequence [1]."""
    return float((service.plans.attention_ranks * service.plans.pp)[0])


class _Case:
    """Prompts on one instance that end in the same number of new tokens."""

    def __init__(self, service: Service, new_tokens: float) -> None:
        self.service, self.new_tokens = service, new_tokens
        self.computing = cache_prefix_cache(self._computing)

    def first_token(self, tokens: float, cached: float) -> float:
        """A request's overhead and its prefill [s]."""
        return request_seconds(self.service.setup, cached) + self.prefill(tokens, cached)[0]

    def prefill(self, tokens: float, cached: float) -> tuple[float, float]:
        """Seconds of a prefill by itself, and what it takes of the instance's time where steps are full [s]."""
        prompt = self.service.reading(tokens, cached)
        return float(prompt.seconds[0]), self.service.full_prefill_seconds(tokens, cached)

    def _computing(self, prefix: float) -> tuple[float, float]:
        """Seconds that a prefix adds to both if it is computed [s]."""
        whole, rest = self.prefill(prefix + self.new_tokens, 0.0), self.prefill(self.new_tokens, prefix)
        return max(whole[0] - rest[0], 0.0), max(whole[1] - rest[1], 0.0)

    def bytes(self, tokens: float) -> float:
        """Cache of so many tokens, each byte once [B]."""
        setup = self.service.setup
        return kv_bytes_per_sequence(setup.model, setup.precision, tokens, setup.assumptions)


def _reading(
    offloading: Offloading,
    case: _Case,
    name: str,
    bytes_per_second: float,
    access: float,
    capacity: float,
) -> Reading:
    seconds = access + offloading.bytes_per_prefix / bytes_per_second if offloading.prefix_tokens else 0.0
    groups = offloading.service.accelerators / _cache_chips(offloading.service)
    held = None
    if offloading.conversation is not None:
        held = reuse(offloading.conversation, offloading.requests_per_second, capacity, offloading.bytes_per_token)
    return Reading(
        name,
        bytes_per_second,
        capacity,
        seconds,
        float(money.dollars_per_million(offloading.dollars_per_second * seconds / groups, offloading.prefix_tokens)),
        seconds + case.first_token(offloading.new_tokens, offloading.prefix_tokens),
        offloading.requests_per_second * offloading.bytes_per_prefix / (bytes_per_second * groups),
        _break_even(case, bytes_per_second, access),
        held,
        None if held is None else held.hit_rate,
    )


def _break_even(case: _Case, bytes_per_second: float, access: float) -> float:
    """The prefix from which on reading is quicker [tokens]."""

    def slower(prefix: float) -> bool:
        return access + case.bytes(prefix) / bytes_per_second > case.computing(prefix)[0]

    if math.isinf(bytes_per_second):
        return 1.0
    lengths = 2.0 ** np.arange(_DOUBLINGS + 1)
    losing = np.array([slower(float(length)) for length in lengths])
    if losing[-1]:
        return math.inf
    if not losing.any():
        return 1.0
    last = int(np.flatnonzero(losing)[-1])
    low, high = int(lengths[last]) + 1, int(lengths[last + 1])
    return float(low + bisect_left(range(low, high), True, key=lambda prefix: not slower(float(prefix))))


#: Columns that a computed prefix follows; what a tier takes was not measured.
_FOLLOWS: bounds.Follows = {
    "computing_seconds": ("ttft", 1),
    "computing_dollars_per_million_tokens": ("ttft", 1),
    "ttft_seconds": ("ttft", 1),
}


#: Ends where nobody knows.
_NOBODY = (None, None)


def _tier_record(reading: Reading) -> dict[str, object]:
    reuse = reading.reuse
    record = {
        "tier": reading.tier,
        "bytes_per_second": None if reading.tier == HBM else reading.bytes_per_second,
        "capacity_bytes": reading.capacity_bytes,
        "seconds": reading.seconds,
        "dollars_per_million_tokens": reading.dollars_per_million,
        "ttft_seconds": reading.ttft_seconds,
        "utilization": reading.utilization,
        "break_even_tokens": None if math.isinf(reading.break_even_tokens) else reading.break_even_tokens,
        "needed_bytes": None if reuse is None else reuse.needed_bytes,
        "kept_seconds": None if reuse is None else reuse.lifetime_seconds,
        "returning_share": None if reuse is None else reuse.returning,
        "cached_tokens": None if reuse is None else reuse.cached_tokens,
        "hit_rate": reading.hit_rate,
    }
    return bounds.bounded(record, dict.fromkeys(("seconds", "dollars_per_million_tokens", "ttft_seconds"), _NOBODY))


#: Share of a prompt that was seen before, where nothing is said of it [1].
HIT_RATE = 0.75


def cache(
    setup: Setup,
    space: Space | None = None,
    *,
    isl: float = DEFAULT_ISL,
    hit_rate: float = HIT_RATE,
    osl: float = DEFAULT_OSL,
    conversation: Conversation | None = None,
    tiers: Sequence[str] = (),
    requests_per_second: float | None = None,
) -> Offloading:
    """Read the cache of a prefix from HBM, host memory or SSD, or compute it again (``inference_econ.cache``).

    Parameters
    ----------
    setup : Setup
        What is served, on what, how.
    space : Space, optional
        Which instances are tried.
    isl : float
        Prompt tokens [tokens].
    hit_rate : float
        Share of them that was seen before [1]; both are without effect beside a conversation.
    osl : float
        Tokens of an answer [tokens].
    conversation : Conversation, optional
        What users do, instead of one length and one share.
    tiers : sequence of str
        Names or paths of tiers; all that come with the package by default.
    requests_per_second : float, optional
        At an instance [1/s]; by default 80 % of what it completes without a cache.

    Returns
    -------
    Offloading
        The instance, its prefix and every tier.

    Raises
    ------
    InputError
        If a number or a name cannot be used.
    NothingFitsError
        If no layout fits.
    """
    tokens, prefix = prompt(isl, hit_rate, conversation=conversation)
    layouts = offer(setup, Requests.build({"isl": tokens, "osl": osl}, origin="cache"), space)
    specs = [catalog.tier(name) for name in tiers or catalog.part_names("tiers")]
    return offload(
        layouts, specs, prefix_tokens=prefix, conversation=conversation, requests_per_second=requests_per_second
    )
