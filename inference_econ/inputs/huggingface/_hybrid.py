"""Families whose layers differ in kind: recurrent mixers beside attention, and searched architectures."""

from __future__ import annotations

from typing import Any

from inference_econ.inputs.huggingface._families import FAMILIES, attention, feed_forwards
from inference_econ.inputs.huggingface._layers import (
    Architecture,
    Layer,
    architecture,
    dense,
    experts,
    grouped_query,
    heads,
    hidden_size,
    kv_heads,
    mamba2_mixer,
    recurrent,
    state_format,
)
from inference_econ.inputs.huggingface._reader import ConfigReader
from inference_econ.inputs.layers import Attention, FeedForward
from inference_econ.inputs.layers.attention import NoAttention
from inference_econ.inputs.layers.feed_forward import NoFeedForward

_NEMOTRON_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_NEMOTRON_WORDS = {"linear_attention": "mamba", "full_attention": "attention"}


def gated_delta(c: ConfigReader) -> Architecture:
    """Qwen3-Next and Qwen3.5: Gated DeltaNet in most layers, gated attention in the others."""
    family = FAMILIES[c.family]
    parts = feed_forwards(c, family)
    full = attention(c, family)
    sizes = [f"linear_{size}" for size in ("num_value_heads", "value_head_dim", "num_key_heads", "key_head_dim")]
    state_dtype = state_format(c, "mamba_ssm_dtype")
    linear = recurrent(c, "gated_delta", (*sizes, "linear_conv_kernel_dim"), state_dtype=state_dtype)
    if linear.value_heads % linear.key_heads:
        c.stop(f"linear_num_value_heads {linear.value_heads} is no multiple of linear_num_key_heads {linear.key_heads}")
    period = c.size_or("full_attention_interval", default=4)
    every = [(index + 1) % period == 0 for index in range(c.layers())]
    kinds = c.marks("layer_types", ("linear_attention", "full_attention"), every)
    layers = [Layer(full if is_full else linear, part) for is_full, part in zip(kinds, parts, strict=True)]
    return architecture(c, layers, mtp_layers=c.whole("mtp_num_hidden_layers", "num_nextn_predict_layers"))


def nemotron_h(c: ConfigReader) -> Architecture:
    """Nemotron-H and Nemotron 3: every layer is one of Mamba-2, attention, feed-forward or experts."""
    _, pattern = c.find("hybrid_override_pattern")
    stated = c.size_if("num_hidden_layers")
    _, words = c.find("layers_block_type", "layer_types")
    if isinstance(words, list):
        kinds = [_NEMOTRON_WORDS.get(str(word), str(word)) for word in words]
        for kind in kinds:
            if kind not in _NEMOTRON_LETTERS.values():
                c.stop(f"layers_block_type has the entry {kind!r}; understood: {', '.join(_NEMOTRON_LETTERS.values())}")
    elif isinstance(pattern, str):
        for letter in pattern:
            if letter not in _NEMOTRON_LETTERS:
                c.stop(f"hybrid_override_pattern has {letter!r}; understood: {' '.join(_NEMOTRON_LETTERS)}")
        kinds = [_NEMOTRON_LETTERS[letter] for letter in pattern]
    else:
        c.stop("neither hybrid_override_pattern nor layers_block_type says what each layer is")
    if not kinds or (stated is not None and stated != len(kinds)):
        c.stop(f"the layer pattern has {len(kinds)} entries, but num_hidden_layers is {stated}")
    made = {kind: Layer(*_nemotron_layer(c, kind), norms=1) for kind in sorted(set(kinds))}
    return architecture(c, [made[kind] for kind in kinds], mtp_layers=c.whole("num_nextn_predict_layers"))


def _nemotron_layer(c: ConfigReader, kind: str) -> tuple[Attention, FeedForward]:
    if kind == "mamba":
        groups, convolution = "n_groups mamba_n_groups", "conv_kernel mamba_d_conv"
        keys = ("mamba_num_heads", "mamba_head_dim", groups, "ssm_state_size", convolution)
        mixer = mamba2_mixer(c, keys, state="mamba_ssm_cache_dtype")
        if mixer.value_heads % mixer.key_heads:
            c.stop(f"n_groups is {mixer.key_heads}, but {mixer.value_heads} Mamba heads do not split so")
        c.only("mamba_proj_bias", mixer.input_bias)
        return mixer, NoFeedForward(kind="none")
    if kind == "attention":
        width = c.size_or("head_dim", default=128)
        c.only("attention_head_dim", width)  # read by early code of this family, and not by the published class
        return grouped_query(c, kv=kv_heads(c, default=8), width=width), NoFeedForward(kind="none")
    if kind == "mlp":
        return NoAttention(kind="none"), dense(c.size("intermediate_size"), gated=False)
    c.only("n_shared_experts", 1)
    latent_size = c.size_if("moe_latent_size") or c.without("moe_latent_size", None)
    mixture = experts(
        c,
        c.size("moe_intermediate_size"),
        count_keys=("n_routed_experts", "num_local_experts"),
        shared=c.size("moe_shared_expert_intermediate_size"),
        gated=False,
        latent_size=latent_size,
    )
    return NoAttention(kind="none"), mixture


def nemotron_nas(c: ConfigReader) -> Architecture:
    """Llama-Nemotron (Super, Ultra): a searched width for each layer, some without attention or feed-forward."""
    layers = c.layers()
    _, blocks = c.find("block_configs")
    if not isinstance(blocks, list) or len(blocks) != layers:
        count = len(blocks) if isinstance(blocks, list) else "no"
        c.stop(f"block_configs has {count} entries for {layers} layers")
    return architecture(c, [_searched(c, index, block) for index, block in enumerate(blocks)])


def _searched(c: ConfigReader, index: int, block: Any) -> Layer:
    place = f"block_configs[{index}]"
    if (
        not isinstance(block, dict)
        or not isinstance(block.get("attention"), dict)
        or not isinstance(block.get("ffn"), dict)
    ):
        c.stop(f"{place} needs 'attention' and 'ffn'")
    inner = ConfigReader(block["attention"], c.file, f"{c.family}, {place}.attention")
    outer = ConfigReader(block["ffn"], c.file, f"{c.family}, {place}.ffn")
    attention: Attention = NoAttention(kind="none")
    feed_forward: FeedForward = NoFeedForward(kind="none")

    for key in ("num_sink_tokens", "window_length"):
        inner.only(key)
    for key in ("unshifted_sink", "use_prefill_window_in_sink_attention"):
        inner.only(key, False)
    if inner.flag("no_op", default=False):
        inner.skip("n_heads_in_group")
    else:
        group, queries = inner.size("n_heads_in_group"), heads(c)
        if queries % group:
            c.stop(f"{queries} query heads do not split into groups of {group}")
        attention = grouped_query(c, kv=queries // group)

    if outer.flag("no_op", default=False):
        outer.skip("ffn_mult")
    else:
        _, multiple = outer.find("ffn_mult")
        if isinstance(multiple, bool) or not isinstance(multiple, (int, float)) or not 0 < multiple < 100:
            outer.stop(f"ffn_mult must be a number > 0 and < 100, got {multiple!r}")
        width = int(2 * multiple * hidden_size(c) / 3)
        feed_forward = dense(-(-width // 256) * 256)  # the class rounds up to a multiple of 256

    for reader in (inner, outer):
        reader.only("replace_with_linear", False)
        reader.only("sparsify")
        reader.finish()
    return Layer(attention, feed_forward, (not attention.absent) + (not feed_forward.absent))
