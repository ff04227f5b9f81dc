"""Rows of multi-head, grouped-query and multi-query attention."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from inference_econ.engine.operators.scores import context_exchange, reach_of_kernels, scores
from inference_econ.engine.operators.table import Collective, Operator, OperatorTable
from inference_econ.formulas import attention as formulas
from inference_econ.inputs import BYTES_PER_ELEMENT, GroupedQueryAttention


def rows(table: OperatorTable, spec: GroupedQueryAttention, summed: float) -> Iterator[Operator]:
    """Projections, norms of queries and keys, an indexer, scores, and the gate of the output."""
    queries, values = spec.query_heads * spec.head_dim, spec.query_heads * spec.value_width
    projected = float(spec.projected_width)
    name, attended, read = _reach(table, spec)
    limited = spec.chunk is not None or spec.window is not None or spec.index_top_k is not None
    shared = 0.0 if limited else table.read_once
    yield table.projection("qkv", [(projected, table.hidden)], reduced=projected, only_2d=True, adapters=3)
    if table.assumptions.chip.pointwise == "counted" and spec.qk_norm != "none":
        yield _head_norms(table, over_ranks=spec.qk_norm == "full")
    if spec.index_heads is not None and spec.index_head_dim is not None:
        yield scores(
            table,
            "index scan",
            flop=2.0 * spec.index_heads * spec.index_head_dim * table.attended(),
            cached_bytes=spec.index_head_dim * table.read() * table.kv_width,
            heads=1.0,
        )
    yield scores(
        table,
        name,
        flop=formulas.grouped_query_flop(spec.query_heads, (spec.head_dim + spec.value_width) / 2) * attended,
        cached_bytes=spec.cache.gathered_elements * (read - shared) * table.kv_width,
        shared_bytes=spec.cache.gathered_elements * shared * table.kv_width,
        heads=float(spec.kv_heads),
        reach=reach_of_kernels(table, "grouped", attended, (spec.head_dim + spec.value_width) / 2),
    )
    yield from context_exchange(table, float(queries), float(values), spec.query_heads)
    if table.assumptions.chip.pointwise == "counted" and (spec.output_gate or spec.head_gate):
        yield _fused(table, "output gate")
    yield table.projection("attention output", [(table.hidden, float(values))], reduced=summed, output=True)


def _head_norms(table: OperatorTable, *, over_ranks: bool) -> Operator:
    """Norms of queries and keys: of each head by itself, or of the whole width, whose sums of squares ranks add up.

    They are two numbers of 32 bits per token, one of the queries and one of the keys.
    """
    if not over_ranks:
        return _fused(table, "query and key norms")
    norms = _fused(table, "norms over ranks")
    size = 2.0 * BYTES_PER_ELEMENT["fp32"] * table.ranks / (table.ranks * table.groups)
    sums = Collective("all_reduce", table.ranks, table.domains(table.ranks), size)
    return replace(norms, collectives=table.waited_for(sums))


def _fused(table: OperatorTable, name: str) -> Operator:
    """Pointwise work that the operator table counts no kernels for; engines may have some, or do it in others."""
    return Operator(name, table.precision.activations, launches=0.0, grouped=True)


def _reach(table: OperatorTable, spec: GroupedQueryAttention) -> tuple[str, float, float]:
    """Name of the scores' row, past tokens that a new token attends to, and tokens whose entries a sequence moves."""
    window = float(spec.window or spec.index_top_k or math.inf)
    if spec.chunk is None or window < spec.chunk / 2:
        name = "attention" if spec.window is None else f"attention (last {window:g})"
        return name, table.attended(window), table.read(window)
    chunk = float(spec.chunk)
    middle = table.assumptions.attention.chunk_position == "middle"
    name = f"attention (last {chunk / 2:g})" if middle else f"attention (chunks of {chunk:g})"
    return name, min(table.attended_in_chunk(chunk), window), table.read_in_chunk(chunk)
