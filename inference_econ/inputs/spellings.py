"""Spellings of models, chips and number formats: what counts of a text, and what does not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inference_econ.inputs.dtype import FORMATS, family

#: Endings of a model's name that leave its architecture alone.
_ENDING = re.compile(
    r"[-_ .]+(?:instruct|chat|base|it|hf|preview|thinking|dynamic|quantized|bf16|fp16|fp8|fp4|nvfp4|mxfp4|mxfp8|int4|"
    r"int8|awq|gptq|kv|block|eagle3?|tensor|online|turbo|w\d+a\d+(?:kv\d+)?|\d{4}|v\d+(?:\.\d+)*|bnb|\dbit|gguf|mtp|"
    r"w|a)$"
)
_PARENTHESES = re.compile(r"\([^)]*\)")
#: Words of a chip's name that do not tell it from others.
_NOISE = re.compile(
    r"nvidia|amd|intel|google|aws|geforce|tesla|instinct|gpus?|tensor|core|superchip|accelerator|edition|hgx|dgxc?|oam|"
    r"hbm2e?|hbm3e?|gddr\dx?|cloud|baseboard|slurm|nv|nvd|nb|cw|cr|tw|tg|oci"
)
_MEMORY = re.compile(r"^(\d+)g(?:b|ib)?$")
_UNIT = re.compile(r"(\d) (gi?b)\b")
_FORM = re.compile(r"^sxm\d$")

#: Number formats by the texts that give them away, the most telling ones first.
_FORMATS = (
    ("nvfp4", ("nvfp4",)),
    ("mxfp4", ("mxfp4",)),
    ("mxfp8", ("mxfp8",)),
    ("fp8_block", ("fp8_block", "fp8 block", "blockwise fp8")),
    ("fp8", ("fp8", "e4m3", "float8")),
    ("int8", ("int8", "w8a8", "w8a16", "8bit")),
    ("int4", ("int4", "w4a", "awq", "gptq", "4bit", "bnb")),
    ("fp4", ("fp4",)),
    ("bf16", ("bf16", "bfloat16")),
    ("fp16", ("fp16", "float16", "half")),
    ("fp32", ("fp32", "float32")),
)
#: In names of checkpoints whose weights have a width of their own.
_OTHER_WIDTH = re.compile(r"\dbit|w\d+a\d+")
_FOUR_BITS = frozenset(name for name, row in FORMATS.items() if row.bits == 4 and row.kind != "file")
EIGHT_BIT_FLOATS = frozenset(name for name, row in FORMATS.items() if row.bits == 8 and row.kind == "float")


def has_other_width(bare: str) -> bool:
    """Whether a checkpoint's name says a width of its weights; where that is no known format, none is meant.

    Examples
    --------
    >>> has_other_width("qwen332b3bit"), has_other_width("qwen332b")
    (True, False)
    """
    return _OTHER_WIDTH.search(bare) is not None


def plain(text: str) -> str:
    """Letters and digits of a text, in lower case.

    Examples
    --------
    >>> plain("Qwen/Qwen3-32B")
    'qwenqwen332b'
    """
    return re.sub(r"[^a-z0-9]", "", text.lower())


def format_in(text: str) -> str | None:
    """The number format that a text in lower case gives away, if any."""
    for name, spellings in _FORMATS:
        if any(spelling in text for spelling in spellings):
            return name
    return None


def alike(written: str, native: str) -> bool:
    """Whether both are formats of 4 bits, or both 8-bit floats, which names of checkpoints do not tell apart."""
    return any(written in kind and family(native) in kind for kind in (_FOUR_BITS, EIGHT_BIT_FLOATS))


def without_parentheses(text: str) -> str:
    """A text without its remarks in parentheses."""
    return _PARENTHESES.sub("", text)


def of_model(text: str) -> Iterator[str]:
    """A model's name in plain letters, then without owner and remarks, then without one ending after the other."""
    yield plain(text)
    bare = without_parentheses(text).strip().lower()
    yield plain(bare)
    bare = bare.rsplit("/", 1)[-1]
    while True:
        yield plain(bare)
        yield plain(bare.removeprefix("meta-"))
        shorter = _ENDING.sub("", bare)
        if shorter == bare:
            return
        bare = shorter


def of_chip(text: str) -> tuple[list[str], str | None]:
    """The words that tell a chip from others, and the size of its memory [GB] if the text names one.

    Examples
    --------
    >>> of_chip("NVIDIA H100 SXM5 80GB")
    (['h100', 'sxm'], '80')
    """
    words, memory = [], None
    for word in re.split(r"[^a-z0-9]+", _UNIT.sub(r"\1\2", text.lower())):
        size = _MEMORY.match(word)
        if size is not None:
            memory = size[1]
        elif word and not _NOISE.fullmatch(word):
            words.append("sxm" if _FORM.match(word) else word)
    return words, memory
