"""Conversations: what their turns repeat, and how much of it a memory still holds."""

from __future__ import annotations

from dataclasses import dataclass

from inference_econ.formulas import prefix_cache


@dataclass(frozen=True, slots=True)
class Conversation:
    """What users do with a service.

    Attributes
    ----------
    turns : float
        Questions of a conversation [1].
    user_tokens, answer_tokens : float
        New tokens of a question and of its answer [tokens].
    think_seconds : float
        Mean time between an answer and the next question [s].
    lifetime_seconds : float
        Time that the cache of a turn is kept at most [s].
    system_tokens : float
        Prompt before the first question, equal for all users [tokens].

    Raises
    ------
    InputError
        If there is less than one turn, a length or time is negative, or an entry is kept for ever.
    """

    turns: float
    user_tokens: float
    answer_tokens: float
    think_seconds: float = 60.0
    lifetime_seconds: float = 600.0
    system_tokens: float = 0.0

    def __post_init__(self) -> None:
        """Refuse impossible conversations."""
        self.stored_tokens(0.0, self.lifetime_seconds)
        self.mean(1.0)

    def mean(self, returning: float) -> prefix_cache.Turns:
        """The mean request if users find the cache of their last turn with some probability."""
        return prefix_cache.turns(
            self.turns, self.user_tokens, self.answer_tokens, system_tokens=self.system_tokens, returning=returning
        )

    def stored_tokens(self, requests_per_second: float, lifetime_seconds: float) -> float:
        """Tokens whose cache waits for its next use at some rate of requests [tokens]."""
        return float(
            prefix_cache.stored_tokens(
                requests_per_second,
                self.turns,
                self.user_tokens,
                self.answer_tokens,
                lifetime_seconds=lifetime_seconds,
                think_seconds=self.think_seconds,
                system_tokens=self.system_tokens,
            )
        )

    def lifetime(self, requests_per_second: float, tokens: float) -> float:
        """How long entries stay where there is room for some tokens, but no longer than they are kept [s]."""
        if self.stored_tokens(requests_per_second, self.lifetime_seconds) <= tokens:
            return self.lifetime_seconds
        return float(
            prefix_cache.lifetime_that_fits(
                tokens,
                requests_per_second,
                self.turns,
                self.user_tokens,
                self.answer_tokens,
                think_seconds=self.think_seconds,
                system_tokens=self.system_tokens,
            )
        )


@dataclass(frozen=True, slots=True)
class Reuse:
    """What a tier holds of some conversations.

    Attributes
    ----------
    lifetime_seconds : float
        Time that an unused entry stays [s]; less than wanted where the room is short.
    needed_bytes : float
        Room that the wanted lifetime takes [B].
    returning : float
        Share of the users whose last turn is still there [1].
    cached_tokens : float
        Tokens of the mean prompt that are found [tokens].
    hit_rate : float
        Of all prompt tokens [1].
    """

    lifetime_seconds: float
    needed_bytes: float
    returning: float
    cached_tokens: float
    hit_rate: float


def reuse(
    conversation: Conversation, requests_per_second: float, capacity_bytes: float, bytes_per_token: float
) -> Reuse:
    """What a memory holds of some conversations, the least recently used entries going first where room is short.

    Parameters
    ----------
    conversation : Conversation
        What users do.
    requests_per_second : float
        Turns of all conversations together [1/s].
    capacity_bytes : float
        Room [B].
    bytes_per_token : float
        Of the cache [B].

    Returns
    -------
    Reuse
        What is found, and the room that would be needed.

    Raises
    ------
    InputError
        If a value is out of its range.
    """
    needed = conversation.stored_tokens(requests_per_second, conversation.lifetime_seconds) * bytes_per_token
    lifetime = conversation.lifetime(requests_per_second, capacity_bytes / bytes_per_token)
    returning = float(prefix_cache.returning(lifetime, conversation.think_seconds))
    mean = conversation.mean(returning)
    return Reuse(lifetime, needed, returning, float(mean.cached), float(mean.cached / mean.prompt))
