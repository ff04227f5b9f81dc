"""Naive computation of the published study's frontiers, to compare speed and results.

It uses only the study's equations, not the package's engine. It evaluates every candidate of the grid in a loop over
layouts, and finds the frontier in a loop over latency limits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inference_econ._types import Array

_PROTOCOLS = ((0.6e-6, 5e-6, 6.8e-6, 0.5), (1.25e-6, 8.5e-6, 14e-6, 0.95), (28e-6, 28e-6, 0.0, 1.0))


@dataclass(frozen=True)
class Chip:
    """Effective rates of one accelerator."""

    flops_per_second: float
    bytes_per_second: float
    hbm_bytes: float
    inside: float
    between: float
    launch: float = 4e-6
    node: int = 8


@dataclass(frozen=True)
class Llm:
    """Language model; ``latent`` is (kv rank, query rank) for MLA."""

    hidden: float
    width: float
    matrices: tuple[int, int]
    layers: int
    experts: int
    active: int
    heads: float
    group: float
    head_dim: float
    vocabulary: float
    weight_bytes: float
    latent: tuple[float, float] | None = None
    activation_bytes: float = 2.0

    @property
    def sparsity(self) -> int:
        """Integer ratio of experts to active experts."""
        return self.experts // self.active

    @property
    def kv_heads(self) -> float:
        """Key heads plus value heads."""
        return 2 * self.heads / self.group

    @property
    def qkv(self) -> float:
        """Width of queries, keys and values."""
        return (self.heads + self.kv_heads) * self.head_dim

    @property
    def attention_parameters(self) -> float:
        """Attention parameters of one layer."""
        inner = self.heads * self.head_dim
        if self.latent is None:
            return self.qkv * self.hidden + inner * self.hidden
        kv, query = self.latent
        up = self.kv_heads * self.head_dim * kv + inner * query
        return 2 * kv * self.hidden + query * self.hidden + up + inner * self.hidden

    @property
    def ff_parameters(self) -> float:
        """Feed-forward parameters of all layers."""
        return self.layers * self.experts * sum(self.matrices) * self.hidden * self.width

    @property
    def parameters(self) -> float:
        """Total parameters."""
        return self.layers * self.attention_parameters + self.ff_parameters + 2 * self.vocabulary * self.hidden

    @property
    def kv_bytes(self) -> float:
        """KV cache per token of context."""
        per_layer = self.kv_heads * self.head_dim if self.latent is None else self.latent[0]
        return per_layer * self.layers * self.activation_bytes


def collective(ranks: Array, nodes: Array, size: Array, chip: Chip, *, all_reduce: bool) -> Array:
    """Time of one collective with the best protocol."""
    passes, share = (2.0, 1.0) if all_reduce else (1.0, 0.5)
    inside = nodes * np.maximum(0.0, ranks / nodes - 1.0) * size / (ranks * chip.inside)
    between = (nodes - 1.0) * size / (ranks * chip.between)
    times = [
        passes * ((ranks / nodes - 1.0) * a + c * np.log2(nodes)) + base + share * np.maximum(inside, between) / f
        for a, c, base, f in _PROTOCOLS
    ]
    return np.where(ranks <= 1.0, 0.0, np.minimum.reduce(times))


def matmul_bytes(rows: float, columns: float, tokens: Array, ranks: Array, llm: Llm) -> Array:
    """Memory traffic of one divided matrix."""
    first = np.clip(np.sqrt(rows * ranks / columns), 1.0, ranks)
    second = ranks / first
    moved: Array = (first * columns + second * rows) * tokens * llm.activation_bytes
    return rows * columns * llm.weight_bytes + moved


def candidate(
    llm: Llm, chip: Chip, size: Array, batch: Array, context: float, tokens: int, depth: Array, share: float, flat: bool
) -> Array:
    """Step time of all instances under one layout; inf if it does not fit."""
    stage, micro = size / depth, batch / depth
    words = micro * tokens
    scale = stage**share
    ranks = stage / scale
    spread = np.where(micro < 2 * llm.sparsity, 1.0, np.minimum(stage, llm.experts))
    ff_ranks = np.maximum(1.0, stage / np.maximum(1.0, spread))

    def place(count: Array) -> tuple[Array, Array]:
        nodes = np.ceil(count / chip.node)
        return (count, nodes) if flat else (np.sqrt(count), np.sqrt(nodes))

    attention_group, attention_nodes = place(ranks)
    ff_group, ff_nodes = place(ff_ranks)
    unit = words * llm.activation_bytes
    first, second = llm.matrices
    if flat:
        attention_words = [np.full_like(size, llm.hidden)]
        ff_words = [llm.active * second * llm.hidden * ff_group / stage]
    else:
        attention_words = [llm.hidden * attention_group / ranks, llm.qkv * attention_group / ranks]
        ff_words = [
            llm.active * first * llm.width * ff_group / stage,
            llm.active * second * llm.hidden * ff_group / stage,
        ]
    network = np.zeros_like(size)
    for count in attention_words:
        network += collective(attention_group, attention_nodes, count * unit, chip, all_reduce=True)
    for count in ff_words:
        network += collective(ff_group, ff_nodes, count * unit, chip, all_reduce=True)
    if llm.experts > 1:
        reached = np.minimum(llm.active, spread)
        sent = llm.hidden * unit * reached / stage
        network += 2 * collective(reached, np.ceil(reached / chip.node), sent, chip, all_reduce=False)
    network *= llm.layers
    two = np.full_like(size, 2.0)
    network += (depth - 1) * collective(two, two, llm.hidden * unit / stage, chip, all_reduce=False)

    touched = (1 - (1 - 1 / llm.sparsity) ** words) * llm.experts
    ff = touched * (first + second) * matmul_bytes(llm.hidden, llm.width, words / llm.sparsity, ff_ranks, llm)
    inner = llm.heads * llm.head_dim
    if llm.latent is None:
        attention = matmul_bytes(llm.qkv, llm.hidden, words, ranks, llm)
    else:
        both = sum(llm.latent)
        attention = matmul_bytes(both, llm.hidden, words, ranks, llm) + matmul_bytes(llm.qkv, both, words, ranks, llm)
    attention = attention + matmul_bytes(llm.hidden, inner, words, ranks, llm)
    cache = llm.kv_bytes * context * micro
    moved = cache + llm.layers * (ff + scale * attention) + llm.weight_bytes * llm.vocabulary * llm.hidden
    memory = depth * moved / (size * chip.bytes_per_second)

    all_words = batch * tokens
    scores = (4 * inner if llm.latent is None else 4 * llm.latent[0] * llm.heads) * llm.layers
    active = llm.layers * llm.attention_parameters + llm.ff_parameters // llm.sparsity + 2 * llm.vocabulary * llm.hidden
    ff_flop = 2 * (llm.ff_parameters / llm.sparsity) * all_words
    flop = ff_flop + scores * context * all_words + scale * (2 * active * all_words - ff_flop)
    arithmetic = flop / (size * chip.flops_per_second)

    seconds = 4 * llm.layers * chip.launch + network + np.maximum(memory, arithmetic)
    fits = size * chip.hbm_bytes >= cache + llm.weight_bytes * llm.parameters
    return np.where(fits & (depth <= np.minimum(size, batch) * (1 + 1e-9)), seconds, np.inf)


def step_seconds(
    llm: Llm, chip: Chip, size: Array, batch: Array, context: float, tokens: int, *, pipeline: bool
) -> Array:
    """Step time of each instance with its fastest layout."""
    depths = [np.ones_like(batch)]
    if pipeline:
        depths += [np.minimum(batch, llm.layers) ** (j / 9) for j in range(10)]
    best = np.full_like(size, np.inf)
    for depth in depths:
        for flat in (False, True):
            for step in range(6):
                best = np.minimum(best, candidate(llm, chip, size, batch, context, tokens, depth, step / 5, flat))
    return best


def token_seconds(
    llm: Llm,
    chip: Chip,
    size: Array,
    batch: Array,
    context: float,
    *,
    pipeline: bool,
    draft: Llm | None = None,
    draft_chip: Chip | None = None,
    acceptance: float = 0.8,
    longest: int = 5,
) -> Array:
    """Time per token, with speculation if there is a draft model."""
    best = step_seconds(llm, chip, size, batch, context, 1, pipeline=pipeline)
    if draft is None or draft_chip is None:
        return best
    proposing = step_seconds(draft, draft_chip, size, batch, context, 1, pipeline=pipeline)
    for length in range(2, longest + 1):
        verify = step_seconds(llm, chip, size, batch, context, length, pipeline=pipeline)
        gained = (1 - acceptance**length) / (1 - acceptance)
        best = np.minimum(best, (verify + length * proposing) / gained)
    return best


def frontier(seconds: Array, dollars: Array, limits: int = 1000, decades: float = 2.0) -> tuple[Array, Array]:
    """Speed and cost of the cheapest instance within each latency limit."""
    kept: dict[float, float] = {}
    for limit in seconds.min() * 10 ** np.linspace(0, decades, limits):
        allowed = np.where(seconds <= limit, dollars, np.inf)
        index = int(np.argmin(allowed))
        kept[float(seconds[index])] = float(dollars[index])
    times = np.array(sorted(kept))
    return 1.0 / times, np.array([kept[time] for time in times])
