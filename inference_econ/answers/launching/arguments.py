"""Command-line options of each engine for the layout, formats and limits of an instance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from inference_econ.answers.launching import instance
from inference_econ.answers.launching.instance import InstanceLimits, LaunchDegrees, LaunchEngine, Role, Weights
from inference_econ.engine import Setup, Speculation, attention_groups, groups_share_work, has_experts, step_seconds
from inference_econ.errors import InputError
from inference_econ.inputs import Precision, ProposerName, ServingEngine, catalog, head_of, practice_of
from inference_econ.serving import Service

#: Sequences up to which vLLM captures CUDA graphs by default [1].
_VLLM_CAPTURES = 512
#: 16-bit formats, which engines can quantize at load time.
_WIDE = ("bf16", "fp16")
#: Value of the option for an unquantized KV cache in vLLM and SGLang.
_SIXTEEN_BITS = "bfloat16"
#: Command under which the keys of TensorRT-LLM's configuration file are recorded.
_FILE = "trtllm-serve config"
#: Options, and contents of the configuration file.
Written = tuple[dict[str, Any], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class InstanceRun:
    """Instance for which the options of its engine are written."""

    engine: LaunchEngine
    """Engine that runs the instance."""
    service: Service
    """Predicted service of the instance."""
    limits: InstanceLimits
    """Launch limits of the instance."""
    served: Weights
    """Weights that the instance serves."""
    role: Role = "both"
    """Role of the instance: aggregated, prefill or decode."""

    @property
    def degrees(self) -> LaunchDegrees:
        """Parallelism degrees of the instance."""
        return LaunchDegrees.of(self.service)

    def refused(self, problem: str, option: str) -> InputError:
        """Create the error for degrees that the engine does not support."""
        return InputError(f"{self.engine.label} has no {self.degrees.text}{problem}", option=option)


def written(run: InstanceRun) -> Written:
    """Create the command-line options and the configuration file of an instance.

    Raises
    ------
    InputError
        If the engine does not support the GPU, layout, format or speculation method.
    """
    engine, service, setup = run.engine, run.service, run.service.setup
    if setup.hardware.vendor not in engine.launch.vendors:
        raise InputError(
            f"{engine.label} does not run on {setup.hardware.name}: it has {' and '.join(engine.launch.vendors)}"
        )
    facts = catalog.engine(engine.name).at(engine.options.version)
    shared = groups_share_work(facts, setup.model, setup.hardware.generation)
    if run.degrees.dp > 1 and not (has_experts(setup.model) or shared):
        raise run.refused(
            " of a dense model: each of its data-parallel ranks is a full replica; use --dp 1, and the plan adds the "
            "replicas",
            "dp",
        )
    _format(run)  # rejects weight formats that the engine cannot make
    arguments, file = _TABLES[engine.name](run)
    delayed = instance.told(engine, instance.priced(service, run.role), run.degrees.pp, service.speculation)
    turns: Written = _turns(run), {}
    for options, keys in (turns, delayed, _kernels(engine, service), _adapters(engine, setup), _of_role(run)):
        arguments, file = arguments | options, file | keys
    return arguments, file


def _kernels(engine: LaunchEngine, service: Service) -> Written:
    """Kernel options from the recipe of the instance; options that the engine version lacks are left out."""
    setup, speculation = service.setup, service.speculation
    proposer, drafts = (None, None) if speculation is None else (speculation.proposer, speculation.longest)
    practice = practice_of(engine.name, setup.model, setup.hardware, setup.precision, proposer, drafts)
    arguments: dict[str, Any] = {}
    file: dict[str, Any] = {}
    for name, value in {} if practice is None else practice.options.items():
        group, _, key = name.partition(".")
        command = engine.launch.command if name.startswith("-") else _FILE
        if not engine.options.has(command, name) or value not in (engine.options.option(command, name).choices or ()):
            continue
        if command == _FILE:
            file.setdefault(group, {})[key] = value
        else:
            arguments[name] = value
    return arguments, file


def _adapters(engine: LaunchEngine, setup: Setup) -> Written:
    """Options for LoRA adapters. The maximum rank is the smallest supported rank that is large enough.

    Raises
    ------
    InputError
        If no rank that the engine supports is large enough.
    """
    wanted = setup.assumptions.adapters
    if not wanted.loras:
        return {}, {}
    slots = engine.first("--max-loras", "--max-loras-per-batch")
    ranks = engine.options.option(engine.launch.command, "--max-lora-rank").choices or (wanted.rank,)
    rank = min((rank for rank in map(int, ranks) if rank >= wanted.rank), default=None)
    if slots is None or rank is None:
        raise InputError(
            f"{engine.label} has no room for adapters of rank {wanted.rank}; its --max-lora-rank is one of "
            f"{', '.join(map(str, ranks))}",
            option="lora_rank",
        )
    targets = {"--lora-target-modules": "all"} if engine.name == "sglang" else {}
    return {"--enable-lora": True, slots: wanted.loras, "--max-lora-rank": rank, **targets}, {}


def _turns(run: InstanceRun) -> dict[str, Any]:
    """Options for two-batch overlap; empty unless the overlap speeds up full prefill or decode steps."""
    engine, service, limits, role = run.engine, run.service, run.limits, run.role
    facts = ServingEngine(engine.name, catalog.engine(engine.name).at(engine.options.version))
    setup, plans = replace(service.setup, engines=(facts,)), service.plans
    whole = replace(setup, assumptions=setup.assumptions.changed({"network.two_batch_overlap": "never"}))
    groups = attention_groups(plans, setup.assumptions.layout) * plans.pp
    reading = replace(plans, batch=groups * np.ones(1), new_tokens=limits.step_tokens, prefill=True)
    writing = replace(plans, batch=groups * float(limits.sequences))
    steps = {"prefill": [reading], "decode": [writing]}.get(role, [reading, writing])
    if not any(np.min(step_seconds(setup, step)) < np.min(step_seconds(whole, step)) for step in steps):
        return {}
    if engine.name == "sglang":
        # Overlap all steps, with the DeepEP kernels that each phase needs.
        return {"--moe-a2a-backend": "deepep", "--enable-two-batch-overlap": True}
    # vLLM overlaps with DeepEP only; before 0.12 an environment variable selects it. TensorRT-LLM has no such option.
    if engine.name != "vllm" or engine.first("--all2all-backend") is None:
        return {}
    backend = "deepep_low_latency" if role == "decode" else "deepep_high_throughput"
    return {"--all2all-backend": backend, "--enable-dbo": True}


def _of_role(run: InstanceRun) -> Written:
    """Options and configuration keys of a prefill instance or a decode instance; empty for an aggregated instance.

    Raises
    ------
    InputError
        If the engine cannot transfer a KV cache between servers.
    """
    engine, role = run.engine, run.role
    if role == "both":
        return {}, {}
    if engine.name == "vllm":
        # Every instance sends and receives caches; the router selects which.
        return {"--kv-transfer-config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}}, {}
    if engine.name == "sglang":
        return {"--disaggregation-mode": role, "--disaggregation-transfer-backend": "nixl"}, {}
    if engine.name == "trtllm":
        # Transfer buffers fit the longest request. Prefill runs without the overlap scheduler, which only speeds up
        # decoding.
        ahead = {"disable_overlap_scheduler": True} if role == "prefill" else {}
        transfer = {"backend": "DEFAULT", "max_tokens_in_buffer": run.limits.tokens}
        return {}, {**ahead, "cache_transceiver_config": transfer}
    raise InputError(f"there are no servers of this engine that only {role}; use --aggregated")


def _format(run: InstanceRun) -> str | None:
    """Value of the engine's option for the weight format; None if the checkpoint already has the requested format.

    Raises
    ------
    InputError
        If the engine cannot convert the published weights to this format.
    """
    engine, model, precision = run.engine, run.service.setup.model, run.service.setup.precision
    published = Precision.of(model)
    if run.served.own or precision.of_weights == published.of_weights:
        return None
    quantised = engine.launch.quantised_on_load
    if published.of_weights[0] in _WIDE and len(published.of_weights) == 1 and precision.weights in quantised:
        return quantised[precision.weights]
    named = ", ".join(quantised) or "none"
    raise InputError(
        f"{model.name} is published in {published.weights}, and {engine.label} cannot make {precision.weights} of that "
        f"while it loads (it makes: {named}); name weights in {precision.weights} with --model-id",
        option="weights",
    )


def _cache(run: InstanceRun) -> str:
    """Value of the engine's option for the KV-cache format.

    Raises
    ------
    InputError
        If the engine does not support the format.
    """
    kv, names = run.service.setup.precision.kv, run.engine.launch.caches
    if kv not in names:
        raise InputError(f"{run.engine.label} has no cache in {kv}; it has: {', '.join(names)} (--kv)", option="kv")
    return names[kv]


def _told_cache(run: InstanceRun) -> str | None:
    """Value of the KV-cache option of vLLM and SGLang; None if their default ``auto`` gives the predicted format.

    If a quantized checkpoint includes KV-cache scales, ``auto`` would select a narrower format than predicted.
    """
    engine, cache = run.engine, _cache(run)
    if cache != "auto":
        return cache
    if not run.served.own or run.service.setup.precision.weights in _WIDE:
        return None
    choices = engine.options.option(engine.launch.command, "--kv-cache-dtype").choices
    return _SIXTEEN_BITS if choices is None or _SIXTEEN_BITS in choices else None


def _vllm(run: InstanceRun) -> Written:
    """Options of vLLM. Full experts are distributed over all DP x TP ranks, or each expert is split over all ranks."""
    engine, service, degrees, limits = run.engine, run.service, run.degrees, run.limits
    if degrees.ep not in (1, degrees.stage):
        raise run.refused(
            f": its experts lie on all {degrees.stage} ranks of DP x TP or each is cut over them; use --ep "
            f"{degrees.stage} or --ep 1",
            "ep",
        )
    capturing = engine.first("--max-cudagraph-capture-size", "--cuda-graph-sizes")
    redundant = service.setup.assumptions.experts.redundant
    chosen: dict[str | None, Any] = {
        "model_tag": run.served.model,
        "--tensor-parallel-size": degrees.tp,
        "--pipeline-parallel-size": degrees.pp if degrees.pp > 1 else None,
        "--data-parallel-size": degrees.dp if degrees.dp > 1 else None,
        "--decode-context-parallel-size": degrees.dcp if degrees.dcp > 1 else None,
        "--enable-expert-parallel": degrees.ep > 1 or None,
        "--enable-eplb": bool(redundant) or None,
        "--eplb-config": {"num_redundant_experts": redundant} if redundant else None,
        "--quantization": _format(run),
        "--kv-cache-dtype": _told_cache(run),
        "--enable-prefix-caching": bool(service.requests.cached) or None,
        "--max-model-len": limits.tokens,
        "--max-num-seqs": limits.sequences,
        "--max-num-batched-tokens": limits.step_tokens,
        "--gpu-memory-utilization": _down(limits.room.usable / limits.room.total),
        capturing: _captured(limits.sequences) if limits.sequences > _VLLM_CAPTURES else None,
        "--speculative-config": _vllm_speculation(run),
    }
    return _given(chosen), {}


def _vllm_speculation(run: InstanceRun) -> dict[str, Any] | None:
    speculation = run.service.speculation
    if speculation is None:
        return None
    length = {"num_speculative_tokens": speculation.longest}
    if speculation.proposer == "mtp":
        return {"method": "mtp", **length}
    if speculation.proposer == "ngram":
        return {"method": "ngram", **length}
    method = "eagle3" if speculation.proposer == "eagle" else "draft_model"
    return {"method": method, "model": _draft(run, speculation), **length}


def _sglang(run: InstanceRun) -> Written:
    """Options of SGLang: ``--tp-size`` has all ranks of a stage, and attention DP divides them into groups."""
    engine, service, degrees, limits = run.engine, run.service, run.degrees, run.limits
    capturing = engine.first("--cuda-graph-max-bs-decode", "--cuda-graph-max-bs")
    redundant = service.setup.assumptions.experts.redundant
    chosen: dict[str | None, Any] = {
        "--model-path": run.served.model,
        "--tp-size": degrees.stage,
        "--pp-size": degrees.pp if degrees.pp > 1 else None,
        "--dp-size": degrees.dp if degrees.dp > 1 else None,
        "--enable-dp-attention": degrees.dp > 1 or None,
        "--ep-size": degrees.ep if degrees.ep > 1 else None,
        "--dcp-size": degrees.dcp if degrees.dcp > 1 else None,
        "--enable-eplb": bool(redundant) or None,
        "--ep-num-redundant-experts": redundant or None,
        "--quantization": _format(run),
        "--kv-cache-dtype": _told_cache(run),
        "--context-length": limits.tokens,
        "--max-running-requests": limits.sequences * degrees.dp,
        "--chunked-prefill-size": limits.step_tokens * degrees.dp,
        "--mem-fraction-static": _down((limits.room.weights + limits.room.cache) / limits.room.total),
        capturing: _captured(limits.sequences),
        **_sglang_speculation(run),
    }
    return _given(chosen), {}


def _sglang_speculation(run: InstanceRun) -> dict[str | None, Any]:
    speculation = run.service.speculation
    if speculation is None:
        return {}
    algorithm = _SGLANG_ALGORITHMS[speculation.proposer]
    draft = _draft(run, speculation) if speculation.proposer in ("draft", "eagle") else None
    return {
        "--speculative-algorithm": algorithm,
        "--speculative-draft-model-path": draft,
        "--speculative-num-steps": speculation.longest,
        "--speculative-eagle-topk": None if algorithm == "NGRAM" else 1,
        "--speculative-num-draft-tokens": speculation.longest + 1,
    }


#: Names of speculation methods in SGLang.
_SGLANG_ALGORITHMS: Mapping[ProposerName, str] = {
    "mtp": "NEXTN",
    "ngram": "NGRAM",
    "eagle": "EAGLE3",
    "draft": "STANDALONE",
}


def _trtllm(run: InstanceRun) -> Written:
    """Options of TensorRT-LLM, which does not quantize at load time.

    Attention is split over all ranks of a pipeline stage, or runs data-parallel on each rank.
    """
    engine, service, degrees, limits = run.engine, run.service, run.degrees, run.limits
    if degrees.dp > 1 and degrees.tp > 1:
        raise run.refused(
            f": its attention is cut over all {degrees.stage} ranks or over none; ask again with --tp {degrees.stage} "
            f"--dp 1 or --tp 1 --dp {degrees.stage}",
            "tp",
        )
    if degrees.dcp > 1:
        raise run.refused("; remove --dcp", "dcp")
    if service.setup.assumptions.experts.redundant:
        raise InputError(
            f"{engine.label} reads the placement of redundant experts from a separate file (moe_config.load_balancer), "
            "which this command does not write; remove --redundant-experts",
            option="redundant_experts",
        )
    if service.speculation is not None and service.speculation.proposer not in _TRTLLM_DECODING:
        decoding = ", ".join(f"--{name}" for name in _TRTLLM_DECODING)
        raise InputError(
            f"{engine.label} is not started with --{service.speculation.proposer} here; it has {decoding}",
            option=service.speculation.proposer,
        )
    left = limits.room.total - limits.room.weights - limits.room.workspace
    chosen: dict[str | None, Any] = {
        "model": run.served.model,
        "--tp_size": degrees.stage,
        "--pp_size": degrees.pp if degrees.pp > 1 else None,
        "--ep_size": degrees.ep if degrees.ep > 1 else None,
        "--max_seq_len": limits.tokens,
        "--max_batch_size": limits.sequences,
        "--max_num_tokens": limits.step_tokens,
        "--kv_cache_free_gpu_memory_fraction": _down(limits.room.cache / left),
    }
    file: dict[str, Any] = {
        "enable_attention_dp": degrees.dp > 1,
        "enable_chunked_prefill": True,
        "cuda_graph_config": {"enable_padding": True, "max_batch_size": limits.sequences},
        "kv_cache_config": {
            "dtype": _cache(run),
            **({"enable_block_reuse": True} if service.requests.cached else {}),
        },
    }
    if service.speculation is not None:
        kind, length = _TRTLLM_DECODING[service.speculation.proposer]
        head = {"speculative_model_dir": _draft(run, service.speculation)} if kind == "Eagle" else {}
        file["speculative_config"] = {"decoding_type": kind, length: service.speculation.longest, **head}
    return _given(chosen), file


#: Names of speculation methods in TensorRT-LLM, and of their draft length.
_TRTLLM_DECODING = {
    "mtp": ("MTP", "num_nextn_predict_layers"),
    "ngram": ("NGram", "max_draft_len"),
    "eagle": ("Eagle", "max_draft_len"),
}


def _llama_cpp(run: InstanceRun) -> Written:
    """Options of llama-server, which splits layers or tensors of a GGUF file over GPUs.

    All requests share one KV cache.
    """
    service, degrees, limits = run.service, run.degrees, run.limits
    _check_plain(run)
    if degrees.ep > 1 or (degrees.tp > 1 and degrees.pp > 1):
        raise run.refused(": it cuts layers or tensors, not both; use --tp 1 or --pp 1, and --ep 1", "tp")
    model, room, cache = run.served.model, limits.room, _cache(run)
    file = model.endswith(".gguf")
    tag = "F16" if service.setup.precision.experts == "fp16" else service.setup.precision.experts.upper()
    held = math.floor(room.cache / room.request * limits.tokens)
    on_cpu = service.setup.assumptions.cpu.layers
    chosen: dict[str | None, Any] = {
        "--model" if file else "--hf-repo": model if file else f"{model}:{tag}",
        # llama.cpp counts the output layer as a layer, and places it on the GPU first.
        "--n-gpu-layers": service.setup.model.layers + 1 - on_cpu if on_cpu else "all",
        "--split-mode": None if degrees.stage * degrees.pp == 1 else "tensor" if degrees.tp > 1 else "layer",
        "--ctx-size": min(held, limits.tokens * limits.sequences),
        "--kv-unified": True,
        "--parallel": limits.sequences,
        "--batch-size": limits.step_tokens,
        "--cache-type-k": cache,
        "--cache-type-v": cache,
    }
    return _given(chosen), {}


def _mlx(run: InstanceRun) -> Written:
    """Options of mlx_lm.server, which runs on one Mac and allocates KV caches on demand."""
    _check_plain(run)
    if run.service.accelerators > 1:
        raise InputError(f"{run.engine.label} is started on one Mac here, got {run.degrees.text}", option="tp")
    limits = run.limits
    steps = {"--decode-concurrency": limits.sequences, "--prefill-step-size": limits.step_tokens}
    return {"--model": run.served.model, **steps}, {}


def _check_plain(run: InstanceRun) -> None:
    """Reject speculation and decode-context parallelism for engines that cannot be launched with them."""
    if run.service.speculation is not None or run.degrees.dcp > 1:
        raise InputError(
            f"{run.engine.label} is started without speculation and --dcp here; use --no-speculation",
            option="speculation",
        )


def _draft(run: InstanceRun, speculation: Speculation) -> str:
    """Hugging Face id or path of the draft model or EAGLE head.

    Raises
    ------
    InputError
        If the model has no draft weights, or their location is unknown.
    """
    engine, draft, setup = run.engine, speculation.model, run.service.setup
    if run.served.draft is not None:
        return run.served.draft
    if draft is None:
        head = head_of(engine.name, setup.model, setup.hardware, setup.precision) or setup.model.checkpoint("eagle")
        if head is None:
            raise InputError(
                f"{engine.label} needs the weights of an EAGLE head, and none is known for {setup.model.name}; name it "
                "with --draft-model-id ORGANIZATION/NAME, or use --mtp, --ngram or --draft",
                option="draft_model_id",
            )
        return head
    published = draft.checkpoint()
    if published is None:
        raise InputError(
            f"{draft.name} has no huggingface_id, so {engine.label} cannot load it; name its weights with "
            "--draft-model-id ORGANIZATION/NAME",
            option="draft_model_id",
        )
    return published


def _captured(sequences: int) -> int:
    """Batch of the largest decode step with a CUDA graph [1], which engines pad to a multiple of eight."""
    return max(1, math.ceil(sequences / 8) * 8) if sequences > 8 else sequences


def _down(share: float) -> float:
    """Share of memory, rounded down to three digits [1]."""
    return math.floor(share * 1e3) / 1e3


def _given(chosen: dict[str | None, Any]) -> dict[str, Any]:
    """Remove the options that have no value or are not supported."""
    return {name: value for name, value in chosen.items() if name is not None and value is not None}


_TABLES: Mapping[str, Callable[[InstanceRun], Written]] = {
    "vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm, "llama_cpp": _llama_cpp, "mlx": _mlx,
}  # fmt: skip
