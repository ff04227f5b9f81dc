"""Names that people have for models, chips and files, and those of the catalogue.

Case and separators never count, nor does the owner before a model's name. What is spelled like a catalogue name, the
title of its file or its Hugging Face id is that. Other names come with a remark that says what they were taken for, and
names that fit several entries are refused with a list. The table of other names, ``scenarios/measured/names.yaml``, is
also that of the reader of measurements, which is more lenient: there, the usual one of several is meant.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from inference_econ.errors import UnknownNameError
from inference_econ.inputs import spellings
from inference_econ.inputs.places import Kind, Meaning, files, folder, names
from inference_econ.inputs.repository import is_repository
from inference_econ.inputs.spellings import format_in, has_other_width, plain

if TYPE_CHECKING:
    from inference_econ.inputs._yaml import Value
    from inference_econ.inputs.measured_names import MeasuredNames

#: Words of a chip's title that tell boards and sizes of one chip apart.
_BOARD = re.compile(r"sxm|pcie|nvl|nvl72|\d+")
#: Checkpoints that go with a model, or whose blocks mix widths: their names do not stand for the model.
_OTHER_FILES = re.compile(r"eagle|draft|lora|gguf|medusa")


class _Entry(NamedTuple):
    """Names of an entry of the catalogue itself."""

    title: str
    repository: str
    """Its Hugging Face id; empty if it has none."""
    format: str
    """In which most of a model's weights are published; empty of chips."""


@cache
def measured_names() -> MeasuredNames:
    """Names as measurements write them, and those of what is in the catalogue."""
    from inference_econ.inputs import _yaml
    from inference_econ.inputs.measured_names import MeasuredNames

    return MeasuredNames.from_document(_yaml.read(folder("scenarios") / "measured" / "names.yaml"))


def meant(kind: Kind, text: str) -> Meaning | None:
    """Entry that a text stands for which is no catalogue name; None if nothing is known of it.

    Parameters
    ----------
    kind : str
        Of what.
    text : str
        ``Qwen/Qwen3-32B``, ``gpt-oss-120b``, ``H100``.

    Raises
    ------
    UnknownNameError
        If it fits several entries, or a checkpoint in another format than the entry's; with what to write instead.

    Examples
    --------
    >>> texts = (("models", "qwen/qwen3-32b"), ("models", "llama-3.3-70b"), ("hardware", "h100"))
    >>> [meant(kind, text).name for kind, text in texts]
    ['qwen3_32b', 'llama_3_70b', 'h100_sxm']
    >>> meant("models", "Qwen/Qwen3-32B-FP8")[2:]
    ('qwen3_32b', 'fp8')
    """
    if not plain(text):
        return None
    name = _own_spellings(kind).get(plain(text))
    if name is not None:
        return Meaning(name)
    if kind == "hardware":
        return _meant_chip(text)
    return _meant_model(text) if kind == "models" else None


@cache
def model_spellings() -> Mapping[str, str]:
    """Plain spelling to catalogue name of a model, other names included; the published study's own are left out."""
    table = {spelling: name for spelling, name in _own_spellings("models").items() if "/" not in name}
    for name, others in measured_names().models.items():
        table.update({plain(other): name for other in others})
    return table


@cache
def _entries(kind: Kind) -> dict[str, _Entry]:
    """Name to what the files of one kind say of themselves."""
    from inference_econ.inputs import _yaml

    return {name: _entry(_yaml.read(path).data) for name, path in files(kind).items() if "/" not in name}


def _entry(data: Mapping[str, Value]) -> _Entry:
    title, repository, dtype = (data.get(key) for key in ("name", "huggingface_id", "weights"))
    dtype = data.get("expert_weights") or dtype
    return _Entry(str(title), str(repository or ""), str(dtype or ""))


@cache
def _own_spellings(kind: Kind) -> dict[str, str]:
    """Plain spelling to name: of names, of titles and of Hugging Face ids, with their owner or without.

    The last part of a scenario's name is enough where it is that of a single one.
    """
    table = {plain(name): name for name in reversed(names(kind))}
    if kind == "scenarios":
        ends = {name: name.rpartition("/")[2] for name in names(kind)}
        times = Counter(ends.values())
        return {plain(end): name for name, end in ends.items() if times[end] == 1} | table
    if kind not in ("models", "hardware"):
        return table
    for name, entry in _entries(kind).items():
        spelled = (entry.title, entry.repository, entry.repository.rpartition("/")[2], "".join(_words(entry.title)))
        for spelling in spelled:
            table.setdefault(plain(spelling), name)
    table.pop("", None)
    return table


def _meant_model(text: str) -> Meaning | None:
    """The model of a checkpoint, or of a name that the table of other names has."""
    if _OTHER_FILES.search(text.lower()):
        return None
    able = _models_with(text)
    spelled = (model_spellings().get(spelling) for spelling in spellings.of_model(text))
    name = next((name for name in spelled if name is not None), None)
    if len(able) > 1 or name is None:  # the table of other names has the usual one of several
        _refuse("models", text, able)
    return None if name is None else _in_format(text, name)


def _in_format(text: str, name: str) -> Meaning | None:
    """The entry for a checkpoint of a model in the format that its name says, if it says one."""
    bare = text.rsplit("/", 1)[-1].lower()
    written, native = format_in(bare), _entries("models")[name].format
    written = "nvfp4" if written == "fp4" else written  # what checkpoints are called whose scales NVIDIA's tools chose
    if written is None and has_other_width(bare):
        return None
    named = "/" in text and is_repository(text)
    if written in (None, native) or spellings.alike(written, native):
        # Other weights of the same sizes: what is typed is what is started.
        return Meaning(text if named else name, _remark("models", text, name), name if named else "")
    checkpoint = measured_names().checkpoints.get(name, {}).get(written)
    if checkpoint is not None:
        remark = _remark("models", text, checkpoint)
        return Meaning(text, remark, checkpoint) if named else Meaning(checkpoint, remark)
    dtype = measured_names().formats.get(name, {}).get(str(written), str(written))
    if named:
        return Meaning(text, f"{_remark('models', text, name)}, with weights in {dtype}", name, dtype)
    raise UnknownNameError(
        f"{text!r} is {name} with weights in {dtype}, which the catalogue has in {native}; write {name} --weights "
        f"{dtype}, or the id of the checkpoint with its owner (OWNER/{text})"
    )


def _models_with(text: str) -> list[str]:
    """Models whose titles have all words of a text."""
    wanted = _separate(text.rsplit("/", 1)[-1])
    return [name for name, entry in _entries("models").items() if wanted <= _separate(f"{name} {entry.title}")]


def _separate(text: str) -> set[str]:
    """Words and numbers of a name; versions stay whole."""
    return set(re.findall(r"[a-z]+|\d+(?:\.\d+)*[a-z]*", text.lower()))


def _meant_chip(text: str) -> Meaning | None:
    """The chip of which a text leaves at most the board, or the size of its memory, open."""
    wanted = set(_words(text))
    able = [
        name for name, entry in _entries("hardware").items() if _leaves_board_open(wanted, set(_words(entry.title)))
    ]
    usual = [name for name in able if name in measured_names().plain_hardware]
    if len(able) > 1 and len(usual) != 1:
        _refuse("hardware", text, able)
    for name in usual or able:
        return Meaning(name, _remark("hardware", text, name, [other for other in able if other != name]))
    other = {plain(spelling): name for name, others in measured_names().hardware.items() for spelling in others}
    name = other.get("".join(_words(text))) or other.get(plain(text), "")
    return Meaning(name, _remark("hardware", text, name)) if name else None


def _leaves_board_open(wanted: set[str], words: set[str]) -> bool:
    left = words - wanted
    return wanted <= words and bool(words - left) and all(_BOARD.fullmatch(word) for word in left)


def _words(title: str) -> Iterator[str]:
    """The words that tell a chip from others, the size of its memory [GB] as a bare number."""
    words, memory = spellings.of_chip(title)
    yield from words
    if memory is not None:
        yield memory


def _refuse(kind: Kind, text: str, able: list[str]) -> None:
    """Say what a text could be, if it could be anything."""
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
