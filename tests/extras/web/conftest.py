"""The application as the command line serves it, asked without a network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from inference_econ.extras.web import WorkerLimits, application


@pytest.fixture(scope="session")
def client() -> Iterator[TestClient]:
    """Asks the application by the name of this machine."""
    with TestClient(
        application(limits=WorkerLimits(processes=1, seconds=120)), base_url="http://127.0.0.1:8765"
    ) as session:
        yield session
