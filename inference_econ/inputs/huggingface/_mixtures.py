"""More families with mixtures of experts behind ordinary attention."""

from __future__ import annotations

from inference_econ.inputs.huggingface._experts import dense_first
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
)
from inference_econ.inputs.huggingface._reader import Reader
from inference_econ.inputs.huggingface._relatives import exaone_attention, hunyuan_attention
from inference_econ.inputs.layers import FeedForward


def olmoe(c: Reader) -> Architecture:
    """OLMoE: norms of the whole width of queries and keys; ``intermediate_size`` is the width of one expert."""
    c.skip("clip_qkv")
    bias = c.flag("attention_bias", default=False)
    attention = grouped_query(c, qkv_bias=bias, output_bias=bias, qk_norm="full")
    mixture = experts(c, c.size("intermediate_size"), count_keys=("num_experts",))
    return architecture(c, [Layer(attention, mixture)] * c.layers())


def granitemoe(c: Reader) -> Architecture:
    """Granite MoE: ``intermediate_size`` is the width of one expert, a shared one is stated apart."""
    bias = c.flag("attention_bias", default=False)
    attention = grouped_query(c, qkv_bias=bias, output_bias=bias)
    shared = c.whole("shared_intermediate_size") or None
    mixture = experts(c, c.size("intermediate_size"), count_keys=("num_local_experts",), shared=shared)
    return architecture(c, [Layer(attention, mixture)] * c.layers())


def dbrx(c: Reader) -> Architecture:
    """DBRX: sizes of attention and of the experts stand in mappings of their own."""
    inner, outer = c.inside("attn_config"), c.inside("ffn_config")
    inner.skip("clip_qkv")
    attention = grouped_query(c, kv=whole_groups(c, heads(c), inner.size_or("kv_n_heads", default=1)))
    outer.skip("ffn_act_fn", "moe_jitter_eps", "moe_loss_weight", "moe_normalize_expert_weights")
    outer.skip("uniform_expert_assignment")
    mixture = experts(outer, outer.size("ffn_hidden_size"), count_keys=("moe_num_experts",), active_keys=("moe_top_k",))
    for reader in (inner, outer):
        reader.only("hidden_size", c.size("d_model"))
        reader.finish()
    return architecture(c, [Layer(attention, mixture)] * c.layers())


def ernie4_5_moe(c: Reader) -> Architecture:
    """ERNIE 4.5 with experts: dense layers first; the router's correction is a parameter; tied by default."""
    layers, width = c.layers(), c.size("moe_intermediate_size")
    c.only("moe_layer_interval", 1)
    c.only("moe_layer_end_index", -1, layers - 1)
    c.only("moe_use_aux_free", True)
    c.only("moe_gate", "topk")
    c.skip("moe_capacity", "moe_norm_min")
    c.only("use_bias", False)
    attention = grouped_query(c, kv=kv_heads(c, default=4))
    mixture = experts(
        c,
        width,
        count_keys=("moe_num_experts",),
        active_keys=("moe_k",),
        shared=c.whole("moe_num_shared_experts", default=2) * width or None,
        router_bias=True,
    )
    plain = dense(c.size("intermediate_size"))
    first = c.whole("moe_layer_start_index", default=1)
    parts = [mixture if index >= first else plain for index in range(layers)]
    mtp = c.whole("num_nextn_predict_layers")
    return architecture(c, [Layer(attention, part) for part in parts], tied=True, mtp_layers=mtp)


def hunyuan_v1_moe(c: Reader) -> Architecture:
    """Hunyuan-A13B: a shared expert as wide as the routed ones; some sizes are repeated for each layer."""
    layers, width = c.layers(), c.size("intermediate_size")
    for key, expected in (("num_shared_expert", 1), ("moe_intermediate_size", width)):
        c.only(key, expected, [expected] * layers)
    c.only("moe_layer_num_skipped", 0)
    c.only("use_mixed_mlp_moe", True)
    c.only("group_limited_greedy", False)
    c.skip("moe_drop_tokens", "moe_random_routing_dropped_token")
    _, active = c.find("moe_topk")
    if isinstance(active, list) and active == active[:1] * layers:
        c.data = {**c.data, "moe_topk": active[0]}
    mixture = experts(c, width, count_keys=("num_experts",), active_keys=("moe_topk",), shared=width)
    return architecture(c, [Layer(hunyuan_attention(c), mixture)] * layers)


def dots1(c: Reader) -> Architecture:
    """dots.llm1: norms of queries and keys, dense layers first, shared experts."""
    c.only("use_sliding_window", False)
    c.only("sliding_window")
    c.unused("max_window_layers")
    c.words("layer_types", ("full_attention",), c.layers())
    bias = c.flag("attention_bias", default=False)
    attention = grouped_query(c, qkv_bias=bias, output_bias=bias, qk_norm="per_head")
    return architecture(c, [Layer(attention, part) for part in dense_first(c, default_first=0, default_shared=0)])


def exaone_moe(c: Reader) -> Architecture:
    """K-EXAONE: EXAONE 4's attention behind norms in front, dense layers first, a shared expert."""
    parts = dense_first(c, default_first=1, default_shared=1)
    c.only("is_moe_layer", [part.kind == "experts" for part in parts])
    layers = [Layer(attention, part) for attention, part in zip(exaone_attention(c), parts, strict=True)]
    return architecture(c, layers, mtp_layers=c.whole("num_nextn_predict_layers"))


def bailing_moe(c: Reader) -> Architecture:
    """Ling and Ring: version 2 norms queries and keys and has dense layers first."""
    second = c.family == "bailing_moe_v2" or c.data.get("architectures") == ["BailingMoeV2ForCausalLM"]
    c.only("use_bias", False)
    c.only("use_rmsnorm", True)
    c.only("norm_head", False)
    c.only("moe_shared_expert_intermediate_size", c.size("moe_intermediate_size"))
    c.skip("norm_softmax", "router_dtype", "moe_router_enable_expert_bias", "router_type", "multi_gate")
    norm: QkNorm = "per_head" if c.flag("use_qk_norm", default=second) else "none"
    attention = grouped_query(c, width=head_dim(c), qkv_bias=c.flag("use_qkv_bias", default=False), qk_norm=norm)
    parts = dense_first(c, default_first=0, default_shared=0)
    mtp = c.whole("num_nextn_predict_layers")
    return architecture(c, [Layer(attention, part) for part in parts], mtp_layers=mtp)


def gemma4(c: Reader) -> Architecture:
    """Gemma 4: wider heads and fewer of keys where all tokens are attended to; experts beside the dense block.

    There values are what keys are before their norm. Experts have three norms of their own, and their router scales its
    input and each expert. Neither layers that share keys nor inputs per layer are understood.
    """
    bias = c.flag("attention_bias", default=False)
    c.only("num_kv_shared_layers", 0)
    c.only("hidden_size_per_layer_input", 0)
    c.only("use_double_wide_mlp", False)
    c.only("use_bidirectional_attention", "vision")
    c.unused("vocab_size_per_layer_input")
    alike = c.flag("attention_k_eq_v", default=False)
    full_width = c.size_or("global_head_dim", default=512)
    full_kv = c.size_if("num_global_key_value_heads") if alike else None
    wide = c.size("intermediate_size")
    part: FeedForward = dense(wide)
    norms = 4
    if c.flag("enable_moe_block", default=False):
        width, keys = c.size("moe_intermediate_size"), ("top_k_experts",)
        part = experts(c, width, count_keys=("num_experts",), active_keys=keys, shared=wide, router_bias=True)
        norms = 8
    c.skip("expert_intermediate_size", "num_experts", "top_k_experts", "moe_intermediate_size")
    kinds = c.words("layer_types", ("sliding_attention", "full_attention"), c.layers())
    if kinds is None:
        c.stop("layer_types is missing; sliding_attention or full_attention is needed for each layer")
    window, kv = c.size("sliding_window"), kv_heads(c)
    sliding = grouped_query(c, kv=kv, window=window, qkv_bias=bias, output_bias=bias, qk_norm="per_head")
    full = grouped_query(
        c,
        kv=full_kv or kv,
        width=full_width,
        qkv_bias=bias,
        output_bias=bias,
        qk_norm="per_head",
        value_projection=not alike,
    )
    layers = [Layer(sliding if kind == "sliding_attention" else full, part, norms) for kind in kinds]
    return architecture(c, layers, tied=True)
