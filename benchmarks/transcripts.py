"""Commands of documents and what they print: run again, in the order of the document, and put in place.

A command stands behind ``    $ `` in an indented block, and what it prints below it, up to the next command or the
end of the block; a backslash at the end of its line goes on in the next. Python stands behind ``    >>> `` and goes on
behind ``    ... ``; one document is one session. A line ``    ...`` stands for what was cut out: as many lines as are
above and below it are kept. ``python -m benchmarks.transcripts README.md docs/start.md`` writes what is printed now,
and the pictures that a document shows; without names, all documents that have commands.
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
#: What readers would have of their own: a measured run, a file of a chip.
FILES = ROOT / "tests" / "fixtures" / "transcripts"
PICTURES = Path("docs/pictures")
WIDTH = 100
INDENT = "    "
#: What is printed may begin with a dollar too.
PROMPT = re.compile(rf"{INDENT}\$ (?=(?:inference-econ|cat|sh|pip|eval)\b)")
#: Python, and how it goes on; a line of cut output has no space at its end.
PYTHON, MORE = f"{INDENT}>>> ", f"{INDENT}... "
CUT = "..."
#: Pictures that a document shows.
SHOWN = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")
#: Beginnings of commands that are not run here, and why.
EXCEPTED = {
    "pip install": "installs the package",
    "sh run.sh": "sets up an environment, and its commands have tests of their own",
    "sh launch.sh": "starts servers on a machine with accelerators",
    "inference-econ paper reproduce": "takes minutes; tests/studies reproduces the same cells",
    "eval": "tells a shell how to complete",
}


@dataclass(frozen=True)
class Transcript:
    """A command of a document and the lines that stand below it."""

    command: str
    """As typed, a command of a shell in one line."""
    first: int
    """Index of the first line of what is printed, in the lines of the document."""
    printed: tuple[str, ...]
    """Without indentation, nor empty lines at the end."""
    python: bool = False
    """True if it is Python, not a command of a shell."""

    @property
    def excepted(self) -> str | None:
        """Why the command is not run, or None."""
        if self.python:
            return None
        return next((why for start, why in EXCEPTED.items() if self.command.startswith(start)), None)

    def cut(self, text: str) -> tuple[str, ...]:
        """Text that the command prints, cut where the document cuts it."""
        lines = tuple(line.rstrip() for line in text.strip("\n").split("\n")) if text.strip() else ()
        if CUT not in self.printed:
            return lines
        above = self.printed.index(CUT)
        below = len(self.printed) - above - 1
        return (*lines[:above], CUT, *lines[len(lines) - below :])


def transcripts(text: str) -> Iterator[Transcript]:
    """The commands of a document, in its order."""
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
    """A command of a shell that begins in a line, and the line behind it."""
    command = lines[at].removeprefix(f"{INDENT}$ ")
    while command.endswith("\\"):
        at += 1
        command = f"{command[:-1].rstrip()} {lines[at].strip()}"
    return command, at + 1


def _python(lines: list[str], at: int) -> tuple[str, int]:
    """A statement of Python that begins in a line, and the line behind it."""
    source, at = [lines[at].removeprefix(PYTHON)], at + 1
    while at < len(lines) and lines[at].startswith(MORE):
        source.append(lines[at].removeprefix(MORE))
        at += 1
    return "\n".join(source), at


def again(text: str, run: Callable[[Transcript], str]) -> str:
    """A document with what its commands print now, which ``run`` tells of each."""
    lines = text.split("\n")
    # Run in the document's order, but put in place from its end, so that indices stay true.
    now = [(it, it.printed if it.excepted else it.cut(run(it))) for it in transcripts(text)]
    for it, printed in reversed(now):
        lines[it.first : it.first + len(it.printed)] = [f"{INDENT}{line}".rstrip() for line in printed]
    return "\n".join(lines)


class Session:
    """Surroundings of the commands of one document: the names that its Python has bound."""

    def __init__(self) -> None:
        self._names: dict[str, object] = {}

    def __call__(self, transcript: Transcript) -> str:
        """Text that a command prints on both streams, in this folder."""
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
    """Text that ``inference-econ ...`` or ``cat FILE`` prints on both streams, in this folder."""
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
    """Put into a folder what the documents' commands read and where they write."""
    shutil.copytree(FILES, folder, dirs_exist_ok=True)
    (folder / PICTURES).mkdir(parents=True)


def shown(document: Path, text: str, folder: Path) -> Iterator[tuple[Path, Path]]:
    """Pictures of a document that its commands have drawn in a folder, and where the document has them."""
    for link in SHOWN.findall(text):
        if (folder / Path(link).name).exists():
            yield folder / Path(link).name, document.parent / link


def renew(document: Path) -> None:
    """Write a document with what its commands print now, and the pictures that they draw for it."""
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
    """The README, and all documents in which commands stand, by name."""
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
