"""Work in processes of its own: bounded in number, waiting and seconds, and stopped when nobody waits any more."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread

from inference_econ.extras.web.questions import RefusedError

T = TypeVar("T")
#: What loads all that answers need.
_READY = "inference_econ.extras.web.ready"
#: Libraries that would start a thread for each core in every process.
_SINGLE = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Limits of one server.

    Attributes
    ----------
    processes : int
        Questions that are answered at the same time [1].
    waiting : int
        Questions that wait for their turn, of one client where no other waits [1].
    seconds : float
        For one answer [s].
    grace_seconds : float
        For an answer that nobody waits for any more, since the next question is often the same [s].
    upload_bytes : int
        Of a request [B].
    kept_bytes : int
        Of answers that are kept for whoever asks the same, and as much of texts that people sent [B].
    """

    processes: int = os.cpu_count() or 2
    waiting: int = 200
    seconds: float = 30.0
    grace_seconds: float = 1.0
    upload_bytes: int = 1_000_000
    kept_bytes: int = 64_000_000


def prepare() -> Any:
    """Begin to load what answers need in a process that others are copies of, so that one that was ended is soon back.

    Returns
    -------
    context
        Makes processes. Where they cannot be copied (Windows), each loads what it needs for itself.
    """
    for name in _SINGLE:
        os.environ.setdefault(name, "1")
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", _READY])
    forkserver.ensure_running()
    return context


class Workers:
    """Processes that answer questions; made inside of a running event loop.

    Parameters
    ----------
    limits : Limits
        How many, and how long.
    """

    def __init__(self, limits: WorkerLimits) -> None:
        self.limits, self._context = limits, prepare()
        self._turns, self._idle = ClientTurns(limits.processes, limits.waiting), list[_Worker]()

    async def run(
        self, work: Callable[..., T], *arguments: object, begun: anyio.Event | None = None, client: str = ""
    ) -> T:
        """Result of a function in another process, which is ended if it takes too long or the call is cancelled.

        Parameters
        ----------
        work : callable
            A function of a module.
        *arguments
            Of it.
        begun : Event, optional
            Set when its turn has come.
        client : str
            Who asks: clients take turns.

        Raises
        ------
        BusyError
            If too many questions of this client wait.
        RefusedError
            If it takes too long, or more memory than there is.
        """
        async with self._turns.turn(client):
            if begun is not None:
                begun.set()
            worker = self._idle.pop() if self._idle else await anyio.to_thread.run_sync(_Worker, self._context)
            try:
                with anyio.fail_after(self.limits.seconds):
                    result = await anyio.to_thread.run_sync(worker.ask, work, arguments, abandon_on_cancel=True)
            except TimeoutError:
                worker.end()
                raise RefusedError(
                    f"this takes longer than the {self.limits.seconds:g} s that an answer may; ask for less, for "
                    "example with fewer degrees left open"
                ) from None
            except EOFError:
                worker.end()
                raise RefusedError(
                    "the process that answers was ended, as it is where memory runs out; ask for less"
                ) from None
            except BaseException:
                worker.end()
                raise
            self._idle.append(worker)
        if isinstance(result, Exception):
            raise result
        return cast("T", result)

    def close(self) -> None:
        """End all processes that wait for work."""
        while self._idle:
            self._idle.pop().end()


class _Worker:
    """One process, and the pipe to it."""

    def __init__(self, context: Any) -> None:
        self._pipe, far = context.Pipe()
        self._process = context.Process(target=_answer, args=(far,), daemon=True)
        self._process.start()
        far.close()

    def ask(self, work: Callable[..., object], arguments: Sequence[object]) -> object:
        """Result of a function there, or the error that it raises.

        Raises
        ------
        EOFError
            If the process ends before.
        """
        try:
            self._pipe.send((work, arguments))
            return self._pipe.recv()
        except OSError as error:
            raise EOFError from error

    def end(self) -> None:
        """End the process at once; who asks it gets an error."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _answer(pipe: Connection) -> None:
    """Do what comes through a pipe until it is closed."""
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            work, arguments = pipe.recv()
            try:
                result = work(*arguments)
            except Exception as error:  # for whoever asked
                result = error
            pipe.send(result)


class BusyError(Exception):
    """More questions wait than can be answered in time."""


class ClientTurns:
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
