"""All pages in all their forms, into a folder: what a change of structure must leave as it was.

``python -m benchmarks.pages FOLDER`` asks the commands of ``pages.txt`` and writes JSON, CSV, Markdown, what terminals
of 80 and 100 characters show, charts as Vega-Lite, and the question and answer of a report; run it before and after,
and compare the folders with ``diff -r``. With more words, only commands that contain one of them are asked.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import catalog
from inference_econ.records.plain import csv_text, json_text
from inference_econ.report.page import Page

show, main, outputs = (import_module(f"inference_econ_cli.{name}") for name in ("show", "main", "outputs"))
ROOT = Path(__file__).parents[1]
COMMANDS = Path(__file__).with_suffix(".txt")
#: What readers would have of their own: a measured run, a file of a chip.
FILES = ROOT / "tests" / "fixtures" / "transcripts"
#: Characters of a line of a terminal.
WIDTHS = (80, 100)


def forms(page: Page) -> Iterator[tuple[str, Callable[[], str]]]:
    """The forms of a page by the ending of their file."""
    yield "json", lambda: json_text(page.record())
    yield "csv", lambda: csv_text(page.frame())
    yield "md", page.markdown
    for width in WIDTHS:
        yield f"{width}.txt", lambda width=width: _terminal(page, width)  # type: ignore[misc]
    yield "charts.json", lambda: json.dumps({name: chart.to_dict() for name, chart in page.charts().items()}, indent=1)
    yield "told.txt", lambda: _said(page)


def _terminal(page: Page, width: int) -> str:
    os.environ["COLUMNS"] = str(width)
    output = outputs.Output(form="table", path=None, picture=None, why=True, quiet=False)
    return str(show._terminal_text(page.blocks(), output))


def _said(page: Page) -> str:
    lines = [page.question(), "".join(page.conclusion()), *map(str, page.sources()), str(page.proportional)]
    return "\n".join([*lines, ""])


def commands() -> list[str]:
    """The commands of all pages."""
    lines = COMMANDS.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def ask(command: str) -> Any:
    """Answer of a command that it would show, or its message."""
    words = shlex.split(command)
    try:
        called = main.app.commands[words[0]]
        # A page is made when it is written, and needs no context.
        with called.make_context(words[0], words[1:]) as context:
            return called.answer(context)
    except Exception as error:  # What a command refuses is one of its forms.
        return f"{type(error).__name__}: {getattr(error, 'message', error)}\n"


def written(make: Callable[[], str]) -> str:
    """A form of a page, or why there is none."""
    try:
        return make()
    except (InputError, NothingFitsError, NotImplementedError, OverflowError) as error:
        return f"{type(error).__name__}: {error}\n"


def write(folder: Path, only: list[str]) -> None:
    """Ask all commands, and write what they show."""
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(FILES, place, dirs_exist_ok=True)
        os.chdir(place)
        for command in commands():
            if only and not any(word in command for word in only):
                continue
            sys.stderr.write(f"{command}\n")
            stem = re.sub(r"[^a-z0-9.]+", "_", command.lower()).strip("_")[:150]
            answer = ask(command)
            if not isinstance(answer, Page):
                (folder / f"{stem}.text").write_text(answer or "", encoding="utf-8")
                continue
            for ending, make in forms(answer):
                (folder / f"{stem}.{ending}").write_text(written(make), encoding="utf-8")


if __name__ == "__main__":
    with warnings.catch_warnings(), catalog.uncopied():
        write(Path(sys.argv[1]), sys.argv[2:])
