"""Reader of GGUF headers as configurations of published model families.

A GGUF file starts with ``GGUF``, a version, and the numbers of tensors and metadata entries. The metadata follow, and
then the names and shapes of tensors (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). The tensor data at the
end of the file are not read.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from inference_econ.errors import InputError, SpecError, UnknownNameError
from inference_econ.inputs.dtype import OF_FILES
from inference_econ.inputs.name_matching import format_of_quantization
from inference_econ.inputs.scope import open_file

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


def configuration(path: Path) -> tuple[dict[str, Any], str]:
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
        raise SpecError([f"{path}: general.architecture is missing; of several parts give the first"])
    if not isinstance(name, str) or name not in _FAMILIES:
        raise SpecError([f"{path}: the architecture {name!r} is not understood; understood: {', '.join(_FAMILIES)}"])
    experts = metadata.get(f"{name}.expert_count", 0)
    family, published = _MIXTRAL if name == "llama" and experts else _FAMILIES[name]
    config = {key: metadata.get(f"{name}.{inner}") for inner, key in _KEYS.items()}
    for key, value in config.items():
        if isinstance(value, list):  # one value for each layer
            if len(set(value)) != 1:
                raise SpecError([f"{path}: {key} differs from layer to layer, which is not understood"])
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
        raise SpecError([f"{path}: general.file_type is {code!r}, which is not a known quantization"])
    try:
        dtype = format_of_quantization(_FILE_TYPES[code])
    except UnknownNameError as error:
        raise UnknownNameError(f"{path}: {error}") from error
    if dtype not in {*OF_FILES, "bf16", "fp16", "fp32"} and family != "gpt_oss":
        raise SpecError([f"{path}: weights in {dtype} are understood in files of gpt-oss only"])
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
            raise SpecError([f"{path}: not a GGUF file: it does not start with 'GGUF'"])
        version = reader.number("I")
        if version not in (2, 3):
            raise SpecError(
                [f"{path}: version {version} of GGUF is not understood; understood: 2 and 3, little-endian"]
            )
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
            raise SpecError([f"{self.path}: the header has more than {_MOST_BYTES / 1e6:.0f} MB; is the file damaged?"])
        taken = self.stream.read(size)
        if len(taken) < size:
            raise SpecError([f"{self.path}: the file ends inside its header; download it again"])
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
            raise SpecError([f"{self.path}: values of the type {inner} in its metadata are not understood"])
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
