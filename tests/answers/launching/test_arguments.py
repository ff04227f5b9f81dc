"""Layouts, formats and chips as arguments of engines, and settings that have no argument."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from inference_econ.answers.launching import instance as holding
from inference_econ.answers.launching import plan
from inference_econ.answers.launching.instance import InstanceLimits, InstanceRun, Weights, written
from inference_econ.engine import Plans, Setup, Speculation
from inference_econ.errors import InputError
from inference_econ.inputs import Requests, catalog
from inference_econ.serving import Service
from inference_econ.serving.services import services


def _service(setup: Setup, tp: int, dp: int, pp: int = 1, ep: int = 1, slots: int = 64) -> Service:
    """Return one layout as a service, even if no engine supports it."""
    requests = Requests(2000, 500)
    numbers = (tp * dp * pp, slots, pp, tp, ep)
    accelerators, batch, depth, ranks, experts = (np.array([float(number)]) for number in numbers)
    plans = Plans(accelerators, batch, depth, ranks, experts, whole=True)
    served = replace(setup, context=requests.mean_context, spread=requests.spread)
    return services(served, requests, plans, np.array([float(slots)])).service(0)


def _written(engine: str, service: Service, model: str = "m/x", **known: Any) -> dict[str, Any]:
    runner = plan.engine(engine)
    limits = InstanceLimits.of(service, runner, "both")
    arguments, file = written(InstanceRun(runner, service, limits, Weights(model, **known)))
    return {**arguments, **file}


@pytest.fixture(scope="module")
def llama() -> Setup:
    return Setup.of("llama_3_8b", "h100_sxm")


@pytest.fixture(scope="module")
def deepseek() -> Setup:
    return Setup.of("deepseek_v3", "h200_sxm")


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_groups_of_a_dense_model_are_replicas(engine: str, llama: Setup) -> None:
    with pytest.raises(InputError, match="has no tp1dp4 of a dense model: each of its data-parallel ranks is a full"):
        _written(engine, _service(llama, 1, 4))


def test_experts_of_vllm_lie_on_all_ranks_or_each_is_cut_over_them(deepseek: Setup) -> None:
    with pytest.raises(InputError, match="no tp2dp4ep4: its experts lie on all 8 ranks of DP x TP or each is cut"):
        _written("vllm", _service(deepseek, 2, 4, ep=4))
    assert _written("vllm", _service(deepseek, 2, 4, ep=8))["--enable-expert-parallel"] is True
    assert "--enable-expert-parallel" not in _written("vllm", _service(deepseek, 2, 4, ep=1))
    assert _written("sglang", _service(deepseek, 2, 4, ep=4))["--ep-size"] == 4


def test_turns_of_two_halves_are_started_where_they_were_priced(deepseek: Setup) -> None:
    exchanging = _service(deepseek, 1, 8, ep=8)
    sglang, vllm = _written("sglang", exchanging), _written("vllm", exchanging)
    assert (sglang["--moe-a2a-backend"], sglang["--enable-two-batch-overlap"]) == ("deepep", True)
    assert (vllm["--all2all-backend"], vllm["--enable-dbo"]) == ("deepep_high_throughput", True)
    # No all-to-all, no overlap in the price, an engine without it, and layouts of one machine, where overlap hides
    # nothing.
    never = Setup.of("deepseek_v3", "h200_sxm", changes=["assumptions.network.two_batch_overlap=never"])
    for engine, service in (("sglang", _service(deepseek, 8, 1)), ("vllm", _service(never, 1, 8, ep=8))):
        assert not {"--enable-two-batch-overlap", "--enable-dbo"} & _written(engine, service).keys()
    assert "overlap" not in str(sorted(set(_written("trtllm", exchanging)) - {"disable_overlap_scheduler"}))
    runner = plan.engine("sglang")
    limits = InstanceLimits.of(exchanging, runner, "decode")
    decoding, _ = written(InstanceRun(runner, exchanging, limits, Weights("m/x"), "decode"))
    assert "--enable-two-batch-overlap" not in decoding


HELD = {"enable_balance": True, "timeout_iters": 50, "batching_wait_iters": 0}


def test_groups_hold_prompts_back_as_was_priced() -> None:
    groups, one = (
        _service(Setup.of("deepseek_v3", "h200_sxm", engine="trtllm"), *ranks, ep=8) for ranks in ((1, 8), (8, 1))
    )
    assert _written("trtllm", groups)["attention_dp_config"] == HELD
    assert "attention_dp_config" not in _written("trtllm", one)
    held = _written("sglang", _service(Setup.of("deepseek_v3", "h200_sxm", engine="sglang"), 1, 8, ep=8))
    assert (held["--enable-prefill-delayer"], held["--prefill-delayer-max-delay-passes"]) == (True, 30)
    # The formats of the result apply, not the engine's default.
    changes = ["assumptions.serving.held_steps=12"]
    other = _service(Setup.of("deepseek_v3", "h200_sxm", engine="trtllm", changes=changes), 1, 8, ep=8)
    assert _written("trtllm", other)["attention_dp_config"] == HELD | {"timeout_iters": 12}
    never = _service(Setup.of("deepseek_v3", "h200_sxm", changes=["assumptions.serving.held_steps=0"]), 1, 8, ep=8)
    assert "attention_dp_config" not in _written("trtllm", never)
    assert "--enable-prefill-delayer" not in _written("sglang", never)


def test_pools_hold_nothing_back() -> None:
    """Pools either prefill or decode, so no delay is set; SGLang's delayer rejects pools."""
    service = _service(Setup.of("deepseek_v3", "h200_sxm", engine="sglang"), 1, 8, ep=8)
    assert holding.priced(service, "both") == 30
    assert holding.priced(service, "prefill") == holding.priced(service, "decode") == 0


@pytest.mark.parametrize(("stages", "speculation"), [(2, None), (1, Speculation.fixed("ngram", 2, 1.5))])
def test_sglang_holds_nothing_back_where_its_steps_do_not_overlap(stages: int, speculation: Speculation | None) -> None:
    assert holding.told(plan.engine("sglang"), 30, stages, speculation) == ({}, {})
    assert holding.told(plan.engine("trtllm"), 50, stages, speculation) == ({}, {"attention_dp_config": HELD})
    assert holding.told(plan.engine("sglang"), 30, 1, None) != ({}, {})


@pytest.mark.parametrize(("engine", "version"), [("sglang", "0.5.3"), ("vllm", None)])
def test_what_an_engine_has_no_option_for_is_not_written(engine: str, version: str | None) -> None:
    assert holding.told(plan.engine(engine, version), 30, 1, None) == ({}, {})


def test_attention_of_tensorrt_is_cut_over_all_ranks_or_over_none(deepseek: Setup) -> None:
    with pytest.raises(InputError, match="no tp2dp4ep8: its attention is cut over all 8 ranks or over none"):
        _written("trtllm", _service(deepseek, 2, 4, ep=8))
    assert _written("trtllm", _service(deepseek, 1, 8, ep=8))["enable_attention_dp"] is True
    assert _written("trtllm", _service(deepseek, 8, 1, ep=8))["enable_attention_dp"] is False


def test_limits_are_of_a_group_or_of_all_as_each_engine_counts(deepseek: Setup) -> None:
    service = _service(deepseek, 1, 8, ep=8, slots=64)
    assert _written("vllm", service)["--max-num-seqs"] == 8
    sglang = _written("sglang", service)
    assert (sglang["--tp-size"], sglang["--dp-size"], sglang["--max-running-requests"]) == (8, 8, 64)
    assert _written("trtllm", service)["--max_batch_size"] == 8


@pytest.mark.parametrize(("engine", "name"), [("vllm", "fp8"), ("sglang", "fp8_e4m3")])
def test_formats_of_the_cache_have_their_names(engine: str, name: str) -> None:
    setup = Setup.of("llama_3_8b", "h100_sxm", kv="fp8")
    assert _written(engine, _service(setup, 1, 1))["--kv-cache-dtype"] == name


def test_a_cache_that_the_engine_lacks_is_refused() -> None:
    setup = Setup.of("llama_3_8b", "h100_sxm", kv="int8")
    with pytest.raises(InputError, match=r"vLLM 0\.33\.0 has no cache in int8; it has: bf16, fp16, fp8 \(--kv\)"):
        _written("vllm", _service(setup, 1, 1))


def test_weights_that_are_not_published_are_made_or_named() -> None:
    narrow = _service(Setup.of("llama_3_8b", "h100_sxm", weights="fp8"), 1, 1)
    assert _written("vllm", narrow)["--quantization"] == "fp8"
    assert "--quantization" not in _written("vllm", narrow, own=True)
    four = _service(Setup.of("llama_3_8b", "h100_sxm", weights="int4"), 1, 1)
    with pytest.raises(
        InputError, match=r"it converts to: fp8\); add --model-id ORGANIZATION/NAME with a checkpoint in int4"
    ):
        _written("vllm", four)


def test_a_published_checkpoint_in_the_format_is_preferred() -> None:
    """An instruction-tuned, quantized checkpoint is preferred.

    An engine quantizes the 16-bit checkpoint only if there is none.
    """

    def served(model: str, weights: str | None = None) -> Weights:
        return plan.weights(_service(Setup.of(model, "h100_sxm", weights=weights), 8, 1), None)

    assert served("llama_3_8b") == Weights("meta-llama/Llama-3.1-8B-Instruct")
    assert served("llama_3_8b", "fp8") == Weights("nvidia/Llama-3.1-8B-Instruct-FP8", own=True)
    assert served("qwen3_32b", "fp8_block") == Weights("Qwen/Qwen3-32B-FP8", own=True)
    assert served("qwen3_32b", "fp8") == Weights("Qwen/Qwen3-32B")
    assert served("gpt_oss_120b") == Weights("openai/gpt-oss-120b")


@pytest.mark.parametrize(("engine", "told"), [("vllm", "bfloat16"), ("sglang", "bfloat16"), ("trtllm", None)])
def test_a_cache_of_16_bits_stays_so_beside_weights_that_bring_scales_for_another(
    engine: str, told: str | None, llama: Setup
) -> None:
    narrow = _service(Setup.of("llama_3_8b", "h100_sxm", weights="fp8"), 1, 1)
    assert _written(engine, narrow, own=True).get("--kv-cache-dtype") == told
    assert "--kv-cache-dtype" not in _written(engine, _service(llama, 1, 1))
    bare = plan.engine("sglang", "0.5.3")
    limits = InstanceLimits.of(narrow, bare, "both")
    assert "--kv-cache-dtype" not in written(InstanceRun(bare, narrow, limits, Weights("m/x", own=True)))[0]


@pytest.mark.rows
def test_a_head_is_that_of_a_recipe_or_of_the_model_or_the_one_that_is_named(
    engine: str, model: str, head: str
) -> None:
    setup = Setup.of(model, "h200_sxm")
    ranks = 8 if model == "kimi_k2" else 1
    service = replace(_service(setup, ranks, 1, slots=8), speculation=Speculation.fixed("eagle", 2, 1.5))
    assert f"'{head}'" in str(_written(engine, service))
    assert "'me/head'" in str(_written(engine, service, draft="me/head"))


def test_a_draft_model_is_served_by_what_follows_instructions_or_is_named(llama: Setup) -> None:
    draft = Speculation.of("draft", 0.7, model=catalog.model("llama_3_2_3b"), setup=llama).of_length(2)
    service = replace(_service(llama, 1, 1), speculation=draft)
    assert _written("vllm", service)["--speculative-config"]["model"] == "meta-llama/Llama-3.2-3B-Instruct"
    assert _written("vllm", service, draft="me/small")["--speculative-config"]["model"] == "me/small"


def test_chips_that_an_engine_does_not_run_on_are_refused() -> None:
    service = _service(Setup.of("llama_3_8b", "tpu_v5e", price=1.0), 4, 1)
    with pytest.raises(InputError, match=r"TensorRT-LLM .* does not run on Google TPU v5e: it has NVIDIA"):
        _written("trtllm", service)


def test_weights_that_nobody_published_must_be_named() -> None:
    service = _service(Setup.of("gpt_3", "h100_sxm"), 8, 1)
    with pytest.raises(InputError, match="has no huggingface_id; name its weights with --model-id"):
        plan.weights(service, None)
    assert plan.weights(service, "me/gpt-3") == Weights("me/gpt-3", own=True)


@pytest.mark.rows
def test_the_head_of_a_recipe_proposes(engine: str, chip: str, drafts: int, told: dict[str, Any]) -> None:
    setup = Setup.of("gpt_oss_120b", chip)
    speculation = Speculation.of("eagle", longest=drafts, setup=setup).of_one_length()
    arguments = _written(engine, replace(_service(setup, 1, 1), speculation=speculation))
    assert {name: arguments[name] for name in told} == told


def test_kernels_of_the_recipe_that_is_followed_are_asked_for() -> None:
    """TensorRT-LLM's recipe on H200 names CUTLASS. Another KV-cache format leaves the recipe, so no kernel is set."""
    own = _service(Setup.of("deepseek_v3", "h200_sxm", kv="fp8"), 8, 1, ep=8)
    assert _written("trtllm", own)["moe_config"] == {"backend": "CUTLASS"}
    assert "moe_config" not in _written("trtllm", _service(Setup.of("deepseek_v3", "h200_sxm"), 8, 1, ep=8))
    rack = Setup.of("deepseek_v3", "b200", kv="fp8")
    speculation = Speculation.of("mtp", longest=2, setup=rack)
    told = _written("sglang", replace(_service(rack, 8, 1), speculation=speculation))
    assert (told["--attention-backend"], told["--moe-runner-backend"]) == ("trtllm_mla", "flashinfer_trtllm")
    assert (told["--kv-cache-dtype"], told["--speculative-num-steps"]) == ("fp8_e4m3", 2)


def test_kernels_that_a_version_has_not_are_not_asked_for() -> None:
    """AITER is an option of every recorded version of SGLang; a version without recorded options starts without it."""
    service = _service(Setup.of("deepseek_v3", "mi355x", kv="fp8"), 8, 1)
    runner = plan.engine("sglang", "0.5.3")
    arguments, _ = written(InstanceRun(runner, service, InstanceLimits.of(service, runner, "both"), Weights("m/x")))
    assert arguments["--attention-backend"] == "aiter"
    options = runner.options.replace(commands={runner.launch.command: []}, sources={})
    bare = replace(runner, options=options)
    arguments, _ = written(InstanceRun(bare, service, InstanceLimits.of(service, runner, "both"), Weights("m/x")))
    assert "--attention-backend" not in arguments


@cache
def _card(engine: str = "llama_cpp", chip: str = "rtx_3090", weights: str = "q4_k_m") -> Setup:
    return Setup.of("llama_3_8b", chip, engine=engine, weights=weights, price=1.0)


def test_llama_server_is_told_its_file_one_cache_and_how_layers_are_cut() -> None:
    one = _written("llama_cpp", _service(_card(), 1, 1, slots=16), "bartowski/Llama-GGUF", own=True)
    # 16 requests of 2,000 and 500 tokens, and 5 % more; the format is the tag of the repository.
    assert one["--hf-repo"] == "bartowski/Llama-GGUF:Q4_K_M"
    wide = _written("llama_cpp", _service(_card(chip="m4_max", weights="fp16"), 1, 1), "bartowski/Llama-GGUF", own=True)
    assert wide["--hf-repo"] == "bartowski/Llama-GGUF:F16"
    mixture = _service(Setup.of("gpt_oss_20b", "rtx_4090", engine="llama_cpp", price=1.0), 1, 1)
    assert _written("llama_cpp", mixture, "ggml-org/oss", own=True)["--hf-repo"] == "ggml-org/oss:MXFP4"
    assert (one["--ctx-size"], one["--parallel"], one["--kv-unified"]) == (2625 * 16, 16, True)
    assert (one["--n-gpu-layers"], one["--cache-type-k"], "--split-mode" in one) == ("all", "bf16", False)
    # For 64 requests, the cache holds fewer tokens than their total.
    full = _service(_card(), 1, 1)
    told = _written("llama_cpp", full, "files/llama.gguf", own=True)
    assert 64 * 2000 < told["--ctx-size"] < 64 * 2625
    stages = _written("llama_cpp", _service(_card(), 1, 1, pp=2), "files/llama.gguf", own=True)
    assert (stages["--model"], stages["--split-mode"]) == ("files/llama.gguf", "layer")
    ranks = _written("llama_cpp", _service(_card(), 2, 1), "files/llama.gguf", own=True)
    assert ranks["--split-mode"] == "tensor"
    # 32 layers, of which 12 are on the CPU, and the output layer.
    split = Setup.of("llama_3_8b", "rtx_3090", weights="q4_k_m", price=1.0, changes=["assumptions.cpu.layers=12"])
    assert _written("llama_cpp", _service(split, 1, 1), "files/llama.gguf", own=True)["--n-gpu-layers"] == 21


def test_a_mac_is_told_how_many_requests_it_decodes() -> None:
    service = _service(_card("mlx", "m4_max", "mlx_4bit"), 1, 1)
    told = _written("mlx", service, "mlx-community/llama-4bit", own=True)
    assert told["--model"] == "mlx-community/llama-4bit"
    assert (told["--decode-concurrency"], told["--prefill-step-size"]) == (64, 8192)


@pytest.mark.rows
def test_what_engines_of_desks_cannot_be_told(engine: str, degrees: list[int], message: str) -> None:
    tp, pp = degrees
    setup = _card() if engine == "llama_cpp" else _card("mlx", "m4_max", "mlx_4bit")
    with pytest.raises(InputError, match=message):
        _written(engine, _service(setup, tp, 1, pp=pp, slots=4), own=True)
    speculating = replace(_service(setup, 1, 1, slots=4), speculation=Speculation.of("ngram", 0.5))
    with pytest.raises(InputError, match="is started without speculation and --dcp here; use --no-spec"):
        _written(engine, speculating, own=True)
    service = _service(setup, 1, 1, slots=4)
    runner = plan.engine(engine)
    limits = InstanceLimits.of(service, runner, "prefill")
    with pytest.raises(InputError, match="no servers of this engine that only prefill; use --aggregated"):
        written(InstanceRun(runner, service, limits, Weights("m/x", own=True), "prefill"))
