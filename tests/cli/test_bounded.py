"""Commands reject long work before it starts unless the user allows it; an interrupt ends them with one word."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import inference_econ as ie
from tests.commands import Command
from tests.reading import FIXTURES, tables

#: Code of the installed script after the start of the interpreter.
BEGUN: str = tables(Path(__file__))["BEGUN"]
SPARSE_BYTES = 2_000_000_000


@pytest.mark.rows
def test_long_work_is_refused_with_advice(refused: Command, seconds: int, arguments: list[str], message: str) -> None:
    with ie.allow(seconds=seconds):  # the default is ten minutes; these errors come sooner
        outcome = refused(*(str(word).replace("FIXTURES", str(FIXTURES)) for word in arguments))
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_yes_goes_on(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from inference_econ.extras.papers import sampling_rule

    # Few rounds are then long work.
    monkeypatch.setattr(sampling_rule, "_DRAFT_SECONDS", 1.0)
    assert command("paper", "run", "seeds/speculative_sampling").code == 2
    outcome = command("paper", "run", "seeds/speculative_sampling", "--yes", "--json")
    assert outcome.code == 0
    assert "1,000,000 rounds" in json.loads(outcome.out)["tables"][0]["title"]
    assert command("paper", "run", "seeds/speculative_sampling").code == 2


@pytest.mark.rows
def test_scenarios_needing_too_much_are_refused(refused: Command, tmp_path: Path, sampling: str, message: str) -> None:
    settings = f"model: llama_3_8b, hardware: h100_sxm, decode_only: true, sampling: {{{sampling}}}"
    series = f"[{{label: a, settings: {{{settings}}}}}]"
    text = f"name: n\ndescription: d\nask:\n  kind: frontier\n  series: {series}\nsources: {{}}\n"
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    assert message in refused("paper", "run", "s.yaml").err


def _unread(folder: Path, kind: str) -> str:
    path = folder / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "sparse":
        with path.open("wb") as stream:
            stream.truncate(SPARSE_BYTES)
    else:
        return f"/dev/{kind}"
    return str(path)


@pytest.mark.parametrize("kind", ["full", "zero", "pipe", "sparse"])
@pytest.mark.rows
def test_only_small_regular_files_are_read(refused: Command, tmp_path: Path, arguments: list[str], kind: str) -> None:
    path = _unread(tmp_path, kind)
    if kind != "sparse" and not Path(path).exists():
        pytest.skip(f"there is no {path}")
    message = refused(*(word.format(path) for word in arguments)).err
    assert path in message


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
def test_an_interrupt_at_any_moment_ends_with_a_word(tmp_path: Path, seconds: float) -> None:
    words = ["load", "deepseek_v3", "gb200_nvl72", "--instance-gpus", "64", "--simulate", "--osl", "20000"]
    process = subprocess.Popen(
        [sys.executable, "-c", BEGUN, *words, "-o", "a.csv", "--plot", "a.png"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (130, "", "stopped\n")
    assert list(tmp_path.iterdir()) == []
