"""Prefix cache of conversations: hit rates, and the memory that cached turns need.

The model describes conversations of n turns. The prompt of turn k consists of a system prompt, all earlier questions
and answers, and a new question. The KV cache of a turn stays until the next turn uses it, or at most for the lifetime
of unused entries. The time between an answer and the user's next question (think time) is exponentially distributed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inference_econ._types import Array
from inference_econ.errors import InputError
from inference_econ.formulas.special import wright_omega

ArrayLike = npt.ArrayLike


class ConversationShape(NamedTuple):
    """Turns of a conversation, and the time between them; arrays have the shape (...)."""

    turns: ArrayLike
    """Number n of turns [1]."""
    user_tokens: ArrayLike
    """New tokens u of the user in every turn [tokens]."""
    answer_tokens: ArrayLike
    """Tokens a of every answer [tokens]."""
    system_tokens: ArrayLike = 0.0
    """System prompt s [tokens]. All users share the system prompt, which is therefore always cached."""
    think_seconds: ArrayLike = 60.0
    """Mean time Z between an answer and the next question [s]; the time is exponentially distributed."""


class Turns(NamedTuple):
    """Mean tokens per request (turn) of a conversation; fields have the shape of the arguments."""

    prompt: Array
    """Prompt length [tokens]."""
    repeated: Array
    """Prompt tokens that repeat earlier turns and the system prompt [tokens]."""
    cached: Array
    """Repeated prompt tokens that are in the cache [tokens]."""


def turns(conversation: ConversationShape, returning: ArrayLike = 1.0) -> Turns:
    """Compute the mean prompt and cached tokens per request (turn) of a conversation.

    Parameters
    ----------
    conversation : ConversationShape
        Number of turns [1], their lengths [tokens], and think time [s].
    returning : array_like, shape (...)
        Probability that the KV cache of the previous turn is still stored at a turn [1], see :func:`returning`.

    Returns
    -------
    Turns
        Mean tokens per request, over all turns [tokens].

    Raises
    ------
    InputError
        If there is less than one turn, a length is negative, the user adds no tokens, or the probability is not from 0
        to 1.

    Notes
    -----
    Turn k repeats (k - 1) (u + a) tokens, and the mean of k - 1 over a conversation is (n - 1) / 2. Gao et al. (2024)
    describe the reuse of KV caches in conversations.

    Examples
    --------
    >>> turns(ConversationShape(5, 100, 400, system_tokens=1000), returning=0.5)
    Turns(prompt=array(2100.), repeated=array(2000.), cached=array(1500.))
    """
    number, user, answer, system, _ = _checked(conversation)
    back = _known("returning", returning, most=1.0)
    earlier = (number - 1.0) / 2.0 * (user + answer)
    return Turns(np.asarray(system + earlier + user), np.asarray(system + earlier), np.asarray(system + back * earlier))


def returning(lifetime_seconds: ArrayLike, think_seconds: ArrayLike) -> Array:
    """Probability that a user sends the next question before the KV cache of the last turn is evicted.

    Parameters
    ----------
    lifetime_seconds : array_like, shape (...)
        Lifetime L of an unused entry in the cache [s]; may be ``inf``.
    think_seconds : array_like, shape (...)
        Mean time Z between an answer and the next question [s]; the time is exponentially distributed.

    Returns
    -------
    ndarray, shape (...)
        1 - exp(-L / Z) [1].

    Raises
    ------
    InputError
        If a time is negative, or the mean is zero.

    Notes
    -----
    The formula is the hit rate of Che, Tung and Wang (2002), with the lifetime as characteristic time.

    Examples
    --------
    >>> returning([0.0, 60.0, np.inf], 60.0).round(3)
    array([0.   , 0.632, 1.   ])
    """
    lifetime = _known("lifetime_seconds", lifetime_seconds, infinite=True)
    think = _known("think_seconds", think_seconds, least=1e-9)
    return np.asarray(-np.expm1(-lifetime / think))


def stored_tokens(
    conversation: ConversationShape, requests_per_second: ArrayLike, lifetime_seconds: ArrayLike
) -> Array:
    """Mean number of cached tokens between two uses, for given request rates and lifetimes.

    Parameters
    ----------
    conversation : ConversationShape
        Number of turns [1], their lengths [tokens], and think time [s].
    requests_per_second : array_like, shape (...)
        Rate of turns over all conversations [1/s].
    lifetime_seconds : array_like, shape (...)
        See :func:`returning` [s].

    Returns
    -------
    ndarray, shape (...)
        Mean number of cached tokens over time [tokens]. The system prompt is included once. Entries that running
        requests use are excluded.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    The mean follows from Little's law, Little (1961). One in n turns is the k-th turn of its conversation. After turn
    k, its k (u + a) tokens stay for the shorter of the think time and L, which is Z (1 - exp(-L / Z)) on average. After
    the last turn, the tokens stay for L.

    Examples
    --------
    Two requests per second and three turns of 500 tokens. The lifetime of entries and the mean think time are both a
    minute:

    >>> float(stored_tokens(ConversationShape(3, 100, 400), 2, lifetime_seconds=60).round(1))
    97927.2
    """
    number, user, answer, system, think = _checked(conversation)
    rate, lifetime = _known("requests_per_second", requests_per_second), _known("lifetime_seconds", lifetime_seconds)
    waiting = (number - 1.0) / 2.0 * think * returning(lifetime, think) + lifetime
    return np.asarray(system + rate * (user + answer) * waiting)


def lifetime_that_fits(conversation: ConversationShape, requests_per_second: ArrayLike, tokens: ArrayLike) -> Array:
    """Lifetime of unused entries in an LRU cache of limited size.

    Parameters
    ----------
    conversation : ConversationShape
        Number of turns [1], their lengths [tokens], and think time [s].
    requests_per_second : array_like, shape (...)
        Rate of turns over all conversations [1/s].
    tokens : array_like, shape (...)
        Size of the cache [tokens].

    Returns
    -------
    ndarray, shape (...)
        Lifetime [s]; 0 if the system prompt does not fit.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    The characteristic time of Che, Tung and Wang (2002) is the lifetime at which the stored tokens fill the cache. Let
    c = (n - 1) / 2, let Z be the mean think time, and let r be the time in which new tokens fill the cache. The
    lifetime L solves L + c Z (1 - exp(-L / Z)) = r. The solution is L = d + Z W(c exp(-d / Z)), where d = r - c Z and W
    is Lambert's function. The solution is computed with Wright's omega(x) = W(exp(x)), which does not overflow: Corless
    and Jeffrey (2002).

    Examples
    --------
    >>> float(lifetime_that_fits(ConversationShape(3, 100, 400), 2, 97927.2).round(3))
    60.0
    """
    number, user, answer, system, think = _checked(conversation)
    room, again = np.maximum(_known("tokens", tokens) - system, 0.0), (number - 1.0) / 2.0
    rate = _known("requests_per_second", requests_per_second, least=1e-12)
    # All times in the solution are divided by the mean think time.
    fresh = room / (rate * (user + answer) * think)
    with np.errstate(divide="ignore"):
        lifetime = np.maximum(fresh - again + wright_omega(np.log(again) + again - fresh), 0.0)
    # If the lifetime is short, it is a small difference of large numbers. One step of Newton's method restores the lost
    # digits.
    lifetime -= (lifetime - again * np.expm1(-lifetime) - fresh) / (1.0 + again * np.exp(-lifetime))
    return np.where(room > 0.0, think * np.maximum(lifetime, 0.0), 0.0)


def _checked(conversation: ConversationShape) -> tuple[Array, Array, Array, Array, Array]:
    """Fields of a conversation as arrays."""
    number, user, answer, system, think = conversation
    return (
        _known("turns", number, least=1.0),
        _known("user_tokens", user, least=1.0),
        _known("answer_tokens", answer),
        _known("system_tokens", system),
        _known("think_seconds", think, least=1e-9),
    )


def _known(name: str, values: ArrayLike, *, least: float = 0.0, most: float = np.inf, infinite: bool = False) -> Array:
    numbers = np.asarray(values, dtype=float)
    good = (numbers >= least) & (numbers <= most) & (infinite | np.isfinite(numbers))
    if not good.all():
        limits = f">= {least:g}" if most == np.inf else f"from {least:g} to {most:g}"
        raise InputError(f"{name} must be a number {limits}, got {numbers[~good].flat[0]:g}")
    return numbers
