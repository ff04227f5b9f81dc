"""Fixtures: a real server and a real browser."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.explorer import PATIENCE_MS
from tests.reading import tables

#: Names in distributions.
_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
#: A browser that sends requests only to the server.
_QUIET: list[str] = tables(Path(__file__))["_QUIET"]
# Expectations as well: five seconds are few where many tests run at once.
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Return the path of the distribution's browser."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is not None:
        return path
    missing = "no Chromium on this machine: 'apt-get install chromium' (as root) lets the page be tried in it"
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Start a server as a user does, and yield its address."""
    address = f"http://127.0.0.1:{(port := free_port())}"
    command = [str(Path(sys.executable).with_name("inference-econ")), "serve", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        _wait(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(PATIENCE_MS / 1e3)


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    start = time.monotonic()
    while time.monotonic() - start < PATIENCE_MS / 1e3:
        assert process.poll() is None, "the server has stopped"
        try:
            urllib.request.urlopen(address, timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"no answer from {address}")


# Until it is closed, its thread runs an event loop, which tests of other files could not run then.
@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=[*_QUIET])
        yield launched
        launched.close()


@pytest.fixture
def reader() -> dict[str, Any]:
    """Return browser settings of a reader; tests parametrize it for others."""
    return {"viewport": {"width": 1280, "height": 900}}


@pytest.fixture
def context(browser: Browser, reader: dict[str, Any]) -> Iterator[BrowserContext]:
    opened = browser.new_context(**reader)
    opened.set_default_timeout(PATIENCE_MS)
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext, server: str) -> Iterator[Page]:
    """Open an empty page that must not report errors, violate its policy, or contact other servers."""
    opened = context.new_page()
    complaints = complaints_of(opened, (server, "data:", "blob:"))
    yield opened
    assert complaints == []


def complaints_of(page: Page, allowed: tuple[str, ...]) -> list[str]:
    """Collect errors of a page and its requests to addresses that are not allowed."""
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if _is_complaint(said.type, said.text) else None)
    page.on("request", lambda asked: None if asked.url.startswith(allowed) else complaints.append(asked.url))
    return complaints


def _is_complaint(kind: str, text: str) -> bool:
    """Return whether a message is an error; the page itself reports error replies and a stopped server."""
    return kind == "error" and "Failed to load resource" not in text
