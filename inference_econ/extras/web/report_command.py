"""The ``report`` command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ.errors import InputError
from inference_econ.records import saved
from inference_econ.records.plain import json_text
from inference_econ.requests import COMMANDS, Command, Request
from inference_econ.requests.tables import SHOWN
from inference_econ.requests.words import command_of, is_command

if TYPE_CHECKING:
    from inference_econ.extras.web import document
    from inference_econ.report.page import Page

_PROGRAM = "inference-econ"


def report(request: Request, asked: tuple[str, ...], output: str, to: str | None) -> None:
    """Write results with charts, tables and sources to one HTML file.

    Each argument is a saved result (-o answer.json of another command), a scenario, the folder of a sweep, or another
    command with its options in quotes. The command evaluates a saved result again and reports differences. The
    file needs no network connection. A slider changes a price and all values that are proportional to it.
    """
    from inference_econ.extras.web import document

    questions = [_answer(request, text, to) for text in asked]
    words = [_PROGRAM, "report", *asked, *(["--to", to] if to else []), "-o", output]
    document.write(output, questions, shlex.join(words))
    request.tell(f"wrote {output}")


def _answer(request: Request, text: str, to: str | None) -> document.Asked:
    """Run one argument of the command.

    Raises
    ------
    InputError
        If reports do not support the argument.
    """
    if text.lower().endswith(".json") and len(text.split()) == 1:
        return _saved(request, text, to)
    if text and Path(text).is_dir():
        from inference_econ.extras.web import document
        from inference_econ.report.pages import page as page_of

        return document.Asked(page_of(ie.load_sweep(text).summary()), shlex.join([_PROGRAM, "report", text]))
    # The words are a command line without the program name.
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{text!r}: {str(error).lower()}; close what is quoted inside of the command") from error
    words = words[words[:1] == [_PROGRAM] :]
    if not words:
        raise InputError(
            f'{text!r}: no query; write for example "frontier llama_3_70b h100_sxm --weights fp8", a scenario, '
            "or answer.json"
        )
    return _answered(request, ["paper", "run", *words] if len(words) == 1 and not is_command(words[0]) else words, to)


def _answered(request: Request, words: Sequence[str], to: str | None) -> document.Asked:
    """Run a command line.

    Raises
    ------
    InputError
        If the command is unknown or unsupported, or has output options.
    """
    from inference_econ.extras.web import document
    from inference_econ.report.page import Page
    from inference_econ.report.pages import page as page_of

    _check_reported(request, words)
    asked = request.host.parse([*words, *(["--quiet"] if request.quiet else [])])
    stray = next((name for name in SHOWN if name != "quiet" and name in asked.given), None)
    if stray is not None:
        raise InputError(
            f"{asked.command.parameters[stray].spelled[0]} inside of the quotes: a report is written once, by its "
            "own -o; leave it out"
        )
    answered = asked.answer(replace(request.host, progress=None))
    engine = asked.values.get("engine")
    named = engine[0].partition("@")[0] if engine else None
    page = answered if isinstance(answered, Page) else page_of(answered)
    return document.Asked(page, shlex.join([_PROGRAM, *words]), (), to or named)


def _check_reported(request: Request, words: Sequence[str]) -> Command:
    """Find the command, and reject a command that reports do not support.

    Raises
    ------
    InputError
        If the command is unknown or unsupported.
    """
    command, _ = command_of(words, request.tell)
    if command.name == "report":
        raise InputError("a report cannot contain a report; give the query without 'report'")
    if "reported" not in command.doors:
        reported = [row.name for row in COMMANDS.values() if "reported" in row.doors]
        raise InputError(
            f"{command.name!r} answers no question that a report could show; these do: {', '.join(reported)}"
        )
    return command


def _saved(request: Request, path: str, to: str | None) -> document.Asked:
    """Run the command of a saved result again, and compare the new result with the saved result.

    Raises
    ------
    InputError
        If the file is not a saved result, or was written by another release.
    """
    answer = saved.question(path)
    command, options = _check_reported(request, answer.kind.split()), dict(answer.options)
    if command.name == "sensitivity" and "names" not in options:  # A result of 'what-if' has one model and GPU.
        options["names"] = [options.pop("model", ""), options.pop("hardware", "")]
    words = [*command.name.split(), *command.typed(options)]
    try:
        request.host.parse(words)
    except InputError as error:
        raise InputError(f"{path}: not what {answer.kind} writes ({error})") from error
    question = _answered(request, words, to)
    return replace(question, remarks=(_compared(path, answer.record, question.page),))


def _compared(path: str, record: Mapping[str, Any], page: Page) -> str:
    """Sentence on whether the new result equals the file."""
    name = Path(path).name
    if record == json.loads(json_text(page.plain())):
        return f"The question of {name} was asked again, and the answer is that of the file."
    return (
        f"The question of {name} was asked again, and the answer is another one than the file's: facts, fits or files "
        "that it names have changed since. This report shows the answer of today."
    )
