"""Names that people have for models, chips, engines and number formats, and those of the catalogue."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from inference_econ.calibration.measurements._rows import UnusableRowError
from inference_econ.errors import InputError
from inference_econ.inputs import catalog, names, spellings
from inference_econ.inputs.spellings import EIGHT_BIT_FLOATS, format_in, has_other_width, plain, without_parentheses

_COUNT = re.compile(r"^\s*(\d{1,4})\s*[x*]\s*(?=[A-Za-z])|(?:\s|(?<=\d))[x*]\s*(\d{1,4})\s*$", re.IGNORECASE)
#: A size that people give differs from what a program sees by this much at most (192 GB and 180 GiB of a B200).
_MEMORY_TOLERANCE = 0.12

_SIXTEEN_BITS = {"fp16": "bf16", "bf16": "fp16"}
#: Endings of files that hold a model.
_MODEL_FILES = (".yaml", ".yml", ".json")
#: Names that have less in common are not offered for each other [1].
_ALIKE = 0.7


def model_name(text: str) -> str:
    """The catalogue's name of a model; the path of a model's file, or of a config.json, stays what it is.

    Raises
    ------
    UnusableRowError
        If there is none.
    """
    if text in catalog.names("models") or _is_model_file(text):
        return text
    for spelling in spellings.of_model(text):
        if spelling in names.model_spellings():
            return names.model_spellings()[spelling]
    if not text:
        raise UnusableRowError("no model is named")
    raise UnusableRowError(
        f"{_unknown('model', text, names.model_spellings())} (the path of a Hugging Face config.json works too; see "
        "'inference-econ import-model')"
    )


def _is_model_file(text: str) -> bool:
    try:
        return Path(text).suffix in _MODEL_FILES and Path(text).is_file()
    except OSError:  # a name too long for any file
        return False


def hardware_name(text: str) -> str:
    """The catalogue's name of a chip.

    Raises
    ------
    UnusableRowError
        If there is none, or none with the memory that the text names.
    """
    if text in catalog.names("hardware"):
        return text
    for spelling in dict.fromkeys((text, without_parentheses(text))):
        words, memory = _chip_words(spelling)
        if memory is not None and (exact := _chips().get(f"{words} {memory}")) is not None:
            return exact
        name = _chips().get(words)
        if name is not None and (memory is None or _has_memory(name, memory)):
            return name
    raise UnusableRowError(_unknown("hardware", text, _chips()) if text else "no hardware is named")


def chip_count(text: str) -> int | None:
    """Number of chips that a text speaks of, if it says so.

    Examples
    --------
    >>> chip_count("8x H100-80GB SXM"), chip_count("H100 x 4"), chip_count("MI300X")
    (8, 4, None)
    """
    match = _COUNT.search(text)
    return None if match is None else int(match[1] or match[2])


def engine_name(text: str) -> tuple[str, str]:
    """Name and version of a serving engine; what is not known keeps its own first word."""
    lower = "" if text.lower().startswith("not stated") else text.lower()
    for name, others in catalog.measured_names().engines.items():
        for spelling in others:
            if spelling in lower:
                version = re.search(r"v?(\d+(?:\.\w+)+)", lower[lower.index(spelling) + len(spelling) :])
                of_another = spelling in catalog.measured_names().unversioned
                return name, "" if version is None or of_another else version[1]
    return (lower.split() or [""])[0], ""


def check_version(engine: str, version: str) -> None:
    """Refuse versions of an engine after all of which something is known.

    Raises
    ------
    UnusableRowError
        With the newest that is known.
    """
    if engine in catalog.names("engines") and is_number(version):
        try:
            # Thousands of rows ask; nothing is changed of what they look at.
            with catalog.uncopied():
                catalog.engine(engine).check(version)
        except InputError as error:
            raise UnusableRowError(str(error)) from None


def is_number(version: str) -> bool:
    """Whether a version is one of the numbers that engines count by, and no name of an image."""
    return re.fullmatch(r"v?\d+(\.\w+)+([-+].*)?", version) is not None


def prefill_first(engine: str, version: str) -> bool:
    """Whether an engine reads all prompts that have come before it goes on decoding."""
    return _among(engine, version, catalog.measured_names().prefill_first)


def compiled(engine: str, version: str) -> bool:
    """Whether an engine ran models that were compiled as a whole."""
    return _among(engine, version, catalog.measured_names().compiled)


def _among(engine: str, version: str, beginnings: Iterable[str]) -> bool:
    text = f"{engine} {version}"
    return any(text.startswith(begin) for begin in beginnings)


def served(model: str, hardware: str, text: str) -> tuple[str, str | None]:
    """Model and format of the weights that a text about number formats stands for.

    Parameters
    ----------
    model, hardware : str
        Catalogue names.
    text : str
        ``fp8 (native ckpt)``, ``fp4/fp8 (not in export)``; empty if not recorded.

    Returns
    -------
    tuple of str and (str or None)
        The model, or its file for checkpoints of that format if there is one, and the format; None if it is the one
        that the model's weights are published in, so that each group of tensors keeps its own.

    Raises
    ------
    UnusableRowError
        If the text names no known format.
    """
    written = _written(text, model, hardware)
    if written is None:
        # What is published in 16 bits runs in those that the chip has.
        other = _in_other_bits(_native(model), hardware)
        return model, None if other == _native(model) else other
    written = _in_other_bits(written, hardware)
    checkpoint = catalog.measured_names().checkpoints.get(model, {}).get(written)
    if checkpoint is not None:
        return checkpoint, None
    written = catalog.measured_names().formats.get(model, {}).get(written, written)
    native = _native(model)
    if spellings.alike(written, native):
        return model, None
    return model, written


def written_format(text: str, model: str, hardware: str) -> str:
    """The number format of the weights that a text names, or the one that most of a model is published in."""
    return _written(text, model, hardware) or _native(model)


def _in_other_bits(written: str, hardware: str) -> str:
    """The sixteen bits that a chip computes in, for those that it does not."""
    units = _chip(hardware)[1]
    other = _SIXTEEN_BITS.get(written)
    return other if other is not None and written not in units and other in units else written


def cache_format(written: str | None, hardware: str) -> str | None:
    """The format of the KV cache that stands for one: as wide, and such as the chip computes in.

    Engines store 8-bit floats on chips that lack them as well, and widen them on the way.
    """
    if written is None:
        return None
    units = _chip(hardware)[1]
    if written in EIGHT_BIT_FLOATS and "fp8" not in units and "int8" in units:
        return "int8"
    return _in_other_bits(written, hardware)


def _written(text: str, model: str, hardware: str) -> str | None:
    """The number format that a text names; of alternatives the one for this model, or that the chip can compute in."""
    alternatives = [part for part in text.lower().split("/") if format_in(part) is not None]
    if not alternatives:
        return format_name(text)
    vendor, units = _chip(hardware)
    family = model.split("_", maxsplit=1)[0]
    ours = [part for part in alternatives if family in part]
    able = [part for part in alternatives if format_in(part) in units]
    dtype = format_in((ours or able or alternatives)[0])
    if dtype == "fp4":
        return "mxfp4" if vendor == "AMD" else "nvfp4"
    return dtype


def format_name(text: str) -> str | None:
    """The number format that a text names; None if it is empty or leaves that open (``auto``).

    Raises
    ------
    UnusableRowError
        If it names no known format.
    """
    dtype = format_in(text.lower())
    if dtype is None and text and not text.lower().startswith(("auto", "native", "default")):
        raise UnusableRowError(f"unknown number format {text!r}")
    return dtype


def format_in_name(model: str) -> str:
    """The number format that a checkpoint is named after; empty if its name has none, or is that of a model's file.

    Raises
    ------
    UnusableRowError
        If the name says that the weights are narrow, but not in which of the known formats.

    Examples
    --------
    >>> format_in_name("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"), format_in_name("meta-llama/Llama-3.1-8B")
    ('fp8', '')
    """
    if _is_model_file(model):
        return ""
    bare = model.rsplit("/", 1)[-1].lower()
    dtype = format_in(bare)
    # A GGUF repository has files in many formats, whose blocks mix widths.
    if "gguf" in bare or (dtype is None and has_other_width(bare)):
        raise UnusableRowError(f"the number format of the weights of {model!r} is not known; give the nearest one")
    return dtype or ""


@cache
def _chip(name: str) -> tuple[str, frozenset[str]]:
    """Vendor and maths units of a chip."""
    spec = catalog.hardware(name)
    return spec.vendor, frozenset(spec.dense_flops_per_second)


@cache
def _native(model: str) -> str:
    """The format in which most of a model's weights are published."""
    spec = catalog.model(model)
    return spec.expert_weights or spec.weights


def _unknown(what: str, text: str, names_by_spelling: Mapping[str, str]) -> str:
    """Message about a name that nobody knows: what it is like, and what can be done about it."""
    near = difflib.get_close_matches(plain(text.rsplit("/", 1)[-1]), names_by_spelling, n=5, cutoff=_ALIKE)
    names = " or ".join(list(dict.fromkeys(names_by_spelling[name] for name in near))[:2])
    return f"unknown {what} {text!r}" + (f"; nearest: {names}" if names else "")


def _chip_words(text: str) -> tuple[str, str | None]:
    """The words that tell a chip from others, run together, and the size of its memory [GB]."""
    words, memory = spellings.of_chip(_COUNT.sub("", text))
    return "".join(words), memory


def _has_memory(name: str, gigabytes: str) -> bool:
    """Whether a chip has about that much memory, in units of 1e9 bytes or of 2^30."""
    real = catalog.hardware(name).hbm_bytes
    return any(abs(float(gigabytes) * unit / real - 1) <= _MEMORY_TOLERANCE for unit in (1e9, 2.0**30))


@cache
def _chips() -> dict[str, str]:
    """Telling words, followed by the size of the memory where a name gives one, to catalogue name."""
    names: dict[str, str] = {}
    for name in catalog.names("hardware"):
        if "/" not in name:
            for spelling in (name, catalog.hardware(name).name):
                words, memory = _chip_words(spelling)
                names.setdefault(words if memory is None else f"{words} {memory}", name)
    for name, others in catalog.measured_names().hardware.items():
        for spelling in others:
            words, memory = _chip_words(spelling)
            names[words if memory is None else f"{words} {memory}"] = name
    return names
