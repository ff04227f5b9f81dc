"""Interface of every kind of attention, or of mixer in its place: quantities of one layer."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import Field

from inference_econ.errors import InputError
from inference_econ.inputs._base import Dtype, Spec
from inference_econ.inputs.dtype import BYTES_PER_ELEMENT

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
