"""Print results in the selected form: tables and character plots in the terminal, files, and a progress bar."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from inference_econ import report
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.records.files import ending_of, write_text
from inference_econ.records.plain import json_text

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

    from inference_econ._answer import Shown
    from inference_econ._types import Progress
    from inference_econ.requests import Invocation

_BAR_AFTER_SECONDS = 1.0
#: Maximum number of notes below a result without ``--why`` [1].
MOST_NOTES = 3
#: Maximum number of words in title and notes of a long table without ``--why``, and rows from which a table is long
#: [1].
_MOST_WORDS, _LONG = 60, 5
#: Longest line of text [characters].
_TEXT_WIDTH = 100
#: Longest line of a table in a file [characters].
_FILE_WIDTH = 140
#: Smallest assumed terminal width [characters].
_NARROWEST = 60


class Output(NamedTuple):
    """Format of a result, and where it is written."""

    form: str
    """``table``, ``json``, ``csv`` or ``markdown``."""
    path: str | None = None
    """File to write instead of printing."""
    picture: str | None = None
    """Picture file to write; None for no picture."""
    quiet: bool = False
    """True to omit the progress bar, character plots and notes."""
    why: bool = False
    """True to show assumptions and sources below the tables."""
    intervals: bool = False
    """True to show 80% intervals next to predictions."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Output:
        """Read the output options; the extension of a file implies a format unless an option sets one.

        Raises
        ------
        InputError
            If options contradict each other.
        """
        path, quiet = values.get("output"), values.get("quiet", False)
        if "as_csv" not in values:
            return cls("table", path, values.get("plot"), quiet)
        named = {"--json": values["as_json"], "--csv": values["as_csv"]}
        named[f"--format {values['form']}"] = values["form"] is not None
        chosen = [option for option, wanted in named.items() if wanted]
        if len(chosen) > 1:
            raise InputError(f"give only one of {', '.join(chosen)}")
        form = chosen[0].removeprefix("--format ").removeprefix("--") if chosen else None
        if path is not None:
            form = _written_form(path, form)
        shown = values.get("why", False), values.get("intervals", False)
        return cls(form or "table", path, values.get("plot"), quiet, *shown)


#: Output formats by file extension. Files with the extension .txt may have any format.
_FORMS = {".csv": "csv", ".json": "json", ".md": "markdown"}
_TEXT = ".txt"


def _written_form(path: str, form: str | None) -> str:
    """Output format of a file, from its extension or from the options.

    Raises
    ------
    InputError
        If the file has the extension of another format, or an unknown extension.
    """
    ending = ending_of(path)
    by_name = _FORMS.get(ending)
    if form is not None and by_name not in (None, form):
        raise InputError(f"{path}: --format {form} contradicts {ending}, which is {by_name}; change one of them")
    if by_name is None and ending not in ("", _TEXT):
        raise InputError(
            f"{path}: results are written as {', '.join(_FORMS)} and {_TEXT} (a table), not {ending}; end the name so"
        )
    return form or by_name or "table"


def page_of(answered: Shown | report.page.Page) -> report.page.Page:
    """Page that renders a result."""
    return answered if isinstance(answered, report.page.Page) else report.pages.page(answered)


def emit(answered: Shown | report.page.Page, output: Output, asked: Invocation) -> None:
    """Show a result in the selected form, and draw it if a picture file is given."""
    page = page_of(answered)
    needed = output.form == "json" or asked.values.get("changes")
    question = asked.question(page=page is answered) if needed else {}
    with progress_bar(quiet=output.quiet):
        unchanged = () if output.quiet or not question else _without_effect(page, asked)
        text, beside = _made(page, output, question)
    if beside:
        click.echo(beside, color=coloured())
    put(text, output.path, quiet=output.quiet)
    if output.picture is not None:
        # Draw after printing, so that the result is shown even if drawing fails.
        with progress_bar(quiet=output.quiet):
            page.draw(output.picture)
        remark(f"wrote {output.picture}", quiet=output.quiet)
    for change in unchanged:
        remark(f"--set {change} changes nothing in this answer", quiet=output.quiet)
    roofline = asked.values.get("roofline")
    if roofline is not None:
        assert isinstance(page, report.explain.ExplanationPage)
        report.charts.write_chart(page.charts()["roofline"], roofline)
        remark(f"wrote {roofline}", quiet=output.quiet)


def _without_effect(page: report.page.Page, asked: Invocation) -> tuple[str, ...]:
    """What-if changes (``--set``) that do not affect the result, found by running the command without each change."""
    changes: tuple[str, ...] = asked.values.get("changes") or ()
    if not changes:
        return ()
    answered, same = list(_numbers(page.record())), []
    for index, change in enumerate(changes):
        others = {**asked.values, "changes": (*changes[:index], *changes[index + 1 :])}
        try:
            without = page_of(replace(asked, values=others).answer())
        except (InputError, NothingFitsError):
            continue
        if list(_numbers(without.record())) == answered:
            same.append(change)
    return tuple(same)


def _numbers(record: object) -> Iterator[str]:
    """Numbers of a result that show whether a change affects the result. Sources and intervals are left out."""
    if isinstance(record, Mapping):
        for name, value in record.items():
            if name not in ("sources", "calibration") and not str(name).endswith(("_low", "_high")):
                yield from _numbers(value)
    elif isinstance(record, Sequence) and not isinstance(record, str):
        for value in record:
            yield from _numbers(value)
    elif not isinstance(record, str):
        yield repr(record)


def _made(page: report.page.Page, output: Output, question: Mapping[str, object]) -> tuple[str, str]:
    """Text of a result in the output format, and text to print in addition if the result is written to a file."""
    from inference_econ.report.fields import intervals_shown

    with intervals_shown(output.intervals):
        beside = ""
        if output.form == "json":
            record = page.record()
            text = json_text({**question, **record} if question and isinstance(record, dict) else record)
        elif output.form == "csv":
            text = page.csv()
            if output.path is not None and not output.quiet:
                beside = _terminal_text(page.summary(), output._replace(path=None))
        elif output.form == "markdown":
            text = page.markdown()
        else:
            text = _terminal_text(page.blocks(), output)
        return (text, beside)


def put(text: str, path: str | None, *, quiet: bool) -> None:
    """Print text, or write it to a file and report the name."""
    if path is None:
        try:
            click.echo(text, nl=not text.endswith("\n"), color=coloured())
        except BrokenPipeError:
            # The reader closed the pipe, as `| head` does. Discard the buffer, so that it is not flushed at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(0) from None
        return
    plain = click.unstyle(text)
    write_text(path, plain if plain.endswith("\n") else plain + "\n")
    remark(f"wrote {path}", quiet=quiet)


def remark(text: str, *, quiet: bool) -> None:
    """Print a note to the error stream."""
    if not quiet:
        click.echo(text, err=True)


def coloured() -> bool:
    """Check whether to use color. FORCE_COLOR and NO_COLOR decide; without them, the terminal decides."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


def _terminal_text(blocks: Sequence[report.page.Block], output: Output) -> str:
    """Tables, character plots and the first notes for the terminal; only tables with ``--quiet``.

    Files, and terminal output with ``--why``, contain all notes. Files also contain all columns.
    """
    from inference_econ.report.page import Headline, Remarks, ShareBar, Sketch, Table, least_width

    quiet, written = output.quiet, output.path is not None
    # ``--why`` overrides ``--quiet``.
    everything, told = output.why or written, output.why or not quiet
    parts: list[str] = []
    left_out: list[str] = []
    most, more = MOST_NOTES, False
    for block in blocks:
        match block:
            case Table():
                text, without = _table_text(block, max(_FILE_WIDTH, least_width(block)) if written else _width())
                left_out += without
                notes = block.every_note if everything else first_notes(block, most)
                most -= len(notes)
                more |= len(notes) < len(block.every_note)
                parts += [text, *(["\n".join(map(_wrapped, notes))] if notes and told else [])]
            case Headline():
                parts.append("\n".join(map(_wrapped, block.lines)))
            case Sketch() if not quiet:
                # Plot of a line with characters, on a logarithmic vertical axis.
                parts.append(_sketch_text(block))
            case ShareBar() if not quiet:
                parts.append(_bar_text(block.parts))
            case Remarks():
                more |= not everything
                if everything and told:
                    parts.append("\n".join(_wrapped(f"- {line}", "  ") for line in block.lines))
    if not quiet and (more or left_out):
        columns = f"--csv for more columns ({', '.join(map(repr, dict.fromkeys(left_out)))})" if left_out else ""
        added = " and ".join(filter(None, ("--why for assumptions and errors" if more else "", columns)))
        parts.append(_wrapped(f"Add {added}."))
    lines = "\n\n".join(part.rstrip("\n") for part in parts).splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def first_notes(table: report.page.Table, most: int) -> tuple[str, ...]:
    """Select the most consequential notes of a table, at most ``most``.

    For a long table, the number of words of title and notes is also limited.
    """
    shown, words = list[str](), len(table.title.split())
    for note in table.notes:
        words_then = words + len(note.split())
        if len(shown) < most and (not shown or len(table.rows) < _LONG or words_then <= _MOST_WORDS):
            shown, words = [*shown, note], words_then
    return tuple(shown)


def _wrapped(text: str, indent: str = "") -> str:
    """Wrap text at words."""
    width = min(_width(), _TEXT_WIDTH)
    return textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _table_text(table: report.page.Table, width: int) -> tuple[str, list[str]]:
    """Table as text for the terminal, and the columns that do not fit."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    from inference_econ.report.page import GAP, fitted

    columns, left_out = fitted(table, width)
    shown = RichTable(box=SIMPLE_HEAD, header_style="bold", padding=(0, GAP - 1, 0, 0), show_edge=False, pad_edge=False)
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.right else "left"
        shown.add_column(Text(column.head, justify=justify), width=column.width, overflow="fold")
    for row in zip(*(column.cells for column in columns), strict=True):
        shown.add_row(*row)
    console = Console(width=width, force_terminal=coloured(), no_color=not coloured(), highlight=False, markup=False)
    with console.capture() as capture:
        if table.title:
            console.print(_wrapped(table.title), style="bold")
        console.print(shown, crop=False)
    return capture.get(), left_out


def _width() -> int:
    """Width of the terminal [characters]; a default width if the output is not a terminal."""
    return max(shutil.get_terminal_size((_TEXT_WIDTH, 24)).columns, _NARROWEST)


def _sketch_text(sketch: report.page.Sketch) -> str:
    """Plot of a line with characters, on a logarithmic vertical axis."""
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(min(_width(), 100), 18)
    plotext.plot(list(sketch.x), list(sketch.y), marker="braille")
    plotext.yscale("log")
    plotext.xlabel(sketch.x_label)
    plotext.ylabel(sketch.y_label)
    return str(plotext.uncolorize(plotext.build()))


def _bar_text(parts: Mapping[str, float]) -> str:
    """Stacked bar of parts with a legend, as text."""
    from rich.console import Console
    from rich.text import Text

    colours = ("blue", "dark_orange", "green", "magenta", "cyan", "yellow", "white", "red", "bright_blue")
    signs = "█▓▒░▚▞▙▟▖▗"
    total = sum(parts.values())
    bar, legend = Text(), Text()
    largest = sorted(((value, name) for name, value in parts.items() if value > 0), reverse=True)
    left = width = 60
    for index, (value, name) in enumerate(largest):
        cells = min(left, round(width * value / total))
        left -= cells
        bar.append(signs[index % len(signs)] * cells, style=colours[index % len(colours)])
        if cells:
            legend.append(f"{signs[index % len(signs)]} ", style=colours[index % len(colours)])
            legend.append(f"{name} {100 * value / total:.0f} %  ")
    console = Console(width=_width(), force_terminal=coloured(), no_color=not coloured(), highlight=False)
    with console.capture() as capture:
        console.print(bar)
        console.print(legend)
    return capture.get()


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Progress | None]:
    """Yield a callback that updates a progress bar on the error stream. The bar appears after one second.

    The bar runs in its own thread, so that it also appears during work without callbacks.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    bar = _Bar()
    timer = threading.Timer(_BAR_AFTER_SECONDS, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield bar.report
    finally:
        timer.cancel()
        bar.stop()


class _Bar:
    """Progress bar that is visible from :meth:`start` to :meth:`stop`; it pulses if the completed share is unknown."""

    def __init__(self) -> None:
        self.drawn: RichProgress | None = None
        self.done: dict[str, Any] = {"total": None, "description": ""}
        self.lock, self.ended = threading.Lock(), False

    def report(self, share: float, what: str) -> None:
        """Set the completed share and the description."""
        self.done = {"total": 1.0, "completed": share, "description": what}
        if self.drawn is not None:
            self.drawn.update(self.drawn.task_ids[0], **self.done)

    def start(self) -> None:
        """Show the progress bar, unless the work is already done."""
        # Most commands end before the bar appears, so rich is imported only here.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
        # Other output must not be redirected.
        drawn = Progress(
            *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
        )
        drawn.add_task(**self.done)
        with self.lock:
            if not self.ended:
                self.drawn = drawn
                drawn.start()

    def stop(self) -> None:
        """Remove the progress bar from the terminal."""
        with self.lock:
            self.ended = True
            if self.drawn is not None:
                self.drawn.stop()
