"""The server and the assistant tools as commands: used ports, addresses, missing packages, a first result."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import Command, python

PROGRAM = str(Path(sys.executable).with_name("inference-econ"))


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def test_a_port_in_use_names_one_that_is_free(refused: Command, taken: int) -> None:
    message = refused("serve", "--port", taken).err
    found = re.search(rf"port {taken} of 127\.0\.0\.1 is in use; (\d+) is free: --port \1", message)
    assert found, message
    socket.create_server(("127.0.0.1", int(found[1]))).close()


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [("serve", "starlette", "explorer"), ("serve", "uvicorn", "explorer"), ("mcp", "mcp", "mcp")],
)
def test_a_package_that_is_missing_is_named_with_what_installs_it(command: str, package: str, extra: str) -> None:
    without = f"import sys; sys.modules[{package!r}] = None; sys.argv = ['inference-econ', {command!r}]\n"
    program = without + "from inference_econ_cli.main import run; run()"
    done = python("-c", program, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert f"{package} is not installed" in done.stderr
    assert f"pip install 'inference-econ[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


def _answer(address: str) -> dict[str, object]:
    """Return the first reply of a starting server; it listens before it replies."""
    with urllib.request.urlopen(address, timeout=120) as reply:
        record = json.load(reply)
    assert isinstance(record, dict)
    return record


def test_it_prints_its_address_answers_warns_and_ends_with_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    server = subprocess.Popen(
        [PROGRAM, "serve", "--host", "0.0.0.0", "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        # A test run in the background may have interrupts ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert server.stdout is not None
    try:
        assert f"http://0.0.0.0:{port}/" in server.stdout.readline()
        asked = f"http://127.0.0.1:{port}/api/v1/explain?model=llama_3_8b&hardware=h100_sxm"
        assert _answer(asked)["command"] == "inference-econ explain llama_3_8b h100_sxm"
    finally:
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=60)
    assert "Warning: --host 0.0.0.0 lets everybody" in errors
    assert errors.strip().endswith("stopped")
    assert "Traceback" not in errors
    assert server.returncode == 130


def test_an_assistant_is_answered_over_standard_streams() -> None:
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
    server = subprocess.Popen([PROGRAM, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(hello) + "\n")
    server.stdin.flush()
    reply = json.loads(server.stdout.readline())
    server.stdin.close()
    assert reply["result"]["serverInfo"]["name"] == "inference-econ"
    start = time.monotonic()
    assert server.wait(timeout=60) == 0
    assert time.monotonic() - start < 60
    server.stdout.close()
