"""Instances that read prompts and keep beginnings of them, beside others that decode, played step by step.

What a prompt begins with is in the memory of those that read: an answer is written elsewhere, so that the next turn of
its session reads it again. The cache of a whole prompt goes to an instance that decodes, which keeps nothing for the
next turn. SGLang does so ("KV cache is forced as chunk cache for decode server"), unless it is told to keep a radix
cache there; vLLM's connectors leave out what the other side still has, so that these links are busier than theirs.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from inference_econ.errors import InputError
from inference_econ.serving.simulation.arrivals import Loop, Sessions, Stream, feed_of
from inference_econ.serving.simulation.events import Engine, Router, Server, ServerFleet, measured_requests, requests_of
from inference_econ.serving.simulation.trace import Trace


@dataclass(frozen=True, slots=True)
class Writing:
    """Instances that decode, and the way of caches to them.

    Attributes
    ----------
    server : Server
        One that decodes.
    instances : int
        How many there are [1].
    prompt_tokens : float
        Of the prompt that the times are of; those of others are in proportion [tokens].
    exposed_seconds : float
        What is left of the way of a cache when its prompt has been read, if links are free [s].
    sending_seconds, receiving_seconds : float
        For which all links of an instance are taken up by a cache that leaves, or comes [s].
    """

    server: Server
    instances: int
    prompt_tokens: float
    exposed_seconds: float = 0.0
    sending_seconds: float = 0.0
    receiving_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        if self.instances < 1:
            raise InputError(f"instances that decode must be at least 1, got {self.instances}")


def simulate_apart(
    server: Server,
    writing: Writing,
    requests: Stream | Loop | Sessions,
    *,
    warm_up: float = 0.1,
    cool_down: float = 0.05,
    instances: int = 1,
    router: Router = "prefix_aware",
) -> Trace:
    """Play requests through instances that read prompts, and others that decode.

    Parameters
    ----------
    server : Server
        One that reads prompts, with the memory that keeps them.
    writing : Writing
        Those that decode.
    requests, warm_up, cool_down, instances, router
        See :func:`inference_econ.serving.simulation.events.simulate`; instances and router of those that read.

    Returns
    -------
    Trace
        What happened; first tokens come when an instance that decodes has a place.

    Raises
    ------
    InputError
        If the shares leave nothing to measure, or there is not one instance of either kind.
    """
    if instances < 1:
        raise InputError(f"instances that read must be at least 1, got {instances}")
    measured = measured_requests(feed_of(requests).count, warm_up, cool_down)
    if server.cache is not None:
        # No answer is written here, for which room would have to be.
        server = replace(server, cache=replace(server.cache, own_answer=0.0, other_answers=0.0))
    fleet = _Pools(server, writing, requests, instances, router)
    fleet.play()
    return fleet.seen(server, measured, server.slots * instances + writing.server.slots * writing.instances)


class _Pools(ServerFleet):
    """Prefill instances, which requests arrive at, and decode instances."""

    def __init__(
        self, server: Server, writing: Writing, requests: Stream | Loop | Sessions, instances: int, router: Router
    ) -> None:
        super().__init__(server, requests, instances, router, _Reader)
        self.writing = writing
        self.writers = [_Writer(writing.server, self) for _ in range(writing.instances)]
        self.everyone = [*self.engines, *self.writers]

    def hand_over(self, reader: _Reader, request: int) -> None:
        """Send the cache of a prompt that has been read to the instance that has least to decode."""
        writing, writer = self.writing, min(self.writers, key=lambda instance: requests_of(instance) + instance.coming)
        share = self.log.prompts[request] / writing.prompt_tokens
        sent = max(reader.now + share * writing.exposed_seconds, reader.sent_until + share * writing.sending_seconds)
        there = max(sent, writer.received_until + share * writing.receiving_seconds)
        reader.sent_until, writer.received_until = sent, there
        writer.coming += 1
        self.later(there, (writer, request, self.log.evictions[request]))


class _Reader(Engine):
    """A server that reads prompts and keeps what they begin with."""

    fleet: _Pools

    def __init__(self, server: Server, fleet: _Pools) -> None:
        super().__init__(server, fleet)
        #: Until when its links send caches that came before.
        self.sent_until = 0.0

    def answer(self, request: int) -> None:
        """Let go of a prompt that has been read; the first token is told where the others are."""
        if self.osl[request] == 1:
            super().answer(request)
            return
        self.let_out(request, self.isl[request])
        self.fleet.hand_over(self, request)


class _Writer(Engine):
    """A server that decodes what others have read, and reads nothing but what it had to let go."""

    #: Each cache is held for itself, and gone with its answer.
    shares_prompts = False

    def __init__(self, server: Server, fleet: _Pools) -> None:
        super().__init__(server, fleet)
        #: Caches on their way here, until when links are taken up by them, and those that have come and wait.
        self.coming, self.received_until = 0, 0.0
        self.read: set[int] = set()

    def loaded(self, request: int, attempt: int, time: float) -> None:  # noqa: ARG002
        """Take a request whose cache has come."""
        self.coming -= 1
        self.read.add(request)
        self.receive(request, time)

    def admit(self) -> None:
        """Let those that have been read decode with the next step."""
        super().admit()
        for group, admitted in enumerate(self.admitted):
            if any(request in self.read for request, _ in admitted):
                self.admitted[group] = deque(entry for entry in admitted if entry[0] not in self.read)
                for request, _ in admitted:
                    if request in self.read:
                        self.read.discard(request)
                        self.answer(request)
        self.look()

    def send_back(self, request: int, group: int) -> None:
        """To be read again, here, from its first token on."""
        super().send_back(request, group)
        self.log.reused[request] = 0
