"""In which number formats a model is served."""

from __future__ import annotations

from dataclasses import dataclass

from inference_econ.inputs.dtype import BLOCKS, check_dtype
from inference_econ.inputs.model import ModelSpec


@dataclass(frozen=True, slots=True)
class Precision:
    """Number format of each group of tensors.

    Attributes
    ----------
    weights, attention, experts, shared_experts, embeddings : str
        Weights: of feed-forward blocks and whatever has no format of its own, of attention, of routed and
        of shared experts, of embeddings.
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
        cls, model: ModelSpec, weights: str | None = None, activations: str | None = None, kv: str | None = None
    ) -> Precision:
        """The formats a model is served in: given ones, or those it is published in and 16-bit activations.

        Raises
        ------
        InputError
            If a format is unknown.
        """
        for name, role in ((weights, "weights"), (activations, "activations"), (kv, "kv")):
            if name is not None:
                check_dtype(name, role)
        flowing = activations or ("fp16" if (weights or model.weights) == "fp16" else "bf16")
        return cls(
            weights=weights or model.weights,
            attention=weights or model.attention_weights or model.weights,
            experts=weights or model.expert_weights or model.weights,
            shared_experts=weights or model.shared_expert_weights or model.weights,
            embeddings=weights or model.embedding_weights or model.weights,
            activations=flowing,
            kv=kv or model.kv or flowing,
            attention_output=weights or model.attention_output_weights or model.attention_weights or model.weights,
        )

    @property
    def blocks(self) -> tuple[int, int]:
        """Widths that must stay together, of dense matrices and of experts [1]."""
        return BLOCKS.get(self.weights, 1), BLOCKS.get(self.experts, 1)

    @property
    def of_weights(self) -> tuple[str, ...]:
        """The formats of all weights, each once."""
        attention = (self.attention, self.attention_output)
        return tuple(dict.fromkeys((self.weights, *attention, self.experts, self.shared_experts, self.embeddings)))
