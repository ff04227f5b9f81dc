"""Layers of language models: kinds of attention and feed-forward blocks, and groups of equal layers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from inference_econ.errors import InputError
from inference_econ.inputs._spec import Count, Dtype, Field, Size, Spec
from inference_econ.inputs.dtype import BYTES_PER_ELEMENT, columns, heads

Whole = Annotated[int, Field(ge=0)]
#: Rows and columns of several matrices [1].
Shapes = tuple[tuple[float, float], ...]


class Cache(NamedTuple):
    """Elements that one layer caches per sequence."""

    elements: float = 0.0
    """Cached elements per token of context, without index keys [1]."""
    window_elements: float = 0.0
    """Cached elements per token in the window [1]."""
    window_tokens: float = math.inf
    """Size of the window [tokens]."""
    gathered_elements: float = 0.0
    """Elements per new token that the ranks of a context-parallel group gather from each other, without index keys [1].
    """
    index_elements: float = 0.0
    """Elements of index keys per token of context [1]."""
    decompressed_elements: float = 0.0
    """Elements of keys and values per token of context after decompression; 0 for attention without latents [1]."""
    heads: float = 1.0
    """Number of heads that can be on different ranks [1]; 1 for a vector that all heads share."""
    state_elements: int = 0
    """Elements of the recurrent state, whose size does not depend on the length of the sequence [1]."""
    state_dtype: Dtype = "fp32"
    """Number format of the recurrent state."""
    convolution_elements: int = 0
    """Elements of the state of a convolution, which has the format of the activations [1]."""

    @property
    def has_state(self) -> bool:
        """True if the layer has a state of fixed size."""
        return self.state_elements + self.convolution_elements > 0

    def state_bytes(self, activation_width: float) -> float:
        """Size of the recurrent state and the state of the convolution, for a given width of activations [B]."""
        state = self.state_elements * BYTES_PER_ELEMENT[self.state_dtype]
        return state + self.convolution_elements * activation_width


class MixerParameters(NamedTuple):
    """Parameters of the mixer (attention or recurrence) of one layer."""

    total: float
    """All parameters, including norms and biases [1]."""
    output: float = 0.0
    """Parameters of the output projection, if its number format can differ from other matrices; otherwise 0 [1]."""
    shared: Shapes = ()
    """Matrices for vectors that all heads share: the compressed query, the cached vectors, and their gates."""
    indexer: Shapes = ()
    """Matrices of the layer's indexer; empty if the layer reuses the selection of another layer."""


class Mixer(Spec):
    """Base class of mixers (attention or recurrence): the fields of a file, and parameter and cache counts.

    Subclasses override the defaults of this class. ``engine/operators/`` computes the operators of each kind of mixer.
    """

    kind: str
    """Name of the kind of mixer."""

    compressed: ClassVar[bool] = False
    """True if the cache contains pooled tokens. Engines may pad the pages of a cache with pooled tokens."""
    index_keys_as_cache: ClassVar[bool] = False
    """True if index keys have the number format of the cache.

    If False, ``index_keys`` of the assumptions determines the format.
    """

    @property
    @abstractmethod
    def summary(self) -> str:
        """Short description: kind and sizes."""

    @property
    def heads(self) -> float:
        """Number of heads over which attention can be split: the query heads by default; 0 without heads [1]."""
        return float(getattr(self, "query_heads", 0))

    @property
    def cache(self) -> Cache:
        """Cached elements of one sequence in the layer."""
        return Cache()

    @abstractmethod
    def parameters(self, hidden: float) -> MixerParameters:
        """Parameters of the layer, for a given width of the residual stream."""

    @property
    def absent(self) -> bool:
        """True if the layer does not mix tokens."""
        return not self.heads

    @property
    def caches(self) -> bool:
        """True if the layer caches every token; false if it only has a state of fixed size."""
        return not (self.absent or self.cache.has_state)

    def resized(self, ratio: float) -> Self:
        """Mixer with ``ratio`` times the query heads, rounded so that the heads still divide evenly over chips."""
        return self

    def scaled(self, root: float) -> Self:
        """Mixer whose number of heads and whose widths grow by the factor ``root``, as in the published study.

        Raises
        ------
        InputError
            If the published study has no layers of this kind.
        """
        rules = "no rule to be scaled by; grouped_query and latent have"
        raise InputError(f"layers of the kind {self.kind!r} have {rules}")


class NoAttention(Mixer):
    """Layer without attention, which has only a feed-forward block."""

    kind: Literal["none"]
    """Name of the kind of attention or recurrence."""

    @property
    def summary(self) -> str:
        """Short description."""
        return "no attention"

    def parameters(self, hidden: float) -> MixerParameters:
        """Zero parameters."""
        return MixerParameters(0.0)


def indexer(heads: int | None, width: int | None, query_rank: float | None, keys: int, hidden: float) -> Shapes:
    """Matrices of an indexer, as rows and columns [1]; empty without an indexer.

    One matrix projects the compressed query to the queries of the indexer. A second matrix projects the residual stream
    to index keys, ``keys`` per token, and to one weight per head. Pooled index keys need values and gates, so ``keys``
    is larger than 1.
    """
    if heads is None or width is None:
        return ()
    return (float(heads * width), float(query_rank or 0)), (float(width * keys + heads), hidden)


class GroupedQueryAttention(Mixer):
    """Grouped-query attention; also multi-head (kv_heads = query_heads) and multi-query (kv_heads = 1) attention."""

    kind: Literal["grouped_query"]
    """Name of the kind of attention or recurrence."""
    query_heads: Size
    """Number of query heads."""
    kv_heads: Size
    """Number of key heads, which is also the number of value heads."""
    head_dim: Size
    """Width of a head."""
    value_head_dim: Size | None = None
    """Width of a value head, if it differs from ``head_dim``."""
    window: Count | None = None
    """Sliding window: number of past tokens that a token attends to and the layer caches [tokens]."""
    chunk: Count | None = None
    """Chunk size: a token attends only to tokens in its chunk, but all tokens are cached [tokens]."""
    qkv_bias: bool = False
    """True if the query, key and value projections have biases."""
    output_bias: bool = False
    """True if the output projection has a bias."""
    qk_norm: Literal["none", "per_head", "full"] = "none"
    """Learned norm of queries and keys: one vector of ``head_dim`` shared by all heads, or one of the full width."""
    sinks: bool = False
    """True if each query head has a learned attention sink."""
    value_projection: bool = True
    """True if values have their own projection; False if values are the keys before norm and rotation."""
    output_gate: bool = False
    """True if an additional query projection gates the output of attention."""
    head_gate: bool = False
    """True if each query head has a scalar gate, which is projected from the residual stream."""
    index_heads: Count | None = None
    """Number of heads of the indexer, which selects blocks of tokens per KV head.

    The field is absent for attention to all tokens.
    """
    index_head_dim: Count | None = None
    """Width of an index head. One index key of this width is cached per token."""
    index_top_k: Count | None = None
    """Maximum number of tokens in the selected blocks [tokens]."""

    def _check_fields(self) -> None:
        absent = [self.index_heads is None, self.index_head_dim is None, self.index_top_k is None]
        if any(absent) != all(absent):
            raise ValueError("index_heads, index_head_dim and index_top_k go together; give all or none")
        if self.index_top_k is not None and (self.window is not None or self.chunk is not None):
            raise ValueError("an indexer selects tokens of the full context; remove window and chunk, or the indexer")
        if self.kv_heads > self.query_heads:
            raise ValueError(f"kv_heads must be at most query_heads ({self.query_heads:g}), got {self.kv_heads:g}")
        if self.query_heads % self.kv_heads:
            raise ValueError(f"kv_heads must divide query_heads ({self.query_heads:g}), got {self.kv_heads:g}")

    index_keys_as_cache = True

    @property
    def value_width(self) -> float:
        """Width of a value head [1]."""
        return self.head_dim if self.value_head_dim is None else self.value_head_dim

    @property
    def projected_width(self) -> float:
        """Total width of queries, output gate, keys and values, and of the queries and key of the indexer [1]."""
        values = self.kv_heads * self.value_width * self.value_projection
        queries = self.query_heads * (self.head_dim * (1 + self.output_gate) + self.head_gate)
        index = ((self.index_heads or 0) + 1) * (self.index_head_dim or 0)
        return queries + self.kv_heads * self.head_dim + values + index

    @property
    def summary(self) -> str:
        """Short description: kind and sizes."""
        text = f"attention, {self.query_heads} query and {self.kv_heads} KV heads of {self.head_dim}"
        if self.window is not None:
            text += f", window {self.window:,}"
        if self.index_top_k is not None:
            text += f", top {self.index_top_k:,}"
        return text + (f", chunks of {self.chunk:,}" if self.chunk is not None else "")

    @property
    def cache(self) -> Cache:
        """Cached keys, values and index keys."""
        token = self.kv_heads * (self.head_dim + self.value_width)
        if self.window is None:
            index = self.index_head_dim or 0
            return Cache(token, gathered_elements=token, heads=self.kv_heads, index_elements=index)
        return Cache(window_elements=token, window_tokens=self.window, gathered_elements=token, heads=self.kv_heads)

    def parameters(self, hidden: float) -> MixerParameters:
        """Parameters of the layer, for a given width of the residual stream."""
        queries, keys = self.query_heads * self.head_dim, self.kv_heads * self.head_dim
        read = self.projected_width
        output = self.query_heads * self.value_width * hidden
        count = read * (hidden + self.qkv_bias) + output + hidden * self.output_bias
        if self.qk_norm == "per_head":
            count += 2 * self.head_dim
        elif self.qk_norm == "full":
            count += queries + keys
        # The queries and the key of the indexer each have a norm.
        count += 2 * (self.index_head_dim or 0)
        return MixerParameters(count + self.query_heads * self.sinks, output)

    def resized(self, ratio: float) -> Self:
        """Copy with more query heads in full groups.

        With multi-head attention, the number of KV heads grows equally.
        """
        multi_head = self.kv_heads == self.query_heads
        count = heads(self.query_heads, 1 if multi_head else self.kv_heads, ratio)
        return self.model_copy(update={"query_heads": count, "kv_heads": count if multi_head else self.kv_heads})

    def scaled(self, root: float) -> Self:
        """Copy with more and wider heads; the number of KV heads is unchanged."""
        changes = {"query_heads": math.ceil(self.query_heads * root), "head_dim": self.head_dim * root}
        if self.value_head_dim is not None:
            changes["value_head_dim"] = self.value_head_dim * root
        return self.model_copy(update=changes)


class LatentAttention(Mixer):
    """Multi-head latent attention (MLA), which caches one compressed vector per token."""

    kind: Literal["latent"]
    """Name of the kind of attention or recurrence."""
    query_heads: Size
    """Number of query heads."""
    kv_rank: Size
    """Width of the cached latent (kv_lora_rank)."""
    query_rank: Size | None = None
    """Width of the compressed query (q_lora_rank); absent if queries are not compressed."""
    nope_head_dim: Size
    """Width of the part of a query or key head without rotary position."""
    rope_head_dim: Whole = 0
    """Width of the rotary key that all heads share; the key is cached with the latent."""
    value_head_dim: Size
    """Width of a value head."""
    kv_down_projections: Count = 1
    """Number of times that the parameter count includes the compression matrix.

    The published study includes the matrix twice, for keys and for values.
    """
    latent_norms: bool = True
    """True if the compressed query and the latent have learned norms."""
    output_gate: bool = False
    """True if the output of every head has a gate, which is projected from the residual stream."""
    index_heads: Count | None = None
    """Number of heads of the indexer, which selects the attended tokens (DSA); absent for attention to all tokens."""
    index_head_dim: Count | None = None
    """Width of an index head. One index key of this width is cached per token."""
    index_top_k: Count | None = None
    """Maximum number of attended tokens, which the indexer of this layer or of an earlier layer selects [tokens]."""

    def _check_fields(self) -> None:
        if (self.index_heads is None) != (self.index_head_dim is None):
            raise ValueError("index_heads and index_head_dim go together; give both or none")
        if self.index_heads is not None and (self.index_top_k is None or self.query_rank is None):
            raise ValueError("an indexer needs index_top_k and query_rank, whose compressed query it reads")

    @property
    def summary(self) -> str:
        """Short description: kind and sizes."""
        text = f"latent attention, {self.query_heads} heads, {self.kv_rank} + {self.rope_head_dim} cached"
        return text + (f", top {self.index_top_k:,}" if self.index_top_k is not None else "")

    @property
    def cache(self) -> Cache:
        """Cached latent with its rotary key, and index keys.

        Decompressed keys and values exist for every head: section 2.1 of DeepSeek-AI, arXiv:2405.04434.

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
        """Parameters of the layer, for a given width of the residual stream."""
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
        """Copy with more query heads and a wider compressed query; the cached latent is unchanged."""
        rank = None if self.query_rank is None else columns(self.query_rank, ratio)
        return self.model_copy(update={"query_heads": heads(self.query_heads, 1, ratio), "query_rank": rank})

    def scaled(self, root: float) -> Self:
        """Copy with more and wider heads. Latents grow by the square of the factor; the rotary part is unchanged."""
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
    """Attention to recent tokens and to pooled older ones, with one vector as key and value (DeepSeek-V4)."""

    kind: Literal["compressed"]
    """Name of the kind of attention or recurrence."""
    query_heads: Count
    """Number of query heads."""
    head_dim: Count
    """Width of a head, and of the cached vector, which is both key and value."""
    query_rank: Count
    """Width of the compressed query (q_lora_rank)."""
    output_groups: Count
    """Groups of heads with separate output projections (o_groups)."""
    output_rank: Count
    """Output width of the projection of each group (o_lora_rank)."""
    window: Count
    """Number of recent tokens that a token attends to [tokens]."""
    stride: Count | None = None
    """Tokens per pooled entry of the cache; absent if the layer attends only to the window [tokens]."""
    entries: Literal["pooled", "projected", "earlier"] = "pooled"
    """Origin of the pooled entries of the layer.

    ``pooled``: each entry is a gated sum of tokens; index keys are pooled in the same way. In DeepSeek-V4, the gates
    have one bias for each position in a stride. ``projected``: the gates have no biases, and no gates exist if the
    stride is 1. Index keys are computed from the entries (V4.1). ``earlier``: the layer uses the entries of an earlier
    layer.
    """
    overlap: Annotated[int, Field(ge=1, le=2)] = 1
    """Number of strides whose tokens one entry contains: 2 if neighboring entries overlap (CSA), 1 if not (HCA)."""
    index_heads: Count | None = None
    """Number of heads of the indexer, which selects pooled entries.

    The field is absent if tokens attend to all entries, or to entries that an earlier layer selects.
    """
    index_head_dim: Count | None = None
    """Width of an index head. One index key of this width is cached per entry, in the layer that caches the entries."""
    index_top_k: Count | None = None
    """Maximum number of attended pooled entries."""
    index_candidates: Count | None = None
    """Maximum number of entries that the indexer scans, selected by an earlier layer; absent if it scans all
    entries."""
    sinks: bool = True
    """True if each query head has a learned attention sink."""

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
        """Short description: kind and sizes."""
        text = f"compressed attention, {self.query_heads} heads of {self.head_dim}, window {self.window:,}"
        text += f", 1 entry per {self.stride}" if self.stride is not None else ""
        text += f", top {self.index_top_k:,}" if self.index_top_k is not None else ""
        return text + (" of an earlier layer's" if self.entries == "earlier" else "")

    @property
    def cache(self) -> Cache:
        """Cached tokens of the window, pooled entries, and index keys of the entries."""
        stride = math.inf if self.stride is None else self.stride
        # The tokens of the window are few, so context-parallel groups do not gather them.
        kept = 0.0 if self.entries == "earlier" else 1 / stride
        pooled = self.head_dim * kept
        return Cache(pooled, self.head_dim, self.window, pooled, (self.index_head_dim or 0) * kept)

    def parameters(self, hidden: float) -> MixerParameters:
        """Parameters of the layer, for a given width of the residual stream."""
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
        if self.entries == "projected" and index_width:  # index keys that are computed from entries
            shapes = (*shapes, (float(index_width), float(self.head_dim)))
        return MixerParameters(count, shared=((down, hidden),), indexer=shapes)

    def _pooling(self, stride: int, width: int, hidden: float) -> float:
        """Parameters for pooling: projections of values and gates, a bias for each token of a stride, and a norm."""
        return self.overlap * width * (2 * hidden + stride) + width

    def resized(self, ratio: float) -> Self:
        """Copy with more query heads in full output groups and wider compressed vectors; the cache is unchanged."""
        changes = {
            "query_heads": heads(self.query_heads, self.output_groups, ratio),
            "query_rank": columns(self.query_rank, ratio),
            "output_rank": columns(self.output_rank, ratio),
        }
        return self.model_copy(update=changes)


class RecurrentMixer(Mixer):
    """Recurrent layer, which has a state of fixed size per sequence instead of a cache."""

    kind: Literal["recurrent"]
    """Name of the kind of attention or recurrence."""
    variant: Literal["mamba2", "gated_delta", "kda"]
    """Kind of recurrence: Mamba-2; Gated DeltaNet; or Kimi Delta Attention, in which each channel has its own decay."""
    value_heads: Count
    """Number of value heads, which is the number of heads of the state; ``nheads`` in Mamba-2."""
    value_head_dim: Count
    """Width of a value head; head dimension in Mamba-2."""
    key_heads: Count
    """Number of key heads, and of query heads; groups of B and C in Mamba-2."""
    key_head_dim: Count
    """Width of a key head; state size in Mamba-2."""
    convolution: Count
    """Width of the causal convolution over tokens [tokens]."""
    convolution_bias: bool = False
    """True if the convolution has a bias per channel."""
    input_bias: bool = False
    """True if the input projection has a bias."""
    output_bias: bool = False
    """True if the output projection has a bias."""
    gate_rank: Count | None = None
    """Width between the two matrices of the output gate; absent if the gate has only one matrix."""
    state_dtype: Dtype = "fp32"
    """Number format of the recurrent state. The state of the convolution has the format of the activations."""

    @property
    def heads(self) -> float:
        """Number of heads of the recurrent state [1]."""
        return float(self.value_heads)

    @property
    def summary(self) -> str:
        """Short description: kind and sizes."""
        return f"{self.variant}, {self.value_heads} heads, state {self.value_head_dim} x {self.key_head_dim}"

    @property
    def cache(self) -> Cache:
        """Recurrent state, and state of the convolution."""
        state = self.value_heads * self.value_head_dim * self.key_head_dim
        convolution = self._channels * self.convolution
        return Cache(state_elements=state, state_dtype=self.state_dtype, convolution_elements=convolution)

    @property
    def _channels(self) -> int:
        """Channels of the convolution: keys, queries and values [1]."""
        return 2 * self.key_heads * self.key_head_dim + self.value_heads * self.value_head_dim

    def parameters(self, hidden: float) -> MixerParameters:
        """Parameters of the layer, for a given width of the residual stream."""
        values = self.value_heads * self.value_head_dim
        scalars, vectors, norm = {
            # The time step of each head is projected. Its bias, the decay and the skip weight are learned vectors.
            "mamba2": (1, 3, values),
            # Two gates per head are projected. The decay and the bias of the time step are learned vectors.
            "gated_delta": (2, 2, self.value_head_dim),
            # One gate per head is projected. The decay is a learned vector. The bias per channel is added below.
            "kda": (1, 1, self.value_head_dim),
        }[self.variant]
        read = self._channels + values * (self.gate_rank is None) + scalars * self.value_heads
        count = read * (hidden + self.input_bias) + values * hidden + hidden * self.output_bias
        count += self._channels * (self.convolution + self.convolution_bias) + vectors * self.value_heads + norm
        # Decays of channels are projected in two steps, with the width of a head in between. The gates may be projected
        # in two steps, too.
        narrow = self.key_head_dim * (self.variant == "kda") + (self.gate_rank or 0)
        return MixerParameters(count + narrow * (hidden + values) + values * (self.variant == "kda"))

    def resized(self, ratio: float) -> Self:
        """Copy with more heads of the state, in multiples of the key heads."""
        return self.model_copy(update={"value_heads": heads(self.value_heads, self.key_heads, ratio)})


class FeedForwardParameters(NamedTuple):
    """Parameters in the feed-forward block of one layer."""

    total: float
    """All parameters, including the router [1]."""
    routed: float = 0.0
    """Parameters of all routed experts [1]."""
    idle: float = 0.0
    """Parameters of routed experts that a token does not use [1]."""
    shared: float = 0.0
    """Parameters of the shared experts and their gate [1]."""
    whole: float = 0.0
    """Parameters, without biases, of matrices that are never split: the router and the projections to and from the
    latent [1]."""


class FeedForwardPart(Spec):
    """Base class of feed-forward blocks: the fields of a file, and parameter counts.

    Subclasses override the defaults of this class. ``engine/operators/`` computes the operators of each kind of block.
    """

    kind: str
    """Name of the kind of block."""

    widths: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that are widths, starting with the width that is split over ranks.

    The tuple is empty for layers without a feed-forward block.
    """

    @property
    @abstractmethod
    def summary(self) -> str:
        """Short description: kind and sizes."""

    @abstractmethod
    def parameters(self, hidden: float) -> FeedForwardParameters:
        """Parameters of the block, for a given width of the residual stream."""

    @property
    def absent(self) -> bool:
        """True if the layer has no feed-forward block."""
        return not self.widths

    @property
    def routed_experts(self) -> int:
        """Number of experts from which the router selects [1]; 0 for dense blocks."""
        return 0

    @property
    def cut_width(self) -> float:
        """Width that is split over ranks [1]. For an MoE block, the result is the width of one expert."""
        return float(getattr(self, self.widths[0]))

    @property
    def activated(self) -> Mapping[str, tuple[float, int]]:
        """Output width per token, and number of input matrices, of each activation function by name [1]."""
        return {}

    def widened(self, width: Callable[[float], float]) -> Self:
        """Copy with every width ``w`` replaced by ``width(w)``."""
        sizes = {name: size for name in self.widths if (size := getattr(self, name)) is not None}
        return self.model_copy(update={name: width(size) for name, size in sizes.items()})


class DenseFeedForward(FeedForwardPart):
    """Dense feed-forward block, which processes every token."""

    kind: Literal["dense"]
    """Name of the kind of feed-forward block."""
    intermediate_size: Size
    """Intermediate width of the block."""
    input_matrices: Count = 2
    """Matrices from hidden to intermediate width: 2 with a gate (SwiGLU), 1 without."""
    output_matrices: Count = 1
    """Matrices from intermediate to hidden width."""
    bias: bool = False
    """True if every matrix has a bias."""

    widths = ("intermediate_size",)

    @property
    def summary(self) -> str:
        """Short description: kind and sizes."""
        return f"feed-forward of {self.intermediate_size:,}"

    @property
    def activated(self) -> Mapping[str, tuple[float, int]]:
        """Output width per token, and number of input matrices, of the activation function [1]."""
        return {"activation function": (float(self.intermediate_size), self.input_matrices)}

    def parameters(self, hidden: float) -> FeedForwardParameters:
        """Parameters of the block, for a given width of the residual stream."""
        return FeedForwardParameters(_matrices(self, hidden))


class ExpertFeedForward(FeedForwardPart):
    """Mixture of experts, in which a router selects experts for each token."""

    kind: Literal["experts"]
    """Name of the kind of feed-forward block."""
    experts: Count
    """Number of routed experts in a layer."""
    active_experts: Count
    """Number of routed experts per token."""
    intermediate_size: Size
    """Intermediate width of one expert."""
    input_matrices: Count = 2
    """Matrices from hidden to intermediate width in one expert."""
    output_matrices: Count = 1
    """Matrices from intermediate to hidden width in one expert."""
    bias: bool = False
    """True if every expert matrix has a bias."""
    shared_intermediate_size: Size | None = None
    """Total width of the shared experts, which process every token; absent without shared experts."""
    shared_gate: bool = False
    """True if a learned gate vector scales the shared expert."""
    router: bool = True
    """True if parameter and operation counts include the routing matrix. The published study omits this matrix."""
    router_bias: bool = False
    """True if the routing matrix has a learned bias per expert."""
    latent_size: Size | None = None
    """Input and output width of the routed experts, if two projections that all experts share reduce the width.

    The field is absent if the width is ``hidden_size``.
    """
    latent_norm: bool = False
    """True if the summed output of the routed experts has a learned norm before the output is projected back."""
    routing_groups: Count | None = None
    """Number of equal groups of experts, one for each node or device; absent if routing does not use groups."""
    active_groups: Count | None = None
    """Maximum number of groups whose experts one token can use (node-limited routing)."""

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
        """Short description: kind and sizes."""
        text = f"{self.active_experts} of {self.experts} experts of {self.intermediate_size:,}"
        if self.routing_groups is not None:
            text += f" in {self.active_groups} of {self.routing_groups} groups"
        shared = self.shared_intermediate_size
        return text + (f", shared {shared:,}" if shared is not None else "")

    @property
    def routed_experts(self) -> int:
        """Number of experts from which the router selects [1]."""
        return self.experts

    @property
    def activated(self) -> Mapping[str, tuple[float, int]]:
        """Output width per token, and number of input matrices, of the experts' activation functions [1]."""
        matrices, shared = self.input_matrices, self.shared_intermediate_size
        rows = {"expert activation": (self.active_experts * float(self.intermediate_size), matrices)}
        return rows if shared is None else {**rows, "shared activation": (float(shared), matrices)}

    def parameters(self, hidden: float) -> FeedForwardParameters:
        """Parameters of the block, for a given width of the residual stream."""
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
    """Layer without a feed-forward block, which has only attention or a recurrence."""

    kind: Literal["none"]
    """Name of the kind of feed-forward block."""

    @property
    def summary(self) -> str:
        """Short description."""
        return "no feed-forward"

    def parameters(self, hidden: float) -> FeedForwardParameters:
        """Zero parameters."""
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
#: Names of the kinds of mixers.
MixerKind = Literal["grouped_query", "latent", "compressed", "recurrent", "none"]


class Block(Spec):
    """Group of identical layers. The cost of a layer does not depend on its position among other layers."""

    layers: Count
    """Number of layers."""
    attention: Attention
    """Attention of each layer."""
    feed_forward: FeedForward
    """Feed-forward block of each layer."""
    norms: Whole = 2
    """Number of learned norm vectors of width ``hidden_size`` per layer; 0 if the published study omits them."""
    norm_bias: bool = False
    """True if norms have a bias, as in LayerNorm."""
    parallel: bool = False
    """True if attention and feed-forward run in parallel on the same input (eq. 7)."""

    @property
    def parts(self) -> int:
        """Number of parts in each layer: 2 with mixer and feed-forward block, 1 with only one of them [1]."""
        return (not self.attention.absent) + (not self.feed_forward.absent)
