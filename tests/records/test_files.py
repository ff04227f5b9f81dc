"""Files are written fully or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from inference_econ.errors import InputError
from inference_econ.inputs import noting_files, read_text
from inference_econ.records.files import ending_of, whole_file, write_text
from tests.reading import tables


def test_a_file_appears_when_the_block_ends_well(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    with whole_file(target) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".txt"
        temporary.write_text("new", encoding="utf-8")
        assert not target.exists()
    assert target.read_text(encoding="utf-8") == "new"
    write_text(target, "µ³\n")
    assert target.read_bytes() == "µ³\n".encode()
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("before", ["old", None])
def test_a_failure_leaves_what_was_there(tmp_path: Path, before: str | None) -> None:
    if before is not None:
        (tmp_path / "a.txt").write_text(before, encoding="utf-8")

    def fail() -> None:
        with whole_file(tmp_path / "a.txt") as temporary:
            temporary.write_text("half", encoding="utf-8")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()] == ([] if before is None else [before])


def test_a_full_disk_is_an_error_of_the_user(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"a\.txt: cannot be written: No space left on device"),
        whole_file(tmp_path / "a.txt"),
    ):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_files_have_the_mode_that_others_get(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_text(tmp_path / "a.txt", "x")
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing/a.txt", "No such file or directory"),
        ("file/a.txt", "Not a directory"),
        ("folder", "Is a directory"),
        (f"{'x' * 300}.txt", "File name too long"),
        ("circle", ".*(symbolic links|loop).*"),
    ],
)
def test_places_that_cannot_be_written(tmp_path: Path, path: str, reason: str) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=rf"{path}: cannot be written: {reason}"):
        write_text(tmp_path / path, "x")
    assert sorted(tmp_path.iterdir()) == before


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "a.txt", tmp_path / "link.txt"
    target.write_text("old", encoding="utf-8")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "new"
    assert list((tmp_path / "folder").iterdir()) == [target]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """A replacement could also destroy /dev/null for root."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")))
    reader.start()
    write_text(pipe, "through")
    reader.join(timeout=10)
    assert read == ["through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


def test_names_that_are_nothing_but_an_ending(tmp_path: Path) -> None:
    for name in (".csv", "..csv", "...csv"):
        write_text(tmp_path / name, "new")
        assert ending_of(name) == ".csv"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["...csv", "..csv", ".csv"]
    with whole_file(tmp_path / ".svg") as temporary:
        assert temporary.suffix == ".svg"
    with pytest.raises(InputError, match="cannot be written: Is a directory"):
        write_text(f"{tmp_path}/new/", "text")


#: Child processes that write in turn, each killed at another moment; returns the number of mixed files and of all
#: files.
_KILLED: str = tables(Path(__file__))["_KILLED"]


def test_a_kill_at_any_moment_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_text(target, 200_000 * "0")
    ran = subprocess.run(
        [sys.executable, "-c", _KILLED, str(target)], capture_output=True, text=True, check=True, timeout=60
    )
    torn, left = map(int, ran.stdout.split())
    assert torn == 0
    assert left <= 2  # the file, and the temporary one of the last write
    write_text(target, "whole")
    assert [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()] == ["whole"]


def test_what_somebody_is_still_writing_stays(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    with whole_file(target) as slow:
        slow.write_text("slow", encoding="utf-8")
        write_text(target, "quick")
        assert slow.read_text(encoding="utf-8") == "slow"
        assert target.read_text(encoding="utf-8") == "quick"
    assert target.read_text(encoding="utf-8") == "slow"
    assert list(tmp_path.iterdir()) == [target]


def test_only_what_was_left_of_the_same_name_is_removed(tmp_path: Path) -> None:
    for name in (".a.txt.unfinished-x.txt", ".b.txt.unfinished-x.txt", ".a.txt.swp", ".a.txt"):
        (tmp_path / name).touch()
    (tmp_path / ".a.txt.unfinished-link").symlink_to(tmp_path / ".a.txt")
    write_text(tmp_path / "a.txt", "new")
    others = {".b.txt.unfinished-x.txt", ".a.txt.swp", ".a.txt", ".a.txt.unfinished-link", "a.txt"}
    assert {path.name for path in tmp_path.iterdir()} == others


@pytest.mark.parametrize("name", [125 * "µ" + ".csv", 251 * "x" + ".csv", "x." + 253 * "y", "[a]*?.csv"])
def test_every_name_that_a_disk_takes_can_be_written(tmp_path: Path, name: str) -> None:
    for text in ("old", "new"):
        write_text(tmp_path / name, text)
    assert [path.name for path in tmp_path.iterdir()] == [name]


#: A write above the largest file size of a process; returns the error.
_FULL: str = tables(Path(__file__))["_FULL"]


def test_a_file_that_grows_too_large_leaves_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old", encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-c", _FULL, str(target)], capture_output=True, text=True, check=True, timeout=60
    )
    assert (ran.stdout, ran.stderr) == (f"{target}: cannot be written: File too large\n", "")
    assert target.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_device_that_is_full_says_so() -> None:
    with pytest.raises(InputError, match="/dev/full: cannot be written: No space left on device"):
        write_text("/dev/full", "x")


def test_what_was_read_is_not_overwritten(tmp_path: Path) -> None:
    """The check covers all names of an input file, but not its neighbors."""
    read, linked, beside = tmp_path / "read.txt", tmp_path / "linked.txt", tmp_path / "beside.txt"
    read.write_text("mine", encoding="utf-8")
    beside.write_text("other", encoding="utf-8")
    linked.symlink_to(read)
    with noting_files():
        assert read_text(linked) == "mine"
        for path in (read, linked, tmp_path / "x" / ".." / "read.txt"):
            with pytest.raises(InputError, match="this command reads the file, which would be lost"):
                write_text(path, "new")
        write_text(beside, "new")
    assert read.read_text(encoding="utf-8") == "mine"
    write_text(linked, "new")
    assert read.read_text(encoding="utf-8") == "new"
