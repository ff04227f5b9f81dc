"""Work in processes of its own: bounded in number, waiting and seconds, and stopped when nobody waits any more."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import anyio
import anyio.to_process

from inference_econ.explorer.questions import RefusedError

T = TypeVar("T")


class BusyError(Exception):
    """More questions wait than can be answered in time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one server does at most.

    Attributes
    ----------
    processes : int
        Questions that are answered at the same time [1].
    waiting : int
        Questions that wait for their turn [1].
    seconds : float
        For one answer [s].
    upload_bytes : int
        Of a request [B].
    kept_bytes : int
        Of answers that are kept for whoever asks the same, and as much of texts that people sent [B].
    """

    processes: int = os.cpu_count() or 2
    waiting: int = 200
    seconds: float = 30.0
    upload_bytes: int = 1_000_000
    kept_bytes: int = 64_000_000


class Workers:
    """Processes that answer questions; made inside of a running event loop."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._turns = anyio.CapacityLimiter(limits.processes)

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """What a function gives in another process, which is killed if it takes too long or nobody waits any more.

        Raises
        ------
        BusyError
            If too many others wait.
        RefusedError
            If it takes too long.
        """
        if self._turns.statistics().tasks_waiting >= self.limits.waiting:
            raise BusyError
        async with self._turns:
            try:
                with anyio.fail_after(self.limits.seconds):
                    return await anyio.to_process.run_sync(work, *arguments, cancellable=True, limiter=_one())
            except anyio.BrokenWorkerProcess as error:
                raise RefusedError(
                    "the process that answers was ended, as it is where memory runs out; ask for less"
                ) from error
            except TimeoutError:
                raise RefusedError(
                    f"this takes longer than the {self.limits.seconds:g} s that an answer may; ask for less, for "
                    "example with fewer degrees left open"
                ) from None


def _one() -> anyio.CapacityLimiter:
    """A limit of its own for each call: turns are taken before the clock starts."""
    return anyio.CapacityLimiter(1)
