"""Questions about a traffic of sessions: so many agents or users, instead of a rate of requests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import inference_econ as ie
from inference_econ import inputs
from inference_econ.errors import InputError

from . import market, options, proposals
from .refusals import refuse

_NAMES = ("agents", "router", "tiers")
#: What is said of requests that come at a rate, and of closed forms.
_OF_RATES = (
    *("isl", "osl", "cached", "shared_prefix", "arrival_scv", "trace", "simulate", "request_rate", "throughput"),
    *("any_speed", "api_prices", *market.OF_POOLS),
)


def work(choices: options.Choices, *, allowed: Collection[str] = ()) -> ie.Agents | None:
    """The sessions of the traffic that is named; None if it has none, or none is named.

    Parameters
    ----------
    choices : mapping
        Options by name.
    allowed : collection of str
        Options that go with sessions here, otherwise not.

    Raises
    ------
    InputError
        If an option is given that only sessions have, or that they do not go with.
    """
    traffic = None if choices.get("traffic") is None else inputs.catalog.traffic(choices["traffic"])
    if traffic is None or traffic.sessions is None:
        text = f"{{}} is about sessions, and {choices.get('traffic') or 'no --traffic'} has none; give --traffic "
        refuse(filter(choices.get, _NAMES), f"{text}coding_agent, or another that has sessions")
        return None

    sessions = ie.Agents.of(choices["traffic"])
    stray = [name for name in _OF_RATES if name not in allowed and options.is_given(name)]
    making = _making(choices, sessions) if stray[:1] == ["request_rate"] else ""
    text = f"does not go with the sessions of {choices['traffic']}, which are played; say how many --agents there are"
    refuse(stray, f"{{}} {text}{making}")
    return sessions


def _making(choices: options.Choices, sessions: ie.Agents) -> str:
    """Words for the agents that make the request rate: where answers come at once, and as slowly as is promised."""
    rate, promised = choices["request_rate"], options.targets(choices, **usual()).given
    at_once, slowly = sessions.sending(rate, 0.0, 0.0), sessions.sending(rate, promised["ttft"], promised["tpot"])
    return f": {rate:g} requests/s come from {at_once:,} if answers come at once, {slowly:,} if they just keep the SLOs"


def played(choices: options.Choices, **usual: float) -> dict[str, Any]:
    """Settings of played sessions: promises, some as usual where they are not given, router, memories behind."""
    return {
        "targets": options.targets(choices, **usual),
        "router": choices["router"] or "prefix_aware",
        "tiers": choices["tiers"],
    }


def usual() -> Mapping[str, float]:
    """Return the promises that agents get where no others are given [s]."""
    from inference_econ.answers.agents import USUAL

    return USUAL


def answer(
    ask: Callable[..., options.Shown],
    choices: options.Choices,
    work: ie.Agents,
    *chips: str,
    **settings: Any,
) -> options.Shown:
    """Answer a question about sessions on some chips."""
    counted = options.given_means(choices) or choices["agents"]
    offers = market.of_chips(choices, work.requests, chips or (choices["hardware"],))
    return ask(offers, counted, **played(choices, **usual()), **settings)


def day(choices: options.Choices) -> Sequence[float]:
    """Agents in session in each hour: as they are given, or the most of them with the shape of a day.

    Raises
    ------
    InputError
        If nobody says it, or both are given.
    """
    numbers, shape = choices["agents"], choices["rates"]
    if numbers is None:
        raise InputError(
            "give the agents in session of each hour: --agents A,A,..., or the most of them with the shape of the day: "
            "--agents 500 --rates R,R,...",
            option="agents",
        )
    if len(numbers) > 1 and shape is not None:
        raise InputError("give either the --agents of each hour, or the most of them with the --rates", option="rates")
    if len(numbers) > 1:
        return tuple(numbers)
    shape = shape or inputs.catalog.traffic(choices["traffic"]).arrivals.rates
    if not shape:
        raise InputError(
            f"{numbers[0]:g} agents are the most of a day whose shape nobody says: give --rates R,R,..., in any unit, "
            "or the --agents of each hour",
            option="rates",
        )
    return tuple(numbers[0] * rate / max(shape) for rate in shape)


def load(
    choices: options.Choices, work: ie.Agents, rates: tuple[float, ...] | None, progress: options.Progress | None
) -> options.Shown:
    """Put a fleet under some numbers of agents, or sessions that begin at some rates."""
    numbers = choices["agents"]
    if numbers is not None and rates is not None:
        raise InputError("give either --agents or --rates, not both", option="agents")
    if numbers is not None and any(not number.is_integer() for number in numbers):
        got = ", ".join(f"{number:g}" for number in numbers)
        raise InputError(f"--agents are whole numbers, got {got}", option="agents")
    layouts = options.offer(choices, work.requests, speculation=proposals.speculation(choices))
    counts = None if numbers is None else [int(number) for number in numbers]
    settings = {"replicas": choices["replicas"], **played(choices)}
    return work.load(layouts, counts, rates=rates, progress=progress, **settings)
