"""Execution of the parts of a sweep: in this process, or in further processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from inference_econ.errors import InputError
from inference_econ.extras.sweeps.combinations import Combinations
from inference_econ.extras.sweeps.rows import SweepPart, answered

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

#: Number of running and waiting parts per worker [1]. Workers then never idle, and few results are in memory.
_EACH = 2
#: Number of combinations that take as long as the start of a process, which is a few seconds [1].
_WORTH = 50


def worthwhile(combinations: int) -> int:
    """Number of processes that finish a number of combinations soonest, up to the available cores [1]."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, combinations // _WORTH))


def answers(combinations: Combinations, parts: Iterable[int], jobs: int = 1) -> Iterator[tuple[int, SweepPart]]:
    """Compute parts, and yield each with its index, in any order.

    Parameters
    ----------
    combinations : Combinations
        Combinations.
    parts : iterable of int
        Parts to compute.
    jobs : int
        Processes [1]; this process if 1.

    Raises
    ------
    InputError
        If the system kills one of the processes.
    """
    question, facts, todo = pickle.dumps(combinations.ask), combinations.facts, iter(parts)
    if jobs == 1:
        for index in todo:
            yield index, answered(question, index, facts)
        return
    from concurrent.futures import FIRST_COMPLETED, wait
    from concurrent.futures.process import BrokenProcessPool

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
                        f"the system ended one of the {jobs} worker processes, perhaps because memory ran out; "
                        "finished parts are stored: run the same command again to continue, with fewer --jobs"
                    ) from error
                running |= {pool.submit(answered, question, more, facts): more for more in islice(todo, 1)}


@contextmanager
def _processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Process pool that ends with the block, or when this process is killed."""
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("spawn")
    held, holder = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(jobs, context, _begin, (held,))
    try:
        yield pool
    finally:
        # Only this process has this end of the pipe. Workers notice if it closes, even if this process is killed.
        holder.close()
        pool.shutdown(wait=True, cancel_futures=True)
        held.close()


def _begin(held: Connection) -> None:
    """Prepare a worker: exit when the pipe closes, and ignore interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(held,), daemon=True).start()


def _end_with(held: Connection) -> None:
    held.poll(None)
    os._exit(0)
