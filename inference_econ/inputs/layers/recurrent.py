"""Recurrent layers with a state of fixed size (Mamba-2, Gated DeltaNet, Kimi Delta Attention)."""

from __future__ import annotations

from typing import Literal, Self

from inference_econ.inputs._base import Count, Dtype
from inference_econ.inputs.layers.mixer import Cache, Mixer, MixerParameters
from inference_econ.inputs.rounding import heads


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
