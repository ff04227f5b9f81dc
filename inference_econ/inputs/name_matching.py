"""Conversion of common names of models, chips and files to catalog names.

Case, separators and the organization in a model's name are ignored. A catalog name, the title of an entry or its
Hugging Face id always means that entry. A name that is not exact is converted to a catalog name, and a note is logged.
A name that fits several entries causes an error, which lists the entries. Synonyms are in
``scenarios/measured/names.yaml``. The reader of measurements also uses ``names.yaml``. For a name that fits several
entries, the reader of measurements uses the most common entry.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, NamedTuple

from inference_econ.errors import UnknownNameError
from inference_econ.inputs._spec import Field, Spec
from inference_econ.inputs.dtype import FORMATS, OF_FILES, family
from inference_econ.inputs.kept import from_file, kept
from inference_econ.inputs.models.model import is_repository
from inference_econ.inputs.places import Kind, Meaning, files, folder, names

#: Suffixes of model names that have no effect on the architecture.
_ENDING = re.compile(
    r"[-_ .]+(?:instruct|chat|base|it|hf|preview|thinking|dynamic|quantized|bf16|fp16|fp8|fp4|nvfp4|mxfp4|mxfp8|int4|"
    r"int8|awq|gptq|kv|block|eagle3?|tensor|online|turbo|w\d+a\d+(?:kv\d+)?|\d{4}|v\d+(?:\.\d+)*|bnb|\dbit|gguf|mtp|"
    r"w|a)$"
)
_PARENTHESES = re.compile(r"\([^)]*\)")
#: Words in chip names that do not distinguish one chip from another.
_NOISE = re.compile(
    r"nvidia|amd|intel|google|aws|geforce|tesla|instinct|gpus?|tensor|core|superchip|accelerator|edition|hgx|dgxc?|oam|"
    r"hbm2e?|hbm3e?|gddr\dx?|cloud|baseboard|slurm|nv|nvd|nb|cw|cr|tw|tg|oci"
)
_MEMORY = re.compile(r"^(\d+)g(?:b|ib)?$")
_UNIT = re.compile(r"(\d) (gi?b)\b")
_FORM = re.compile(r"^sxm\d$")

#: Number formats, with the texts that stand for them in names. More specific texts come first.
_FORMATS = (
    *((name, (name,)) for name in sorted(OF_FILES)),
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
#: Pattern of weight widths in checkpoint names.
_OTHER_WIDTH = re.compile(r"\dbit|w\d+a\d+")
_FOUR_BITS = frozenset(name for name, row in FORMATS.items() if row.bits == 4 and row.kind != "file")
EIGHT_BIT_FLOATS = frozenset(name for name, row in FORMATS.items() if row.bits == 8 and row.kind == "float")


def has_other_width(bare: str) -> bool:
    """True if a checkpoint's name states a number of bits per weight that no known format has.

    Examples
    --------
    >>> has_other_width("qwen332b3bit"), has_other_width("qwen332b")
    (True, False)
    """
    return _OTHER_WIDTH.search(bare) is not None


def plain(text: str) -> str:
    """Letters and digits of a text in lower case.

    Examples
    --------
    >>> plain("Qwen/Qwen3-32B")
    'qwenqwen332b'
    """
    return re.sub(r"[^a-z0-9]", "", text.lower())


def format_in(text: str) -> str | None:
    """Number format that a lower-case text contains; None if the text contains no format."""
    for name, spellings in _FORMATS:
        if any(spelling in text for spelling in spellings):
            return name
    return None


def alike(written: str, native: str) -> bool:
    """True if both formats are 4-bit formats, or both are 8-bit float formats.

    Checkpoint names do not distinguish between 4-bit formats, or between 8-bit float formats.
    """
    return any(written in kind and family(native) in kind for kind in (_FOUR_BITS, EIGHT_BIT_FLOATS))


def without_parentheses(text: str) -> str:
    """Text without the parts in parentheses."""
    return _PARENTHESES.sub("", text)


def of_model(text: str) -> Iterator[str]:
    """Spellings of a model's name in letters and digits.

    Organization, parentheses and suffixes are removed step by step.
    """
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
    """Words of a chip's name that distinguish the chip from others, and its memory size [GB] if stated.

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


#: Pattern of words in a chip's title that distinguish the boards and memory sizes of one chip.
_BOARD = re.compile(r"sxm|pcie|nvl|nvl72|\d+")
#: Pattern of files that belong to a model, such as draft heads and adapters. Their names do not mean the model itself.
_OTHER_FILES = re.compile(r"eagle|draft|lora|medusa|\.gguf$|mmproj")
#: Pattern of llama.cpp quantizations at the end of a name or tag.
_QUANTIZATION = re.compile(
    r"(?:^|[-_.])(?:ud-)?(i?q\d_(?:[sml]|xx?s|nl|\d|k(?:_(?:[sml]|xl))?)|bf16|f16|fp16|f32|fp32|mxfp4)$", re.IGNORECASE
)
_QUANTIZED_NAME = re.compile(r"[-_.]i?q\d_\w+$", re.IGNORECASE)
_QUANTIZATION_NAMES = {"f16": "fp16", "f32": "fp32"}
#: Quantization that llama-server and Ollama load by default (llama.cpp, ``--hf-repo``).
_USUAL_QUANTIZATION = "q4_k_m"


class _Entry(NamedTuple):
    """Names of a catalog entry."""

    title: str
    repository: str
    """Hugging Face id; empty if the entry has no id."""
    checkpoint: str
    """Hugging Face id of the checkpoint in the format of the entry; empty if the entry lists none."""
    format: str
    """Number format of most of the published weights; empty for chips."""


@cache
def read_measured_names() -> MeasuredNames:
    """Names of models, chips and engines in published measurements, with their catalog names."""
    return from_file(MeasuredNames, folder("scenarios") / "measured" / "names.yaml")


def meant(kind: Kind, text: str) -> Meaning | None:
    """Catalog entry for a text that is not a catalog name; None if no entry fits.

    Parameters
    ----------
    kind : str
        Kind of catalog entry.
    text : str
        ``Qwen/Qwen3-32B``, ``gpt-oss-120b``, ``H100``.

    Raises
    ------
    UnknownNameError
        If several entries fit, or if the text is a checkpoint whose format differs from the entry. The message shows
        what to write.

    Examples
    --------
    >>> texts = (("models", "qwen/qwen3-32b"), ("models", "llama-3.3-70b"), ("hardware", "h100"))
    >>> [meant(kind, text)[::2] for kind, text in texts]
    [('qwen3_32b', ''), ('llama-3.3-70b', 'llama_3_70b'), ('h100_sxm', '')]
    >>> meant("models", "Qwen/Qwen3-32B-FP8")[2:]
    ('qwen3_32b', 'fp8')
    """
    if not plain(text):
        return None
    quantized = split_quantization(text) if kind == "models" else None
    name = None if quantized else _own_spellings(kind).get(plain(text))
    if name is not None:
        return Meaning(name)
    if kind == "hardware":
        return _meant_chip(text)
    if kind != "models" or _OTHER_FILES.search(text.lower()):
        return None
    if quantized is not None:
        return _meant_quantized(text, *quantized)
    # The text may be the name of a checkpoint, or a synonym in the table.
    words = _separate(text.rsplit("/", 1)[-1])
    able = [name for name, entry in _entries("models").items() if words <= _separate(f"{name} {entry.title}")]
    spelled = (model_spellings().get(spelling) for spelling in of_model(text))
    name = next((name for name in spelled if name is not None), None)
    if len(able) > 1 or name is None:  # If a name fits several entries, the table only has the most common one.
        _refuse("models", text, able)
    return None if name is None else _in_format(text, name)


def split_quantization(text: str) -> tuple[str, str] | None:
    """Split a GGUF repository or Ollama tag into model and quantization; None for other names.

    The quantization is empty if the text does not state one.

    Examples
    --------
    >>> split_quantization("bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M")
    ('Meta-Llama-3.1-8B-Instruct', 'q4_k_m')
    >>> split_quantization("llama3.1:8b-instruct-q8_0"), split_quantization("gpt-oss:20b")
    (('llama3.1-8b-instruct', 'q8_0'), ('gpt-oss-20b', ''))
    >>> split_quantization("Qwen/Qwen3-32B")
    """
    bare, _, tag = text.rpartition("/")[2].partition(":")
    of_repository = re.search(r"[-_.]gguf$", bare, re.IGNORECASE)
    bare = bare[: of_repository.start()] if of_repository else bare
    if not (of_repository or tag or _QUANTIZED_NAME.search(bare)):
        return None
    # A tag after a GGUF repository is a quantization. A tag after an Ollama model starts with the size of the model.
    whole = bare if tag == "latest" or not tag else f"{bare}-{tag}"
    quantization = _QUANTIZATION.search(whole)
    if quantization is None:
        return (bare if of_repository else whole), tag.lower() if of_repository and tag != "latest" else ""
    return whole[: quantization.start()], quantization[1].lower()


def format_of_quantization(quantization: str) -> str:
    """Number format of a llama.cpp quantization.

    Raises
    ------
    UnknownNameError
        If the quantization is unknown; the message lists the most similar formats.
    """
    name = quantization.lower()
    name = _QUANTIZATION_NAMES.get(name, name)
    if name in FORMATS:
        return name
    of_files = [known for known in FORMATS if known.startswith("q")]
    digit = re.search(r"\d", name)
    near = [known for known in of_files if digit and known[1] == digit[0]] or of_files
    raise UnknownNameError(
        f"the quantization {quantization.upper()} is not known; did you mean {_either(near)}? Write the name of the "
        f"model in the catalog with --weights {near[0]}"
    )


def _meant_quantized(text: str, bare: str, quantization: str) -> Meaning | None:
    """Catalog entry for a GGUF repository or an Ollama tag, with the number format of the quantization."""
    called = meant("models", bare)
    if called is None:
        return None
    name = called.base or called.name
    native = _entries("models")[name].format
    try:
        dtype = format_of_quantization(quantization or (native if native in _FOUR_BITS else _USUAL_QUANTIZATION))
    except UnknownNameError as error:
        raise UnknownNameError(f"{text!r}: {error}") from error
    why = "" if quantization or dtype == native else ", the default of llama.cpp and Ollama"
    remark = f"{_remark('models', text, name)}, with weights in {dtype}{why} (--weights changes the format)"
    return Meaning(text, remark, name, "" if dtype == native else dtype)


@cache
def model_spellings() -> Mapping[str, str]:
    """Catalog names of models, by spelling in letters and digits. Synonyms are included.

    Models of the published study are excluded.
    """
    table = {spelling: name for spelling, name in _own_spellings("models").items() if "/" not in name}
    for name, others in read_measured_names().models.items():
        table.update({plain(other): name for other in others})
    return table


@cache
def _entries(kind: Kind) -> dict[str, _Entry]:
    """Names and titles of all entries of a kind, by catalog name."""
    return {name: _Entry(*cells) for name, cells in kept(dict, folder(kind), lambda: _read_entries(kind)).items()}


def _read_entries(kind: Kind) -> dict[str, tuple[str, ...]]:
    from inference_econ.inputs import _yaml

    documents = {name: _yaml.read_yaml(path).data for name, path in files(kind).items() if "/" not in name}
    entries: dict[str, tuple[str, ...]] = {}
    for name, data in documents.items():
        native, checkpoints = str(data.get("expert_weights") or data.get("weights") or ""), data.get("checkpoints")
        checkpoint = checkpoints.get(native) if isinstance(checkpoints, dict) else None
        entries[name] = str(data.get("name")), str(data.get("huggingface_id") or ""), str(checkpoint or ""), native
    return entries


@cache
def _own_spellings(kind: Kind) -> dict[str, str]:
    """Catalog names, by spelling of the name, the title and the Hugging Face ids in letters and digits.

    The ids are included with and without organization. For scenarios, the last part of a name is included if it is
    unique.
    """
    table = {plain(name): name for name in reversed(names(kind))}
    if kind == "scenarios":
        ends = {name: name.rpartition("/")[2] for name in names(kind)}
        times = Counter(ends.values())
        return {plain(end): name for name, end in ends.items() if times[end] == 1} | table
    if kind not in ("models", "hardware"):
        return table
    for name, entry in _entries(kind).items():
        ids = (entry.repository, entry.checkpoint)
        spelled = (entry.title, *ids, *(text.rpartition("/")[2] for text in ids), "".join(_words(entry.title)))
        for spelling in spelled:
            table.setdefault(plain(spelling), name)
    table.pop("", None)
    return table


def _in_format(text: str, name: str) -> Meaning | None:
    """Catalog entry for a checkpoint, in the number format that the checkpoint's name contains."""
    bare = text.rsplit("/", 1)[-1].lower()
    written, native = format_in(bare), _entries("models")[name].format
    precise = written in ("mxfp4", "nvfp4")
    written = "nvfp4" if written == "fp4" else written  # suffix of checkpoints that NVIDIA's tools quantized
    if written is None and has_other_width(bare):
        return None
    named = "/" in text and is_repository(text)
    if written in (None, native) or (alike(written, native) and not precise):
        # The checkpoint has the same sizes as the entry. Launch files use the name that the user wrote.
        return Meaning(text, _remark("models", text, name), name)
    checkpoint = read_measured_names().checkpoints.get(name, {}).get(written)
    if checkpoint is not None:
        return Meaning(text, _remark("models", text, checkpoint), checkpoint)
    dtype = read_measured_names().formats.get(name, {}).get(str(written), str(written))
    if named:
        return Meaning(text, f"{_remark('models', text, name)}, with weights in {dtype}", name, dtype)
    raise UnknownNameError(
        f"{text!r} is {name} with weights in {dtype}, which the catalog has in {native}; write {name} --weights "
        f"{dtype}, or the id of the checkpoint with its owner (OWNER/{text})"
    )


def _separate(text: str) -> set[str]:
    """Words and numbers of a name; version numbers stay in one piece."""
    return set(re.findall(r"[a-z]+|\d+(?:\.\d+)*[a-z]*", text.lower()))


def _meant_chip(text: str) -> Meaning | None:
    """Catalog entry for the name of a chip, which may lack only the board or the memory size."""
    wanted = set(_words(text))
    able = []
    for name, entry in _entries("hardware").items():
        words = set(_words(entry.title))
        if wanted <= words and words & wanted and all(_BOARD.fullmatch(word) for word in words - wanted):
            able.append(name)
    usual = [name for name in able if name in read_measured_names().plain_hardware]
    if len(able) > 1 and len(usual) != 1:
        _refuse("hardware", text, able)
    for name in usual or able:
        return Meaning(name, _remark("hardware", text, name, [other for other in able if other != name]))
    other = {plain(spelling): name for name, others in read_measured_names().hardware.items() for spelling in others}
    name = other.get("".join(_words(text))) or other.get(plain(text), "")
    return Meaning(name, _remark("hardware", text, name)) if name else None


def _words(title: str) -> Iterator[str]:
    """Words of a chip's title that distinguish it from other chips. The memory size is included as a number of GB."""
    words, memory = of_chip(title)
    yield from words
    if memory is not None:
        yield memory


def _refuse(kind: Kind, text: str, able: list[str]) -> None:
    """Raise an error that lists the entries which an ambiguous text could mean; do nothing if ``able`` is empty."""
    titles = [f"{name} ({_entries(kind)[name].title})" for name in able]
    if titles:
        ask = "name one" if len(able) > 1 else "write that if it is meant"
        raise UnknownNameError(f"{text!r} could be {_either(titles)}; {ask}")


def _either(texts: list[str]) -> str:
    return " or ".join(part for part in (", ".join(texts[:-1]), texts[-1]) if part)


def _remark(kind: Kind, text: str, name: str, others: list[str] | None = None) -> str:
    beside = f", not {_either(others)}" if others else ""
    shape = ", which stands for models of its shape" if kind == "models" else ""
    return f"{text!r} is taken as {name} ({_entries(kind)[name].title}){beside}{shape}"


Spellings = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)]


class MeasuredNames(Spec):
    """Synonyms of catalog names in measurements."""

    models: dict[str, Spellings]
    """Other names of models, by catalog name."""
    hardware: dict[str, Spellings]
    """Other names of chips, by catalog name."""
    plain_hardware: Spellings
    """Catalog names of the boards that are meant if a user gives the name of a chip without its board (``H100``)."""
    checkpoints: dict[str, dict[str, str]]
    """Catalog names of checkpoints whose number format differs from their model's entry, by catalog name and format."""
    formats: dict[str, dict[str, str]]
    """Number formats for which a publisher uses another name, by catalog name of the model and published format
    name."""
    prefill_first: Spellings
    """Engines that pause decoding until all waiting prompts are processed; an entry may name a version series."""
    compiled: Spellings
    """Engines that compile the full model; an entry may name a version series."""
    unversioned: Spellings
    """Texts that look like an engine name, although a library version follows them instead of an engine version."""
    engines: dict[str, Spellings]
    """Texts that identify an engine, by catalog name of the engine. The first matching text is used."""
