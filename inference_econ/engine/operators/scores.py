"""Rows that kinds of attention share: scores over a cache, indexers, and exchanges of ranks that share its tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from inference_econ._types import Array
from inference_econ.engine.operators.table import Collective, Operator, OperatorTable, Rates
from inference_econ.formulas import attention as formulas
from inference_econ.inputs import BYTES_PER_ELEMENT, CompressedAttention, LatentAttention

#: Past tokens of a new token below which they cost nothing [tokens].
_LEAST_ATTENDED = 1e-9


class Reach(NamedTuple):
    """Shares that kernels of attention reach, and their work over what is needed; nothing known by default."""

    rates: Rates | None = None
    padding: Array | float = 1.0
    kv_padding: Array | float = 1.0


def reach_of_kernels(
    table: OperatorTable, cached: Literal["grouped", "latent"], attended: float, width: float | None = None
) -> Reach:
    """By the curve of the cache's format: see :class:`inference_econ.inputs.ScoresKernel`.

    ``attended`` are past tokens of a new token, ``width`` the elements of a head's keys or values where prompts have
    them apart; without it prompts attend to latents, as decode steps do.
    """
    kernel = table.assumptions.attention.kernel(cached, table.precision.kv)
    # What is next to nothing takes no time, whatever its multiple.
    if kernel is None or attended < _LEAST_ATTENDED:
        return Reach()
    decode, prompts = kernel.decode, kernel.prompts
    if not table.plans.prefill:
        padding = formulas.padded_share(attended, extra_tokens=decode.extra_tokens * table.plans.dcp)
        return Reach(Rates(decode.math_efficiency, decode.hbm_efficiency, decode.overlap), padding, padding)
    if width is None:
        return Reach(Rates(decode.math_efficiency, decode.hbm_efficiency, decode.overlap))
    padding = formulas.padded_share(
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
    """Arithmetic per new token, and bytes read per sequence, of one layer; ``heads`` can be held apart.

    Kernels: rotation and cache write, attention over parts of the context, their sum. What is ``whole`` every rank
    of a group does for all of the group's sequences. ``shared_bytes`` are read once by each group of attention ranks
    that has a sequence. ``dtype`` is that of the cache, if not given; ``reach`` what is known of the kernels.
    """
    within = Reach() if reach is None else reach
    follows = table.assumptions.chip.math_unit_follows
    copies = np.minimum(table.groups, table.plans.micro_batch) if shared_bytes else 0.0
    mixed, worked = bool(np.any(table.plans.riding)), flop / (table.groups if whole else table.stage)
    rounds = table.plans.pp if table.assumptions.attention.kv_reads == "batch" else 1.0
    return Operator(
        name,
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
        padding=within.padding,
        kv_padding=within.kv_padding,
        rates=within.rates,
        grouped=True,
    )


def indexer(table: OperatorTable, spec: LatentAttention | CompressedAttention, entries: float) -> Iterator[Operator]:
    """Projections and scan of the indexer of sparse attention; nothing where another layer's pick is reused."""
    if spec.index_heads is None or spec.index_head_dim is None:
        return
    assumed = table.assumptions.attention
    whole = assumed.indexer == "replicated"
    if assumed.indexer != "scan":
        # Queries, keys with the weights of heads, rotation and format of the queries, norm and write of the keys.
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
    """Exchange of ranks that split the tokens of a sequence: queries before attention, parts of its output after.

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
