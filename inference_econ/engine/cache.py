"""Size of the KV cache and of recurrent states: bytes of one sequence, without and with copies on several ranks."""

from __future__ import annotations

import numpy as np

from inference_econ._types import Array
from inference_econ.engine.layouts.plans import Plans, attention_groups, fullest_over_mean
from inference_econ.formulas.attention import eight_bit_key_bytes
from inference_econ.inputs import (
    BYTES_PER_ELEMENT,
    Assumptions,
    Attention,
    AttentionAssumptions,
    CapacityAssumptions,
    ModelSpec,
    Precision,
)


def kv_bytes_per_sequence(
    model: ModelSpec, precision: Precision, context: float, assumptions: Assumptions | None = None
) -> float:
    """KV cache and recurrent states of one sequence of ``context`` tokens over all layers, without copies [B].

    If ``assumptions`` is None, the context is not rounded up to full blocks, and MLA stores the latent.
    """
    held = sum(block.layers * _kept(block.attention, precision, context, assumptions) for block in model.blocks)
    return float(held * _held_share(model, assumptions))


def _held_share(model: ModelSpec, assumptions: Assumptions | None) -> float:
    """Share of the layers whose KV cache must be in memory at the same time [1]."""
    recomputed = assumptions is not None and assumptions.attention.cache == "recomputed"
    return 1.0 / model.layers if recomputed else 1.0


def _kept(
    spec: Attention, precision: Precision, context: Array | float, assumptions: Assumptions | None
) -> Array | float:
    """KV cache and recurrent state of one sequence in one layer, rounded up to full blocks of tokens [B]."""
    keys = _index_keys(spec, precision, context, assumptions)
    context = _full_blocks(context, assumptions)
    assumed = None if assumptions is None else assumptions.attention
    cache = spec.cache
    if _decompressed(spec, assumed):
        cached: Array | float = cache.decompressed_elements * context
    else:
        cached = cache.elements * context + cache.window_elements * np.minimum(context, cache.window_tokens)
    state = cache.state_bytes(BYTES_PER_ELEMENT[precision.activations])
    return cached * BYTES_PER_ELEMENT[precision.kv] + keys + state


def _full_blocks(context: Array | float, assumptions: Assumptions | None) -> Array | float:
    """Context, rounded up to full blocks of the KV cache [tokens]."""
    if assumptions is None or assumptions.capacity.kv_block == 1:
        return context
    return np.ceil(context / assumptions.capacity.kv_block) * float(assumptions.capacity.kv_block)


def _index_keys(
    spec: Attention, precision: Precision, context: Array | float, assumptions: Assumptions | None
) -> Array | float:
    """Index keys of one sequence in one layer, rounded up to full blocks of tokens [B]."""
    assumed = None if assumptions is None else assumptions.attention
    return index_key_bytes(spec, precision, assumed) * _full_blocks(context, assumptions)


def index_key_bytes(spec: Attention, precision: Precision, assumed: AttentionAssumptions | None) -> float:
    """Size of the index keys (of sparse attention) that one layer caches per token [B]."""
    elements = spec.cache.index_elements
    if assumed is not None and assumed.index_keys == "eight_bit" and not spec.index_keys_as_cache:
        return eight_bit_key_bytes(elements)
    return elements * BYTES_PER_ELEMENT[precision.kv]


def held_cache(
    model: ModelSpec, precision: Precision, plans: Plans, context: float, assumptions: Assumptions
) -> dict[str, Array | float]:
    """KV cache and recurrent states of one sequence on all accelerators of an instance, with copies [B].

    All pipeline stages are assumed to have as many layers as the fullest stage. All KV heads use the same index keys,
    which engines store on every rank: ``MiniMaxM3SparseIndexCache`` of TensorRT-LLM and ``MiniMaxSparseKVPool`` of
    SGLang.
    """
    held: dict[str, Array | float] = {"kv_cache": 0.0, "state": 0.0}
    page, assumed = _page_tokens(model, precision, plans, assumptions), assumptions.attention
    paged = context if page is None else np.ceil(context / page) * page
    fullest = fullest_over_mean(model.layers, plans, assumptions.layout) * _held_share(model, assumptions)
    for block in model.blocks:
        kept: Array | float = block.layers * _kept(block.attention, precision, paged, assumptions) * fullest
        if block.attention.compressed:
            kept = kept * assumptions.capacity.compressed_padding
        if assumptions.layout.kv_placement == "by_heads":
            ranks = plans.attention_ranks
            # If there are more ranks than KV heads, the additional ranks store copies or, with decode context
            # parallelism, other tokens of the sequence.
            dcp = plans.dcp if block.attention.caches else 1.0
            copies = ranks / np.minimum(ranks, _apart(block.attention, assumed) * dcp)
            keys = block.layers * _index_keys(block.attention, precision, paged, assumptions) * fullest
            kept = kept * copies + keys * (ranks / np.minimum(ranks, dcp) - copies)
        if block.attention.cache.has_state:
            held["state"] += kept * assumptions.capacity.states_held
        else:
            held["kv_cache"] += kept
    return _in_separate_pools(held, assumptions.capacity)


def _in_separate_pools(held: dict[str, Array | float], assumed: CapacityAssumptions) -> dict[str, Array | float]:
    """Memory that a sequence takes from separate pools for KV cache and recurrent states [B].

    Pools have fixed sizes, and the pool that is full first limits the number of sequences. The result is therefore the
    memory of a sequence in the scarcer pool, scaled to both pools.
    """
    share, states, keys = assumed.state_share, held["state"], held["kv_cache"]
    if share is None or np.all(np.asarray(states) == 0.0) or np.all(np.asarray(keys) == 0.0):
        return held
    taken = np.maximum(states / share, keys / (1.0 - share))
    return {"kv_cache": taken * (1.0 - share), "state": taken * share}


def _page_tokens(model: ModelSpec, precision: Precision, plans: Plans, assumptions: Assumptions) -> Array | None:
    """Number of tokens whose keys and values fill one memory page [tokens].

    The result is None if recurrent states do not share pages with keys and values. A page is as large as the state of a
    recurrent layer on one rank, rounded up to full attention blocks.
    """
    if not assumptions.capacity.state_pages:
        return None
    specs, assumed = [block.attention for block in model.blocks], assumptions.attention
    states = [spec for spec in specs if spec.cache.has_state]
    caches = [spec for spec in specs if spec.caches]
    if not states or not caches:
        return None
    block = float(assumptions.capacity.kv_block)

    def on_a_rank(spec: Attention, tokens: float) -> Array:
        kept = _kept(spec, precision, tokens, None)
        return np.asarray(kept / np.minimum(plans.attention_ranks, _apart(spec, assumed)))

    state = np.max([on_a_rank(spec, 0.0) for spec in states], axis=0)
    token = np.max([on_a_rank(spec, 1.0) for spec in caches], axis=0)
    return np.asarray(np.ceil(state / token / block) * block)


def own_tokens(context: float, shared: float, assumed: CapacityAssumptions) -> float:
    """Tokens of a sequence that are not in full blocks of the shared prefix [tokens]."""
    block = float(assumed.kv_block)
    return context - min(shared, context) // block * block


def held_prefix(
    model: ModelSpec, precision: Precision, plans: Plans, shared: float, assumptions: Assumptions
) -> Array | float:
    """KV cache of the prefix that all sequences share, on all accelerators of an instance [B].

    Each attention-DP group holds one copy, including one state of the recurrent layers.
    """
    if not shared:
        return 0.0
    held = sum(held_cache(model, precision, plans, shared, assumptions).values())
    return held * attention_groups(plans, assumptions.layout)


def _decompressed(spec: Attention, assumed: AttentionAssumptions | None) -> bool:
    return assumed is not None and assumed.latent == "decompressed" and spec.cache.decompressed_elements > 0


def _apart(spec: Attention, assumed: AttentionAssumptions) -> float:
    """Number of KV or state heads that can be stored on different chips [1]."""
    return spec.heads if spec.cache.has_state or _decompressed(spec, assumed) else spec.cache.heads
