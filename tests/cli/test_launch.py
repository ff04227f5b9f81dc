"""``launch``: every generated command line parses with what the engine's own parser has; bad input is one message."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from inference_econ.inputs import starting
from tests.cli.conftest import Command

LLAMA = ("llama_3_70b", "h100_sxm", "--weights", "fp8", "--request-rate", "5", "--tpot", "50 ms", "--ttft", "2 s")
PINNED = (*LLAMA, "--tp", "2", "--dp", "1", "--pp", "1")
VERSIONS = [(engine, version) for engine in ("vllm", "sglang") for version in starting.versions(engine)]
COMMANDS = {"vllm": "vllm serve", "sglang": "sglang.launch_server", "trtllm": "trtllm-serve serve"}
PROGRAMS = {"vllm": "vllm serve", "sglang": "python3 -m sglang.launch_server", "trtllm": "trtllm-serve serve"}


@pytest.fixture
def answer(tmp_path: Path, command: Command) -> Path:
    """An answer of recommend."""
    path = tmp_path / "answer.json"
    assert command("recommend", *PINNED, "-o", path).code == 0
    return path


def _line(text: str, program: str) -> list[str]:
    """The words behind a program in a script."""
    joined = text.replace("\\\n", " ")
    line = next(line.strip() for line in joined.splitlines() if line.strip().startswith(program))
    return shlex.split(line.removeprefix(program))


def _parsed(text: str, engine: str, version: str | None = None) -> dict[str, Any]:
    return starting.options(engine, version).parse(COMMANDS[engine], _line(text, PROGRAMS[engine]))


def _benchmark(text: str) -> dict[str, Any]:
    return starting.options("vllm").parse("vllm bench serve", _line(text, "vllm bench serve"))


@pytest.mark.parametrize(("engine", "version"), VERSIONS)
def test_every_recorded_version_reads_its_command(answer: Path, command: Command, engine: str, version: str) -> None:
    text = command("launch", answer, "--to", engine, "--engine-version", version).out
    assert version in text.splitlines()[1]
    assert len(_parsed(text, engine, version)) > 6


def test_limits_of_a_server_follow_from_the_answer(answer: Path, command: Command) -> None:
    choice = json.loads(answer.read_text())["choices"][0]
    read = _parsed(command("launch", answer, "--to", "vllm").out, "vllm")
    assert read["model_tag"] == "meta-llama/Meta-Llama-3.1-70B"
    assert read["--max-model-len"] == 2500
    assert read["--max-num-seqs"] == choice["slots"]
    assert read["--tensor-parallel-size"] == choice["layout"]["tp"]
    assert (read["--quantization"], read["--gpu-memory-utilization"]) == ("fp8", 0.9)


def test_the_benchmark_offers_one_instance_its_share_with_the_same_lengths(answer: Path, command: Command) -> None:
    read = _benchmark(command("launch", answer, "--to", "vllm").out)
    replicas = json.loads(answer.read_text())["choices"][0]["replicas"]
    assert read["--request-rate"] == pytest.approx(5 / replicas, rel=1e-4)
    assert (read["--random-input-len"], read["--random-output-len"]) == (2000, 500)
    assert read["--ignore-eos"] is True


def test_the_prediction_stands_beside_the_benchmark_with_its_interval(answer: Path, command: Command) -> None:
    text = command("launch", answer, "--to", "vllm").out
    choice = json.loads(answer.read_text())["choices"][0]
    low, high = (1e3 * choice[f"tpot_seconds_{end}"]["p90"] for end in ("low", "high"))
    assert f"TPOT p90 {1e3 * choice['tpot_seconds']['p90']:.4g} ({low:.4g} to {high:.4g}) ms, promised 50" in text


def test_an_answer_and_the_same_options_start_the_same(answer: Path, command: Command) -> None:
    saved = command("launch", answer, "--to", "vllm").out
    assert command("launch", *PINNED, "--to", "vllm").out == saved


def test_ranks_of_a_mixture_are_counted_as_each_engine_does(command: Command) -> None:
    asked = ("deepseek_v3", "h200_sxm", "--request-rate", "2", "--tp", "1", "--dp", "8", "--pp", "1", "--ep", "8")
    vllm = _parsed(command("launch", *asked, "--to", "vllm").out, "vllm")
    assert (vllm["--tensor-parallel-size"], vllm["--data-parallel-size"]) == (1, 8)
    assert vllm["--enable-expert-parallel"] is True
    sglang = _parsed(command("launch", *asked, "--to", "sglang").out, "sglang")
    assert (sglang["--tp-size"], sglang["--dp-size"], sglang["--ep-size"]) == (8, 8, 8)
    assert sglang["--enable-dp-attention"] is True
    assert sglang["--max-running-requests"] == 8 * vllm["--max-num-seqs"]
    text = command("launch", *asked, "--to", "trtllm").out
    trtllm = _parsed(text, "trtllm")
    assert (trtllm["--tensor_parallel_size"], trtllm["--moe_expert_parallel_size"]) == (8, 8)
    assert "enable_attention_dp: true" in text


def test_a_closed_loop_of_a_frontier_is_offered_as_a_concurrency(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "front.json"
    command("frontier", "llama_3_8b", "h100_sxm", "--serving", "--max-accelerators", "1", "-o", path)
    points = json.loads(path.read_text())["points"]
    text = command("launch", path, "--to", "sglang", "--choice", "2").out
    assert _benchmark(text)["--max-concurrency"] == round(points[1]["concurrency"])
    assert "output tokens/s" in text


@pytest.mark.parametrize(
    ("proposer", "expected"),
    [
        ("--mtp", {"method": "mtp", "num_speculative_tokens": 5}),
        ("--ngram", {"method": "ngram", "num_speculative_tokens": 5}),
    ],
)
def test_speculation_has_the_longest_draft(command: Command, proposer: str, expected: dict[str, Any]) -> None:
    asked = ("deepseek_v3", "h200_sxm", "--request-rate", "1", "--tp", "8", "--dp", "1", "--pp", "1", proposer)
    assert _parsed(command("launch", *asked, "--to", "vllm").out, "vllm")["--speculative-config"] == expected
    read = _parsed(command("launch", *asked, "--to", "sglang").out, "sglang")
    assert read["--speculative-num-draft-tokens"] == 6


@pytest.mark.parametrize("generator", ["aiperf", "guidellm"])
def test_other_load_generators_read_their_commands(answer: Path, command: Command, generator: str) -> None:
    text = command("launch", answer, "--to", "vllm", "--bench", generator).out
    program = {"aiperf": "aiperf profile", "guidellm": "guidellm run"}[generator]
    assert starting.options(generator).parse(program, _line(text, program))


def test_lengths_that_vary_are_offered_as_far_as_the_generator_can(command: Command) -> None:
    asked = (*PINNED, "--isl", "uniform:1600:2400", "--osl", "uniform:400:600", "--to", "vllm")
    text = command("launch", *asked).out
    assert float(_benchmark(text)["--random-range-ratio"]) == pytest.approx(0.2)
    assert _parsed(text, "vllm")["--max-model-len"] == 3000
    text = command("launch", *PINNED, "--isl", "lognormal:2000:0.5", "--to", "vllm").out
    assert "requests of the mean lengths" in text
    assert _parsed(text, "vllm")["--max-model-len"] > 4000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing.json", "--to", "vllm"), "nothing.json: cannot be read: No such file"),
        (("llama_3_70b", "--to", "vllm"), "give a saved answer (ANSWER.json), or a model and hardware"),
        (("llama_3_70", "h100_sxm", "--to", "vllm"), "unknown model 'llama_3_70'; did you mean llama_3_70b"),
        ((*PINNED, "--to", "vllm", "--engine-version", "0.34.0"), "nearest: 0.33.0; recorded: 0.11.0, 0.20.2, 0.33.0"),
        ((*PINNED, "--to", "trtllm"), "cannot make fp8 of that while it loads (it makes: none); name weights in fp8"),
        ((*PINNED, "--kv", "int8", "--to", "vllm"), "vLLM 0.33.0 has no cache in int8; it has: bf16, fp16, fp8 (--kv)"),
        ((*LLAMA, "--tp", "1", "--dp", "4", "--pp", "1", "--to", "vllm"), "no tp1dp4 of a dense model"),
        (("llama_3_8b", "tpu_v5e", "--to", "trtllm"), "TensorRT-LLM 1.3.0rc3 does not run on"),
        ((*PINNED, "--max-model-len", "200000", "--to", "vllm"), "is made for at most 131072 tokens, got 200000"),
        ((*PINNED, "--arrival-scv", "2", "--bench", "aiperf", "--to", "vllm"), "the generator has 0 (constant) and 1"),
        (("gpt_3", "h100_sxm", "--pp", "1", "--to", "vllm"), "has no huggingface_id; name its weights with --model-id"),
    ],
)
def test_what_cannot_be_started_is_refused_with_one_message(
    refused: Command, tmp_path: Path, words: Sequence[str], message: str
) -> None:
    outcome = refused("launch", *words, "-o", "launch.sh")
    assert message in outcome.err.replace("\n", " ")
    assert not (tmp_path / "launch.sh").exists()
