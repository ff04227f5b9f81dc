"""Run an application for the browsers of this machine, or of others."""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import TYPE_CHECKING

from inference_econ.errors import InputError

if TYPE_CHECKING:
    from inference_econ.extras.web.application import Application

#: Connections at the same time, and seconds that a stopped server waits for answers [1], [s].
_CONNECTIONS, _LAST_SECONDS = 256, 2
#: Ports after one that is taken, of which a free one is named [1].
_NEAR = 100


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens at an address.

    Raises
    ------
    InputError
        If the port is taken, with one that is free; or if it may not be used, or the address is none of this machine.
    """
    try:
        return _bound(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            free = _free(host, port)
            raise InputError(f"port {port} of {host} is in use; {free} is free: --port {free}") from error
        if error.errno == errno.EACCES:
            raise InputError(
                f"port {port} is kept for the system; give one from 1024, for example --port 8765"
            ) from error
        raise InputError(
            f"--host {host}: no address of this machine ({error.strerror or error}); 127.0.0.1 is the machine itself, "
            "0.0.0.0 all of its addresses"
        ) from error


def _bound(host: str, port: int) -> socket.socket:
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    listener = socket.create_server((host, port), family=family)
    # Connections have it from here; a reply in two parts would else wait 40 ms for its reader.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _free(host: str, port: int) -> int:
    """A port that is free: the next one, or any."""
    for candidate in (*range(port + 1, min(port + _NEAR, 65_536)), 0):
        try:
            with _bound(host, candidate) as listener:
                return int(listener.getsockname()[1])
        except OSError:
            continue
    raise InputError(f"no port of {host} is free")


def run(app: Application, listener: socket.socket) -> None:
    """Answer until somebody stops it.

    Parameters
    ----------
    app : Application
        What answers.
    listener : socket
        From :func:`listening`.
    """
    import uvicorn

    from inference_econ.extras.web.patience import Impatient

    config = uvicorn.Config(
        app,
        http=Impatient,
        log_level="warning",
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_LAST_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[listener])
