"""Families with grouped-query attention, and dense or expert blocks, that the table of families cannot describe."""

from __future__ import annotations

from typing import Any

from inference_econ.inputs.huggingface._layers import ROUTED, Architecture, LayerReader, dense
from inference_econ.inputs.huggingface._reader import FAMILIES
from inference_econ.inputs.layers import FeedForward


def falcon(c: LayerReader) -> Architecture:
    """Falcon: three layouts of heads, one or two norms per layer, no gate, and embeddings tied by default."""
    new = c.flag("new_decoder_architecture", default=False)
    parallel, multi_query = c.flag("parallel_attn", default=True), c.flag("multi_query", default=True)
    norms_beside = c.size_if("num_ln_in_parallel_attn")
    stated = c.size_if("num_kv_heads")
    kv = 1 if multi_query and not new else c.heads()
    if new and stated is not None:
        kv = c.whole_groups(c.heads(), stated)
    if new and norms_beside not in (None, 1, 2):
        c.stop(f"num_ln_in_parallel_attn is {norms_beside}; only 1 or 2 is understood")
    two = new and norms_beside != 1
    bias = c.flag("bias", default=False)
    attention = c.grouped_query(kv=kv, width=c.split(), qkv_bias=bias, output_bias=bias)
    width = c.size_or("ffn_hidden_size", default=4 * c.hidden_size())
    norms = 2 if two or not parallel else 1
    layer = attention, dense(width, gated=False, bias=bias), norms, True, parallel or new
    return c.architecture([layer] * c.layers(), tied=True)


def cohere2(c: LayerReader) -> Architecture:
    """Command A and R7B. Older configurations also state the layer period under the key ``layer_switch``."""
    c.only("layer_switch", c.size_or(*c.entry.period_keys, default=c.entry.period or 0))
    return c.plain()


def hunyuan_v1_dense(c: LayerReader) -> Architecture:
    """Hunyuan 0.5B to 7B. Older configurations also state the head width under the key ``attention_head_dim``."""
    c.only("attention_head_dim", c.size("head_dim"))
    c.only("num_experts", 1)
    return c.plain()


def minimax_m2(c: LayerReader) -> Architecture:
    """MiniMax-M2. A configuration may list the kind of attention of each layer."""
    layers, kinds = c.layers(), c.numbers("attn_type_list")
    if kinds is not None and kinds != [1] * layers:
        c.stop(f"attn_type_list must hold 1 (full attention) for each of {layers} layers, got {kinds}")
    return c.plain()


def minimax_m3(c: LayerReader) -> Architecture:
    """MiniMax-M3: dense layers first, then layers with routed experts and a shared expert.

    An indexer selects blocks of tokens per KV head.
    """
    # The number of modules differs between copies of one model. The number of predicted tokens is preferred.
    modules, mtp = c.whole("num_mtp_modules"), c.whole("num_nextn_predict_layers")
    mtp = mtp or modules
    layers, width = c.layers(), c.size("intermediate_size")
    c.only("moe_intermediate_size", width)
    sparse = c.stated_marks("moe_layer_freq", layers)
    c.only("first_k_dense_replace", layers - sum(sparse))
    mixture = c.experts(
        width, count_keys=("num_local_experts", "num_experts"), shared=c.size("shared_intermediate_size")
    )
    plain = dense(c.size("dense_intermediate_size"))
    inner = c.inside("sparse_attention_config")
    inner.only("use_sparse_attention", True)
    inner.only("sparse_score_type", "max")
    inner.only("sparse_init_block", 0)
    inner.skip("sparse_local_block")  # local blocks are always among the selected blocks
    picks = inner.stated_marks("sparse_attention_freq", layers)
    # With its own values, the indexer would be another kind of attention.
    inner.only("sparse_disable_index_value", [int(pick) for pick in picks])
    head, kv = c.head_dim(default=128), c.kv_heads(default=4)
    inner.only("sparse_num_index_heads", kv)
    index_width, top_k = inner.size("sparse_index_dim"), inner.size("sparse_topk_blocks")
    full = c.grouped_query(kv=kv, width=head, qk_norm="per_head")
    picked = full.replace(
        index_heads=kv, index_head_dim=index_width, index_top_k=top_k * inner.size("sparse_block_size")
    )
    inner.finish()
    parts = [mixture if is_sparse else plain for is_sparse in sparse]
    return c.architecture(zip((picked if pick else full for pick in picks), parts, strict=True), mtp_layers=mtp)


def llama4(c: LayerReader) -> Architecture:
    """Llama 4: chunked attention, interleaved dense layers, and a shared expert that no configuration key states."""
    bias = c.flag("attention_bias", default=False)
    layers, step = c.layers(), c.size_or("interleave_moe_layer_step", default=1)
    listed = c.numbers("moe_layers")
    sparse = set(range(step - 1, layers, step) if listed is None else listed)
    if any(index >= layers for index in sparse):
        c.stop(f"moe_layers names layer {max(sparse)}, but there are only {layers}, counted from 0")
    width = c.size("intermediate_size")
    mixture = c.experts(width, count_keys=("num_local_experts",), shared=width)
    plain = dense(c.size("intermediate_size_mlp")) if len(sparse) < layers else None
    c.unused("intermediate_size_mlp")
    head, kv = c.head_dim(default=128), c.kv_heads(default=8)
    chunk = c.size_or("attention_chunk_size", default=8192)
    full = c.grouped_query(kv=kv, width=head, qkv_bias=bias, output_bias=bias)
    local = c.grouped_query(kv=kv, width=head, chunk=chunk, qkv_bias=bias, output_bias=bias)
    # Tokens in layers with rotary positions attend to their chunk. Every fourth layer has no rotary positions, and its
    # tokens attend to all tokens.
    kinds = c.words("layer_types", ("chunked_attention", "full_attention"), layers)
    rotary = c.numbers("no_rope_layers")
    period = c.size_or("no_rope_layer_interval", default=4)
    if kinds is not None:
        chunked = [kind == "chunked_attention" for kind in kinds]
    elif rotary and len(rotary) != layers:
        c.stop(f"no_rope_layers has {len(rotary)} entries for {layers} layers")
    else:
        chunked = [rotates != 0 for rotates in rotary or [(index + 1) % period for index in range(layers)]]
    parts = [mixture if plain is None or index in sparse else plain for index in range(layers)]
    return c.architecture(zip((local if in_chunks else full for in_chunks in chunked), parts, strict=True))


def mimo_v2_flash(c: LayerReader) -> Architecture:
    """MiMo-V2-Flash: sliding-window layers have sinks and more key-value heads; values are narrower than keys."""
    # For layers with a sliding window, the published class always doubles the key-value heads and adds sinks. It
    # ignores what the file states.
    local_kv = c.whole_groups(c.heads(), 2 * c.kv_heads(default=4))
    c.only("swa_num_key_value_heads", local_kv)
    c.only("add_swa_attention_sink_bias", True)
    return _mimo_v2(c, local_kv, sinks=True)


def mimo_v2(c: LayerReader) -> Architecture:
    """MiMo-V2.5 and V2.6: the configurations state the number of heads in layers with a sliding window."""
    for key in ("num_key_value_heads", "head_dim", "v_head_dim"):
        c.size(key)
    for key, same in (("hybrid_layer_pattern", "layer_types"), ("moe_layer_freq", "mlp_layer_types")):
        if not c.has(key) and not c.has(same):
            c.stop(f"{key} is missing; it says what each layer is")
    sinks = c.flag("add_swa_attention_sink_bias", default=False)
    return _mimo_v2(c, c.whole_groups(c.heads(), c.size("swa_num_key_value_heads")), sinks=sinks)


def _mimo_v2(c: LayerReader, local_kv: int, *, sinks: bool) -> Architecture:
    layers = c.layers()
    usual = [index > 0 and (index + 1) % 6 != 0 for index in range(layers)]
    slides = c.marks("layer_types", ("full_attention", "sliding_attention"), usual, "hybrid_layer_pattern")
    sparse = c.marks("mlp_layer_types", ("dense", "sparse"), [index > 0 for index in range(layers)], "moe_layer_freq")
    plain, mixture = dense(c.size("intermediate_size")), c.experts(c.size("moe_intermediate_size"))
    head, value = c.head_dim(default=192), c.size_or("v_head_dim", default=128)
    for key, same in (("swa_head_dim", head), ("swa_v_head_dim", value), ("swa_num_attention_heads", c.heads())):
        c.only(key, same)
    bias = c.flag("attention_bias", default=False)
    # The published class adds the token itself to sliding_window_size; the published window excludes it.
    window = c.size_or("sliding_window_size", "sliding_window", default=128)
    full = c.grouped_query(kv=c.kv_heads(default=4), width=head, qkv_bias=bias, value_head_dim=value)
    local = c.grouped_query(kv=local_kv, width=head, window=window, qkv_bias=bias, value_head_dim=value, sinks=sinks)
    attentions = [local if slide else full for slide in slides]
    parts = [mixture if is_sparse else plain for is_sparse in sparse]
    return c.architecture(zip(attentions, parts, strict=True), mtp_layers=c.whole("num_nextn_predict_layers"))


def dbrx(c: LayerReader) -> Architecture:
    """DBRX: the configuration has separate mappings with the sizes of attention and of experts."""
    inner, outer = c.inside("attn_config"), c.inside("ffn_config")
    inner.skip("clip_qkv")
    attention = c.grouped_query(kv=c.whole_groups(c.heads(), inner.size_or("kv_n_heads", default=1)))
    outer.skip("ffn_act_fn", "moe_jitter_eps", "moe_loss_weight", "moe_normalize_expert_weights")
    outer.skip("uniform_expert_assignment")
    mixture = outer.experts(outer.size("ffn_hidden_size"), count_keys=("moe_num_experts",), active_keys=("moe_top_k",))
    for reader in (inner, outer):
        reader.only("hidden_size", c.size("d_model"))
        reader.finish()
    return c.architecture([(attention, mixture)] * c.layers())


def ernie4_5_moe(c: LayerReader) -> Architecture:
    """ERNIE 4.5 MoE: dense layers first, a router with a correction bias, and embeddings tied by default."""
    layers, width = c.layers(), c.size("moe_intermediate_size")
    c.only("moe_layer_end_index", -1, layers - 1)
    attention = c.grouped_query(kv=c.kv_heads(default=4))
    mixture = c.experts(
        width,
        count_keys=("moe_num_experts",),
        active_keys=("moe_k",),
        shared=c.whole("moe_num_shared_experts", default=2) * width or None,
        router_bias=True,
    )
    plain = dense(c.size("intermediate_size"))
    first = c.whole("moe_layer_start_index", default=1)
    blocks = [(attention, mixture if index >= first else plain) for index in range(layers)]
    return c.architecture(blocks, tied=True, mtp_layers=c.whole("num_nextn_predict_layers"))


def hunyuan_v1_moe(c: LayerReader) -> Architecture:
    """Hunyuan-A13B. The configuration repeats some sizes for each layer."""
    layers, width = c.layers(), c.size("intermediate_size")
    for key, expected in (("num_shared_expert", 1), ("moe_intermediate_size", width)):
        c.only(key, expected, [expected] * layers)
    _, active = c.find("moe_topk")
    if isinstance(active, list) and active == active[:1] * layers:
        c.data = {**c.data, "moe_topk": active[0]}
    c.only("attention_head_dim", c.size("head_dim"))
    return c.plain()


def exaone_moe(c: LayerReader) -> Architecture:
    """K-EXAONE. A configuration may list the layers with experts."""
    made = c.plain()
    c.only("is_moe_layer", [layer.feed_forward.kind == "experts" for layer in made.layers])
    return made


def bailing_moe(c: LayerReader) -> Architecture:
    """Ling and Ring. A configuration of version 2 may have the model type of version 1."""
    second = c.data.get("architectures") == ["BailingMoeV2ForCausalLM"]
    return c.plain(FAMILIES["bailing_moe_v2" if second else c.family])


def gemma4(c: LayerReader) -> Architecture:
    """Gemma 4: layers with full attention have wider heads and fewer key heads.

    Experts run in parallel to the dense block.

    In layers with full attention, the values are the keys before norm and rotation. The experts have three additional
    norms. The router scales its input, and scales the output of each expert. Layers that share keys with other layers,
    and inputs for each layer, are not supported.
    """
    alike = c.flag("attention_k_eq_v", default=False)
    full_width = c.size_or("global_head_dim", default=512)
    full_kv = c.size_if("num_global_key_value_heads") if alike else None
    wide = c.size("intermediate_size")
    part: FeedForward = dense(wide)
    norms = 4
    if c.flag("enable_moe_block", default=False):
        width, keys = c.size("moe_intermediate_size"), ("top_k_experts",)
        part = c.experts(width, count_keys=("num_experts",), active_keys=keys, shared=wide, router_bias=True)
        norms = 8
    c.skip("expert_intermediate_size", "num_experts", "top_k_experts", "moe_intermediate_size")
    if not c.has("layer_types"):
        c.stop("layer_types is missing; sliding_attention or full_attention is needed for each layer")
    slides = c.marks("layer_types", ("full_attention", "sliding_attention"), [False] * c.layers())
    sliding = c.attention(c.size("sliding_window"))
    kv = full_kv or sliding.kv_heads
    full = c.attention().replace(kv_heads=kv, head_dim=full_width, value_projection=not alike)
    return c.architecture([(sliding if slide else full, part, norms) for slide in slides], tied=True)


def step3p5(c: LayerReader) -> Architecture:
    """Step 3.5 and 3.7 Flash: a gate for each query head, and more query heads in layers with a sliding window."""
    layers, mtp = c.layers(), c.whole("num_nextn_predict_layers", "num_mtp_layers")
    # Published lists have an additional entry for each multi-token-prediction layer.
    padded = isinstance(c.data.get("layer_types"), list) and len(c.data["layer_types"]) == layers + mtp
    slides = c.windows([False] * (layers + mtp if padded else layers))[:layers]
    kv = c.whole_groups(c.heads(), c.size("num_key_value_heads", "num_attention_groups"))

    # Query heads of layers with a sliding window.
    stated = c.size_if("num_sliding_attention_heads")
    if c.has("attention_other_setting"):
        inner = c.inside("attention_other_setting")
        inner.only("attention_type", "sliding_attention")
        inner.only("num_attention_groups", kv)
        for key in ("head_dim", "true_head_dim"):
            inner.only(key, c.head_dim(default=128))
        stated = stated or inner.size("num_attention_heads")
        inner.finish()
    if stated is None and c.heads() != 64:
        c.stop("attention_other_setting is missing, which says how many heads layers that slide have")
    # Some copies of the models omit the query heads of layers with a sliding window. Models with 64 heads in other
    # layers have 96 in these layers (arXiv:2602.10604).
    local = stated or c.without("num_sliding_attention_heads", 96)
    c.whole_groups(local, kv)
    alike: dict[str, Any] = {"kv": kv, "width": c.head_dim(default=128), "qk_norm": "per_head", "head_gate": True}
    attentions = [c.grouped_query(window=window, query_heads=local if window else None, **alike) for window in slides]

    first = c.whole("first_k_dense_replace", default=3)
    sparse = c.marks("mlp_layer_types", ("dense", "sparse"), [index >= first for index in range(layers)])
    _, listed = c.find("moe_layers_enum")
    if listed is not None:
        numbers = listed.split(",") if isinstance(listed, str) else c.numbers("moe_layers_enum") or []
        names = {str(number) for number in numbers}
        if not names <= {str(index) for index in range(layers + mtp)}:
            c.stop(f"moe_layers_enum must name layers from 0 to {layers + mtp - 1}, got {listed!r}")
        sparse = [str(index) in names for index in range(layers)]
    width = c.size("moe_intermediate_size")
    mixture = c.experts(
        width,
        count_keys=(*ROUTED, "moe_num_experts"),
        active_keys=("num_experts_per_tok", "moe_top_k"),
        shared=c.size("share_expert_dim", "share_expert_dims"),
    )
    plain = dense(c.size("intermediate_size"))
    parts = [mixture if is_sparse else plain for is_sparse in sparse]
    return c.architecture(zip(attentions, parts, strict=True), mtp_layers=mtp)
