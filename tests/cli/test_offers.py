"""API offers on the command line: list, snapshot, and comparison with serving costs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from inference_econ.inputs import offers
from tests.commands import Command, record

_ONE = ("--instance-gpus", 1, "--aggregated")
_SMALL = ("price", "qwen3_32b", "h100_sxm", "--weights", "fp8", "--request-rate", 2, *_ONE)
_MINE = "provider,model,hours,input,cached_input,output\nown,qwen3-32b,peak,2,0.2,4\nown,qwen3-32b,off-peak,1,0.1,2\n"


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set an empty home folder."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def _listed(command: Command, model: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(command("list", "offers", model, "--format", "json").out)
    return found


def test_a_snapshot_counts_from_then_on(command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(_MINE, encoding="utf-8")
    wrote = command("prices", "--refresh", "mine.csv", "--date", "2026-11-20")  # 'offers' by another name
    assert (wrote.code, wrote.out) == (0, "")
    assert f"wrote {offers.own_file()}: 2 offers, 2 of models of the catalogue" in wrote.warned
    assert _listed(command, "qwen3_32b")[-1]["where"] == "mine.csv, line 2"
    sheet = record(command, *_SMALL, "--api-prices", "own:peak")
    half = record(command, *_SMALL, "--api-prices", "own/qwen3-32b:off-peak")
    assert sheet["revenue_dollars_per_hour"] == pytest.approx(2 * half["revenue_dollars_per_hour"])
    text = command(*_SMALL, "--api-prices", "own:peak", "--why").said
    assert "API: own, qwen3-32b, peak hours, 2026-11-20 (user)." in text


@pytest.mark.rows
def test_bad_input_writes_nothing(command: Command, tmp_path: Path, words: tuple[str | int, ...], message: str) -> None:
    (tmp_path / "mine.csv").write_text(_MINE, encoding="utf-8")
    outcome = command(*words)
    assert outcome.code == 2
    assert message in outcome.warned
    assert not offers.own_file().exists()


def test_offers_are_in_the_folder_of_xdg(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "mine"))
    (tmp_path / "mine.csv").write_text(_MINE, encoding="utf-8")
    assert command("list", "offers", "--refresh", "mine.csv", "--date", "2026-11-20").code == 0
    assert (tmp_path / "mine" / "inference_econ" / "offers.csv").is_file()
    monkeypatch.setenv("XDG_CONFIG_HOME", "not/absolute")
    assert offers.own_file() == tmp_path / "home" / ".config" / "inference_econ" / "offers.csv"


def test_a_user_without_a_home(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Batch systems have neither HOME nor a user entry; Altair cannot be imported then."""
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert offers.own_file().is_relative_to("/dev/null")
    assert command("list", "offers", "qwen3_32b").code == 0
    assert os.environ["HOME"] == "/dev/null"
    (tmp_path / "mine.csv").write_text(_MINE, encoding="utf-8")
    said = command("list", "offers", "--refresh", "mine.csv", "--date", "2026-11-20")
    assert said.code == 2
    assert "offers.csv: cannot be written: Not a directory; set XDG_CONFIG_HOME to a folder" in said.warned
    assert command("import", "Qwen/Qwen3-8B").code == 2
