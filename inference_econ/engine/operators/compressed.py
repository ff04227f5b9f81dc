"""Rows of attention over a window of raw tokens and pooled entries behind it."""

from __future__ import annotations

from collections.abc import Iterator

from inference_econ.engine.operators.scores import context_exchange, indexer, scores
from inference_econ.engine.operators.table import Operator, OperatorTable
from inference_econ.formulas import attention as formulas
from inference_econ.inputs import CompressedAttention


def rows(table: OperatorTable, spec: CompressedAttention, summed: float) -> Iterator[Operator]:
    """DeepSeek-V4: the last raw tokens and, further back, pooled entries, all of one shared key-value vector."""
    parameters, assumed = spec.parameters(table.hidden), table.assumptions.attention
    apart = () if assumed.indexer == "scan" else parameters.indexer
    if assumed.latent_down == "replicated":
        apart += parameters.shared
        yield table.projection("latent down", parameters.shared, whole=True)
    weights = parameters.total - sum(rows * columns for rows, columns in apart)
    yield table.projection("attention matrices", [(weights / table.hidden, table.hidden)], reduced=summed)
    attended = table.attended(float(spec.window))
    if spec.stride is not None:
        entries = table.attended() / spec.stride
        if spec.index_top_k is not None:
            scanned = entries if spec.index_candidates is None else min(entries, float(spec.index_candidates))
            yield from indexer(table, spec, scanned)
            entries = min(entries, float(spec.index_top_k))
        attended += entries
    yield scores(
        table,
        "attention",
        flop=formulas.grouped_query_flop(spec.query_heads, spec.head_dim) * attended,
        cached_bytes=spec.head_dim * attended * table.kv_width,
        heads=1.0,
    )
    width = float(spec.query_heads * spec.head_dim)
    yield from context_exchange(table, width, width, spec.query_heads, float(spec.head_dim))
