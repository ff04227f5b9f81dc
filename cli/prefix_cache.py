"""The command that holds reading a prefix cache against computing it again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ import answers, inputs
from inference_econ.errors import InputError
from inference_econ.inputs import DEFAULT_ISL, catalog

from . import options
from .help import question
from .refusals import named_options, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence


#: Share of a prompt that was seen before, where nothing is said of it [1].
_HIT_RATE = 0.75
#: What a traffic says.
_OF_TRAFFIC = (*("isl", "hit_rate", "osl", "turns", "user_tokens", "system_tokens", "think_time", "lifetime"),)


@question("cache")
def cache(tiers: tuple[str, ...], **choices: Any) -> answers.prefix_cache.Offloading:
    """Prompts that were seen before: compute them again, or read their cache from HBM, host memory or SSD.

    Seconds, dollars, and from which length on reading is quicker; with --turns also how much of a conversation each
    tier still holds, on one instance or on each of --replicas, whose router follows prefixes or not (--routing), and
    with --traffic how much of its sessions they have when these are played. MODEL and HARDWARE as in 'frontier'.
    """
    places = [catalog.tier(name) for name in tiers or catalog.part_names("tiers")]
    if choices["traffic"] is not None:
        return _of_sessions(choices, places)
    conversation = _conversation(choices)
    isl, hit_rate = (
        usual if choices[name] is None else choices[name]
        for name, usual in (("isl", DEFAULT_ISL), ("hit_rate", _HIT_RATE))
    )
    tokens, prefix = answers.prefix_cache.prompt(isl, hit_rate, conversation=conversation)
    requests = options.requests(choices, isl=tokens, osl=choices["osl"])
    layouts = options.fewest(choices, lambda pinned: options.offer(pinned, requests))
    rate = choices["request_rate"]
    return answers.prefix_cache.offload(
        layouts, places, prefix_tokens=prefix, conversation=conversation, requests_per_second=rate
    )


def _of_sessions(choices: options.Choices, tiers: Sequence[inputs.TierSpec]) -> answers.prefix_cache.Offloading:
    """Answer for sessions that are played.

    Raises
    ------
    InputError
        If what their traffic says is said otherwise.
    """
    stray = filter(options.is_given, _OF_TRAFFIC)
    refuse(stray, "give either --traffic or {}, not both: a traffic says that, too")
    text = "{} is of conversations (--turns); sessions are played on one instance here, on several by 'load --traffic'"
    refuse(named_options(choices, ("replicas", "routing")), text)
    sessions = ie.Agents.of(choices["traffic"])
    layouts = options.fewest(choices, lambda pinned: options.offer(pinned, sessions.requests))
    return sessions.offload(layouts, tiers, requests_per_second=choices["request_rate"])


def _conversation(choices: options.Choices) -> ie.Conversation | None:
    """Conversation of users, if turns are given.

    Raises
    ------
    InputError
        If the length of prompts is given in two ways, or a router without conversations or replicas.
    """
    if choices["turns"] is None:
        text = "{} says where turns of conversations go; give --turns as well"
        refuse(named_options(choices, ("replicas", "routing")), text)
        return None
    if choices["isl"] is not None or choices["hit_rate"] is not None:
        raise InputError("give either --turns, or --isl and --hit-rate, not both", option="turns")

    names = ("turns", "user_tokens", "osl", "think_time", "lifetime", "system_tokens")
    replicas = choices["replicas"] or 1
    if choices["routing"] is not None and replicas < 2:
        raise InputError(
            "--routing says which of several instances a turn goes to; give --replicas of 2 or more", option="routing"
        )
    routed: answers.conversations.Routing = choices["routing"] or "prefix_aware"
    return replace(ie.Conversation(*(choices[name] for name in names)), replicas=replicas, routing=routed)
