"""Run the commands of documents again, in order, and replace their output.

A command follows `` $ `` in an indented block, with its output below, up to the next command or the end of the block. A
backslash at the end of a line continues the command. Python follows `` >>> `` and continues after `` ... ``; one
document is one session. A line `` ...`` marks omitted lines; the numbers of lines above and below it are preserved.
``python -m benchmarks.transcripts README.md docs/start.md`` writes the current output and pictures; without names, all
documents with commands are renewed.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parents[1]
#: User files for the commands: a measured run, and a chip file.
FILES = ROOT / "tests" / "fixtures" / "transcripts"
PICTURES = Path("docs/pictures")
WIDTH = 100
INDENT = "    "
#: Output may start with a dollar sign too.
PROMPT = re.compile(rf"{INDENT}\$ (?=(?:inference-econ|cat|sh|pip|eval)\b)")
#: Python prompts; a line of omitted output has no trailing space.
PYTHON, MORE = f"{INDENT}>>> ", f"{INDENT}... "
CUT = "..."
#: Links to pictures.
SHOWN = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")
#: Commands that are not run, by prefix, with reasons.
EXCEPTED = {
    "pip install": "installs the package",
    "sh run.sh": "sets up an environment, and its commands have tests of their own",
    "sh launch.sh": "starts servers on a machine with accelerators",
    "inference-econ paper reproduce": "takes minutes; tests/studies reproduces the same cells",
    "eval": "tells a shell how to complete",
}


@dataclass(frozen=True)
class Transcript:
    """Command of a document with its output."""

    command: str
    """Command as typed, with continuation lines joined."""
    first: int
    """Index of the first output line in the document."""
    printed: tuple[str, ...]
    """Output without indentation and trailing empty lines."""
    python: bool = False
    """True for Python, False for the shell."""

    @property
    def excepted(self) -> str | None:
        """Reason why the command is not run, or None."""
        if self.python:
            return None
        return next((why for start, why in EXCEPTED.items() if self.command.startswith(start)), None)

    def cut(self, text: str) -> tuple[str, ...]:
        """Output of the command, omitting the lines that the document omits."""
        lines = tuple(line.rstrip() for line in text.strip("\n").split("\n")) if text.strip() else ()
        if CUT not in self.printed:
            return lines
        above = self.printed.index(CUT)
        below = len(self.printed) - above - 1
        return (*lines[:above], CUT, *lines[len(lines) - below :])


def transcripts(text: str) -> Iterator[Transcript]:
    """Commands of a document, in order."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        if not _prompted(lines[at]):
            at += 1
            continue
        python = lines[at].startswith(PYTHON)
        command, first = (_python if python else _shell)(lines, at)
        at = first
        while at < len(lines) and (not lines[at] or lines[at].startswith(INDENT)) and not _prompted(lines[at]):
            at += 1
        printed = "\n".join(line.removeprefix(INDENT) for line in lines[first:at]).rstrip("\n")
        yield Transcript(command, first, tuple(printed.split("\n")) if printed else (), python)


def _prompted(line: str) -> bool:
    return line.startswith(PYTHON) or PROMPT.match(line) is not None


def _shell(lines: list[str], at: int) -> tuple[str, int]:
    """Shell command that starts at a line, and the index of the next line."""
    command = lines[at].removeprefix(f"{INDENT}$ ")
    while command.endswith("\\"):
        at += 1
        command = f"{command[:-1].rstrip()} {lines[at].strip()}"
    return command, at + 1


def _python(lines: list[str], at: int) -> tuple[str, int]:
    """Python statement that starts at a line, and the index of the next line."""
    source, at = [lines[at].removeprefix(PYTHON)], at + 1
    while at < len(lines) and lines[at].startswith(MORE):
        source.append(lines[at].removeprefix(MORE))
        at += 1
    return "\n".join(source), at


def again(text: str, run: Callable[[Transcript], str]) -> str:
    """Document with renewed output; ``run`` returns the output of a command."""
    lines = text.split("\n")
    # Run in document order, but replace from the end, so that indices stay valid.
    now = [(it, it.printed if it.excepted else it.cut(run(it))) for it in transcripts(text)]
    for it, printed in reversed(now):
        lines[it.first : it.first + len(it.printed)] = [f"{INDENT}{line}".rstrip() for line in printed]
    return "\n".join(lines)


class Session:
    """Session of one document, with the names that its Python has bound."""

    def __init__(self) -> None:
        self._names: dict[str, object] = {}

    def __call__(self, transcript: Transcript) -> str:
        """Combined output of a command, run in this folder."""
        if not transcript.python:
            return run(transcript.command)
        streams = io.StringIO()
        with contextlib.redirect_stdout(streams), mock.patch.dict(os.environ, COLUMNS=str(WIDTH)):
            try:
                exec(compile(f"{transcript.command}\n", "<document>", "single"), self._names)
            except Exception as error:
                streams.write("".join(traceback.format_exception_only(error)))
        return streams.getvalue()


def run(command: str) -> str:
    """Combined output of ``inference-econ ...`` or ``cat FILE``, run in this folder."""
    program, *arguments = shlex.split(command, comments=True)
    if program == "cat":
        return "".join(Path(name).read_text(encoding="utf-8") for name in arguments)
    if program != "inference-econ":
        raise ValueError(f"{command!r} cannot be run here, and EXCEPTED does not say why")
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name=program)
    start = entry.load()
    streams = io.StringIO()
    with (
        mock.patch.object(sys, "argv", [program, *arguments]),
        mock.patch.dict(os.environ, COLUMNS=str(WIDTH), LINES="40"),
        contextlib.redirect_stdout(streams),
        contextlib.redirect_stderr(streams),
        contextlib.suppress(SystemExit),
    ):
        start()
    return streams.getvalue()


def furnish(folder: Path) -> None:
    """Copy input files and create output folders for the documents' commands."""
    shutil.copytree(FILES, folder, dirs_exist_ok=True)
    (folder / PICTURES).mkdir(parents=True)


def shown(document: Path, text: str, folder: Path) -> Iterator[tuple[Path, Path]]:
    """Pictures that commands have drawn in a folder, with their places in the document."""
    for link in SHOWN.findall(text):
        if (folder / Path(link).name).exists():
            yield folder / Path(link).name, document.parent / link


def renew(document: Path) -> None:
    """Write a document with renewed output and pictures."""
    text = document.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name)
        furnish(folder)
        renewed = again(text, Session())
        shutil.copytree(PICTURES, ROOT / PICTURES, dirs_exist_ok=True)
        for drawn, kept in shown(document, text, folder):
            shutil.copyfile(drawn, kept)
    document.write_text(renewed, encoding="utf-8")


def documents() -> tuple[Path, ...]:
    """README and all documents with commands, by name."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    return tuple(
        path
        for path in (ROOT / "README.md", *pages)
        if "_build" not in path.parts and any(transcripts(path.read_text(encoding="utf-8")))
    )


if __name__ == "__main__":
    for path in [(ROOT / name).resolve() for name in sys.argv[1:]] or documents():
        sys.stderr.write(f"{path.relative_to(ROOT)}\n")
        renew(path)
