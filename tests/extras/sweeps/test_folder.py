from __future__ import annotations

import errno
import json
import multiprocessing
import os
import sys
from pathlib import Path

import pandas as pd
import pytest

import inference_econ as ie
from benchmarks import sweep_kills
from inference_econ import _work
from inference_econ.errors import InputError, TooMuchError
from inference_econ.extras.sweeps import combinations as rows
from inference_econ.extras.sweeps.combinations import Combinations
from inference_econ.inputs import Scenario
from tests.extras.sweeps.studies import AXES, study
from tests.reading import of


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the small sweep, run without an interruption."""
    folder = tmp_path_factory.mktemp("sweeps") / "whole"
    ie.sweep(study(), folder)
    return folder


@pytest.fixture
def begun(whole: Path, tmp_path: Path) -> Path:
    """Return a copy of it without some of its parts."""
    folder = tmp_path / "begun"
    folder.mkdir()
    for path in whole.iterdir():
        if path.name not in ("part-00003.parquet", "part-00008.parquet", ".lock"):
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _every_row(folder: Path) -> pd.DataFrame:
    return ie.load_sweep(folder).every_row()


def test_a_sweep_goes_on_where_it_stopped(whole: Path, begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ie.load_sweep(begun).missing == 2
    assert ie.load_sweep(begun).summary().combinations == 10
    asked, part = [], rows.part

    def noted(combinations: Combinations, index: int) -> rows.SweepPart:
        asked.append(index)
        return part(combinations, index)

    monkeypatch.setattr(rows, "part", noted)
    said: list[tuple[float, str]] = []
    swept = ie.sweep(study(), begun, progress=lambda *words: said.append(words))
    assert (asked, swept.missing) == ([3, 8], 0)
    pd.testing.assert_frame_equal(_every_row(begun), _every_row(whole))
    parts = ["11 of 12 combinations, 1 failed", "12 of 12 combinations, 2 failed"]
    assert [text.rpartition(",")[0] for _, text in said] == parts
    assert said[-1] == (1.0, "12 of 12 combinations, 2 failed, 0 s left")


def test_an_interrupt_leaves_what_is_answered(whole: Path, begun: Path) -> None:
    def interrupted(share: float, _: str) -> None:
        if share < 1.0:
            raise KeyboardInterrupt

    with _work.waited_for(lambda _: None) as waiting:
        assert ie.sweep(study(), begun, progress=interrupted).missing == 1
    assert waiting.stopped == f"11 of 12 combinations in {begun}; the same command goes on"
    with pytest.raises(KeyboardInterrupt):  # Python callers need the interrupt
        ie.sweep(study(), begun.parent / "another", progress=interrupted)
    ie.sweep(study(), begun)
    pd.testing.assert_frame_equal(_every_row(begun), _every_row(whole))


@pytest.mark.parametrize("length", [0, 100, -1, None])
def test_half_written_and_misplaced_parts_are_made_again(whole: Path, begun: Path, length: int | None) -> None:
    ie.sweep(study(), begun)
    other = "part-00002.parquet" if length is None else "part-00001.parquet"
    (begun / "part-00001.parquet").write_bytes((begun / other).read_bytes()[:length])
    assert ie.load_sweep(begun).missing == 1
    ie.sweep(study(), begun)
    pd.testing.assert_frame_equal(_every_row(begun), _every_row(whole))


def test_what_is_shown_may_change_and_what_is_asked_may_not(begun: Path) -> None:
    swept = ie.sweep(study(AXES, cheapest={"speeds": [5]}), begun)
    assert swept.summary().speeds == ie.load_sweep(begun).summary().speeds == (5,)
    with pytest.raises(InputError, match=r"begun: has the rows of another sweep .*; give a new folder"):
        ie.sweep(study({**AXES, "hardware": ["l4"]}), begun)


def test_facts_and_rows_of_another_release_are_refused(begun: Path) -> None:
    manifest = json.loads((begun / "sweep.json").read_text())
    (begun / "sweep.json").write_text(json.dumps({**manifest, "facts": "others", "version": "0.0.1"}))
    with pytest.raises(InputError, match=r"started with other facts \(release 0\.0\.1, or files .*; give a new folder"):
        ie.sweep(study(), begun)
    (begun / "sweep.json").write_text(json.dumps({**manifest, "digest": "others", "version": "0.0.1"}))
    with pytest.raises(InputError, match=r"begun: written by another release \(0\.0\.1\); sweep again into a new"):
        ie.load_sweep(begun)


@pytest.mark.rows
def test_a_damaged_manifest_is_refused(begun: Path, text: str, message: str) -> None:
    (begun / "sweep.json").write_text(text.replace("NESTED", 100_000 * "["))
    with pytest.raises(InputError, match=message):
        ie.load_sweep(begun)
    with pytest.raises(InputError, match=message):
        ie.sweep(study(), begun)


def test_folders_of_something_else_are_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("x")
    message = r"no folder of a sweep, it has letter\.txt in it; give a new folder"
    with pytest.raises(InputError, match=message):
        ie.load_sweep(tmp_path)
    with pytest.raises(InputError, match=message):
        ie.sweep(study(), tmp_path)
    with pytest.raises(InputError, match=r"letter\.txt: no folder of a sweep: Not a directory"):
        ie.sweep(study(), tmp_path / "letter.txt")
    with pytest.raises(InputError, match=r"none: no sweep; write one with 'inference-econ sweep STUDY.yaml -o "):
        ie.load_sweep(tmp_path / "none")
    assert _names(tmp_path) == ["letter.txt"]


def test_two_sweeps_do_not_write_one_folder(begun: Path) -> None:
    def second(*_: object) -> None:
        with pytest.raises(InputError, match="begun: another sweep is writing into it; wait for it, or stop it"):
            ie.sweep(study(), begun)

    ie.sweep(study(), begun, progress=second)


def test_a_full_disk_keeps_what_is_done(begun: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    names = _names(begun)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        message = r"part-00003\.parquet: cannot be written: No space left on device; finished parts"
        with pytest.raises(InputError, match=message):
            ie.sweep(study(), begun)
    assert _names(begun) == [".lock", *names]
    ie.sweep(study(), begun)
    pd.testing.assert_frame_equal(_every_row(begun), _every_row(whole))


def test_what_is_no_sweep_and_what_is_too_much_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Table 4 is a scenario of the kind 'frontier', not a sweep; 'run' answers it"):
        ie.sweep("paper/table_4", tmp_path / "none")
    with pytest.raises(InputError, match="jobs: a number of processes from 1 is needed, got 0"):
        ie.sweep(study(), tmp_path / "none", jobs=0)
    thousand = list(range(1, 1001))
    many = study({"model": ["llama_3_8b"], "hardware": ["l4"], "isl": thousand, "osl": thousand})
    with pytest.raises(TooMuchError, match="1,000,000 combinations take about 28 hours; reduce the axes"):
        ie.sweep(many, tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.long
def test_a_sweep_that_is_killed_loses_and_repeats_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of the 100 random kills of `sh run.sh sturdiness sweep-kills`, which compares rows with a full sweep's."""
    others = set(multiprocessing.active_children())  # of the tests before, such as the explorer's
    monkeypatch.setattr(sys, "argv", ["sweep_kills", "--kills", "3"])
    sweep_kills.main()
    assert set(multiprocessing.active_children()) <= others


def test_a_sweep_is_an_answer_like_others(whole: Path, tmp_path: Path) -> None:
    swept = ie.load_sweep(whole)
    assert repr(swept) == f"<Sweep: Small sweep ({len(swept.displayed.to_frame())} rows)>"
    assert "12 combinations" in json.dumps(swept.to_dict()) or swept.to_dict()["combinations"] == 12
    swept.plot(tmp_path / "cheapest.svg")
    swept.save(tmp_path / "answer.json")
    assert "h100_sxm" in (tmp_path / "cheapest.svg").read_text()
    assert ie.load_answer(tmp_path / "answer.json").to_dict()["cheapest"] == swept.to_dict()["cheapest"]
    assert list(swept.to_frame().columns) == list(_every_row(whole).columns)[:-2]


def test_a_small_sweep_is_answered_in_memory_like_any_scenario(whole: Path) -> None:
    spec = of(Scenario, study())
    assert ie.run(spec).study == ie.load_sweep(whole).summary()
