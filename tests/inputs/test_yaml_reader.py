"""The strict YAML reader: numbers by YAML 1.2, line numbers, bounded size, and files by name."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs import _yaml, read_text


def _value(text: str) -> object:
    return _yaml.parse(f"a: {text}\n", "file.yaml").data["a"]


@pytest.mark.rows
def test_scalars(text: str, value: object) -> None:
    read = _value(text)
    assert read == value
    assert type(read) is type(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_float_survives(value: float) -> None:
    assert _value(repr(value)) == value


@given(st.integers(-(10**40), 10**40))
def test_every_integer_survives(value: int) -> None:
    assert _value(str(value)) == value


def test_nested_data_and_lines() -> None:
    document = _yaml.parse("a:\n  b: [1, 2]\n  c:\n    - x: 1\n    - y: {z: 2}\n", "file.yaml")
    assert document.data == {"a": {"b": [1, 2], "c": [{"x": 1}, {"y": {"z": 2}}]}}
    assert document.where(("a", "b", 1)) == "file.yaml:2"
    assert document.where(("a", "c", 1, "y", "z")) == "file.yaml:5"
    assert document.where(("a", "c", 0, "missing")) == "file.yaml:4"  # the nearest that was written
    assert document.where(("nowhere",)) == "file.yaml:1"


@pytest.mark.rows
def test_errors_name_file_and_line(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        _yaml.parse(text, "file.yaml")


def test_several_mistakes_are_listed_together() -> None:
    message = r"^3 mistakes:\n  - f:2: 'a' is given twice.*\n  - f:3: .inf.*\n  - f:4: 'c' is"
    with pytest.raises(SpecError, match=message) as found:
        _yaml.parse("a: 1\na: 2\nb: .inf\nc: {c: 1, c: 2}\n", "f")
    assert len(found.value.mistakes) == 3


def test_a_byte_order_mark_is_no_mistake() -> None:
    assert _yaml.parse("\ufeffa: 1\n", "f").data == {"a": 1}


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "picture.yaml"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe\x00")
    with pytest.raises(SpecError, match=r"picture\.yaml:1: not a text file in UTF-8 \(invalid start byte\)"):
        _yaml.read_yaml(path)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.touch()
    with pytest.raises(SpecError, match=r"empty\.yaml:1: a mapping of field names to values is needed, found nothing"):
        _yaml.read_yaml(path)


def test_a_bomb_of_10_mb_is_refused_by_its_size(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join(lines) + "\n#" + "x" * 10_000_000, encoding="utf-8")
    message = r"bomb\.yaml: 10\.0 MB is too large; at most 1 MB is read"
    with pytest.raises(InputError, match=message):
        _yaml.read_yaml(path)
    # Without the padding, its first alias is where reading stops.
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(SpecError, match=r"bomb\.yaml:2: aliases \(\*name\) are not accepted"):
        _yaml.read_yaml(path)


@pytest.mark.parametrize("text", ["a: " + "[" * 100_000, "a: " + "{a: " * 100_000, "a:\n" + "- " * 100_000])
def test_deep_nesting_stops_early(text: str) -> None:
    with pytest.raises(SpecError, match="nested deeper than 24 levels"):
        _yaml.parse(text, "f")


def test_merge_keeps_the_line_of_each_file() -> None:
    base = _yaml.parse("a: 1\nb: {c: 1, d: 2}\ne: {f: 1}\ng: [1, 2]\n", "base")
    changes = _yaml.parse("b:\n  c: 5\ne: {}\ng: [9]\n", "mine")
    merged = _yaml.merge(base, changes)
    assert merged.data == {"a": 1, "b": {"c": 5, "d": 2}, "e": {}, "g": [9]}
    places = [merged.where(at) for at in [("a",), ("b", "c"), ("b", "d"), ("e",), ("g", 0)]]
    assert places == ["base:1", "mine:2", "base:2", "mine:3", "mine:4"]
    assert base.data["b"] == {"c": 1, "d": 2}


def test_what_is_done_to_a_document_is_not_seen_by_the_next_reader() -> None:
    text = "a: {b: [1, {c: 2}]}\n"
    changed = _yaml.parse(text, "file")
    _yaml.assign(changed, ["a", "b", "1", "c"], 3, "--set")
    _yaml.graft(changed, ("a", "part"), _yaml.parse("d: 4\n", "part"))
    assert changed.data == {"a": {"b": [1, {"c": 3}], "part": {"d": 4}}, "sources": {}}
    again = _yaml.parse(text, "file")
    assert again.data == {"a": {"b": [1, {"c": 2}]}} and again.where(("a", "part")) == "file:1"


# Files named by users: complete, of bounded size, and only regular files.


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffa\r\nb".encode())
    assert read_text(path, encoding="utf-8-sig") == "a\r\nb"
    assert read_text(str(path), 8) == "\ufeffa\r\nb"


def test_what_is_too_large_is_refused_with_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(2_500_000 * b"x")
    with pytest.raises(InputError, match=r"a\.txt: 2\.5 MB is too large; at most 2 MB is read"):
        read_text(path, 2_000_000)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/full"), Path("/dev/zero")):
        with pytest.raises(InputError, match=f"{path}: no regular file; pipes and devices are not read, since they"):
            read_text(path)
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_text(tmp_path)
    with pytest.raises(InputError, match=r"none: cannot be read: No such file or directory"):
        read_text(tmp_path / "none")
