"""The README: every command prints the shown output, its Python runs, and its flags exist."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import transcripts
from benchmarks.transcripts import Transcript
from tests.commands import parsers
from tests.reading import tables

TEXT = (transcripts.ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = list(transcripts.transcripts(TEXT))
PYTHON = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return one folder for all commands, in the README's order: later commands read earlier files."""
    path = tmp_path_factory.mktemp("readme")
    transcripts.furnish(path)
    with contextlib.chdir(path):
        yield path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("shown", [it for it in COMMANDS if not it.excepted], ids=lambda it: it.command)
def test_commands_print_what_stands_below_them(shown: Transcript) -> None:
    assert shown.printed == shown.cut(transcripts.run(shown.command))


def test_only_what_cannot_run_is_excepted() -> None:
    excepted = [it.command.split("#")[0].strip() for it in COMMANDS if it.excepted]
    served = "pip install '.[explorer]' && inference-econ serve"
    scripts = ["sh run.sh demo", "sh run.sh test"]
    ends = ["sh run.sh long", "sh run.sh docs"]
    assert excepted == [*scripts, "sh launch.sh prefill 0", "sh launch.sh bench", served, *ends]


def test_it_is_short_enough_to_be_read() -> None:
    assert len(TEXT.splitlines()) <= 200


def test_every_block_with_a_command_is_a_transcript() -> None:
    """A command without its prompt would never run."""
    assert not re.findall(r"^    (?:inference-econ|sh|pip) .*", TEXT, flags=re.MULTILINE)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("block", PYTHON)
def test_python_runs(block: str) -> None:
    exec(compile(block, "README.md", "exec"), {})


def test_flags_in_the_text_exist() -> None:
    named = {flag for code in re.findall(r"`([^`\n]+)`", TEXT) for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", code)}
    options = [option for command in parsers().values() for option in command.params]
    assert named
    spelled = {"--version", "--help", *(word for option in options for word in (*option.opts, *option.secondary_opts))}
    assert named <= spelled


DOCUMENT: str = tables(Path(__file__))["DOCUMENT"]


def test_a_document_is_made_again() -> None:
    printed = {"inference-econ one --more": "1\n$ 2\n\n4\n", "cat two": "\n"}
    cut = DOCUMENT.format("    old\n    ...\n    old")
    assert transcripts.again(cut, lambda it: printed[it.command]) == DOCUMENT.format("    1\n    ...\n    4")
    whole = DOCUMENT.format("    $ old")
    assert transcripts.again(whole, lambda it: printed[it.command]) == DOCUMENT.format("    1\n    $ 2\n\n    4")


def test_an_unknown_program_is_refused() -> None:
    with pytest.raises(ValueError, match="'pip list' cannot be run here"):
        transcripts.run("pip list")
