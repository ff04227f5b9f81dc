"""Multi-head, grouped-query and multi-query attention."""

from __future__ import annotations

import math
from typing import Literal, Self

from inference_econ.inputs._base import Count, Size
from inference_econ.inputs.layers.mixer import Cache, Mixer, MixerParameters
from inference_econ.inputs.rounding import heads


class GroupedQueryAttention(Mixer):
    """Multi-head (kv_heads = query_heads), grouped-query or multi-query (kv_heads = 1) attention."""

    kind: Literal["grouped_query"]
    """Names this kind of attention."""
    query_heads: Size
    """Query heads."""
    kv_heads: Size
    """Heads of keys, and of values."""
    head_dim: Size
    """Width of a head."""
    value_head_dim: Size | None = None
    """Width of a value head, if it is not head_dim."""
    window: Count | None = None
    """Sliding window [tokens]: at most so many past tokens are attended to and cached."""
    chunk: Count | None = None
    """Tokens attend only within chunks of this many [tokens]; all are cached."""
    qkv_bias: bool = False
    """The query, key and value projections have biases."""
    output_bias: bool = False
    """The output projection has a bias."""
    qk_norm: Literal["none", "per_head", "full"] = "none"
    """Learned norm of queries and keys: one vector of head_dim each, or of the whole width."""
    sinks: bool = False
    """One learned attention sink per query head."""
    value_projection: bool = True
    """Values have a projection of their own; otherwise they are what keys are before their norm and rotation."""
    output_gate: bool = False
    """A second query projection gates the output of attention."""
    head_gate: bool = False
    """A learned scalar per query head, read from the residual stream, gates its output."""
    index_heads: Count | None = None
    """Heads of the indexer that picks blocks of tokens for each KV head; absent if all tokens are attended to."""
    index_head_dim: Count | None = None
    """Width of an index head; one index key of this width is cached per token."""
    index_top_k: Count | None = None
    """Tokens in the blocks that are picked, attended to at most [tokens]."""

    def _check_fields(self) -> None:
        absent = [self.index_heads is None, self.index_head_dim is None, self.index_top_k is None]
        if any(absent) != all(absent):
            raise ValueError("index_heads, index_head_dim and index_top_k go together; give all or none")
        if self.index_top_k is not None and (self.window is not None or self.chunk is not None):
            raise ValueError("an indexer picks tokens of the whole context; give no window and no chunk beside it")
        if self.kv_heads > self.query_heads:
            raise ValueError(f"kv_heads must be at most query_heads ({self.query_heads:g}), got {self.kv_heads:g}")

    index_keys_as_cache = True

    @property
    def value_width(self) -> float:
        """Width of a value head [1]."""
        return self.head_dim if self.value_head_dim is None else self.value_head_dim

    @property
    def projected_width(self) -> float:
        """Elements that queries, their gate, keys, values, and queries and key of the indexer are projected to [1]."""
        values = self.kv_heads * self.value_width * self.value_projection
        queries = self.query_heads * (self.head_dim * (1 + self.output_gate) + self.head_gate)
        index = ((self.index_heads or 0) + 1) * (self.index_head_dim or 0)
        return queries + self.kv_heads * self.head_dim + values + index

    @property
    def summary(self) -> str:
        """The kind and its sizes in a few words, for people."""
        text = f"attention, {self.query_heads} query and {self.kv_heads} KV heads of {self.head_dim}"
        if self.window is not None:
            text += f", window {self.window:,}"
        if self.index_top_k is not None:
            text += f", top {self.index_top_k:,}"
        return text + (f", chunks of {self.chunk:,}" if self.chunk is not None else "")

    @property
    def cache(self) -> Cache:
        """Keys and values."""
        token = self.kv_heads * (self.head_dim + self.value_width)
        if self.window is None:
            index = self.index_head_dim or 0
            return Cache(token, gathered_elements=token, heads=self.kv_heads, index_elements=index)
        return Cache(window_elements=token, window_tokens=self.window, gathered_elements=token, heads=self.kv_heads)

    def parameters(self, hidden: float) -> MixerParameters:
        """Parameters beside a residual stream of a width."""
        queries, keys = self.query_heads * self.head_dim, self.kv_heads * self.head_dim
        read = self.projected_width
        output = self.query_heads * self.value_width * hidden
        count = read * (hidden + self.qkv_bias) + output + hidden * self.output_bias
        if self.qk_norm == "per_head":
            count += 2 * self.head_dim
        elif self.qk_norm == "full":
            count += queries + keys
        # Queries and the key of the indexer have a norm each.
        count += 2 * (self.index_head_dim or 0)
        return MixerParameters(count + self.query_heads * self.sinks, output)

    def resized(self, ratio: float) -> Self:
        """Query heads in whole groups; where every query head has its own keys, it keeps them."""
        multi_head = self.kv_heads == self.query_heads
        count = heads(self.query_heads, 1 if multi_head else self.kv_heads, ratio)
        return self.model_copy(update={"query_heads": count, "kv_heads": count if multi_head else self.kv_heads})

    def scaled(self, root: float) -> Self:
        """Heads and their width grow; KV heads are kept."""
        changes = {"query_heads": math.ceil(self.query_heads * root), "head_dim": self.head_dim * root}
        if self.value_head_dim is not None:
            changes["value_head_dim"] = self.value_head_dim * root
        return self.model_copy(update=changes)
