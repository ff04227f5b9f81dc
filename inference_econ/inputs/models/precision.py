"""In which number formats a model is served."""

from __future__ import annotations

from dataclasses import dataclass

from inference_econ.inputs.dtype import BYTES_PER_ELEMENT, OF_FILES, EmbeddingFormat, block_width, check_dtype
from inference_econ.inputs.models.model import ModelSpec


@dataclass(frozen=True, slots=True)
class Precision:
    """Number format of each group of tensors.

    Attributes
    ----------
    weights, attention, experts, shared_experts, embeddings : str
        Weights: of feed-forward blocks and whatever has no format of its own, of attention, of routed and
        of shared experts, of embeddings, input and output.
    activations, kv : str
        What flows between operators, and the cache.
    attention_output : str
        Weights of attention's output projections; by default as the rest of attention.
    """

    weights: str
    attention: str
    experts: str
    shared_experts: str
    embeddings: str
    activations: str
    kv: str
    attention_output: str = ""

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
        return cls(
            weights=weights or model.weights,
            attention=weights or model.attention_weights or model.weights,
            experts=weights or model.expert_weights or model.weights,
            shared_experts=weights or model.shared_expert_weights or model.weights,
            embeddings=weights or published if embeddings == "as_weights" else _embeddings(model, weights, flowing),
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


def _embeddings(model: ModelSpec, weights: str | None, flowing: str) -> str:
    """The format of embeddings beside weights in a given one.

    Engines quantise linear layers only, and so do published checkpoints, which leave ``lm_head`` out by name. A model
    that is published in one narrow format, as those of studies are, keeps one format.
    """
    if weights is None:
        return model.embedding_weights or model.weights
    if _wide(weights) or weights in OF_FILES:
        return weights
    return model.embedding_weights or (flowing if _wide(model.weights) else weights)


def _wide(dtype: str) -> bool:
    return BYTES_PER_ELEMENT[dtype] >= BYTES_PER_ELEMENT["bf16"]
