"""Number formats: bytes per element, and the math units that can process them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from inference_econ.errors import InputError
from inference_econ.inputs.options import rows
from inference_econ.inputs.units import integer


class Format(NamedTuple):
    """Number format, a row of ``formats.csv``."""

    kind: Literal["float", "int", "file"]
    """Kind of elements. A format of kind ``file`` applies to all weights in a file, including embeddings; KV caches
    cannot use it."""
    bits: float
    """Bits per element, without the scale [1]."""
    scale_bits: float
    """Bits of one scale, plus the zero point or bias stored with it [1]."""
    group: tuple[int, ...]
    """Number of elements that share a scale: per row, or rows and columns of a block [1].

    The tuple is empty if scales are negligible.
    """
    units: tuple[str, ...]
    """Math units that can process the format, the narrowest first."""
    bare: str
    """Format of the same width without scales; set if scales take more than 1% of the bytes."""

    def bytes_in(self, group: tuple[int, ...]) -> float:
        """Bytes per element if ``group`` elements share a scale [B]."""
        return self.bits / 8 + (self.scale_bits / 8 / math.prod(group) if group else 0.0)


#: Formats by name. Servers convert groups of 8-bit integers, and GGUF and MLX files, to 16 bits before the arithmetic.
#: Products of 8-bit integers in llama.cpp are not modeled. For 4-bit integers, kernels with 8-bit activations also
#: exist; the assumption ``math_unit_follows`` states whether a server uses them. Scales take memory only in the formats
#: listed below. In other formats (fp8, int8, int4_channel), one scale per tensor or row is negligible, and so is the
#: second scale of NVFP4.
#:
#: - fp8_block: a 32-bit scale per 128 x 128 elements (DeepSeek-V3, arXiv:2412.19437, section 3.3).
#: - mxfp8, mxfp4: an 8-bit scale per 32 elements (OCP Microscaling Formats v1.0, section 5).
#: - nvfp4: an 8-bit scale per 16 elements (NVIDIA, NVFP4 format description).
#: - int4, int8_g128: a 16-bit scale per 128 elements, the default group of GPTQ (arXiv:2210.17323) and AWQ
#:   (arXiv:2306.00978). Zero points are omitted: symmetric files have none, and AWQ's 4 bits per group are 0.8 %
#:   of its bytes.
#: - int4_g32: a 16-bit scale per 32 elements, symmetric (Kimi K2 Thinking).
#: - fp4: four bits without scales, as some studies assume; the same for int4_channel.
#: - q2_k to q8_0: GGUF files of llama.cpp, which store some tensors wider. Bits are means of Llama 3.1 8B including
#:   embeddings (its tools/quantize/README.md; Q4_K_M has 4.887 and 4.912 at 70B and 405B). Q6_K and Q8_0 are blocks
#:   of 256 and 32 elements in 210 and 34 bytes (gguf-py, GGML_QUANT_SIZES).
#: - mlx_4bit, mlx_8bit: a 16-bit scale and a bias per 64 elements (mlx_lm 0.32.2, quantize_model: affine).
FORMATS: Mapping[str, Format] = {
    row["format"]: Format(
        kind=row["kind"],
        bits=float(row["bits"]),
        scale_bits=float(row["scale_bits"] or 0),
        group=tuple(map(int, filter(None, row["group"].split("x")))),
        units=tuple(row["units"].split()),
        bare=row["bare"],
    )
    for row in rows(Path(__file__).with_name("formats.csv"))
}
#: Pattern of format names with a block or group size: ``fp8_block_64x64`` (32-bit scales), ``int4_g64``,
#: ``mxfp8_32x32`` (8-bit power-of-two scales).
SIZED = re.compile(r"(fp8_block|mxfp8)_([1-9]\d{0,3})x([1-9]\d{0,3})|(int4|int8)_g([1-9]\d{0,3})")


def _sized(dtype: str) -> tuple[str, tuple[int, ...]] | None:
    """Base format, and block or group size, of a name such as ``int4_g64``; None for names without a size."""
    match = None if dtype in FORMATS else SIZED.fullmatch(dtype)
    if match is None:
        return None
    kind, *sizes = (part for part in match.groups() if part)
    return kind, tuple(map(integer, sizes))


def is_format(dtype: str) -> bool:
    """True if a number format is known, including names with a block or group size."""
    return dtype in FORMATS or _sized(dtype) is not None


def family(dtype: str) -> str:
    """Format whose kernels process ``dtype``: the same kind of format with the default block or group size.

    Formats listed in ``formats.csv`` are returned unchanged.

    Examples
    --------
    >>> family("mxfp8_32x32"), family("int4_g64"), family("int4_g32")
    ('mxfp8', 'int4', 'int4_g32')
    """
    sized = _sized(dtype)
    return dtype if sized is None else {"int8": "int8_g128"}.get(sized[0], sized[0])


class _Bytes(dict[str, float]):
    """Bytes per element by format, including formats with a block or group size [B]."""

    def __missing__(self, dtype: str) -> float:
        sized = _sized(dtype)
        if sized is None:
            raise KeyError(dtype)
        return FORMATS[family(dtype)].bytes_in(sized[1])


#: Stored bytes per element [B].
BYTES_PER_ELEMENT: Mapping[str, float] = _Bytes({name: row.bytes_in(row.group) for name, row in FORMATS.items()})
#: Other names of formats. AWQ (arXiv:2306.00978) and GPTQ (arXiv:2210.17323) use 4 bits in groups of 128 by default.
ALIASES: Mapping[str, str] = {"awq": "int4", "gptq": "int4", "int4_g128": "int4"}

#: Format of embeddings if the weights are narrower than 16 bits: 16 bits, as in engines and published checkpoints, or
#: the format of the weights, as in some studies.
EmbeddingFormat = Literal["sixteen_bit", "as_weights"]

#: Formats that apply to full files.
OF_FILES = frozenset(name for name, row in FORMATS.items() if row.kind == "file")
#: Formats of the same width without scales, by format.
UNSCALED: Mapping[str, str] = {name: row.bare for name, row in FORMATS.items() if row.bare}


def block_width(dtype: str) -> int:
    """Smallest width of a matrix on one rank: the size of a block whose elements share a scale; 1 without blocks [1].

    Examples
    --------
    >>> block_width("fp8_block"), block_width("mxfp8_32x32"), block_width("mxfp8")
    (128, 32, 1)
    """
    sized = _sized(dtype)
    group = FORMATS[dtype].group if sized is None else sized[1]
    return max(group) if len(group) > 1 and group[0] > 1 else 1


def check_dtype(name: str, role: str) -> str:
    """Canonical name of a number format, given its name or a common name.

    Raises
    ------
    InputError
        If the format is unknown; the message names the role (weights, activations, kv) and the known formats.
    """
    name = ALIASES.get(name, name)
    if not is_format(name):
        raise InputError(f"{role}: unknown number format {name!r}; known: {', '.join(BYTES_PER_ELEMENT)}")
    return name


def math_unit(dtype: str, peaks: Mapping[str, float], hardware_name: str) -> str:
    """Math unit that processes a format on a chip: the unit of the same format, or else the next wider unit.

    Parameters
    ----------
    dtype : str
        A key of :data:`BYTES_PER_ELEMENT`.
    peaks : mapping
        Dense peak of each math unit of the chip [FLOP/s].
    hardware_name : str
        Name of the chip in messages.

    Returns
    -------
    str
        Math unit, as a key of ``peaks``.

    Raises
    ------
    InputError
        If no math unit of the chip is wide enough.

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
    """Math units of a chip that can process a format, the narrowest first; empty if the chip has none.

    Examples
    --------
    >>> math_units("int4", {"bf16": 2250e12, "fp8": 4500e12, "int8": 153e12})
    ['int8', 'bf16']
    """
    return [unit for unit in FORMATS[family(check_dtype(dtype, "number format"))].units if unit in peaks]


def check_cache_dtype(dtype: str, peaks: Mapping[str, float], hardware_name: str) -> str:
    """Check that a chip supports a KV-cache format, and return the format.

    Every chip can unpack integers. Floats of 8 and 4 bits require math units of the same format, because engines have
    no conversion kernels for other chips. Caches with 16-bit formats require a 16-bit math unit.

    Parameters
    ----------
    dtype : str
        A key of :data:`BYTES_PER_ELEMENT`.
    peaks : mapping
        Dense peak of each math unit of the chip [FLOP/s].
    hardware_name : str
        Name of the chip in messages.

    Raises
    ------
    InputError
        If the chip does not support the format; the message lists the supported ones.

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


#: Divisors of head counts [1]. A scaled head count keeps the largest divisor of the original count in this list that
#: also divides the number of groups or is a multiple of it.
_GROUPS = (8, 4, 2, 1)
#: A scaled width keeps the largest power of two that divides the original width, up to this limit: 128, or a sixteenth
#: of the width if that is more. Block formats need the 128, because they share a scale per 128 columns. The hidden size
#: compensates for the rounding.
_COLUMNS, SHARE = 128, 16


def nearest(number: float, step: int) -> int:
    """Multiple of ``step`` nearest to a number, and at least one ``step``."""
    return max(1, round(number / step)) * step


def heads(count: float, groups: float, ratio: float) -> int:
    """Head count multiplied by ``ratio`` and rounded to full groups.

    The result stays divisible by 8, 4 or 2 if ``count`` is, and if that divisor divides the number of groups or is a
    multiple of it.

    Examples
    --------
    >>> heads(64, 8, 1.26), heads(40, 10, 1.26), heads(71, 1, 1.26)
    (80, 50, 89)
    """
    kept = next(d for d in _GROUPS if not count % d and (not groups % d or not d % groups))
    return nearest(count * ratio, math.lcm(round(groups), kept))


def columns(width: float, ratio: float) -> int:
    """Width multiplied by ``ratio`` and rounded.

    A power of two that divides ``width`` also divides the result, up to a limit.

    Examples
    --------
    >>> columns(28672, 1.26), columns(2048, 1.26), columns(2880, 1.26)
    (35840, 2560, 3648)
    """
    return nearest(width * ratio, power_of_two(width, max(_COLUMNS, width / SHARE)))


def power_of_two(width: float, most: float) -> int:
    """Largest power of two that divides a width, but at most ``most``."""
    step = 1
    while not round(width) % (2 * step) and 2 * step <= most:
        step *= 2
    return step
