"""Work in other processes: limits on time and queue, cancellation without clients, and recovery."""

from __future__ import annotations

import operator
import os
import sys
import time
from functools import partial

import anyio
import pytest

from inference_econ.extras.web.questions import RefusedError
from inference_econ.extras.web.workers import BusyError, ClientTurns, WorkerLimits, Workers


async def _limited() -> None:
    workers = Workers(WorkerLimits(processes=1, waiting=1, seconds=3))
    with pytest.raises(RefusedError, match=r"longer than the limit of 3 s"):
        await workers.run(time.sleep, 60)
    assert await workers.run(operator.neg, 4) == -4
    with pytest.raises(RefusedError, match="memory runs out"):
        await workers.run(os._exit, 1)
    assert await workers.run(operator.neg, 5) == -5
    with pytest.raises(ZeroDivisionError):
        await workers.run(operator.truediv, 1, 0)
    workers.close()


def test_what_takes_too_long_or_vanishes_is_refused_and_the_next_answered() -> None:
    anyio.run(_limited)


async def _bounded() -> None:
    workers = Workers(WorkerLimits(processes=1, memory_bytes=1e9))
    with pytest.raises(RefusedError, match="this takes more than 1 GB of memory; ask for less"):
        await workers.run(bytearray, 2_000_000_000)
    assert await workers.run(operator.neg, 4) == -4
    before = await workers.run(os.getpid)
    await workers.run(exec, "import sys; sys.kept = bytearray(600_000_000)")
    assert await workers.run(os.getpid) != before
    workers.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit memory")
def test_memory_of_a_worker_is_bounded_and_a_full_worker_replaced() -> None:
    anyio.run(_bounded)


async def _cancelled() -> tuple[int, int, float]:
    workers = Workers(WorkerLimits(processes=1))
    before = await workers.run(os.getpid)
    start = time.monotonic()
    with anyio.move_on_after(0.2):
        await workers.run(time.sleep, 60)
    after = await workers.run(os.getpid)
    seconds = time.monotonic() - start
    workers.close()
    return before, after, seconds


def test_a_process_ends_with_the_call_that_is_cancelled() -> None:
    before, after, seconds = anyio.run(_cancelled)
    assert before != after
    assert seconds < 30
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)


async def _busy() -> list[str]:
    workers, outcomes = Workers(WorkerLimits(processes=1, waiting=2, seconds=60)), []

    async def ask(seconds: float) -> None:
        try:
            await workers.run(time.sleep, seconds)
            outcomes.append("answered")
        except BusyError:
            outcomes.append("busy")

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(partial(ask, 0.2))
    workers.close()
    return outcomes


def test_more_than_may_wait_are_sent_away() -> None:
    outcomes = anyio.run(_busy)
    assert (outcomes.count("answered"), outcomes.count("busy")) == (3, 2)


async def _in_turns() -> list[str]:
    turns, order = ClientTurns(1, waiting=4), list[str]()

    async def ask(client: str) -> None:
        try:
            async with turns.turn(client):
                order.append(client)
        except BusyError:
            order.append(f"{client} refused")

    async with anyio.create_task_group() as group, turns.turn("first"):
        for client in ("many",) * 6 + ("few",) * 3:
            group.start_soon(ask, client)
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0.01):
            await ask("gone")
    await ask("last")  # disconnected clients release their places
    return order


def test_clients_take_turns_however_many_questions_each_has() -> None:
    refused = ["many refused", "many refused", "few refused"]  # four wait, or half of them where two clients do
    assert anyio.run(_in_turns) == [*refused, "many", "few", "many", "few", "many", "many", "last"]
