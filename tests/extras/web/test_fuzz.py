"""Requests generated from the OpenAPI document: no reply is a server error."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from benchmarks import explorer_fuzz

#: Time limit: some requests would take a minute; two seconds also test the limit [s].
SECONDS = 2.0


@pytest.mark.long
def test_no_request_makes_the_server_fail() -> None:
    with TestClient(explorer_fuzz.application(SECONDS), base_url=explorer_fuzz.ADDRESS) as client:
        statuses = explorer_fuzz.tried(client, 400)
    assert sum(statuses.values()) > 200
    assert {200, 422} <= set(statuses)
    assert max(statuses) < 500
