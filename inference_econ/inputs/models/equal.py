"""Catalog model with the architecture of a user's model."""

from __future__ import annotations

import re
from functools import cache

from inference_econ.inputs import catalog
from inference_econ.inputs.models.model import ModelSpec

#: Fields that describe a checkpoint or a file, not the architecture. Recipes and measurements state number formats
#: themselves, and images and the longest context do not change a step of text.
_APART = (
    *("name", "description", "sources", "extends", "huggingface_id", "checkpoints", "rumoured", "left_out", "vision"),
    *("max_context", "weights", "expert_weights", "shared_expert_weights", "attention_weights"),
    *("attention_output_weights", "embedding_weights", "kv"),
)
_ARCHITECTURE = tuple(name for name in ModelSpec.model_fields if name not in _APART)
_WIDTH = re.compile(r"^hidden_size: *([\d.e+]+) *(?:#.*)?$", re.MULTILINE)
_BASE = re.compile(r"^extends: *(\S+)", re.MULTILINE)


def equal_model(model: ModelSpec) -> ModelSpec | None:
    """Catalog model with the same architecture as a model; None if there is none.

    If several catalog models have the architecture, the result has the most other fields in common, such as number
    formats and the longest context. Models of the published study are left out.
    """
    with catalog.uncopied():
        equal = [
            known
            for known in map(catalog.model, _of_width(float(model.hidden_size)))
            if all(getattr(known, name) == getattr(model, name) for name in _ARCHITECTURE)
        ]
    return max(
        equal, key=lambda known: sum(getattr(known, name) == getattr(model, name) for name in _APART), default=None
    )


def recognized(model: ModelSpec) -> ModelSpec:
    """Note the catalog model with the same architecture in a model from a user's file, and return the model."""
    known = equal_model(model)
    model._catalog_name = "" if known is None else known.name
    return model


def _of_width(hidden_size: float) -> list[str]:
    """Names of catalog models with a hidden size. Most files are only searched for this number, not parsed."""
    return [name for name in catalog.names("models") if "/" not in name and _width(name) == hidden_size]


@cache
def _width(name: str) -> float | None:
    """Hidden size in the file of a catalog model, or in the file that it extends; None if it is written otherwise."""
    text = catalog.files("models")[name].read_text(encoding="utf-8")
    if width := _WIDTH.search(text):
        return float(width[1])
    base = _BASE.search(text)
    return _width(base[1]) if base and base[1] in catalog.names("models") else None
