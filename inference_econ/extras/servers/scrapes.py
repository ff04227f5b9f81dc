"""Scrapes of a server that runs, and what it did between them: addresses of this machine, and files."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import urlsplit

from inference_econ import inputs
from inference_econ.errors import InputError
from inference_econ.extras import servers

#: How long a server may take for a page [s], and the largest page [B].
_TIMEOUT_SECONDS, _LARGEST = 10.0, 1 << 24


@dataclass(frozen=True, slots=True)
class Window:
    """The time between two scrapes: when it ended, and its means, or why it has none."""

    at: str
    run: servers.BenchmarkRun | None
    reason: str = ""


def recorded(paths: Sequence[str], seconds: float) -> Iterator[Window]:
    """Windows between scrapes that were kept in files, so many seconds apart.

    Raises
    ------
    InputError
        If one cannot be read.
    """
    readings = [_read(path, ()) for path in paths]
    for path, (before, after) in zip(paths[1:], pairwise(readings), strict=True):
        yield _window(path, before, after, seconds)


def live(source: str, hosts: Sequence[str], seconds: float, tell: Callable[[str], None]) -> Iterator[Window]:
    """Windows of a server that is asked again and again, without end; a scrape that fails lengthens the window.

    Parameters
    ----------
    source : str
        Address of the server, or a file that somebody else writes again and again.
    hosts : sequence of str
        Other machines that may be asked.
    seconds : float
        Between two scrapes [s].
    tell : callable
        Told that it goes on, once the first scrape is there.

    Raises
    ------
    InputError
        If the first scrape fails.
    """
    before, began = _read(source, hosts), time.monotonic()
    tell(f"{source} is read again every {seconds:g} s")
    while True:
        time.sleep(seconds)
        at = time.strftime("%H:%M:%S")
        try:
            after, ended = _read(source, hosts), time.monotonic()
        except InputError as error:
            yield Window(at, None, str(error))
            continue
        yield _window(at, before, after, ended - began)
        before, began = after, ended


def _window(at: str, before: servers.measurements.Scrape, after: servers.measurements.Scrape, seconds: float) -> Window:
    try:
        return Window(at, servers.measurements.window(before, after, seconds))
    except servers.measurements.UnusableRowError as error:
        return Window(at, None, str(error))


def _read(source: str, hosts: Sequence[str]) -> servers.measurements.Scrape:
    """One scrape of an address or a file.

    Raises
    ------
    InputError
        If it cannot be had, or is no page of metrics of a known engine.
    """
    if re.fullmatch(r"[\w.-]+:\d+(/.*)?", source):
        raise InputError(f"{source}: write an address with its scheme: http://{source}", option="metrics")
    try:
        return servers.measurements.scrape(_fetched(source, hosts) if "://" in source else inputs.read_text(source))
    except (servers.measurements.UnusableRowError, UnicodeDecodeError) as error:
        raise InputError(f"{source}: {error}", option="metrics") from error


def _fetched(url: str, hosts: Sequence[str]) -> str:
    """The page at an address, without redirections and proxies: no other machine is asked than the one named.

    Raises
    ------
    InputError
        If it is no address of this machine nor of a host that was named, or nothing answers there with a page.
    """
    # With it comes what encrypts, which no other command needs.
    import http.client

    from inference_econ.extras.web import is_loopback

    try:
        address = urlsplit(url)
        host, port = address.hostname or "", address.port
    except ValueError as error:
        raise InputError(f"{url}: no address ({error})", option="metrics") from error
    if address.scheme not in ("http", "https") or not host:
        raise InputError(f"{url}: write http://HOST:PORT/metrics, or the name of a file", option="metrics")
    if not is_loopback(host) and host not in hosts:
        raise InputError(f"{url}: {host} is not this machine; add --host {host} to ask it", option="metrics")
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(host, port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", address.path or "/metrics", headers={"Accept": "text/plain"})
        response = connection.getresponse()
        page = response.read(_LARGEST)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(f"{url}: no answer ({reason}); is the server running?", option="metrics") from error
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise InputError(f"{url}: {response.status} {response.reason}, no page of metrics", option="metrics")
    return page.decode()
