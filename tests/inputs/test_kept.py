"""Catalog entries between processes: read once, again after a change, and without foreign code."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from inference_econ.inputs import HardwareSpec, catalog, kept

PATH = catalog.locate("hardware", "h100_sxm")


@pytest.fixture
def reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], tuple[HardwareSpec, int]]:
    """Return a function that reads an entry in a separate cache folder and counts the reads."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    times = 0

    def ask(path: Path) -> tuple[HardwareSpec, int]:
        nonlocal times
        before = times

        def read() -> HardwareSpec:
            nonlocal times
            times += 1
            return HardwareSpec.from_document(catalog._read("hardware", str(path)))

        return kept.kept(HardwareSpec, path, read), times - before

    return ask


Reads = Callable[[Path], tuple[HardwareSpec, int]]


def test_the_next_process_does_not_read_an_entry_again(reads: Reads, tmp_path: Path) -> None:
    (first, once), (second, again) = reads(PATH), reads(PATH)
    assert (once, again) == (1, 0)
    assert second is not first
    assert second == first == catalog.hardware("h100_sxm")
    assert second.model_fields_set == first.model_fields_set
    assert [len(file.name) for file in (tmp_path / "cache" / "inference_econ").iterdir()] == [32]  # no unfinished file


def test_a_changed_file_or_module_is_read(reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    reads(PATH)
    monkeypatch.setattr(kept, "_state", lambda: bytes(32))
    assert [reads(PATH)[1], reads(PATH)[1]] == [1, 0]


def test_the_state_is_that_of_every_file(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").touch()
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a.yaml").write_text("a")
    ((path, size, changed),) = kept._files(str(tmp_path))
    assert (path, size, changed) == (str(tmp_path / "below" / "a.yaml"), 1, Path(path).stat().st_mtime_ns)
    assert len(kept._state()) == 32


def test_files_of_users_are_read_each_time(reads: Reads, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(PATH.read_text())
    assert [reads(own)[1], reads(own)[1]] == [1, 1]
    assert not (tmp_path / "cache").exists()


class _Foreign:
    """Run a command on unpickling."""

    def __init__(self, left: Path) -> None:
        self.left = left

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.left),)


def test_a_foreign_or_damaged_file_is_read_again_and_runs_nothing(reads: Reads, tmp_path: Path) -> None:
    reads(PATH)
    (file,) = (tmp_path / "cache" / "inference_econ").iterdir()
    whole, left = file.read_bytes(), tmp_path / "left"
    other = pickle.dumps(catalog.model("llama_3_8b"))
    for content in (pickle.dumps(_Foreign(left)), other, whole[32:-100], b""):
        file.write_bytes(whole[:32] + content)
        assert reads(PATH)[1] == 1
        assert file.read_bytes()[:32] == whole[:32]
    assert not left.exists()
    pickle.loads(pickle.dumps(_Foreign(left)))
    assert left.exists()  # it would have


def test_a_folder_that_cannot_be_written_is_no_error(reads: Reads, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert [reads(PATH)[1], reads(PATH)[1]] == [1, 1]
