"""Rows of what mixes tokens: attention of every kind, and recurrent layers in its place."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.engine.operators.table import Collective, Operator, OperatorTable, Rates
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
        yield from (replace(operator, latent=True) for operator in _latent(table, layers, spec, summed))
    elif spec.kind == "compressed":
        yield from _compressed(table, layers, spec, summed)
    elif spec.kind == "recurrent":
        yield from _recurrent(table, layers, spec, summed)


def _grouped_query(table: OperatorTable, layers: int, spec: GroupedQueryAttention, summed: float) -> Iterator[Operator]:
    value_dim = spec.head_dim if spec.value_head_dim is None else spec.value_head_dim
    queries, values = spec.query_heads * spec.head_dim, spec.query_heads * value_dim
    projected = float(queries * (1 + spec.output_gate) + spec.kv_heads * (spec.head_dim + value_dim))
    name, attended, read = _reach(table, spec)
    shared = table.read_once if spec.chunk is None and spec.window is None else 0.0
    yield table.projection("qkv", layers, [(projected, table.hidden)], reduced=projected, only_2d=True)
    if table.assumptions.chip.pointwise == "counted" and spec.qk_norm != "none":
        yield _head_norms(table, layers, over_ranks=spec.qk_norm == "full")
    yield _scores(
        table,
        name,
        layers,
        flop=formulas.grouped_query_flop(spec.query_heads, (spec.head_dim + value_dim) / 2) * attended,
        cached_bytes=counting.cached_elements(spec) * (read - shared) * table.kv_width,
        shared_bytes=counting.cached_elements(spec) * shared * table.kv_width,
        heads=float(spec.kv_heads),
        reach=_reach_of_kernels(table, "grouped", attended, (spec.head_dim + value_dim) / 2),
    )
    yield from _context_exchange(table, layers, float(queries), float(values), spec.query_heads)
    if table.assumptions.chip.pointwise == "counted" and spec.output_gate:
        yield _fused(table, "output gate", layers)
    yield table.projection("attention output", layers, [(table.hidden, float(values))], reduced=summed, output=True)


def _head_norms(table: OperatorTable, layers: int, *, over_ranks: bool) -> Operator:
    """Norms of queries and keys: of each head by itself, or of the whole width, whose sums of squares ranks add up.

    They are two numbers of 32 bits per token, one of the queries and one of the keys.
    """
    if not over_ranks:
        return _fused(table, "query and key norms", layers)
    norms = _fused(table, "norms over ranks", layers)
    size = 2.0 * BYTES_PER_ELEMENT["fp32"] * table.ranks / (table.ranks * table.groups)
    sums = Collective("all_reduce", table.ranks, table.domains(table.ranks), size)
    return replace(norms, collectives=table.waited_for(sums))


def _fused(table: OperatorTable, name: str, layers: int) -> Operator:
    """Pointwise work that the operator table counts no kernels for; engines may have some, or do it in others."""
    return Operator(name, float(layers), table.precision.activations, launches=0.0, grouped=True)


def _reach(table: OperatorTable, spec: GroupedQueryAttention) -> tuple[str, float, float]:
    """Name of the scores' row, past tokens that a new token attends to, and tokens whose entries a sequence moves."""
    window = math.inf if spec.window is None else float(spec.window)
    if spec.chunk is None or window < spec.chunk / 2:
        name = "attention" if spec.window is None else f"attention (last {window:g})"
        return name, table.attended(window), table.read(window)
    chunk = float(spec.chunk)
    middle = table.assumptions.attention.chunk_position == "middle"
    name = f"attention (last {chunk / 2:g})" if middle else f"attention (chunks of {chunk:g})"
    return name, min(table.attended_in_chunk(chunk), window), table.read_in_chunk(chunk)


def _latent(table: OperatorTable, layers: int, spec: LatentAttention, summed: float) -> Iterator[Operator]:
    """MLA: projections, then scores over latents or over decompressed keys and values."""
    hidden, rank = table.hidden, float(spec.kv_rank)
    down, up, _ = counting.latent_weights(spec, hidden)
    queries = float(spec.query_heads * (spec.nope_head_dim + spec.rope_head_dim))
    expanded = float(spec.query_heads * (spec.nope_head_dim + spec.value_head_dim))
    limit = math.inf if spec.index_top_k is None else float(spec.index_top_k)
    whole = table.assumptions.attention.latent_down == "replicated"
    # The study counts the compression of keys and of values apart, and reads one of them.
    read_down = [(rank + spec.rope_head_dim + (spec.query_rank or 0), hidden)]
    if whole:
        read_down = list(counting.down_shapes(spec, hidden))
    read_up = [(expanded, rank)]
    if spec.query_rank is None:
        # Queries of all heads come from the residual stream, and are cut.
        apart = [(queries, hidden)]
        if whole:
            yield table.projection("queries", layers, apart)
            down -= queries * hidden
        else:
            read_down += apart
    else:
        read_up = [(queries, spec.query_rank), *read_up]
        if table.assumptions.attention.latent_traffic == "one_matrix":
            read_up = [(queries + expanded, rank + spec.query_rank)]
    yield table.projection("latent down", layers, read_down, count=down, whole=whole)
    # Norms of the latents, queries, and the key and value sides of the up-projection, before and after attention.
    yield table.projection(
        "latent up", layers, read_up, count=up, reduced=queries + expanded, only_2d=True, launches=4.0
    )
    yield from _indexer(table, layers, spec, table.attended())
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
        shared = table.read_once if math.isinf(limit) else 0.0
        yield _scores(
            table,
            "attention",
            layers,
            flop=flop * table.attended(limit),
            cached_bytes=latent * (table.read(limit) - shared) * table.kv_width,
            shared_bytes=latent * shared * table.kv_width,
            heads=1.0,
            reach=_reach_of_kernels(table, "latent", table.attended(limit)),
        )
        values = float(spec.query_heads * spec.kv_rank)
        yield from _context_exchange(table, layers, spec.query_heads * latent, values, spec.query_heads, latent)
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
        reach=_reach_of_kernels(table, "latent", table.attended(limit), expanded / spec.query_heads / 2),
    )
    queries, values = spec.nope_head_dim + spec.rope_head_dim, spec.value_head_dim
    heads = spec.query_heads
    yield from _context_exchange(table, layers, float(heads * queries), float(heads * values), heads, latent)


def _compressed(table: OperatorTable, layers: int, spec: CompressedAttention, summed: float) -> Iterator[Operator]:
    """DeepSeek-V4: the last raw tokens and, further back, pooled entries, all of one shared key-value vector."""
    weights, assumed = counting.attention(spec, table.hidden), table.assumptions.attention
    if assumed.indexer != "scan":
        weights -= sum(rows * columns for rows, columns in counting.indexer_shapes(spec, table.hidden))
    if assumed.latent_down == "replicated":
        down = counting.down_shapes(spec, table.hidden)
        weights -= sum(rows * columns for rows, columns in down)
        yield table.projection("latent down", layers, down, whole=True)
    rows = weights / table.hidden
    yield table.projection("attention matrices", layers, [(rows, table.hidden)], reduced=summed)
    attended = table.attended(float(spec.window))
    if spec.stride is not None:
        entries = table.attended() / spec.stride
        if spec.index_top_k is not None:
            yield from _indexer(table, layers, spec, entries)
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
    width = float(spec.query_heads * spec.head_dim)
    yield from _context_exchange(table, layers, width, width, spec.query_heads, float(spec.head_dim))


def _context_exchange(
    table: OperatorTable, layers: int, queries: float, values: float, heads: float, latent: float = 0.0
) -> Iterator[Operator]:
    """What ranks exchange that split the tokens of a sequence: queries before attention, parts of its output after.

    ``queries`` and ``values`` are elements per token over all heads, ``latent`` those that are cached of a token where
    they serve all heads. As in vLLM (``cp_lse_ag_out_rs``): the queries of the ranks are gathered, so that each works
    on the heads of all of them with its part of the tokens; the logarithms of their sums are gathered in 32 bits; and
    the outputs are scaled, added up and scattered. Prefill has all new tokens at hand: it gathers the queries for what
    was cached before, or the latents that were.
    """
    sharing, past = table.plans.dcp, table.context > 0
    if sharing <= 1 or (table.plans.prefill and not past):
        return
    ranks, owners = np.full((), sharing), table.ranks * table.groups
    domains = table.domains(ranks)
    sent = [queries * table.activation_width, sharing * heads * BYTES_PER_ELEMENT["fp32"]]
    sent += [values * table.activation_width]
    tensors = [sharing * each / owners for each in sent]
    if table.plans.prefill and latent:
        tensors = [np.asarray(table.context * latent * table.kv_width / table.plans.new_tokens / table.groups)]
    exchanged = tuple(Collective("all_to_all", ranks, domains, each, own_link=True) for each in tensors)
    yield Operator(
        "context exchange",
        float(layers),
        table.precision.activations,
        collectives=dict.fromkeys(table.assumptions.layout.tensor_layouts, exchanged),
        grouped=True,
    )


def _indexer(
    table: OperatorTable, layers: int, spec: LatentAttention | CompressedAttention, entries: float
) -> Iterator[Operator]:
    """Projections and scan of the indexer of sparse attention; nothing where another layer's pick is reused."""
    if spec.index_heads is None or spec.index_head_dim is None:
        return
    assumed = table.assumptions.attention
    whole = assumed.indexer == "replicated"
    if assumed.indexer != "scan":
        # Queries, keys with the weights of heads, rotation and format of the queries, norm and write of the keys.
        shapes = counting.indexer_shapes(spec, table.hidden)
        yield table.projection("indexer", layers, shapes, launches=4.0, whole=whole)
    width = spec.index_head_dim * table.kv_width
    if assumed.index_keys == "eight_bit":
        width = formulas.eight_bit_key_bytes(spec.index_head_dim)
    yield _scores(
        table,
        "index scan",
        layers,
        flop=2.0 * spec.index_heads * spec.index_head_dim * entries,
        cached_bytes=width * entries,
        heads=1.0,
        whole=whole,
        dtype="fp8" if assumed.index_keys == "eight_bit" else None,
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
        by_token=False,
        # Convolution, gates, norms of queries and keys, recurrence, norm and gate of the output.
        launches=6.0,
    )


#: Past tokens of a new token below which they cost nothing [tokens].
_LEAST_ATTENDED = 1e-9


class _Reach(NamedTuple):
    """What kernels of attention reach, and what they do over what is needed; nothing known by default."""

    rates: Rates | None = None
    padding: Array | float = 1.0
    kv_padding: Array | float = 1.0


def _reach_of_kernels(
    table: OperatorTable, cached: Literal["grouped", "latent"], attended: float, width: float | None = None
) -> _Reach:
    """By the curve of the cache's format: see :class:`inference_econ.inputs.ScoresKernel`.

    ``attended`` are past tokens of a new token, ``width`` the elements of a head's keys or values where prompts have
    them apart; without it prompts attend to latents, as decode steps do.
    """
    kernel = table.assumptions.attention.kernel(cached, table.precision.kv)
    # What is next to nothing takes no time, whatever its multiple.
    if kernel is None or attended < _LEAST_ATTENDED:
        return _Reach()
    decode, prompts = kernel.decode, kernel.prompts
    if not table.plans.prefill:
        padding = formulas.padded_share(attended, extra_tokens=decode.extra_tokens * table.plans.dcp)
        return _Reach(Rates(decode.math_efficiency, decode.hbm_efficiency, decode.overlap), padding, padding)
    if width is None:
        return _Reach(Rates(decode.math_efficiency, decode.hbm_efficiency, decode.overlap))
    padding = formulas.padded_share(
        attended, width, extra_tokens=prompts.extra_tokens, extra_elements=prompts.extra_elements
    )
    return _Reach(Rates(prompts.math_efficiency, decode.hbm_efficiency, 1.0), padding)


def _scores(
    table: OperatorTable,
    name: str,
    layers: int,
    *,
    flop: float,
    cached_bytes: float,
    heads: float,
    shared_bytes: float = 0.0,
    by_token: bool = True,
    launches: float = 3.0,
    whole: bool = False,
    dtype: str | None = None,
    reach: _Reach | None = None,
) -> Operator:
    """Arithmetic per new token, and bytes read per sequence, of one layer; ``heads`` can be held apart.

    Kernels: rotation and cache write, attention over parts of the context, their sum. What is ``whole`` every rank
    of a group does for all of the group's sequences. ``shared_bytes`` are read once by each group of attention ranks
    that has a sequence. ``dtype`` is that of the cache, if not given; ``reach`` what is known of the kernels.
    """
    known = _Reach() if reach is None else reach
    follows = table.assumptions.chip.math_unit_follows
    copies = np.minimum(table.groups, table.plans.micro_batch) if shared_bytes else 0.0
    mixed, worked = bool(np.any(table.plans.riding)), flop / (table.groups if whole else table.stage)
    rounds = table.plans.pp if table.assumptions.attention.kv_reads == "batch" else 1.0
    return Operator(
        name,
        float(layers),
        # The study runs scores on the unit of the weights; they multiply the cache.
        dtype or (table.precision.attention if follows == "weights" else table.precision.kv),
        "scores",
        # Prompts beside the sequences attend on their own.
        flop_per_sequence=worked * table.plans.new_tokens if mixed else 0.0,
        flop_per_token=0.0 if mixed else worked,
        kv_bytes_per_sequence=cached_bytes
        * rounds
        * (1.0 / table.groups if whole else table.cache_share(heads, by_token=by_token)),
        shared_kv_bytes=shared_bytes * copies * table.cache_share(heads),
        launches=launches,
        padding=known.padding,
        kv_padding=known.kv_padding,
        rates=known.rates,
        grouped=True,
    )
