"""Protection against requests from other sites, and common parts of replies: headers and errors."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response

from inference_econ.extras.web.questions import RefusedError
from inference_econ.extras.web.workers import BusyError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Loopback names.
LOOPBACK = ("127.0.0.1", "localhost", "::1")
#: Addresses that mean all interfaces.
EVERYWHERE = frozenset({"0.0.0.0", "::"})
#: Content security policy: pages load only files of this server, and cannot be embedded.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
#: Size of the parts in which a reply is sent [B]. A part is sent when the client has read most of the previous part.
_PART = 65_536
#: Retry-After header of a busy server [s].
_RETRY_SECONDS = "2"


def middleware(hosts: Sequence[str]) -> list[Middleware]:
    """Middleware that accepts requests to given host names and loopback names.

    A server on all interfaces accepts every IP address and the name of the machine.
    """
    everywhere = bool(EVERYWHERE & set(hosts))
    named = (socket.gethostname().lower(), socket.getfqdn().lower()) if everywhere else ()
    return [Middleware(Guard, hosts=frozenset((*LOOPBACK, *hosts, *named)), addresses=everywhere)]


class Guard:
    """Reject requests for other hosts (DNS rebinding) or from other origins, and add security headers.

    Parameters
    ----------
    app : ASGI application
        Protected application.
    hosts : frozenset of str
        Accepted host names.
    addresses : bool
        True to accept every IP address as host name; DNS rebinding needs a name.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], *, addresses: bool = False) -> None:
        self.app, self.hosts, self.addresses = app, hosts, addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward or reject a request."""
        started: list[bool] = []

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                started.append(True)
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            body = message.get("body", b"")
            for start in range(_PART, len(body), _PART):
                await send({**message, "body": body[start - _PART : start], "more_body": True})
            await send({**message, "body": body[(len(body) - 1) // _PART * _PART :]} if len(body) > _PART else message)

        refused = self._refused(Headers(scope=scope)) if scope["type"] == "http" else ""
        behind = error(400, refused) if refused else self.app
        try:
            await behind(scope, receive, send_with_headers)
        except asyncio.CancelledError:  # The server stops before the reply is complete.
            if not started:
                await error(503, "the server ends")(scope, receive, send_with_headers)

    def _refused(self, headers: Headers) -> str:
        """Reason to reject a request; empty to accept it."""
        host = headers.get("host", "")
        name = _host_name(host)
        if name not in self.hosts and not (self.addresses and _is_address(name)):
            return "wrong host name: use the address that inference-econ serve printed"
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return "requests from other websites are rejected"
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return "requests from other websites are rejected"
        return ""


def _host_name(host: str) -> str:
    """Host name in a Host header, without port; empty if invalid or with user information."""
    if "@" in host:
        return ""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def error(status: int, message: str, field: str | None = None, headers: Mapping[str, str] | None = None) -> Response:
    """Error reply with a message, and the option that caused it."""
    return JSONResponse({"error": {"message": message, "field": field}}, status, dict(headers or {}))


#: Handler of each kind of error.
HANDLERS: Mapping[Any, Callable[[Request, Any], Response]] = {
    RefusedError: lambda _, problem: error(422, str(problem), problem.option),
    BusyError: lambda *_: error(
        429, "too many requests are waiting; retry in a few seconds", headers={"Retry-After": _RETRY_SECONDS}
    ),
    HTTPException: lambda _, problem: error(problem.status_code, str(problem.detail), headers=problem.headers),
    # This reply is created outside of the guard. The error is in the log.
    Exception: lambda *_: error(500, "this is an error of the program; the log of the server has it", headers=HEADERS),
}
