"""The ``cache`` command."""

from __future__ import annotations

from dataclasses import replace

import inference_econ as ie
from inference_econ import answers
from inference_econ.errors import InputError
from inference_econ.inputs import DEFAULT_ISL, catalog
from inference_econ.requests import Request, refuse, subject, workload

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
