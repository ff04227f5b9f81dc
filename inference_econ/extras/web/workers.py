"""Worker processes with limits on number, queue length and run time. Work stops if the client disconnects."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread

from inference_econ.extras.web.questions import RefusedError

T = TypeVar("T")
#: Module that the fork server imports for all workers.
_READY = "inference_econ.extras.web.ready"
#: Variables that limit the threads of numerical libraries.
_SINGLE = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
#: Share of its memory limit above which a worker is replaced after a reply [1]. Otherwise caches and the drawing
#: library, which reserves 1.5 GB, leave too little memory for further requests.
_MOST_USED = 0.5


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Limits of one server.

    Attributes
    ----------
    processes : int
        Maximum number of concurrent commands [1].
    waiting : int
        Maximum number of queued commands of one client, if no other client waits [1].
    seconds : float
        Time limit of a command [s].
    grace_seconds : float
        Time for which work continues after the client disconnects [s], because the next request is often the same.
    memory_bytes : float
        Memory limit of a worker [B]; not enforced on Windows and macOS.
    upload_bytes : int
        Largest request body [B].
    kept_bytes : int
        Capacity of the reply cache, and of uploaded texts [B].
    """

    processes: int = os.cpu_count() or 2
    waiting: int = 200
    seconds: float = 30.0
    grace_seconds: float = 1.0
    memory_bytes: float = 2e9
    upload_bytes: int = 1_000_000
    kept_bytes: int = 64_000_000


def prepare() -> Any:
    """Start the fork server that preloads modules, so that a killed worker is replaced quickly.

    Returns
    -------
    context
        Process factory. Without ``fork`` (Windows), each process loads the modules itself.
    """
    for name in _SINGLE:
        os.environ.setdefault(name, "1")
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", _READY])
    # Ctrl-C reaches all processes of a terminal; the server ends its workers.
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
    forkserver.ensure_running()
    if is_main:
        signal.signal(signal.SIGINT, before)
    return context


class Workers:
    """Pool of worker processes; create it within a running event loop.

    Parameters
    ----------
    limits : WorkerLimits
        Limits on the work.
    """

    def __init__(self, limits: WorkerLimits) -> None:
        self.limits, self._context = limits, prepare()
        self._turns, self._idle = ClientTurns(limits.processes, limits.waiting), list[_Worker]()

    async def run(
        self, work: Callable[..., T], *arguments: object, begun: anyio.Event | None = None, client: str = ""
    ) -> T:
        """Run a function in another process, which is killed on timeout or cancellation.

        Parameters
        ----------
        work : callable
            Function of a module.
        *arguments
            Arguments of the function.
        begun : Event, optional
            Event that is set when the function starts.
        client : str
            Client that sent the request; clients take turns.

        Raises
        ------
        BusyError
            If too many commands of this client are queued.
        RefusedError
            If the function exceeds the time limit or the memory.
        """
        async with self._turns.turn(client):
            if begun is not None:
                begun.set()
            worker = (
                self._idle.pop() if self._idle else await anyio.to_thread.run_sync(_Worker, self._context, self.limits)
            )
            try:
                with anyio.fail_after(self.limits.seconds):
                    result = await anyio.to_thread.run_sync(worker.ask, work, arguments, abandon_on_cancel=True)
            except TimeoutError:
                worker.end()
                raise RefusedError(
                    f"this takes longer than the limit of {self.limits.seconds:g} s; reduce the query, for example by "
                    "fixing more degrees"
                ) from None
            except EOFError:
                worker.end()
                raise RefusedError(
                    "the process that answers was ended, as it is where memory runs out; ask for less"
                ) from None
            except BaseException:
                worker.end()
                raise
            if worker.is_full:
                worker.end()
            else:
                self._idle.append(worker)
        if isinstance(result, Exception):
            raise result
        return cast("T", result)

    def close(self) -> None:
        """Kill all idle workers."""
        while self._idle:
            self._idle.pop().end()


class _Worker:
    """Worker process and its pipe."""

    is_full = False
    """True if the process uses too much memory after a reply, so a new worker must take the next request."""

    def __init__(self, context: Any, limits: WorkerLimits) -> None:
        self._pipe, far = context.Pipe()
        self._process = context.Process(target=_answer, args=(far, int(limits.memory_bytes)), daemon=True)
        self._process.start()
        far.close()

    def ask(self, work: Callable[..., object], arguments: Sequence[object]) -> object:
        """Run a function in the worker, and return its result or error.

        Raises
        ------
        EOFError
            If the process ends before the function returns.
        """
        try:
            self._pipe.send((work, arguments))
            result, self.is_full = self._pipe.recv()
        except OSError as error:
            raise EOFError from error
        return result

    def end(self) -> None:
        """Kill the process; a pending call raises an error."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _answer(pipe: Connection, most_bytes: int) -> None:
    """Worker loop: run functions from a pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(
        ImportError, OSError, ValueError
    ):  # Windows has no memory limits, and the system may already set a lower limit.
        import resource

        # RLIMIT_AS would include the 100 GB of addresses that drawings reserve.
        resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            work, arguments = pipe.recv()
            try:
                result = work(*arguments)
            except MemoryError:
                result = RefusedError(f"this takes more than {most_bytes / 1e9:g} GB of memory; ask for less")
            except Exception as error:  # The error is sent to the caller.
                result = error
            pipe.send((result, _used_bytes() > _MOST_USED * most_bytes))


def _used_bytes() -> float:
    """Memory of this process that counts toward its limit [B]; 0 on systems other than Linux."""
    with suppress(ImportError, OSError):
        import resource

        return float(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * resource.getpagesize()
    return 0.0


class BusyError(Exception):
    """Error for a request that finds the queue full."""


class ClientTurns:
    """Fair queue in which clients take turns.

    Parameters
    ----------
    places : int
        Maximum number of concurrent turns [1].
    waiting : int
        Maximum number of queued requests [1], shared equally between the clients that wait.
    """

    def __init__(self, places: int, waiting: int) -> None:
        self._free, self._most = places, waiting
        self._queues: dict[str, deque[anyio.Event]] = {}

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """Wait for a turn of a client, and reserve it for the duration of the block.

        Raises
        ------
        BusyError
            If the client's share of the queue is full.
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
            if mine.is_set():  # The turn was granted during the cancellation, so it passes to the next client.
                self._next()
            else:
                queue.remove(mine)
                if not queue:
                    del self._queues[client]
            raise

    def _next(self) -> None:
        """Grant a free place to the client whose last turn was longest ago."""
        client = next(iter(self._queues), None)
        if client is None:
            self._free += 1
            return
        queue = self._queues.pop(client)
        queue.popleft().set()
        if queue:
            self._queues[client] = queue
