"""Attention over a window of raw tokens and pooled entries behind it (DeepSeek-V4 and V4.1)."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field

from inference_econ.inputs._base import Count
from inference_econ.inputs.layers.mixer import Cache, Mixer, MixerParameters, Shapes, indexer
from inference_econ.inputs.rounding import columns, heads


class CompressedAttention(Mixer):
    """One shared key-value vector per position: the last tokens raw, older ones pooled (DeepSeek-V4)."""

    kind: Literal["compressed"]
    """Names this kind of attention."""
    query_heads: Count
    """Query heads."""
    head_dim: Count
    """Width of a head, and of the one vector that is key and value."""
    query_rank: Count
    """Width of the compressed query (q_lora_rank)."""
    output_groups: Count
    """Groups of heads, each with an output projection of its own (o_groups)."""
    output_rank: Count
    """Width that each group is projected to (o_lora_rank)."""
    window: Count
    """Raw tokens that every layer attends to [tokens]."""
    stride: Count | None = None
    """Tokens per pooled entry that is cached; absent if only the window is attended to [tokens]."""
    entries: Literal["pooled", "projected", "earlier"] = "pooled"
    """Where entries come from: pooled by gates with a bias for each position of a stride, index keys alike (V4); by
    gates alone, or none at a stride of 1, index keys being made of the entries (V4.1); or an earlier layer keeps them,
    and this one has none of its own."""
    overlap: Annotated[int, Field(ge=1, le=2)] = 1
    """Strides that one entry pools: 2 if neighbours overlap (CSA), 1 if not (HCA)."""
    index_heads: Count | None = None
    """Heads of the indexer that picks pooled entries; absent if all are attended to, or those of an earlier pick."""
    index_head_dim: Count | None = None
    """Width of an index head; one index key of this width is cached per entry, where the entries are."""
    index_top_k: Count | None = None
    """Pooled entries attended to at most."""
    index_candidates: Count | None = None
    """Entries that the indexer looks through at most, which an earlier layer has picked; absent if all."""
    sinks: bool = True
    """One learned attention sink per query head."""

    def _check_fields(self) -> None:
        absent = [self.index_heads is None, self.index_head_dim is None, self.index_top_k is None]
        if any(absent) != all(absent) and not (self.entries == "earlier" and all(absent[:2])):
            raise ValueError("index_heads, index_head_dim and index_top_k go together; give all or none")
        if self.index_heads is not None and self.stride is None:
            raise ValueError("an indexer picks pooled entries; give their stride")
        if (self.query_heads * self.head_dim) % self.output_groups:
            raise ValueError(f"query_heads * head_dim must split into output_groups ({self.output_groups})")

    compressed = True

    @property
    def summary(self) -> str:
        """The kind and its sizes in a few words, for people."""
        text = f"compressed attention, {self.query_heads} heads of {self.head_dim}, window {self.window:,}"
        text += f", 1 entry per {self.stride}" if self.stride is not None else ""
        text += f", top {self.index_top_k:,}" if self.index_top_k is not None else ""
        return text + (" of an earlier layer's" if self.entries == "earlier" else "")

    @property
    def cache(self) -> Cache:
        """Raw tokens of the window, pooled entries, and pooled index keys."""
        stride = math.inf if self.stride is None else self.stride
        # Of those that share a prompt, none gathers raw tokens: few are in its window.
        kept = 0.0 if self.entries == "earlier" else 1 / stride
        pooled = self.head_dim * kept
        return Cache(pooled, self.head_dim, self.window, pooled, (self.index_head_dim or 0) * kept)

    def parameters(self, hidden: float) -> MixerParameters:
        """Parameters beside a residual stream of a width."""
        width = self.query_heads * self.head_dim
        count = self.query_rank * (hidden + 1 + width) + self.head_dim * (hidden + 1) + self.output_rank * width
        count += self.output_groups * self.output_rank * hidden + self.query_heads * self.sinks
        down = float(self.query_rank + self.head_dim)
        if self.stride is not None and self.entries == "pooled":
            count += self._pooling(self.stride, self.head_dim, hidden)
            down += 2 * self.overlap * self.head_dim
        elif self.stride is not None and self.entries == "projected":
            gated = 1 + (self.stride > 1)
            count += self.head_dim * (gated * hidden + 1)
            down += gated * self.head_dim
        if self.stride is not None and self.index_heads is not None and self.index_head_dim is not None:
            if self.entries == "pooled":
                count += self._pooling(self.stride, self.index_head_dim, hidden)
            elif self.entries == "projected":
                count += self.index_head_dim * (self.head_dim + 1)
            count += self.index_heads * (self.query_rank * self.index_head_dim + hidden)
        return MixerParameters(count, shared=((down, hidden),), indexer=self._indexer(hidden))

    def _indexer(self, hidden: float) -> Shapes:
        """Matrices of the indexer; keys that are made of entries are read as those."""
        keys = 2 * self.overlap if self.entries == "pooled" else 0
        shapes = indexer(self.index_heads, self.index_head_dim, self.query_rank, keys, hidden)
        made = self.entries == "projected" and self.index_head_dim is not None
        return (*shapes, (float(self.index_head_dim or 0), float(self.head_dim))) if made else shapes

    def _pooling(self, stride: int, width: int, hidden: float) -> float:
        """Values and gates of what is pooled, a bias for each position in a stride, and a norm."""
        return self.overlap * width * (2 * hidden + stride) + width

    def resized(self, ratio: float) -> Self:
        """Query heads in whole output groups and compressed widths grow; what is cached is kept."""
        changes = {
            "query_heads": heads(self.query_heads, self.output_groups, ratio),
            "query_rank": columns(self.query_rank, ratio),
            "output_rank": columns(self.output_rank, ratio),
        }
        return self.model_copy(update=changes)
