"""Commands about one instance: explain, speculate and cache."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import inference_econ as ie
from inference_econ import answers, report
from inference_econ.errors import InputError
from inference_econ.inputs import DEFAULT_ISL, catalog
from inference_econ.requests import Request, refuse, subject, workload

if TYPE_CHECKING:
    from inference_econ._answer import Shown
    from inference_econ.report.page import Page


def explain(
    request: Request, operators: bool | None, memory: bool | None, prefill: float | None, to: float | None
) -> Page:
    """Break one decode or prefill step down into time, bottlenecks and memory.

    With --over, the command shows the arithmetic intensity of each operator, and the batch size, context or prompt
    length from which an operator is compute-bound.

    A decode step uses the mean context of --isl and --osl, or --context. A prefill step (--prefill) starts from an
    empty cache unless --context is given. MODEL and HARDWARE are names or paths of YAML files.
    """
    refuse(["to"] if to is not None else [], "{} goes with --over")
    context, spread = _contexts(request, prefill)
    explanation = subject.fewest(
        request,
        lambda pinned: answers.explain.explain(
            subject.setup(request),
            subject.pins(pinned),
            context=context,
            prompt=prefill,
            cut=request.cut,
            shared_prefix=request.shared_prefix or 0.0,
            spread=spread,
            contexts=request.contexts or (),
        ),
    )
    return report.explain.ExplanationPage(explanation, operators, memory)


def _contexts(request: Request, prefill: float | None) -> tuple[float | None, float]:
    """Mean context of the step, and width of the range of contexts around this mean [tokens].

    Raises
    ------
    InputError
        If a prefill step has request lengths, or ``--contexts`` is combined with another option that it replaces.
    """
    if request.contexts is None:
        return workload.step_contexts(request, prefill)
    stray = [*(["prefill"] if prefill is not None else []), *request.named(("context", "isl", "osl", "batch"))]
    refuse(stray, "--contexts says the context of every sequence that decodes; leave {} out", "contexts")
    return 0.0, 0.0


def intensity(request: Request, over: answers.intensity.Axis, to: float | None, prefill: float | None) -> ie.Intensity:
    """Show the arithmetic intensity of each operator, and the value from which the operator is compute-bound."""
    of_steps = ("operators", "memory", "roofline", "contexts", "no_kv_cache", "shared_prefix")
    refuse(filter(request.is_given, of_steps), "{} is of one step; leave it out with --over")
    if over == "context":
        varied = request.named(("context", "isl", "osl"))
        refuse(varied, "{} says what --over context varies; leave one of them out")
        context, spread = None, 0.0
    else:
        context, spread = workload.step_contexts(request, 1.0 if over == "prompt" else prefill)
    setup = subject.setup(request)
    return subject.fewest(
        request,
        lambda pinned: answers.intensity.intensity(
            setup,
            subject.pins(pinned),
            context=context,
            spread=spread,
            over=over,
            most=to,
            prompt=prefill,
            cut=request.cut,
        ),
    )


def speculate(request: Request) -> Shown:
    """Compare TPOT and cost of one deployment with and without speculation.

    The table lists numbers of concurrent requests, and the command reports where speculation stops paying off. By
    default, each batch uses its best draft length, so the speedup is an upper bound for engines. With --draft-length,
    every speculation round has the same length, and the speedup may be below 1. MODEL and HARDWARE are names or paths
    of YAML files.
    """
    speculation = subject.speculation(request)
    if speculation is None:
        raise InputError("give a speculation method: --draft MODEL, --mtp, --eagle or --ngram", option="draft")
    setup, requests = subject.setup(request), workload.requests(request)
    return subject.fewest(
        request, lambda pinned: answers.speculate.speculate(setup, requests, speculation, subject.pins(pinned))
    )


#: Default share of a prompt that is cached [1].
_HIT_RATE = 0.75


def cache(
    request: Request,
    isl: float | None,
    osl: float,
    hit_rate: float | None,
    turns: float | None,
    user_tokens: float,
    system_tokens: float,
    think_time: float,
    lifetime: float,
    replicas: int | None,
    routing: answers.prefix_cache.Routing | None,
) -> answers.prefix_cache.Offloading:
    """Compare recomputing a cached prefix with loading it from a cache tier.

    Tiers are HBM, host memory and SSD. The table has time and cost, and the prefix length from which loading is faster.
    With --turns, the table adds the hit rate of a conversation in each tier, on one instance or behind a router
    (--replicas, --routing). With --traffic, hit rates come from simulated sessions. MODEL and HARDWARE are names or
    paths of YAML files.
    """
    places = [catalog.tier(name) for name in request.tiers or catalog.part_names("tiers")]
    routes = [name for name, value in (("replicas", replicas), ("routing", routing)) if value is not None]
    if request.traffic is not None:
        raise InputError(
            f"{request.traffic} has no sessions of agents; name coding_agent, chat, rag or batch, or a "
            "file with sessions"
        )
    conversation = None
    if turns is None:
        refuse(routes, "{} says where turns of conversations go; give --turns as well")
    else:
        if isl is not None or hit_rate is not None:
            raise InputError("give either --turns, or --isl and --hit-rate, not both", option="turns")
        if routing is not None and (replicas or 1) < 2:
            raise InputError(
                "--routing says which of several instances a turn goes to; give --replicas of 2 or more",
                option="routing",
            )
        conversation = ie.Conversation(turns, user_tokens, osl, think_time, lifetime, system_tokens)
        conversation = replace(conversation, replicas=replicas or 1, routing=routing or "prefix_aware")
    length, share = DEFAULT_ISL if isl is None else isl, _HIT_RATE if hit_rate is None else hit_rate
    tokens, prefix = answers.prefix_cache.prompt(length, share, conversation=conversation)
    requests = workload.requests(request, isl=tokens, osl=osl)
    layouts = subject.fewest(request, lambda pinned: subject.offer(pinned, requests))
    rate = request.request_rate
    return answers.prefix_cache.offload(
        layouts, places, prefix_tokens=prefix, conversation=conversation, requests_per_second=rate
    )
