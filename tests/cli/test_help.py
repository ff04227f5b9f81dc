"""Help: visible commands and options, and shell completion."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.formatting import wrap_text

from inference_econ.inputs import catalog
from inference_econ.requests import tables
from inference_econ.requests.words import command_of
from tests.commands import Command, parsers

PARSERS = parsers()


def _help(command: Command, *arguments: str) -> str:
    outcome = command(*arguments, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    return outcome.out


def test_commands_stand_under_headings_uncut(command: Command) -> None:
    text = _help(command)
    listed = dict.fromkeys(name.split()[0] for name in tables.COMMANDS if name not in tables.HIDDEN)
    assert re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE) == [
        "Options",
        *dict.fromkeys(each.heading for each in tables.COMMANDS.values()),
    ]
    assert "..." not in text.split("Size it:")[1]
    for name in listed:
        assert re.search(rf"^  {name}  ", text, re.MULTILINE)
    assert tables.COMMANDS["load"].summary in " ".join(text.split())
    assert 'eval "$(_INFERENCE_ECON_COMPLETE=bash_source inference-econ)"' in text


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_each_command_has_an_example_that_parses(command: Command, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    text = _help(command, *name.split())
    _, _, end = text.rpartition("Example")
    lines = [line.strip() for line in end.replace("\\\n", "").splitlines()[1:] if line.strip()]
    assert lines
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "inference-econ"
        row, arguments = command_of(words, pytest.fail)
        parsed, called = PARSERS[row.name], row.name
        with parsed.make_context(called, arguments, help_option_names=["-h", "--help"]) as context:
            assert context.params or not arguments
    assert any(line.startswith(f"inference-econ {name}") for line in lines)


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_help_fits_and_names_formats_once(command: Command, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = _help(command, *name.split())
    formats = "fp32, bf16, fp16, fp8, fp8_block, mxfp8"
    takes = " FORMAT " in text
    assert text.count(formats) == int(takes)
    assert "RANGE" not in text
    assert "x<=None" not in text
    options, _, _ = text.partition("Example")
    assert max(map(len, options.splitlines())) <= 100


#: Options that need more than two lines: kinds of prices, names of constants.
LONG_HELP = ("price", "names")


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_help_is_short(name: str) -> None:
    """A summary has at most 75 characters; an option has two lines at 80 columns, and one form of default."""
    row, parser = tables.COMMANDS[name], PARSERS[name]
    assert len(row.summary) <= 75 and row.summary[0].isupper() and row.summary.endswith(".")
    records = {str(it.name): it.get_help_record(click.Context(parser)) for it in parser.params}
    for option, record in records.items():
        if record is not None and option not in LONG_HELP:
            assert len(wrap_text(record[1], 44).splitlines()) <= 2, record
            assert "default" not in re.sub(r"\[default: [^]]*\]", "", record[1]), record


def test_options_stand_under_headings(command: Command) -> None:
    text = command("recommend", "--help-all").out
    found = re.findall(r"^(\w[\w, ]*):$", text, re.MULTILINE)
    assert [heading for heading in found if heading != "Options"] == [*tables.HEADINGS, "Number formats"]
    output = text.split("\nOutput:")[1]
    for option in ("--format", "--json", "--csv", "-o, --output", "--why", "--quiet", "-h, --help"):
        assert re.search(rf"^  {option}", output, re.MULTILINE), option


def test_options_under_headings_are_those_of_commands() -> None:
    listed = [name for names in tables.HEADINGS.values() for name in names]
    assert len(set(listed)) == len(listed)
    assert set(listed) - {"help"} <= {param.name for each in PARSERS.values() for param in each.params}


def _typed(monkeypatch: pytest.MonkeyPatch, line: str, word: int) -> None:
    """Ask for the completion of a word of a command line."""
    monkeypatch.setenv("_INFERENCE_ECON_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(word))


@pytest.mark.rows
def test_the_shell_completes_names(
    command: Command, monkeypatch: pytest.MonkeyPatch, words: list[str], start: str, expected: list[str]
) -> None:
    _typed(monkeypatch, shlex.join(["inference-econ", *words, start]), len(words) + 1)
    assert command().out.splitlines() == [f"plain,{name}" for name in expected]


def test_what_is_no_name_is_completed_as_a_file(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    _typed(monkeypatch, "inference-econ show model ./my", 3)
    assert command().out == "file,./my\n"


def test_a_word_that_is_not_utf_8_is_not_completed(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    _typed(monkeypatch, "inference-econ show model \udcff", 3)
    outcome = command()
    # Click 8.4.0 replaces the byte; later versions fail to print it.
    assert outcome.out == "file,?\n" or (outcome.code, "Error: a text is not UTF-8 (" in outcome.err) == (2, True)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script_too(command: Command, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    monkeypatch.setenv("_INFERENCE_ECON_COMPLETE", f"{shell}_source")
    assert "_INFERENCE_ECON_COMPLETE" in command().out


def test_the_help_of_an_hour_names_the_usual_terms(command: Command) -> None:
    text, terms = _help(command, "gpu-cost"), catalog.ownership()
    names = "lifetime_years utilisation host_watts pue dollars_per_kwh yearly_operations cost_of_capital"
    for name in names.split():
        assert f"[default: {getattr(terms, name):g}]" in text


@pytest.mark.parametrize("name", [name for name, row in tables.COMMANDS.items() if row.examples])
def test_examples_name_scenarios_and_presets_that_exist(name: str) -> None:
    known = {entry for kind in ("scenarios", "assumptions", "models", "hardware") for entry in catalog.names(kind)}
    for word in shlex.split(" ".join(tables.COMMANDS[name].examples).replace("\\ ", " ")):
        if word.startswith(("studies/", "paper/", "profiles/")):
            assert word in known, word


#: Examples that run for minutes, start or watch a server, or read a file of the user.
_NOT_RUN = re.compile(
    r"reproduce|claims|sweep|\bserve\b|watch|import|report answer|launch|\.prom|result\.json|api\.json|trace\.csv"
)
_EXAMPLES = [
    line for row in tables.COMMANDS.values() for line in "\n".join(row.examples).replace("\\\n", " ").splitlines()
]


@pytest.mark.long
@pytest.mark.parametrize("line", [line for line in _EXAMPLES if not _NOT_RUN.search(line)])
def test_examples_run(line: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(*shlex.split(line)[1:]).code == 0
