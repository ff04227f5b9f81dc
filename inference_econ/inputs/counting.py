"""Parameters and cached elements of one layer: the only count there is.

Exact for the architectures that :mod:`inference_econ.inputs.model` can describe, biases,
norms, sinks and routers included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inference_econ.inputs.assumptions import AttentionAssumptions
    from inference_econ.inputs.layers import (
        Attention,
        Block,
        CompressedAttention,
        DenseFeedForward,
        ExpertFeedForward,
        FeedForward,
        GroupedQueryAttention,
        LatentAttention,
        RecurrentMixer,
    )

#: Rows and columns of matrices [1].
Shapes = tuple[tuple[float, float], ...]


def attention(spec: Attention, hidden: float) -> float:
    """Parameters of the attention, or of the mixer in its place, of one layer."""
    if spec.kind == "latent":
        return _latent(spec, hidden)
    if spec.kind == "compressed":
        return _compressed(spec, hidden)
    if spec.kind == "recurrent":
        return _recurrent(spec, hidden)
    if spec.kind == "none":
        return 0.0
    return _grouped_query(spec, hidden)


def attention_output(spec: Attention, hidden: float) -> float:
    """Parameters among them of the output projection, where it can have a number format of its own."""
    if spec.kind == "latent":
        return latent_weights(spec, hidden)[2]
    if spec.kind == "grouped_query":
        return spec.query_heads * (spec.head_dim if spec.value_head_dim is None else spec.value_head_dim) * hidden
    return 0.0


def _grouped_query(spec: GroupedQueryAttention, hidden: float) -> float:
    value_dim = spec.head_dim if spec.value_head_dim is None else spec.value_head_dim
    queries, keys = spec.query_heads * spec.head_dim, spec.kv_heads * spec.head_dim
    read = queries * (1 + spec.output_gate) + keys + spec.kv_heads * value_dim
    count = read * (hidden + spec.qkv_bias) + spec.query_heads * value_dim * hidden + hidden * spec.output_bias
    if spec.qk_norm == "per_head":
        count += 2 * spec.head_dim
    elif spec.qk_norm == "full":
        count += queries + keys
    return count + spec.query_heads * spec.sinks


def _latent(spec: LatentAttention, hidden: float) -> float:
    count = sum(latent_weights(spec, hidden))
    if spec.latent_norms:
        count += spec.kv_rank + (spec.query_rank or 0)
    return count + _latent_indexer(spec, hidden)


def _latent_indexer(spec: LatentAttention, hidden: float) -> float:
    """Matrices of the indexer, and the norm of its key with a bias."""
    shapes = indexer_shapes(spec, hidden)
    return _elements(shapes) + (2 * (spec.index_head_dim or 0) if shapes else 0.0)


def indexer_shapes(spec: Attention, hidden: float) -> Shapes:
    """Matrices of a layer's own indexer, rows by columns; none where another layer's pick is reused.

    Queries come from the compressed query; the key, or the values and gates that index keys are pooled of, and a
    weight per head from the residual stream.
    """
    if spec.kind not in ("latent", "compressed") or spec.index_heads is None or spec.index_head_dim is None:
        return ()
    queries = (float(spec.index_heads * spec.index_head_dim), float(spec.query_rank or 0))
    keys = spec.index_head_dim * (1 if spec.kind == "latent" else 2 * spec.overlap)
    return queries, (float(keys + spec.index_heads), hidden)


def down_shapes(spec: Attention, hidden: float) -> Shapes:
    """Matrices from the residual stream to what all heads of latent or compressed attention share, rows by columns.

    The compressed query, if there is one, and what is cached, with the gates of what is pooled.
    """
    if spec.kind == "latent":
        width = spec.kv_down_projections * spec.kv_rank + spec.rope_head_dim + (spec.query_rank or 0)
        return ((float(width), hidden),)
    if spec.kind == "compressed":
        pooled = 0 if spec.stride is None else 2 * spec.overlap * spec.head_dim
        return ((float(spec.query_rank + spec.head_dim + pooled), hidden),)
    return ()


def _elements(shapes: Shapes) -> float:
    return sum(rows * columns for rows, columns in shapes)


def replicated(spec: Attention, hidden: float, assumed: AttentionAssumptions) -> float:
    """Weights of one layer of which every attention rank holds a copy."""
    indexer = _elements(indexer_shapes(spec, hidden)) if assumed.indexer == "replicated" else 0.0
    return indexer + (_elements(down_shapes(spec, hidden)) if assumed.latent_down == "replicated" else 0.0)


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


def _compressed(spec: CompressedAttention, hidden: float) -> float:
    heads = spec.query_heads * spec.head_dim
    groups = spec.output_groups * spec.output_rank
    count = spec.query_rank * (hidden + 1 + heads) + spec.head_dim * (hidden + 1) + spec.output_rank * heads
    count += groups * hidden + spec.query_heads * spec.sinks
    if spec.stride is None:
        return count
    count += _pooling(spec.overlap, spec.stride, spec.head_dim, hidden)
    if spec.index_heads is not None and spec.index_head_dim is not None:
        count += _pooling(spec.overlap, spec.stride, spec.index_head_dim, hidden)
        count += spec.index_heads * (spec.query_rank * spec.index_head_dim + hidden)
    return count


def _pooling(overlap: int, stride: int, width: int, hidden: float) -> float:
    """Values and gates of what is pooled, a bias for each position in a stride, and a norm."""
    return overlap * width * (2 * hidden + stride) + width


def _recurrent(spec: RecurrentMixer, hidden: float) -> float:
    values, channels = spec.value_heads * spec.value_head_dim, convolution_channels(spec)
    # Mamba-2 reads one time step per head and has a skip weight; Gated DeltaNet reads two gates per head.
    scalars, vectors, norm = (1, 3, values) if spec.variant == "mamba2" else (2, 2, spec.value_head_dim)
    read = channels + values + scalars * spec.value_heads
    count = read * (hidden + spec.input_bias) + values * hidden + hidden * spec.output_bias
    return count + channels * (spec.convolution + spec.convolution_bias) + vectors * spec.value_heads + norm


def convolution_channels(spec: RecurrentMixer) -> int:
    """Channels that the convolution of a recurrent mixer runs over: keys, queries and values."""
    return 2 * spec.key_heads * spec.key_head_dim + spec.value_heads * spec.value_head_dim


def recurrent_state_elements(spec: RecurrentMixer) -> int:
    """Elements of the recurrent state of one sequence in one layer, without the convolution's."""
    return spec.value_heads * spec.value_head_dim * spec.key_head_dim


def state_elements(spec: Attention) -> int:
    """Elements that one layer keeps for a sequence of any length: recurrent state and convolution window."""
    if spec.kind != "recurrent":
        return 0
    return recurrent_state_elements(spec) + convolution_channels(spec) * spec.convolution


def cached_elements(spec: Attention) -> float:
    """Elements that one layer caches per token of context, or per token of the window if it has only one.

    Index keys and the raw tokens beside pooled ones are counted apart, see
    :func:`index_elements` and :func:`window_elements`.
    """
    if spec.kind == "latent":
        return spec.kv_rank + spec.rope_head_dim
    if spec.kind == "compressed":
        return 0.0 if spec.stride is None else spec.head_dim / spec.stride
    if spec.kind == "recurrent" or spec.kind == "none":
        return 0.0
    value_dim = spec.head_dim if spec.value_head_dim is None else spec.value_head_dim
    return spec.kv_heads * (spec.head_dim + value_dim)


def index_elements(spec: Attention) -> float:
    """Elements of index keys that one layer caches per token of context."""
    if spec.kind == "latent":
        return spec.index_head_dim or 0
    if spec.kind == "compressed" and spec.stride is not None:
        return (spec.index_head_dim or 0) / spec.stride
    return 0.0


def window_elements(spec: Attention) -> float:
    """Elements that one layer caches per token inside its window."""
    if spec.kind == "compressed":
        return spec.head_dim
    return 0.0 if window(spec) is None else cached_elements(spec)


def window(spec: Attention) -> int | None:
    """Tokens that a layer attends to at most, or None; the window beside pooled tokens does not count."""
    return spec.window if spec.kind == "grouped_query" else None


def residual_streams(streams: int, layers: int, hidden: float) -> float:
    """Parameters that mix the copies of the residual stream, twice per layer and once at the end.

    Each mixing reads all copies and makes two vectors and a matrix over them, with a bias each
    and three scales; the last one makes a single vector.
    """
    rows, width = streams * (streams + 2), streams * hidden
    return layers * 2 * (rows * (width + 1) + 3) + streams * (width + 1) + 1


def feed_forward(spec: FeedForward, hidden: float) -> float:
    """Parameters of the feed-forward part of one layer, all experts and the router included."""
    if spec.kind == "dense":
        return _matrices(spec, spec.intermediate_size, hidden)
    if spec.kind == "none":
        return 0.0
    count = spec.experts * expert(spec, hidden)
    if spec.latent_size is not None:
        count += 2 * hidden * spec.latent_size
    if spec.shared_intermediate_size is not None:
        count += shared_expert(spec, hidden)
    return count + spec.experts * (hidden * spec.router + spec.router_bias)


def expert(spec: ExpertFeedForward, hidden: float) -> float:
    """Parameters of one routed expert."""
    return _matrices(spec, spec.intermediate_size, hidden if spec.latent_size is None else spec.latent_size)


def shared_expert(spec: ExpertFeedForward, hidden: float) -> float:
    """Parameters of the shared expert and its gate."""
    assert spec.shared_intermediate_size is not None
    matrices = spec.input_matrices + spec.output_matrices
    return matrices * hidden * spec.shared_intermediate_size + hidden * spec.shared_gate


def idle(block: Block, hidden: float) -> float:
    """Parameters of one layer that a token does not go through."""
    spec = block.feed_forward
    if spec.kind != "experts":
        return 0.0
    return (spec.experts - spec.active_experts) * expert(spec, hidden)


def _matrices(spec: DenseFeedForward | ExpertFeedForward, width: float, hidden: float) -> float:
    count = (spec.input_matrices + spec.output_matrices) * hidden * width
    if spec.bias:
        count += spec.input_matrices * width + spec.output_matrices * hidden
    return count
