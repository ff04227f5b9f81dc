"""``assess``: a measured deployment compared with alternatives."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.commands import Command, record

SUBJECT = ("assess", "llama_3_70b", "h100_sxm", "--gpus", 8)


def test_layout_price_formats_and_what_ifs(command: Command) -> None:
    outcome = command(
        *(*SUBJECT, "--tokens-per-second", 40, "--batch", 64, "--tp", 4, "--pp", 2, "--weights", "fp8", "--price", 2),
        *("--context", 1100, "--set", "hardware.hbm_bytes_per_second=6.7 TB/s", "--domain", 4),
        *("--assumptions", "deployable", "--format", "json"),
    )
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert (found["weights"], found["context"], found["dollars_per_accelerator_hour"]) == ("fp8", 1100, 2)
    layout = found["predicted"]["layout"]
    assert (layout["tp"], layout["dp"], layout["pp"]) == (4, 1, 2)
    assert any("6.7 TB/s" in source["where"] for source in found["sources"])


#: The example of the command's own help.
SERVED = ("assess", "llama_3_70b", "h100_sxm", "--weights", "fp8", "--tokens-per-second", 45, "--gpus", 4, "--tp", 4)
LENGTHS = ("--isl", 2000, "--osl", 500)


def test_a_fleet_is_equal_instances(command: Command) -> None:
    one = record(command, *SERVED, "--batch", 64, *LENGTHS)
    two = record(command, *SERVED[:8], 8, "--tp", 4, "--batch", 128, *LENGTHS)
    sized = command(*SERVED[:8], 8, "--instance-gpus", 4, "--batch", 128, *LENGTHS).out
    assert (two["measured"]["instances"], two["measured"]["accelerators"]) == (2, 8)
    assert two["measured"]["throughput"] == pytest.approx(2 * one["measured"]["throughput"])
    for name in ("predicted_seconds", "beside_prediction", "beside_frontier"):
        assert two["verdict"][name] == one["verdict"][name]
    assert "2 instances of 4 GPUs, tp4" in " ".join(sized.split())
    steps = record(command, *SERVED[:8], 8, "--tp", 4, "--batch", 128)
    alone = record(command, *SERVED, "--batch", 64)
    assert steps["predicted"]["batch"] == alone["predicted"]["batch"] == 64
    assert steps["frontiers"]["same_size"] == alone["frontiers"]["same_size"]


#: A page of metrics of two replicas of Qwen3 32B; ``tests/fixtures/README.md`` names its source.
_PAGE = Path(__file__).parents[1] / "fixtures" / "results" / "vllm.prom"
_MEASURED = ("assess", "qwen3_32b", "h100_sxm", "--weights", "fp8", "--gpus", 2, "--tp", 1)


def test_what_a_server_says_of_itself_is_assessed_and_what_is_typed_counts_more(command: Command) -> None:
    text = command(*_MEASURED, "--measured", _PAGE).said
    assert "ISL 2000 (500 cached), OSL 400" in text
    assert re.search(r"measured 52.6 \S+ 2 - 32 ", text)
    typed = command(*_MEASURED, "--measured", _PAGE, "--batch", 16, "--isl", 1000).said
    assert "ISL 1000, OSL 400" in typed
    assert re.search(r"measured 52.6 \S+ 2 - 16 ", typed)


@pytest.mark.rows
def test_a_server_of_which_nothing_is_known(command: Command, tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "empty.prom").write_text("", encoding="utf-8")
    outcome = command(*_MEASURED, *words)
    assert outcome.code == 2
    assert message in outcome.warned
