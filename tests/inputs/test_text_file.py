"""Files that somebody names: whole, of a size that has an end, and only what is a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inference_econ.errors import InputError
from inference_econ.inputs import read_text


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
