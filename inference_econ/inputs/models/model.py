"""Language models: the architecture as numbers, the counts that follow from it, and number formats to serve it in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from inference_econ.inputs._spec import Count, Dtype, Size, SourcedSpec, Spec
from inference_econ.inputs.dtype import BYTES_PER_ELEMENT, OF_FILES, EmbeddingFormat, block_width, check_dtype
from inference_econ.inputs.layers import Block, ExpertFeedForward, LatentAttention, Whole
from inference_econ.inputs.models.repository import Repository


class VisionTower(Spec):
    """Encoder of images beside a language model, projector included: it takes memory, and no part of a text's steps."""

    parameters: Count
    """Weights of tower and projector, which engines and published checkpoints leave in 16 bits [1]."""
    hidden_size: Count
    """Width of its residual stream."""
    intermediate_size: Count
    """Width between the two sides of its feed-forward layers."""
    largest_image: Count
    """Tokens that the largest image becomes in the language model [tokens]."""
    patches_per_token: Count
    """Patches of an image that become one token [1]."""

    def profiled_patches(self, step_tokens: float) -> float:
        """Patches of the images that are read together at most: as many whole ones as fit a step, and at least one [1].

        Examples
        --------
        >>> tower = VisionTower(
        ...     parameters=1, hidden_size=8, intermediate_size=32, largest_image=256, patches_per_token=16
        ... )
        >>> tower.profiled_patches(600.0)
        8192.0
        """
        return max(step_tokens // self.largest_image, 1.0) * self.largest_image * self.patches_per_token


class UnknownPart(Spec):
    """Part of a published model that is not modelled: tensors of a checkpoint, or what a configuration says beside."""

    name: str = Field(min_length=1)
    """Of the tensors, with ``N`` for numbers; or the key."""
    parameters: Whole = 0
    """Parameters that a checkpoint holds of it [1]; 0 of a key."""
    looked_up: bool = False
    """A table of more rows than the vocabulary: it is held, and a step reads next to nothing of it."""


class ModelSpec(SourcedSpec):
    """The architecture of a language model, text part only, without multi-token-prediction heads."""

    extends: str | None = None
    """Model that this file changes; everything not written here is taken from it."""
    huggingface_id: Repository | None = None
    """``organisation/name`` where the weights are published."""
    checkpoints: dict[Dtype | Literal["eagle"], Repository] = Field(default={})
    """``organisation/name`` of what is served: weights in a format, those that follow instructions rather than the base
    that they were trained from; ``eagle`` is the head that proposes tokens to them."""
    architecture: str | None = None
    """The first of ``architectures`` in its ``config.json``, by which serving engines know it."""
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
    shared_expert_weights: Dtype | None = None
    """Number format of the shared experts, if it is another than of the weights."""
    attention_weights: Dtype | None = None
    """Number format of the attention matrices, if it is another than of the weights."""
    attention_output_weights: Dtype | None = None
    """Number format of attention's output projections, if it is another than of the other attention matrices; of
    grouped-query and latent attention only."""
    embedding_weights: Dtype | None = None
    """Number format of the embeddings, if it is another than of the weights."""
    kv: Dtype | None = None
    """Number format of the cache, if it is published with the weights."""
    mtp_layers: Whole = 0
    """Multi-token-prediction layers published beside the model; no count includes them."""
    residual_streams: Count = 1
    """Copies of the residual stream that learned matrices mix around every layer (mHC)."""
    residual_fold: bool = True
    """The copies are folded into one behind the last layer by a mixing of its own; otherwise by one of the layer's."""
    residual_span: Count | None = None
    """Layers whose outputs add up to an entry that all later parts attend to (attention residuals of Kimi-K3); absent
    if residuals are sums."""
    vision: VisionTower | None = None
    """Encoder of images; no count includes it."""
    left_out: tuple[str, ...] = Field(default=(), strict=False)
    """Keys that the ``config.json`` does not have, each with the default of the published class that is counted."""
    unknown: tuple[UnknownPart, ...] = Field(default=(), strict=False)
    """Parts that are unknown of it: counted from the checkpoint, taken to be read once per step and multiplied with
    every token, unless it is looked up; intervals hold what else it may take."""
    max_context: Count | None = None
    """Longest context the model was made for [tokens]."""
    blocks: tuple[Block, ...] = Field(min_length=1, strict=False)
    """The layers."""

    def checkpoint(self, kind: str | None = None) -> str | None:
        """Hugging Face id of what is served in a format, by default the published one; of the head for ``eagle``.

        None where nobody wrote one down.
        """
        native = self.expert_weights or self.weights
        repositories: Mapping[Any, str] = self.checkpoints
        return repositories.get(kind or native, self.huggingface_id if kind in (None, native) else None)

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
        idle = math.fsum(block.layers * block.feed_forward.parameters(self.hidden_size).idle for block in self.blocks)
        idle += sum(part.parameters for part in self.unknown if part.looked_up)
        return round(math.fsum(self.parameter_parts().values()) - idle)

    @property
    def unknown_parameters(self) -> int:
        """Parameters of parts that nobody here knows [1]."""
        return sum(part.parameters for part in self.unknown if not part.looked_up)

    @property
    def kv_elements_per_token(self) -> int:
        """Elements cached per token of context, over all layers without a window."""
        return round(math.fsum(block.layers * block.attention.cache.elements for block in self.blocks))

    @property
    def active_parameters_without_input_embedding(self) -> int:
        """Active parameters as vendors count them who leave the input embedding out."""
        return self.active_parameters - round(self.vocab_size * self.hidden_size)

    @property
    def index_elements_per_token(self) -> int:
        """Elements that indexers of sparse attention cache per token of context, over all layers."""
        return round(math.fsum(block.layers * block.attention.cache.index_elements for block in self.blocks))

    @property
    def window_elements_per_token(self) -> int:
        """Elements cached per token inside a sliding window, over all layers that have one."""
        return round(math.fsum(block.layers * block.attention.cache.window_elements for block in self.blocks))

    @property
    def state_elements_per_sequence(self) -> int:
        """Elements of the state that recurrent layers keep for each sequence, whatever its length."""
        caches = ((block.layers, block.attention.cache) for block in self.blocks)
        return sum(layers * (cache.state_elements + cache.convolution_elements) for layers, cache in caches)

    @property
    def mixtures(self) -> tuple[ExpertFeedForward, ...]:
        """Mixtures of experts, one per block of layers that has one."""
        parts = (block.feed_forward for block in self.blocks)
        return tuple(part for part in parts if isinstance(part, ExpertFeedForward))

    @property
    def has_latents(self) -> bool:
        """Some layers have latent attention, for which engines have kernels of their own."""
        return any(isinstance(block.attention, LatentAttention) for block in self.blocks)

    def parameter_parts(self) -> dict[str, float]:
        """Parameters by part; the parts add up to :attr:`total_parameters`."""
        hidden = self.hidden_size
        vectors = 2 if any(block.norm_bias for block in self.blocks) else 1
        parts = {
            "embeddings": self.embedding_parameters
            + self.learned_positions * hidden
            + self.vocab_size * self.output_bias,
            "attention": math.fsum(b.layers * b.attention.parameters(hidden).total for b in self.blocks),
            "feed_forward": math.fsum(b.layers * b.feed_forward.parameters(hidden).total for b in self.blocks),
            "norms": math.fsum(b.layers * b.norms * hidden * (1 + b.norm_bias) for b in self.blocks)
            + self.final_norm * vectors * hidden,
        }
        if self.residual_streams > 1:
            # Each mixing, two per layer, reads all copies and makes two vectors and a matrix over them, with a bias
            # each and three scales; the last one, where there is one, makes a single vector.
            rows, width = self.residual_streams * (self.residual_streams + 2), self.residual_streams * hidden
            last = self.residual_fold * (self.residual_streams * (width + 1) + 1)
            parts["residual_streams"] = self.layers * 2 * (rows * (width + 1) + 3) + last
        if self.residual_span is not None:
            # A norm and a vector of scores before each part of a layer, and behind the last one.
            parts["residual_attention"] = (2.0 * self.layers + 1) * 2 * hidden
        if any(part.parameters for part in self.unknown):
            parts["unknown"] = float(sum(part.parameters for part in self.unknown))
        return parts


@dataclass(frozen=True, slots=True)
class Precision:
    """Number format of each group of tensors."""

    weights: str
    """Format of feed-forward blocks, and of weights without a format of their own."""
    attention: str
    experts: str
    """Format of routed experts."""
    shared_experts: str
    embeddings: str
    """Format of the input and output embeddings."""
    activations: str
    """Format between operators."""
    kv: str
    attention_output: str = ""
    """Format of attention's output projections; by default as the rest of attention."""

    def __post_init__(self) -> None:
        """Without a format of their own, output projections have that of attention."""
        object.__setattr__(self, "attention_output", self.attention_output or self.attention)

    @classmethod
    def of(
        cls,
        model: ModelSpec,
        weights: str | None = None,
        activations: str | None = None,
        kv: str | None = None,
        embeddings: EmbeddingFormat = "sixteen_bit",
    ) -> Precision:
        """The formats a model is served in: given ones, or those it is published in and 16-bit activations.

        Parameters
        ----------
        model : ModelSpec
            Its ``embedding_weights`` hold under any narrower format of weights.
        weights, activations, kv : str, optional
            Number formats; fewer than 16 bits of weights leave embeddings as ``embeddings`` says.
        embeddings : {'sixteen_bit', 'as_weights'}
            What narrow weights mean for embeddings whose format the model does not state.

        Raises
        ------
        InputError
            If a format is unknown.
        """
        weights, activations, kv = (
            name if name is None else check_dtype(name, role)
            for name, role in ((weights, "weights"), (activations, "activations"), (kv, "kv"))
        )
        published = model.embedding_weights or model.weights
        flowing = activations or ("fp16" if (weights or model.weights) == "fp16" else "bf16")
        if weights is None:
            of_embeddings = published
        elif embeddings == "as_weights" or _wide(weights) or weights in OF_FILES:
            of_embeddings = weights
        else:
            # Engines quantise linear layers only, and so do published checkpoints, which leave ``lm_head`` out by name.
            # A model that is published in one narrow format, as those of studies are, keeps one format.
            of_embeddings = model.embedding_weights or (flowing if _wide(model.weights) else weights)
        return cls(
            weights=weights or model.weights,
            attention=weights or model.attention_weights or model.weights,
            experts=weights or model.expert_weights or model.weights,
            shared_experts=weights or model.shared_expert_weights or model.weights,
            embeddings=of_embeddings,
            activations=flowing,
            kv=kv or model.kv or flowing,
            attention_output=weights or model.attention_output_weights or model.attention_weights or model.weights,
        )

    @property
    def blocks(self) -> tuple[int, int]:
        """Widths that must stay together, of dense matrices and of experts [1]."""
        return block_width(self.weights), block_width(self.experts)

    @property
    def of_weights(self) -> tuple[str, ...]:
        """The formats of all weights, each once."""
        attention = (self.attention, self.attention_output)
        return tuple(dict.fromkeys((self.weights, *attention, self.experts, self.shared_experts, self.embeddings)))


def _wide(dtype: str) -> bool:
    return BYTES_PER_ELEMENT[dtype] >= BYTES_PER_ELEMENT["bf16"]
