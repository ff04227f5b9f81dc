"""Variants: chips and models that extend another entry, as in ``extends: h100_sxm``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import _yaml
from inference_econ.inputs._spec import covering_keys
from inference_econ.inputs.dtype import FORMATS, OF_FILES, family
from inference_econ.inputs.models import sizes

if TYPE_CHECKING:
    from inference_econ.inputs._yaml import Document, Location, Value

#: Keys that a variant does not take over from the entry: its description, and the ids of its weights.
_OWN = ("description", "huggingface_id", "checkpoints")
#: Keys of a variant that are not changes of a property.
_NOT_CHANGED = ("extends", "name", "description", "sources")

#: Number at the start of a quantity.
_NUMBER = re.compile(r"\d+(\.\d+)?(e[-+]?\d+)?")
#: Fields for number formats of parts of a model. A checkpoint in a single format has none of them.
_FORMATS = ("attention_weights", "attention_output_weights", "expert_weights", "shared_expert_weights")


def laid_over(base: Document, variant: Document) -> Document:
    """Merge a variant into the chip or model that it extends.

    Parameters
    ----------
    base, variant : Document
        Document of the extended entry, and document of the variant.

    Returns
    -------
    Document
        Merged document: mappings are merged, and lists are replaced. If the variant changes a value without a source,
        the source in the base is removed, and the variant's file becomes the source.

    Raises
    ------
    SpecError
        If the variant does not set a name.
    InputError
        If the value of a model key in :data:`~inference_econ.inputs.models.sizes.SHORT_KEYS` is invalid.
    """
    if not isinstance(variant.data.get("name"), str):
        raise SpecError(f"{variant.where(('extends',))}: a variant needs its own name; add 'name: ...'")
    short = {key: variant.data.pop(key) for key in sizes.SHORT_KEYS if key in variant.data and "blocks" in base.data}
    for key in _OWN:
        _forget(base.data, key)
    changed = [".".join(map(str, place)) for place in _places(variant.data, ())]
    # Remove the sources of changed fields. A source may also be valid for other fields. It is then stored for each of
    # these under a longer key.
    sources = base.data.get("sources")
    for key in changed if isinstance(sources, dict) else ():
        _release(base.data, cast("dict[str, Value]", sources), key)
    merged = _yaml.merge(base, variant)
    for key in changed:
        add_source(merged, key, variant.where(tuple(key.split("."))))
    for key, value in short.items():
        apply_short_key(merged, key, value, variant.where((key,)))
    return merged


def apply_short_key(document: Document, key: str, value: Value, origin: str, factor: float | None = None) -> None:
    """Change all layers of a model by a key of ``inputs.models.sizes.SHORT_KEYS``, such as ``experts``.

    Messages and sources contain ``origin`` as the name of the change. A ``factor`` on the current numbers replaces the
    value.
    """
    for path, changed in list(sizes.changes(document.data, key, value, origin, factor)):
        _yaml.assign(document, path, changed, origin)
        add_source(document, ".".join(path), origin, again=True)


def add_source(document: Document, key: str, origin: str, *, again: bool = False) -> None:
    """Record the user's change as the source of a field. An existing source is kept, unless ``again`` is true."""
    sources = document.data.setdefault("sources", {})
    if not isinstance(sources, dict):
        return
    location = tuple(key.split("."))
    if again or not any(cover in sources for cover in covering_keys(location)):
        sources[key] = {"ref": "user", "where": origin, "kind": "what_if"}
        drop_below(sources, key)
    if _yaml.value_at(document, location) is None:
        sources.pop(key, None)  # A field without a value needs no source.


def times(document: Document, key: str, factor: float, origin: str) -> Value:
    """Multiply the value of a field: a number, a quantity, or all numbers of a mapping.

    The result is None if the field has no value.

    Raises
    ------
    InputError
        If the value is not a number.
    """

    def multiplied(value: Value) -> Value:
        if isinstance(value, dict):
            return {name: multiplied(part) for name, part in value.items()}
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return int(value * factor) if isinstance(value, int) and (value * factor).is_integer() else value * factor
        quantity = _NUMBER.match(value) if isinstance(value, str) else None
        if quantity is None:
            raise InputError(f"{origin}: {key} is {value!r}, no number; write the value that it should have")
        return f"{float(quantity[0]) * factor!r}{str(value)[quantity.end() :]}"

    value = _yaml.value_at(document, tuple(key.split(".")))
    return None if value is None else multiplied(value)


def drop_below(sources: dict[str, Value], key: str) -> None:
    """Remove the sources of values below a field."""
    for stale in [name for name in sources if name.startswith(f"{key}.")]:
        del sources[stale]


def checkpoint(document: Document, repository: str, dtype: str) -> Document:
    """Model with the weights of one of its checkpoints.

    Parameters
    ----------
    document : Document
        Model of the catalog.
    repository : str
        Hugging Face id of the checkpoint, optionally with a tag for GGUF files, or an Ollama tag.
    dtype : str
        Format of the linear layers in the checkpoint; empty for the format of the model. The format of embeddings
        changes only for GGUF files and for wide formats, because quantization tools skip embeddings.
    """
    data, sources = document.data, document.data["sources"]
    assert isinstance(sources, dict)
    _forget(data, "checkpoints")
    identity, _, tag = repository.partition(":")
    data["huggingface_id"] = identity.removeprefix("hf.co/").removeprefix("huggingface.co/")
    if "/" not in identity or (tag and "gguf" not in identity.lower()):
        _forget(data, "huggingface_id")  # tag in Ollama's library
    if dtype:
        if dtype in OF_FILES or FORMATS[family(dtype)].bits >= 16:
            _forget(data, "embedding_weights")
        else:
            data.setdefault("embedding_weights", data["weights"])
        data["weights"] = dtype
        sources["weights"] = {"ref": "user", "where": f"the name {repository}", "kind": "derived"}
        for part in _FORMATS:
            data.pop(part, None)
            sources.pop(part, None)
    return document


def _forget(data: dict[str, Value], key: str) -> None:
    """Remove a field and its sources."""
    data.pop(key, None)
    sources = data.get("sources")
    if isinstance(sources, dict):
        sources.pop(key, None)
        drop_below(sources, key)


def _places(data: Value, location: Location) -> Iterator[Location]:
    """Locations of the values and lists that a variant contains."""
    if isinstance(data, dict) and (data or not location):
        for key, value in data.items():
            if location or key not in _NOT_CHANGED:
                yield from _places(value, (*location, key))
    elif location[0] != "prices":  # prices contain their own sources
        yield location


def _release(data: dict[str, Value], sources: dict[str, Value], key: str) -> None:
    """Remove a field from sources that apply to several fields. These sources stay valid for the other fields."""
    sources.pop(key, None)
    drop_below(sources, key)
    parts = key.split(".")
    for length in range(1, len(parts)):
        cover = ".".join(parts[:length])
        kept = sources.pop(cover, None)
        below = _yaml.below(data, parts[:length])
        if kept is not None and isinstance(below, dict):
            siblings = {f"{cover}.{name}": kept for name in below if name != parts[length]}
            rest = {f"{cover}.{parts[length]}": kept} if length + 1 < len(parts) else {}
            for name, source in {**siblings, **rest}.items():
                sources.setdefault(name, source)
