"""Prefix caching: recompute a repeated prefix, or read its KV cache from HBM or from an offload tier."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache as cached
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from inference_econ._answer import Shown
from inference_econ._types import Array
from inference_econ.answers.deployments.deployment import layout_of
from inference_econ.answers.layout_services import offer
from inference_econ.answers.slo import FILLED, Targets, instances_of, promised_rates
from inference_econ.engine import Instances, Setup, Space, bounds, kv_bytes_per_sequence, request_seconds
from inference_econ.errors import InputError
from inference_econ.formulas import money, prefix_cache, routing
from inference_econ.inputs import DEFAULT_ISL, DEFAULT_OSL, HBM, Requests, TierSpec, catalog
from inference_econ.records.deviations import calibration_record
from inference_econ.records.facts import HEAD, facts
from inference_econ.records.plain import attributes, finite_or_none
from inference_econ.serving import Service, Services, Tier, check_rate, loaded

#: Policies by which a router assigns the turns of a conversation to replicas.
Routing = Literal["prefix_aware", "round_robin"]
ROUTINGS: tuple[Routing, ...] = get_args(Routing)


@dataclass(frozen=True, slots=True)
class Conversation:
    """Multi-turn conversations with a service.

    Attributes
    ----------
    turns : float
        Turns per conversation [1].
    user_tokens, answer_tokens : float
        New tokens of a user turn, and tokens of its response [tokens].
    think_seconds : float
        Mean time between a response and the next turn of the user [s].
    lifetime_seconds : float
        Longest time for which the KV cache of a turn should be stored for reuse [s].
    system_tokens : float
        Length of the system prompt that all users share [tokens].
    replicas : int
        Number of instances behind a router [1]; they share the requests evenly.
    routing : {'prefix_aware', 'round_robin'}
        ``prefix_aware`` sends all turns of a conversation to the replica with its cache. ``round_robin`` sends each
        turn to the next replica.

    Raises
    ------
    InputError
        If a conversation has less than one turn, a length or time is negative, the lifetime is unlimited, or the
        routing is unknown. Round-robin routing also requires an integer number of turns.
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
        if self.routing not in ROUTINGS:
            raise InputError(f"routing: got {self.routing!r}; allowed: {', '.join(ROUTINGS)}")
        if self.replicas < 1:
            raise InputError(f"replicas must be an integer >= 1, got {self.replicas:g}")
        self.stored_tokens(0.0, self.lifetime_seconds)
        self.mean(1.0)

    def mean(self, returning: float) -> prefix_cache.Turns:
        """Mean request, if each turn finds the cache of the previous turn with probability ``returning`` [1]."""
        return prefix_cache.turns(self._shape, returning)

    @property
    def scattered(self) -> bool:
        """True if the router may send turns to replicas without the cache of the previous turn."""
        return self.replicas > 1 and self.routing == "round_robin"

    def found(self, lifetime_seconds: float) -> prefix_cache.Turns:
        """Mean request of a conversation, if the cache evicts entries that are unused for ``lifetime_seconds`` [s]."""
        if not self.scattered:
            return self.mean(float(prefix_cache.returning(lifetime_seconds, self.think_seconds)))
        return routing.scattered_turns(self._shape, self.replicas, lifetime_seconds)

    def stored_tokens(self, requests_per_second: float, lifetime_seconds: float) -> float:
        """Tokens in the cache of an instance, at the instance's request rate [1/s] and a lifetime [s] [tokens]."""
        if self.scattered:
            return routing.scattered_tokens(self._shape, requests_per_second, self.replicas, lifetime_seconds)
        return float(prefix_cache.stored_tokens(self._shape, requests_per_second, lifetime_seconds))

    def lifetime(self, requests_per_second: float, tokens: float) -> float:
        """Time until a cache of a given size [tokens] evicts an unused entry, at most ``lifetime_seconds`` [s]."""
        if self.stored_tokens(requests_per_second, self.lifetime_seconds) <= tokens:
            return self.lifetime_seconds
        if self.scattered:
            return routing.scattered_lifetime(self._shape, requests_per_second, self.replicas, tokens)
        return float(prefix_cache.lifetime_that_fits(self._shape, requests_per_second, tokens))

    @property
    def _shape(self) -> prefix_cache.ConversationShape:
        return prefix_cache.ConversationShape(
            self.turns, self.user_tokens, self.answer_tokens, self.system_tokens, self.think_seconds
        )


@dataclass(frozen=True, slots=True)
class TierReuse:
    """Reuse of cached conversations in one tier.

    Attributes
    ----------
    lifetime_seconds : float
        Time until the tier evicts an unused entry [s]; shorter than the requested lifetime if the capacity is too
        small.
    needed_bytes : float
        Capacity that the requested lifetime would need [B].
    returning : float
        Share of turns for which the replica still has the cache of the previous turn [1].
    cached_tokens : float
        Number of cache-hit tokens in the mean prompt [tokens].
    hit_rate : float
        Share of all prompt tokens that are cache hits [1].
    """

    lifetime_seconds: float
    needed_bytes: float
    returning: float
    cached_tokens: float
    hit_rate: float


def reuse(
    conversation: Conversation, requests_per_second: float, capacity_bytes: float, bytes_per_token: float
) -> TierReuse:
    """Compute the reuse of conversations in a cache that evicts the least recently used entries.

    Parameters
    ----------
    conversation : Conversation
        Conversations of users.
    requests_per_second : float
        Rate at which turns of all conversations arrive at the instance [1/s].
    capacity_bytes : float
        Capacity of the cache [B].
    bytes_per_token : float
        KV-cache size per token [B].

    Returns
    -------
    TierReuse
        Cache hits, and the capacity that the requested lifetime would need.

    Raises
    ------
    InputError
        If a value is out of range.
    """
    needed = conversation.stored_tokens(requests_per_second, conversation.lifetime_seconds) * bytes_per_token
    lifetime = conversation.lifetime(requests_per_second, capacity_bytes / bytes_per_token)
    back = float(prefix_cache.returning(lifetime, conversation.think_seconds))
    returning = back / conversation.replicas if conversation.scattered else back
    mean = conversation.found(lifetime)
    return TierReuse(lifetime, needed, returning, float(mean.cached), float(mean.cached / mean.prompt))


#: Seconds per hour [s].
_HOUR = 3600.0
#: Number of doublings of the prefix in the search for the break-even, up to a million tokens [1].
_DOUBLINGS = 20
#: Largest additional cost of a smaller instance, relative to the cheapest one, at which it is preferred [1].
_NEARLY = 0.1


@dataclass(frozen=True, slots=True)
class Reading:
    """Cost and time to read a prefix from one tier.

    Attributes
    ----------
    tier : str
        :data:`inference_econ.inputs.HBM`, or the name of a :class:`inference_econ.inputs.TierSpec`.
    bytes_per_second : float
        Rate of reading the cache of one prompt [B/s]; ``inf`` for HBM.
    capacity_bytes : float
        Capacity of the tier per instance [B]; for HBM, the memory that weights and running requests leave free.
    seconds : float
        Time to read the prefix [s].
    dollars_per_million : float
        Cost of the time that the GPUs wait for the read [USD per 1e6 tokens]. The true cost is lower if reads overlap
        with other work.
    ttft_seconds : float
        Time to read the prefix and then prefill the new tokens [s].
    utilization : float
        Share of the tier's bandwidth that is used if every request reads its prefix from the tier [1].
    break_even_tokens : float
        Prefix length from which reading is faster than recomputing [tokens]; ``inf`` above a million tokens.
    reuse : TierReuse or None
        Reuse of cached conversations in this tier; None if the query has no conversations.
    hit_rate : float or None
        Share of prompt tokens that are read from this tier because no faster tier has them [1]; None if unknown.
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
    """Comparison of two choices for a repeated prefix on one instance: recompute it, or read its KV cache.

    Attributes
    ----------
    service : Service
        Instance.
    dollars_per_second : float
        Price of the instance [USD/s].
    prefix_tokens, new_tokens : float
        Number of repeated tokens, and number of new tokens, in a prompt [tokens].
    requests_per_second : float
        Request rate of the instance [1/s].
    conversation : Conversation or None
        Conversations that determine the lengths; None if the query gives lengths.
    bytes_per_prefix : float
        KV-cache size of the prefix, without copies on several GPUs [B].
    computing_seconds : float
        Time that the prefix adds to a prefill when it is recomputed [s].
    computing_dollars_per_million : float
        Cost of recomputing the prefix [USD per 1e6 tokens].
    ttft_seconds : float
        TTFT without a cache [s].
    holding_dollars_per_million_hour : float
        Cost of keeping tokens in HBM for one hour [USD per 1e6 tokens]. The price of the instance is divided by the
        tokens that fit in its KV-cache memory.
    readings : tuple of Reading
        Read times and costs of each tier: HBM first, then the requested tiers.
    traffic : str or None
        Name of the workload whose sessions are simulated; None without such a workload.
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
        """KV cache per token of the prefix [B]."""
        setup = self.service.setup
        tokens = self.prefix_tokens or 1.0
        return kv_bytes_per_sequence(setup.model, setup.precision, tokens, setup.assumptions) / tokens

    def subjects(self) -> tuple[Instances]:
        """Return the instance on which the prefix is recomputed."""
        return (instances_of(self.service),)

    @property
    def keeping_seconds(self) -> float:
        """Reuse interval above which recomputing a prefix is cheaper than keeping it in HBM [s].

        See Gray and Putzolu (1987).
        """
        return _HOUR * self.computing_dollars_per_million / self.holding_dollars_per_million_hour

    @property
    def setups(self) -> Sequence[Setup]:
        """Setup of the instance."""
        return [self.service.setup]

    def record(self) -> dict[str, Any]:
        """Return the result as plain data; infinite values are None."""
        service, conversation, (instances,) = self.service, self.conversation, self.subjects()
        record = {
            **facts(
                service.setup,
                *(*HEAD, "calibration", "weights", "kv"),
                calibration=calibration_record(instances, ("ttft",)),
            ),
            "layout": layout_of(service),
            "accelerators": service.accelerators,
            **attributes(self, "requests_per_second prefix_tokens new_tokens bytes_per_prefix computing_seconds"),
            **attributes(self, "computing_dollars_per_million_tokens=computing_dollars_per_million ttft_seconds"),
            **attributes(self, "hbm_dollars_per_million_tokens_and_hour=holding_dollars_per_million_hour"),
            **attributes(self, "hbm_keeping_seconds=keeping_seconds traffic"),
            "conversation": None
            if conversation is None
            else {
                **attributes(conversation, "turns user_tokens answer_tokens system_tokens think_seconds"),
                **attributes(conversation, "lifetime_seconds replicas"),
                "routing": conversation.routing if conversation.replicas > 1 else None,
            },
            "tiers": [_tier_record(reading) for reading in self.readings],
        }
        return bounds.bounded(record, bounds.ends(instances, _FOLLOWS))

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record for recomputing, then one per tier."""
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
    """Compute the number of tokens in a prompt, and in its cached prefix.

    Parameters
    ----------
    isl : float, optional
        Prompt length [tokens].
    hit_rate : float, optional
        Share of the prompt that is a cached prefix [1].
    conversation : Conversation, optional
        Conversations, whose mean request replaces ``isl`` and ``hit_rate``.

    Returns
    -------
    (float, float)
        Number of tokens in the prompt, and in its prefix [tokens].

    Raises
    ------
    InputError
        If the hit rate is outside 0 to 1, or the prompt has no new token.
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
    """Compare recomputing a repeated prefix with reading it from HBM or from offload tiers.

    Parameters
    ----------
    layouts : Services
        Layouts of a model on a GPU (``offer``). Among layouts within 10% of the lowest cost per request, the smallest
        is used.
    tiers : sequence of TierSpec
        Offload tiers of the host machines.
    prefix_tokens : float
        Number of repeated tokens in a prompt [tokens]; see :func:`prompt`.
    conversation : Conversation, optional
        Conversations that determine the hit rate of each tier.
    requests_per_second : float, optional
        Request rate of the instance [1/s]; by default :data:`inference_econ.answers.slo.FILLED` of its capacity.

    Returns
    -------
    Offloading
        Time and cost of recomputing, and of reading from each tier, and hit rates by tier.

    Raises
    ------
    InputError
        If the prefix leaves no new token, a rate is not positive, or the bandwidth of the GPU's host link is unknown.

    Notes
    -----
    The cost of recomputing is the cost of the time that the prefix adds to a prefill of the new tokens. The KV cache of
    a prefix is distributed over the GPUs of one attention group, in all pipeline stages. GPUs read their shares of the
    prefix over separate host links. If a tier is slower than the links, the bandwidth of the tier limits the read.
    Reads are assumed not to overlap with other work, and writes are ignored.
    """
    tokens, prefix = layouts.requests.isl.mean, prefix_tokens
    if not 0 <= prefix <= tokens - 1:
        raise InputError(f"the prefix must leave at least one new token of the prompt ({tokens:g}), got {prefix:g}")
    # Smallest layout within 10% of the lowest cost per request.
    per_chip = promised_rates(layouts, Targets()) / layouts.plans.accelerators
    good = np.flatnonzero(per_chip >= (1.0 - _NEARLY) * per_chip.max())
    smallest = good[layouts.plans.accelerators[good] == layouts.plans.accelerators[good].min()]
    service = layouts.service(int(smallest[np.argmax(per_chip[smallest])]))
    rate = FILLED * service.most_requests_per_second if requests_per_second is None else requests_per_second
    check_rate(rate)
    price = float(money.dollars_per_second(service.accelerators, service.setup.dollars_per_accelerator_hour))
    case = _Case(service, tokens - prefix)
    # KV-cache memory without the copies of a layout, and the part that running requests use.
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
    """Compute the times of recomputing and of reading a prefix for several prefix lengths.

    The number of new tokens is constant.

    Parameters
    ----------
    offloading : Offloading
        Instance and tiers.
    prefixes : array_like, shape (n,)
        Prefix lengths [tokens].

    Returns
    -------
    dict of str to ndarray, shape (n,)
        Times [s]: recomputing under the name ``computed``, then reading from each tier except HBM under its name.
    """
    lengths = np.asarray(prefixes, dtype=float)
    case = _Case(offloading.service, offloading.new_tokens)
    lines = {"computed": np.array([case.computing(float(length))[0] for length in lengths])}
    for reading in offloading.readings[1:]:
        size = np.array([case.bytes(float(length)) for length in lengths])
        access = reading.seconds - offloading.bytes_per_prefix / reading.bytes_per_second
        lines[reading.tier] = access + size / reading.bytes_per_second
    return lines


def behind(service: Service, tiers: Sequence[TierSpec]) -> tuple[Tier, ...]:
    """Return the offload tiers of an instance as inputs of the simulator, with capacities in blocks.

    Raises
    ------
    InputError
        If the bandwidth of the GPU's host link is unknown.
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
    """Rate of reading the KV cache of one prompt from a tier [B/s]."""
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
    """Number of GPUs that store the KV cache of one sequence [1]."""
    return float((service.plans.attention_ranks * service.plans.pp)[0])


class _Case:
    """Prefill times of one instance for prompts that have the same number of new tokens."""

    def __init__(self, service: Service, new_tokens: float) -> None:
        self.service, self.new_tokens = service, new_tokens
        self.computing = cached(self._computing)

    def first_token(self, tokens: float, cached: float) -> float:
        """TTFT of a prompt without queueing: request overhead plus prefill time [s]."""
        return request_seconds(self.service.setup, cached) + self.prefill(tokens, cached)[0]

    def prefill(self, tokens: float, cached: float) -> tuple[float, float]:
        """Duration of a single prefill, and instance time per prefill when prefill steps are full [s]."""
        prompt = self.service.reading(tokens, cached)
        return float(prompt.seconds[0]), self.service.full_prefill_seconds(tokens, cached)

    def _computing(self, prefix: float) -> tuple[float, float]:
        """Increase in prefill duration, and in instance time with full steps, if the prefix is recomputed [s]."""
        whole, rest = self.prefill(prefix + self.new_tokens, 0.0), self.prefill(self.new_tokens, prefix)
        return max(whole[0] - rest[0], 0.0), max(whole[1] - rest[1], 0.0)

    def bytes(self, tokens: float) -> float:
        """KV-cache size of a number of tokens, without copies on several GPUs [B]."""
        setup = self.service.setup
        return kv_bytes_per_sequence(setup.model, setup.precision, tokens, setup.assumptions)


def _reading(
    offloading: Offloading, case: _Case, name: str, bytes_per_second: float, access: float, capacity: float
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
    """Smallest prefix length from which reading is faster than recomputing [tokens]; ``inf`` if there is none."""

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


#: Columns whose interval follows from the TTFT error. Reads from tiers have no interval, because they were not
#: measured.
_FOLLOWS: bounds.Follows = {
    "computing_seconds": ("ttft", 1),
    "computing_dollars_per_million_tokens": ("ttft", 1),
    "ttft_seconds": ("ttft", 1),
}


#: Interval ends if no error estimate exists.
_NOBODY = (None, None)
#: Fields of a tier that hold the reuse of conversations.
_REUSE = "needed_bytes kept_seconds=lifetime_seconds returning_share=returning cached_tokens"


def _tier_record(reading: Reading) -> dict[str, object]:
    reuse = reading.reuse
    record = {
        "tier": reading.tier,
        "bytes_per_second": None if reading.tier == HBM else reading.bytes_per_second,
        **attributes(reading, "capacity_bytes seconds dollars_per_million_tokens=dollars_per_million ttft_seconds"),
        "utilization": reading.utilization,
        "break_even_tokens": finite_or_none(reading.break_even_tokens),
        **dict.fromkeys(("needed_bytes", "kept_seconds", "returning_share", "cached_tokens")),
        **({} if reuse is None else attributes(reuse, _REUSE)),
        "hit_rate": reading.hit_rate,
    }
    return bounds.bounded(record, dict.fromkeys(("seconds", "dollars_per_million_tokens", "ttft_seconds"), _NOBODY))


#: Default share of a prompt that is a cached prefix [1].
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
    """Compare reading a cached prefix from HBM, host memory or SSD with recomputing it (``inference_econ.cache``).

    Parameters
    ----------
    setup : Setup
        Model, GPU, formats, price and assumptions.
    space : Space, optional
        Instances to try.
    isl : float
        Prompt length [tokens]; ignored with a conversation.
    hit_rate : float
        Share of the prompt that is a cached prefix [1]; ignored with a conversation.
    osl : float
        Output length [tokens].
    conversation : Conversation, optional
        Conversations; if given, they replace ``isl`` and ``hit_rate``.
    tiers : sequence of str
        Names or paths of tiers; by default all tiers of the package.
    requests_per_second : float, optional
        Request rate of an instance [1/s]; by default 80% of its capacity without a cache.

    Returns
    -------
    Offloading
        Comparison of recomputing with reading from each tier.

    Raises
    ------
    InputError
        If a number or a name is invalid.
    NothingFitsError
        If no layout fits.
    """
    tokens, prefix = prompt(isl, hit_rate, conversation=conversation)
    layouts = offer(setup, Requests.build({"isl": tokens, "osl": osl}, origin="cache"), space)
    specs = [catalog.tier(name) for name in tiers or catalog.part_names("tiers")]
    return offload(
        layouts, specs, prefix_tokens=prefix, conversation=conversation, requests_per_second=requests_per_second
    )
