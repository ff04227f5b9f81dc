"""What keeps other pages out, and what every reply says: hosts, origins, headers, errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response

from inference_econ.explorer.questions import RefusedError
from inference_econ.explorer.workers import BusyError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Names that a machine goes by for itself.
LOOPBACK = ("127.0.0.1", "localhost", "::1")
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
    """What stands before an application that goes by some names beside those of loopback."""
    return [Middleware(Guard, hosts=frozenset((*LOOPBACK, *hosts)))]


class Guard:
    """Refuses requests under other names (DNS rebinding) or from other pages, and says so in every reply's headers.

    Parameters
    ----------
    app : ASGI application
        Behind it.
    hosts : frozenset of str
        Names that the server goes by; ``*`` allows all.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self.app, self.hosts = app, hosts

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
        """Why a request is not passed on; empty if it is."""
        host = headers.get("host", "")
        name = _host_name(host)
        if "*" not in self.hosts and name not in self.hosts:
            return "this server answers at the address that it was started at, under no other name"
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return "requests of other pages are not answered"
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return "requests of other pages are not answered"
        return ""


def _host_name(host: str) -> str:
    """The name in a Host header, without its port; empty if it is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def error(status: int, message: str, field: str | None = None, headers: Mapping[str, str] | None = None) -> Response:
    """What is said where there is no answer: the message, and the option that caused it."""
    return JSONResponse({"error": {"message": message, "field": field}}, status, dict(headers or {}))


def _refused(_: Request, problem: Any) -> Response:
    return error(422, str(problem), problem.field)


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
