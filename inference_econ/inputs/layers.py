"""Layers of language models as numbers: a class per kind of attention and of feed-forward block, and equal layers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import Field

from inference_econ.errors import InputError
from inference_econ.inputs._spec import Count, Dtype, Size, Spec
from inference_econ.inputs.dtype import BYTES_PER_ELEMENT, columns, heads

Whole = Annotated[int, Field(ge=0)]
#: Rows and columns of matrices [1].
Shapes = tuple[tuple[float, float], ...]


class Cache(NamedTuple):
    """Elements that one layer keeps of a sequence."""

    elements: float = 0.0
    """Per token of context, without index keys [1]."""
    window_elements: float = 0.0
    """Of each of the last tokens [1]."""
    window_tokens: float = math.inf
    """How many these are [tokens]."""
    gathered_elements: float = 0.0
    """Per new token, what groups which share a prompt gather of each other, without index keys [1]."""
    index_elements: float = 0.0
    """Per token of context, index keys [1]."""
    decompressed_elements: float = 0.0
    """Per token of context, the keys and values that a latent stands for; 0 if none is cached [1]."""
    heads: float = 1.0
    """Heads of all these that can lie on ranks of their own; a vector that all heads share is one [1]."""
    state_elements: int = 0
    """Of the recurrent state, whatever the length [1]."""
    state_dtype: Dtype = "fp32"
    """Number format of that state."""
    convolution_elements: int = 0
    """Of the state of a convolution, which has the format of the activations [1]."""

    @property
    def has_state(self) -> bool:
        """Something of fixed size is kept, whatever the length."""
        return self.state_elements + self.convolution_elements > 0

    def state_bytes(self, activation_width: float) -> float:
        """Bytes of both states beside activations of a width [B]."""
        state = self.state_elements * BYTES_PER_ELEMENT[self.state_dtype]
        return state + self.convolution_elements * activation_width


class MixerParameters(NamedTuple):
    """Parameters of the mixer of one layer."""

    total: float
    """All, with norms and biases [1]."""
    output: float = 0.0
    """Of the output projection, where it can have a number format of its own [1]."""
    shared: Shapes = ()
    """Matrices from the residual stream to what all heads share: the compressed query, what is cached, its gates."""
    indexer: Shapes = ()
    """Matrices of the layer's own indexer; none where another layer's pick is reused."""


class Mixer(Spec):
    """A kind of attention, or of mixer in its place: fields of the schema, and the counts that follow from them.

    A kind states what differs from the defaults here; its rows of the operator table are in ``engine/operators/``.
    """

    kind: str
    """Names this kind."""

    compressed: ClassVar[bool] = False
    """Pools tokens before it caches them, in pages that engines may pad."""
    index_keys_as_cache: ClassVar[bool] = False
    """Index keys have the number format of the cache, whatever engines do with those of DeepSeek's indexer."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """The kind and its sizes in a few words, for people."""

    @property
    def heads(self) -> float:
        """Heads that split over attention ranks [1]: query heads, unless a kind says otherwise; 0 without any."""
        return float(getattr(self, "query_heads", 0))

    @property
    def cache(self) -> Cache:
        """Cache that a layer keeps of a sequence."""
        return Cache()

    @abstractmethod
    def parameters(self, hidden: float) -> MixerParameters:
        """Parameters beside a residual stream of a width."""

    @property
    def absent(self) -> bool:
        """The layer mixes no tokens."""
        return not self.heads

    @property
    def caches(self) -> bool:
        """Something is kept of every token, not a state of fixed size alone."""
        return not (self.absent or self.cache.has_state)

    def resized(self, ratio: float) -> Self:
        """A layer with ``ratio`` times as many query heads, in whole numbers that split over chips as before."""
        return self

    def scaled(self, root: float) -> Self:
        """A layer whose heads and widths each grow by a factor: the rule of the published study.

        Raises
        ------
        InputError
            If the study has no layers of this kind.
        """
        rules = "no rule to be scaled by; grouped_query and latent have"
        raise InputError(f"layers of the kind {self.kind!r} have {rules}")


class NoAttention(Mixer):
    """The layer mixes no tokens: it is a feed-forward block alone."""

    kind: Literal["none"]
    """Names the absence."""

    @property
    def summary(self) -> str:
        """For people."""
        return "no attention"

    def parameters(self, hidden: float) -> MixerParameters:
        """None."""
        return MixerParameters(0.0)


def indexer(heads: int | None, width: int | None, query_rank: float | None, keys: int, hidden: float) -> Shapes:
    """Matrices of an indexer, rows by columns [1]; none without heads.

    Queries come from the compressed query; ``keys`` keys, or values and gates that index keys are pooled of, and a
    weight per head from the residual stream.
    """
    if heads is None or width is None:
        return ()
    return (float(heads * width), float(query_rank or 0)), (float(width * keys + heads), hidden)


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
        index_width = self.index_head_dim or 0
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
        keys = 2 * self.overlap if self.entries == "pooled" else 0
        shapes = indexer(self.index_heads, self.index_head_dim, self.query_rank, keys, hidden)
        if self.entries == "projected" and index_width:  # keys that are made of entries are read as those
            shapes = (*shapes, (float(index_width), float(self.head_dim)))
        return MixerParameters(count, shared=((down, hidden),), indexer=shapes)

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


class RecurrentMixer(Mixer):
    """A layer with a state of fixed size per sequence in the place of a cache."""

    kind: Literal["recurrent"]
    """Names this kind of mixer."""
    variant: Literal["mamba2", "gated_delta", "kda"]
    """Which recurrence: of Mamba-2, Gated DeltaNet, or Kimi Delta Attention, where every channel decays by itself."""
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
    gate_rank: Count | None = None
    """Width between two projections that make the gate of the output; absent if one makes it."""
    state_dtype: Dtype = "fp32"
    """Number format of the recurrent state; the convolution's state has that of the activations."""

    @property
    def heads(self) -> float:
        """Heads of the state [1]."""
        return float(self.value_heads)

    @property
    def summary(self) -> str:
        """The kind and its sizes in a few words, for people."""
        return f"{self.variant}, {self.value_heads} heads, state {self.value_head_dim} x {self.key_head_dim}"

    @property
    def cache(self) -> Cache:
        """The recurrent state, and the window of the convolution."""
        state = self.value_heads * self.value_head_dim * self.key_head_dim
        convolution = self._channels * self.convolution
        return Cache(state_elements=state, state_dtype=self.state_dtype, convolution_elements=convolution)

    @property
    def _channels(self) -> int:
        """Channels that the convolution runs over: keys, queries and values [1]."""
        return 2 * self.key_heads * self.key_head_dim + self.value_heads * self.value_head_dim

    def parameters(self, hidden: float) -> MixerParameters:
        """Parameters beside a residual stream of a width."""
        values = self.value_heads * self.value_head_dim
        scalars, vectors, norm = {
            # A time step per head is read; decay, bias of the time step and skip weight are learned.
            "mamba2": (1, 3, values),
            # Two gates per head are read; decay and bias of the time step are learned.
            "gated_delta": (2, 2, self.value_head_dim),
            # A gate per head is read; decay is learned, and a bias for each channel below.
            "kda": (1, 1, self.value_head_dim),
        }[self.variant]
        read = self._channels + values * (self.gate_rank is None) + scalars * self.value_heads
        count = read * (hidden + self.input_bias) + values * hidden + hidden * self.output_bias
        count += self._channels * (self.convolution + self.convolution_bias) + vectors * self.value_heads + norm
        # Decays of channels come through the width of a head, gates perhaps through another, from the residual stream.
        narrow = self.key_head_dim * (self.variant == "kda") + (self.gate_rank or 0)
        return MixerParameters(count + narrow * (hidden + values) + values * (self.variant == "kda"))

    def resized(self, ratio: float) -> Self:
        """Heads of the state grow, in whole groups of those of the keys."""
        return self.model_copy(update={"value_heads": heads(self.value_heads, self.key_heads, ratio)})


class FeedForwardParameters(NamedTuple):
    """Parameters of the feed-forward block of one layer."""

    total: float
    """All, the router included [1]."""
    routed: float = 0.0
    """Of all routed experts [1]."""
    idle: float = 0.0
    """Of routed experts that a token is not sent to [1]."""
    shared: float = 0.0
    """Of the experts that every token goes through, and of their gate [1]."""
    whole: float = 0.0
    """Of matrices between the residual stream and experts, which are never cut, without biases [1]."""


class FeedForwardPart(Spec):
    """A kind of feed-forward block: fields of the schema, and the counts that follow from them.

    A kind states what differs from the defaults here; its rows of the operator table are in ``engine/operators/``.
    """

    kind: str
    """Names this kind."""

    widths: ClassVar[tuple[str, ...]] = ()
    """Fields that are widths and grow with the model, the one that is cut over ranks first; none without a block."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """The kind and its sizes in a few words, for people."""

    @abstractmethod
    def parameters(self, hidden: float) -> FeedForwardParameters:
        """Parameters beside a residual stream of a width."""

    @property
    def absent(self) -> bool:
        """The layer has no feed-forward block."""
        return not self.widths

    @property
    def routed_experts(self) -> int:
        """Experts that a router picks from [1]; 0 if every token goes through all of the block."""
        return 0

    @property
    def cut_width(self) -> float:
        """Width that is cut over ranks, of one expert where there are several [1]."""
        return float(getattr(self, self.widths[0]))

    @property
    def activated(self) -> Mapping[str, tuple[float, int]]:
        """Rows of activation functions by name: what comes out per token, and matrices that each is made of [1]."""
        return {}

    def widened(self, width: Callable[[float], float]) -> Self:
        """A block whose widths are those that a function makes of its own."""
        sizes = {name: size for name in self.widths if (size := getattr(self, name)) is not None}
        return self.model_copy(update={name: width(size) for name, size in sizes.items()})


class DenseFeedForward(FeedForwardPart):
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

    widths = ("intermediate_size",)

    @property
    def summary(self) -> str:
        """The kind and its sizes in a few words, for people."""
        return f"feed-forward of {self.intermediate_size:,}"

    @property
    def activated(self) -> Mapping[str, tuple[float, int]]:
        """One row [1]."""
        return {"activation function": (float(self.intermediate_size), self.input_matrices)}

    def parameters(self, hidden: float) -> FeedForwardParameters:
        """Parameters beside a residual stream of a width."""
        return FeedForwardParameters(_matrices(self, hidden))


class ExpertFeedForward(FeedForwardPart):
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
    latent_norm: bool = False
    """Whether the output of routed experts has a learned norm before it is projected back."""
    routing_groups: Count | None = None
    """Groups of equally many experts, one per node or device; absent if the router knows none."""
    active_groups: Count | None = None
    """Groups that the experts of one token lie in at most (node-limited routing)."""

    widths = ("intermediate_size", "shared_intermediate_size", "latent_size")

    def _check_fields(self) -> None:
        if self.active_experts > self.experts:
            raise ValueError(f"active_experts must be at most experts ({self.experts}), got {self.active_experts}")
        groups, active = self.routing_groups, self.active_groups
        if groups is None and active is None:
            return
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

    @property
    def summary(self) -> str:
        """The kind and its sizes in a few words, for people."""
        text = f"{self.active_experts} of {self.experts} experts of {self.intermediate_size:,}"
        if self.routing_groups is not None:
            text += f" in {self.active_groups} of {self.routing_groups} groups"
        shared = self.shared_intermediate_size
        return text + (f", shared {shared:,}" if shared is not None else "")

    @property
    def routed_experts(self) -> int:
        """Experts that the router picks from [1]."""
        return self.experts

    @property
    def activated(self) -> Mapping[str, tuple[float, int]]:
        """Routed experts, and apart the shared one [1]."""
        matrices, shared = self.input_matrices, self.shared_intermediate_size
        rows = {"expert activation": (self.active_experts * float(self.intermediate_size), matrices)}
        return rows if shared is None else {**rows, "shared activation": (float(shared), matrices)}

    def parameters(self, hidden: float) -> FeedForwardParameters:
        """Parameters beside a residual stream of a width."""
        expert = _matrices(self, hidden if self.latent_size is None else self.latent_size)
        routed, shared = self.experts * expert, 0.0
        latents, norm = 2.0 * (self.latent_size or 0.0), (self.latent_size or 0.0) * self.latent_norm
        if self.shared_intermediate_size is not None:
            matrices = self.input_matrices + self.output_matrices
            shared = matrices * hidden * self.shared_intermediate_size + hidden * self.shared_gate
        return FeedForwardParameters(
            routed + hidden * latents + norm + shared + self.experts * (hidden * self.router + self.router_bias),
            routed,
            (self.experts - self.active_experts) * expert,
            shared,
            (self.router * self.experts + latents) * hidden,
        )


class NoFeedForward(FeedForwardPart):
    """The layer has no feed-forward block: it is attention or a recurrent mixer alone."""

    kind: Literal["none"]
    """Names the absence."""

    @property
    def summary(self) -> str:
        """For people."""
        return "no feed-forward"

    def parameters(self, hidden: float) -> FeedForwardParameters:
        """None."""
        return FeedForwardParameters(0.0)


def _matrices(spec: DenseFeedForward | ExpertFeedForward, hidden: float) -> float:
    """Parameters of a dense block, or of one routed expert [1]."""
    width = spec.intermediate_size
    count = (spec.input_matrices + spec.output_matrices) * hidden * width
    if spec.bias:
        count += spec.input_matrices * width + spec.output_matrices * hidden
    return count


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
