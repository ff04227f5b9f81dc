"""Comparison of a user's model with catalog models: equal architectures."""

from __future__ import annotations

import re
from collections.abc import Iterable

from inference_econ.inputs.models.model import ModelSpec

#: Fields that describe a checkpoint or a file, not the architecture. Recipes and measurements state number formats
#: themselves, and images and the longest context do not change a step of text.
_APART = (
    *("name", "description", "sources", "extends", "huggingface_id", "checkpoints", "rumoured", "left_out", "vision"),
    *("max_context", "weights", "expert_weights", "shared_expert_weights", "attention_weights"),
    *("attention_output_weights", "embedding_weights", "kv"),
)
_ARCHITECTURE = tuple(name for name in ModelSpec.fields if name not in _APART)
_WIDTH = re.compile(r"^hidden_size: *([\d.e+]+) *(?:#.*)?$", re.MULTILINE)
_BASE = re.compile(r"^extends: *(\S+)", re.MULTILINE)


def equal_model(model: ModelSpec, known: Iterable[ModelSpec]) -> ModelSpec | None:
    """Known model with the same architecture as a model; None if there is none.

    If several known models have the architecture, the result has the most other fields in common, such as number
    formats and the longest context.
    """
    equal = [other for other in known if all(getattr(other, name) == getattr(model, name) for name in _ARCHITECTURE)]
    return max(
        equal, key=lambda other: sum(getattr(other, name) == getattr(model, name) for name in _APART), default=None
    )


def width_or_base(text: str) -> float | str:
    """Hidden size in the text of a model file, or the name of the model that the file extends; empty if neither.

    The text is searched and not parsed, because most catalog models have another hidden size than the user's model.

    Examples
    --------
    >>> width_or_base("hidden_size: 8192"), width_or_base("extends: deepseek_v3")
    (8192.0, 'deepseek_v3')
    """
    width, base = _WIDTH.search(text), _BASE.search(text)
    return float(width[1]) if width else base[1] if base else ""
