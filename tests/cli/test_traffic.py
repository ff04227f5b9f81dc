"""The command that says what a traffic is, and the options that give one to other commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import inference_econ as ie
from tests.commands import Command, record

_TRACES = Path(__file__).parents[1] / "fixtures" / "traces"
ONE = ("llama_3_8b", "h100_sxm", "--tp", 1, "--dp", 1, "--pp", 1, "--engine", "vllm")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path) -> None:
    shutil.copytree(_TRACES, tmp_path, dirs_exist_ok=True)


def test_a_trace_is_drawn_and_fitted(command: Command, tmp_path: Path) -> None:
    outcome = command("traffic", "mooncake.jsonl", "-o", "mine.yaml", "--plot", "mine.svg")
    assert outcome.code == 0
    assert "wrote mine.yaml" in outcome.err
    assert (tmp_path / "mine.svg").read_text().startswith("<svg")
    assert ie.traffic(tmp_path / "mine.yaml").requests.isl.mean == pytest.approx(1131)
    assert "mine.yaml" in command("traffic", "mine.yaml").out


def test_a_traffic_is_an_answer_to_every_question(command: Command) -> None:
    traffic = ("--traffic", "azure_conversation")
    (point,) = record(command, "load", *ONE, *traffic)["points"]
    assert point["request_rate"] == pytest.approx(5.554, rel=1e-3)
    assert point["played"]
    assert record(command, "price", *ONE, *traffic, "--any-speed")["isl"] == pytest.approx(1154.7, rel=1e-3)
    for asked in (("frontier", *ONE[:4]), ("compare", ONE[0], "--on", ONE[1], "--tp", 1)):
        assert "November 2023 (mean 1155 input" in command(*asked, *traffic).said
    best = record(command, "recommend", *ONE, *traffic, "--ttft", 2000, "--tpot", 50)["choices"][0]
    assert best["request_rate"] == pytest.approx(5.554, rel=1e-3)
