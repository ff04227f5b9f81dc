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
    windows,
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
    c.only("attention_bias", False)  # Sarvam calls it so
    c.only("use_rmsnorm", True)
    c.only("norm_head", False)
    c.only("moe_shared_expert_intermediate_size", c.size("moe_intermediate_size"))
    c.skip("norm_softmax", "router_dtype", "moe_router_enable_expert_bias", "router_type", "multi_gate")
    norm: QkNorm = "per_head" if c.flag("use_qk_norm", default=second) else "none"
    attention = grouped_query(c, width=head_dim(c), qkv_bias=c.flag("use_qkv_bias", default=False), qk_norm=norm)
    parts = dense_first(c, default_first=0, default_shared=0)
    mtp = c.whole("num_nextn_predict_layers")
    return architecture(c, [Layer(attention, part) for part in parts], mtp_layers=mtp)


def sarvam_moe(c: Reader) -> Architecture:
    """Sarvam: version 2 of Ling with defaults of its own."""
    c.assume(first_k_dense_replace=1, n_shared_experts=1, num_key_value_heads=4, use_qk_norm=True)
    return bailing_moe(c)


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


def step3p5(c: Reader) -> Architecture:
    """Step 3.5 and 3.7 Flash: a gate for each query head, more of them in layers that slide."""
    for key in ("use_moe", "use_qk_norm", "use_head_wise_attn_gate"):
        c.only(key, True)
    for key in ("attention_bias", "mlp_bias", "sink", "use_mfa"):
        c.only(key, False)
    c.only("gating", True, "per-head")
    c.only("att_impl_type", "GQA")
    c.only("moe_every_n_layer", 1)
    c.only("moe_layer_offset", 0)
    c.only("n_shared_experts", 1)
    c.skip("norm_expert_weight", "need_fp32_gate", "zero_centered", "use_rope_layers", "yarn_only_types")
    c.skip("partial_rotary_factors", "moe_router_activation", "moe_router_scaling_factor", "use_moe_router_bias")
    c.skip("swiglu_limits", "swiglu_limits_shared", "mtp_layer_types", "mtp_mlp_layer_types")
    layers, mtp = c.layers(), c.whole("num_nextn_predict_layers", "num_mtp_layers")
    # Published lists have one more entry for each layer that proposes tokens.
    padded = isinstance(c.data.get("layer_types"), list) and len(c.data["layer_types"]) == layers + mtp
    slides = windows(c, [False] * (layers + mtp if padded else layers))[:layers]
    kv = whole_groups(c, heads(c), c.size("num_key_value_heads", "num_attention_groups"))
    width, local = head_dim(c, default=128), _step_local_heads(c, kv)
    attentions = [
        grouped_query(
            c, queries=local if window else None, kv=kv, width=width, window=window, qk_norm="per_head", head_gate=True
        )
        for window in slides
    ]
    parts = [Layer(attention, part) for attention, part in zip(attentions, _step_parts(c, layers, mtp), strict=True)]
    return architecture(c, parts, mtp_layers=mtp)


def _step_local_heads(c: Reader, kv: int) -> int:
    """Query heads of layers that slide."""
    stated = c.size_if("num_sliding_attention_heads")
    if c.has("attention_other_setting"):
        inner = c.inside("attention_other_setting")
        inner.only("attention_type", "sliding_attention")
        inner.only("num_attention_groups", kv)
        for key in ("head_dim", "true_head_dim"):
            inner.only(key, head_dim(c, default=128))
        stated = stated or inner.size("num_attention_heads")
        inner.finish()
    if stated is None and heads(c) != 64:
        c.stop("attention_other_setting is missing, which says how many heads layers that slide have")
    # Copies of the published models, which have 64 and 96 (arXiv:2602.10604), leave the second number out.
    count = stated or c.without("num_sliding_attention_heads", 96)
    whole_groups(c, count, kv)
    return count


def _step_parts(c: Reader, layers: int, mtp: int) -> list[FeedForward]:
    kinds = c.words("mlp_layer_types", ("dense", "sparse"), layers)
    first = c.whole("first_k_dense_replace", default=3)
    sparse = [kind == "sparse" for kind in kinds] if kinds else [index >= first for index in range(layers)]
    _, listed = c.find("moe_layers_enum")
    if listed is not None:
        numbers = listed.split(",") if isinstance(listed, str) else c.numbers("moe_layers_enum") or []
        names = {str(number) for number in numbers}
        if not names <= {str(index) for index in range(layers + mtp)}:
            c.stop(f"moe_layers_enum must name layers from 0 to {layers + mtp - 1}, got {listed!r}")
        sparse = [str(index) in names for index in range(layers)]
    width = c.size("moe_intermediate_size")
    mixture = experts(
        c,
        width,
        count_keys=("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"),
        active_keys=("num_experts_per_tok", "moe_top_k"),
        shared=c.size("share_expert_dim", "share_expert_dims"),
    )
    plain = dense(c.size("intermediate_size"))
    return [mixture if is_sparse else plain for is_sparse in sparse]
