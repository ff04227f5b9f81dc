"""Scripts of ``launch`` run only the intended commands, for any text in a model's file or an option."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from inference_econ.answers.launching import plan
from inference_econ.inputs.catalog import folder
from tests.commands import Command, stand_ins

HOSTILE = (
    "a/b$(touch PWNED)",
    "a/b`touch PWNED`",
    '$x"; touch PWNED; "',
    "a'; touch PWNED; '",
    "a/b\ntouch PWNED",
    "$(touch PWNED)-${HOME}",
)
ASKED = ("--request-rate", "5", "--weights", "fp8", "--dp", "1", "--pp", "1", "--tp", "2")
WIDE = ("deepseek_v3", "h200_sxm", "--request-rate", "2", "--tp", "8", "--dp", "2", "--pp", "1", "--ep", "16")
FORMS = ("command", "compose", "kubernetes", "leaderworkerset", "llm-d", "dynamo")


def _run(folder: Path, line: Sequence[str], program: str) -> list[str]:
    """Return the arguments that a program receives from a command line, in a folder where only ``touch`` can run."""
    heard = folder / "heard"
    heard.unlink(missing_ok=True)
    path = stand_ins(folder / "bin", {program: f"printf '%s\\036' \"$@\" > '{heard}'"}, "touch", "sh", "cat", "seq")
    environment = {"PATH": path, "LWS_WORKER_INDEX": "1", "LWS_LEADER_ADDRESS": "leader"}
    subprocess.run(line, cwd=folder, env=environment, capture_output=True, check=True)
    return heard.read_text().split("\036")[:-1]


def _lists(record: Any) -> Iterator[list[str]]:
    """Return the command line of each container of a document: program, then its arguments."""
    if isinstance(record, list):
        for item in record:
            yield from _lists(item)
    elif isinstance(record, dict):
        words: list[list[str]] = [record.get(key, []) for key in ("entrypoint", "command", "args")]
        if isinstance(record.get("command"), list):
            yield [word for part in words for word in part]
        for value in record.values():
            yield from _lists(value)


def _comments(text: str) -> str:
    """Return the benchmark command in the comments of a manifest."""
    lines = [line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#")]
    return "\n".join(lines[lines.index("hold it to account:") + 1 :])


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the check of weight names: the written files must be safe without it."""
    monkeypatch.setattr(plan, "is_repository", lambda name: bool(name))


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("word", HOSTILE)
def test_a_hostile_word_reaches_the_engine_unchanged(command: Command, tmp_path: Path, form: str, word: str) -> None:
    subject = WIDE if form == "leaderworkerset" else ("llama_3_70b", "h100_sxm", *ASKED)
    text = command("launch", *subject, "--to", "vllm", "--as", form, "--model-id", word).out
    script = tmp_path / "launch.sh"
    if form == "command":
        script.write_text(text)
        for kind in ("serve", "bench"):
            assert word in _run(tmp_path, ["sh", str(script), kind], "vllm")
    else:
        script.write_text(_comments(text))
        assert word in _run(tmp_path, ["sh", str(script)], "vllm")
        lines = [line for record in yaml.safe_load_all(text) for line in _lists(record)]
        started = [line for line in lines if not (len(line) == 3 and line[2] == "dynamo.frontend")]
        assert started
        for line in started:
            assert word in _run(tmp_path, line, "python3" if form == "dynamo" else "vllm")
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("form", FORMS)
def test_a_hostile_name_of_a_model_stays_a_comment(command: Command, tmp_path: Path, form: str) -> None:
    text = (folder("models") / "llama_3_8b.yaml").read_text()
    name = next(line for line in text.splitlines() if line.startswith("name:"))
    hostile = '"x touch PWNED; touch: PWNED $(touch PWNED) `touch PWNED`"'
    (tmp_path / "m.yaml").write_text(text.replace(name, f"name: {hostile}"))
    asked = ("m.yaml", "h100_sxm", "--request-rate", "5", "--tp", "1", "--dp", "1", "--pp", "1")
    outcome = command("launch", *asked, "--to", "vllm", "--as", form)
    if form == "leaderworkerset":
        assert outcome.code == 0, outcome.err
    if form == "command":
        (tmp_path / "launch.sh").write_text(outcome.out)
        assert _run(tmp_path, ["sh", "launch.sh", "serve"], "vllm")
    else:
        assert all("touch" not in record for record in yaml.safe_load_all(outcome.out))
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("word", HOSTILE)
def test_a_hostile_head_reaches_the_engine_letter_by_letter(command: Command, tmp_path: Path, word: str) -> None:
    asked = ("llama_3_8b", "h100_sxm", "--request-rate", "0.1", "--tp", "1", "--eagle", "--to", "vllm")
    (tmp_path / "launch.sh").write_text(command("launch", *asked, "--draft-model-id", word).out)
    words = _run(tmp_path, ["sh", "launch.sh", "serve"], "vllm")
    assert json.loads(words[words.index("--speculative-config") + 1])["model"] == word
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("option", ["--model-id", "--image", "--draft-model-id"])
@pytest.mark.parametrize("word", [*HOSTILE, "--trust-remote-code", "a b", ""])
def test_names_of_weights_and_images_are_plain(refused: Command, option: str, word: str) -> None:
    asked = ("llama_3_70b", "h100_sxm", *ASKED, "--eagle", "--to", "vllm")
    error = refused("launch", *asked, f"{option}={word}").warned
    assert f"{option} " in error
    assert "is needed, in letters, digits and . / : @ _ -, beginning with no dash" in error


@pytest.mark.parametrize("field", ["huggingface_id", "  fp8", "  eagle"])
@pytest.mark.parametrize("word", ["a/b$(touch PWNED)", "--trust-remote-code", "a b"])
def test_a_file_of_a_model_names_its_weights_plainly(refused: Command, tmp_path: Path, field: str, word: str) -> None:
    text = (folder("models") / "llama_3_8b.yaml").read_text()
    line = next(line for line in text.splitlines() if line.startswith(f"{field}:"))
    (tmp_path / "m.yaml").write_text(text.replace(line, f'{field}: "{word}"'))
    place = f"m.yaml:{text.splitlines().index(line) + 1}"
    error = refused("launch", "m.yaml", "h100_sxm", "--to", "vllm", "--max-instance-gpus", "1").warned
    assert place in error
    assert f"{field.strip()}: write ORGANIZATION/NAME in letters, digits" in error
    assert f"got {word!r}" in error
