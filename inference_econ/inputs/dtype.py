"""Number formats: how many bytes an element takes, and on which maths unit it runs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Literal

from inference_econ.errors import InputError

#: Formats whose elements share a scale in blocks of rows and columns, or in groups in a row: bytes of an element
#: without its scale, and of a scale [B].
_SCALED: Mapping[str, tuple[float, float]] = {
    "fp8_block": (1.0, 4.0),
    "mxfp8": (1.0, 1.0),
    "int4": (0.5, 2.0),
    "int8": (1.0, 2.0),
}
#: Names of those in blocks or groups of a size of their own: ``fp8_block_64x64`` with scales of 32 bits, ``int4_g64``,
#: ``mxfp8_32x32`` with scales that are powers of two in 8 bits.
SIZED = re.compile(r"(fp8_block|mxfp8)_([1-9]\d{0,3})x([1-9]\d{0,3})|(int4|int8)_g([1-9]\d{0,3})")


def _sized(dtype: str) -> tuple[str, tuple[int, ...]] | None:
    """The kind of a format and the size that its name has; None of others."""
    match = None if dtype in BYTES_PER_ELEMENT else SIZED.fullmatch(dtype)
    if match is None:
        return None
    kind, *sizes = (part for part in match.groups() if part)
    return kind, tuple(int(size) for size in sizes)


def is_format(dtype: str) -> bool:
    """Whether a number format is known, by its name or by the size in it."""
    return dtype in BYTES_PER_ELEMENT or _sized(dtype) is not None


def family(dtype: str) -> str:
    """The format whose kernels run one in blocks or groups of another size; any other format is its own.

    Examples
    --------
    >>> family("mxfp8_32x32"), family("int4_g64"), family("int4_g32")
    ('mxfp8', 'int4', 'int4_g32')
    """
    sized = _sized(dtype)
    return dtype if sized is None else {"int8": "int8_g128"}.get(sized[0], sized[0])


class _Bytes(dict[str, float]):
    """Bytes of an element, also of formats that have the size of their blocks or groups in their name [B]."""

    def __missing__(self, dtype: str) -> float:
        sized = _sized(dtype)
        if sized is None:
            raise KeyError(dtype)
        bare, scale = _SCALED[sized[0]]
        return bare + scale / math.prod(sized[1])


#: What people call formats: AWQ (arXiv:2306.00978) and GPTQ (arXiv:2210.17323) have 4 bits in groups of 128 by default.
ALIASES: Mapping[str, str] = {"awq": "int4", "gptq": "int4", "int4_g128": "int4"}

#: Embeddings under a narrow format of weights: in 16 bits as engines and published checkpoints have them, or in the
#: same format, as studies count that have one width for all weights.
EmbeddingFormat = Literal["sixteen_bit", "as_weights"]

#: Stored bytes per element, scales included where they can be seen: one scale for a tensor or for each row
#: of it is nothing beside thousands of elements (fp8, int8, int4_channel, and NVFP4's second scale).
#:
#: - fp8_block: a 32-bit scale per 128 x 128 elements (DeepSeek-V3, arXiv:2412.19437, section 3.3).
#: - mxfp8, mxfp4: an 8-bit scale per 32 elements (OCP Microscaling Formats v1.0, section 5).
#: - nvfp4: an 8-bit scale per 16 elements (NVIDIA, NVFP4 format description).
#: - int4, int8_g128: a 16-bit scale per 128 elements, the default group of GPTQ (arXiv:2210.17323) and AWQ
#:   (arXiv:2306.00978). Zero points are not counted: symmetric files need none, and AWQ's of 4 bits per group
#:   are 0.8 % of its bytes.
#: - int4_g32: a 16-bit scale per 32 elements, symmetric (Kimi K2 Thinking).
#: - fp4: bare, for studies that count four bits and no scales; so does int4_channel.
#: - q2_k to q8_0: GGUF files of llama.cpp, whose mixtures hold some tensors wider: mean bits of Llama 3.1 8B,
#:   embeddings included (its tools/quantize/README.md; 4.887 and 4.912 of Q4_K_M at 70B and 405B). Q6_K and Q8_0 are
#:   blocks of 256 and 32 elements in 210 and 34 bytes (gguf-py, GGML_QUANT_SIZES).
#: - mlx_4bit, mlx_8bit: a 16-bit scale and a bias per 64 elements (mlx_lm 0.32.2, quantize_model: affine).
BYTES_PER_ELEMENT: Mapping[str, float] = _Bytes(
    {
        "fp32": 4.0,
        "bf16": 2.0,
        "fp16": 2.0,
        "fp8": 1.0,
        "fp8_block": 1.0 + 4 / (128 * 128),
        "mxfp8": 1.0 + 1 / 32,
        "int8": 1.0,
        "int8_g128": 1.0 + 2 / 128,
        "fp4": 0.5,
        "mxfp4": 0.5 + 1 / 32,
        "nvfp4": 0.5 + 1 / 16,
        "int4": 0.5 + 2 / 128,
        "int4_g32": 0.5 + 2 / 32,
        "int4_channel": 0.5,
        "q2_k": 3.1593 / 8,
        "q3_k_m": 3.9960 / 8,
        "q4_k_m": 4.8944 / 8,
        "q5_k_m": 5.7036 / 8,
        "q6_k": 210 / 256,
        "q8_0": 34 / 32,
        "mlx_4bit": 0.5 + 4 / 64,
        "mlx_8bit": 1.0 + 4 / 64,
    }
)

#: Formats of whole files: embeddings have them too, and no cache does.
OF_FILES = frozenset({"q2_k", "q3_k_m", "q4_k_m", "q5_k_m", "q6_k", "q8_0", "mlx_4bit", "mlx_8bit"})

#: The bare format of the same width, where scales are more than a hundredth of a format's bytes.
UNSCALED: Mapping[str, str] = {
    "mxfp8": "fp8",
    "int8_g128": "int8",
    "mxfp4": "fp4",
    "nvfp4": "fp4",
    "int4": "int4_channel",
    "int4_g32": "int4_channel",
}

_SIXTEEN_BIT = ("bf16", "fp16")
#: Maths units that can run a format, the narrowest first. A 16-bit format has one choice only. 8-bit integers
#: in groups, and files, are widened by every server (llama.cpp's products of 8-bit integers are not counted);
#: 4-bit ones have kernels for 8-bit activations too, and whether a server uses those is an assumption
#: (``math_unit_follows``).
_UNITS: Mapping[str, tuple[str, ...]] = {
    "fp32": ("fp32",),
    "bf16": ("bf16",),
    "fp16": ("fp16",),
    "fp8": ("fp8", *_SIXTEEN_BIT),
    "fp8_block": ("fp8", *_SIXTEEN_BIT),
    "mxfp8": ("fp8", *_SIXTEEN_BIT),
    "int8": ("int8", *_SIXTEEN_BIT),
    "int8_g128": _SIXTEEN_BIT,
    "fp4": ("fp4", "fp8", *_SIXTEEN_BIT),
    "mxfp4": ("fp4", "fp8", *_SIXTEEN_BIT),
    "nvfp4": ("fp4", "fp8", *_SIXTEEN_BIT),
    "int4": ("int4", "int8", *_SIXTEEN_BIT),
    "int4_g32": ("int4", "int8", *_SIXTEEN_BIT),
    "int4_channel": ("int4", "int8", *_SIXTEEN_BIT),
    **dict.fromkeys(sorted(OF_FILES), _SIXTEEN_BIT),
}


def block_width(dtype: str) -> int:
    """Width that may not be cut, as its elements share scales in two dimensions; 1 where it may be cut anywhere [1].

    Examples
    --------
    >>> block_width("fp8_block"), block_width("mxfp8_32x32"), block_width("mxfp8")
    (128, 32, 1)
    """
    if dtype == "fp8_block":
        return 128
    sized = _sized(dtype)
    return max(sized[1]) if sized is not None and len(sized[1]) > 1 and sized[1][0] > 1 else 1


def check_dtype(name: str, role: str) -> str:
    """Return ``name``, or the format that people call so, if it is a known one.

    Raises
    ------
    InputError
        Naming the role (weights, activations, kv) and the known formats.
    """
    name = ALIASES.get(name, name)
    if not is_format(name):
        raise InputError(f"{role}: unknown number format {name!r}; known: {', '.join(BYTES_PER_ELEMENT)}")
    return name


def math_unit(dtype: str, peaks: Mapping[str, float], hardware_name: str) -> str:
    """The maths unit that a format runs on: its own, or else the next wider one.

    Parameters
    ----------
    dtype : str
        A key of :data:`BYTES_PER_ELEMENT`.
    peaks : mapping
        Dense peak of each maths unit of the chip [FLOP/s].
    hardware_name : str
        For the message.

    Returns
    -------
    str
        A key of ``peaks``.

    Raises
    ------
    InputError
        If the chip has no unit that is wide enough.

    Examples
    --------
    >>> math_unit("fp8", {"bf16": 312e12, "int8": 624e12}, "A100")
    'bf16'
    """
    units = math_units(dtype, peaks)
    if units:
        return units[0]
    raise InputError(
        f"{hardware_name} has no peak for {dtype} nor for a wider one of its kind; it has: {', '.join(peaks)}; "
        "name one of them as the format of weights and activations"
    )


def math_units(dtype: str, peaks: Mapping[str, float]) -> list[str]:
    """The maths units of a chip that can run a format, the narrowest first; none if it has no such unit.

    Examples
    --------
    >>> math_units("int4", {"bf16": 2250e12, "fp8": 4500e12, "int8": 153e12})
    ['int8', 'bf16']
    """
    return [unit for unit in _UNITS[family(check_dtype(dtype, "number format"))] if unit in peaks]


def check_cache_dtype(dtype: str, peaks: Mapping[str, float], hardware_name: str) -> str:
    """Return ``dtype`` if a chip can hold a KV cache in it.

    Every chip unpacks integers. Floats of 8 and 4 bits are converted by the chips that compute with them, and by no
    kernel of the engines on others; of the 16-bit formats, too, a chip holds those that it computes with.

    Parameters
    ----------
    dtype : str
        A key of :data:`BYTES_PER_ELEMENT`.
    peaks : mapping
        Dense peak of each maths unit of the chip [FLOP/s].
    hardware_name : str
        For the message.

    Raises
    ------
    InputError
        With the formats that the chip can hold.

    Examples
    --------
    >>> check_cache_dtype("int8", {"bf16": 312e12, "int8": 624e12}, "A100")
    'int8'
    """
    if _holds(check_dtype(dtype, "kv"), peaks):
        return dtype
    held = ", ".join(name for name in BYTES_PER_ELEMENT if _holds(name, peaks))
    why = "it is of files" if dtype in OF_FILES else f"it has no {_UNITS[family(dtype)][0]} units"
    raise InputError(f"{hardware_name} cannot hold a KV cache of {dtype}: {why}; kv can be {held}")


def _holds(dtype: str, peaks: Mapping[str, float]) -> bool:
    return dtype.startswith("int") or dtype == "fp32" or (dtype not in OF_FILES and _UNITS[family(dtype)][0] in peaks)
