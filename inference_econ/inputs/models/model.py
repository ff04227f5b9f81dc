"""Language models: architecture, parameter counts, and number formats."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from inference_econ.inputs._spec import AfterValidator, Count, Dtype, Field, Size, SourcedSpec, Spec
from inference_econ.inputs.dtype import BYTES_PER_ELEMENT, OF_FILES, EmbeddingFormat, block_width, check_dtype
from inference_econ.inputs.layers import Block, ExpertFeedForward, LatentAttention, Whole

#: Allowed characters of a name, for messages.
REPOSITORY_LETTERS = "letters, digits and . / : @ _ -, beginning with no dash"
_NAME = re.compile(r"[\w./:@][\w./:@-]*", re.ASCII)


def is_repository(name: str) -> bool:
    """True if a text is a valid name of weights, of a folder with weights, or of a container image.

    Examples
    --------
    >>> is_repository("meta-llama/Llama-3.1-8B"), is_repository("a/b$(touch c)"), is_repository("--trust-remote-code")
    (True, False, False)
    """
    return _NAME.fullmatch(name) is not None


def _check(name: str) -> str:
    if not is_repository(name):
        raise ValueError(f"write ORGANIZATION/NAME in {REPOSITORY_LETTERS}")
    return name


#: Hugging Face id: ``organisation/name``.
Repository = Annotated[str, AfterValidator(_check)]


class VisionTower(Spec):
    """Image encoder of a model, including its projector.

    The encoder takes memory, but text steps do not run the encoder.
    """

    parameters: Count
    """Parameters of encoder and projector, which engines and published checkpoints store in 16 bits [1]."""
    hidden_size: Count
    """Width of the residual stream of the encoder."""
    intermediate_size: Count
    """Intermediate width of the feed-forward layers of the encoder."""
    largest_image: Count
    """Number of tokens that the language model receives for the largest image [tokens]."""
    patches_per_token: Count
    """Image patches per token [1]."""

    def profiled_patches(self, step_tokens: float) -> float:
        """Number of image patches that an engine's profiling run encodes [1].

        The run encodes the maximum number of largest images in a step, but at least one.

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
    """Part of a model that the cost model cannot describe: tensors of a checkpoint, or keys of a configuration."""

    name: str = Field(min_length=1)
    """Name of tensors, with ``N`` in place of numbers; or name of a key."""
    parameters: Whole = 0
    """Parameters of the part in the checkpoint [1]; 0 for a key."""
    looked_up: bool = False
    """True for a table with more rows than the vocabulary. A step reads few of the rows."""


class ModelSpec(SourcedSpec):
    """Architecture of a language model: its text part, without multi-token-prediction layers."""

    extends: str | None = None
    """Model that this file extends. Missing fields are copied from that model."""
    huggingface_id: Repository | None = None
    """Hugging Face id of the published weights: ``organisation/name``."""
    checkpoints: dict[Dtype | Literal["eagle"], Repository] = Field(default={})
    """Hugging Face ids of the checkpoints that servers load, by number format; instruction-tuned ones if available.

    The key ``eagle`` names the draft head for these checkpoints.
    """
    architecture: str | None = None
    """First entry of ``architectures`` in the ``config.json``. Engines identify the model by this entry."""
    rumoured: bool = False
    """True if the architecture is a rumor, not a publication."""
    hidden_size: Size
    """Width of the residual stream."""
    vocab_size: Whole
    """Rows of the embedding matrix."""
    tied_embeddings: bool = False
    """True if input and output embedding are one matrix."""
    learned_positions: Whole = 0
    """Rows of the learned position embedding; 0 without learned positions."""
    output_bias: bool = False
    """True if the output embedding has a bias per token."""
    final_norm: bool = True
    """True if parameter counts include the norm before the output embedding."""
    weights: Dtype
    """Number format of the published weights."""
    expert_weights: Dtype | None = None
    """Number format of the routed experts, if different from the weights."""
    shared_expert_weights: Dtype | None = None
    """Number format of the shared experts, if different from the weights."""
    attention_weights: Dtype | None = None
    """Number format of the attention matrices, if different from the weights."""
    attention_output_weights: Dtype | None = None
    """Number format of the output projections of grouped-query or latent attention, if different from the other
    attention matrices."""
    embedding_weights: Dtype | None = None
    """Number format of the embeddings, if different from the weights."""
    kv: Dtype | None = None
    """Number format of the KV cache, if the checkpoint determines it."""
    mtp_layers: Whole = 0
    """Number of multi-token-prediction layers in the checkpoint. Parameter counts exclude these layers."""
    residual_streams: Count = 1
    """Copies of the residual stream, which learned matrices mix twice per layer (mHC)."""
    residual_fold: bool = True
    """True if a separate matrix combines the copies after the last layer.

    If false, the last layer combines the copies.
    """
    residual_span: Count | None = None
    """Number of layers whose outputs are summed to one vector.

    Later layers attend to these vectors (attention residuals of Kimi K3). The field is absent for ordinary residuals.
    """
    vision: VisionTower | None = None
    """Image encoder. Parameter counts exclude the encoder."""
    left_out: tuple[str, ...] = Field(default=(), strict=False)
    """Keys that the ``config.json`` lacks, with the values that the published class has by default."""
    unknown: tuple[UnknownPart, ...] = Field(default=(), strict=False)
    """Unknown parts of the checkpoint.

    Unless a part is a lookup table, a step is assumed to read the part once and to multiply every token with it. The
    prediction intervals of results include other possibilities.
    """
    max_context: Count | None = None
    """Longest context that the model supports [tokens]."""
    blocks: tuple[Block, ...] = Field(min_length=1, strict=False)
    """Groups of equal layers."""
    #: Name of the catalog model with the same architecture; set by the catalog for models in users' files.
    _catalog_name: str = ""
    private = ("_catalog_name",)

    @property
    def known_as(self) -> str:
        """Name by which recipes, measurements and API offers list the model.

        For a model in a user's file, it is the name of the catalog model with the same architecture.
        """
        return self._catalog_name or self.name

    @property
    def equal_remark(self) -> str:
        """Sentence on the catalog model with the same architecture, without a period; empty for catalog models."""
        if self.known_as == self.name:
            return ""
        return f"{self.name} has the architecture of {self.known_as}, and uses its recipes and measurements"

    def checkpoint(self, kind: str | None = None) -> str | None:
        """Hugging Face id of the checkpoint in a number format, by default the published one; None if unknown.

        The kind ``eagle`` selects the draft head.
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
        """Parameters of the input and output embedding. A matrix that is used as both is included once."""
        return (1 if self.tied_embeddings else 2) * self.vocab_size * self.hidden_size

    @property
    def total_parameters(self) -> int:
        """Total number of parameters; fractional sizes are rounded once, at the end."""
        return round(math.fsum(self.parameter_parts().values()))

    @property
    def active_parameters(self) -> int:
        """Active parameters per token, including input and output embedding."""
        idle = math.fsum(block.layers * block.feed_forward.parameters(self.hidden_size).idle for block in self.blocks)
        idle += sum(part.parameters for part in self.unknown if part.looked_up)
        return round(math.fsum(self.parameter_parts().values()) - idle)

    @property
    def unknown_parameters(self) -> int:
        """Parameters of the unknown parts [1]."""
        return sum(part.parameters for part in self.unknown if not part.looked_up)

    @property
    def kv_elements_per_token(self) -> int:
        """Cached elements per token of context, summed over all layers without a window."""
        return round(math.fsum(block.layers * block.attention.cache.elements for block in self.blocks))

    @property
    def active_parameters_without_input_embedding(self) -> int:
        """Active parameters per token without the input embedding, as some vendors publish."""
        return self.active_parameters - round(self.vocab_size * self.hidden_size)

    @property
    def index_elements_per_token(self) -> int:
        """Cached elements of index keys per token, summed over all layers with sparse attention."""
        return round(math.fsum(block.layers * block.attention.cache.index_elements for block in self.blocks))

    @property
    def window_elements_per_token(self) -> int:
        """Cached elements per token in a sliding window, summed over all layers with a window."""
        return round(math.fsum(block.layers * block.attention.cache.window_elements for block in self.blocks))

    @property
    def state_elements_per_sequence(self) -> int:
        """Elements of the recurrent states of a sequence, whose size does not depend on its length."""
        caches = ((block.layers, block.attention.cache) for block in self.blocks)
        return sum(layers * (cache.state_elements + cache.convolution_elements) for layers, cache in caches)

    @property
    def mixtures(self) -> tuple[ExpertFeedForward, ...]:
        """MoE blocks, one for each group of layers with experts."""
        parts = (block.feed_forward for block in self.blocks)
        return tuple(part for part in parts if isinstance(part, ExpertFeedForward))

    @property
    def has_latents(self) -> bool:
        """True if some layers have latent attention. Engines use separate kernels for such layers."""
        return any(isinstance(block.attention, LatentAttention) for block in self.blocks)

    def parameter_parts(self) -> dict[str, float]:
        """Parameters by part. The parts add up to :attr:`total_parameters`."""
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
            # Each layer has two mixes. A mix reads all copies, and computes two vectors and a matrix from them. Each of
            # these three has a bias and a scale. The last mix of the model, if separate, computes one vector.
            rows, width = self.residual_streams * (self.residual_streams + 2), self.residual_streams * hidden
            last = self.residual_fold * (self.residual_streams * (width + 1) + 1)
            parts["residual_streams"] = self.layers * 2 * (rows * (width + 1) + 3) + last
        if self.residual_span is not None:
            # A norm and a vector of scores precede each part of a layer, and also follow the last part.
            parts["residual_attention"] = (2.0 * self.layers + 1) * 2 * hidden
        if any(part.parameters for part in self.unknown):
            parts["unknown"] = float(sum(part.parameters for part in self.unknown))
        return parts


@dataclass(frozen=True, slots=True)
class Precision:
    """Number formats of the weights, the activations and the KV cache."""

    weights: str
    """Format of feed-forward blocks, and of weights that no other field covers."""
    attention: str
    experts: str
    """Format of routed experts."""
    shared_experts: str
    embeddings: str
    """Format of the input and the output embedding."""
    activations: str
    """Format of activations."""
    kv: str
    attention_output: str = ""
    """Format of the output projections of attention; by default, the format of the other attention matrices."""

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
        """Number formats of a model. By default, weights have the published format, and activations have 16 bits.

        Parameters
        ----------
        model : ModelSpec
            The model. If the model's file states ``embedding_weights``, embeddings have this format unless the weights
            are wider.
        weights, activations, kv : str, optional
            Number formats to use instead of the defaults.
        embeddings : {'sixteen_bit', 'as_weights'}
            Format of embeddings if the weights are narrower than 16 bits and the file of the model states no embedding
            format.

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
            # that is published in one narrow format, as in studies, has one format for all weights.
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
        """Smallest width on one rank of dense and of expert matrices, which is the block size of their format [1]."""
        return block_width(self.weights), block_width(self.experts)

    @property
    def of_weights(self) -> tuple[str, ...]:
        """Formats of all weights, without duplicates."""
        attention = (self.attention, self.attention_output)
        return tuple(dict.fromkeys((self.weights, *attention, self.experts, self.shared_experts, self.embeddings)))


def _wide(dtype: str) -> bool:
    return BYTES_PER_ELEMENT[dtype] >= BYTES_PER_ELEMENT["bf16"]
