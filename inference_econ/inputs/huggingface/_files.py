"""Files of a published model: JSON files, and names and shapes of tensors from safetensors headers.

The first eight bytes of a safetensors file are the length of a JSON object with the format and shape of each tensor
(https://github.com/huggingface/safetensors). The tensor data after this header are not read, so they may be missing.
The index, ``model.safetensors.index.json``, has tensor names and the total size, but no shapes.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs.scope import open_file, read_text
from inference_econ.inputs.units import integer

CONFIG_NAME = "config.json"
QUANTISATION_NAME = "hf_quant_config.json"
_MAX_BYTES = 4_000_000


def find_config(path: Path) -> Path:
    """Path of a configuration: the given JSON file, or the ``config.json`` in the given folder.

    Raises
    ------
    InputError
        If the folder has no configuration.
    """
    try:
        if path.is_dir():
            if not (path / CONFIG_NAME).is_file():
                raise InputError(f"{path}: a folder without a {CONFIG_NAME}")
            return path / CONFIG_NAME
        if not path.is_file():
            raise InputError(f"{path}: no such file")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    return path


def quantisation_beside(config: Path) -> Path | None:
    """The ``hf_quant_config.json`` that belongs to a configuration; None if it does not exist.

    For ``ORGANISATION--NAME_config.json``, the file is called ``ORGANISATION--NAME_hf_quant_config.json``.
    """
    prefix = config.name.removesuffix(CONFIG_NAME)
    if not config.name.endswith(CONFIG_NAME):
        return None
    beside = config.with_name(prefix + QUANTISATION_NAME)
    return beside if beside.is_file() else None


def read_json(path: Path, most_bytes: int = _MAX_BYTES) -> dict[str, Any]:
    """Read a JSON object from a file.

    Raises
    ------
    InputError
        If the file cannot be read or is larger than ``most_bytes`` [B].
    SpecError
        If the content is not a JSON object, repeats a key, or nests too deep.
    """
    try:
        text = read_text(path, most_bytes)
    except UnicodeDecodeError as error:
        raise SpecError([f"{path}:1: not a text file in UTF-8 ({error.reason})"]) from error
    return parsed_json(text, path)


def parsed_json(text: str, path: Path) -> dict[str, Any]:
    """Parse a JSON object; messages name ``path``.

    Raises
    ------
    SpecError
        If the text is not a JSON object, repeats a key, or nests too deep.
    """

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated = sorted(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        if repeated:
            raise SpecError([f"{path}: {key!r} is given twice; keep one" for key in repeated])
        return dict(pairs)

    try:
        data = json.loads(text, object_pairs_hook=distinct)
    except json.JSONDecodeError as error:
        raise SpecError([f"{path}:{error.lineno}: not valid JSON: {error.msg}"]) from error
    except RecursionError as error:
        raise SpecError([f"{path}:1: nested too deep for a configuration"]) from error
    except ValueError as error:  # an integer with thousands of digits
        raise SpecError([f"{path}:1: not valid JSON: {str(error).partition(';')[0]}"]) from error
    if not isinstance(data, dict):
        raise SpecError([f"{path}:1: a JSON object is needed, found {type(data).__name__}"])
    return data


#: Hugging Face id; each part has at most 96 characters.
_IDENTITY = re.compile(r"[\w-][\w.-]{0,95}/[\w-][\w.-]{0,95}")


def is_identity(text: str) -> bool:
    """True if a text has the form of a Hugging Face id, ``ORGANISATION/NAME``.

    Examples
    --------
    >>> is_identity("Qwen/Qwen3-32B"), is_identity("./config.json"), is_identity("a/b/config.json")
    (True, False, False)
    """
    return _IDENTITY.fullmatch(text) is not None


#: Maximum size of the name of a revision [B].
_COMMIT = 1_000


def cached_config(identity: str, cache: Path) -> Path | None:
    """Path of a model's configuration in the local hub cache, preferably of the revision ``main``; None if not cached.

    Parameters
    ----------
    identity : str
        ``ORGANISATION/NAME``; case is ignored.
    cache : Path
        Folder of the cache with ``models--ORGANISATION--NAME/snapshots/COMMIT/config.json`` (documentation of the hub,
        "Hub Local Cache").
    """
    wanted = f"models--{identity.replace('/', '--')}".lower()
    try:
        models = [folder for folder in sorted(cache.iterdir()) if folder.name.lower() == wanted]
        configs = [path for folder in models for path in folder.glob(f"snapshots/*/{CONFIG_NAME}")]
        # Commits of the revision ``main`` at the time of download.
        references = [folder / "refs" / "main" for folder in models]
        commits = {read_text(path, _COMMIT).strip() for path in references if path.is_file()}
        newest_last = sorted(configs, key=lambda path: (path.parent.name in commits, path.stat().st_mtime))
    except (OSError, UnicodeDecodeError, InputError):  # the cache does not exist or cannot be read
        return None
    return newest_last[-1] if newest_last else None


INDEX_NAME = "model.safetensors.index.json"
#: Maximum header length of the safetensors format [B].
_LARGEST = 100_000_000
#: Tensor formats in which each element is one parameter. In other formats, an element contains several
#: parameters.
_PLAIN = re.compile(r"F64|F32|F16|BF16|F8_.*|I8")
#: Number of four-bit parameters in one element of a packed tensor format [1].
_PACKED = {"U8": 2, "I32": 8, "I64": 16}
#: Maximum size of an index [B]; the index of DeepSeek-V3 has 9 MB.
_LARGEST_INDEX = 100_000_000
#: Tensors that are not parameters: scales of narrow weights, and tables of positions.
_BESIDE = re.compile(
    r"(scale|scale_inv|scales|scale_\d|zeros|qzeros|g_idx|inv_freq|zero_point|weight_shape|correction_bias)$"
)
#: Parts of a checkpoint that are not in the parameter count of a model.
OUTSIDE = frozenset({"beside the text", "multi-token prediction"})
#: Parts of the model, by words in tensor names; the first match is used.
_PARTS = (
    ("beside the text", r"vision|visual|image|audio|mm_|multi_modal|projector|merger"),
    ("multi-token prediction", r"mtp|nextn"),
    ("attention", r"(attn|attention|mixer|mamba)(?!\w*norm)\w*\."),
    ("norms", r"norm|ln_"),
    ("embeddings", r"embed_tokens|lm_head|wte|wpe|word_embeddings"),
    ("feed_forward", r"mlp|expert|moe|feed_forward|ffn"),
)


@dataclass(frozen=True, slots=True)
class Tensor:
    """Tensor of a checkpoint."""

    name: str
    kind: str = ""
    """Format of the elements, as safetensors files name it; empty if no file of the checkpoint states shapes."""
    shape: tuple[int, ...] = ()
    """Elements per dimension [1]; empty if no file of the checkpoint states shapes."""

    @property
    def family(self) -> str:
        """Name of the tensor with ``N`` in place of numbers, which is equal for the same tensor of all layers."""
        return re.sub(r"\d+", "N", self.name.removeprefix("model."))

    @property
    def packed(self) -> bool:
        """True if one element contains several parameters."""
        return bool(self.kind) and not _PLAIN.fullmatch(self.kind)

    @property
    def parameters(self) -> int:
        """Number of parameters [1]; 0 if the shape is unknown."""
        return math.prod(self.shape) * _PACKED.get(self.kind, 1) if self.kind else 0

    @property
    def size(self) -> float:
        """Size of the tensor [B]. The name of a number format states its bits, except for booleans."""
        bits = re.search(r"\d+", self.kind)
        return math.prod(self.shape) * (integer(bits[0]) if bits else 8) / 8

    def part(self, layers: int) -> str:
        """Part of the model to which the tensor belongs.

        Layers from the number ``layers`` on are multi-token-prediction layers.
        """
        number = re.search(r"layers\.(\d+)\.", self.name)
        part = next((part for part, words in _PARTS if re.search(words, self.name)), "other")
        return "multi-token prediction" if number and integer(number[1]) >= layers and part != _PARTS[0][0] else part


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Tensors of a published model."""

    size: float | None
    """Total size [B], from the index or else from all headers; None if the folder has neither index nor headers."""
    elements: Mapping[tuple[str, str], int]
    """Number of parameters by part and tensor name, with ``N`` in place of numbers [1].

    A key is for example ``("attention", "layers.N.self_attn.q_proj.weight")``. The mapping is empty if no file contains
    shapes.
    """
    packed: int
    """Number of packed tensors [1]. The parameters of packed tensors are not in ``elements``."""
    tensors: tuple[Tensor, ...] = ()
    """All tensors except scales, with shapes if a file contains the shapes."""

    @property
    def parameters(self) -> dict[str, int]:
        """Parameters by part [1]."""
        parts: Counter[str] = Counter()
        for (part, _), count in self.elements.items():
            parts[part] += count
        return dict(parts)

    def apart(self, names: Collection[str]) -> Checkpoint:
        """Copy in which the tensors with these names belong to the part ``unknown``."""
        moved = {("unknown" if name in names else part, name): n for (part, name), n in self.elements.items()}
        return replace(self, elements=moved)


def checkpoint_beside(config: Path, layers: int) -> Checkpoint | None:
    """Checkpoint in the folder of a ``config.json``: an index or safetensors files; None if the folder has neither.

    Layers from the number ``layers`` on are multi-token-prediction layers, which parameter counts exclude.

    Raises
    ------
    InputError, SpecError
        If a file is not an index or safetensors file.
    """
    index = config.with_name(INDEX_NAME)
    if config.name != CONFIG_NAME:
        return None
    files = sorted(config.parent.glob("*.safetensors"))
    if not files and not index.is_file():
        return None
    size, places = None, {path.name: path.name for path in files}
    if index.is_file():
        data = read_json(index, _LARGEST_INDEX)
        metadata, places = data.get("metadata", {}), data.get("weight_map", ())
        if (
            not isinstance(metadata, dict)
            or not isinstance(places, dict)
            or not set(map(type, places.values())) <= {str}
        ):
            raise InputError(
                f"{index}: no index of a checkpoint: 'weight_map' must give each tensor the name of a file"
            )
        total = metadata.get("total_size")
        size = float(total) if isinstance(total, int | float) and total > 0 else None
    named = set(places.values())
    # The total is unknown if some of the files are missing.
    whole = [path for path in files if path.name in named] if named <= {path.name for path in files} else []
    tensors = [tensor for path in whole for tensor in _tensors(path)] if whole else [Tensor(name) for name in places]
    size = size or (sum(tensor.size for tensor in tensors) if whole else None)
    tensors = [tensor for tensor in tensors if not _BESIDE.search(tensor.name)]
    elements: Counter[tuple[str, str]] = Counter()
    for tensor in tensors if whole else ():
        elements[tensor.part(layers), tensor.family] += math.prod(tensor.shape)
    return Checkpoint(size, dict(elements), sum(tensor.packed for tensor in tensors), tuple(tensors))


def _tensors(path: Path) -> Iterator[Tensor]:
    """Tensors in the header of a safetensors file."""
    try:
        with open_file(path) as file:
            length = int.from_bytes(file.read(8), "little")
            data: Any = json.loads(file.read(length)) if 2 <= length <= _LARGEST else None
    except (OSError, ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise InputError(
            f"{path}: not a safetensors file: it does not start with the length of a header and the header"
        )
    for name, tensor in data.items():
        if name == "__metadata__":
            continue
        shape = tensor.get("shape") if isinstance(tensor, dict) else None
        if not isinstance(shape, list) or not all(isinstance(width, int) and width >= 0 for width in shape):
            raise InputError(f"{path}: no shape of the tensor {name!r} in its header")
        yield Tensor(name, str(tensor.get("dtype")), tuple(shape))
