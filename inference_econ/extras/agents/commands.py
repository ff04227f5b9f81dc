"""Commands whose load is a number of agents or users with sessions, not a request rate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from inference_econ.errors import InputError
from inference_econ.extras.agents.agents import USUAL, Agents
from inference_econ.extras.fleets.capacity_blocks import WAYS
from inference_econ.extras.fleets.commands import elasticity, market_of_chips, offers_of, stock_of
from inference_econ.inputs import catalog
from inference_econ.requests import Request, prices, refuse, subject, workload

if TYPE_CHECKING:
    from inference_econ._answer import Shown
    from inference_econ.answers.prefix_cache import Offloading, Routing
    from inference_econ.extras.fleets.capacity_blocks import Way
    from inference_econ.extras.fleets.day import Policy

Numbers = tuple[float, ...] | None
#: Options for request rates and analytical queueing, which do not apply to sessions.
_OF_RATES = (
    *("isl", "osl", "cached", "shared_prefix", "arrival_scv", "trace", "simulate", "request_rate", "throughput"),
    *("any_speed", "api_prices", *subject.OF_POOLS),
)


def _sessions(request: Request, allowed: Collection[str] = ()) -> Agents:
    """Sessions of the workload.

    Raises
    ------
    InputError
        If an option for request rates is given that is not in ``allowed``.
    """
    sessions = Agents.of(str(request.traffic))
    stray = [name for name in _OF_RATES if name not in allowed and request.is_given(name)]
    making = ""
    if stray[:1] == ["request_rate"]:
        # Agents that produce the request rate, at zero latency and at latencies equal to the SLOs.
        rate, promised = request.request_rate or 0.0, workload.targets(request, **USUAL).given
        many, few = sessions.sending(rate, promised["ttft"], promised["tpot"]), sessions.sending(rate, 0.0, 0.0)
        making = f": {rate:g} requests/s come from {few:,} if answers come at once, {many:,} if latencies equal SLOs"
    text = f"does not go with the sessions of {request.traffic}, which are played; say how many --agents there are"
    refuse(stray, f"{{}} {text}{making}")
    return sessions


def _settings(request: Request, usual: Mapping[str, float] = USUAL) -> dict[str, Any]:
    """SLOs, router, offload tiers and progress function of a simulation; ``usual`` contains the default SLOs [s]."""
    return {
        "targets": workload.targets(request, **usual),
        "router": request.router or "prefix_aware",
        "tiers": request.tiers,
        "progress": request.progress,
    }


def recommend(request: Request, most: int) -> Shown:
    """Recommend the cheapest deployments for a number of agents, or those with the most agents within a limit."""
    stray = ("concurrency", "users", "think_time", "burst", "headroom", "spare", "most_utilization")
    refuse(request.named(stray), "{} is not for a workload with sessions, whose load is --agents")
    workload.check_sizes(request)
    sessions, means = _sessions(request), workload.means(request)
    chips = tuple(dict.fromkeys((*request.chips, *filter(None, [request.decode_on]))))
    request = replace(request, price=prices.prices_of_chips(request.price, chips))
    offers = subject.candidates_on_chips(request, sessions.requests)
    if means is None:
        return sessions.recommend(offers, request.agents, most=most, **_settings(request))
    return sessions.most_agents(offers, means, most=most, **_settings(request))


def price(request: Request, replicas: int | None, input_price: float | None) -> Shown:
    """Compute the price of tasks, agent hours and tokens."""
    refuse(request.named(["most_utilization"]), "--utilization is not for sessions, whose load is --agents")
    sessions = _sessions(request)
    if input_price is not None:
        raise InputError("--input-price is not for sessions, whose tasks have a price", option="input_price")
    if replicas is not None:
        raise InputError(
            "--replicas cannot be set for a workload with sessions, because --agents determines them", option="replicas"
        )
    return sessions.price(subject.candidates_on_chips(request, sessions.requests), request.agents, **_settings(request))


def load(request: Request, agents: Numbers, rates: Numbers, replicas: int | None) -> Shown:
    """Simulate one fleet at several numbers of agents."""
    sessions = _sessions(request)
    refuse(request.named(["gpus"]), "--gpus is not for sessions; give --replicas")
    if agents is not None and rates is not None:
        raise InputError("give either --agents or --rates, not both", option="agents")
    if any(not number.is_integer() for number in agents or ()):
        got = ", ".join(f"{number:g}" for number in agents or ())
        raise InputError(f"--agents must be integers, got {got}", option="agents")
    counts = None if agents is None else list(map(int, agents))
    layouts = subject.offer(request, sessions.requests, speculation=subject.speculation(request))
    return sessions.load(layouts, counts, rates=rates, replicas=replicas or 1, **_settings(request, {}))


def cache(request: Request, replicas: int | None, routing: Routing | None) -> Offloading:
    """Simulate sessions on one instance, and report the share of prompt tokens in each tier."""
    stray = ("isl", "hit_rate", "turns", "user_tokens", "osl", "system_tokens", "think_time", "lifetime")
    refuse(filter(request.is_given, stray), "give either --traffic or {}, not both: the workload sets it")
    routes = [name for name, value in (("replicas", replicas), ("routing", routing)) if value is not None]
    refuse(
        routes,
        "{} requires --turns; sessions are simulated on one instance, or on several with 'load --traffic'",
    )
    sessions = Agents.of(str(request.traffic))
    places = [catalog.tier(name) for name in request.tiers or catalog.part_names("tiers")]
    layouts = subject.fewest(request, lambda pinned: subject.offer(pinned, sessions.requests))
    return sessions.offload(layouts, places, requests_per_second=request.request_rate)


def buy(request: Request, chips: tuple[str, ...], api_prices: str | None, pricing: tuple[Way, ...]) -> Shown:
    """Compare API offers, rented and owned fleets for the agents, per month."""
    from inference_econ.extras.fleets.buy import MONTHLY

    sessions = _sessions(request, allowed=("api_prices",))
    offers, api = market_of_chips(request, sessions.requests, chips), offers_of(api_prices, request.model)
    return sessions.buy(offers, api, request.agents, ways=pricing or MONTHLY, **_settings(request))


def fleet(
    request: Request,
    rates: Numbers,
    agents: Numbers,
    stock: tuple[str, ...],
    pricing: tuple[Way, ...],
    policy: Policy,
    target: float | None,
    min_replicas: int,
    start_up: float | None,
    interruptions: float | None,
    spot_share: float | None,
) -> Shown:
    """Plan the cheapest fleet for a day of agents."""
    sessions = _sessions(request)
    hours = _day(request, agents, rates)
    request = replace(request, price=prices.prices_of_chips(request.price, request.chips))
    rules = elasticity(start_up, interruptions, spot_share)
    return sessions.fleet(
        subject.candidates_on_chips(request, sessions.requests),
        hours,
        stock=stock_of(stock),
        ways=pricing or WAYS,
        policy=policy,
        target=target,
        min_replicas=min_replicas,
        elasticity=rules,
        **_settings(request),
    )


def _day(request: Request, agents: Sequence[float] | None, rates: Sequence[float] | None) -> Sequence[float]:
    """Agents in session in each hour: the given numbers, or the given peak scaled by an hourly profile.

    Raises
    ------
    InputError
        If no agents or no profile are given, or both hourly agents and hourly rates.
    """
    if agents is None:
        raise InputError(
            "give the agents in session of each hour: --agents A,A,..., or the most of them with the shape of the day: "
            "--agents 500 --rates R,R,...",
            option="agents",
        )
    if len(agents) > 1 and rates is not None:
        raise InputError("give either the --agents of each hour, or the most of them with the --rates", option="rates")
    if len(agents) > 1:
        return tuple(agents)
    shape = rates or catalog.traffic(str(request.traffic)).arrivals.rates
    if not shape:
        raise InputError(
            f"--agents {agents[0]:g} is the daily peak, but the hourly profile is unknown; give --rates R,R,... in "
            "any unit, or one number of --agents per hour",
            option="rates",
        )
    return tuple(agents[0] * rate / max(shape) for rate in shape)
