"""Import of Hugging Face ``config.json`` files as model specifications.

For each model family, a function reads the configuration key by key. A key that this function does not read is
rejected, unless the key is known to change no tensor shape. A value with an uncertain meaning is rejected, too, because
a wrong parameter count is worse than no parameter count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from inference_econ.errors import SpecError
from inference_econ.inputs._spec import default_of
from inference_econ.inputs._yaml import Document
from inference_econ.inputs.huggingface import _grouped, _mixers
from inference_econ.inputs.huggingface._files import (
    OUTSIDE,
    Checkpoint,
    cached_config,
    checkpoint_beside,
    find_config,
    gguf_configuration,
    is_identity,
    parsed_json,
    quantisation_beside,
    read_json,
)
from inference_econ.inputs.huggingface._formats import Formats, formats
from inference_econ.inputs.huggingface._layers import Architecture, LayerReader
from inference_econ.inputs.huggingface._reader import FAMILIES, TABLE, TEXT_PART, without_shape
from inference_econ.inputs.huggingface._tensors import architecture_of, less_stored, unknown_parts
from inference_econ.inputs.layers import Block, ExpertFeedForward
from inference_econ.inputs.models.model import ModelSpec, UnknownPart, is_repository
from inference_econ.inputs.units import looks_like_quantity

#: Public names, and names from the submodules that other packages use.
__all__ = ["FAMILIES", "OUTSIDE", "Checkpoint", "cached_config", "checkpoint_beside", "find_config", "is_identity"]

#: Functions that read an architecture, by the names that the table of families uses.
_READERS: Mapping[str, Callable[[LayerReader], Architecture]] = {
    **vars(_grouped),
    **vars(_mixers),
    "plain": LayerReader.plain,
}
_AROUND_TEXT = re.compile("|".join(TABLE["beside_text"]))


def import_config(path: Path | str) -> ModelSpec:
    """Read a published configuration as a model specification.

    Parameters
    ----------
    path : Path or str
        ``config.json``, or a folder that contains one. A ``hf_quant_config.json`` in the same folder is also read.

    Returns
    -------
    ModelSpec
        Text part of the model, without multi-token-prediction layers.

    Raises
    ------
    InputError
        If the file does not exist, or is too large.
    SpecError
        If a key or the family is not supported; the message names the key or family, and the file.
    """
    return ModelSpec.from_document(import_document(path))


def import_document(path: Path | str) -> Document:
    """Read a file as plain data for :class:`~inference_econ.inputs.models.model.ModelSpec`."""
    config = find_config(Path(path))
    return _document(read_json(config), config, quantisation_beside(config))


def gguf_document(path: Path) -> Document:
    """Read a llama.cpp GGUF file as plain data of a model.

    The header is converted to a configuration of the model family.

    Raises
    ------
    InputError, SpecError
        If the file is not a GGUF file, or its architecture or quantization is not supported.
    """
    config, dtype = gguf_configuration(path)
    reader, architecture = _by_family(config, str(path))
    reader.finish()
    document = _written(reader, architecture, path, None)
    data: dict[str, Any] = {key: value for key, value in document.data.items() if not key.endswith("_weights")}
    data |= {"weights": dtype, "description": f"Read from the header of {path.name}, model_type {reader.family}."}
    if dtype == "mxfp4":  # applies to experts only
        data |= {"weights": "bf16", "expert_weights": dtype}
    if is_repository(str(path)):
        data["huggingface_id"] = str(path)
    data["sources"] = {**data["sources"], "weights": _source(f"{path.name} general.file_type")}
    return Document(data, str(path))


def gguf_remark(path: Path) -> str:
    """Note on how a GGUF file was interpreted; see :func:`gguf_document` for errors."""
    config, dtype = gguf_configuration(path)
    return (
        f"{str(path)!r} is read as {config['model_type']}, {config.get('num_hidden_layers')} layers of width "
        f"{config.get('hidden_size')}, with weights in {dtype} (--weights changes the format)"
    )


def document_of(text: str, name: str) -> Document:
    """Read the text of a configuration as plain data of a model with a given name."""
    config = Path(name)
    return _document(parsed_json(text, config), config, None)


def _document(data: Mapping[str, Any], config: Path, quantisation: Path | None) -> Document:
    """Plain data of a model, from its configuration and the other files in the same folder.

    If the model family is not supported, the architecture is derived from the tensors of the checkpoint in the folder.
    """
    file = str(config)
    try:
        reader, architecture = _by_family(data, file)
        reader.finish()
    except SpecError as refused:
        return _by_tensors(data, config, quantisation, refused)
    document = _written(reader, architecture, config, quantisation)
    checkpoint = checkpoint_beside(config, len(architecture.layers))
    if checkpoint is not None and checkpoint.elements:
        return _add_unknown(document, unknown_parts(ModelSpec.from_document(document), checkpoint, by_family=True))
    return document


def _by_family(data: Mapping[str, Any], file: str) -> tuple[LayerReader, Architecture]:
    """Architecture of a configuration, read by the function of its model family.

    The reader is also returned, because it records which keys were read.
    """
    text, outer, family = _text_part(data, file)
    reader = LayerReader(text, file, family, outer)
    reader.skip(*_OF_FORMATS)
    try:
        reader.entry.check(reader)
        architecture = _READERS[reader.entry.reader](reader)
        reader.unused(*reader.entry.unused)
        return reader, architecture
    except SpecError as error:
        raise SpecError(*_with_file(error, file, family)) from error


def _with_file(error: SpecError, file: str, family: str) -> list[str]:
    """Messages of an error, with the file name and family added to messages that lack the file name."""
    return [text if text.startswith(f"{file}: ") else f"{file}: {text} (family {family})" for text in error.mistakes]


def _by_tensors(data: Mapping[str, Any], config: Path, quantisation: Path | None, refused: SpecError) -> Document:
    """Plain data of a model whose family or keys are not supported, with the help of the checkpoint in the same folder.

    If only keys are unknown, the architecture of the family is used, unless it has more parameters than the checkpoint.
    For unknown families, the reader recognizes common names of tensors.

    Raises
    ------
    SpecError
        If the folder has no checkpoint, or the tensors do not determine the architecture.
    """
    file = str(config)
    text = data.get("text_config")
    reader = LayerReader(*((text, file, "unknown", data) if isinstance(text, dict) else (data, file, "unknown")))
    try:
        layers = reader.layers()
    except SpecError:
        layers = 0
    checkpoint = checkpoint_beside(config, layers) if layers else None
    if checkpoint is None:
        *others, last = refused.mistakes
        unknown = "not understood" in last or "unknown key" in last
        raise SpecError(*[*others, last + _INDEX_WOULD_DO] if unknown else refused.mistakes) from refused
    with suppress(SpecError):
        familiar, architecture = _by_family(data, file)
        document = _written(familiar, architecture, config, quantisation)
        model = ModelSpec.from_document(document)
        if not less_stored(file, model, checkpoint):
            return _add_unknown(document, unknown_parts(model, checkpoint, by_family=True), familiar.unread())
    try:
        reader.skip(*_OF_FORMATS)
        document = _written(reader, architecture_of(reader, checkpoint), config, quantisation)
        model = ModelSpec.from_document(document)
    except SpecError as error:
        raise SpecError(*refused.mistakes, *_with_file(error, file, reader.family)) from error
    if less := less_stored(file, model, checkpoint):
        raise SpecError(*refused.mistakes, less)
    parts = [UnknownPart(name=f"model_type {data.get('model_type')}")]
    return _add_unknown(document, [*parts, *unknown_parts(model, checkpoint, by_family=False)], reader.unread())


#: Configuration keys that describe number formats.
_OF_FORMATS = ("torch_dtype", "dtype", "quantization_config", "compression_config")
#: Advice in an error message for a configuration that is not supported.
_INDEX_WOULD_DO = (
    "; an index would do: with model.safetensors.index.json, or the headers of its safetensors files, in the same "
    "folder what is unknown is counted from their tensors"
)


def _written(reader: LayerReader, architecture: Architecture, config: Path, quantisation: Path | None) -> Document:
    """Plain data of a model file, from an architecture and the number formats of the published files."""
    text, outer, file = reader.data, reader.outer, str(config)
    stated = formats(
        (text, outer) if outer else (text,),
        None if quantisation is None else read_json(quantisation),
        len(architecture.layers),
        file,
        str(quantisation),
    )
    return Document(_plain(architecture, stated, reader, config, (outer or text).get("architectures")), file)


def _add_unknown(document: Document, parts: Sequence[UnknownPart], unread: Sequence[str] = ()) -> Document:
    """Add unknown parts to the plain data of a model.

    Each unread configuration key becomes a part without parameters.
    """
    parts = [*parts, *(UnknownPart(name=f"key {key}") for key in unread)]
    if not parts:
        return document
    data: dict[str, Any] = {**document.data, "unknown": [part.model_dump(exclude_defaults=True) for part in parts]}
    data["sources"] = {**data["sources"], "unknown": _source("tensors of the checkpoint beside it")}
    return Document(data, document.origin)


def _text_part(data: Mapping[str, Any], file: str) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    """Text part of a configuration, the full configuration, and the model family of the text part."""
    kind = data.get("model_type")
    if kind is None:
        raise SpecError(f"{file}: model_type is missing; is this the config.json of a Hugging Face model?")
    if not isinstance(kind, str) or (kind not in FAMILIES and kind not in TEXT_PART):
        kinds = ", ".join(sorted({*FAMILIES, *TEXT_PART}))
        raise SpecError(f"{file}: model_type {kind!r} is not understood; understood: {kinds}")
    if kind in FAMILIES and not (kind in TEXT_PART and "text_config" in data):
        return data, {}, kind
    text = data.get("text_config")
    if not isinstance(text, dict):
        raise SpecError(f"{file}: text_config is missing; {kind} keeps the language model there")
    inner = text.get("model_type", TEXT_PART[kind])
    if not isinstance(inner, str) or inner not in FAMILIES:
        raise SpecError(f"{file}: text_config.model_type {inner!r} is not understood; for {kind}: {TEXT_PART[kind]}")
    shaping = [key for key, value in data.items() if value is not None and not without_shape(key)]
    unknown = [key for key in shaping if not _AROUND_TEXT.fullmatch(key)]
    if unknown:
        raise SpecError(*[f"{file}: unknown key {key!r} next to text_config (family {kind})" for key in unknown])
    return text, data, inner


def _plain(
    architecture: Architecture, stated: Formats, reader: LayerReader, config: Path, named: object
) -> dict[str, Any]:
    """Fields of a model file, with a source for every number."""
    name, identity = _names(config)
    data: dict[str, Any] = {
        **architecture.fields,
        **_formats_of(architecture, stated),
        "name": name,
        "description": f"Imported from {config.name}, model_type {reader.family}.",
        "huggingface_id": identity,
        "architecture": named[0] if isinstance(named, list) and named and isinstance(named[0], str) else None,
        "unknown": [part.model_dump(exclude_defaults=True) for part in architecture.fields.get("unknown", ())],
        "left_out": list(reader.left_out()),
        # Equal layers form a block. Blocks are in the order in which their layers first appear.
        "blocks": [
            {**Block(layers=count, **layer._asdict()).model_dump(exclude_defaults=True), "norms": layer.norms}
            for layer, count in Counter(architecture.layers).items()
        ],
    }
    defaults = {key: default_of(value) for key, value in ModelSpec.fields.items()}
    data = {key: value for key, value in data.items() if value not in (defaults[key], [])}
    data["sources"] = _sources(data, stated, reader, config.name)
    return data


def _formats_of(architecture: Architecture, stated: Formats) -> dict[str, Any]:
    """Number formats of the groups of weights that have another format than the model as a whole."""
    groups, parts = stated.groups, [layer.feed_forward for layer in architecture.layers]
    mixtures = [part for part in parts if isinstance(part, ExpertFeedForward)]
    # In a model without dense layers, only the router has the main format.
    weights = groups["attention" if mixtures and len(mixtures) == len(parts) else "dense"]
    others = {
        "expert_weights": groups["experts"] if mixtures else weights,
        "shared_expert_weights": weights,
        "attention_weights": groups["attention"],
        "embedding_weights": groups["embeddings"],
    }
    if any(mixture.shared_intermediate_size is not None for mixture in mixtures):
        others["shared_expert_weights"] = groups["shared"]
    others = {key: value for key, value in others.items() if value != weights}
    attends = any(layer.attention.parameters(1.0).output for layer in architecture.layers)
    if attends and groups["attention_output"] != groups["attention"]:
        others["attention_output_weights"] = groups["attention_output"]
    return {"weights": weights, **others, "kv": stated.kv}


def _sources(data: Mapping[str, Any], stated: Formats, reader: LayerReader, file: str) -> dict[str, Any]:
    around: Mapping[str, Sequence[str]] = TABLE["sources"]
    part = "text_config." if reader.outer else ""
    sources: dict[str, Any] = {}
    for field, keys in around.items():
        if field in data:
            key = next((key for key in keys if reader.has(key)), keys[0])
            default = " left out: default of the published class" if key in reader.assumed else ""
            sources[field] = _source(f"{file} {part}{key}{default}")
    sources["weights"] = {"ref": "user", "where": stated.where, "kind": stated.kind}
    if "unknown" in data:
        sources["unknown"] = _source(f"{file} {part}engram_num_embeddings")
    listed = {key for keys in around.values() for key in keys} | {"torch_dtype", "dtype", "quantization_config"}
    used = [key for key in reader.read if reader.has(key) and key not in listed]
    sources["blocks"] = _source(
        f"{file} {part}{', '.join(used)}; what no key states is as in the published class of {reader.family}"
    )
    return sources


def _source(where: str) -> dict[str, str]:
    return {"ref": "user", "where": where, "kind": "published"}


def _names(config: Path) -> tuple[str, str | None]:
    """Display name, and the Hugging Face id if the path contains the id.

    Paths with an id have the form ``ORGANIZATION--NAME_config.json``, or the form of the hub's cache,
    ``models--ORGANIZATION--NAME/snapshots/...``.
    """
    stem = config.stem.removesuffix("config").rstrip("_-.")
    candidates = [stem, *(part.removeprefix("models--") for part in config.parts if part.startswith("models--"))]
    for candidate in candidates:
        organisation, mark, name = candidate.partition("--")
        repository = f"{organisation}/{name}"
        if mark and organisation and name and "--" not in name and is_repository(repository):
            return name, repository
    name = stem or config.resolve().parent.name
    # A name that looks like a quantity would need a source, so a word is added.
    return (f"model {name}".strip() if looks_like_quantity(name) or not name else name), None
