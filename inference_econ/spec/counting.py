"""Parameters and cached elements of one layer: the only count there is.

Exact for the architectures that :mod:`inference_econ.spec.model` can describe, biases,
norms, sinks and routers included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inference_econ.spec.model import (
        Attention,
        Block,
        DenseFeedForward,
        ExpertFeedForward,
        FeedForward,
        GroupedQueryAttention,
        LatentAttention,
    )


def attention(spec: Attention, hidden: float) -> float:
    """Parameters of the attention of one layer."""
    if spec.kind == "latent":
        return _latent(spec, hidden)
    return _grouped_query(spec, hidden)


def _grouped_query(spec: GroupedQueryAttention, hidden: float) -> float:
    queries, values = spec.query_heads * spec.head_dim, spec.kv_heads * spec.head_dim
    count = (queries + 2 * values) * (hidden + spec.qkv_bias) + queries * hidden + hidden * spec.output_bias
    if spec.qk_norm == "per_head":
        count += 2 * spec.head_dim
    elif spec.qk_norm == "full":
        count += queries + values
    return count + spec.query_heads * spec.sinks


def _latent(spec: LatentAttention, hidden: float) -> float:
    count = sum(latent_weights(spec, hidden))
    if spec.latent_norms:
        count += spec.kv_rank + (spec.query_rank or 0)
    return count


def latent_weights(spec: LatentAttention, hidden: float) -> tuple[float, float, float]:
    """Weights of the down-projections, the up-projections and the output projection of MLA."""
    head = spec.nope_head_dim + spec.rope_head_dim
    down = (spec.kv_down_projections * spec.kv_rank + spec.rope_head_dim) * hidden
    up = spec.query_heads * (spec.nope_head_dim + spec.value_head_dim) * spec.kv_rank
    if spec.query_rank is None:
        down += hidden * spec.query_heads * head
    else:
        down += hidden * spec.query_rank
        up += spec.query_rank * spec.query_heads * head
    return down, up, spec.query_heads * spec.value_head_dim * hidden


def cached_elements(spec: Attention) -> float:
    """Elements cached per token of context by one layer."""
    if spec.kind == "latent":
        return spec.kv_rank + spec.rope_head_dim
    return 2 * spec.kv_heads * spec.head_dim


def window(spec: Attention) -> int | None:
    """Tokens that a layer attends to at most, or None."""
    return None if spec.kind == "latent" else spec.window


def feed_forward(spec: FeedForward, hidden: float) -> float:
    """Parameters of the feed-forward part of one layer, all experts and the router included."""
    if spec.kind == "dense":
        return _matrices(spec, spec.intermediate_size, hidden)
    count = spec.experts * expert(spec, hidden)
    if spec.shared_intermediate_size is not None:
        count += shared_expert(spec, hidden)
    return count + spec.experts * (hidden * spec.router + spec.router_bias)


def expert(spec: ExpertFeedForward, hidden: float) -> float:
    """Parameters of one routed expert."""
    return _matrices(spec, spec.intermediate_size, hidden)


def shared_expert(spec: ExpertFeedForward, hidden: float) -> float:
    """Parameters of the shared expert and its gate."""
    assert spec.shared_intermediate_size is not None
    matrices = spec.input_matrices + spec.output_matrices
    return matrices * hidden * spec.shared_intermediate_size + hidden * spec.shared_gate


def idle(block: Block, hidden: float) -> float:
    """Parameters of one layer that a token does not go through."""
    spec = block.feed_forward
    if spec.kind == "dense":
        return 0.0
    return (spec.experts - spec.active_experts) * expert(spec, hidden)


def _matrices(spec: DenseFeedForward | ExpertFeedForward, width: float, hidden: float) -> float:
    count = (spec.input_matrices + spec.output_matrices) * hidden * width
    if spec.bias:
        count += spec.input_matrices * width + spec.output_matrices * hidden
    return count
