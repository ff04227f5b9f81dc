"""Families with mixtures of experts behind ordinary attention."""

from __future__ import annotations

from inference_econ.inputs.huggingface._dense import qwen_windows
from inference_econ.inputs.huggingface._layers import (
    Architecture,
    Layer,
    QkNorm,
    architecture,
    dense,
    experts,
    grouped_query,
    head_dim,
    heads,
    kv_heads,
    whole_groups,
    windows,
)
from inference_econ.inputs.huggingface._reader import Reader
from inference_econ.inputs.layers import FeedForward
from inference_econ.inputs.layers.feed_forward import ExpertFeedForward

_ROUTED = ("n_routed_experts", "num_experts", "num_local_experts")


def mixtral(c: Reader) -> Architecture:
    """Mixtral: ``intermediate_size`` is the width of one expert."""
    attention = grouped_query(c, kv=kv_heads(c, default=8), window=c.size_if("sliding_window"))
    mixture = experts(c, c.size("intermediate_size"), count_keys=("num_local_experts",))
    return architecture(c, [Layer(attention, mixture)] * c.layers())


def phimoe(c: Reader) -> Architecture:
    """Phi-3.5-MoE: norms with biases, and biases of attention and output where stated."""
    bias = c.flag("attention_bias", default=False)
    attention = grouped_query(
        c, kv=kv_heads(c, default=8), window=c.size_if("sliding_window"), qkv_bias=bias, output_bias=bias
    )
    mixture = experts(c, c.size("intermediate_size"), count_keys=("num_local_experts",))
    head = c.flag("lm_head_bias", default=False)
    return architecture(c, [Layer(attention, mixture, norm_bias=True)] * c.layers(), output_bias=head)


def sparse_layers(c: Reader, mixture: FeedForward) -> list[FeedForward]:
    """Qwen's rule: a mixture in every ``decoder_sparse_step``-th layer, except where listed."""
    step, layers = c.size_or("decoder_sparse_step", default=1), c.layers()
    only = c.numbers("mlp_only_layers") or []
    if any(index >= layers for index in only):
        c.stop(f"mlp_only_layers names layer {max(only)}, but there are only {layers}, counted from 0")
    sparse = [index not in only and (index + 1) % step == 0 for index in range(layers)]
    if all(sparse):
        c.unused("intermediate_size")
        return [mixture] * layers
    plain = dense(c.size("intermediate_size"))
    return [mixture if is_sparse else plain for is_sparse in sparse]


def gated_shared_experts(c: Reader) -> ExpertFeedForward:
    """Qwen's mixture of experts, with a shared expert behind a gate."""
    return experts(
        c,
        c.size("moe_intermediate_size"),
        count_keys=("num_experts",),
        shared=c.size("shared_expert_intermediate_size"),
        shared_gate=True,
    )


def qwen2_moe(c: Reader) -> Architecture:
    """Qwen1.5-MoE and Qwen2-MoE: a shared expert behind a gate, biases of queries, keys and values."""
    mixture = gated_shared_experts(c)
    kv = whole_groups(c, heads(c), c.size("num_key_value_heads"))
    bias = c.flag("qkv_bias", default=True)
    layers = [
        Layer(grouped_query(c, kv=kv, window=window, qkv_bias=bias), part)
        for window, part in zip(qwen_windows(c), sparse_layers(c, mixture), strict=True)
    ]
    return architecture(c, layers)


def qwen3_moe(c: Reader) -> Architecture:
    """Qwen3-MoE: norms of queries and keys, no shared expert."""
    c.only("use_sliding_window", False)
    c.unused("sliding_window", "max_window_layers")
    c.only("qkv_bias", False)
    c.only("use_qk_norm", True)
    c.only("shared_expert_intermediate_size", 0)
    bias = c.flag("attention_bias", default=False)
    kv = kv_heads(c, default=4)
    attention = grouped_query(c, kv=kv, qkv_bias=bias, output_bias=bias, qk_norm="per_head")
    mixture = experts(c, c.size("moe_intermediate_size"), count_keys=("num_experts", "num_local_experts"))
    return architecture(c, [Layer(attention, part) for part in sparse_layers(c, mixture)])


def gpt_oss(c: Reader) -> Architecture:
    """gpt-oss: biases everywhere, a sink per head, every other layer slides, the first one too."""
    bias = c.flag("attention_bias", default=True)
    mixture = experts(
        c,
        c.size("intermediate_size"),
        count_keys=("num_local_experts", "num_experts"),
        active_keys=("num_experts_per_tok", "experts_per_token"),
        bias=True,
        router_bias=True,
    )
    width, kv = head_dim(c, default=64), kv_heads(c, default=8)
    layers = [
        Layer(grouped_query(c, kv=kv, width=width, window=window, qkv_bias=bias, output_bias=bias, sinks=True), mixture)
        for window in windows(c, [index % 2 == 0 for index in range(c.layers())])
    ]
    return architecture(c, layers)


def minimax_m2(c: Reader) -> Architecture:
    """MiniMax-M2: norms of the whole width of queries and keys; ``intermediate_size`` is that of one expert."""
    c.only("use_qk_norm", True)
    c.only("qk_norm_type", "per_layer")
    c.only("shared_intermediate_size", 0)
    c.only("attention_bias", False)
    c.skip("use_routing_bias", "use_mtp", "mtp_transformer_layers", "shared_moe_mode", "layernorm_full_attention_beta")
    c.unused("max_model_len", "sliding_window")
    layers = c.layers()
    kinds = c.numbers("attn_type_list")
    if kinds is not None and kinds != [1] * layers:
        c.stop(f"attn_type_list must hold 1 (full attention) for each of {layers} layers, got {kinds}")
    c.words("layer_types", ("full_attention",), layers)
    attention = grouped_query(c, kv=kv_heads(c, default=8), width=head_dim(c, default=128), qk_norm="full")
    mixture = experts(c, c.size("intermediate_size"), count_keys=("num_local_experts", "num_experts"))
    return architecture(c, [Layer(attention, mixture)] * layers, mtp_layers=c.whole("num_mtp_modules"))


def minimax_m3(c: Reader) -> Architecture:
    """MiniMax-M3: dense layers first, a shared expert, blocks of tokens that an indexer picks for each KV head."""
    c.only("use_qk_norm", True)
    c.only("qk_norm_type", "per_head")
    c.only("attention_output_gate", False)
    c.only("n_shared_experts", 1)
    c.skip("use_gemma_norm", "use_routing_bias")
    # Copies of one model state different numbers of modules; how many next tokens are predicted comes first.
    modules, mtp = c.whole("num_mtp_modules"), c.whole("num_nextn_predict_layers")
    mtp = mtp or modules
    layers, width = c.layers(), c.size("intermediate_size")
    c.only("moe_intermediate_size", width)
    sparse = _zeros_and_ones(c, "moe_layer_freq", layers)
    c.only("first_k_dense_replace", layers - sum(sparse))
    mixture = experts(
        c, width, count_keys=("num_local_experts", "num_experts"), shared=c.size("shared_intermediate_size")
    )
    plain = dense(c.size("dense_intermediate_size"))
    inner = c.inside("sparse_attention_config")
    inner.only("use_sparse_attention", True)
    inner.only("sparse_score_type", "max")
    inner.only("sparse_init_block", 0)
    inner.skip("sparse_local_block")  # is among the blocks that are picked
    picks = _zeros_and_ones(inner, "sparse_attention_freq", layers)
    # Where an indexer had values of its own it would be another attention.
    inner.only("sparse_disable_index_value", [int(pick) for pick in picks])
    head, kv = head_dim(c, default=128), kv_heads(c, default=4)
    inner.only("sparse_num_index_heads", kv)
    index = (kv, inner.size("sparse_index_dim"), inner.size("sparse_topk_blocks") * inner.size("sparse_block_size"))
    inner.finish()
    full = grouped_query(c, kv=kv, width=head, qk_norm="per_head")
    picked = grouped_query(c, kv=kv, width=head, qk_norm="per_head", index=index)
    parts = zip(picks, sparse, strict=True)
    return architecture(
        c,
        [Layer(picked if pick else full, mixture if is_sparse else plain) for pick, is_sparse in parts],
        mtp_layers=mtp,
    )


def _zeros_and_ones(c: Reader, key: str, layers: int) -> list[bool]:
    """A list with 0 or 1 for each layer."""
    numbers = c.numbers(key)
    if numbers is None or len(numbers) != layers or not set(numbers) <= {0, 1}:
        c.stop(f"{key} must have 0 or 1 for each of {layers} layers, got {numbers}")
    return [number == 1 for number in numbers]


def llama4(c: Reader) -> Architecture:
    """Llama 4: a shared expert that no key states, dense layers between, attention in chunks."""
    bias = c.flag("attention_bias", default=False)
    c.skip("use_qk_norm", "for_llm_compressor")  # its norm of queries and keys has no weights
    layers, step = c.layers(), c.size_or("interleave_moe_layer_step", default=1)
    listed = c.numbers("moe_layers")
    sparse = set(range(step - 1, layers, step) if listed is None else listed)
    if any(index >= layers for index in sparse):
        c.stop(f"moe_layers names layer {max(sparse)}, but there are only {layers}, counted from 0")
    width = c.size("intermediate_size")
    mixture = experts(c, width, count_keys=("num_local_experts",), shared=width)
    plain = dense(c.size("intermediate_size_mlp")) if len(sparse) < layers else None
    c.unused("intermediate_size_mlp")
    head, kv = head_dim(c, default=128), kv_heads(c, default=8)
    chunk = c.size_or("attention_chunk_size", default=8192)
    full = grouped_query(c, kv=kv, width=head, qkv_bias=bias, output_bias=bias)
    local = grouped_query(c, kv=kv, width=head, chunk=chunk, qkv_bias=bias, output_bias=bias)
    return architecture(
        c,
        [
            Layer(local if chunked else full, mixture if plain is None or index in sparse else plain)
            for index, chunked in enumerate(_chunked(c, layers))
        ],
    )


def _chunked(c: Reader, layers: int) -> list[bool]:
    """Layers with rotary positions attend within chunks; every fourth has none and attends to all."""
    kinds = c.words("layer_types", ("chunked_attention", "full_attention"), layers)
    rotary = c.numbers("no_rope_layers")
    period = c.size_or("no_rope_layer_interval", default=4)
    if kinds is not None:
        return [kind == "chunked_attention" for kind in kinds]
    if not rotary:
        return [(index + 1) % period != 0 for index in range(layers)]
    if len(rotary) != layers:
        c.stop(f"no_rope_layers has {len(rotary)} entries for {layers} layers")
    return [rotates != 0 for rotates in rotary]


def glm4_moe(c: Reader) -> Architecture:
    """GLM-4.5 to 4.7: biases of queries, keys and values, norms where stated, dense layers first."""
    norm: QkNorm = "per_head" if c.flag("use_qk_norm", default=False) else "none"
    attention = grouped_query(
        c, kv=kv_heads(c, default=8), qkv_bias=c.flag("attention_bias", default=False), qk_norm=norm
    )
    return architecture(
        c,
        [Layer(attention, part) for part in dense_first(c, default_first=1, default_shared=1)],
        mtp_layers=c.whole("num_nextn_predict_layers", "num_mtp_layers"),
    )


def dense_first(c: Reader, default_first: int, default_shared: int) -> list[FeedForward]:
    """DeepSeek's rule: the first ``first_k_dense_replace`` layers dense, then routed and shared experts.

    ``mlp_layer_types`` states the same per layer. The defaults are those of the published class.
    """
    layers = c.layers()
    c.only("moe_layer_freq", 1)
    c.only("mlp_bias", False)
    first = c.whole("first_k_dense_replace", default=default_first)
    if first > layers:
        c.stop(f"first_k_dense_replace is {first}, but there are only {layers} layers")
    kinds = c.words("mlp_layer_types", ("dense", "sparse"), layers)
    sparse = [index >= first for index in range(layers)] if kinds is None else [kind == "sparse" for kind in kinds]
    plain = None if all(sparse) else dense(c.size("intermediate_size"))
    c.unused("intermediate_size")
    width = c.size("moe_intermediate_size")
    count = c.whole("n_shared_experts", "num_shared_experts", default=default_shared)
    active = ("num_experts_per_tok", "num_experts_per_token")
    mixture = experts(c, width, count_keys=_ROUTED, active_keys=active, shared=count * width or None)
    return [mixture if plain is None or is_sparse else plain for is_sparse in sparse]


def mimo_v2_flash(c: Reader) -> Architecture:
    """MiMo-V2-Flash: sliding layers with more key-value heads and sinks; values narrower than keys."""
    # The published class has twice the heads in sliding layers, and sinks in all of them, whatever is stated.
    local_kv = whole_groups(c, heads(c), 2 * kv_heads(c, default=4))
    c.only("swa_num_key_value_heads", local_kv)
    c.only("add_swa_attention_sink_bias", True)
    return _mimo_v2(c, local_kv, sinks=True)


def mimo_v2(c: Reader) -> Architecture:
    """MiMo-V2.5 and V2.6: the sliding layers' heads are stated; what reads pictures and sounds is left out."""
    c.skip("vision_config", "audio_config")
    for key in ("num_key_value_heads", "head_dim", "v_head_dim"):
        c.size(key)
    for key, same in (("hybrid_layer_pattern", "layer_types"), ("moe_layer_freq", "mlp_layer_types")):
        if not c.has(key) and not c.has(same):
            c.stop(f"{key} is missing; it says what each layer is")
    sinks = c.flag("add_swa_attention_sink_bias", default=False)
    return _mimo_v2(c, whole_groups(c, heads(c), c.size("swa_num_key_value_heads")), sinks=sinks)


def _mimo_v2(c: Reader, local_kv: int, *, sinks: bool) -> Architecture:
    layers = c.layers()
    slides = _mimo_slides(c, layers)
    head, value = head_dim(c, default=192), c.size_or("v_head_dim", default=128)
    for key, same in (("swa_head_dim", head), ("swa_v_head_dim", value), ("swa_num_attention_heads", heads(c))):
        c.only(key, same)
    c.only("add_full_attention_sink_bias", False)
    bias = c.flag("attention_bias", default=False)
    # The class adds the token itself to sliding_window_size; the published window does not.
    window = c.size_or("sliding_window_size", "sliding_window", default=128)
    c.skip("attention_chunk_size", "hybrid_block_size", "attention_projection_layout")
    full = grouped_query(c, kv=kv_heads(c, default=4), width=head, qkv_bias=bias, value_head_dim=value)
    local = grouped_query(c, kv=local_kv, width=head, window=window, qkv_bias=bias, value_head_dim=value, sinks=sinks)
    made = [
        Layer(local if slide else full, part) for slide, part in zip(slides, _mimo_feed_forward(c, layers), strict=True)
    ]
    return architecture(c, made, mtp_layers=c.whole("num_nextn_predict_layers"))


def _mimo_slides(c: Reader, layers: int) -> list[bool]:
    kinds = c.words("layer_types", ("sliding_attention", "full_attention"), layers)
    pattern = c.numbers("hybrid_layer_pattern")
    if pattern is not None and (len(pattern) != layers or not set(pattern) <= {0, 1}):
        c.stop(f"hybrid_layer_pattern must have 0 (full) or 1 (sliding) for each of {layers} layers, got {pattern}")
    if kinds is not None:
        return [kind == "sliding_attention" for kind in kinds]
    if pattern is not None:
        return [slides == 1 for slides in pattern]
    return [index > 0 and (index + 1) % 6 != 0 for index in range(layers)]


def _mimo_feed_forward(c: Reader, layers: int) -> list[FeedForward]:
    kinds = c.words("mlp_layer_types", ("dense", "sparse"), layers)
    pattern = c.numbers("moe_layer_freq")
    if pattern is not None and (len(pattern) != layers or not set(pattern) <= {0, 1}):
        c.stop(f"moe_layer_freq must have 0 (dense) or 1 (experts) for each of {layers} layers, got {pattern}")
    if kinds is not None:
        sparse = [kind == "sparse" for kind in kinds]
    else:
        sparse = (
            [index > 0 for index in range(layers)] if pattern is None else [is_sparse == 1 for is_sparse in pattern]
        )
    c.only("n_shared_experts", 0)
    plain = dense(c.size("intermediate_size"))
    mixture = experts(c, c.size("moe_intermediate_size"), count_keys=_ROUTED)
    return [mixture if is_sparse else plain for is_sparse in sparse]
