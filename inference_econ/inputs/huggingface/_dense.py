"""Families with dense feed-forward blocks of which the table does not say all."""

from __future__ import annotations

from inference_econ.inputs.huggingface._families import FAMILIES, plain
from inference_econ.inputs.huggingface._layers import (
    Architecture,
    Layer,
    architecture,
    dense,
    grouped_query,
    head_dim,
    heads,
    hidden_size,
    split,
    whole_groups,
)
from inference_econ.inputs.huggingface._reader import ConfigReader


def falcon(c: ConfigReader) -> Architecture:
    """Falcon: three layouts of heads, one or two norms, tied by default; no gate."""
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


def cohere2(c: ConfigReader) -> Architecture:
    """Command A and R7B, whose older files say the period twice."""
    family = FAMILIES[c.family]
    c.only("layer_switch", c.size_or(*family.period_keys, default=family.period or 0))
    return plain(c)


def hunyuan_v1_dense(c: ConfigReader) -> Architecture:
    """Hunyuan 0.5B to 7B, whose older files say the width of heads twice."""
    c.only("attention_head_dim", head_dim(c))
    c.only("num_experts", 1)
    return plain(c)
