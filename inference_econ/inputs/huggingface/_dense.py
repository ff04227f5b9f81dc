"""Families whose layers are attention and a dense feed-forward block."""

from __future__ import annotations

from inference_econ.inputs.huggingface._layers import (
    Architecture,
    Layer,
    architecture,
    dense,
    grouped_query,
    head_dim,
    heads,
    hidden_size,
    kv_heads,
    whole_groups,
    windows,
)
from inference_econ.inputs.huggingface._reader import Reader


def llama(c: Reader) -> Architecture:
    """Llama 1 to 3: optional biases of all projections."""
    bias = c.flag("attention_bias", default=False)
    attention = grouped_query(c, qkv_bias=bias, output_bias=bias)
    width = dense(c.size("intermediate_size"), bias=c.flag("mlp_bias", default=False))
    c.only("sliding_window")
    return architecture(c, [Layer(attention, width)] * c.layers())


def iquestcoder(c: Reader) -> Architecture:
    """IQuest-Coder: Llama with eight heads of keys where none are stated."""
    c.assume(num_key_value_heads=8)
    return llama(c)


def granite(c: Reader) -> Architecture:
    """Granite 3 is Llama with scaled residuals, which cost nothing."""
    return llama(c)


def smollm3(c: Reader) -> Architecture:
    """SmolLM3: some layers without rotary positions, tied by default."""
    c.skip("no_rope_layers", "no_rope_layer_interval")
    c.unused("max_window_layers")
    c.only("use_sliding_window", False)
    c.words("layer_types", ("full_attention",), c.layers())
    bias = c.flag("attention_bias", default=False)
    attention = grouped_query(c, kv=kv_heads(c, default=4), qkv_bias=bias, output_bias=bias)
    c.only("sliding_window")
    width = dense(c.size("intermediate_size"), bias=c.flag("mlp_bias", default=False))
    return architecture(c, [Layer(attention, width)] * c.layers(), tied=True)


def seed_oss(c: Reader) -> Architecture:
    """Seed-OSS: biases of queries, keys and values, and of the output apart."""
    attention = grouped_query(
        c,
        kv=kv_heads(c, default=8),
        width=head_dim(c, default=128),
        qkv_bias=c.flag("attention_bias", default=True),
        output_bias=c.flag("attention_out_bias", default=False),
    )
    width = dense(c.size("intermediate_size"), bias=c.flag("mlp_bias", default=False))
    return architecture(c, [Layer(attention, width)] * c.layers())


def mistral(c: Reader) -> Architecture:
    """Mistral: no biases; a window in every layer unless it is null."""
    c.only("attention_bias", False)
    c.only("mlp_bias", False)
    window = c.size_if("sliding_window")
    if "sliding_window" not in c.data:
        window = c.without("sliding_window", 4096)  # the published class slides unless told otherwise
    attention = grouped_query(c, kv=kv_heads(c, default=8), window=window)
    return architecture(c, [Layer(attention, dense(c.size("intermediate_size")))] * c.layers())


def ministral3(c: Reader) -> Architecture:
    """Ministral 3: heads of 128 and no window by default."""
    attention = grouped_query(
        c, kv=kv_heads(c, default=8), width=head_dim(c, default=128), window=c.size_if("sliding_window")
    )
    return architecture(c, [Layer(attention, dense(c.size("intermediate_size")))] * c.layers())


def qwen_windows(c: Reader) -> list[int | None]:
    """Qwen's windows: off unless ``use_sliding_window``, then in all layers from ``max_window_layers`` on."""
    layers = c.layers()
    first = c.whole("max_window_layers", default=28)
    if not c.flag("use_sliding_window", default=False):
        c.words("layer_types", ("full_attention",), layers)
        c.unused("sliding_window")
        return [None] * layers
    return windows(c, [index >= first for index in range(layers)])


def qwen2(c: Reader) -> Architecture:
    """Qwen2 and 2.5: biases of queries, keys and values that no key states."""
    c.skip("use_mrope")
    c.only("attention_bias", True)
    width = dense(c.size("intermediate_size"))
    kv = whole_groups(c, heads(c), c.size("num_key_value_heads"))
    layers = [Layer(grouped_query(c, kv=kv, window=window, qkv_bias=True), width) for window in qwen_windows(c)]
    return architecture(c, layers)


def qwen2_vl(c: Reader) -> Architecture:
    """The text part of Qwen2-VL and Qwen2.5-VL, which older files write beside that of the pictures."""
    c.skip("vision_config")
    return qwen2(c)


def mimo(c: Reader) -> Architecture:
    """MiMo-7B is Qwen2 with multi-token-prediction layers beside it."""
    base = qwen2(c)
    return architecture(c, base.layers, mtp_layers=c.whole("num_nextn_predict_layers"))


def qwen3(c: Reader) -> Architecture:
    """Qwen3: norms of queries and keys, heads of 128 by default."""
    bias = c.flag("attention_bias", default=False)
    width, kv = head_dim(c, default=128), whole_groups(c, heads(c), c.size("num_key_value_heads"))
    feed_forward = dense(c.size("intermediate_size"))
    layers = [
        Layer(
            grouped_query(c, kv=kv, width=width, window=window, qkv_bias=bias, output_bias=bias, qk_norm="per_head"),
            feed_forward,
        )
        for window in qwen_windows(c)
    ]
    return architecture(c, layers)


def phi3(c: Reader) -> Architecture:
    """Phi-3 and Phi-4: fused projections without biases; a window in every layer."""
    for key in ("attention_bias", "mlp_bias", "lm_head_bias"):
        c.only(key, False)
    c.only("full_attn_mod", 1)
    attention = grouped_query(c, window=c.size_if("sliding_window"))
    return architecture(c, [Layer(attention, dense(c.size("intermediate_size")))] * c.layers())


def phi(c: Reader) -> Architecture:
    """Phi-1 and Phi-2: attention and feed-forward side by side, biases everywhere."""
    c.only("qk_layernorm", False)
    attention = grouped_query(c, qkv_bias=True, output_bias=True)
    feed_forward = dense(c.size("intermediate_size"), gated=False, bias=True)
    layer = Layer(attention, feed_forward, norms=1, norm_bias=True, parallel=True)
    return architecture(c, [layer] * c.layers(), output_bias=True)


def gemma(c: Reader) -> Architecture:
    """Gemma 1: heads of 256, tied by default."""
    bias = c.flag("attention_bias", default=False)
    c.only("use_bidirectional_attention", False)
    attention = grouped_query(
        c, kv=kv_heads(c, default=16), width=head_dim(c, default=256), qkv_bias=bias, output_bias=bias
    )
    return architecture(c, [Layer(attention, dense(c.size("intermediate_size")))] * c.layers(), tied=True)


def gemma2(c: Reader) -> Architecture:
    """Gemma 2: four norms; every other layer slides, the first one too."""
    bias = c.flag("attention_bias", default=False)
    c.only("use_bidirectional_attention", False)
    width, feed_forward = head_dim(c, default=256), dense(c.size("intermediate_size"))
    kv = whole_groups(c, heads(c), c.size("num_key_value_heads"))
    layers = [
        Layer(
            grouped_query(c, kv=kv, width=width, window=window, qkv_bias=bias, output_bias=bias), feed_forward, norms=4
        )
        for window in windows(c, [index % 2 == 0 for index in range(c.layers())])
    ]
    return architecture(c, layers, tied=True)


def gemma3(c: Reader) -> Architecture:
    """Gemma 3: norms of queries and keys; five layers that slide, then one that does not.

    Published text parts leave out what equals the class's default: 8 heads, 4 of keys, 262,208 tokens.
    """
    bias = c.flag("attention_bias", default=False)
    c.only("use_bidirectional_attention", False)
    c.assume(num_attention_heads=8, num_key_value_heads=4, head_dim=256)
    c.assume(vocab_size=262_208, max_position_embeddings=131_072)
    period = c.size_or("sliding_window_pattern", "_sliding_window_pattern", default=6)
    feed_forward = dense(c.size("intermediate_size"))
    layers = [
        Layer(grouped_query(c, window=window, qkv_bias=bias, output_bias=bias, qk_norm="per_head"), feed_forward, 4)
        for window in windows(c, [(index + 1) % period != 0 for index in range(c.layers())])
    ]
    return architecture(c, layers, tied=True)


def glm(c: Reader) -> Architecture:
    """GLM-4 (9B): biases of queries, keys and values."""
    return _glm(c, norms=2)


def glm4(c: Reader) -> Architecture:
    """GLM-4-0414: as GLM-4, with norms behind attention and feed-forward too."""
    return _glm(c, norms=4)


def _glm(c: Reader, norms: int) -> Architecture:
    attention = grouped_query(
        c,
        kv=kv_heads(c, default=2),
        width=head_dim(c, default=128),
        qkv_bias=c.flag("attention_bias", default=True),
    )
    return architecture(c, [Layer(attention, dense(c.size("intermediate_size")), norms)] * c.layers())


def olmo2(c: Reader) -> Architecture:
    """OLMo 2: norms of the whole width of queries and keys."""
    bias = c.flag("attention_bias", default=False)
    attention = grouped_query(c, qkv_bias=bias, output_bias=bias, qk_norm="full")
    return architecture(c, [Layer(attention, dense(c.size("intermediate_size")))] * c.layers())


def nemotron(c: Reader) -> Architecture:
    """Nemotron-4 and Minitron: squared ReLU without gate, norms with biases."""
    bias = c.flag("attention_bias", default=False)
    attention = grouped_query(c, qkv_bias=bias, output_bias=bias)
    feed_forward = dense(c.size("intermediate_size"), gated=False, bias=c.flag("mlp_bias", default=False))
    return architecture(c, [Layer(attention, feed_forward, norm_bias=True)] * c.layers())


def starcoder2(c: Reader) -> Architecture:
    """StarCoder2: biases everywhere by default, tied by default."""
    bias = c.flag("use_bias", default=True)
    c.only("norm_type", "layer_norm")
    c.only("mlp_type", "default")
    attention = grouped_query(
        c, kv=kv_heads(c, default=2), window=c.size_if("sliding_window"), qkv_bias=bias, output_bias=bias
    )
    feed_forward = dense(c.size("intermediate_size"), gated=False, bias=bias)
    return architecture(c, [Layer(attention, feed_forward, norm_bias=True)] * c.layers(), tied=True)


def gpt2(c: Reader) -> Architecture:
    """GPT-2: learned positions, biases everywhere, tied."""
    c.only("add_cross_attention", False)
    c.skip("n_ctx", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "summary_type", "summary_use_proj")
    c.skip("summary_activation", "summary_proj_to_labels", "output_past")
    attention = grouped_query(c, kv=heads(c), width=split(c), qkv_bias=True, output_bias=True)
    width = c.size_or("n_inner", default=4 * hidden_size(c))
    layer = Layer(attention, dense(width, gated=False, bias=True), norm_bias=True)
    return architecture(c, [layer] * c.layers(), tied=True, learned_positions=c.size("n_positions"))


def gptj(c: Reader) -> Architecture:
    """GPT-J: attention and feed-forward behind one norm; the output embedding has a bias."""
    c.skip("scale_attn_by_inverse_layer_idx", "summary_type", "summary_use_proj", "summary_activation", "n_ctx")
    c.skip("summary_proj_to_labels", "rotary")
    attention = grouped_query(c, kv=heads(c), width=split(c))
    width = c.size_or("n_inner", default=4 * hidden_size(c))
    layer = Layer(attention, dense(width, gated=False, bias=True), norms=1, norm_bias=True, parallel=True)
    return architecture(c, [layer] * c.layers(), output_bias=True)


def gpt_neox(c: Reader) -> Architecture:
    """GPT-NeoX and Pythia: two norms, side by side by default."""
    bias = c.flag("attention_bias", default=True)
    attention = grouped_query(c, kv=heads(c), width=split(c), qkv_bias=bias, output_bias=bias)
    feed_forward = dense(c.size("intermediate_size"), gated=False, bias=True)
    parallel = c.flag("use_parallel_residual", default=True)
    return architecture(c, [Layer(attention, feed_forward, norm_bias=True, parallel=parallel)] * c.layers())


def falcon(c: Reader) -> Architecture:
    """Falcon: three layouts of heads, one or two norms, tied by default; no gate."""
    c.skip("alibi")
    c.only("apply_residual_connection_post_layernorm", False)
    c.only("ff_factor", 4)
    new = c.flag("new_decoder_architecture", default=False)
    parallel, multi_query = c.flag("parallel_attn", default=True), c.flag("multi_query", default=True)
    norms_beside = c.size_if("num_ln_in_parallel_attn")
    stated = c.size_if("num_kv_heads")
    kv = 1 if multi_query and not new else heads(c)
    if new and stated is not None:
        kv = whole_groups(c, heads(c), stated)
    if new and norms_beside not in (None, 1, 2):
        c.stop(f"num_ln_in_parallel_attn is {norms_beside}; only 1 or 2 is understood")
    two = new and norms_beside != 1
    bias = c.flag("bias", default=False)
    attention = grouped_query(c, kv=kv, width=split(c), qkv_bias=bias, output_bias=bias)
    width = c.size_or("ffn_hidden_size", default=4 * hidden_size(c))
    norms = 2 if two or not parallel else 1
    layer = Layer(attention, dense(width, gated=False, bias=bias), norms, norm_bias=True, parallel=parallel or new)
    return architecture(c, [layer] * c.layers(), tied=True)


def split(c: Reader) -> int:
    """Width of a head where no key can state another."""
    hidden, count = hidden_size(c), heads(c)
    if hidden % count:
        c.stop(f"hidden_size {hidden} is no multiple of the {count} heads")
    return hidden // count
