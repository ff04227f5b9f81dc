"""Language models: architecture, derived counts, and number formats."""

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
    """Image encoder of a model with its projector; it needs memory, but takes no part in text steps."""

    parameters: Count
    """Weights of tower and projector, which engines and published checkpoints store in 16 bits [1]."""
    hidden_size: Count
    """Width of its residual stream."""
    intermediate_size: Count
    """Intermediate width of its feed-forward layers."""
    largest_image: Count
    """Tokens of the largest image in the language model [tokens]."""
    patches_per_token: Count
    """Image patches per token [1]."""

    def profiled_patches(self, step_tokens: float) -> float:
        """Maximum patches processed together: those of the full images that fit a step, at least one [1].

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
    """Part of a published model that is not modeled: tensors of a checkpoint, or keys of a configuration."""

    name: str = Field(min_length=1)
    """Name of the tensors, with ``N`` for numbers; or the key."""
    parameters: Whole = 0
    """Its parameters in the checkpoint [1]; 0 for a key."""
    looked_up: bool = False
    """True for a table with more rows than the vocabulary: it needs memory, but a step reads little of it."""


class ModelSpec(SourcedSpec):
    """Architecture of a language model: the text part, without multi-token-prediction heads."""

    extends: str | None = None
    """Model that this file extends; fields that are not given are copied from it."""
    huggingface_id: Repository | None = None
    """``organisation/name`` of the published weights."""
    checkpoints: dict[Dtype | Literal["eagle"], Repository] = Field(default={})
    """``organisation/name`` of the checkpoints to serve, by format, instruction-tuned rather than base; ``eagle`` is
    the draft head for them."""
    architecture: str | None = None
    """First entry of ``architectures`` in its ``config.json``, by which engines identify it."""
    rumoured: bool = False
    """True if the architecture is a rumor and not published."""
    hidden_size: Size
    """Width of the residual stream."""
    vocab_size: Whole
    """Rows of the embedding."""
    tied_embeddings: bool = False
    """True if input and output embedding are one matrix."""
    learned_positions: Whole = 0
    """Rows of a learned position embedding."""
    output_bias: bool = False
    """True if the output embedding has a bias per token."""
    final_norm: bool = True
    """True if a norm before the output embedding is included."""
    weights: Dtype
    """Number format of the published weights."""
    expert_weights: Dtype | None = None
    """Number format of the routed experts, if different."""
    shared_expert_weights: Dtype | None = None
    """Number format of the shared experts, if different from the weights."""
    attention_weights: Dtype | None = None
    """Number format of the attention matrices, if different from the weights."""
    attention_output_weights: Dtype | None = None
    """Number format of attention's output projections, if different from the other attention matrices; only for
    grouped-query and latent attention."""
    embedding_weights: Dtype | None = None
    """Number format of the embeddings, if different from the weights."""
    kv: Dtype | None = None
    """Number format of the KV cache, if it is published with the weights."""
    mtp_layers: Whole = 0
    """Multi-token-prediction layers published with the model; no count includes them."""
    residual_streams: Count = 1
    """Copies of the residual stream that learned matrices mix around every layer (mHC)."""
    residual_fold: bool = True
    """True if a separate mix after the last layer combines the copies; otherwise a mix of the layer does."""
    residual_span: Count | None = None
    """Layers whose summed outputs form an entry that all later parts attend to (attention residuals of Kimi-K3); absent
    for ordinary residuals."""
    vision: VisionTower | None = None
    """Image encoder; no count includes it."""
    left_out: tuple[str, ...] = Field(default=(), strict=False)
    """Keys that the ``config.json`` lacks, with the assumed defaults of the published class."""
    unknown: tuple[UnknownPart, ...] = Field(default=(), strict=False)
    """Unknown parts of the checkpoint. Unless a part is a lookup table, it is assumed to be read once per step and
    multiplied with every token; intervals include other possibilities."""
    max_context: Count | None = None
    """Longest context that the model supports [tokens]."""
    blocks: tuple[Block, ...] = Field(min_length=1, strict=False)
    """Layers."""

    def checkpoint(self, kind: str | None = None) -> str | None:
        """Hugging Face id of a checkpoint in a format, by default the published one; of the head for ``eagle``.

        None if it is unknown.
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
        """Parameters of input and output embedding, once if tied."""
        return (1 if self.tied_embeddings else 2) * self.vocab_size * self.hidden_size

    @property
    def total_parameters(self) -> int:
        """All parameters (fractional sizes are rounded once, at the end)."""
        return round(math.fsum(self.parameter_parts().values()))

    @property
    def active_parameters(self) -> int:
        """Active parameters per token, including both embeddings."""
        idle = math.fsum(block.layers * block.feed_forward.parameters(self.hidden_size).idle for block in self.blocks)
        idle += sum(part.parameters for part in self.unknown if part.looked_up)
        return round(math.fsum(self.parameter_parts().values()) - idle)

    @property
    def unknown_parameters(self) -> int:
        """Parameters of unknown parts [1]."""
        return sum(part.parameters for part in self.unknown if not part.looked_up)

    @property
    def kv_elements_per_token(self) -> int:
        """Elements cached per token of context, over all layers without a window."""
        return round(math.fsum(block.layers * block.attention.cache.elements for block in self.blocks))

    @property
    def active_parameters_without_input_embedding(self) -> int:
        """Active parameters without the input embedding, as some vendors count them."""
        return self.active_parameters - round(self.vocab_size * self.hidden_size)

    @property
    def index_elements_per_token(self) -> int:
        """Elements cached per token by the indexers of sparse attention, over all layers."""
        return round(math.fsum(block.layers * block.attention.cache.index_elements for block in self.blocks))

    @property
    def window_elements_per_token(self) -> int:
        """Elements cached per token in a sliding window, over all layers with one."""
        return round(math.fsum(block.layers * block.attention.cache.window_elements for block in self.blocks))

    @property
    def state_elements_per_sequence(self) -> int:
        """Elements of the recurrent state of each sequence, at any length."""
        caches = ((block.layers, block.attention.cache) for block in self.blocks)
        return sum(layers * (cache.state_elements + cache.convolution_elements) for layers, cache in caches)

    @property
    def mixtures(self) -> tuple[ExpertFeedForward, ...]:
        """Mixtures of experts, one per block of layers that has one."""
        parts = (block.feed_forward for block in self.blocks)
        return tuple(part for part in parts if isinstance(part, ExpertFeedForward))

    @property
    def has_latents(self) -> bool:
        """True if some layers have latent attention, for which engines have other kernels."""
        return any(isinstance(block.attention, LatentAttention) for block in self.blocks)

    def parameter_parts(self) -> dict[str, float]:
        """Parameters by part; they add up to :attr:`total_parameters`."""
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
            # Each mix, two per layer, reads all copies and computes two vectors and a matrix over them, with a bias
            # each and three scales. The last mix, if there is one, computes a single vector.
            rows, width = self.residual_streams * (self.residual_streams + 2), self.residual_streams * hidden
            last = self.residual_fold * (self.residual_streams * (width + 1) + 1)
            parts["residual_streams"] = self.layers * 2 * (rows * (width + 1) + 3) + last
        if self.residual_span is not None:
            # A norm and a vector of scores before each part of a layer, and after the last one.
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
    """Format of activations."""
    kv: str
    attention_output: str = ""
    """Format of attention's output projections; by default that of the other attention matrices."""

    def __post_init__(self) -> None:
        """Set the default format of output projections."""
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
        """Formats of a model: given ones, or the published ones and 16-bit activations.

        Parameters
        ----------
        model : ModelSpec
            The model. Its ``embedding_weights`` apply with any narrower weights.
        weights, activations, kv : str, optional
            Number formats. With weights below 16 bits, ``embeddings`` determines the format of embeddings.
        embeddings : {'sixteen_bit', 'as_weights'}
            Format of embeddings with narrow weights, if the model does not state one.

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
            # Engines and published checkpoints quantize only linear layers, and exclude ``lm_head`` by name. A model
            # published in one narrow format, as in studies, keeps one format.
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
        """Widths of scale blocks that may not be split, in dense matrices and in experts [1]."""
        return block_width(self.weights), block_width(self.experts)

    @property
    def of_weights(self) -> tuple[str, ...]:
        """Formats of all weights, without duplicates."""
        attention = (self.attention, self.attention_output)
        return tuple(dict.fromkeys((self.weights, *attention, self.experts, self.shared_experts, self.embeddings)))


def _wide(dtype: str) -> bool:
    return BYTES_PER_ELEMENT[dtype] >= BYTES_PER_ELEMENT["bf16"]
