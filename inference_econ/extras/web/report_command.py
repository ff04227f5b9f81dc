"""The command that writes answers into one file for a browser."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from inference_econ_cli.commands import ClickCommand

import inference_econ as ie
from inference_econ import report as reports
from inference_econ.errors import InputError
from inference_econ.records import saved
from inference_econ.records.plain import json_text
from inference_econ.requests import COMMANDS, Request
from inference_econ.requests.tables import SHOWN

_PROGRAM = "inference-econ"


def report(request: Request, asked: tuple[str, ...], output: str, to: str | None) -> None:
    """One file to mail: questions, their answers, charts, tables, what to start and what it all rests on.

    What is asked is a saved answer (-o answer.json of another command), whose question is asked again and held against
    the file; a scenario; the folder of a sweep; or another command with its options, in quotes. A file has several
    questions if several are given. It opens without a network, and what is exactly in proportion to a price has a
    slider.
    """
    questions = [_answer(text, to, quiet=request.quiet) for text in asked]
    words = [_PROGRAM, "report", *asked, *(["--to", to] if to else []), "-o", output]
    reports.web.write(output, questions, shlex.join(words))
    request.tell(f"wrote {output}")


def _answer(text: str, to: str | None, *, quiet: bool) -> reports.web.Asked:
    """A question of any kind, asked.

    Raises
    ------
    InputError
        If it is none that a report can show.
    """
    if text.lower().endswith(".json") and len(text.split()) == 1:
        return _saved(text, to, quiet=quiet)
    if text and Path(text).is_dir():
        return _swept(text)
    words = _words(text)
    return _answered(["run", *words] if len(words) == 1 and words[0] not in COMMANDS else words, to, quiet=quiet)


def _words(text: str) -> list[str]:
    """A command and its words, without the name of the program."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{text!r}: {str(error).lower()}; close what is quoted inside of the command") from error
    words = words[words[:1] == [_PROGRAM] :]
    if not words:
        raise InputError(
            f'{text!r}: nothing is asked; write for example "frontier llama_3_70b h100_sxm --weights fp8", a scenario, '
            "or answer.json"
        )
    return words


def _answered(words: Sequence[str], to: str | None, *, quiet: bool) -> reports.web.Asked:
    """Answer of a command, as on a terminal.

    Raises
    ------
    InputError
        If there is no such command, or it answers no question, or it is told where its answer goes.
    """
    name = words[0]
    command = _command(name)
    arguments = [*words[1:], *(["--quiet"] if quiet else [])]
    with command.make_context(name, arguments, parent=click.get_current_context().find_root()) as context:
        stray = next((name for name in SHOWN if name != "quiet" and name in command.asked(context).given), None)
        if stray is not None:
            raise InputError(
                f"{command.row.parameters[stray].spelled[0]} inside of the quotes: a report is written once, by its "
                "own -o; leave it out"
            )
        page = command.answer(context)
    engine = context.params.get("engine")
    named = engine[0].partition("@")[0] if engine else None
    return reports.web.Asked(page, shlex.join([_PROGRAM, *words]), (), to or named)


def _command(name: str) -> ClickCommand:
    """A command that answers a question.

    Raises
    ------
    InputError
        If there is none of that name, or it answers none.
    """
    if name == "report":
        raise InputError("a report in a report: give what is asked itself, without 'report'")
    reported = [row.name for row in COMMANDS.values() if "reported" in row.doors]
    if name in reported:
        return ClickCommand(COMMANDS[name])
    if name in COMMANDS:
        raise InputError(f"{name!r} answers no question that a report could show; these do: {', '.join(reported)}")
    near = difflib.get_close_matches(name, reported, 1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    raise InputError(f"no command {name!r}; {meant}A report shows {', '.join(reported)}")


def _swept(folder: str) -> reports.web.Asked:
    """Report of the folder of a sweep.

    Raises
    ------
    InputError
        If it is none.
    """
    return reports.web.Asked(
        reports.sweep.SweepPage(ie.load_sweep(folder).summary()), shlex.join([_PROGRAM, "report", folder])
    )


def _saved(path: str, to: str | None, *, quiet: bool) -> reports.web.Asked:
    """Question of a saved answer, asked again and held against the file.

    Raises
    ------
    InputError
        If the file is no answer, or one of another release.
    """
    answer = saved.question(path)
    words = _command(answer.kind).row.typed(answer.options)
    try:
        question = _answered([answer.kind, *words], to, quiet=quiet)
    except click.UsageError as error:
        raise InputError(f"{path}: not what {answer.kind} writes ({error.format_message()})") from error
    return replace(question, remarks=(_compared(path, answer.record, question.page),))


def _compared(path: str, record: Mapping[str, Any], page: reports.page.Page) -> str:
    """Sentence on whether a file says what is answered now."""
    name = Path(path).name
    if record == json.loads(json_text(page.plain())):
        return f"The question of {name} was asked again, and the answer is that of the file."
    return (
        f"The question of {name} was asked again, and the answer is another one than the file's: facts, fits or files "
        "that it names have changed since. This report shows the answer of today."
    )
