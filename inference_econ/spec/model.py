"""Language models: the architecture as numbers, and the counts that follow from it."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from inference_econ.spec import counting
from inference_econ.spec._base import Count, Size, SourcedSpec, Spec
from inference_econ.spec.dtype import Dtype

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
    window: Count | None = None
    """Sliding window [tokens]: at most so many past tokens are attended to and cached."""
    qkv_bias: bool = False
    """The query, key and value projections have biases."""
    output_bias: bool = False
    """The output projection has a bias."""
    qk_norm: Literal["none", "per_head", "full"] = "none"
    """Learned norm of queries and keys: one vector of head_dim each, or of the whole width."""
    sinks: bool = False
    """One learned attention sink per query head."""

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

    @model_validator(mode="after")
    def _no_more_active_than_there_are(self) -> Self:
        if self.active_experts > self.experts:
            raise ValueError(f"active_experts must be at most experts ({self.experts}), got {self.active_experts}")
        return self


Attention = Annotated[GroupedQueryAttention | LatentAttention, Field(discriminator="kind")]
FeedForward = Annotated[DenseFeedForward | ExpertFeedForward, Field(discriminator="kind")]


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


class ModelSpec(SourcedSpec):
    """The architecture of a language model, text part only, without multi-token-prediction heads."""

    huggingface_id: str | None = None
    """``organisation/name`` where the weights are published."""
    rumoured: bool = False
    """The architecture is a rumour, not a publication."""
    hidden_size: Size
    """Width of the residual stream."""
    vocab_size: Whole
    """Rows of the embedding."""
    tied_embeddings: bool = False
    """One matrix serves as input and output embedding."""
    learned_positions: Whole = 0
    """Rows of a learned position embedding."""
    output_bias: bool = False
    """The output embedding has a bias per token."""
    final_norm: bool = True
    """A norm before the output embedding is counted."""
    weights: Dtype
    """Number format in which the weights are published."""
    expert_weights: Dtype | None = None
    """Number format of the routed experts, if it is another."""
    max_context: Count | None = None
    """Longest context the model was made for [tokens]."""
    blocks: tuple[Block, ...] = Field(min_length=1, strict=False)
    """The layers."""

    @property
    def layers(self) -> int:
        """Number of layers."""
        return sum(block.layers for block in self.blocks)

    @property
    def embedding_parameters(self) -> float:
        """Input and output embedding, once if tied."""
        return (1 if self.tied_embeddings else 2) * self.vocab_size * self.hidden_size

    @property
    def total_parameters(self) -> int:
        """All parameters (fractional sizes are rounded once, at the end)."""
        return round(math.fsum(self.parameter_parts().values()))

    @property
    def active_parameters(self) -> int:
        """Parameters that one token goes through, both embeddings included."""
        idle = math.fsum(block.layers * counting.idle(block, self.hidden_size) for block in self.blocks)
        return round(math.fsum(self.parameter_parts().values()) - idle)

    @property
    def kv_elements_per_token(self) -> int:
        """Elements cached per token of context, over all layers without a window."""
        return round(
            math.fsum(
                block.layers * counting.cached_elements(block.attention)
                for block in self.blocks
                if counting.window(block.attention) is None
            )
        )

    def parameter_parts(self) -> dict[str, float]:
        """Parameters by part; the parts add up to :attr:`total_parameters`."""
        hidden = self.hidden_size
        vectors = 2 if any(block.norm_bias for block in self.blocks) else 1
        return {
            "embeddings": self.embedding_parameters
            + self.learned_positions * hidden
            + self.vocab_size * self.output_bias,
            "attention": math.fsum(b.layers * counting.attention(b.attention, hidden) for b in self.blocks),
            "feed_forward": math.fsum(b.layers * counting.feed_forward(b.feed_forward, hidden) for b in self.blocks),
            "norms": math.fsum(b.layers * b.norms * hidden * (1 + b.norm_bias) for b in self.blocks)
            + self.final_norm * vectors * hidden,
        }
