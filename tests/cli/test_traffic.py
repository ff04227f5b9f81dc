"""``show traffic``, and the workload options of other commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import inference_econ as ie
from tests.commands import Command

_TRACES = Path(__file__).parents[1] / "fixtures" / "traces"
ONE = ("llama_3_8b", "h100_sxm", "--tp", 1, "--dp", 1, "--pp", 1, "--engine", "vllm")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path) -> None:
    shutil.copytree(_TRACES, tmp_path, dirs_exist_ok=True)


def test_a_trace_is_drawn_and_fitted(command: Command, tmp_path: Path) -> None:
    outcome = command("show", "traffic", "mooncake.jsonl", "-o", "mine.yaml", "--plot", "mine.svg")
    assert outcome.code == 0
    assert "wrote mine.yaml" in outcome.err
    assert (tmp_path / "mine.svg").read_text().startswith("<svg")
    assert ie.traffic(tmp_path / "mine.yaml").requests.isl.mean == pytest.approx(1131)
    assert "mine.yaml" in command("show", "traffic", "mine.yaml").out
