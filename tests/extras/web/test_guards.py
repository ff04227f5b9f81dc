"""Protection from other sites: hosts, origins, headers."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from inference_econ.extras.web import guards, questions
from inference_econ.extras.web.application import _script, application
from inference_econ.report import charts
from inference_econ.requests import kinds
from inference_econ.requests.tables import LEFT_OUT
from tests.commands import parsers

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

ADDRESS = "/openapi.json"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "[", "localhost.evil:8765", "evil.com@127.0.0.1"]
)
def test_other_names_are_refused(client: TestClient, host: str) -> None:
    reply = client.get(ADDRESS, headers={"host": host})
    assert reply.status_code == 400
    assert "use the address that inference-econ serve printed" in reply.json()["error"]["message"]


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost", "[::1]:8765", "LOCALHOST:1"])
def test_names_of_this_machine_are_not(client: TestClient, host: str) -> None:
    assert client.get(ADDRESS, headers={"host": host}).status_code == 200


@pytest.mark.rows
def test_requests_of_other_pages_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    reply = client.post("/api/v1/texts", content="{}", headers=headers)
    assert reply.status_code == 400
    assert reply.json()["error"]["message"] == "requests from other websites are rejected"


def test_its_own_page_is_answered_and_a_link_to_it_followed(client: TestClient) -> None:
    own = {"origin": "http://127.0.0.1:8765", "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}
    assert client.post("/api/v1/texts", content="{}", headers=own).status_code == 200
    followed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=followed).status_code == 200


@pytest.mark.parametrize("address", ["/", ADDRESS, "/nothing", "/static/page.css"])
def test_every_reply_has_the_headers(client: TestClient, address: str) -> None:
    headers = client.get(address).headers
    refused = client.get(address, headers={"host": "evil.example"}).headers
    for name, value in guards.HEADERS.items():
        assert headers[name] == refused[name] == value
    policy = headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "unsafe-eval" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "default-src 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


async def _fine(scope: Scope, receive: Receive, send: Send) -> None:
    await guards.error(200, "")(scope, receive, send)


def test_all_addresses_of_a_machine_are_its_names_where_it_listens_at_all() -> None:
    (middleware,) = guards.middleware(["0.0.0.0"])
    everywhere = TestClient(middleware.cls(_fine, *middleware.args, **middleware.kwargs))
    assert everywhere.get("/", headers={"host": "192.0.2.7:8765"}).status_code == 200
    assert everywhere.get("/", headers={"host": "evil.example"}).status_code == 400


def test_options_of_questions_are_those_of_commands() -> None:
    commands = parsers()
    for question in questions().values():
        params = commands[question.name].params
        typed = {spelling for parameter in params for spelling in parameter.opts if spelling.startswith("--")}
        asked = {f"--{option.field.replace('_', '-')}" for option in question.asked}
        assert typed - asked <= {*LEFT_OUT, "--hardware", "--help-all"}


@pytest.mark.parametrize(
    ("problem", "status", "message"),
    [
        (ValueError("secret"), 500, "this is an error of the program; the log of the server has it"),
        (asyncio.CancelledError(), 503, "the server ends"),
    ],
    ids=["error", "end"],
)
def test_errors_of_the_program_have_the_headers_too(problem: BaseException, status: int, message: str) -> None:
    """Ctrl-C cancels active work without a traceback."""

    async def fail(_: object) -> None:
        raise problem

    app = Starlette(
        routes=[Route("/", fail)], middleware=guards.middleware(()), exception_handlers=dict(guards.HANDLERS)
    )
    reply = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False).get("/")
    assert (reply.status_code, reply.json()["error"]["message"]) == (status, message)
    assert dict(guards.HEADERS).items() <= {key.title(): value for key, value in reply.headers.items()}.items()


def test_options_that_are_files_are_text(client: TestClient) -> None:
    """A number could be a file descriptor of the server."""
    for name, question in questions().items():
        for option in question.asked:
            if isinstance(option.kind, kinds.FileKind):
                reply = client.post(f"/api/v1/{name}", json={option.field: 1})
                assert reply.status_code == 422
    reply = client.post("/api/v1/validate", json={"datasets": ["serving_points"], "against": 1.5})
    assert reply.json()["error"] == {
        "message": "against: got '1.5'; Input should be a valid string",
        "field": "against",
    }


def test_large_replies_are_sent_in_parts() -> None:
    """The server waits for slow clients after each part, and stores no copy of the rest for each of them."""
    body = bytes(range(256)) * 1_000
    (middleware,) = guards.middleware(())
    sent: list[Message] = []

    async def whole(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(body)(scope, receive, send)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "headers": [(b"host", b"127.0.0.1")]}
    guarded: Any = middleware.cls(whole, *middleware.args, **middleware.kwargs)
    asyncio.run(guarded(scope, None, send))
    assert b"".join(message["body"] for message in sent[1:]) == body
    assert [message.get("more_body", False) for message in sent[1:]] == [True, True, True, False]


def test_clients_share_one_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bundling takes seconds and 100 MB, so simultaneous first clients share one run."""
    begun: list[int] = []

    def bundle() -> str:
        begun.append(1)
        time.sleep(0.05)
        return "script"

    async def ask() -> list[Any]:
        routes: Any = application().routes
        (route,) = (route for route in routes if route.path == "/static/vega.js")
        return await asyncio.gather(*(route.endpoint(None) for _ in range(20)))

    monkeypatch.setattr(charts, "javascript", bundle)
    _script.cache_clear()
    assert {reply.body for reply in asyncio.run(ask())} == {b"script"}
    _script.cache_clear()
    assert len(begun) == 1
