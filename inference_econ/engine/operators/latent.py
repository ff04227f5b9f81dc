"""Rows of multi-head latent attention (MLA)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from inference_econ.engine.operators.scores import context_exchange, indexer, reach_of_kernels, scores
from inference_econ.engine.operators.table import Operator, OperatorTable
from inference_econ.formulas import attention as formulas
from inference_econ.inputs import LatentAttention


def rows(table: OperatorTable, spec: LatentAttention, summed: float) -> Iterator[Operator]:
    """Projections, then scores over latents or over decompressed keys and values."""
    hidden, rank = table.hidden, float(spec.kv_rank)
    down, up, _ = spec.projections(hidden)
    queries = float(spec.query_heads * (spec.nope_head_dim + spec.rope_head_dim))
    expanded = float(spec.query_heads * (spec.nope_head_dim + spec.value_head_dim))
    limit = math.inf if spec.index_top_k is None else float(spec.index_top_k)
    whole = table.assumptions.attention.latent_down == "replicated"
    # The study counts the compression of keys and of values apart, and reads one of them.
    read_down = [(rank + spec.rope_head_dim + (spec.query_rank or 0), hidden)]
    if whole:
        read_down = list(spec.parameters(hidden).shared)
    read_up = [(expanded, rank)]
    if spec.query_rank is None:
        # Queries of all heads come from the residual stream, and are cut.
        apart = [(queries, hidden)]
        if whole:
            yield table.projection("queries", apart)
            down -= queries * hidden
        else:
            read_down += apart
    else:
        read_up = [(queries, spec.query_rank), *read_up]
        if table.assumptions.attention.latent_traffic == "one_matrix":
            read_up = [(queries + expanded, rank + spec.query_rank)]
    yield table.projection("latent down", read_down, count=down, whole=whole)
    # Norms of the latents, queries, and the key and value sides of the up-projection, before and after attention.
    yield table.projection("latent up", read_up, count=up, reduced=queries + expanded, only_2d=True, launches=4.0)
    yield from indexer(table, spec, table.attended())
    yield from _latent_scores(table, spec, limit)
    values = float(spec.query_heads * spec.value_head_dim)
    if spec.output_gate:
        yield table.projection("output gate", [(values, hidden)])
    yield table.projection("attention output", [(hidden, values)], reduced=summed, output=True)


def _latent_scores(table: OperatorTable, spec: LatentAttention, limit: float) -> Iterator[Operator]:
    """Attention of MLA: absorbed, over a decompressed cache, or over what each step decompresses.

    With absorbed projections the latent itself is key and value of every head. The up-projection of new tokens
    is the same matrix in all three, and stands with the projections.
    """
    variant = table.assumptions.attention.latent
    if table.plans.prefill and variant != "decompressed":
        # Tokens that pick their own past would each decompress it apart.
        variant = "decompressed_per_step" if spec.index_top_k is None else "absorbed"
    latent = float(spec.cache.elements)
    if variant == "absorbed":
        flop = formulas.latent_flop(spec.query_heads, spec.kv_rank, spec.rope_head_dim)
        shared = table.read_once if math.isinf(limit) else 0.0
        yield scores(
            table,
            "attention",
            flop=flop * table.attended(limit),
            cached_bytes=latent * (table.read(limit) - shared) * table.kv_width,
            shared_bytes=latent * shared * table.kv_width,
            heads=1.0,
            reach=reach_of_kernels(table, "latent", table.attended(limit)),
        )
        values = float(spec.query_heads * spec.kv_rank)
        yield from context_exchange(table, spec.query_heads * latent, values, spec.query_heads, latent)
        return
    expanded = float(spec.cache.decompressed_elements)
    if variant == "decompressed_per_step":
        past = min(table.context, limit)
        flop = formulas.decompression_flop(spec.query_heads, spec.kv_rank, spec.nope_head_dim, spec.value_head_dim)
        yield Operator(
            "decompression" if past else "latent cache",
            table.precision.attention,
            flop_per_sequence=flop * past / table.stage,
            kv_bytes_per_sequence=latent * table.read(limit) * table.kv_width * table.cache_share(1.0),
            grouped=True,
        )
        # What was decompressed is written and read again, in the format of the activations, and nowhere kept.
        moved = 2.0 * expanded * past * table.activation_width
    else:
        moved = expanded * table.read(limit) * table.kv_width
    yield scores(
        table,
        "attention",
        flop=2.0 * expanded * table.attended(limit),
        cached_bytes=moved,
        heads=float(spec.query_heads),
        reach=reach_of_kernels(table, "latent", table.attended(limit), expanded / spec.query_heads / 2),
    )
    queries, values = spec.nope_head_dim + spec.rope_head_dim, spec.value_head_dim
    heads = spec.query_heads
    yield from context_exchange(table, float(heads * queries), float(heads * values), heads, latent)
