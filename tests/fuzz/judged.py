"""A command line with its files, run in this process, and its outcome: a result, a rejection, or a defect."""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import json
import math
import re
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import mock

from inference_econ import allow
from inference_econ.records.files import ending_of
from tests.reading import numbers

main = importlib.import_module("inference_econ_cli.main")

#: Text that no table may contain; words of names and paths, and ranges such as 0-0, are excluded.
NO_NUMBER = re.compile(r"(?<![\w./:'-])-?(?:nan|inf|infinity|-0(?:\.0+)?)(?![\w.])", re.IGNORECASE)
#: Memory that a case may add to the earlier peak [B].
_MOST_BYTES = 1_500_000_000
#: Largest estimated time of a case; a minute, not ten [s].
_SECONDS = 60.0
#: Errors that name no part of the input must match one of these.
_OF_ALL = ("the numbers that were given are together too large or too small to calculate with",)


@dataclass(frozen=True)
class Case:
    """Combine a command line with the files in its folder."""

    kind: str
    """Generated part: options, specifications, configurations, data or recorded."""
    line: tuple[str, ...]
    files: Mapping[str, str]

    def text(self) -> str:
        """Return the case as JSON."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def read(cls, text: str) -> Case:
        """Return the case that :meth:`text` wrote."""
        plain = json.loads(text)
        return cls(plain["kind"], tuple(plain["line"]), plain["files"])


@dataclass(frozen=True)
class Judged:
    """Describe the outcome of a case."""

    outcome: str
    """``answered``, ``refused`` or ``defect``."""
    why: str = ""
    """Problem of a defect, with the command's output."""


class _TooLong(BaseException):  # not an Exception, so that no handler catches it
    pass


def run(line: tuple[str, ...]) -> tuple[object, str, str]:
    """Run a command line and return exit code, output and errors; uncaught exceptions are raised."""
    out, err = io.StringIO(), io.StringIO()
    code: object = None
    with (
        mock.patch.object(sys, "argv", ["inference-econ", *line]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            with allow(_SECONDS):
                main.run()
        except SystemExit as ended:
            code = ended.code
    return code, out.getvalue(), err.getvalue()


def judged(case: Case, seconds: int | None = None) -> Judged:
    """Run a case in a separate folder.

    Parameters
    ----------
    case : Case
        Command line and files.
    seconds : int, optional
        Limit of processor time; more is a defect [s]. By default, time and memory are not measured.
    """
    before = _peak()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), _within(seconds):
        for name, text in case.files.items():
            Path(name).write_text(text, encoding="utf-8", errors="surrogateescape")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                code, out, err = run(case.line)
            why = _wrong(case, code, out, err)
        except (Exception, _TooLong):
            code, why = None, traceback.format_exc()
    if not why and seconds is not None and _peak() - before > _MOST_BYTES:
        why = f"{(_peak() - before) / 1e9:.1f} GB"
    if why:
        return Judged("defect", why)
    return Judged("answered" if code == 0 else "refused")


def _peak() -> int:
    """Return the peak memory of this process [B]."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@contextlib.contextmanager
def _within(seconds: int | None) -> Iterator[None]:
    if seconds is None:
        yield
        return

    def ring(*_: object) -> None:
        raise _TooLong(f"took longer than {seconds} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _wrong(case: Case, code: object, out: str, err: str) -> str:
    """Return the problem with a command's output, or an empty text."""
    if code == 0:
        why = _no_answer(case, out, err)
    elif code in (1, 2):
        why = _no_refusal(case, code, out, err)
    else:
        why = f"exit code {code}"
    return why and f"{why}\n--- output\n{out[:3000]}\n--- errors\n{err[:3000]}"


def _no_answer(case: Case, out: str, err: str) -> str:
    if re.search(r"Traceback|Warning\b", err):
        return "an answer with a warning"
    texts = {"output": out, **{name: Path(name).read_text(encoding="utf-8", errors="replace") for name in _made(case)}}
    for name, text in texts.items():
        try:
            bad = _bad_number(case, name, text)
        except ValueError as error:
            return f"{name}: {error}"
        if bad:
            return f"{name}: {bad}"
    return ""


def _made(case: Case) -> list[str]:
    """Return the text files that a command has written."""
    return [
        path.name
        for path in Path().iterdir()
        if path.name not in case.files and path.is_file() and ending_of(path) not in (".svg", ".png", ".pdf")
    ]


def _bad_number(case: Case, name: str, text: str) -> str:
    """Find an invalid number in JSON, CSV or a table; input text may be repeated."""
    if name.lower().endswith(".json") or (name == "output" and text.lstrip().startswith(("{", "["))):
        return next((repr(number) for number in numbers(json.loads(text, parse_constant=float)) if _bad(number)), "")
    typed = " ".join((*case.line, *case.files.values())).casefold()
    if name.lower().endswith(".csv") or (name == "output" and _form(case) == "csv"):
        cells = (cell for row in csv.reader(io.StringIO(text)) for cell in row)
        bad = (cell for cell in cells if cell.lower() in ("nan", "inf", "-inf", "-0", "-0.0"))
        return next((cell for cell in bad if cell.casefold() not in typed), "")
    return next((found[0] for found in NO_NUMBER.finditer(text) if found[0].casefold() not in typed), "")


def _form(case: Case) -> str:
    """Return the output format of a command line; the last option applies."""
    pairs = dict(zip(case.line, case.line[1:], strict=False))
    return "csv" if "--csv" in case.line else pairs.get("--format", "table")


def _bad(number: float) -> bool:
    return not math.isfinite(number) or (number == 0 and math.copysign(1, number) < 0)


def _words(case: Case) -> Iterator[str]:
    """Return words that a message can name: arguments and their parts, numbers as written, words of files."""
    # A configuration has the name of its folder.
    yield Path.cwd().name
    for part in case.line:
        yield part or "is empty"
        # Unprintable characters are escaped as in Python.
        yield part.encode("unicode_escape", "surrogatepass").decode()
        yield from filter(None, (part.lstrip("-"), *re.split(r"[=,@/:_]", part)))
        with contextlib.suppress(ValueError):
            yield f"{float(part):g}"
    for text in case.files.values():
        yield from re.findall(r"[\w.-]{6,}", text)
        # The name of an entry in a file cannot contain a long word.
        yield from re.findall(r"^name: *(.+)$", text, re.MULTILINE)


def _no_refusal(case: Case, code: object, out: str, err: str) -> str:
    # Output of an earlier watch stays on the terminal.
    if out and case.line[0] != "watch":
        return "a refusal with output"
    if code == 1 and case.line[0] == "watch" and not err:
        return ""
    if err.count("Error: ") != 1 or "Traceback" in err or re.search(r"Warning\b", err):
        return "a refusal that is not one message"
    if "more memory than there is" in err:
        return "more memory than there is"
    message = " ".join(err[err.index("Error: ") :].split())
    message = message.casefold()
    quoted = filter(str.strip, re.findall(r"'([^']+)'", message))
    named = any(words in text.casefold() for words in quoted for text in case.files.values())
    if code == 2 and not named and not any(word.casefold() in message for word in (*_words(case), *_OF_ALL)):
        return "a refusal that names nothing of what was given"
    return ""
