"""Families that differ from Llama in norms, biases, windows or the order of blocks, with dense feed-forward blocks."""

from __future__ import annotations

from inference_econ.inputs.huggingface._layers import (
    Architecture,
    Layer,
    QkNorm,
    architecture,
    dense,
    grouped_query,
    head_dim,
    heads,
    hidden_size,
    kv_heads,
    windows,
)
from inference_econ.inputs.huggingface._reader import Reader
from inference_econ.inputs.layers.grouped_query import GroupedQueryAttention


def olmo3(c: Reader) -> Architecture:
    """OLMo 3: as OLMo 2, with three layers that slide before each that does not."""
    bias = c.flag("attention_bias", default=False)
    feed_forward = dense(c.size("intermediate_size"))
    layers = [
        Layer(grouped_query(c, window=window, qkv_bias=bias, output_bias=bias, qk_norm="full"), feed_forward)
        for window in windows(c, [(index + 1) % 4 != 0 for index in range(c.layers())])
    ]
    return architecture(c, layers)


def cohere(c: Reader) -> Architecture:
    """Command R: attention and feed-forward behind one norm, tied; R+ norms each head of queries and keys."""
    c.skip("logit_scale")
    bias = c.flag("attention_bias", default=False)
    norm: QkNorm = "full" if c.flag("use_qk_norm", default=False) else "none"
    attention = grouped_query(c, qkv_bias=bias, output_bias=bias, qk_norm=norm)
    layer = Layer(attention, dense(c.size("intermediate_size")), norms=1, parallel=True)
    # Command R states 8,192 positions of training beside the 131,072 it was made for.
    return architecture(c, [layer] * c.layers(), tied=True, max_context=c.size_if("model_max_length"))


def cohere2(c: Reader) -> Architecture:
    """Command A and R7B: as Command R, with three layers that slide before each that does not."""
    c.skip("logit_scale", "position_embedding_type")
    period = c.size_or("sliding_window_pattern", "_sliding_window_pattern", default=4)
    c.only("layer_switch", period)
    c.only("order_of_interleaved_layers", "local_attn_first")
    c.only("use_qk_norm", False)
    c.only("use_parallel_embedding", False)
    for key in ("use_embedding_sharing", "use_gated_activation", "use_parallel_block"):
        c.only(key, True)
    bias = c.flag("attention_bias", default=False)
    feed_forward = dense(c.size("intermediate_size"))
    layers = [
        Layer(grouped_query(c, window=window, qkv_bias=bias, output_bias=bias), feed_forward, norms=1, parallel=True)
        for window in windows(c, [(index + 1) % period != 0 for index in range(c.layers())])
    ]
    return architecture(c, layers, tied=True, max_context=c.size_if("model_max_length"))


def internlm(c: Reader) -> Architecture:
    """InternLM 2 and 3: Llama without biases."""
    for key in ("bias", "qkv_bias", "attention_bias", "mlp_bias"):
        c.only(key, False)
    c.skip("attn_implementation")
    width = head_dim(c, default=128) if c.family == "internlm3" else None
    attention = grouped_query(c, kv=kv_heads(c, default=2 if c.family == "internlm3" else None), width=width)
    return architecture(c, [Layer(attention, dense(c.size("intermediate_size")))] * c.layers())


def baichuan(c: Reader) -> Architecture:
    """Baichuan 1 and 2: Llama with one key-value head per query head."""
    c.skip("z_loss_weight")
    attention = grouped_query(c, kv=heads(c))
    layers = [Layer(attention, dense(c.size("intermediate_size")))] * c.layers()
    return architecture(c, layers, max_context=c.size_if("model_max_length"))


def exaone(c: Reader) -> Architecture:
    """EXAONE 3 and 3.5: Llama under other names, tied by default."""
    c.only("attention_bias", False)
    c.only("mlp_bias", False)
    layers = [Layer(grouped_query(c), dense(c.size("intermediate_size")))] * c.layers()
    return architecture(c, layers, tied=True)


def exaone4(c: Reader) -> Architecture:
    """EXAONE 4: norms behind the blocks, norms of queries and keys; large ones slide in three layers of four."""
    feed_forward = dense(c.size("intermediate_size"))
    return architecture(c, [Layer(attention, feed_forward) for attention in exaone_attention(c)])


def exaone_attention(c: Reader) -> list[GroupedQueryAttention]:
    """Attention of each layer of EXAONE 4: three that slide before each that does not, unless the window is null."""
    c.only("sliding_window_pattern", 4, "LLLG")
    slides = "sliding_window" not in c.data or c.has("sliding_window")
    widths = windows(c, [slides and (index + 1) % 4 != 0 for index in range(c.layers())])
    kv = kv_heads(c, default=32)
    return [grouped_query(c, kv=kv, window=width, qk_norm="per_head") for width in widths]


def arcee(c: Reader) -> Architecture:
    """Arcee (AFM): Llama with a squared ReLU and no gate."""
    bias = c.flag("attention_bias", default=False)
    attention = grouped_query(c, qkv_bias=bias, output_bias=bias)
    feed_forward = dense(c.size("intermediate_size"), gated=False, bias=c.flag("mlp_bias", default=False))
    return architecture(c, [Layer(attention, feed_forward)] * c.layers())


def stablelm(c: Reader) -> Architecture:
    """StableLM: norms with biases; the 12B runs its blocks side by side and norms each head."""
    parallel = c.flag("use_parallel_residual", default=False)
    norm: QkNorm = "full" if c.flag("qk_layernorm", default=False) else "none"
    attention = grouped_query(c, qkv_bias=c.flag("use_qkv_bias", default=False), qk_norm=norm)
    feed_forward = dense(c.size("intermediate_size"))
    layer = Layer(attention, feed_forward, norms=1 if parallel else 2, norm_bias=True, parallel=parallel)
    return architecture(c, [layer] * c.layers())


def ernie4_5(c: Reader) -> Architecture:
    """ERNIE 4.5, dense: heads of 128, biases everywhere or nowhere, tied by default."""
    bias = c.flag("use_bias", default=False)
    attention = grouped_query(
        c, kv=kv_heads(c, default=2), width=head_dim(c, default=128), qkv_bias=bias, output_bias=bias
    )
    return architecture(c, [Layer(attention, dense(c.size("intermediate_size"), bias=bias))] * c.layers(), tied=True)


def hunyuan_v1_dense(c: Reader) -> Architecture:
    """Hunyuan 0.5B to 7B: norms of queries and keys."""
    c.only("num_experts", 1)
    attention = hunyuan_attention(c)
    return architecture(c, [Layer(attention, dense(c.size("intermediate_size")))] * c.layers())


def hunyuan_attention(c: Reader) -> GroupedQueryAttention:
    """Attention of the Hunyuan V1 models; their files carry switches of older ones."""
    width = head_dim(c)
    c.only("attention_head_dim", width)
    for key in ("use_cla", "use_mla", "mlp_bias", "position_embedding_xdrope", "add_classification_head"):
        c.only(key, False)
    for key in ("use_qk_norm", "qk_norm", "use_rotary_pos_emb"):
        c.only(key, True)
    c.only("norm_type", "rms")
    c.skip("cla_share_factor", "class_num", "org_vocab_size", "pad_id", "mask_init_id", "num_media_embeds")
    c.skip("pool_type", "skip_cls_token", "dense_list", "anyres_pooling_size")
    c.skip(*(key for key in c.data if key.startswith(("vit_", "im_", "text_", "video_"))))
    bias = c.flag("attention_bias", default=False)
    return grouped_query(c, width=width, qkv_bias=bias, output_bias=bias, qk_norm="per_head")


def opt(c: Reader) -> Architecture:
    """OPT: learned positions, two more than stated; biases everywhere, tied."""
    for key in ("do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine"):
        c.only(key, True)
    c.only("_remove_final_layer_norm", False)
    c.only("word_embed_proj_dim", hidden_size(c))
    c.skip("dropout", "layerdrop", "init_std")
    attention = grouped_query(c, kv=heads(c), qkv_bias=True, output_bias=True)
    layer = Layer(attention, dense(c.size("ffn_dim"), gated=False, bias=True), norm_bias=True)
    rows = c.size("max_position_embeddings") + 2
    return architecture(c, [layer] * c.layers(), tied=True, learned_positions=rows)


def gpt_bigcode(c: Reader) -> Architecture:
    """StarCoder and SantaCoder: GPT-2 with one key-value head."""
    c.only("add_cross_attention", False)
    c.skip("inference_runner", "max_batch_size", "pad_key_length", "pre_allocate_kv_cache", "validate_runner_input")
    c.skip("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "n_ctx")
    kv = 1 if c.flag("multi_query", default=True) else heads(c)
    attention = grouped_query(c, kv=kv, qkv_bias=True, output_bias=True)
    width = c.size_or("n_inner", default=4 * hidden_size(c))
    layer = Layer(attention, dense(width, gated=False, bias=True), norm_bias=True)
    return architecture(c, [layer] * c.layers(), tied=True, learned_positions=c.size("n_positions"))


def mpt(c: Reader) -> Architecture:
    """MPT: biases nowhere, positions by slopes, tied; no gate."""
    inner = c.inside("attn_config")
    inner.only("attn_type", "multihead_attention")
    inner.only("alibi", True)
    for key in ("qk_ln", "prefix_lm", "attn_uses_sequence_id"):
        inner.only(key, False)
    inner.skip("alibi_bias_max", "attn_impl", "clip_qkv", "softmax_scale")
    inner.finish()
    c.only("no_bias", True)
    c.only("norm_type", "low_precision_layernorm", "layernorm")
    c.only("embedding_fraction", 1.0, 1)
    # The class makes no learned positions, whatever this says.
    c.skip("learned_pos_emb", "logit_scale", "init_config", "init_device", "tokenizer_name", "verbose")
    c.only("expansion_ratio", 4)  # the class is four times as wide inside, whatever this says
    feed_forward = dense(4 * hidden_size(c), gated=False)
    return architecture(c, [Layer(grouped_query(c, kv=heads(c)), feed_forward)] * c.layers(), tied=True)
