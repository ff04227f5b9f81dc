"""A step-by-step server in plain Python: a second calculation of request latencies.

Only the step time comes from the product. Memory is a number of blocks of 16 tokens. A request is admitted when the
blocks of its prompt are free, and takes another block whenever it fills one. When a step does not fit, the last
admitted request returns to the head of the queue, and its prompt and output are recomputed. Each attention-DP group has
its own slots, memory and budget of prompt tokens, and can delay prefill until all groups have a prompt.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

BLOCK = 16


@dataclass
class Request:
    """Represent one request; times in seconds."""

    arrival: float
    prompt: int
    answer: int
    written: int = 0
    to_read: int = 0
    read: int = 0
    blocks: int = 0
    first_token: float = math.nan
    last_token: float = math.nan
    preempted: int = 0
    group: int = 0

    @property
    def ttft(self) -> float:
        return self.first_token - self.arrival

    @property
    def tpot(self) -> float:
        return (self.last_token - self.first_token) / (self.answer - 1) if self.answer > 1 else math.nan


@dataclass
class Stepwise:
    """Represent a server.

    ``seconds`` is a function of two inputs: per group, the requests that decode and the parts of prompts (tokens,
    processed before); and the mean context of all that decode. Budget, maximum concurrency and blocks apply to one
    group.
    """

    seconds: Callable[[Sequence[tuple[int, Sequence[tuple[int, int]]]], float], float]
    budget: int
    most: int
    blocks: int
    cached: int = 0
    groups: int = 1
    held: int = 0
    in_turn: bool = False
    waiting: list[deque[Request]] = field(default_factory=list)
    running: list[Request] = field(default_factory=list)
    free: list[int] = field(default_factory=list)

    def serve(self, requests: Sequence[Request], ahead: int = 0) -> None:
        """Simulate all requests; a new request can join only ``ahead`` steps after its arrival."""
        self.free, self.waiting = [self.blocks] * self.groups, [deque() for _ in range(self.groups)]
        now, left, coming, held = 0.0, len(requests), deque(requests), 0
        seen: list[list[Request]] = [[] for _ in range(ahead)]
        while left:
            if not self.running and not any(self.waiting) and not any(seen):
                now = max(now, coming[0].arrival)
            arrived = []
            while coming and coming[0].arrival <= now:
                arrived.append(coming.popleft())
                arrived[-1].group = self._group(len(requests) - len(coming) - 1, seen, arrived[:-1])
            seen.append(arrived)
            idle = not self.running and not any(self.waiting)
            for newcomers in seen if idle else seen[:1]:
                for request in newcomers:
                    self.waiting[request.group].append(request)
            seen = [[] for _ in range(ahead)] if idle else seen[1:]
            if not self._grow():
                self._let_in()
            decoding = [one for one in self.running if one.read >= one.to_read]
            unread = [[one for one in self.running if one.group == group and one.read < one.to_read]
                      for group in range(self.groups)]  # fmt: skip
            begun = any(one.read for of_a_group in unread for one in of_a_group)
            held = held + 1 if decoding and any(unread) and not all(unread) and not begun and held < self.held else 0
            parts = [[] if held else self._parts(of_a_group) for of_a_group in unread]
            mean = sum(one.prompt + one.written for one in decoding) / len(decoding) if decoding else 0.0
            now += self.seconds(
                [
                    (sum(one.group == group for one in decoding), [(tokens, one.read) for one, tokens in of_a_group])
                    for group, of_a_group in enumerate(parts)
                ],
                mean,
            )
            for one in decoding:
                one.written += 1
            for one, tokens in (part for of_a_group in parts for part in of_a_group):
                one.read += tokens
                if one.read == one.to_read:
                    one.written += 1
                    if math.isnan(one.first_token):
                        one.first_token = now
            for one in [one for one in self.running if one.written == one.answer]:
                one.last_token = now
                self.running.remove(one)
                self.free[one.group] += one.blocks
                left -= 1

    def _group(self, number: int, seen: Sequence[Sequence[Request]], arrived: Sequence[Request]) -> int:
        """Return the next group in turn, or the one with the fewest requests; each without a slot weighs four."""
        if self.in_turn:
            return number % self.groups
        busy = [4 * len(waiting) for waiting in self.waiting]
        for one in self.running:
            busy[one.group] += 1
        for one in (one for newcomers in (*seen, arrived) for one in newcomers):
            busy[one.group] += 4
        return busy.index(min(busy))

    def _parts(self, unread: Sequence[Request]) -> list[tuple[Request, int]]:
        """Return the prompts that a group processes in a step, and the tokens of each."""
        parts, room = [], self.budget
        for one in unread:
            if room:
                tokens = min(one.to_read - one.read, room)
                parts.append((one, tokens))
                room -= tokens
        return parts

    def _held(self, one: Request) -> int:
        return math.ceil((self.cached + one.prompt + one.written) / BLOCK)

    def _grow(self) -> bool:
        """Allocate blocks for the tokens of this step; without free blocks, preempt the last admitted request."""
        preempted = False
        for one in list(self.running):
            if one not in self.running:
                continue
            more = self._held(one) - one.blocks if one.read >= one.to_read else 0
            while more > self.free[one.group]:
                beside = [other for other in self.running if other.group == one.group]
                if len(beside) == 1:
                    break
                victim = beside[-1]
                self.running.remove(victim)
                self.free[victim.group] += victim.blocks
                victim.blocks = victim.read = 0
                victim.preempted += 1
                self.waiting[victim.group].appendleft(victim)
                preempted = True
                if victim is one:
                    break
            if one in self.running:
                one.blocks += more
                self.free[one.group] -= more
        return preempted

    def _let_in(self) -> None:
        for group, waiting in enumerate(self.waiting):
            inside = sum(one.group == group for one in self.running)
            while waiting and inside < self.most:
                needed = self._held(waiting[0])
                if needed > self.free[group] and inside:
                    break
                one = waiting.popleft()
                one.blocks, one.to_read, one.read = needed, one.prompt + one.written, 0
                self.free[group] -= needed
                self.running.append(one)
                inside += 1
