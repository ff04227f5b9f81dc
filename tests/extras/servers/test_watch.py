"""``watch``: windows of a running server, against the prediction at the load of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import repeat
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.commands import Command

LLAMA = ("llama_3_8b", "h100_sxm", "--tp", "1", "--dp", "1", "--pp", "1", "--engine", "vllm")
LENGTHS = ("--isl", "2000", "--osl", "400")
#: Metric names of engines: requests, prompt tokens, generated tokens, and the time per token.
NAMES = {
    "vllm": ("request_prompt_tokens", "request_generation_tokens", "request_time_per_output_token_seconds"),
    "sglang": ("", "", "inter_token_latency_seconds"),
}


def page(requests: float, *, engine: str = "vllm", ttft: float = 0.08, tpot: float = 0.009, isl: float = 2000) -> str:
    """Return an engine's metrics after a number of requests of 400 tokens."""
    prompts, answers, per_token = NAMES[engine]
    tokens = 400 * requests if engine == "sglang" else requests
    histograms = {
        prompts: (isl * requests, requests),
        answers: (400 * requests, requests),
        "time_to_first_token_seconds": (ttft * requests, requests),
        per_token: (tpot * tokens, tokens),
        "e2e_request_latency_seconds": ((ttft + 400 * tpot) * requests, requests),
    }
    samples = {"prompt_tokens_total": isl * requests, "generation_tokens_total": 400 * requests}
    for name, (total, count) in histograms.items():
        samples |= {f"{name}_sum": total, f"{name}_count": count} if name else {}
    lines = [f'{engine}:{name}{{model_name="meta-llama/Llama-3.1-8B"}} {value}' for name, value in samples.items()]
    return "\n".join(["# HELP process_start_time_seconds Start time.", *lines, ""])


@pytest.fixture
def kept(tmp_path: Path) -> Callable[..., list[str]]:
    """Return options for scrapes in files."""

    def write(*pages: str) -> list[str]:
        words = []
        for number, text in enumerate(pages, start=1):
            path = tmp_path / f"{number}.prom"
            path.write_text(text)
            words += ["--metrics", path.name]
        return words

    return write


@contextmanager
def serving(pages: Sequence[tuple[int, str]]) -> Iterator[str]:
    """Serve an engine's stub at an address: its pages with their status in order, and the last one repeatedly."""
    left = [*pages[:-1], *repeat(pages[-1], 50)]

    class Stub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = left.pop(0)
            self.send_response(status)
            self.send_header("Location", "http://example.com/metrics")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Stub) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/metrics"
        finally:
            server.shutdown()
            thread.join()


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_server_as_predicted_is_inside(command: Command, kept: Callable[..., list[str]], engine: str) -> None:
    scrapes = kept(page(100, engine=engine), page(220, engine=engine))
    outcome = command("watch", *LLAMA, *LENGTHS, *scrapes, "--every", "60s", "--json")
    assert outcome.code == 0, outcome
    (window,) = _lines(outcome.out)
    assert (window["at"], window["state"], window["request_rate"], window["engine"]) == (
        "2.prom",
        "inside",
        2.0,
        engine,
    )
    assert (window["isl"], window["osl"]) == (2000.0, 400.0)
    numbers = {entry["measure"]: entry for entry in window["numbers"]}
    assert numbers["ttft"]["measured"] == pytest.approx(0.08)
    assert numbers["tpot"]["low"] < numbers["tpot"]["measured"] < numbers["tpot"]["high"]
    assert numbers["throughput"]["measured"] == pytest.approx(800.0)


def test_the_window_counts_not_the_mean_since_the_start(command: Command, kept: Callable[..., list[str]]) -> None:
    # A thousand fast requests before, and a hundred with four times the time per token in the window.
    before, slow = page(1000), page(100, tpot=0.036)
    after = "\n".join(
        f"{a.rpartition(' ')[0]} {float(a.rpartition(' ')[2]) + float(b.rpartition(' ')[2])}" if " " in a else a
        for a, b in zip(before.splitlines()[1:], slow.splitlines()[1:], strict=True)
    )
    outcome = command("watch", *LLAMA, *LENGTHS, *kept(before, after), "--every", "60s", "--tpot", "mean:20")
    assert outcome.code == 1
    assert "OUTSIDE: TPOT mean above; SLO of TPOT mean VIOLATED" in outcome.out
    assert outcome.out.startswith("Compared with Llama 3.1 8B, 1 x NVIDIA H100 SXM5 80GB, tp1 (vllm)\nat ")


def test_a_server_is_compared_with_a_result(command: Command, refused: Command, kept: Callable[..., list[str]]) -> None:
    assert (
        command("recommend", *LLAMA, *LENGTHS, "--no-speculation", "--request-rate", "4", "-o", "answer.json").code == 0
    )
    scrapes = kept(page(100), page(220), page(340))
    outcome = command("watch", "answer.json", *scrapes, "--every", "60s", "--quiet")
    assert (outcome.code, outcome.out.count("inside"), outcome.err) == (0, 2, "")
    assert command("watch", "answer.json", *scrapes, "--every", "60s", "--once", "--quiet").out.count("inside") == 1
    assert "--isl contradicts answer.json" in refused("watch", "answer.json", *LENGTHS, *scrapes).err
    assert "an answer has settled its hardware" in refused("watch", "answer.json", "h100_sxm", *scrapes).err
    apart = ("--disaggregated", "--any-group", "--ttft", "500", "--max-instance-gpus", "1")
    assert command("recommend", *LLAMA[:2], *apart, "--request-rate", "20", "-o", "pools.json").code == 0
    assert "pools that prefill and decode apart cannot be" in refused("watch", "pools.json", *scrapes).err


def test_an_overload_is_compared_with_a_full_instance(command: Command, kept: Callable[..., list[str]]) -> None:
    scrapes = kept(page(0), page(100_000))
    outcome = command("watch", *LLAMA, *LENGTHS, *scrapes, "--every", "60s", "--json")
    numbers = {entry["measure"]: entry for entry in _lines(outcome.out)[0]["numbers"]}
    assert outcome.code == 1
    assert "ttft" not in numbers
    assert numbers["throughput"]["inside"] is False
    assert numbers["throughput"]["high"] < numbers["throughput"]["measured"]


@pytest.mark.rows
def test_windows_that_cannot_be_compared_say_why(
    command: Command, kept: Callable[..., list[str]], pages: list[dict[str, Any]], reason: str
) -> None:
    before, after = (page(**one) for one in pages)
    outcome = command("watch", *LLAMA, *LENGTHS, *kept(before, after), "--every", "60s")
    assert outcome.code == 2
    assert f"not compared: {reason}" in outcome.out or f"not compared: prompt_tokens_total {reason}" in outcome.out
    assert "Error: no window could be compared; the last one: " in outcome.err
    assert reason in outcome.warned


def test_prompts_that_are_found_in_a_cache_are_remarked(command: Command, kept: Callable[..., list[str]]) -> None:
    hits = "vllm:prefix_cache_queries_total {}\nvllm:prefix_cache_hits_total {}\n"
    scrapes = kept(page(100) + hits.format(100, 50), page(220) + hits.format(300, 100))
    outcome = command("watch", *LLAMA, *LENGTHS, *scrapes, "--every", "60s")
    assert "inside; 25 % of prompt tokens were found in the prefix cache" in outcome.out


def test_assumptions_without_intervals_are_not_compared(command: Command, kept: Callable[..., list[str]]) -> None:
    words = (*LLAMA[:-2], *LENGTHS, "--assumptions", "ideal", *kept(page(100), page(220)), "--every", "60s")
    outcome = command("watch", *words)
    assert outcome.code == 2
    assert "800       not compared: these assumptions have no known interval" in outcome.out


def test_lengths_that_are_not_counted_are_null(command: Command, kept: Callable[..., list[str]]) -> None:
    scrapes = (page(requests, engine="sglang").replace("prompt_tokens_total", "other") for requests in (100, 220))
    outcome = command("watch", *LLAMA, *LENGTHS, *kept(*scrapes), "--every", "60s", "--json")
    assert (outcome.code, _lines(outcome.out)[0]["isl"]) == (0, None)


def test_a_window_has_a_longest_length(command: Command, kept: Callable[..., list[str]]) -> None:
    outcome = command("watch", *LLAMA, *LENGTHS, *kept(page(100), page(220)), "--every", "1e15 s")
    assert (outcome.code, outcome.warned) == (
        2, "Error: --every: at most a week (got 1e+15 s); give a shorter window",
    )  # fmt: skip


def test_an_engine_is_asked_again_and_again(command: Command) -> None:
    # The server is down for a moment, restarts, and continues.
    pages = [(200, page(100)), (503, ""), (200, page(1)), (200, page(2))]
    with serving(pages) as address:
        words = ("--metrics", address, "--every", "500ms", "--for", "1500ms", "--json")
        outcome = command("watch", *LLAMA, *LENGTHS, *words)
    windows = _lines(outcome.out)
    assert [window["reason"] for window in windows[:2]] == [
        f"{address}: 503 Service Unavailable, no page of metrics",
        "prompt_tokens_total went backwards: the engine was started again",
    ]
    assert windows[2]["request_rate"] == pytest.approx(2.0, rel=0.1)
    assert outcome.code == {"inside": 0, "outside": 1}[windows[2]["state"]]


def test_a_watch_without_end_says_what_ends_it(
    command: Command, kept: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    outcome = command("watch", *LLAMA, *LENGTHS, *kept(page(100)))
    said = "1.prom is read again every 15 s until Ctrl-C; --once and --for TIME end by themselves\nstopped\n"
    assert (outcome.code, outcome.out, outcome.err) == (130, "", said)


def test_a_redirection_is_not_followed(refused: Command) -> None:
    with serving([(302, "")]) as address:
        assert "302 Found, no page of metrics" in refused("watch", *LLAMA, "--metrics", address, "--once").err


def test_what_is_no_page_of_a_known_engine(refused: Command, kept: Callable[..., list[str]]) -> None:
    scrapes = kept(page(1).replace("vllm:", "tgi:"))
    assert "1.prom: no metric of vLLM (vllm:...) or SGLang" in refused("watch", *LLAMA, *scrapes, "--once").err
