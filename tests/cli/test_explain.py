"""The command that takes a step apart: what it prints, and in which forms."""

from __future__ import annotations

import pytest

from tests.commands import Command, record


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
