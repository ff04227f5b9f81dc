"""A server played one step after the other in plain Python: a second calculation of what requests see.

Nothing here is the product's but the time of a step. Memory is a count of blocks of 16 tokens: a request is let in when
the blocks of its prompt are free, takes another whenever it fills one, and when a step does not fit the one that was
let in last goes back to the head of the queue, to be read again with what it has written.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

BLOCK = 16


@dataclass
class Request:
    """One request on its way; times in seconds."""

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

    @property
    def ttft(self) -> float:
        return self.first_token - self.arrival

    @property
    def tpot(self) -> float:
        return (self.last_token - self.first_token) / (self.answer - 1) if self.answer > 1 else math.nan


@dataclass
class Stepwise:
    """A server; ``seconds`` is of (requests that decode, their mean context, parts of prompts: tokens, read before)."""

    seconds: Callable[[int, float, Sequence[tuple[int, int]]], float]
    budget: int
    most: int
    blocks: int
    cached: int = 0
    waiting: deque[Request] = field(default_factory=deque)
    running: list[Request] = field(default_factory=list)
    free: int = 0

    def serve(self, requests: Sequence[Request], ahead: int = 0) -> None:
        """Play requests to the end; newcomers can join a step only so many steps after it was prepared."""
        self.free, now, left, coming = self.blocks, 0.0, len(requests), deque(requests)
        seen: list[deque[Request]] = [deque() for _ in range(ahead)]
        while left:
            if not self.running and not self.waiting and not any(seen):
                now = max(now, coming[0].arrival)
            arrived = deque[Request]()
            while coming and coming[0].arrival <= now:
                arrived.append(coming.popleft())
            seen.append(arrived)
            if not self.running and not self.waiting:
                while seen:
                    self.waiting.extend(seen.pop(0))
                seen = [deque() for _ in range(ahead)]
            else:
                self.waiting.extend(seen.pop(0))
            preempted = self._grow()
            if not preempted:
                self._let_in()
            decoding = [one for one in self.running if one.read >= one.to_read]
            parts, room = [], self.budget
            for one in self.running:
                if one.read < one.to_read and room:
                    tokens = min(one.to_read - one.read, room)
                    parts.append((one, tokens))
                    room -= tokens
            mean = sum(one.prompt + one.written for one in decoding) / len(decoding) if decoding else 0.0
            now += self.seconds(len(decoding), mean, [(tokens, one.read) for one, tokens in parts])
            for one in decoding:
                one.written += 1
            for one, tokens in parts:
                one.read += tokens
                if one.read == one.to_read:
                    one.written += 1
                    if math.isnan(one.first_token):
                        one.first_token = now
            for one in [one for one in self.running if one.written == one.answer]:
                one.last_token = now
                self.running.remove(one)
                self.free += one.blocks
                left -= 1

    def _held(self, one: Request) -> int:
        return math.ceil((self.cached + one.prompt + one.written) / BLOCK)

    def _grow(self) -> bool:
        """Blocks for the tokens that this step writes; who came last goes where there are none."""
        preempted = False
        for one in list(self.running):
            if one not in self.running:
                continue
            more = self._held(one) - one.blocks if one.read >= one.to_read else 0
            while more > self.free and len(self.running) > 1:
                victim = self.running.pop()
                self.free += victim.blocks
                victim.blocks = victim.read = 0
                victim.preempted += 1
                self.waiting.appendleft(victim)
                preempted = True
                if victim is one:
                    break
            else:
                one.blocks += more
                self.free -= more
        return preempted

    def _let_in(self) -> None:
        while self.waiting and len(self.running) < self.most:
            needed = self._held(self.waiting[0])
            if needed > self.free and self.running:
                return
            one = self.waiting.popleft()
            one.blocks, one.to_read, one.read = needed, one.prompt + one.written, 0
            self.free -= needed
            self.running.append(one)
