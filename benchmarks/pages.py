"""Pages of all commands: golden ones for tests, or all forms in a folder for comparison with ``diff -r``.

``python -m benchmarks.pages FOLDER [WORD...]`` writes JSON, CSV, Markdown, text at 80 and 100 columns, charts as
Vega-Lite, and the question with its conclusion. Run it before and after a change of structure. ``python -m
benchmarks.pages --golden [WORD...]`` renews ``tests/golden``: text at 80 columns, and a digest of each JSON key and
chart. With words, both use only commands whose key or command line contains one of them.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shlex
import shutil
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.web.sentences import summary
from inference_econ.inputs import catalog
from inference_econ.records.plain import csv_text, json_text
from inference_econ.report.page import Page
from inference_econ.requests import Host
from inference_econ.requests.words import command_of

show, main, commands = (import_module(f"inference_econ_cli.{name}") for name in ("show", "main", "commands"))
ROOT = Path(__file__).parents[1]
#: Golden pages and their digests, and the commands of all pages by the key that names their files.
GOLDEN = ROOT / "tests" / "golden"
COMMANDS: Mapping[str, str] = tomllib.loads((GOLDEN / "commands.toml").read_text(encoding="utf-8"))
#: Input files of the commands, such as measured runs and a GPU of the user.
FILES = ROOT / "tests" / "fixtures" / "transcripts"
#: Terminal widths [characters]. Golden pages have the first.
WIDTHS = (80, 100)
#: Significant digits of numbers in a digest; versions of numpy agree to more [1].
DIGITS = 6
#: Magnitude below which a digest counts a value as zero: rounding errors of differences vary with the version of numpy.
NOISE = 1e-12


def ask(command: str) -> Page | str:
    """Run a command without printing: the page or text that it would show, or its error message."""
    try:
        row, words = command_of(shlex.split(command), warnings.warn)
        called, printed = main.ClickCommand(row), io.StringIO()
        # The page is rendered later, and needs no click context. `watch` prints by itself, and exits with 1 if a
        # window is outside the interval.
        with called.make_context(row.name, words) as context, redirect_stdout(printed), suppress(click.exceptions.Exit):
            show.Output.of(context.params)
            with called.waited_for(context, partial(show.remark, quiet=True)):
                host = Host(put=partial(show.put, path=None, quiet=True), parse=commands.parsed)
                answer = called.asked(context).answer(host)
            if answer is None or isinstance(answer, int):
                return printed.getvalue()
            return answer if isinstance(answer, str) else show.page_of(answer)
        return printed.getvalue()
    except Exception as error:  # A rejection is also a page.
        return f"{type(error).__name__}: {getattr(error, 'message', error)}\n"


def digests(page: Page) -> dict[str, str]:
    """Digest of each key of a page's JSON, or of the whole under ``rows`` if the JSON is a list, and of its charts.

    The digest of a chart covers its title and its data, which do not depend on the version of Altair.
    """
    record = page.record()
    parts = record if isinstance(record, Mapping) else {"rows": record}
    drawn = {f"chart {name}": chart.to_dict(validate=False) for name, chart in page.charts().items()}
    charts = {name: [spec.get("title"), [*spec["datasets"].values()]] for name, spec in drawn.items()}
    return {str(key): _digest(value) for key, value in (*parts.items(), *charts.items())}


def _digest(value: object) -> str:
    text = json.dumps(_rounded(json.loads(json_text(value))))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS - 1}e}") if abs(value) > NOISE else 0.0
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def golden(answer: Page | str) -> tuple[str, dict[str, str]]:
    """Text at 80 columns and digests of the JSON of a page; a text stays as it is."""
    if isinstance(answer, str):
        return answer, {}
    return _rendered(lambda: _terminal(answer, WIDTHS[0])), digests(answer)


def forms(page: Page) -> Iterator[tuple[str, Callable[[], str]]]:
    """All forms of a page, by the ending of their file."""
    yield "json", lambda: json_text(page.record())
    yield "csv", lambda: csv_text(page.frame())
    yield "md", page.markdown
    for width in WIDTHS:
        yield f"{width}.txt", lambda width=width: _terminal(page, width)  # type: ignore[misc]
    yield "charts.json", lambda: json.dumps({name: chart.to_dict() for name, chart in page.charts().items()}, indent=1)
    yield "question.txt", lambda: _question(page)


def _terminal(page: Page, width: int) -> str:
    output = show.Output(form="table", path=None, picture=None, why=True, quiet=False)
    os.environ["COLUMNS"] = str(width)
    return str(show._terminal_text(page.blocks(), output))


def tables(page: Page, widths: Sequence[int]) -> list[str]:
    """Tables of a page in several widths, without drawings."""
    output, texts = show.Output(form="table", path=None, picture=None, why=False, quiet=True), []
    blocks = page.blocks()
    for width in widths:
        os.environ["COLUMNS"] = str(width)
        texts.append(str(show._terminal_text(blocks, output)))
    return texts


def _question(page: Page) -> str:
    told = summary(page)
    lines = [told.question, "".join(told.conclusion), *map(str, page.sources()), str(told.proportional)]
    return "\n".join([*lines, ""])


def _rendered(make: Callable[[], str]) -> str:
    """A form of a page, or the reason why it has none."""
    try:
        return make()
    except (InputError, NothingFitsError, NotImplementedError, OverflowError) as error:
        return f"{type(error).__name__}: {error}\n"


@contextmanager
def in_folder_of_files() -> Iterator[None]:
    """Run commands in a temporary folder that holds their input files, as the command line runs them."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings(), catalog.uncopied():
        shutil.copytree(FILES, place, dirs_exist_ok=True)
        os.chdir(place)
        try:
            yield
        finally:
            os.chdir(before)


def _chosen(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for key, command in COMMANDS.items():
        if not words or any(word in key or word in command for word in words):
            sys.stderr.write(f"{key}: {command}\n")
            yield key, command


def write(folder: Path, words: Sequence[str]) -> None:
    """Write every form of the pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    with in_folder_of_files():
        for key, command in _chosen(words):
            answer = ask(command)
            if isinstance(answer, str):
                (folder / f"{key}.text").write_text(answer, encoding="utf-8")
                continue
            for ending, make in forms(answer):
                (folder / f"{key}.{ending}").write_text(_rendered(make), encoding="utf-8")


def renew(words: Sequence[str]) -> None:
    """Write golden pages and digests anew; files whose key is gone are deleted."""
    place = GOLDEN / "digests.json"
    kept = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
    with in_folder_of_files():
        for key, command in _chosen(words):
            text, kept[key] = golden(ask(command))
            (GOLDEN / "pages" / f"{key}.txt").write_text(text, encoding="utf-8")
    place.write_text(json.dumps({key: kept[key] for key in COMMANDS}, indent=1) + "\n", encoding="utf-8")
    for path in (GOLDEN / "pages").glob("*.txt"):
        if path.stem not in COMMANDS:
            path.unlink()


if __name__ == "__main__":
    first, *chosen = sys.argv[1:] or [""]
    if first == "--golden":
        renew(chosen)
    elif not first or first.startswith("-"):
        sys.exit(f"give a FOLDER for the pages, got {first!r}")
    else:
        write(Path(first), chosen)
