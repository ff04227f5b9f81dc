"""Prompts that were seen before: computed again, or read from a tier of memory."""

from __future__ import annotations

from collections.abc import Sequence

from inference_econ.answers.conversations import Conversation
from inference_econ.answers.offer import offer
from inference_econ.answers.prefix_cache import Offloading, offload, prompt
from inference_econ.engine import Setup, Space
from inference_econ.inputs import DEFAULT_ISL, DEFAULT_OSL, Requests, catalog

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
