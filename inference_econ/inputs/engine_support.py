"""Facts that decide whether an engine can start a deployment, and its defaults."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inference_econ.inputs._base import Bytes, Count, Formats, Fraction, Names
from inference_econ.inputs._spec import Spec
from inference_econ.inputs.asks import ProposerName

#: Who leaves when memory runs out.
Evicted = Literal["last", "fewest_tokens", "nobody"]


class ChipSupport(Spec):
    """Number formats that an engine has kernels for on some generations of chips."""

    generations: Names
    """Of chips: :attr:`HardwareSpec.generation`."""
    weights: Formats
    """Formats of weights that can be multiplied, widened on the way or not."""
    kv: Formats
    """Formats of the cache."""


class ModelSupport(Spec):
    """Abilities of an engine with some architectures of its model registry."""

    architectures: Names
    """As ``architectures`` of a Hugging Face ``config.json`` names them."""
    attention_dp: bool = False
    """Groups of ranks of one instance can attend to sequences of their own; otherwise data parallelism is replicas."""
    pipeline: bool = False
    """Layers can be cut into stages."""
    lora: bool = False
    """Adapters can be served beside it."""
    speculation: Annotated[tuple[ProposerName, ...], Field(strict=False)] = ()
    """Draft heads that it can run for the model."""
    generations: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Only on these generations of chips; on all of the engine without."""


class EngineDefaults(Spec):
    """Defaults of an engine's server, on chips of some size."""

    least_memory: Bytes | None = None
    """Only on chips with at least so much memory [B]; on all without."""
    step_tokens: Count
    """Tokens of one step, all sequences together [tokens]."""
    slots: Count | None = None
    """Requests that are under way together [1]; as many as fit without."""
    memory_fraction: Fraction | None = None
    """Share of the memory that weights and cache may take [1]; reckoned from everything else without."""
    block_tokens: Count
    """Tokens of a block of the cache [tokens]."""


class EngineMemory(Spec):
    """Memory that an engine sets aside beside weights and cache, and how much of it counts against its share."""

    reserved: Bytes
    """Of each accelerator, outside of the framework's allocator: the driver's context, libraries, workspaces [B]."""
    communication: Bytes
    """Further, where several ranks exchange what they compute: buffers of collectives [B]."""
    graphs: Bytes | None = None
    """Captured graphs that count against the share; absent where they lie outside of it [B]."""
    step_inside: bool
    """Activations of the largest step count against the share, as a profile run finds them; or lie outside of it."""
    logit_copies: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Times that sampling in the profile run holds the logits of all slots, in 32 bits [1]."""
    state_pages: bool = False
    """States of recurrent layers lie in pages of the cache, so that its pages are as wide as a state."""
    states_held: Count = 1
    """States of each recurrent layer that a request may hold at once, where nothing is told [1]."""
    profiled_images: bool = False
    """Its profile run reads images too: as many of the largest as fit the largest step, and one at least."""
    compressed_padding: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    """Pages of compressed caches over what they hold [1]."""
    outside: Bytes | None = None
    """Where no share is stated: what it leaves free for graphs and other small things [B]."""
    outside_per_token: Bytes | None = None
    """And further for each token of the largest step [B]."""


class CapturedSizes(Spec):
    """Batches of decode steps whose kernels are captured as graphs; others are padded to the next of them."""

    smallest: tuple[int, ...] = Field(strict=False)
    """The first sizes [1]."""
    steps: tuple[Annotated[tuple[int, int], Field(strict=False)], ...] = Field(strict=False)
    """(from, every): multiples from there on, up to the next pair or the largest [1]."""
    largest: Count
    """The largest captured batch where slots allow it [1]."""
    per_slot: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Largest size for each slot, if that is less [1]."""

    def sizes(self, slots: int) -> tuple[int, ...]:
        """Batches that are captured for a server of so many slots [1].

        Examples
        --------
        >>> CapturedSizes(smallest=(1, 2, 4), steps=((8, 8), (32, 16)), largest=64).sizes(50)
        (1, 2, 4, 8, 16, 24, 32, 48)
        """
        most = int(min(self.largest, slots * self.per_slot))
        ends = (*(start for start, _ in self.steps), self.largest + 1)[1:]
        ranges = (range(start, end, every) for (start, every), end in zip(self.steps, ends, strict=False))
        return tuple(size for some in (self.smallest, *ranges) for size in some if size <= most)


class Admission(Spec):
    """Whom an engine lets into the memory of its cache, and who leaves when memory runs out."""

    own_answer: Annotated[float, Field(ge=0, le=1)]
    """Share of the answer that a request may have, which must be free beside its prompt [1]."""
    other_answers: Annotated[float, Field(ge=0, le=1)]
    """Share of the tokens that all requests under way may still write that is kept free [1]."""
    evicted: Evicted
    """Who is sent back, to be read again: the one that was let in last, the one that has written least, or nobody."""


#: Group of attention ranks that a new request goes to: the next one in turn, or the one with the fewest requests.
Dealing = Literal["round_robin", "least_busy"]
#: How ranks attend under data parallelism inside an instance: groups of any size, or every rank for itself.
AttentionGroups = Literal["any", "single_ranks"]
