"""Multi-head latent attention (MLA), with the indexer of sparse attention (DSA)."""

from __future__ import annotations

import math
from typing import Literal, Self

from inference_econ.inputs._base import Count, Size
from inference_econ.inputs.layers.mixer import Cache, Mixer, MixerParameters, Whole, indexer
from inference_econ.inputs.rounding import columns, heads


class LatentAttention(Mixer):
    """Multi-head latent attention (MLA): one compressed vector per token is cached."""

    kind: Literal["latent"]
    """Names this kind of attention."""
    query_heads: Size
    """Query heads."""
    kv_rank: Size
    """Width of the cached latent (kv_lora_rank)."""
    query_rank: Size | None = None
    """Width of the compressed query (q_lora_rank); absent if queries are not compressed."""
    nope_head_dim: Size
    """Width of a query or key head without position."""
    rope_head_dim: Whole = 0
    """Width of the shared rotary key, cached beside the latent."""
    value_head_dim: Size
    """Width of a value head."""
    kv_down_projections: Count = 1
    """Times the compression matrix is counted (the published study counts keys and values apart: 2)."""
    latent_norms: bool = True
    """Learned norms of the compressed query and of the latent."""
    output_gate: bool = False
    """A projection of the residual stream gates the output of every head."""
    index_heads: Count | None = None
    """Heads of the indexer that picks which tokens are attended to (DSA); absent if all are."""
    index_head_dim: Count | None = None
    """Width of an index head; one index key of this width is cached per token."""
    index_top_k: Count | None = None
    """Tokens attended to at most, picked by the layer's indexer or by an earlier layer's [tokens]."""

    def _check_fields(self) -> None:
        if (self.index_heads is None) != (self.index_head_dim is None):
            raise ValueError("index_heads and index_head_dim go together; give both or none")
        if self.index_heads is not None and (self.index_top_k is None or self.query_rank is None):
            raise ValueError("an indexer needs index_top_k and query_rank, whose compressed query it reads")

    @property
    def summary(self) -> str:
        """The kind and its sizes in a few words, for people."""
        text = f"latent attention, {self.query_heads} heads, {self.kv_rank} + {self.rope_head_dim} cached"
        return text + (f", top {self.index_top_k:,}" if self.index_top_k is not None else "")

    @property
    def cache(self) -> Cache:
        """The latent with the rotary key, and index keys.

        Decompressed, all heads have keys and values: section 2.1 of DeepSeek-AI, arXiv:2405.04434.

        Examples
        --------
        >>> heads = {"query_heads": 128, "nope_head_dim": 128, "rope_head_dim": 64, "value_head_dim": 128}
        >>> 2 * LatentAttention(kind="latent", kv_rank=512, **heads).cache.decompressed_elements
        81920
        """
        elements = self.kv_rank + self.rope_head_dim
        return Cache(
            elements,
            gathered_elements=elements,
            index_elements=self.index_head_dim or 0,
            decompressed_elements=self.query_heads * (self.nope_head_dim + self.rope_head_dim + self.value_head_dim),
        )

    def parameters(self, hidden: float) -> MixerParameters:
        """Parameters beside a residual stream of a width."""
        projections = self.projections(hidden)
        norms = self.kv_rank + (self.query_rank or 0) if self.latent_norms else 0
        down = self.kv_down_projections * self.kv_rank + self.rope_head_dim + (self.query_rank or 0)
        index = indexer(self.index_heads, self.index_head_dim, self.query_rank, 1, hidden)
        # The norm of the index key has a bias.
        indexing = sum(rows * columns for rows, columns in index) + 2 * (self.index_head_dim or 0)
        total = sum(projections) + norms + indexing + self.output_gate * projections[2]
        return MixerParameters(total, projections[2], ((float(down), hidden),), index)

    def projections(self, hidden: float) -> tuple[float, float, float]:
        """Parameters of the down-projections, the up-projections and the output projection [1]."""
        head = self.nope_head_dim + self.rope_head_dim
        down = (self.kv_down_projections * self.kv_rank + self.rope_head_dim) * hidden
        up = self.query_heads * (self.nope_head_dim + self.value_head_dim) * self.kv_rank
        if self.query_rank is None:
            down += hidden * self.query_heads * head
        else:
            down += hidden * self.query_rank
            up += self.query_rank * self.query_heads * head
        return down, up, self.query_heads * self.value_head_dim * hidden

    def resized(self, ratio: float) -> Self:
        """Query heads and the compressed query grow; the latent is kept."""
        rank = None if self.query_rank is None else columns(self.query_rank, ratio)
        return self.model_copy(update={"query_heads": heads(self.query_heads, 1, ratio), "query_rank": rank})

    def scaled(self, root: float) -> Self:
        """Heads and their widths grow by the factor, latents by its square; the rotary part is kept."""
        return self.model_copy(
            update={
                "query_heads": math.ceil(self.query_heads * root),
                "nope_head_dim": self.nope_head_dim * root,
                "value_head_dim": self.value_head_dim * root,
                "kv_rank": self.kv_rank * root**2,
                "query_rank": None if self.query_rank is None else self.query_rank * root**2,
            }
        )
