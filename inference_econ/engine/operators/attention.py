"""Operators of attention: projections, attention over the KV cache, indexers, and context-parallel communication."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.engine.operators.table import Collective, Operator, OperatorTable, Rates
from inference_econ.formulas import attention as formulas
from inference_econ.inputs import (
    BYTES_PER_ELEMENT,
    CompressedAttention,
    GroupedQueryAttention,
    LatentAttention,
    RecurrentMixer,
)

#: Number of past tokens below which attention is assumed to take no time [tokens].
_LEAST_ATTENDED = 1e-9


class Reach(NamedTuple):
    """Efficiencies of attention kernels, and factors by which padding increases arithmetic and KV-cache reads."""

    rates: Rates | None = None
    padding: Array | float = 1.0
    kv_padding: Array | float = 1.0


def reach_of_kernels(
    table: OperatorTable, cached: Literal["grouped", "latent"], attended: float, width: float | None = None
) -> Reach:
    """Efficiencies of attention kernels for a cache layout, see :class:`inference_econ.inputs.ScoresKernel`.

    ``attended`` is the number of past tokens to which a new token attends. ``width`` is the number of elements in a
    head's decompressed keys or values. ``width`` is None if attention runs on latents, as in decode.
    """
    kernel = table.assumptions.attention.kernel(cached, table.precision.kv)
    # Attention to very few tokens is assumed to take no time, so padding is ignored.
    if kernel is None or attended < _LEAST_ATTENDED:
        return Reach()
    decode, prompts = kernel.decode, kernel.prompts
    if not table.plans.prefill:
        padding = formulas.padded_attention_share(attended, extra_tokens=decode.extra_tokens * table.plans.dcp)
        return Reach(Rates(decode.math_efficiency, decode.hbm_efficiency, decode.overlap), padding, padding)
    if width is None:
        return Reach(Rates(decode.math_efficiency, decode.hbm_efficiency, decode.overlap))
    padding = formulas.padded_attention_share(
        attended, width, extra_tokens=prompts.extra_tokens, extra_elements=prompts.extra_elements
    )
    return Reach(Rates(prompts.math_efficiency, decode.hbm_efficiency, 1.0), padding)


def scores(
    table: OperatorTable,
    name: str,
    *,
    flop: float,
    cached_bytes: float,
    heads: float,
    shared_bytes: float = 0.0,
    by_token: bool = True,
    launches: float = 3.0,
    whole: bool = False,
    dtype: str | None = None,
    reach: Reach | None = None,
) -> Operator:
    """Attention over the KV cache in one layer: arithmetic per new token, and cache traffic per sequence.

    Three kernels run: rotary embedding with the cache write, attention over splits of the context, and the sum over
    these splits. ``heads`` is the number of heads that can be distributed over ranks. If ``whole`` is True, every rank
    of an attention-DP group processes all sequences of the group. Each attention-DP group with a sequence reads
    ``shared_bytes`` once. ``dtype`` defaults to the format of the cache. ``reach`` has the efficiencies of the
    attention kernels, if known.
    """
    within = Reach() if reach is None else reach
    follows = table.assumptions.chip.math_unit_follows
    copies = np.minimum(table.groups, table.plans.micro_batch) if shared_bytes else 0.0
    mixed, worked = bool(np.any(table.plans.riding)), flop / (table.groups if whole else table.stage)
    rounds = table.plans.pp if table.assumptions.attention.kv_reads == "batch" else 1.0
    return Operator(
        name,
        # In the published study, the format of the weights determines the math unit. Otherwise, the format of the cache
        # does.
        dtype or (table.precision.attention if follows == "weights" else table.precision.kv),
        "scores",
        # Prompts in the same step have separate attention kernels.
        flop_per_sequence=worked * table.plans.new_tokens if mixed else 0.0,
        flop_per_token=0.0 if mixed else worked,
        kv_bytes_per_sequence=cached_bytes
        * rounds
        * (1.0 / table.groups if whole else table.cache_share(heads, by_token=by_token)),
        shared_kv_bytes=shared_bytes * copies * table.cache_share(heads),
        launches=launches,
        padding=within.padding,
        kv_padding=within.kv_padding,
        rates=within.rates,
        grouped=True,
    )


def indexer(table: OperatorTable, spec: LatentAttention | CompressedAttention, entries: float) -> Iterator[Operator]:
    """Operators of the indexer of sparse attention: projections, and the scan of index keys.

    A layer that reuses the token selection of another layer has no indexer operators.
    """
    if spec.index_heads is None or spec.index_head_dim is None:
        return
    assumed = table.assumptions.attention
    whole = assumed.indexer == "replicated"
    if assumed.indexer != "scan":
        # Kernels: queries, keys with head weights, rotation and quantization of queries, norm and cache write of keys.
        shapes = spec.parameters(table.hidden).indexer
        yield table.projection("indexer", shapes, launches=4.0, whole=whole, adapters=0)
    width = spec.index_head_dim * table.kv_width
    if assumed.index_keys == "eight_bit":
        width = formulas.eight_bit_key_bytes(spec.index_head_dim)
    yield scores(
        table,
        "index scan",
        flop=2.0 * spec.index_heads * spec.index_head_dim * entries,
        cached_bytes=width * entries,
        heads=1.0,
        whole=whole,
        dtype="fp8" if assumed.index_keys == "eight_bit" else None,
    )


def context_exchange(
    table: OperatorTable, queries: float, values: float, heads: float, latent: float = 0.0
) -> Iterator[Operator]:
    """Communication between context-parallel ranks: queries before attention, and partial outputs after attention.

    ``queries`` and ``values`` are the numbers of elements per token over all heads. ``latent`` is the number of cached
    elements per token if all heads share the cache.

    As in vLLM (``cp_lse_ag_out_rs``), the ranks all-gather their queries, and each rank computes attention of all heads
    over its part of the cached tokens. The ranks then all-gather the log-sum-exp values in 32 bits, and reduce-scatter
    the scaled outputs. In prefill, each rank has all new tokens. For attention to cached tokens, the ranks all-gather
    queries or cached latents.
    """
    sharing, past = table.plans.dcp, table.context > 0
    if sharing <= 1 or (table.plans.prefill and not past):
        return
    ranks, owners = np.full((), sharing), table.ranks * table.groups
    domains = table.domains(ranks)
    sent = [queries * table.activation_width, sharing * heads * BYTES_PER_ELEMENT["fp32"]]
    sent += [values * table.activation_width]
    tensors = [sharing * tensor / owners for tensor in sent]
    if table.plans.prefill and latent:
        tensors = [np.asarray(table.context * latent * table.kv_width / table.plans.new_tokens / table.groups)]
    exchanged = tuple(Collective("all_to_all", ranks, domains, tensor, own_link=True) for tensor in tensors)
    yield Operator(
        "context exchange",
        table.precision.activations,
        collectives=dict.fromkeys(table.assumptions.layout.tensor_layouts, exchanged),
        grouped=True,
    )


def grouped_query_rows(table: OperatorTable, spec: GroupedQueryAttention, summed: float) -> Iterator[Operator]:
    """Operators of grouped-query attention: projections, norms, an indexer, scores, and the output gate."""
    queries, values = spec.query_heads * spec.head_dim, spec.query_heads * spec.value_width
    projected = float(spec.projected_width)
    name, attended, read = _reach(table, spec)
    limited = spec.chunk is not None or spec.window is not None or spec.index_top_k is not None
    shared = 0.0 if limited else table.read_once
    yield table.projection("qkv", [(projected, table.hidden)], reduced=projected, only_2d=True, adapters=3)
    if table.assumptions.chip.pointwise == "counted" and spec.qk_norm != "none":
        # Norms of single heads need no communication. Norms over the full width all-reduce sums of squares: two 32-bit
        # numbers per token, for queries and keys.
        norms = _fused(table, "query and key norms")
        if spec.qk_norm == "full":
            size = 2.0 * BYTES_PER_ELEMENT["fp32"] * table.ranks / (table.ranks * table.groups)
            sums = Collective("all_reduce", table.ranks, table.domains(table.ranks), size)
            norms = norms._replace(name="norms over ranks", collectives=table.waited_for(sums))
        yield norms
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


def _fused(table: OperatorTable, name: str) -> Operator:
    """Operator of pointwise work that is assumed to be fused with other kernels.

    The specification of an engine may list separate kernels for this work.
    """
    return Operator(name, table.precision.activations, launches=0.0, grouped=True)


def _reach(table: OperatorTable, spec: GroupedQueryAttention) -> tuple[str, float, float]:
    """Name of the attention operator, past tokens per new token, and cached tokens that a sequence reads [tokens]."""
    window = float(spec.window or spec.index_top_k or math.inf)
    if spec.chunk is None or window < spec.chunk / 2:
        name = "attention" if spec.window is None else f"attention (last {window:g})"
        return name, table.attended(window), table.read(window)
    chunk = float(spec.chunk)
    middle = table.assumptions.attention.chunk_position == "middle"
    name = f"attention (last {chunk / 2:g})" if middle else f"attention (chunks of {chunk:g})"
    return name, min(table.attended_in_chunk(chunk), window), table.read_in_chunk(chunk)


def latent_rows(table: OperatorTable, spec: LatentAttention, summed: float) -> Iterator[Operator]:
    """Operators of MLA: projections, then attention over latents or over decompressed keys and values."""
    hidden, rank = table.hidden, float(spec.kv_rank)
    down, up, _ = spec.projections(hidden)
    queries = float(spec.query_heads * (spec.nope_head_dim + spec.rope_head_dim))
    expanded = float(spec.query_heads * (spec.nope_head_dim + spec.value_head_dim))
    limit = math.inf if spec.index_top_k is None else float(spec.index_top_k)
    whole = table.assumptions.attention.latent_down == "replicated"
    # The published study computes the compression of keys and of values separately, but reads their common matrix once.
    read_down = [(rank + spec.rope_head_dim + (spec.query_rank or 0), hidden)]
    if whole:
        read_down = list(spec.parameters(hidden).shared)
    read_up = [(expanded, rank)]
    if spec.query_rank is None:
        # Queries of all heads are computed from the residual stream, and split by heads.
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
    # Four kernels: norms of latents and queries, and the up-projections before and after attention.
    yield table.projection("latent up", read_up, count=up, reduced=queries + expanded, only_2d=True, launches=4.0)
    yield from indexer(table, spec, table.attended())
    yield from _latent_scores(table, spec, limit)
    values = float(spec.query_heads * spec.value_head_dim)
    if spec.output_gate:
        yield table.projection("output gate", [(values, hidden)])
    yield table.projection("attention output", [(hidden, values)], reduced=summed, output=True)


def _latent_scores(table: OperatorTable, spec: LatentAttention, limit: float) -> Iterator[Operator]:
    """Attention of MLA in three variants: absorbed projections, decompressed cache, or decompression in each step.

    With absorbed projections, the latent is the key and value of every head. The up-projection of new tokens is a
    separate operator, which is equal in all variants.
    """
    variant = table.assumptions.attention.latent
    if table.plans.prefill and variant != "decompressed":
        # With sparse attention, decompression would be necessary for the selected tokens of each new token, so
        # projections are absorbed.
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
        # Decompressed values are written and read once, in the format of the activations, and are not cached.
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


def compressed_rows(table: OperatorTable, spec: CompressedAttention, summed: float) -> Iterator[Operator]:
    """Operators of DeepSeek-V4 attention, which attends to recent tokens and to pooled groups of earlier tokens.

    All heads share one cached vector per recent token, and one per group of earlier tokens.
    """
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


def reach_of_recurrence(table: OperatorTable, spec: RecurrentMixer) -> Reach:
    """Efficiencies of a prefill kernel of a delta rule, see :class:`inference_econ.inputs.RecurrenceKernel`."""
    attention, plans = table.assumptions.attention, table.plans
    kernel = attention.scores.recurrent
    if kernel is None or not plans.prefill or spec.variant == "mamba2":
        return Reach()
    memory = attention.kv_hbm_efficiency or table.assumptions.chip.hbm_efficiency
    heads, prompts = spec.heads / plans.attention_ranks, plans.micro_batch / table.groups
    padding = 1.0 + kernel.extra_heads / (np.maximum(heads, 1.0) * np.maximum(prompts, 1.0))
    return Reach(Rates(kernel.math_efficiency, memory, 1.0), padding)


def recurrent_rows(table: OperatorTable, spec: RecurrentMixer, summed: float) -> Iterator[Operator]:
    """Operators of a recurrent mixer: projections, and a state that is read and written once per step."""
    weights, cache, reach = spec.parameters(table.hidden).total, spec.cache, reach_of_recurrence(table, spec)
    yield table.projection("mixer", [(weights / table.hidden, table.hidden)], reduced=summed)
    yield scores(
        table,
        "recurrent state",
        flop=formulas.recurrence_flop(cache.state_elements),
        cached_bytes=2.0 * cache.state_bytes(table.activation_width),
        heads=spec.heads,
        by_token=False,
        # Kernels: convolution, gates, norms of queries and keys, recurrence, norm and gate of the output.
        launches=6.0,
        dtype=None if reach.rates is None else "bf16",
        reach=reach,
    )
