"""Prefix cache of conversations on several replicas without prefix-aware routing: hit rates and memory.

Round-robin routing over many conversations effectively sends each turn to a random replica. A replica then has the
conversation up to the last turn that it served. This part is a cache hit for a later prompt at the replica, unless the
part was evicted. Prefix-aware routing sends all turns of a conversation to one replica. For prefix-aware routing, and
for a single replica, use :mod:`inference_econ.formulas.prefix_cache` with the replica's share of the requests.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.formulas import prefix_cache
from inference_econ.formulas.prefix_cache import ConversationShape
from inference_econ.formulas.special import gamma_shares

#: Maximum number of doublings and halvings in the search for a lifetime [1].
_STEPS = 200
#: Maximum number of turns in a conversation [1]; the calculation loops over the turns.
_MOST_TURNS = 10_000


def scattered_turns(conversation: ConversationShape, replicas: int, lifetime_seconds: float) -> prefix_cache.Turns:
    """Mean prompt and cached tokens per request (turn) of a conversation, if turns go to random replicas.

    Parameters
    ----------
    conversation : ConversationShape
        Number of turns, an integer [1], their lengths [tokens], and think time [s].
    replicas : int
        Number of replicas R [1].
    lifetime_seconds : float
        Lifetime L of an unused entry in the cache [s]; may be ``inf``.

    Returns
    -------
    Turns
        Mean tokens per request, over all turns [tokens].

    Raises
    ------
    InputError
        If the number of turns or ``replicas`` is not a positive integer, or another value is out of range.

    Notes
    -----
    Turn k reuses the cache of turn k - m under two conditions. First, turn k - m was the previous turn at the same
    replica, which has the probability (1 - 1/R)^(m-1) / R. Second, the sum of m think times is shorter than the
    lifetime, which has the probability G(m) = P(Erlang(m, Z) <= L). Turn k then reuses (k - m) (u + a) tokens; the sum
    over all k is (u + a) (n - m) (n - m + 1) / 2. The lifetime is the characteristic time of Che, Tung and Wang (2002).
    For one replica, the hit probability is :func:`inference_econ.formulas.prefix_cache.returning`.

    Examples
    --------
    Conversations of four turns on two replicas; the lifetime is unlimited:

    >>> found = scattered_turns(ConversationShape(4, 100, 400), 2, lifetime_seconds=float("inf"))
    >>> float(found.repeated), float(found.cached)
    (750.0, 484.375)
    """
    number, user, answer, system, think = _whole(conversation, replicas)
    mean = prefix_cache.turns(conversation)
    ago = np.arange(1.0, number)
    last = (1.0 - 1.0 / replicas) ** (ago - 1.0) / replicas
    left = (number - ago) * (number - ago + 1.0) / 2.0
    kept = _pauses_shorter(number, lifetime_seconds, think)
    cached = (user + answer) / number * float((last * kept * left).sum())
    return mean._replace(cached=np.asarray(system + cached))


def scattered_tokens(
    conversation: ConversationShape, requests_per_second: float, replicas: int, lifetime_seconds: float
) -> float:
    """Mean number of cached tokens between two uses on one replica, if turns go to random replicas.

    Parameters
    ----------
    conversation, replicas, lifetime_seconds : ConversationShape, int, float
        See :func:`scattered_turns` [1], [tokens] and [s].
    requests_per_second : float
        Rate of turns at the replica [1/s].

    Returns
    -------
    float
        Mean over time [tokens], without copies on other replicas.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    The mean follows from Little's law, Little (1961). Turn j leaves j (u + a) tokens on its replica. These tokens stay
    until the conversation returns to this replica, or for the lifetime. A conversation returns m turns later with
    probability (1 - 1/R)^(m-1) / R. The shorter of m think times and the lifetime has the mean Z times the sum of G(1)
    to G(m), with G as in :func:`scattered_turns`.

    Examples
    --------
    >>> tokens = scattered_tokens(ConversationShape(3, 100, 400), 2, 1, lifetime_seconds=60)
    >>> round(tokens, 1)
    97927.2
    """
    number, user, answer, system, think = _whole(conversation, replicas)
    turn, elsewhere = np.arange(1.0, number + 1.0), 1.0 - 1.0 / replicas
    pauses = think * np.cumsum(_pauses_shorter(number, lifetime_seconds, think))
    back = elsewhere ** np.arange(number - 1.0) / replicas
    # After turn j, n - j turns of the conversation follow.
    waits = np.concatenate([[0.0], np.cumsum(back * pauses)])[::-1] + elsewhere ** (number - turn) * lifetime_seconds
    waiting = float((turn * waits).sum()) / number
    return system + requests_per_second * (user + answer) * waiting


def scattered_lifetime(
    conversation: ConversationShape, requests_per_second: float, replicas: int, tokens: float
) -> float:
    """Lifetime of unused entries in an LRU cache of limited size, if turns go to random replicas.

    Parameters
    ----------
    conversation, requests_per_second, replicas : ConversationShape, float, int
        See :func:`scattered_tokens` [1/s], [1], [tokens] and [s].
    tokens : float
        Size of the replica's cache [tokens].

    Returns
    -------
    float
        Lifetime at which the tokens of :func:`scattered_tokens` fill the cache [s]; 0 if the system prompt does not
        fit.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    The lifetime is the characteristic time of Che, Tung and Wang (2002). For one replica,
    :func:`inference_econ.formulas.prefix_cache.lifetime_that_fits` has an exact solution.

    Examples
    --------
    >>> round(scattered_lifetime(ConversationShape(3, 100, 400), 2, 1, 97927.2), 2)
    60.0
    """
    stored = partial(scattered_tokens, conversation, requests_per_second, replicas)
    if tokens <= stored(0.0):
        return 0.0
    # Tokens of a conversation's last turn stay for the full lifetime.
    _, user, answer, system, _ = _whole(conversation, replicas)
    low, high = 0.0, (tokens - system) / (requests_per_second * (user + answer))
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if stored(middle) <= tokens else (low, middle)
    return low


def _pauses_shorter(number: int, lifetime_seconds: float, think_seconds: float) -> Array:
    """Probability that the sum of 1, 2, .. ``number`` think times is shorter than a lifetime [1]."""
    if math.isinf(lifetime_seconds):
        return np.ones(number - 1)
    return gamma_shares(np.arange(1.0, number), np.asarray(lifetime_seconds / think_seconds))


def _whole(conversation: ConversationShape, replicas: float) -> tuple[int, float, float, float, float]:
    """Fields of a conversation as numbers; the numbers of turns and replicas must be integers in range."""
    count, *others = (float(np.asarray(value)) for value in conversation)
    for name, value in (("turns", count), ("replicas", replicas)):
        if not (value >= 1 and float(value).is_integer()):
            raise InputError(f"{name} must be an integer >= 1 with several replicas, got {value:g}")
    if count > _MOST_TURNS:
        raise InputError(f"turns must be at most {_MOST_TURNS:,} before several replicas, got {count:g}")
    user, answer, system, think = others
    return int(count), user, answer, system, think
