"""Contents of a checkpoint beside its configuration: names and shapes of its tensors, from safetensors headers.

The first eight bytes of such a file are the length of a JSON object, which gives each tensor its format and shape
(https://github.com/huggingface/safetensors); of what follows nothing is read, so that it may be missing.
``model.safetensors.index.json`` has names and the size of all, no shapes.
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

from inference_econ.errors import InputError
from inference_econ.inputs.huggingface._file import CONFIG_NAME, read_json

INDEX_NAME = "model.safetensors.index.json"
#: Largest header that the format allows [B].
_LARGEST = 100_000_000
#: Formats whose elements are parameters, one each; others are packed.
_PLAIN = re.compile(r"F64|F32|F16|BF16|F8_.*|I8")
#: Parameters in an element of formats that pack those of four bits [1].
_PACKED = {"U8": 2, "I32": 8, "I64": 16}
#: Largest index [B]: that of DeepSeek-V3 has 9 MB.
_LARGEST_INDEX = 100_000_000
#: Numbers beside weights in narrow formats, and tables of positions: no parameters.
_BESIDE = re.compile(
    r"(scale|scale_inv|scales|scale_\d|zeros|qzeros|g_idx|inv_freq|zero_point|weight_shape|correction_bias)$"
)
#: Parts that no count of a model has.
OUTSIDE = frozenset({"beside the text", "multi-token prediction"})
#: Parts of a count by words in the names of tensors; the first that is found.
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
    """A tensor of a checkpoint."""

    name: str
    kind: str = ""
    """Format of the elements, as safetensors files call it; empty without a file that has shapes."""
    shape: tuple[int, ...] = ()
    """Widths [1]; empty without a file that has shapes."""

    @property
    def family(self) -> str:
        """Its name with ``N`` for numbers, which equal layers have in common."""
        return re.sub(r"\d+", "N", self.name.removeprefix("model."))

    @property
    def packed(self) -> bool:
        """An element holds several parameters."""
        return bool(self.kind) and not _PLAIN.fullmatch(self.kind)

    @property
    def parameters(self) -> int:
        """Parameters that it holds [1]; 0 if its shape is not known."""
        return math.prod(self.shape) * _PACKED.get(self.kind, 1) if self.kind else 0

    @property
    def size(self) -> float:
        """Bytes that it takes [B]: names of formats hold their bits, but for that of truth values."""
        bits = re.search(r"\d+", self.kind)
        return math.prod(self.shape) * (int(bits[0]) if bits else 8) / 8

    def part(self, layers: int) -> str:
        """The part of a count that it belongs to; layers from the number ``layers`` on predict further tokens."""
        number = re.search(r"layers\.(\d+)\.", self.name)
        part = next((part for part, words in _PARTS if re.search(words, self.name)), "other")
        return "multi-token prediction" if number and int(number[1]) >= layers and part != _PARTS[0][0] else part


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The tensors of a published model."""

    size: float | None
    """Size of all tensors, as the index or else all headers state [B]; None without either."""
    elements: Mapping[tuple[str, str], int]
    """Parameters by part and name, with ``N`` for numbers: ``("attention", "layers.N.self_attn.q_proj.weight")`` [1].
    Empty without a file that has shapes."""
    packed: int
    """Tensors whose elements hold several parameters, which are not counted [1]."""
    tensors: tuple[Tensor, ...] = ()
    """All tensors but numbers beside weights, with shapes if a file has them."""

    @property
    def parameters(self) -> dict[str, int]:
        """Parameters by part [1]."""
        parts: Counter[str] = Counter()
        for (part, _), count in self.elements.items():
            parts[part] += count
        return dict(parts)

    def apart(self, names: Collection[str]) -> Checkpoint:
        """Checkpoint where tensors of some families are of the part ``unknown``."""
        moved = {("unknown" if name in names else part, name): n for (part, name), n in self.elements.items()}
        return replace(self, elements=moved)


def checkpoint_beside(config: Path, layers: int) -> Checkpoint | None:
    """Checkpoint beside a ``config.json``: an index, or safetensors files; None without both.

    Layers from the number ``layers`` on predict further tokens, which no count of a model has.

    Raises
    ------
    InputError, SpecError
        If a file is no index, or no safetensors file.
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
    # A part of the files says nothing of the whole.
    whole = [path for path in files if path.name in named] if named <= {path.name for path in files} else []
    tensors = [tensor for path in whole for tensor in _tensors(path)] if whole else [Tensor(name) for name in places]
    size = size or (sum(tensor.size for tensor in tensors) if whole else None)
    tensors = [tensor for tensor in tensors if not _BESIDE.search(tensor.name)]
    elements: Counter[tuple[str, str]] = Counter()
    for tensor in tensors if whole else ():
        elements[tensor.part(layers), tensor.family] += math.prod(tensor.shape)
    return Checkpoint(size, dict(elements), sum(tensor.packed for tensor in tensors), tuple(tensors))


def _tensors(path: Path) -> Iterator[Tensor]:
    """The tensors of a file."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            data: Any = json.loads(file.read(length)) if 2 <= length <= _LARGEST else None
    except (OSError, ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise InputError(f"{path}: no safetensors file: it does not begin with the length of a header and the header")
    for name, tensor in data.items():
        if name == "__metadata__":
            continue
        shape = tensor.get("shape") if isinstance(tensor, dict) else None
        if not isinstance(shape, list) or not all(isinstance(width, int) and width >= 0 for width in shape):
            raise InputError(f"{path}: no shape of the tensor {name!r} in its header")
        yield Tensor(name, str(tensor.get("dtype")), tuple(shape))
