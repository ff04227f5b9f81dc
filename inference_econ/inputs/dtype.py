"""Number formats: how many bytes an element takes, and on which maths unit it runs."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, cast

from inference_econ.errors import InputError


class Format(NamedTuple):
    """A number format, a row of ``formats.csv``."""

    kind: Literal["float", "int", "file"]
    """Kind of its elements; of files that have it throughout, embeddings included, and no cache does."""
    bits: float
    """Bits of an element without its scale [1]."""
    scale_bits: float
    """Bits of a scale, and of what stands beside it [1]."""
    group: tuple[int, ...]
    """Elements that share a scale: in a row, or in blocks of rows and columns [1]; empty where too many do to count."""
    units: tuple[str, ...]
    """Maths units that can run it, the narrowest first."""
    bare: str
    """Format of the same width without scales, where these are more than a hundredth of its bytes."""

    def bytes_in(self, group: tuple[int, ...]) -> float:
        """Stored bytes per element where so many elements share a scale [B]."""
        return self.bits / 8 + (self.scale_bits / 8 / math.prod(group) if group else 0.0)


#: Formats by name. 8-bit integers in groups, and files, are widened by every server (llama.cpp's products of 8-bit
#: integers are not counted); 4-bit ones have kernels for 8-bit activations too, and whether a server uses those is an
#: assumption (``math_unit_follows``). Scales are counted where they can be seen: one for a tensor or for each row of
#: it is nothing beside thousands of elements (fp8, int8, int4_channel, and NVFP4's second scale).
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
with Path(__file__).with_name("formats.csv").open(encoding="utf-8", newline="") as _table:
    FORMATS: Mapping[str, Format] = {
        row["format"]: Format(
            kind=cast("Literal['float', 'int', 'file']", row["kind"]),
            bits=float(row["bits"]),
            scale_bits=float(row["scale_bits"] or 0),
            group=tuple(map(int, filter(None, row["group"].split("x")))),
            units=tuple(row["units"].split()),
            bare=row["bare"],
        )
        for row in csv.DictReader(_table)
    }
#: Names of those in blocks or groups of a size of their own: ``fp8_block_64x64`` with scales of 32 bits, ``int4_g64``,
#: ``mxfp8_32x32`` with scales that are powers of two in 8 bits.
SIZED = re.compile(r"(fp8_block|mxfp8)_([1-9]\d{0,3})x([1-9]\d{0,3})|(int4|int8)_g([1-9]\d{0,3})")


def _sized(dtype: str) -> tuple[str, tuple[int, ...]] | None:
    """The kind of a format and the size that its name has; None of others."""
    match = None if dtype in FORMATS else SIZED.fullmatch(dtype)
    if match is None:
        return None
    kind, *sizes = (part for part in match.groups() if part)
    return kind, tuple(int(size) for size in sizes)


def is_format(dtype: str) -> bool:
    """Whether a number format is known, by its name or by the size in it."""
    return dtype in FORMATS or _sized(dtype) is not None


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
        return FORMATS[family(dtype)].bytes_in(sized[1])


#: Stored bytes per element [B].
BYTES_PER_ELEMENT: Mapping[str, float] = _Bytes({name: row.bytes_in(row.group) for name, row in FORMATS.items()})
#: What people call formats: AWQ (arXiv:2306.00978) and GPTQ (arXiv:2210.17323) have 4 bits in groups of 128 by default.
ALIASES: Mapping[str, str] = {"awq": "int4", "gptq": "int4", "int4_g128": "int4"}

#: Embeddings under a narrow format of weights: in 16 bits as engines and published checkpoints have them, or in the
#: same format, as studies count that have one width for all weights.
EmbeddingFormat = Literal["sixteen_bit", "as_weights"]

#: Formats of whole files.
OF_FILES = frozenset(name for name, row in FORMATS.items() if row.kind == "file")
#: The bare format of the same width, by format.
UNSCALED: Mapping[str, str] = {name: row.bare for name, row in FORMATS.items() if row.bare}


def block_width(dtype: str) -> int:
    """Width that may not be cut, as its elements share scales in two dimensions; 1 where it may be cut anywhere [1].

    Examples
    --------
    >>> block_width("fp8_block"), block_width("mxfp8_32x32"), block_width("mxfp8")
    (128, 32, 1)
    """
    sized = _sized(dtype)
    group = FORMATS[dtype].group if sized is None else sized[1]
    return max(group) if len(group) > 1 and group[0] > 1 else 1


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
    return [unit for unit in FORMATS[family(check_dtype(dtype, "number format"))].units if unit in peaks]


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
    possible = ", ".join(name for name in BYTES_PER_ELEMENT if _holds(name, peaks))
    why = "it is of files" if dtype in OF_FILES else f"it has no {FORMATS[family(dtype)].units[0]} units"
    raise InputError(f"{hardware_name} cannot hold a KV cache of {dtype}: {why}; kv can be {possible}")


def _holds(dtype: str, peaks: Mapping[str, float]) -> bool:
    if dtype.startswith("int") or dtype == "fp32":
        return True
    return dtype not in OF_FILES and FORMATS[family(dtype)].units[0] in peaks


#: Groups of chips that heads should go on splitting over where they did [1].
_GROUPS = (8, 4, 2, 1)
#: Widths keep the power of two that they are multiples of, up to this or a sixteenth of the width: block formats share
#: a scale per 128 columns, and the hidden size makes up for the rounding.
_COLUMNS, SHARE = 128, 16


def nearest(number: float, step: int) -> int:
    """The multiple of ``step`` nearest to a number, one at least."""
    return max(1, round(number / step)) * step


def heads(count: float, groups: float, ratio: float) -> int:
    """Heads, ``ratio`` times as many, in whole groups, that split over 8, 4 or 2 chips if they did.

    Examples
    --------
    >>> heads(64, 8, 1.26), heads(40, 10, 1.26), heads(71, 1, 1.26)
    (80, 50, 89)
    """
    kept = next(d for d in _GROUPS if not count % d and (not groups % d or not d % groups))
    return nearest(count * ratio, math.lcm(round(groups), kept))


def columns(width: float, ratio: float) -> int:
    """A width, ``ratio`` times as large, that is a multiple of a power of two that the old one was.

    Examples
    --------
    >>> columns(28672, 1.26), columns(2048, 1.26), columns(2880, 1.26)
    (35840, 2560, 3648)
    """
    return nearest(width * ratio, power_of_two(width, max(_COLUMNS, width / SHARE)))


def power_of_two(width: float, most: float) -> int:
    """The largest power of two, up to ``most``, that a width is a multiple of; 1 at least."""
    step = 1
    while not round(width) % (2 * step) and 2 * step <= most:
        step *= 2
    return step
