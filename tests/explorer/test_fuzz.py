"""Requests made from the OpenAPI document: no reply says that the server failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import explorer_fuzz

if TYPE_CHECKING:
    from starlette.testclient import TestClient


def test_no_request_makes_the_server_fail(client: TestClient) -> None:
    statuses = explorer_fuzz.tried(client, 300)
    assert sum(statuses.values()) > 200
    assert {200, 422} <= set(statuses)
    assert max(statuses) < 500
