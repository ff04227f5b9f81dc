"""In which number formats a model is served."""

from __future__ import annotations

from dataclasses import dataclass

from inference_econ.inputs.dtype import BYTES_PER_ELEMENT, OF_FILES, EmbeddingFormat, block_width, check_dtype
from inference_econ.inputs.models.model import ModelSpec


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
