"""Questions about a traffic of sessions: so many agents or users, instead of a rate of requests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inference_econ import inputs
from inference_econ._named import named
from inference_econ.errors import InputError
from inference_econ.requests import subject, workload
from inference_econ.requests.request import Request, refuse

if TYPE_CHECKING:
    from inference_econ._shown import Shown
#: Class of sessions, and SLOs that agents get where none are given: both belong to an extra.
_AGENTS, _USUAL = "extras.agents.agents:Agents", "extras.agents.agents:USUAL"
_NAMES = ("agents", "router", "tiers")
#: What is said of requests that come at a rate, and of closed forms.
_OF_RATES = (
    *("isl", "osl", "cached", "shared_prefix", "arrival_scv", "trace", "simulate", "request_rate", "throughput"),
    *("any_speed", "api_prices", *subject.OF_POOLS),
)


def work(request: Request, *, agents: object = None, allowed: Collection[str] = ()) -> Any:
    """The sessions of the traffic that is named; None if it has none, or none is named.

    Parameters
    ----------
    request : Request
        What was asked.
    agents : object
        Numbers of agents that a command has for itself.
    allowed : collection of str
        Options that go with sessions here, otherwise not.

    Raises
    ------
    InputError
        If an option is given that only sessions have, or that they do not go with.
    """
    traffic = None if request.traffic is None else inputs.catalog.traffic(request.traffic)
    if traffic is None or traffic.sessions is None:
        text = f"{{}} is about sessions, and {request.traffic or 'no --traffic'} has none; give --traffic "
        stray = [name for name in _NAMES if getattr(request, name) or (name == "agents" and agents)]
        refuse(stray, f"{text}coding_agent, or another that has sessions")
        return None

    sessions = named(_AGENTS).of(str(request.traffic))
    stray = [name for name in _OF_RATES if name not in allowed and request.is_given(name)]
    making = _making(request, sessions) if stray[:1] == ["request_rate"] else ""
    text = f"does not go with the sessions of {request.traffic}, which are played; say how many --agents there are"
    refuse(stray, f"{{}} {text}{making}")
    return sessions


def _making(request: Request, sessions: Any) -> str:
    """Words for the agents that make the request rate: where answers come at once, and as slowly as is promised."""
    rate, promised = request.request_rate or 0.0, workload.targets(request, **usual()).given
    at_once, slowly = sessions.sending(rate, 0.0, 0.0), sessions.sending(rate, promised["ttft"], promised["tpot"])
    return f": {rate:g} requests/s come from {at_once:,} if answers come at once, {slowly:,} if they just keep the SLOs"


def played(request: Request, **usual: float) -> dict[str, Any]:
    """Settings of played sessions: promises, some as usual where they are not given, router, memories behind."""
    router, targets = request.router or "prefix_aware", workload.targets(request, **usual)
    return {"targets": targets, "router": router, "tiers": request.tiers}


def usual() -> Mapping[str, float]:
    """Return the SLOs that agents get where no others are given [s]."""
    targets: Mapping[str, float] = named(_USUAL)
    return targets


def answer(ask: Callable[..., Shown], request: Request, sessions: Any, **settings: Any) -> Shown:
    """Answer a question about sessions on the chips of a request, for its agents or its means."""
    offers = subject.of_chips(request, sessions.requests)
    played_so = played(request, **usual())
    return ask(offers, workload.means(request) or request.agents, **played_so, progress=request.progress, **settings)


def day(request: Request, agents: Sequence[float] | None, rates: Sequence[float] | None) -> Sequence[float]:
    """Agents in session in each hour: as they are given, or the most of them with the shape of a day.

    Raises
    ------
    InputError
        If nobody says it, or both are given.
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
    shape = rates or inputs.catalog.traffic(str(request.traffic)).arrivals.rates
    if not shape:
        raise InputError(
            f"{agents[0]:g} agents are the most of a day whose shape nobody says: give --rates R,R,..., in any unit, "
            "or the --agents of each hour",
            option="rates",
        )
    return tuple(agents[0] * rate / max(shape) for rate in shape)
