"""Guards against other pages, and the parts of every reply: hosts, origins, headers, errors."""

from __future__ import annotations

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

#: Names that a machine goes by for itself.
LOOPBACK = ("127.0.0.1", "localhost", "::1")
#: All addresses of a machine.
EVERYWHERE = frozenset({"0.0.0.0", "::"})
#: Scripts only from files of this server, nothing from elsewhere, and no page around it.
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
#: Seconds until one may ask again where too many wait [s].
_RETRY_SECONDS = "2"


def middleware(hosts: Sequence[str]) -> list[Middleware]:
    """Middleware before an application that goes by some names beside those of loopback.

    One that listens at all addresses of a machine goes by each of them, and by the name of the machine.
    """
    everywhere = bool(EVERYWHERE & set(hosts))
    named = (socket.gethostname().lower(), socket.getfqdn().lower()) if everywhere else ()
    return [Middleware(Guard, hosts=frozenset((*LOOPBACK, *hosts, *named)), addresses=everywhere)]


class Guard:
    """Refuses requests under other names (DNS rebinding) or from other pages, and says so in every reply's headers.

    Parameters
    ----------
    app : ASGI application
        Behind it.
    hosts : frozenset of str
        Names that the server goes by.
    addresses : bool
        Whether it goes by every address, which no other page can make its own as it can a name.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], *, addresses: bool = False) -> None:
        self.app, self.hosts, self.addresses = app, hosts, addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self._refused(Headers(scope=scope)) if scope["type"] == "http" else ""
        behind = error(400, refused) if refused else self.app
        await behind(scope, receive, send_with_headers)

    def _refused(self, headers: Headers) -> str:
        """Reason for which a request is not passed on; empty if it is."""
        host = headers.get("host", "")
        name = _host_name(host)
        if name not in self.hosts and not (self.addresses and _is_address(name)):
            return "this server answers at the address that it was started at, under no other name"
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return "requests of other pages are not answered"
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return "requests of other pages are not answered"
        return ""


def _host_name(host: str) -> str:
    """The name in a Host header, without its port; empty if it is none, as where a user stands before it."""
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
    """Reply where there is no answer: the message, and the option that caused it."""
    return JSONResponse({"error": {"message": message, "field": field}}, status, dict(headers or {}))


def _refused(_: Request, problem: Any) -> Response:
    return error(422, str(problem), problem.option)


def _busy(_: Request, __: Any) -> Response:
    return error(429, "too many questions wait; ask again in some seconds", headers={"Retry-After": _RETRY_SECONDS})


def _http(_: Request, problem: Any) -> Response:
    return error(problem.status_code, str(problem.detail), headers=problem.headers)


#: What is replied to each kind of problem.
HANDLERS: Mapping[Any, Callable[[Request, Any], Response]] = {
    RefusedError: _refused,
    BusyError: _busy,
    HTTPException: _http,
}
