"""Conversations: what their turns repeat, and how much of it a memory still holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from inference_econ.errors import InputError
from inference_econ.formulas import prefix_cache, routing

#: Where a router sends the turns of a conversation.
Routing = Literal["prefix_aware", "round_robin"]
ROUTINGS: tuple[Routing, ...] = get_args(Routing)


@dataclass(frozen=True, slots=True)
class Conversation:
    """Conversations of users with a service.

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
    replicas : int
        Instances behind a router, which share the requests evenly [1].
    routing : {'prefix_aware', 'round_robin'}
        All turns of a conversation go to the replica that holds it, or each to the next one.

    Raises
    ------
    InputError
        If there is less than one turn, a length or time is negative, or an entry is kept for ever; if turns that are
        dealt to several replicas are no whole number; or there is no such routing.
    """

    turns: float
    user_tokens: float
    answer_tokens: float
    think_seconds: float = 60.0
    lifetime_seconds: float = 600.0
    system_tokens: float = 0.0
    replicas: int = 1
    routing: Routing = "prefix_aware"

    def __post_init__(self) -> None:
        """Refuse impossible conversations."""
        if self.routing not in ROUTINGS:
            raise InputError(f"routing: got {self.routing!r}; allowed: {', '.join(ROUTINGS)}")
        if self.replicas < 1:
            raise InputError(f"replicas must be a whole number from 1 on, got {self.replicas:g}")
        self.stored_tokens(0.0, self.lifetime_seconds)
        self.mean(1.0)

    def mean(self, returning: float) -> prefix_cache.Turns:
        """The mean request if users find the cache of their last turn with some probability."""
        return prefix_cache.turns(
            self.turns, self.user_tokens, self.answer_tokens, system_tokens=self.system_tokens, returning=returning
        )

    @property
    def scattered(self) -> bool:
        """Whether turns come to replicas that hold nothing, or only an earlier part, of their conversation."""
        return self.replicas > 1 and self.routing == "round_robin"

    def found(self, lifetime_seconds: float) -> prefix_cache.Turns:
        """The mean request if unused entries stay for some time [s]."""
        if not self.scattered:
            return self.mean(float(prefix_cache.returning(lifetime_seconds, self.think_seconds)))
        return routing.scattered_turns(
            self.turns, self.user_tokens, self.answer_tokens, self.replicas,
            lifetime_seconds=lifetime_seconds, **self._pauses,
        )  # fmt: skip

    def stored_tokens(self, requests_per_second: float, lifetime_seconds: float) -> float:
        """Tokens whose cache waits on an instance for its next use, at some rate of requests there [tokens]."""
        lengths = requests_per_second, self.turns, self.user_tokens, self.answer_tokens
        if self.scattered:
            return routing.scattered_tokens(*lengths, self.replicas, lifetime_seconds=lifetime_seconds, **self._pauses)
        return float(prefix_cache.stored_tokens(*lengths, lifetime_seconds=lifetime_seconds, **self._pauses))

    def lifetime(self, requests_per_second: float, tokens: float) -> float:
        """How long entries stay where there is room for some tokens, but no longer than they are kept [s]."""
        if self.stored_tokens(requests_per_second, self.lifetime_seconds) <= tokens:
            return self.lifetime_seconds
        lengths = tokens, requests_per_second, self.turns, self.user_tokens, self.answer_tokens
        if self.scattered:
            return routing.scattered_lifetime(*lengths, self.replicas, **self._pauses)
        return float(prefix_cache.lifetime_that_fits(*lengths, **self._pauses))

    @property
    def _pauses(self) -> dict[str, Any]:
        return {"think_seconds": self.think_seconds, "system_tokens": self.system_tokens}


@dataclass(frozen=True, slots=True)
class Reuse:
    """Reuse of some conversations that a tier holds.

    Attributes
    ----------
    lifetime_seconds : float
        Time that an unused entry stays [s]; less than wanted where the room is short.
    needed_bytes : float
        Room that the wanted lifetime takes [B].
    returning : float
        Share of the users whose last turn is still there, on the replica that they come to [1].
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
    """Reuse of some conversations that a memory holds, the least recently used entries going first where room is short.

    Parameters
    ----------
    conversation : Conversation
        What users do.
    requests_per_second : float
        Turns of all conversations together that come to the instance [1/s].
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
    back = float(prefix_cache.returning(lifetime, conversation.think_seconds))
    returning = back / conversation.replicas if conversation.scattered else back
    mean = conversation.found(lifetime)
    return Reuse(lifetime, needed, returning, float(mean.cached), float(mean.cached / mean.prompt))
