"""Workload in a request: lengths, rate, SLOs, fleet size and resource limits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from inference_econ import inputs
from inference_econ.errors import InputError, of_option
from inference_econ.inputs import DEFAULT_ISL, DEFAULT_OSL
from inference_econ.inputs.options import OPTIONS, SAID_BY_TRAFFIC, THINK_SECONDS, counted_by, request_name
from inference_econ.requests.request import Request, refuse, spelled

if TYPE_CHECKING:
    from inference_econ.answers.deployments.deployment import Margin
    from inference_econ.answers.deployments.recommend import Users
    from inference_econ.answers.resource_limit import Means
    from inference_econ.answers.slo import Targets
    from inference_econ.inputs import Requests

#: Options that determine the size of a fleet.
_SIZES = ("request_rate", "throughput", "concurrency", "users", "agents", "gpus", "budget", "power_budget")
_MEANS = ("gpus", "budget", "power_budget")
#: Options that do not apply if a workload file is given.
_OF_TRAFFIC = (*SAID_BY_TRAFFIC, "arrival_scv")
#: Options that apply only to services, and options that apply only to decode steps.
_SERVICES_ONLY, _DECODE_ONLY = counted_by("services"), counted_by("decode_steps")


def context_or_lengths(request: Request) -> dict[str, Any]:
    """Options that set the context of a step: ``context``, ``contexts`` or request lengths [tokens].

    Raises
    ------
    InputError
        If options set more than one of context, contexts and request lengths.
    """
    isl, osl = request.isl, request.osl
    contexts = [name for name in ("context", "contexts") if getattr(request, name) is not None]
    if len(contexts) + (isl is not None or osl is not None) > 1:
        other = "--contexts" if len(contexts) > 1 else "--isl and --osl"
        raise InputError(f"give either --{contexts[0]}, or {other}, not both", option=contexts[0])
    if contexts:
        return {contexts[0]: getattr(request, contexts[0])}
    return {"isl": DEFAULT_ISL if isl is None else isl, "osl": DEFAULT_OSL if osl is None else osl}


def step_contexts(request: Request, prefill: float | None) -> tuple[float | None, float]:
    """Context of a step, and width of the range of contexts around this mean [tokens].

    Raises
    ------
    InputError
        If request lengths are given for a prefill step.
    """
    if prefill is None:
        traffic = inputs.Traffic.build(context_or_lengths(request), origin="command line")
        return traffic.mean_context, traffic.spread
    text = "{} says how long requests are that decode; --prefill reads so many tokens by itself"
    refuse(request.named(("isl", "osl")), text)
    return request.context, 0.0


def requests(request: Request, *, fitted: bool = False, **lengths: object) -> Requests:
    """Requests with the lengths in the options, or with other lengths.

    A trace is replayed. With ``fitted``, the workload that is fitted to the trace is used instead.
    """
    recorded = _recorded(request, fitted=fitted)
    if recorded is not None:
        return recorded
    named = lengths or {name: getattr(request, name) for name in ("isl", "osl", "cached", "shared_prefix")}
    return inputs.Requests.build(named, origin="command line")


def _recorded(request: Request, *, fitted: bool) -> Requests | None:
    """Return the requests of --traffic, --trace or --workloads; None if none is given.

    Raises
    ------
    InputError
        If several of these options are given, or one together with an option that it replaces.
    """
    named = ("traffic", "trace", "workloads")
    name = next((name for name in named if getattr(request, name)), None)
    if name is None:
        return None
    other = next((option for option in (*_OF_TRAFFIC, *named) if option != name and request.is_given(option)), None)
    if other is not None:
        raise InputError(
            f"give either {spelled(name)} or {spelled(other)}, not both: the workload sets it", option=name
        )

    with of_option(name):
        if name == "traffic":
            return inputs.catalog.traffic(getattr(request, name)).requests
        if name == "workloads":
            # Combine several workloads into one. Each has input tokens, output tokens and a share.
            isl, osl, shares = zip(*request.workloads, strict=True)
            if len({*zip(isl, osl, strict=True)}) == 1:
                return inputs.Requests.build({"isl": isl[0], "osl": osl[0]}, origin="--workloads")
            lengths = inputs.Lengths.build({"isl": isl, "osl": osl, "shares": shares}, origin="--workloads")
            return inputs.Requests.of_table(lengths, traffic="a mixture of workloads")
        from inference_econ.answers.traffic import trace

        profile, model = trace(getattr(request, name)), inputs.catalog.model(request.model)
        line, tokens = profile.longest
        if model.max_context is not None and tokens > model.max_context:
            raise InputError(
                f"{profile.origin}: line {line} has {tokens:,} tokens of prompt and answer, and {model.name} was made "
                f"for {model.max_context:,} at most; take another model, or leave such requests out"
            )
        remarks = [f"broken lines, left out: {profile.broken:,} ({profile.mistakes[0]})"] if profile.broken else []
        if profile.requests > len(profile.first) and not fitted:
            remarks.append(f"the first {len(profile.first):,} of {profile.requests:,} requests are played")
        for remark in remarks:
            request.tell(remark)
        return profile.traffic.requests if fitted else profile.replay


def targets(request: Request, **usual: Any) -> Targets:
    """SLOs from the options; ``usual`` has the defaults of fields that no option sets."""
    from inference_econ.answers.slo import NAMES, Targets

    named: dict[str, Any] = {**usual, "percentile": request.percentile, "confidence": request.confidence}
    for name in NAMES:
        if getattr(request, name) is not None:
            promise = inputs.percentiles.promise(str(getattr(request, name)))
            named[f"{name}_seconds"] = inputs.parse_quantity(promise.time, "s")
            named[f"{name}_percentile"] = promise.percentile
    return Targets(**named)


def default_targets(request: Request) -> Targets:
    """SLOs from the options; by default, the default TPOT SLO of the model; with ``--any-speed``, no SLO.

    Raises
    ------
    InputError
        If an SLO is set together with ``--any-speed``.
    """
    slos = targets(request, is_default=not request.any_speed)
    if request.any_speed and slos.given:
        raise InputError(
            f"--any-speed means no SLO, which contradicts {slos.text}; remove one of them", option="any_speed"
        )
    return replace(slos, is_default=False) if slos.given else slos


def request_rate(request: Request, requests: Requests) -> float | None:
    """Total request rate from an option or from the workload [1/s]; None if neither sets it.

    Raises
    ------
    InputError
        If two options set it.
    """
    rate = request.request_rate
    if request.throughput is None:
        of_traffic = None if requests.arrivals is None else requests.arrivals.rate
        return of_traffic if rate is None else rate
    if rate is not None:
        raise InputError("give either --request-rate or --throughput, not both", option="request_rate")
    return float(request.throughput / requests.osl.mean)


def check_sizes(request: Request) -> None:
    """Reject more than one option that determines the size of a fleet.

    Raises
    ------
    InputError
        If several of these options are given; the message lists them.
    """
    named = [name for name in _SIZES if getattr(request, name) is not None]
    if len(named) > 1 and set(_MEANS) & set(named):
        raise InputError(
            f"give only one of {', '.join(map(spelled, named))}: a rate asks for the cheapest "
            "fleet, and so do agents; chips, a budget or power ask for the most traffic",
            option=named[0],
        )


def users(request: Request) -> Users | None:
    """Return the users from --concurrency or --users; None if neither option is set.

    Raises
    ------
    InputError
        If both options are set, one of them is set together with a rate, or --think-time is set without --users.
    """
    from inference_econ.answers.deployments.recommend import Users

    given = [name for name in ("request_rate", "throughput", "concurrency", "users") if request.is_given(name)]
    if len(given) > 1 and {"concurrency", "users"} & set(given):
        raise InputError(f"give only one of {', '.join(map(spelled, given))}", option=given[-1])
    if request.think_time is not None and request.users is None:
        raise InputError("--think-time goes with --users", option="think_time")
    if request.concurrency is not None:
        return Users(request.concurrency)
    pause = THINK_SECONDS if request.think_time is None else request.think_time
    return None if request.users is None else Users(request.users, pause)


def margin(request: Request) -> Margin:
    """Return the margin above the load, from --headroom [%] or --burst [1], --spare [1] and --utilization [%].

    Raises
    ------
    InputError
        If --headroom and --burst are given together.
    """
    from inference_econ.answers.deployments.deployment import Margin

    if request.headroom is not None and request.burst is not None:
        raise InputError("give either --headroom or --burst, not both: 3x is a headroom of 200 %", option="burst")
    headroom = (request.headroom or 0.0) / 100.0 if request.burst is None else request.burst - 1.0
    used = 100.0 if request.most_utilization is None else request.most_utilization
    return Margin(headroom, request.spare or 0, used / 100.0)


def means(request: Request) -> Means | None:
    """Limit on GPUs, cost or power from the options; None if no option sets one."""
    from inference_econ.answers.resource_limit import Means

    values = [getattr(request, name) for name in _MEANS]
    return None if values == [None, None, None] else Means(*values)


def decode_steps(request: Request) -> bool:
    """Return True if the query is about decode steps alone: by request, or on the grid of the published study.

    Raises
    ------
    InputError
        If an option does not apply to the query.
    """
    study = request.grid == "paper"
    if request.decode_only or study:
        which = "--decode-only" if request.decode_only else "--grid paper"
        text = f"{{}} applies to services, and {which} counts decode steps alone; leave one of them out"
        refuse(request.named(_SERVICES_ONLY), text)
        return True
    stray = [OPTIONS[name].spelled for name in request.named(_DECODE_ONLY)]
    if stray:
        raise InputError(f"{stray[0]} applies to decode steps alone; add --decode-only", request_name(stray[0]))
    return False
