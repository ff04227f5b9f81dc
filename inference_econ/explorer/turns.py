"""Turns at a few places, in rounds of those who wait: who asks a hundred questions is one of them."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio


class BusyError(Exception):
    """More questions wait than can be answered in time."""


class Turns:
    """A queue for each client; places go round them.

    Parameters
    ----------
    places : int
        Turns at the same time [1].
    waiting : int
        Questions of a client that wait at most, where no other does; of several clients each has an equal share [1].
    """

    def __init__(self, places: int, waiting: int) -> None:
        self._free, self._most = places, waiting
        self._queues: dict[str, deque[anyio.Event]] = {}

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """The turn of a client, as long as the block.

        Raises
        ------
        BusyError
            If it has its share of those who wait already.
        """
        await self._wait(client)
        try:
            yield
        finally:
            self._next()

    async def _wait(self, client: str) -> None:
        if self._free and not self._queues:
            self._free -= 1
            return
        others = len(self._queues.keys() - {client})
        queue = self._queues.get(client, deque())
        if len(queue) >= self._most // (others + 1):
            raise BusyError
        self._queues[client] = queue
        queue.append(mine := anyio.Event())
        try:
            await mine.wait()
        except BaseException:
            if mine.is_set():  # the turn has come at the same moment, and is somebody else's
                self._next()
            else:
                queue.remove(mine)
                if not queue:
                    del self._queues[client]
            raise

    def _next(self) -> None:
        """Give a place that is free to the client whose last turn is the longest ago."""
        client = next(iter(self._queues), None)
        if client is None:
            self._free += 1
            return
        queue = self._queues.pop(client)
        queue.popleft().set()
        if queue:
            self._queues[client] = queue
