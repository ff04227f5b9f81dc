"""Layers of language models as numbers: attention, feed-forward parts, and blocks of equal layers."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from inference_econ.inputs._base import Count, Size, Spec
from inference_econ.inputs.dtype import Dtype

Whole = Annotated[int, Field(ge=0)]


class GroupedQueryAttention(Spec):
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
    output_gate: bool = False
    """A second query projection gates the output of attention."""

    @model_validator(mode="after")
    def _no_more_kv_heads_than_queries(self) -> Self:
        if self.kv_heads > self.query_heads:
            raise ValueError(f"kv_heads must be at most query_heads ({self.query_heads:g}), got {self.kv_heads:g}")
        return self


class LatentAttention(Spec):
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
    index_heads: Count | None = None
    """Heads of the indexer that picks which tokens are attended to (DSA); absent if all are."""
    index_head_dim: Count | None = None
    """Width of an index head; one index key of this width is cached per token."""
    index_top_k: Count | None = None
    """Tokens attended to at most, picked by the layer's indexer or by an earlier layer's [tokens]."""

    @model_validator(mode="after")
    def _indexer_is_whole(self) -> Self:
        if (self.index_heads is None) != (self.index_head_dim is None):
            raise ValueError("index_heads and index_head_dim go together; give both or none")
        if self.index_heads is not None and (self.index_top_k is None or self.query_rank is None):
            raise ValueError("an indexer needs index_top_k and query_rank, whose compressed query it reads")
        return self


class CompressedAttention(Spec):
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
    overlap: Annotated[int, Field(ge=1, le=2)] = 1
    """Strides that one entry pools: 2 if neighbours overlap (CSA), 1 if not (HCA)."""
    index_heads: Count | None = None
    """Heads of the indexer that picks pooled entries; absent if all are attended to."""
    index_head_dim: Count | None = None
    """Width of an index head; one pooled index key of this width is cached per entry."""
    index_top_k: Count | None = None
    """Pooled entries attended to at most."""
    sinks: bool = True
    """One learned attention sink per query head."""

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        given = [self.index_heads is None, self.index_head_dim is None, self.index_top_k is None]
        if any(given) != all(given):
            raise ValueError("index_heads, index_head_dim and index_top_k go together; give all or none")
        if self.index_heads is not None and self.stride is None:
            raise ValueError("an indexer picks pooled entries; give their stride")
        if (self.query_heads * self.head_dim) % self.output_groups:
            raise ValueError(f"query_heads * head_dim must split into output_groups ({self.output_groups})")
        return self


class RecurrentMixer(Spec):
    """A layer with a state of fixed size per sequence in the place of a cache (Mamba-2, Gated DeltaNet)."""

    kind: Literal["recurrent"]
    """Names this kind of mixer."""
    variant: Literal["mamba2", "gated_delta"]
    """Which recurrence."""
    value_heads: Count
    """Heads of the state (Mamba-2: heads)."""
    value_head_dim: Count
    """Width of a value head (Mamba-2: head dimension)."""
    key_heads: Count
    """Heads of keys and of queries (Mamba-2: groups of B and C)."""
    key_head_dim: Count
    """Width of a key head (Mamba-2: state size)."""
    convolution: Count
    """Width of the causal convolution over tokens [tokens]."""
    convolution_bias: bool = False
    """The convolution has a bias per channel."""
    input_bias: bool = False
    """The input projection has a bias."""
    output_bias: bool = False
    """The output projection has a bias."""
    state_dtype: Dtype = "fp32"
    """Number format of the recurrent state; the convolution's state has that of the activations."""


class NoAttention(Spec):
    """The layer mixes no tokens: it is a feed-forward block alone."""

    kind: Literal["none"]
    """Names the absence."""


class DenseFeedForward(Spec):
    """A feed-forward block that every token goes through."""

    kind: Literal["dense"]
    """Names this kind of feed-forward block."""
    intermediate_size: Size
    """Width between the two sides."""
    input_matrices: Count = 2
    """Matrices from hidden to intermediate: 2 if gated (SwiGLU), 1 if not."""
    output_matrices: Count = 1
    """Matrices back."""
    bias: bool = False
    """Every matrix has a bias."""


class ExpertFeedForward(Spec):
    """A mixture of experts: a router picks some of them for each token."""

    kind: Literal["experts"]
    """Names this kind of feed-forward block."""
    experts: Count
    """Routed experts in a layer."""
    active_experts: Count
    """Routed experts per token."""
    intermediate_size: Size
    """Width between the two sides of one expert."""
    input_matrices: Count = 2
    """Matrices from hidden to intermediate in one expert."""
    output_matrices: Count = 1
    """Matrices back in one expert."""
    bias: bool = False
    """Every expert matrix has a bias."""
    shared_intermediate_size: Size | None = None
    """Width of the experts that every token goes through, all together; absent if there are none."""
    shared_gate: bool = False
    """The shared expert is scaled by a learned gate vector."""
    router: bool = True
    """The routing matrix is counted (the published study leaves it out)."""
    router_bias: bool = False
    """The routing matrix has a learned bias per expert."""
    latent_size: Size | None = None
    """Width that routed experts read and write, between two shared projections; absent if it is hidden_size."""
    routing_groups: Count | None = None
    """Groups of equally many experts, one per node or device; absent if the router knows none."""
    active_groups: Count | None = None
    """Groups that the experts of one token lie in at most (node-limited routing)."""

    @model_validator(mode="after")
    def _no_more_active_than_there_are(self) -> Self:
        if self.active_experts > self.experts:
            raise ValueError(f"active_experts must be at most experts ({self.experts}), got {self.active_experts}")
        return self

    @model_validator(mode="after")
    def _groups_fit(self) -> Self:
        groups, active = self.routing_groups, self.active_groups
        if groups is None and active is None:
            return self
        if groups is None or active is None:
            raise ValueError("routing_groups and active_groups go together; give both or none")
        if active > groups:
            raise ValueError(f"active_groups must be at most routing_groups ({groups}), got {active}")
        if self.experts % groups:
            raise ValueError(f"experts ({self.experts}) must split into routing_groups, got {groups}")
        reached = active * self.experts // groups
        if self.active_experts > reached:
            raise ValueError(
                f"active_experts must be at most the {reached} in active_groups, got {self.active_experts}"
            )
        return self


class NoFeedForward(Spec):
    """The layer has no feed-forward block: it is attention or a recurrent mixer alone."""

    kind: Literal["none"]
    """Names the absence."""


Attention = Annotated[
    GroupedQueryAttention | LatentAttention | CompressedAttention | RecurrentMixer | NoAttention,
    Field(discriminator="kind"),
]
FeedForward = Annotated[DenseFeedForward | ExpertFeedForward | NoFeedForward, Field(discriminator="kind")]


class Block(Spec):
    """A run of identical layers (their order among other runs does not change any cost)."""

    layers: Count
    """How many."""
    attention: Attention
    """Of each layer."""
    feed_forward: FeedForward
    """Of each layer."""
    norms: Whole = 2
    """Learned norm vectors of hidden_size per layer (0 where a study does not count them)."""
    norm_bias: bool = False
    """Norms have a bias as well (LayerNorm)."""
    parallel: bool = False
    """Attention and feed-forward read the same input and run side by side (eq. 7)."""
