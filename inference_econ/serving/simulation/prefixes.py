"""Beginnings of prompts that a memory still holds: blocks of tokens, each held once, however many requests have it.

Requests name what their prompts consist of by parts: a list of (name of the part, whole blocks of it). Prompts that
begin with the same parts share their blocks. Whoever uses a part uses all that come before it, so that whole parts take
the place of single blocks: of a part, and of parts that were used last by the same request, the last blocks go first.
"""

from __future__ import annotations

from collections.abc import Sequence

#: Parts of a prompt in their order: the name of each, and its whole blocks [1].
Parts = Sequence[tuple[int, int]]


def joined(before: Parts, name: int, blocks: int) -> Parts:
    """Return parts with some blocks more at their end: of the last one, if that has the name."""
    if before and before[-1][0] == name:
        return (*before[:-1], (name, before[-1][1] + blocks))
    return (*before, (name, blocks))


class Prefixes:
    """Blocks of one memory that are in use, and those that nobody uses, of which the least recently used go first.

    Engines do so: vLLM, SGLang and TensorRT-LLM free the last blocks of a request first, and take the oldest of those
    that no request uses when they need room.

    Examples
    --------
    >>> memory = Prefixes()
    >>> memory.take([(0, 10), (1, 5)]), memory.release([(0, 10), (1, 5)])
    (0, 0)
    >>> memory.forget(3)
    >>> memory.found([(0, 10), (1, 5)]), memory.found([(0, 10), (2, 7)]), memory.idle_blocks
    (12, 10, 12)
    """

    def __init__(self) -> None:
        #: Blocks of each part that are there, and requests that use it.
        self._held: dict[int, int] = {}
        self._users: dict[int, int] = {}
        #: Parts that nobody uses, the least recently used first.
        self._idle: dict[int, None] = {}
        #: Blocks of these [1].
        self.idle_blocks = 0

    def found(self, parts: Parts) -> int:
        """Return the first blocks of a prompt that are there [1]."""
        total, held = 0, self._held
        for name, blocks in parts:
            there = held.get(name, 0)
            if there < blocks:
                return total + there
            total += blocks
        return total

    def in_use(self, parts: Parts) -> int:
        """Return the first blocks of a prompt that other requests use [1]."""
        total, users = 0, self._users
        for name, blocks in parts:
            if name not in users:
                break
            total += blocks
        return total

    def take(self, parts: Parts) -> int:
        """Use all blocks of a prompt, and return those of them that other requests use as well [1]."""
        shared, held, users, idle = 0, self._held, self._users, self._idle
        for name, blocks in parts:
            before = users.get(name, 0)
            users[name] = before + 1
            if before:
                shared += blocks
                continue
            there = held.get(name, 0)
            if name in idle:
                del idle[name]
                self.idle_blocks -= there
            if blocks > there:
                held[name] = blocks
        return shared

    def release(self, parts: Parts) -> int:
        """Use the blocks of a prompt and its answer no longer, and return those that other requests still use [1]."""
        shared, users = 0, self._users
        for name, blocks in reversed(parts):
            left = users[name] - 1
            if left:
                users[name] = left
                shared += blocks
                continue
            del users[name]
            if blocks:
                self._held[name] = blocks
                self._idle[name] = None
                self.idle_blocks += blocks
            else:
                self._held.pop(name, None)
        return shared

    def keep(self, parts: Parts, room: int) -> None:
        """Note the use of a prompt in a memory of so many blocks that no request runs in."""
        self.take(parts)
        self.release(parts)
        self.forget(self.idle_blocks - room)

    def forget(self, blocks: int) -> None:
        """Drop some blocks that nobody uses, as far as there are any; nothing if their number is not positive [1]."""
        while blocks > 0 and self._idle:
            name = next(iter(self._idle))
            there = self._held[name]
            gone = min(there, blocks)
            if gone == there:
                del self._idle[name], self._held[name]
            else:
                self._held[name] = there - gone
            self.idle_blocks -= gone
            blocks -= gone
