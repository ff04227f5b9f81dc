"""Simulation of disaggregated serving: prefill instances with a prefix cache, and decode instances.

Only prefill instances have a prefix cache. Prefill instances do not generate outputs, so the next turn of a session
recomputes the KV cache of the previous output. A prefill instance sends the KV cache of the full prompt to a decode
instance, which frees the cache after the request. SGLang decode instances also have no prefix cache ("KV cache is
forced as chunk cache for decode server") unless a radix cache is enabled.

KV connectors of vLLM do not transfer blocks that are still cached on the decode instance, so simulated links are busier
than the links of vLLM.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from inference_econ.errors import InputError
from inference_econ.serving.simulation.arrivals import Demand
from inference_econ.serving.simulation.events import Engine, Router, Server, ServerFleet, measured_requests, requests_of
from inference_econ.serving.simulation.trace import Trace


@dataclass(frozen=True, slots=True)
class Writing:
    """Decode instances, and the times of KV-cache transfers to these instances.

    Attributes
    ----------
    server : Server
        Configuration of one decode instance.
    instances : int
        Number of decode instances [1].
    prompt_tokens : float
        Prompt length for which the transfer times are valid [tokens]; transfer times are proportional to the prompt
        length.
    exposed_seconds : float
        Transfer time after prefill if the links are idle [s]. The other part of the transfer overlaps with prefill.
    sending_seconds, receiving_seconds : float
        Time that a transfer occupies the links of the sender and the links of the receiver [s].
    """

    server: Server
    instances: int
    prompt_tokens: float
    exposed_seconds: float = 0.0
    sending_seconds: float = 0.0
    receiving_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Reject a configuration without decode instances."""
        if self.instances < 1:
            raise InputError(f"decode instances must be at least 1, got {self.instances}")


def simulate_apart(
    server: Server,
    writing: Writing,
    requests: Demand,
    *,
    warm_up: float = 0.1,
    cool_down: float = 0.05,
    instances: int = 1,
    router: Router = "prefix_aware",
) -> Trace:
    """Simulate requests on prefill instances and decode instances.

    Parameters
    ----------
    server : Server
        Configuration of one prefill instance, with its prefix cache.
    writing : Writing
        Decode instances.
    requests, warm_up, cool_down, instances, router
        See :func:`inference_econ.serving.simulation.events.simulate`; ``instances`` and ``router`` apply to prefill.

    Returns
    -------
    Trace
        Latencies. The first token of a request arrives when a decode instance has a free slot.

    Raises
    ------
    InputError
        If warm-up and cool-down leave no request to measure, or if the number of prefill or decode instances is below
        1.
    """
    if instances < 1:
        raise InputError(f"instances that read must be at least 1, got {instances}")
    measured = measured_requests(requests.feed().count, warm_up, cool_down)
    if server.cache is not None:
        # Prefill instances reserve no memory for outputs.
        server = replace(server, cache=replace(server.cache, own_answer=0.0, other_answers=0.0))
    fleet = _Pools(server, writing, requests, instances, router)
    fleet.play()
    return fleet.seen(server, measured, server.slots * instances + writing.server.slots * writing.instances)


class _Pools(ServerFleet):
    """Simulated prefill instances, which receive the requests, and decode instances."""

    def __init__(self, server: Server, writing: Writing, requests: Demand, instances: int, router: Router) -> None:
        super().__init__(server, requests, instances, router, _Reader)
        self.writing = writing
        self.writers = [_Writer(writing.server, self) for _ in range(writing.instances)]
        self.everyone = [*self.engines, *self.writers]

    def hand_over(self, reader: _Reader, request: int) -> None:
        """Send the KV cache of a prompt to the decode instance with the fewest requests."""
        writing, writer = self.writing, min(self.writers, key=lambda instance: requests_of(instance) + instance.coming)
        share = self.log.prompts[request] / writing.prompt_tokens
        sent = max(reader.now + share * writing.exposed_seconds, reader.sent_until + share * writing.sending_seconds)
        there = max(sent, writer.received_until + share * writing.receiving_seconds)
        reader.sent_until, writer.received_until = sent, there
        writer.coming += 1
        self.later(there, (writer, request, self.log.evictions[request]))


class _Reader(Engine):
    """Simulated prefill instance with a prefix cache."""

    fleet: _Pools

    def __init__(self, server: Server, fleet: _Pools) -> None:
        super().__init__(server, fleet)
        #: Time until which the instance's links are busy with earlier transfers [s].
        self.sent_until = 0.0

    def answer(self, request: int) -> None:
        """Free the blocks of a processed prompt and transfer its KV cache to a decode instance."""
        if self.osl[request] == 1:
            super().answer(request)
            return
        self.let_out(request, self.isl[request])
        self.fleet.hand_over(self, request)


class _Writer(Engine):
    """Simulated decode instance, which runs prefill only for preempted requests."""

    #: The decode instance frees the KV cache of each request at its end, so requests share no blocks.
    shares_prompts = False

    def __init__(self, server: Server, fleet: _Pools) -> None:
        super().__init__(server, fleet)
        #: Number of KV caches in transfer, time until which the links are busy [s], and transferred requests that wait
        #: for a slot.
        self.coming, self.received_until = 0, 0.0
        self.read: set[int] = set()

    def loaded(self, request: int, attempt: int, time: float) -> None:  # noqa: ARG002
        """Queue a request whose KV cache has arrived."""
        self.coming -= 1
        self.read.add(request)
        self.receive(request, time)

    def admit(self) -> None:
        """Admit requests with a transferred KV cache; their decoding starts at the next step."""
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
        """Preempt a request; the decode instance then recomputes its prompt and output."""
        super().send_back(request, group)
        self.log.reused[request] = 0
