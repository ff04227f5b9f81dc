"""The command that takes a step apart: what it prints, and in which forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command, record, rows


def test_memory_is_rows_too(command: Command) -> None:
    of_version = ("explain", "qwen3_5_27b", "h200_sxm", "--engine", "vllm@0.28.0", "--tp", 2)
    subject = (*of_version, "--batch", 8, "--context", 5000)
    lines = rows(command, *subject, "--memory")
    held = record(command, *subject)["bytes_per_accelerator"]
    assert {row["part"]: float(row["bytes"]) for row in lines} == {name: taken for name, taken in held.items() if taken}
    assert sum(float(row["share"]) for row in lines) == pytest.approx(1.0, rel=1e-9)
    assert "vision" in {row["part"] for row in lines}
    table = command(*subject, "--memory", "--no-operators").out
    assert "vision tower" in table
    assert "FLOP/B" not in table
    assert "vision tower" not in command(*subject, "--no-memory").out


def test_explain_as_json_csv_and_markdown(command: Command, tmp_path: Path) -> None:
    subject = ("explain", "mixtral_8x22b", "h100_sxm", "--tp", 4, "--pp", 2, "--ep", 2, "--batch", 8, "--context", 500)
    answer = record(command, *subject)
    degrees = {"tp": 4.0, "dp": 1.0, "pp": 2.0, "ep": 2.0, "moe_tp": 2.0, "stage": 4.0, "cut": "1d"}
    assert answer["layout"] == {**degrees, "engine": "sglang, trtllm"}
    assert answer["batch"] == 8.0
    assert answer["context"] == 500.0
    parts = answer["seconds_by_part"]
    assert sum(parts.values()) == pytest.approx(answer["step_seconds"], rel=1e-12)
    lines = rows(command, *subject)
    assert lines[-1]["part"] == "step"
    assert float(lines[-1]["seconds"]) == pytest.approx(answer["step_seconds"], rel=1e-12)
    assert sum(float(row["seconds"]) for row in lines[:-1]) == pytest.approx(answer["step_seconds"], rel=1e-12)
    assert all(float(row["seconds"]) == parts[row["part"]] for row in lines[:-1])
    assert command(*subject, "--format", "markdown").out.startswith("| part | ms | share % |\n")
    assert command(*subject, "-o", "a.txt").err == "wrote a.txt\n"
    assert "weight reads" in (tmp_path / "a.txt").read_text(encoding="utf-8")


def test_explain_shows_operators_and_memory_unless_told_not_to(command: Command) -> None:
    subject = ("explain", "llama_3_70b", "h100_sxm", "--tp", 8)
    shown = command(*subject).out
    for words in ("FLOP/B", "295 bf16", "attention output", "norms", "Memory of an accelerator", "head-room"):
        assert words in shown
    assert shown == command(*subject, "--operators").out
    assert "FLOP/B" not in command(*subject, "--no-operators").out
    assert "| operator | times |" in command(*subject, "--format", "markdown").out
    assert command(*subject, "--format", "csv", "--operators").out.startswith("name,unit,repeats,flop,moved_bytes,")
    answer = record(command, *subject)
    formats = answer["formats"]
    assert set(formats.values()) == {"bf16"}
    refused = command(*subject, "--kv", "mxfp4")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("Error: NVIDIA H100 SXM5 80GB cannot hold a KV cache of mxfp4: it has no fp4 units;")


def test_explain_options(command: Command) -> None:
    subject = ("explain", "llama_3_8b", "tpu_v7", "--weights", "fp8", "--assumptions", "ideal", "--price", "2")
    answer = record(command, *subject, "--set", "hardware.hbm_bytes_per_second=1 TB/s")
    assert (answer["assumptions"], answer["weights"]) == ("ideal", "fp8")
    # 8.0 GB less the input embedding of 0.5 GB, and a cache of 0.26 GB, at 1 TB/s; nothing else.
    assert answer["step_seconds"] == pytest.approx(7.77e-3, rel=0.01)
    assert answer["dollars_per_million_output_tokens"] == pytest.approx(
        answer["step_seconds"] * 2 / 3600 * 1e6, rel=1e-12
    )
    assert "no price known" in command("explain", "llama_3_8b", "trainium2").out


def test_a_step_is_drawn_as_a_waterfall_and_on_a_roofline(command: Command, tmp_path: Path) -> None:
    words = ("explain", "llama_3_8b", "h100_sxm", "--batch", 8)
    outcome = command(*words, "--plot", "a.svg", "--roofline", "b.png")
    assert outcome.code == 0, outcome.err
    assert outcome.err == "wrote a.svg\nwrote b.png\n"
    assert "Where does the time of a step go?" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert (tmp_path / "b.png").stat().st_size > 3000
    assert command(*words, "--prefill", 500, "--roofline", "c.svg").code == 0
    assert "prompt tokens after context 0 cached" in (tmp_path / "c.svg").read_text(encoding="utf-8")
