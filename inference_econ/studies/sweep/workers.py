"""Workers that answer the parts of a sweep: this process, processes beside it, or the workers of a Dask scheduler."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from inference_econ.errors import InputError
from inference_econ.studies.sweep.combinations import Combinations
from inference_econ.studies.sweep.rows import Part, answered

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from distributed import Client

#: Gives parts with their index, in any order.
Answering = Callable[[Combinations, Iterable[int]], Iterator[tuple[int, Part]]]
#: Parts that are under way or wait for each worker: it never idles, and few results are held [1].
_EACH = 2
#: A scheduler that does not answer by then is none, and one that has no worker by then has none [s].
_PATIENCE = 5.0
#: Combinations that take as long as the start of a process, a few seconds [1].
_WORTH = 50
_KEPT = "what is done is kept: run the same again to go on"


def worthwhile(combinations: int) -> int:
    """Processes that answer so many combinations the soonest: of the cores of this process, as far as each pays [1]."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, combinations // _WORTH))


def alone(combinations: Combinations, parts: Iterable[int]) -> Iterator[tuple[int, Part]]:
    """Parts answered in this process, in order."""
    question = pickle.dumps(combinations.ask)
    for index in parts:
        yield index, answered(question, index, combinations.facts)


def beside(jobs: int) -> Answering:
    """Parts answered by so many processes beside this one.

    Parameters
    ----------
    jobs : int
        Processes [1].
    """

    def answering(combinations: Combinations, parts: Iterable[int]) -> Iterator[tuple[int, Part]]:
        from concurrent.futures import FIRST_COMPLETED, wait
        from concurrent.futures.process import BrokenProcessPool

        question, facts, todo = pickle.dumps(combinations.ask), combinations.facts, iter(parts)
        with _processes(jobs) as pool:
            running = {pool.submit(answered, question, index, facts): index for index in islice(todo, _EACH * jobs)}
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    index = running.pop(future)
                    try:
                        yield index, future.result()
                    except BrokenProcessPool as error:
                        raise InputError(
                            f"the system ended one of the {jobs} worker processes, perhaps for want of memory; "
                            f"{_KEPT}, with fewer --jobs"
                        ) from error
                    running |= {pool.submit(answered, question, more, facts): more for more in islice(todo, 1)}

    return answering


@contextmanager
def _processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the block, however it ends, and with this process, however that ends."""
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("spawn")
    held, holder = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(jobs, context, _begin, (held,))
    try:
        yield pool
    finally:
        # Nobody else holds this end: workers see it close, also when this process is killed.
        holder.close()
        pool.shutdown(wait=True, cancel_futures=True)
        held.close()


def _begin(held: Connection) -> None:
    """Make a worker end when its pipe is closed, and leave interrupts to the process that has it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(held,), daemon=True).start()


def _end_with(held: Connection) -> None:
    held.poll(None)
    os._exit(0)


def of_scheduler(address: str) -> Answering:
    """Parts answered by the workers of a Dask cluster.

    Parameters
    ----------
    address : str
        Of its scheduler, ``tcp://10.0.0.1:8786``.
    """

    def answering(combinations: Combinations, parts: Iterable[int]) -> Iterator[tuple[int, Part]]:
        from distributed import as_completed

        question, facts, todo = pickle.dumps(combinations.ask), combinations.facts, iter(parts)
        with _client(address) as client:

            def submitted(index: int) -> Any:
                key = f"{combinations.digest[:12]}-{index}"
                return client.submit(_numbered, question, index, facts, key=key, pure=False)

            threads = sum(worker["nthreads"] for worker in client.scheduler_info(n_workers=-1)["workers"].values())
            running: Any = as_completed(map(submitted, islice(todo, _EACH * threads)), loop=client.loop)
            for future in running:
                yield _result(future, address)
                for more in islice(todo, 1):
                    running.add(submitted(more))

    return answering


def _numbered(asked: bytes, index: int, facts: str) -> tuple[int, Part]:
    return index, answered(asked, index, facts)


def _result(future: Any, address: str) -> tuple[int, Part]:
    """Result that a worker of a cluster answered.

    Raises
    ------
    InputError
        If it cannot, or is gone.
    """
    from distributed import KilledWorker

    try:
        result: tuple[int, Part] = future.result()
        return result
    except InputError:
        raise
    except KilledWorker as error:
        raise InputError(f"workers of {address} ended, again and again, on the same part; {_KEPT}") from error
    except ModuleNotFoundError as error:
        raise InputError(f"workers of {address} lack {error.name}; install inference-econ[studies] there") from error
    except Exception as error:
        if future.status not in ("cancelled", "lost"):
            raise
        raise InputError(f"the scheduler {address} is gone; {_KEPT}") from error


@contextmanager
def _client(address: str) -> Iterator[Client]:
    """A cluster with at least one worker.

    Raises
    ------
    InputError
        If there is none.
    """
    from distributed import Client

    check_scheduler(address)
    with Client(address, timeout=_PATIENCE, set_as_default=False) as client:
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError as error:
            raise InputError(
                f"the scheduler {address} has no workers; start some with 'dask worker {address} --nthreads 1'"
            ) from error
        yield client


def check_scheduler(address: str) -> None:
    """Refuse an address where no Dask scheduler answers.

    Raises
    ------
    InputError
        Within a few seconds.
    """
    from concurrent.futures import ThreadPoolExecutor

    import distributed  # sets levels of its own when it is loaded

    # It tells the log of every attempt, and of a lost scheduler with a traceback; what counts is told here.
    for name in (distributed.__name__, f"{distributed.__name__}.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        # In a thread, since this one may have an event loop of its own, as notebooks do.
        with ThreadPoolExecutor(1) as apart:
            kind = apart.submit(asyncio.run, asyncio.wait_for(_kind_of(address), _PATIENCE)).result()
    except (OSError, ValueError) as error:
        raise InputError(
            f"--scheduler {address}: no Dask scheduler answers there within {_PATIENCE:g} s; start one with "
            "'dask scheduler', and give the address that it prints, for example tcp://10.0.0.1:8786"
        ) from error
    if kind != "Scheduler":
        raise InputError(
            f"--scheduler {address}: a Dask {str(kind).lower()} answers there; give the address of the scheduler"
        )


async def _kind_of(address: str) -> object:
    """Kind of server at an address, by its own word."""
    from distributed.core import rpc

    async with rpc(address) as there:
        return (await there.identity())["type"]
