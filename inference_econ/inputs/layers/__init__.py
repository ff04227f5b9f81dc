"""Layers of language models as numbers: a class per kind of attention and of feed-forward block, and equal layers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inference_econ.inputs._spec import Count, Spec
from inference_econ.inputs.layers.attention import (
    CompressedAttention,
    GroupedQueryAttention,
    LatentAttention,
    NoAttention,
    RecurrentMixer,
    Whole,
)
from inference_econ.inputs.layers.feed_forward import (
    DenseFeedForward,
    ExpertFeedForward,
    NoFeedForward,
)

Attention = Annotated[
    GroupedQueryAttention | LatentAttention | CompressedAttention | RecurrentMixer | NoAttention,
    Field(discriminator="kind"),
]
FeedForward = Annotated[DenseFeedForward | ExpertFeedForward | NoFeedForward, Field(discriminator="kind")]
#: What mixes tokens in a layer, by name.
MixerKind = Literal["grouped_query", "latent", "compressed", "recurrent", "none"]


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

    @property
    def parts(self) -> int:
        """Parts that the layer has: attention or a mixer in its place, and a feed-forward block [1]."""
        return (not self.attention.absent) + (not self.feed_forward.absent)
