"""A real server and a real browser: the page as people use it."""

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

#: What distributions call it.
_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
#: A browser that asks nobody but the server for anything.
_QUIET: list[str] = tables(Path(__file__))["_QUIET"]
# Expectations as well: five seconds are few where many tests run at once.
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Where the browser of the distribution is."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is not None:
        return path
    missing = "no Chromium on this machine: 'apt-get install chromium' (as root) lets the page be tried in it"
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a server as a user starts it."""
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
    """How somebody reads the page; tests say otherwise by parametrizing it."""
    return {"viewport": {"width": 1280, "height": 900}}


@pytest.fixture
def context(browser: Browser, reader: dict[str, Any]) -> Iterator[BrowserContext]:
    opened = browser.new_context(**reader)
    opened.set_default_timeout(PATIENCE_MS)
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext, server: str) -> Iterator[Page]:
    """An empty page, which must not complain, break its policy, or ask anybody but the server."""
    opened = context.new_page()
    complaints = complaints_of(opened, (server, "data:", "blob:"))
    yield opened
    assert complaints == []


def complaints_of(page: Page, allowed: tuple[str, ...]) -> list[str]:
    """All that a page will complain of, and what it asks of others than those that are allowed."""
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if _is_complaint(said.type, said.text) else None)
    page.on("request", lambda asked: None if asked.url.startswith(allowed) else complaints.append(asked.url))
    return complaints


def _is_complaint(kind: str, text: str) -> bool:
    """Whether a browser complains; that a reply is an error, and that a server is gone, is said by the page."""
    return kind == "error" and "Failed to load resource" not in text
