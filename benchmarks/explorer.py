"""Load test of the explorer over HTTP: start, changed controls, fifty users, and many expensive queries.

``python -m benchmarks.explorer`` starts a server on 127.0.0.1 and takes four minutes. It fails only if a request gets
no response. With ``--heavy 200``, that number of users send expensive queries from one address while one user queries
from another.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from rich.console import Console
from rich.table import Table

PROGRAM = Path(sys.executable).with_name("inference-econ")
SUBJECTS = (
    {"model": "llama_3_70b", "hardware": "h100_sxm", "weights": "fp8"},
    {"model": "llama_3_70b", "hardware": "h200_sxm"},
    {"model": "qwen3_32b", "hardware": "h100_sxm"},
    {"model": "gpt_oss_120b", "hardware": "h100_sxm"},
    {"model": "deepseek_v3", "hardware": "h200_sxm"},
)
#: Selected deployment.
CHOSEN = {"at.tp": 8, "at.batch": 64, "at.engine": "vllm"}
#: Queries of the page after a change, with options in addition to the controls.
PANELS: Mapping[str, Mapping[str, Any]] = {
    "compare": {},
    "explain": CHOSEN,
    "price": CHOSEN,
    "launch": CHOSEN,
    "load": CHOSEN,
}
#: Relative frequency of views of each panel [1].
WEIGHTS = (5, 3, 2, 1, 1)
#: Time between two queries of a user [s], and input lengths [tokens].
THINKING, LENGTHS = (2.0, 8.0), (500, 1000, 2000, 4000)


@contextlib.contextmanager
def served() -> Iterator[str]:
    """Run a server during the block."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([PROGRAM, "serve", "--port", str(port), "--quiet"])
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def first_answer(address: str) -> None:
    """Wait for the first response."""
    asked = {**SUBJECTS[0], "tp": "8"}
    while True:
        try:
            httpx.get(f"{address}/api/v1/explain", params=asked, timeout=120).raise_for_status()
        except httpx.ConnectError:
            time.sleep(0.01)
        else:
            return


def request(panel: str, subject: Mapping[str, Any], isl: float) -> tuple[str, dict[str, Any]]:
    """Address and options of a query."""
    controls = {**subject, "isl": isl, "osl": 500, "request_rate": 2, "percentile": "p90"}
    return f"/view/{panel}", {**controls, **PANELS[panel]}


def milliseconds(client: httpx.Client, panel: str, subject: Mapping[str, Any], isl: float) -> float:
    """Time of one response [ms]."""
    path, options = request(panel, subject, isl)
    start = time.perf_counter()
    client.get(path, params=options).raise_for_status()
    return 1e3 * (time.perf_counter() - start)


def warm(address: str, changes: int) -> Table:
    """Response times after changed controls, and for repeated queries."""
    table = Table("panel", "model", "new p50 ms", "new p95 ms", "again p95 ms", title="One user, charts included")
    with httpx.Client(base_url=address, timeout=120) as client:
        for panel in PANELS:
            for subject in (SUBJECTS[0], SUBJECTS[-1]):
                milliseconds(client, panel, subject, 1999)
                new = [milliseconds(client, panel, subject, 1000 + step) for step in range(changes)]
                again = [milliseconds(client, panel, subject, 1000 + step) for step in range(changes)]
                shown = (np.percentile(new, 50), np.percentile(new, 95), np.percentile(again, 95))
                table.add_row(panel, str(subject["model"]), *(f"{value:.0f}" for value in shown))
    return table


async def _user(
    client: httpx.AsyncClient,
    number: int,
    seconds: float,
    lengths: Sequence[int],
    times: list[float],
    failed: list[str],
) -> None:
    """Simulate one user who views panels, waits and changes controls."""
    choice, end = random.Random(number), time.monotonic() + seconds
    await asyncio.sleep(choice.uniform(0, THINKING[1]))
    while time.monotonic() < end:
        panel = choice.choices(list(PANELS), WEIGHTS)[0]
        path, options = request(panel, choice.choice(SUBJECTS), choice.choice(lengths))
        start = time.perf_counter()
        try:
            reply = await client.get(path, params=options)
            if reply.status_code not in (200, 422):
                failed.append(f"{reply.status_code} {path}")
        except httpx.HTTPError as error:
            failed.append(f"{type(error).__name__} {path}")
        times.append(1e3 * (time.perf_counter() - start))
        await asyncio.sleep(choice.uniform(*THINKING))


async def crowd(
    address: str, users: int, seconds: float, lengths: Sequence[int]
) -> tuple[Sequence[float], Sequence[str]]:
    """Times of all responses to queries with some input lengths [ms], and failures."""
    times: list[float] = []
    failed: list[str] = []
    limits = httpx.Limits(max_connections=users)
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as client:
        await asyncio.gather(*(_user(client, number, seconds, lengths, times, failed) for number in range(users)))
    return times, failed


async def _heavy(address: str, users: int, questions: int, own: str) -> list[tuple[int, float]]:
    """Status and time [s] of distinct expensive queries of users at one address."""

    async def ask(number: int) -> list[tuple[int, float]]:
        answers = []
        async with httpx.AsyncClient(
            base_url=address, timeout=600, transport=httpx.AsyncHTTPTransport(local_address=own)
        ) as client:
            for question in range(questions):
                start = time.monotonic()
                asked = {**SUBJECTS[1], "isl": 1000 + 10 * number + question, "osl": 500}
                reply = await client.post("/api/v1/frontier", json=asked)
                answers.append((reply.status_code, time.monotonic() - start))
        return answers

    parts = await asyncio.gather(*(ask(number) for number in range(users)))
    return [answer for part in parts for answer in part]


async def heavy_crowd(address: str, users: int) -> tuple[Sequence[tuple[int, float]], Sequence[tuple[int, float]]]:
    """Responses to many users, and to one user with three queries meanwhile."""
    crowd = asyncio.create_task(_heavy(address, users, 1, "127.0.0.1"))
    await asyncio.sleep(2.0)
    alone = await _heavy(address, 1, 3, "127.0.0.2")
    return await crowd, alone


def heavy(users: int) -> Table:
    """Response times of many users, and of one user next to them."""
    table = Table("who", "questions", "answered", "p50 s", "longest s", title="Heavy questions at once")
    with served() as address:
        first_answer(address)
        for who, answers in zip(
            (f"{users} users of one address", "one user of another"),
            asyncio.run(heavy_crowd(address, users)),
            strict=True,
        ):
            times = [seconds for status, seconds in answers if status == 200]
            shown = (np.median(times), max(times)) if times else (np.nan, np.nan)
            table.add_row(who, str(len(answers)), str(len(times)), *(f"{value:.1f}" for value in shown))
    return table


def ask_every_question(address: str) -> None:
    """Ask each question of the users with repeated queries once, so that the server remembers the answers."""
    with httpx.Client(base_url=address, timeout=120) as client:
        for panel, subject, isl in itertools.product(PANELS, SUBJECTS, LENGTHS):
            path, options = request(panel, subject, isl)
            client.get(path, params=options)


def measure(console: Console, users: int = 50, seconds: float = 60.0, changes: int = 20) -> int:
    """Print response times for one user, and for many users with repeated and new queries."""
    start, every = time.perf_counter(), list[str]()
    with served() as address:
        first_answer(address)
        console.print(f"start to first answer: {time.perf_counter() - start:.2f} s")
        console.print(warm(address, changes))
        ask_every_question(address)
        for kind, lengths in (("repeated", LENGTHS), ("new", range(501, 8000))):
            times, failed = asyncio.run(crowd(address, users, seconds, lengths))
            p50, p95 = np.percentile(times, (50, 95))
            console.print(
                f"{users} users, {kind} queries: {len(times)} answers in {seconds:g} s, {len(failed)} failed: "
                f"p50 {p50:.0f} ms, p95 {p95:.0f} ms, longest {max(times):.0f} ms"
            )
            every += failed
    for failure in every[:5]:
        console.print(failure)
    return 1 if every else 0


def main() -> int:
    """Run and print all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=50, help="Users at once [50].")
    parser.add_argument("--seconds", type=float, default=60.0, help="How long they look [60].")
    parser.add_argument("--changes", type=int, default=20, help="Changes of a control for each panel [20].")
    parser.add_argument("--heavy", type=int, metavar="USERS", help="Only a crowd of heavy questions.")
    asked = parser.parse_args()
    console = Console()
    if asked.heavy is not None:
        console.print(heavy(asked.heavy))
        return 0
    return measure(console, asked.users, asked.seconds, asked.changes)


if __name__ == "__main__":
    sys.exit(main())
