"""Slow and broken connections: requests that never arrive, and senders that hang up."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import uvicorn
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from inference_econ.extras.web import patience, requests
from inference_econ.extras.web.patience import Impatient

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

HEAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
SECONDS = 0.5
#: Time limit on a busy machine for immediate replies [s].
SLACK = 20.0


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Return the received data; an exception in its reader is a server error."""
    request = Request(scope, receive)
    try:
        reply: Response = PlainTextResponse(await requests.body(request, 100))
    except HTTPException as error:
        reply = Response(status_code=error.status_code)
    await reply(scope, receive, send)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patience, "PATIENCE_SECONDS", SECONDS)
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(_echo, http=Impatient, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join(timeout=SLACK)


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=SLACK)


def _replied(connection: socket.socket, end: bytes) -> bytes:
    """Return a reply up to its end; its head and body may arrive separately."""
    reply = b""
    while not reply.endswith(end):
        part = connection.recv(1000)
        assert part, reply
        reply += part
    return reply


@pytest.mark.parametrize(
    "part", [b"", b"GET / HT", HEAD, HEAD + b"Content-Length: 10\r\n\r\n", HEAD + b"Content-Length: 10\r\n\r\n12345"]
)
def test_what_does_not_arrive_is_waited_for_no_longer(port: int, part: bytes) -> None:
    with _connected(port) as half:
        half.sendall(part)
        assert half.recv(100) == b""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_one_address_leaves_connections_for_others(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PER_ADDRESS", 3)
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(_connected(port)).sendall(HEAD)
        with _connected(port) as fourth, contextlib.suppress(ConnectionError):
            assert fourth.recv(100) == b""
        with socket.create_connection(("127.0.0.1", port), SLACK, source_address=("127.0.0.2", 0)) as other:
            other.sendall(HEAD + b"Content-Length: 2\r\n\r\nok")
            assert _replied(other, b"ok").startswith(b"HTTP/1.1 200 OK")
    with _connected(port) as again:
        again.sendall(HEAD + b"Content-Length: 2\r\n\r\nok")
        assert _replied(again, b"ok").startswith(b"HTTP/1.1 200 OK")


def test_a_request_in_parts_is_answered_and_the_next_has_its_own_time(port: int) -> None:
    with _connected(port) as slow:
        for _ in range(2):
            for part in (HEAD[:10], HEAD[10:] + b"Content-Length: 4\r\n\r\nab", b"cd"):
                slow.sendall(part)
                time.sleep(SECONDS / 10)
            assert _replied(slow, b"abcd").startswith(b"HTTP/1.1 200 OK")
            time.sleep(SECONDS)


def test_who_hangs_up_leaves_no_word_in_the_log(port: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            with _connected(port) as gone:
                gone.sendall(HEAD + b"Content-Length: 10\r\n\r\n12345")
        with _connected(port) as other:
            other.sendall(HEAD + b"Content-Length: 2\r\n\r\nok")
            assert _replied(other, b"ok").startswith(b"HTTP/1.1 200 OK")
    assert caplog.records == []
