"""Parts that the families share: layers, and those that most of them build alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from inference_econ.inputs.huggingface._reader import Reader
from inference_econ.inputs.layers import Attention, FeedForward
from inference_econ.inputs.layers.feed_forward import DenseFeedForward, ExpertFeedForward
from inference_econ.inputs.layers.grouped_query import GroupedQueryAttention
from inference_econ.inputs.model import UnknownPart

QkNorm = Literal["none", "per_head", "full"]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer; equal layers become one block."""

    attention: Attention
    feed_forward: FeedForward
    norms: int = 2
    norm_bias: bool = False
    parallel: bool = False


@dataclass(frozen=True, slots=True)
class Architecture:
    """Architecture that a family reads from a configuration."""

    hidden_size: int
    vocab_size: int
    layers: Sequence[Layer]
    tied_embeddings: bool
    max_context: int | None
    mtp_layers: int = 0
    learned_positions: int = 0
    output_bias: bool = False
    residual_streams: int = 1
    residual_span: int | None = None
    residual_fold: bool = True
    beside: tuple[UnknownPart, ...] = ()
    """What no layer here has: tables that are looked up, and what reads them."""


def hidden_size(c: Reader) -> int:
    """Width of the residual stream."""
    return c.size("hidden_size", "n_embd", "d_model")


def context(c: Reader) -> int | None:
    """Longest context."""
    return c.size_if("max_position_embeddings", "n_positions", "max_seq_len")


def architecture(
    c: Reader,
    layers: Sequence[Layer],
    *,
    tied: bool = False,
    mtp_layers: int = 0,
    learned_positions: int = 0,
    output_bias: bool = False,
    residual_streams: int = 1,
    residual_span: int | None = None,
    max_context: int | None = None,
    residual_fold: bool = True,
    beside: tuple[UnknownPart, ...] = (),
) -> Architecture:
    """The layers, with what every configuration states around them; ``tied`` is the class's default."""
    return Architecture(
        hidden_size(c),
        c.size("vocab_size"),
        layers,
        c.tied(default=tied),
        context(c) if max_context is None else max_context,
        mtp_layers,
        learned_positions,
        output_bias,
        residual_streams,
        residual_span,
        residual_fold,
        beside,
    )


def heads(c: Reader) -> int:
    """Query heads."""
    return c.size("num_attention_heads", "n_head", "n_heads")


def kv_heads(c: Reader, *, default: int | None = None) -> int:
    """Heads of keys and values; null means one per query head, and so does ``default`` None if absent."""
    queries = heads(c)
    count = c.size_if("num_key_value_heads")
    if count is None and "num_key_value_heads" in c.data:
        count = queries
    elif count is None:
        count = c.without("num_key_value_heads", queries if default is None else default)
    return whole_groups(c, queries, count)


def whole_groups(c: Reader, queries: int, count: int) -> int:
    """Check that query heads split into groups, one for each key-value head."""
    if queries % count:
        c.stop(f"{queries} query heads do not split into groups for {count} key-value heads")
    return count


def head_dim(c: Reader, *, default: int | None = None) -> int:
    """Width of a head: stated, the class's default, or the width of the model over the heads."""
    stated = c.size_if("head_dim")
    if stated is not None:
        return stated
    if default is not None and "head_dim" not in c.data:
        return c.without("head_dim", default)
    hidden, queries = hidden_size(c), heads(c)
    if hidden % queries:
        c.stop(f"head_dim is missing, and hidden_size {hidden} is no multiple of num_attention_heads {queries}")
    return hidden // queries


def grouped_query(
    c: Reader,
    *,
    queries: int | None = None,
    kv: int | None = None,
    width: int | None = None,
    window: int | None = None,
    chunk: int | None = None,
    qkv_bias: bool = False,
    output_bias: bool = False,
    qk_norm: QkNorm = "none",
    sinks: bool = False,
    output_gate: bool = False,
    head_gate: bool = False,
    index: tuple[int, int, int] | None = None,
    value_head_dim: int | None = None,
    value_projection: bool = True,
) -> GroupedQueryAttention:
    """Grouped-query attention with the usual keys; a window that no context exceeds is none.

    ``index`` are heads of an indexer, their width, and the tokens that it picks.
    """
    longest = context(c)
    if window is not None and longest is not None and window >= longest:
        window = None
    if chunk is not None and longest is not None and chunk >= longest:
        chunk = None
    return GroupedQueryAttention(
        kind="grouped_query",
        query_heads=heads(c) if queries is None else queries,
        kv_heads=kv_heads(c) if kv is None else kv,
        head_dim=head_dim(c) if width is None else width,
        value_head_dim=value_head_dim,
        window=window,
        chunk=chunk,
        qkv_bias=qkv_bias,
        output_bias=output_bias,
        qk_norm=qk_norm,
        sinks=sinks,
        output_gate=output_gate,
        head_gate=head_gate,
        index_heads=None if index is None else index[0],
        index_head_dim=None if index is None else index[1],
        index_top_k=None if index is None else index[2],
        value_projection=value_projection,
    )


def dense(width: int, *, gated: bool = True, bias: bool = False) -> DenseFeedForward:
    """A feed-forward block with or without a gate."""
    return DenseFeedForward(kind="dense", intermediate_size=width, input_matrices=1 + gated, bias=bias)


def experts(
    c: Reader,
    width: int,
    *,
    count_keys: tuple[str, ...],
    active_keys: tuple[str, ...] = ("num_experts_per_tok",),
    shared: int | None = None,
    shared_gate: bool = False,
    gated: bool = True,
    bias: bool = False,
    router_bias: bool = False,
    latent_size: int | None = None,
) -> ExpertFeedForward:
    """A mixture of experts whose number stands under one of ``count_keys``."""
    count, active = c.size(*count_keys), c.size(*active_keys)
    if active > count:
        c.stop(f"{active_keys[0]} must be <= {count_keys[0]} ({count}), got {active}")
    groups, active_groups = _routing_groups(c, count, active)
    return ExpertFeedForward(
        kind="experts",
        experts=count,
        active_experts=active,
        intermediate_size=width,
        input_matrices=1 + gated,
        bias=bias,
        shared_intermediate_size=shared,
        shared_gate=shared_gate,
        router_bias=router_bias,
        latent_size=latent_size,
        routing_groups=groups,
        active_groups=active_groups,
    )


def _routing_groups(c: Reader, count: int, active: int) -> tuple[int | None, int | None]:
    """Groups of experts, and how many of them a token may reach; one group, or a greedy router, is no limit."""
    groups, reached = c.size_if("n_group"), c.size_if("topk_group")
    if groups in (None, 1) or c.data.get("topk_method") == "greedy":
        return None, None
    if reached is None:
        c.stop(f"n_group is {groups}, but topk_group is missing")
    if reached > groups or count % groups or active > reached * count // groups:
        c.stop(f"{active} of {count} experts in at most {reached} (topk_group) of {groups} groups (n_group) cannot be")
    return groups, reached


def windows(c: Reader, default: Sequence[bool], width_key: str = "sliding_window") -> list[int | None]:
    """Window of each layer, by ``layer_types`` or else by the class's own pattern (True slides)."""
    kinds = c.words("layer_types", ("sliding_attention", "full_attention"), len(default))
    slides = [kind == "sliding_attention" for kind in kinds] if kinds is not None else list(default)
    if not any(slides):
        c.unused(width_key)
        return [None] * len(slides)
    width = c.size(width_key)
    return [width if is_sliding else None for is_sliding in slides]
