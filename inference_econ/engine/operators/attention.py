"""Rows of what mixes tokens: attention of every kind, and recurrent layers in its place."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from inference_econ.engine.operators.table import Operator, OperatorTable
from inference_econ.formulas import attention as formulas
from inference_econ.inputs import (
    BYTES_PER_ELEMENT,
    Block,
    CompressedAttention,
    GroupedQueryAttention,
    LatentAttention,
    RecurrentMixer,
    counting,
)

Array = npt.NDArray[np.float64]


def mixer(table: OperatorTable, block: Block) -> Iterator[Operator]:
    """Projections on the attention ranks; scores, cache and state where the assumptions place them."""
    spec, layers = block.attention, block.layers
    # Side by side, the feed-forward part's sum carries the output of attention along.
    merged = (
        block.parallel and block.feed_forward.kind != "none" and table.assumptions.layout.parallel_blocks == "merged"
    )
    summed = 0.0 if merged else table.hidden
    if spec.kind == "grouped_query":
        yield from _grouped_query(table, layers, spec, summed)
    elif spec.kind == "latent":
        yield from _latent(table, layers, spec, summed)
    elif spec.kind == "compressed":
        yield from _compressed(table, layers, spec, summed)
    elif spec.kind == "recurrent":
        yield from _recurrent(table, layers, spec, summed)


def _grouped_query(table: OperatorTable, layers: int, spec: GroupedQueryAttention, summed: float) -> Iterator[Operator]:
    value_dim = spec.head_dim if spec.value_head_dim is None else spec.value_head_dim
    queries, values = spec.query_heads * spec.head_dim, spec.query_heads * value_dim
    projected = float(queries * (1 + spec.output_gate) + spec.kv_heads * (spec.head_dim + value_dim))
    # A token is on average in the middle of its chunk.
    limits = [] if spec.chunk is None else [spec.chunk / 2]
    limits += [] if spec.window is None else [float(spec.window)]
    limit = min(limits, default=math.inf)
    yield table.projection("qkv", layers, [(projected, table.hidden)], reduced=projected, only_2d=True)
    yield _scores(
        table,
        "attention" if not limits else f"attention (last {min(limits):g})",
        layers,
        flop=formulas.grouped_query_flop(spec.query_heads, (spec.head_dim + value_dim) / 2) * table.attended(limit),
        cached_bytes=counting.cached_elements(spec) * table.read(limit) * table.kv_width,
        heads=float(spec.kv_heads),
    )
    yield table.projection("attention output", layers, [(table.hidden, float(values))], reduced=summed, output=True)


def _latent(table: OperatorTable, layers: int, spec: LatentAttention, summed: float) -> Iterator[Operator]:
    """MLA: projections, then scores over latents or over decompressed keys and values."""
    hidden, rank = table.hidden, float(spec.kv_rank)
    down, up, _ = counting.latent_weights(spec, hidden)
    queries = float(spec.query_heads * (spec.nope_head_dim + spec.rope_head_dim))
    expanded = float(spec.query_heads * (spec.nope_head_dim + spec.value_head_dim))
    cached = rank + spec.rope_head_dim
    limit = math.inf if spec.index_top_k is None else float(spec.index_top_k)
    if spec.query_rank is None:
        read_down, read_up = [(cached, hidden), (queries, hidden)], [(expanded, rank)]
    else:
        read_down, read_up = [(cached + spec.query_rank, hidden)], [(queries, spec.query_rank), (expanded, rank)]
        if table.assumptions.attention.latent_traffic == "one_matrix":
            read_up = [(queries + expanded, rank + spec.query_rank)]
    yield table.projection("latent down", layers, read_down, count=down)
    # Norms of the latents, queries, and the key and value sides of the up-projection, before and after attention.
    yield table.projection(
        "latent up", layers, read_up, count=up, reduced=queries + expanded, only_2d=True, launches=4.0
    )
    if spec.index_top_k is not None:
        yield from _index_scan(table, layers, spec.index_heads, spec.index_head_dim, table.attended())
    yield from _latent_scores(table, layers, spec, limit)
    values = float(spec.query_heads * spec.value_head_dim)
    yield table.projection("attention output", layers, [(hidden, values)], reduced=summed, output=True)


def _latent_scores(table: OperatorTable, layers: int, spec: LatentAttention, limit: float) -> Iterator[Operator]:
    """Attention of MLA: absorbed, over a decompressed cache, or over what each step decompresses.

    With absorbed projections the latent itself is key and value of every head. The up-projection of new tokens
    is the same matrix in all three, and stands with the projections.
    """
    variant = table.assumptions.attention.latent
    if table.plans.prefill and variant != "decompressed":
        # Tokens that pick their own past would each decompress it apart.
        variant = "decompressed_per_step" if spec.index_top_k is None else "absorbed"
    latent = float(spec.kv_rank + spec.rope_head_dim)
    if variant == "absorbed":
        flop = formulas.latent_flop(spec.query_heads, spec.kv_rank, spec.rope_head_dim)
        bytes_read = latent * table.read(limit) * table.kv_width
        yield _scores(table, "attention", layers, flop=flop * table.attended(limit), cached_bytes=bytes_read, heads=1.0)
        return
    widths = spec.nope_head_dim, spec.rope_head_dim, spec.value_head_dim
    expanded = float(formulas.decompressed_elements(spec.query_heads, *widths))
    if variant == "decompressed_per_step":
        past = min(table.context, limit)
        flop = formulas.decompression_flop(spec.query_heads, spec.kv_rank, spec.nope_head_dim, spec.value_head_dim)
        yield Operator(
            "decompression" if past else "latent cache",
            float(layers),
            table.precision.attention,
            flop_per_sequence=flop * past / table.stage,
            kv_bytes_per_sequence=latent * table.read(limit) * table.kv_width * table.cache_share(1.0),
            grouped=True,
        )
        # What was decompressed is written and read again, in the format of the activations, and nowhere kept.
        moved = 2.0 * expanded * past * table.activation_width
    else:
        moved = expanded * table.read(limit) * table.kv_width
    yield _scores(
        table,
        "attention",
        layers,
        flop=2.0 * expanded * table.attended(limit),
        cached_bytes=moved,
        heads=float(spec.query_heads),
    )


def _compressed(table: OperatorTable, layers: int, spec: CompressedAttention, summed: float) -> Iterator[Operator]:
    """DeepSeek-V4: the last raw tokens and, further back, pooled entries, all of one shared key-value vector."""
    weights = counting.attention(spec, table.hidden)
    rows = weights / table.hidden
    yield table.projection("attention matrices", layers, [(rows, table.hidden)], reduced=summed)
    attended = table.attended(float(spec.window))
    if spec.stride is not None:
        entries = table.attended() / spec.stride
        if spec.index_top_k is not None:
            yield from _index_scan(table, layers, spec.index_heads, spec.index_head_dim, entries)
            entries = min(entries, float(spec.index_top_k))
        attended += entries
    yield _scores(
        table,
        "attention",
        layers,
        flop=formulas.grouped_query_flop(spec.query_heads, spec.head_dim) * attended,
        cached_bytes=spec.head_dim * attended * table.kv_width,
        heads=1.0,
    )


def _index_scan(
    table: OperatorTable, layers: int, heads: int | None, head_dim: int | None, entries: float
) -> Iterator[Operator]:
    """Scores of every index head against every cached index key; nothing where another layer's pick is reused."""
    if heads is not None and head_dim is not None:
        yield _scores(
            table,
            "index scan",
            layers,
            flop=2.0 * heads * head_dim * entries,
            cached_bytes=head_dim * entries * table.kv_width,
            heads=1.0,
        )


def _recurrent(table: OperatorTable, layers: int, spec: RecurrentMixer, summed: float) -> Iterator[Operator]:
    """Projections, and a state that is read and written once per step whatever the context."""
    weights = counting.attention(spec, table.hidden)
    yield table.projection("mixer", layers, [(weights / table.hidden, table.hidden)], reduced=summed)
    state = counting.recurrent_state_elements(spec)
    convolution = counting.state_elements(spec) - state
    kept = state * BYTES_PER_ELEMENT[spec.state_dtype] + convolution * table.activation_width
    yield _scores(
        table,
        "recurrent state",
        layers,
        flop=formulas.recurrence_flop(state),
        cached_bytes=2.0 * kept,
        heads=float(spec.value_heads),
        # Convolution, gates, norms of queries and keys, recurrence, norm and gate of the output.
        launches=6.0,
    )


def _scores(
    table: OperatorTable,
    name: str,
    layers: int,
    *,
    flop: float,
    cached_bytes: float,
    heads: float,
    launches: float = 3.0,
) -> Operator:
    """Arithmetic per new token, and bytes read per sequence, of one layer; ``heads`` can be held apart.

    Kernels: rotation and cache write, attention over parts of the context, their sum.
    """
    mixed = bool(np.any(table.plans.riding))
    rounds = table.plans.pp if table.assumptions.attention.kv_reads == "batch" else 1.0
    return Operator(
        name,
        float(layers),
        # The study runs scores on the unit of the weights; they multiply the cache.
        table.precision.attention if table.assumptions.chip.math_unit_follows == "weights" else table.precision.kv,
        "scores",
        # Prompts beside the sequences attend on their own.
        flop_per_sequence=flop * table.plans.new_tokens / table.stage if mixed else 0.0,
        flop_per_token=0.0 if mixed else flop / table.stage,
        kv_bytes_per_sequence=cached_bytes * rounds * table.cache_share(heads),
        launches=launches,
        grouped=True,
    )
