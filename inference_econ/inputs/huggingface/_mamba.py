"""Families of Mamba-2 layers, alone or beside attention."""

from __future__ import annotations

from typing import Any

from inference_econ.inputs.huggingface._families import FAMILIES, attention
from inference_econ.inputs.huggingface._layers import (
    Architecture,
    Layer,
    architecture,
    dense,
    experts,
    hidden_size,
    mamba2_mixer,
)
from inference_econ.inputs.huggingface._reader import ConfigReader
from inference_econ.inputs.layers import FeedForward
from inference_econ.inputs.layers.attention import RecurrentMixer
from inference_econ.inputs.layers.feed_forward import NoFeedForward

_FULL = ("attention", "full_attention")
_KINDS = (*_FULL, "mamba", "linear_attention")


def mamba2(c: ConfigReader) -> Architecture:
    """Mamba-2: a recurrent mixer behind one norm is all of a layer."""
    keys = ("num_heads", "head_dim", "n_groups", "state_size", "conv_kernel")
    mixer = mamba2_mixer(c, keys)
    _check_heads(c, mixer, c.size_or("expand", default=2))
    return architecture(c, [Layer(mixer, NoFeedForward(kind="none"), norms=1)] * c.layers())


def granitemoehybrid(c: ConfigReader) -> Architecture:
    """Granite 4: Mamba-2 in most layers, attention in the others, each before experts or one wide block."""
    layers = c.layers()
    kinds = c.words("layer_types", _KINDS, layers) or c.words("layers_block_type", _KINDS, layers)
    if kinds is None:
        c.stop("layer_types is missing; it says which layers are attention")
    c.skip("layers_block_type")
    expand, (_, width) = c.size_or("mamba_expand", default=2), c.find("mamba_d_head")
    widened = hidden_size(c) * expand
    others: dict[str, Any] = {"value_head_dim": widened // c.size("mamba_n_heads")} if width == "auto" else {}
    keys = ("mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv")
    mixer = mamba2_mixer(c, keys, ("mamba_proj_bias", "mamba_conv_bias"), **others)
    _check_heads(c, mixer, expand)
    shared = c.size("shared_intermediate_size")
    part: FeedForward
    if c.whole("num_local_experts", default=8):
        part = experts(c, c.size("intermediate_size"), count_keys=("num_local_experts",), shared=shared)
    else:
        c.unused("intermediate_size", "num_experts_per_tok")
        part = dense(shared)
    full = attention(c, FAMILIES[c.family])
    return architecture(c, [Layer(full if kind in _FULL else mixer, part) for kind in kinds])


def _check_heads(c: ConfigReader, mixer: RecurrentMixer, expand: int) -> None:
    """Refuse heads that are not as wide as the widened model, or do not split into groups."""
    count, width, groups = mixer.value_heads, mixer.value_head_dim, mixer.key_heads
    if count * width != expand * hidden_size(c):
        c.stop(f"{count} heads of {width} are not {expand} times hidden_size {hidden_size(c)}")
    if count % groups:
        c.stop(f"{count} Mamba heads do not split into {groups} groups")
