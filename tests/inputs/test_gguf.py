"""Names of GGUF files, tags of Ollama, and headers of files."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest

from inference_econ.errors import InputError
from inference_econ.inputs import Precision, catalog
from inference_econ.inputs.places import names_only
from tests.reading import tables

_CODES = {int: (4, "I"), float: (6, "f"), bool: (7, "?")}
#: A file type of llama.cpp.
_Q4_K_M = 15


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value, list):
        inner = _value(value[0])[:4] if value else struct.pack("<I", 8)
        return struct.pack("<I", 9) + inner + struct.pack("<Q", len(value)) + b"".join(_value(v)[4:] for v in value)
    kind, code = _CODES[type(value)]
    return struct.pack(f"<I{code}", kind, value)


def written(path: Path, metadata: dict[str, Any], tensors: tuple[str, ...] = ("output.weight",)) -> Path:
    """Write a GGUF file without the values of its tensors."""
    content = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    content += b"".join(_text(key) + _value(value) for key, value in metadata.items())
    content += b"".join(_text(name) + struct.pack("<IQQIQ", 2, 64, 64, 12, 0) for name in tensors)
    path.write_bytes(content)
    return path


def _metadata(architecture: str, sizes: dict[str, Any], file_type: int = _Q4_K_M) -> dict[str, Any]:
    keys = {f"{architecture}.{name}": value for name, value in sizes.items()}
    head = {"general.architecture": architecture, "general.file_type": file_type, "tokenizer.ggml.scores": [0.5]}
    return head | keys


#: Headers of files, by model; layers of gpt-oss each state their KV heads.
_FILES = {name: _metadata(**told) for name, told in tables(Path(__file__))["FILES"].items()}
_LLAMA_8B = _FILES["llama_3_8b"]


@pytest.mark.parametrize("name", _FILES)
def test_a_file_has_the_parameters_and_the_cache_of_its_model(name: str, tmp_path: Path) -> None:
    tied = catalog.model(name).tied_embeddings
    path = written(tmp_path / "model.gguf", _FILES[name], ("blk.0.attn_q.weight",) if tied else ("output.weight",))
    read, known = catalog.model(path), catalog.model(name)
    assert read.parameter_parts() == known.parameter_parts()
    assert [block.attention for block in read.blocks] == [block.attention for block in known.blocks]
    assert Precision.of(read).experts == ("mxfp4" if name == "gpt_oss_20b" else "q4_k_m")
    assert Precision.of(read, "q8_0").weights == "q8_0"
    assert read.architecture in catalog.engine("llama_cpp").versions[-1].models[0].architectures


def test_a_split_file_keeps_the_embeddings_of_its_family_apart(tmp_path: Path) -> None:
    path = written(tmp_path / "model-00001-of-00002.gguf", _LLAMA_8B | {"split.count": 2}, ())
    assert not catalog.model(path).tied_embeddings


def test_a_vocabulary_is_counted_where_no_size_is_stated(tmp_path: Path) -> None:
    metadata = {key: value for key, value in _LLAMA_8B.items() if key != "llama.vocab_size"}
    path = written(tmp_path / "model.gguf", metadata | {"tokenizer.ggml.tokens": ["a", "bc", "d"]})
    assert catalog.model(path).vocab_size == 3


_BROKEN = {
    "no GGUF": (b"PK\x03\x04 and more", "not a GGUF file: it does not start with 'GGUF'"),
    "empty": (b"", "not a GGUF file"),
    "version": (b"GGUF" + struct.pack("<I", 1) + bytes(16), "version 1 of GGUF is not understood; understood: 2 and 3"),
    "big-endian": (b"GGUF" + struct.pack(">I", 3) + bytes(16), "version 50331648 of GGUF is not understood; under"),
    "nothing": (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "general.architecture is missing; of several parts give the"),
    "no end": (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60) + _text("a"), "the file ends inside its header; download it"),
    "long text": (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**62), "the file ends inside its header"),
    "nested": (
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + _text("a") + struct.pack("<IIQ", 9, 9, 1),
        "values of the type 9 in its metadata are not understood",
    ),
}


@pytest.mark.parametrize("case", _BROKEN)
def test_a_file_that_is_no_gguf_is_refused_by_name(case: str, tmp_path: Path) -> None:
    content, message = _BROKEN[case]
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"model\.gguf: {re.escape(message)}"):
        catalog.model(path)


@pytest.mark.rows
def test_a_header_that_is_not_understood_is_refused_by_name(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "model.gguf", _LLAMA_8B | changes)
    with pytest.raises(InputError, match=rf"model\.gguf: {re.escape(message)}"):
        catalog.model(path)


def test_a_file_that_is_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.gguf", _LLAMA_8B).read_bytes()
    path = tmp_path / "cut.gguf"
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"cut\.gguf: "):
            catalog.meaning("models", str(path))


def test_a_missing_file_is_refused_and_no_file_is_read_for_others(tmp_path: Path) -> None:
    path = written(tmp_path / "model.gguf", _LLAMA_8B)
    with pytest.raises(InputError, match=r"gone\.gguf: no such file"):
        catalog.model(tmp_path / "gone.gguf")
    with names_only({}), pytest.raises(InputError, match=r"unknown model '.*model\.gguf'"):
        catalog.model(str(path))
