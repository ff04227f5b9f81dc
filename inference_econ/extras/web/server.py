"""Run the application on a socket."""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import TYPE_CHECKING

from inference_econ.errors import InputError

if TYPE_CHECKING:
    from inference_econ.extras.web.application import Application

#: Maximum number of connections [1], and time limit for open requests after the server is stopped [s].
_CONNECTIONS, _LAST_SECONDS = 256, 2
#: Number of ports after an occupied port that are searched for a free port [1].
_NEAR = 100


def is_loopback(host: str) -> bool:
    """Check whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listening(host: str, port: int) -> socket.socket:
    """Open a listening socket.

    Raises
    ------
    InputError
        If the port is in use (the message names a free port) or not permitted, or the host is not an address of this
        machine.
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
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    except UnicodeError as error:  # The host is not a valid Internet name.
        raise OSError("not a host name") from error
    listener = socket.create_server((host, port), family=family)
    # Connections inherit this option; without it, a reply in two parts would be delayed by 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _free(host: str, port: int) -> int:
    """Find a free port: the next free port, or else any free port."""
    for candidate in (*range(port + 1, min(port + _NEAR, 65_536)), 0):
        try:
            with _bound(host, candidate) as listener:
                return int(listener.getsockname()[1])
        except OSError:
            continue
    raise InputError(f"no port of {host} is free")


def run(app: Application, listener: socket.socket) -> None:
    """Serve until interrupted.

    Parameters
    ----------
    app : Application
        Application to serve.
    listener : socket
        Result of :func:`listening`.
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
