"""InferenceX rows and their missing values: from the table of scripts, or absent."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from data.measurements.tables import collected
from inference_econ.extras.servers import Measurement, Skipped
from inference_econ.extras.servers.measurements import engine_name

SERVING = {
    "id": "r", "backend": "sglang", "backend_version": "0.5.9", "model_path": "Qwen/Qwen3.5-397B-A17B",
    "system": "b200_sxm", "precision": "fp8", "mode": "agg", "isl": "8192", "osl": "1024", "silicon_ttft_ms": "200",
    "silicon_tpot_ms": "10", "silicon_concurrency": "16", "batch_size": "16", "tp_size": "4", "pp_size": "1",
    "attention_dp_size": "1", "moe_tp_size": "1", "moe_ep_size": "4", "source": "InferenceX",
}  # fmt: skip
NIGHTLY = {
    "hf_model": "deepseek-ai/DeepSeek-R1-0528", "hardware": "b200", "framework": "sglang", "precision": "fp8",
    "spec_decoding": "none", "isl": "1024", "osl": "1024", "tp": "8", "ep": "1", "dp_attention": "false",
    "concurrency": "16", "median_ttft_s": "0.2", "median_tpot_s": "0.02",
    "source": "InferenceMAX nightly runs 2025-12..2026-01 (Apache-2.0)",
}  # fmt: skip


def _read(path: Path, *rows: dict[str, str]) -> list[Measurement | Skipped]:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return collected(path)


def _one(tmp_path: Path, row: dict[str, str], **changes: str) -> Measurement:
    (found,) = _read(tmp_path / "mine.csv", row | changes)
    assert isinstance(found, Measurement), found
    return found


def _reason(tmp_path: Path, **changes: str) -> str:
    (found,) = _read(tmp_path / "mine.csv", SERVING | changes)
    assert isinstance(found, Skipped), found
    return found.reason


# Engine settings in scripts.


def test_facts_of_the_version_and_layout_of_a_row(tmp_path: Path) -> None:
    run = _one(tmp_path, SERVING)
    assert (run.kv, run.step_tokens, run.most_sequences, run.memory) == ("fp8", 32768.0, 128.0, 0.82)
    assert (run.speculation, run.wait_steps, run.warmed_up) == ("none", 15.0, True)
    later = _one(tmp_path, SERVING, backend_version="0.5.12", moe_tp_size="4", moe_ep_size="1")
    assert (later.step_tokens, later.memory) == (16384.0, 0.8)


def test_a_layout_that_only_scripts_with_speculation_began_speculates(tmp_path: Path) -> None:
    run = _one(tmp_path, SERVING, moe_tp_size="4", moe_ep_size="1")
    assert run.speculation == "MTP3"


def test_where_no_script_began_such_a_server_those_for_requests_as_long_count(tmp_path: Path) -> None:
    """MiniMax on B200: a step has the tokens of two prompts in every layout."""
    row = SERVING | {
        "backend": "vllm", "backend_version": "0.19.0", "model_path": "MiniMaxAI/MiniMax-M2.5", "tp_size": "1",
        "moe_ep_size": "1",
    }  # fmt: skip
    assert _one(tmp_path, row).step_tokens == 2 * 8192
    assert _one(tmp_path, row, isl="1024").step_tokens == 2 * 1024


def test_a_chip_and_version_without_a_script_tell_nothing(tmp_path: Path) -> None:
    run = _one(tmp_path, SERVING, system="h20_sxm", backend_version="0.5.9")
    assert (run.kv, run.step_tokens, run.memory, run.speculation) == (None, None, None, "unrecorded")
    assert run.wait_steps == 0.0


def test_scripts_tell_of_runs_of_inferencemax_too(tmp_path: Path) -> None:
    """Scripts also apply by the id alone, and by the months that the source names."""
    nightly = _one(tmp_path, NIGHTLY)
    assert (nightly.wait_steps, nightly.kv, nightly.most_sequences) == (15.0, "fp8", 128.0)
    assert _one(tmp_path, NIGHTLY, concurrency="8").wait_steps == 5.0
    by_id = _one(tmp_path, SERVING, id="inferencemax_7", source="somebody")
    assert by_id.isl == pytest.approx(0.9 * 8192)
    assert by_id.wait_steps == 15.0
    assert _one(tmp_path, SERVING, source="somebody").wait_steps == 0.0


def test_cache_formats_changed_with_the_months(tmp_path: Path) -> None:
    oss = {"hf_model": "openai/gpt-oss-120b", "framework": "vllm", "precision": "fp4", "tp": "2"}
    assert _one(tmp_path, NIGHTLY, **oss).kv == "fp8"
    assert _one(tmp_path, NIGHTLY, **oss, source="InferenceMAX 2025-10..2025-11").kv is None


def test_degrees_that_scripts_chose_themselves(tmp_path: Path) -> None:
    """The first scripts of TensorRT-LLM set both degrees by the concurrency and ignored the request."""
    row = SERVING | {
        "backend": "trtllm", "backend_version": "1.1.0rc2.post2", "model_path": "deepseek-ai/DeepSeek-R1",
        "isl": "1024", "tp_size": "8", "moe_tp_size": "8", "moe_ep_size": "1",
    }  # fmt: skip
    quiet = _one(tmp_path, row)
    assert (quiet.tp, quiet.dp, quiet.ep) == (8, 1, 8)
    busy = _one(tmp_path, row, silicon_concurrency="64", batch_size="64")
    assert (busy.tp, busy.dp, busy.ep, busy.accelerators) == (1, 8, 8, 8)
    assert "attention-DP is 8: so the script of that version" in busy.remarks
    assert (busy.held_steps, busy.wait_steps, quiet.held_steps) == (60.0, 0.0, 0.0)


def test_without_a_version_the_newest_that_began_such_a_server_counts(tmp_path: Path) -> None:
    run = _one(tmp_path, SERVING, backend_version="")
    newest = "what the scripts told sglang nightly-dev-20260422-de962f32, the newest they ran"
    assert run.remarks[-1] == f"no version and no date is recorded: {newest}"


def test_without_a_version_the_scripts_of_its_day_count(tmp_path: Path) -> None:
    """DeepSeek-R1 in NVFP4: the image of TensorRT-LLM was 1.1.0rc2.post2 until 3 February 2026."""
    row = SERVING | {
        "backend": "trtllm", "backend_version": "", "model_path": "deepseek-ai/DeepSeek-R1", "precision": "fp4",
        "isl": "1024", "tp_size": "8", "moe_tp_size": "8", "moe_ep_size": "1",
    }  # fmt: skip
    assert _one(tmp_path, row, measured="2025-11-02").ran == "1.1.0rc2.post2"
    in_source = "InferenceX db-dump; measured=2025-11-02T00:00:00.000Z; image"
    assert _one(tmp_path, row, source=in_source).ran == "1.1.0rc2.post2"
    assert _one(tmp_path, row, measured="2025-11-02", backend_version="1.1.0rc2.post2").ran == ""


# Layouts.


def test_tensor_and_data_parallel_degrees_of_the_same_accelerators(tmp_path: Path) -> None:
    """In vLLM's expert-parallel runs, attention_dp_size repeats tp_size, and moe_ep_size has their product."""
    row = SERVING | {
        "backend": "vllm", "backend_version": "0.18.0", "model_path": "MiniMaxAI/MiniMax-M2.5", "system": "h200_sxm",
        "tp_size": "8", "attention_dp_size": "8", "moe_ep_size": "64",
    }  # fmt: skip
    run = _one(tmp_path, row)
    assert (run.accelerators, run.tp, run.dp, run.ep) == (8, 8, 1, 8)
    assert "64 accelerators are 8: attention-DP, if there was any, and tp are the same ones" in run.remarks
    two = {"backend_version": "0.21.0", "system": "b200_sxm", "precision": "fp4", "isl": "1024"}
    two |= {"tp_size": "2", "attention_dp_size": "2", "moe_ep_size": "4"}
    busy = _one(tmp_path, row, **two, silicon_concurrency="512", batch_size="256")
    assert (busy.accelerators, busy.tp, busy.dp, busy.ep) == (2, 1, 2, 2)
    quiet = _one(tmp_path, row, **two, silicon_concurrency="128", batch_size="128")
    assert (quiet.accelerators, quiet.tp, quiet.dp, quiet.ep) == (2, 2, 1, 2)
    elsewhere = _one(tmp_path, row, source="somebody")
    assert (elsewhere.accelerators, elsewhere.tp, elsewhere.dp, elsewhere.ep) == (64, 8, 8, 64)


def test_a_batch_below_the_concurrency_is_that_of_one_of_several_servers(tmp_path: Path) -> None:
    run = _one(tmp_path, SERVING, silicon_concurrency="64")
    assert (run.accelerators, run.tp, run.dp, run.concurrency) == (16, 4, 1, 64.0)
    assert "4 servers: batch_size 16 of 64 concurrent requests" in run.remarks
    assert "64 concurrent requests are not a multiple of batch_size 24" in _reason(
        tmp_path, silicon_concurrency="64", batch_size="24"
    )


@pytest.mark.parametrize("tp", ["12", "72"])
def test_totals_of_disaggregated_runs_are_no_aggregated_servers(tmp_path: Path, tp: str) -> None:
    reason = _reason(tmp_path, system="gb200", tp_size=tp, moe_ep_size=tp)
    assert reason.startswith(f"tp {tp} of an aggregated server on gb200 is the total of a disaggregated one")
    assert _one(tmp_path, SERVING, system="gb200").accelerators == 4


# Checkpoints.


def test_what_makers_call_fp8(tmp_path: Path) -> None:
    assert _one(tmp_path, SERVING).weights == "fp8_block"
    assert _one(tmp_path, SERVING, model_path="zai-org/GLM-5-FP8").weights == "fp8_block"
    assert _one(tmp_path, SERVING, model_path="Qwen/Qwen3-235B-A22B-FP8", precision="").weights == "fp8_block"
    assert _one(tmp_path, SERVING, model_path="meta-llama/Llama-3.1-70B").weights == "fp8"
    assert _one(tmp_path, SERVING, model_path="MiniMaxAI/MiniMax-M2.5").weights is None


def test_checkpoints_in_nvfp4_of_models_that_are_published_in_int4(tmp_path: Path) -> None:
    kimi = {"model_path": "moonshotai/Kimi-K2.5", "backend": "vllm", "backend_version": "0.17.0"}
    assert _one(tmp_path, SERVING, **kimi, precision="fp4").model == "kimi_k2_thinking_nvfp4"
    integers = _one(tmp_path, SERVING, **kimi, precision="int4")
    assert (integers.model, integers.weights) == ("kimi_k2_thinking", None)


# Invalid runs.


def test_a_run_that_is_slower_by_half_than_another_of_its_configuration_is_spoilt(tmp_path: Path) -> None:
    good, slow, busier, noisy = _read(
        tmp_path / "mine.csv",
        SERVING | {"id": "good"},
        SERVING | {"id": "slow", "silicon_tpot_ms": "19.9"},
        SERVING | {"id": "busier", "silicon_tpot_ms": "19.9", "silicon_concurrency": "32", "batch_size": "32"},
        SERVING | {"id": "noisy", "silicon_tpot_ms": "14.9"},
    )
    assert isinstance(slow, Measurement)
    assert slow.spoilt == "2.0 times as slow as good, a run of the same configuration"
    assert [getattr(run, "spoilt", None) for run in (good, busier, noisy)] == ["", "", ""]


def test_a_run_whose_first_tokens_come_four_times_as_late_as_in_another_is_spoilt(tmp_path: Path) -> None:
    first = float(SERVING["silicon_ttft_ms"])
    good, cold, late = _read(
        tmp_path / "mine.csv",
        SERVING | {"id": "good"},
        SERVING | {"id": "cold", "silicon_ttft_ms": f"{12.5 * first}"},
        SERVING | {"id": "late", "silicon_ttft_ms": f"{3.5 * first}"},
    )
    assert isinstance(cold, Measurement)
    assert cold.spoilt == "12.5 times as late as good, a run of the same configuration"
    assert [getattr(run, "spoilt", None) for run in (good, late)] == ["", ""]


@pytest.mark.parametrize(("engine", "tokens"), [("vllm", 1000 + 1500 + 16), ("trtllm", 2516), ("sglang", 3 * 1000)])
def test_the_collectors_own_runs_read_little_more_than_a_prompt_beside_decoding(
    tmp_path: Path, engine: str, tokens: int
) -> None:
    own = {"source": "aiconfigurator silicon_sample.csv", "isl": "1000", "osl": "500", "backend": engine}
    run = _one(tmp_path, SERVING, **own)
    # SGLang starts prompts up to 2,500 tokens: three of them.
    assert (run.step_tokens, run.prefill_first, run.spread) == (tokens, False, 0.0)
    assert _one(tmp_path, SERVING, **own | {"source": "mine"}).step_tokens is None


# The collectors' own runs.


@pytest.mark.rows
def test_launch_settings_hold_from_the_version_that_they_were_made_for(
    tmp_path: Path, engine: str, version: str, model: str, tokens: float, first: bool
) -> None:
    """With prompts of 2,000 tokens, concurrency 16 and room for 1,500 more tokens, SGLang starts two prompts."""
    row = SERVING | {"backend": engine, "backend_version": version, "model_path": model, "moe_ep_size": "1"}
    run = _one(tmp_path, row, system="h200_sxm", isl="2000", osl="500", source="aiconfigurator silicon_sample.csv")
    assert (run.step_tokens, run.prefill_first, run.spread) == (tokens, first, 0.0)
    # The host of TensorRT-LLM prepared no step in advance before the rules of 1.2.
    assert run.synchronous == ((engine, version) == ("trtllm", "1.0.0"))


def test_the_number_of_a_compiler_is_no_version_of_the_engine_above_it() -> None:
    assert engine_name("TensorRT 10.2.0, CUDA 12.4") == ("trtllm", "")
    assert engine_name("TensorRT-LLM 0.9.0") == ("trtllm", "0.9.0")


# Runs that others outdo.


def test_a_sweep_most_of_whose_runs_busier_ones_outdo_is_spoilt(tmp_path: Path) -> None:
    row = SERVING | {"backend": "trtllm", "backend_version": "1.2.0", "model_path": "meta-llama/Llama-3.1-70B"}
    row |= {"source": "somebody", "moe_ep_size": "1", "system": "h200_sxm", "osl": "1000"}
    quick = row | {
        "id": "quick",
        "isl": "8000",
        "silicon_concurrency": "64",
        "batch_size": "64",
        "silicon_tpot_ms": "20",
    }
    slow = row | {"isl": "4000", "silicon_tpot_ms": "61"}
    sweep = [slow | {"id": f"c{c}", "silicon_concurrency": c, "batch_size": c} for c in ("16", "32", "128")]
    fine = row | {"id": "fine", "isl": "4000", "silicon_tpot_ms": "59", "backend_version": "1.1.0"}
    marked = {
        run.id: run.spoilt for run in _read(tmp_path / "mine.csv", quick, *sweep, fine) if isinstance(run, Measurement)
    }
    outdone = "3.0 times as slow as quick, which has no less to do on no more accelerators"
    assert marked["c32"] == outdone
    assert marked["c128"] == "2 of 3 runs of its sweep are 3 times as slow as others"
    assert marked["quick"] == marked["fine"] == ""
