"""The application as the command line serves it, called without a network."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator, Sequence

import pytest
from starlette.testclient import TestClient

from inference_econ.extras.web import WorkerLimits, application, workers


class _Worker(workers._Worker):
    """Run work in this process, which shares its simulations; inputs and outputs are copied as through a pipe."""

    def __init__(self) -> None:
        pass

    def ask(self, work: Callable[..., object], arguments: Sequence[object]) -> object:
        work, arguments = pickle.loads(pickle.dumps((work, arguments)))
        try:
            return pickle.loads(pickle.dumps(work(*arguments)))
        except Exception as error:
            return error


class _Workers(workers.Workers):
    def __init__(self, limits: WorkerLimits) -> None:
        self.limits, self._turns, self._idle = limits, workers.ClientTurns(1, limits.waiting), [_Worker()]

    def close(self) -> None:
        pass


@pytest.fixture(scope="session")
def client() -> Iterator[TestClient]:
    """Call the application by the name of this machine; tests of workers have processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[application.__module__], "Workers", _Workers)
        # Machines that run tests may be busy.
        with TestClient(application(limits=WorkerLimits(seconds=600.0)), base_url="http://127.0.0.1:8765") as session:
            yield session
