from __future__ import annotations

import http.server
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from inference_econ.errors import InputError
from inference_econ.inputs import SweepAsk
from inference_econ.studies.sweep import rows, workers
from inference_econ.studies.sweep.combinations import Combinations
from inference_econ.studies.sweep.workers import alone, beside, check_scheduler, of_scheduler
from tests.sweeps import study

if TYPE_CHECKING:
    from distributed import LocalCluster


@pytest.fixture(scope="module")
def combinations() -> Combinations:
    ask = study().ask
    assert isinstance(ask, SweepAsk)
    return Combinations(ask)


@pytest.fixture(scope="module")
def expected(combinations: Combinations) -> dict[int, rows.Part]:
    return dict(alone(combinations, range(combinations.parts)))


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as started:
        yield started


def test_a_process_that_the_system_ends_is_told(combinations: Combinations, expected: dict[int, rows.Part]) -> None:
    """That several answer the same is tried where a sweep is killed."""
    answering = beside(1)(combinations, range(combinations.parts))
    index, answered = next(answering)
    assert answered == expected[index]
    for process in _children():
        os.kill(process, signal.SIGKILL)
    with pytest.raises(InputError, match=r"the system ended one of the 1 worker processes, .* fewer --jobs"):
        list(answering)


def _children() -> list[int]:
    """Processes of this one that answer."""
    import multiprocessing

    return [child.pid for child in multiprocessing.active_children() if child.pid is not None]


@pytest.mark.long
def test_a_worker_that_is_killed_loses_and_repeats_nothing(
    cluster: LocalCluster, combinations: Combinations, expected: dict[int, rows.Part]
) -> None:
    answering = of_scheduler(cluster.scheduler_address)(combinations, range(combinations.parts))
    answered = [next(answering)]
    victim = next(iter(cluster.workers.values())).pid
    os.kill(victim, signal.SIGKILL)
    answered += answering
    assert len(answered) == combinations.parts
    assert dict(answered) == expected


class _Future:
    """What a cluster gives for a part that it could not answer."""

    def __init__(self, error: Exception, status: str) -> None:
        self.error, self.status = error, status

    def result(self) -> object:
        raise self.error


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ModuleNotFoundError("no", name="inference_econ"), "error", "lack inference_econ; install inference-econ"),
        (RuntimeError("gone"), "cancelled", "the scheduler tcp://x:1 is gone; what is done is kept"),
        (InputError("a worker has other facts"), "error", "^a worker has other facts$"),
    ],
)
def test_what_a_cluster_cannot_answer_is_told(error: Exception, status: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        workers._result(_Future(error, status), "tcp://x:1")


def test_workers_that_always_end_are_told() -> None:
    from distributed import KilledWorker
    from distributed.scheduler import WorkerState

    killed = KilledWorker("part", WorkerState.__new__(WorkerState), 3)
    with pytest.raises(InputError, match="workers of tcp://x:1 ended, again and again, on the same part; what is done"):
        workers._result(_Future(killed, "error"), "tcp://x:1")


def test_a_mistake_of_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        workers._result(_Future(ZeroDivisionError(), "error"), "tcp://x:1")


def test_a_worker_is_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    async def kind_of(address: str) -> object:
        return {"tcp://10.0.0.1:40000": "Worker"}[address]

    monkeypatch.setattr(workers, "_kind_of", kind_of)
    with pytest.raises(InputError, match="a Dask worker answers there; give the address of the scheduler"):
        check_scheduler("tcp://10.0.0.1:40000")


@pytest.fixture
def elsewhere() -> Iterator[int]:
    """A port where something else than Dask answers."""

    class Quiet(http.server.BaseHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_an_address_without_a_scheduler_is_refused(monkeypatch: pytest.MonkeyPatch, elsewhere: int) -> None:
    monkeypatch.setattr(workers, "_PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        unused = bound.getsockname()[1]
    others = ("tcp://no.such.host.invalid:1", "http://x", "foo", f"127.0.0.1:{elsewhere}")
    for address in (f"tcp://127.0.0.1:{unused}", *others):
        begun = time.monotonic()
        with pytest.raises(InputError, match=f"--scheduler {address}: no Dask scheduler answers there within 0.5 s; "):
            check_scheduler(address)
        assert time.monotonic() - begun < 20.0


def test_a_scheduler_without_workers_is_refused(combinations: Combinations, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as empty:
        monkeypatch.setattr(workers, "_PATIENCE", 1.0)
        with pytest.raises(InputError, match=r"has no workers; start some with 'dask worker tcp://.* --nthreads 1'"):
            list(of_scheduler(empty.scheduler_address)(combinations, [0]))
