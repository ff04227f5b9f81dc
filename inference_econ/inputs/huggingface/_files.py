"""Files of a published model: JSON files, and headers of safetensors and GGUF files.

The first eight bytes of a safetensors file are the length of a JSON object with the format and shape of each tensor
(https://github.com/huggingface/safetensors). The tensor data after this header are not read, so they may be missing.
The index, ``model.safetensors.index.json``, has tensor names and the total size, but no shapes.

A GGUF file starts with ``GGUF``, a version, and the numbers of tensors and metadata entries. The metadata follow, and
then the names and shapes of tensors (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). The tensor data at the
end of the file are not read.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from inference_econ.errors import InputError, SpecError, UnknownNameError
from inference_econ.inputs.dtype import OF_FILES
from inference_econ.inputs.name_matching import format_of_quantization
from inference_econ.inputs.places import open_file, read_text
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

    For ``ORGANIZATION--NAME_config.json``, the file is called ``ORGANIZATION--NAME_hf_quant_config.json``.
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
        raise SpecError(f"{path}:1: not a text file in UTF-8 ({error.reason})") from error
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
            raise SpecError(*[f"{path}: {key!r} is given twice; keep one" for key in repeated])
        return dict(pairs)

    try:
        data = json.loads(text, object_pairs_hook=distinct)
    except json.JSONDecodeError as error:
        raise SpecError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from error
    except RecursionError as error:
        raise SpecError(f"{path}:1: nested too deep for a configuration") from error
    except ValueError as error:  # an integer with thousands of digits
        raise SpecError(f"{path}:1: not valid JSON: {str(error).partition(';')[0]}") from error
    if not isinstance(data, dict):
        raise SpecError(f"{path}:1: a JSON object is needed, found {type(data).__name__}")
    return data


#: Hugging Face id; each part has at most 96 characters.
_IDENTITY = re.compile(r"[\w-][\w.-]{0,95}/[\w-][\w.-]{0,95}")


def is_identity(text: str) -> bool:
    """True if a text has the form of a Hugging Face id, ``ORGANIZATION/NAME``.

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
        ``ORGANIZATION/NAME``; case is ignored.
    cache : Path
        Folder of the cache with ``models--ORGANIZATION--NAME/snapshots/COMMIT/config.json`` (documentation of the hub,
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


#: Maximum header size [B]. A vocabulary of 262,144 words takes about 20 MB.
_MOST_BYTES = 100_000_000
#: Longest text that is kept [B]. Longer texts are skipped.
_MOST_TEXT = 1_000_000
#: Type codes of numbers in metadata. The code 8 is a text, and 9 is an array.
_NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_TEXT, _ARRAY = 8, 9
#: Quantizations by ``general.file_type`` (llama.cpp, include/llama.h). Current versions of llama.cpp no longer write
#: the values 4 to 6.
_FILE_TYPES = (
    *("F32", "F16", "Q4_0", "Q4_1", "", "", "", "Q8_0", "Q5_0", "Q5_1", "Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S"),
    *("Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K", "IQ2_XXS", "IQ2_XS", "Q2_K_S", "IQ3_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL"),
    *("IQ3_S", "IQ3_M", "IQ2_S", "IQ2_M", "IQ4_XS", "IQ1_M", "BF16", "", "", "", "TQ1_0", "TQ2_0", "MXFP4"),
)
#: Family and class name by ``general.architecture``. A ``llama`` file with experts is read as Mixtral.
_FAMILIES: Mapping[str, tuple[str, str]] = {
    "llama": ("llama", "LlamaForCausalLM"),
    "qwen2": ("qwen2", "Qwen2ForCausalLM"),
    "qwen3": ("qwen3", "Qwen3ForCausalLM"),
    "qwen3moe": ("qwen3_moe", "Qwen3MoeForCausalLM"),
    "gemma2": ("gemma2", "Gemma2ForCausalLM"),
    "gemma3": ("gemma3_text", "Gemma3ForCausalLM"),
    "phi3": ("phi3", "Phi3ForCausalLM"),
    "gpt-oss": ("gpt_oss", "GptOssForCausalLM"),
}
_MIXTRAL = ("mixtral", "MixtralForCausalLM")
#: Keys of a published configuration, by the metadata key without the name of the architecture.
_KEYS: Mapping[str, str] = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "context_length": "max_position_embeddings",
    "vocab_size": "vocab_size",
    "expert_used_count": "num_experts_per_tok",
}
#: Families with a sliding window.
_WINDOWED = ("gemma2", "gemma3_text", "phi3", "gpt_oss")
_EXPERT_COUNT = {"mixtral": "num_local_experts", "gpt_oss": "num_local_experts", "qwen3_moe": "num_experts"}
_EXPERT_WIDTH = {"gpt_oss": "intermediate_size", "qwen3_moe": "moe_intermediate_size"}


def gguf_configuration(path: Path) -> tuple[dict[str, Any], str]:
    """Configuration of the model in a GGUF file, and the number format of its weights.

    Raises
    ------
    InputError, SpecError
        If the file cannot be read, is not a GGUF file, or has an unknown architecture or quantization.
    """
    try:
        status = path.stat()
        metadata, tensors = _header(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    name = metadata.get("general.architecture")
    if name is None:
        raise SpecError(f"{path}: general.architecture is missing; of several parts give the first")
    if not isinstance(name, str) or name not in _FAMILIES:
        raise SpecError(f"{path}: the architecture {name!r} is not understood; understood: {', '.join(_FAMILIES)}")
    experts = metadata.get(f"{name}.expert_count", 0)
    family, published = _MIXTRAL if name == "llama" and experts else _FAMILIES[name]
    config = {key: metadata.get(f"{name}.{inner}") for inner, key in _KEYS.items()}
    for key, value in config.items():
        if isinstance(value, list):  # one value for each layer
            if len(set(value)) != 1:
                raise SpecError(f"{path}: {key} differs from layer to layer, which is not understood")
            config[key] = value[0]
    config |= {"model_type": family, "architectures": [published]}
    if config["vocab_size"] is None:
        config["vocab_size"] = metadata.get("tokenizer.ggml.tokens")
    if family in _WINDOWED:
        config["sliding_window"] = metadata.get(f"{name}.attention.sliding_window")
    if experts:
        config[_EXPERT_COUNT.get(family, "num_experts")] = experts
    if family in _EXPERT_WIDTH:
        config[_EXPERT_WIDTH[family]] = metadata.get(f"{name}.expert_feed_forward_length")
    if metadata.get("split.count") in (None, 0, 1):  # other files have only some of the tensors
        config["tie_word_embeddings"] = "output.weight" not in tensors
    if family == "llama":
        config["attention_bias"] = "blk.0.attn_q.bias" in tensors
    code = metadata.get("general.file_type")
    if not isinstance(code, int) or not 0 <= code < len(_FILE_TYPES) or not _FILE_TYPES[code]:
        raise SpecError(f"{path}: general.file_type is {code!r}, which is not a known quantization")
    try:
        dtype = format_of_quantization(_FILE_TYPES[code])
    except UnknownNameError as error:
        raise UnknownNameError(f"{path}: {error}") from error
    if dtype not in {*OF_FILES, "bf16", "fp16", "fp32"} and family != "gpt_oss":
        raise SpecError(f"{path}: weights in {dtype} are understood in files of gpt-oss only")
    return {key: value for key, value in config.items() if value is not None}, dtype


@lru_cache(maxsize=8)
def _header(path: Path, changed: int, size: int) -> tuple[dict[str, Any], frozenset[str]]:
    """Metadata and tensor names of a file, cached until the file changes.

    Arrays of texts are replaced by their length.
    """
    del changed, size
    with open_file(path) as stream:
        reader = _HeaderReader(stream, path)
        if stream.read(4) != b"GGUF":
            raise SpecError(f"{path}: not a GGUF file: it does not start with 'GGUF'")
        version = reader.number("I")
        if version not in (2, 3):
            raise SpecError(f"{path}: version {version} of GGUF is not understood; understood: 2 and 3, little-endian")
        tensors, count = reader.number("Q"), reader.number("Q")
        metadata: dict[str, Any] = {}
        for _ in range(count):
            key = reader.text()
            metadata[key] = reader.value(reader.number("I"))
        names = set()
        for _ in range(tensors):
            names.add(reader.text())
            reader.skip(8 * reader.number("I") + 12)  # number of dimensions, then type and position of the tensor
        return metadata, frozenset(names)


class _HeaderReader:
    """Reader of a file header up to the maximum header size."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self.stream, self.path = stream, path

    def take(self, size: int) -> bytes:
        """Read the next ``size`` bytes. An error is raised if the file is shorter."""
        if self.stream.tell() + size > _MOST_BYTES:
            raise SpecError(f"{self.path}: the header has more than {_MOST_BYTES / 1e6:.0f} MB; is the file damaged?")
        taken = self.stream.read(size)
        if len(taken) < size:
            raise SpecError(f"{self.path}: the file ends inside its header; download it again")
        return taken

    def skip(self, size: int) -> None:
        """Skip the next ``size`` bytes. An error is raised if the file is shorter."""
        for start in range(0, size, _MOST_TEXT):
            self.take(min(_MOST_TEXT, size - start))

    def number(self, code: str) -> Any:
        """Read a number, given its code in :mod:`struct`."""
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def text(self) -> str:
        """Read a text. A text that is too long is skipped, and an empty text is returned."""
        size = self.number("Q")
        if size > _MOST_TEXT:
            self.skip(size)
            return ""
        return self.take(size).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """Read a metadata value. Arrays of texts are replaced by their length."""
        if kind == _TEXT:
            return self.text()
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        inner = self.number("I") if kind == _ARRAY else kind
        if inner != _TEXT and inner not in _NUMBERS:
            raise SpecError(f"{self.path}: values of the type {inner} in its metadata are not understood")
        entries = self.number("Q")
        if inner == _TEXT:
            for _ in range(entries):
                self.skip(self.number("Q"))
            return entries
        width = struct.calcsize(f"<{_NUMBERS[inner]}")
        if entries * width > _MOST_TEXT:
            self.skip(entries * width)
            return None
        return list(struct.unpack(f"<{entries}{_NUMBERS[inner]}", self.take(entries * width)))
