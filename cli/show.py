"""Print answers: tables and drawings in the terminal, text to files, a bar while work lasts."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from inference_econ.report.files import write_text

if TYPE_CHECKING:
    from inference_econ._types import Progress
    from inference_econ.report.page import Block, Page, Sketch
    from inference_econ.report.table import Table

    from .options import Output

_BAR_AFTER_SECONDS = 1.0
#: Characters of a line that a file or another program still takes [1].
_WIDEST = 140


def emit(page: Page, output: Output, asked: Mapping[str, object] | None = None) -> None:
    """Show an answer in the form that is asked for, and draw it where a picture is; only what is shown is made.

    Parameters
    ----------
    page : Page
        What can be shown.
    output : Output
        Where it goes, and in which form.
    asked : mapping, optional
        What was asked, for the head of JSON (:func:`.provenance.asked`).
    """
    from inference_econ.report.page import csv_text, json_text

    beside = ""
    if output.form == "json":
        record = page.record()
        text = json_text({**asked, **record} if asked is not None and isinstance(record, dict) else record)
    elif output.form == "csv":
        text = csv_text(page.frame())
        if output.path is not None and not output.quiet:
            beside = _terminal_text(page.summary(), quiet=False)
    elif output.form == "markdown":
        text = page.markdown()
    else:
        text = _terminal_text(page.blocks(), quiet=output.quiet)
    if output.picture is not None:
        page.draw(output.picture)
    if beside:
        click.echo(beside)
    put(text, output.path, quiet=output.quiet)
    if output.picture is not None:
        remark(f"wrote {output.picture}", quiet=output.quiet)


def put(text: str, path: str | None, *, quiet: bool) -> None:
    """Print text, or write it to a file and say so."""
    if path is None:
        try:
            click.echo(text, nl=not text.endswith("\n"))
        except BrokenPipeError:
            # The reader has gone, as `| head` does. What is left in the buffer must not be tried again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(0) from None
        return
    plain = click.unstyle(text)
    write_text(path, plain if plain.endswith("\n") else plain + "\n")
    remark(f"wrote {path}", quiet=quiet)


def remark(text: str, *, quiet: bool) -> None:
    """Say something that is not part of the result."""
    if not quiet:
        click.echo(text, err=True)


def _terminal_text(blocks: Sequence[Block], *, quiet: bool) -> str:
    """Tables, drawings and remarks for the terminal; only tables if it is to be quiet."""
    from inference_econ.report.page import Bar, Headline, Remarks, Sketch
    from inference_econ.report.table import Table

    texts = []
    for block in blocks:
        match block:
            case Table():
                texts.append(_table_text(block, quiet=quiet))
            case Headline():
                texts.append("".join(f"{line}\n" for line in block.lines))
            case Sketch() if not quiet:
                texts.append(_sketch_text(block))
            case Bar() if not quiet:
                texts.append(_bar_text(block.parts))
            case Remarks() if not quiet:
                texts.append("\n".join(f"- {line}" for line in block.lines))
    return "\n".join(texts)


def _table_text(table: Table, *, quiet: bool) -> str:
    """A table for the terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable

    shown = RichTable(header_style="bold")
    for index, column in enumerate(table.columns):
        numeric = index > 0 and all(_starts_like_a_number(row[index]) for row in table.rows)
        # A name that is broken in two cannot be copied.
        shown.add_column(column, justify="right" if numeric else "left", overflow="fold", no_wrap=index == 0)
    for row in table.rows:
        shown.add_row(*row)
    width = max(_width(), 60)
    console = Console(width=max(width, _WIDEST), force_terminal=sys.stdout.isatty(), highlight=False, markup=False)
    wanted = console.measure(shown).maximum
    if width < wanted <= _WIDEST and not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        width = wanted  # nobody's terminal is in the way
    elif width < wanted <= _WIDEST:
        shown.box, shown.padding, shown.show_edge, shown.pad_edge = SIMPLE_HEAD, (0, 0, 0, 0), False, False
    with console.capture() as capture:
        console.print(table.title, style="bold", width=width)
        console.print(shown, width=width)
        for note in () if quiet else table.notes:
            console.print(note, width=width)
    return capture.get()


def _starts_like_a_number(text: str) -> bool:
    return not text or text[0].isdigit() or text[0] in "$-+"


def _width() -> int:
    return shutil.get_terminal_size((118, 24)).columns


def _sketch_text(sketch: Sketch) -> str:
    """A line drawn with characters, upwards on a logarithmic axis."""
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(min(_width(), 100), 18)
    plotext.plot(list(sketch.x), list(sketch.y), marker="braille")
    plotext.yscale("log")
    plotext.xlabel(sketch.x_label)
    plotext.ylabel(sketch.y_label)
    return str(plotext.uncolorize(plotext.build()))


def _bar_text(parts: Mapping[str, float], width: int = 60) -> str:
    """Parts of a whole as one bar with a legend."""
    from rich.console import Console
    from rich.text import Text

    colours = ("blue", "dark_orange", "green", "magenta", "cyan", "yellow", "white", "red", "bright_blue")
    signs = "█▓▒░▚▞▙▟▖▗"
    total = sum(parts.values())
    bar, legend = Text(), Text()
    largest = sorted(((value, name) for name, value in parts.items() if value > 0), reverse=True)
    left = width
    for index, (value, name) in enumerate(largest):
        cells = min(left, round(width * value / total))
        left -= cells
        bar.append(signs[index % len(signs)] * cells, style=colours[index % len(colours)])
        if cells:
            legend.append(f"{signs[index % len(signs)]} ", style=colours[index % len(colours)])
            legend.append(f"{name} {100 * value / total:.0f} %  ")
    console = Console(width=_width(), force_terminal=sys.stdout.isatty(), highlight=False)
    with console.capture() as capture:
        console.print(bar)
        console.print(legend)
    return capture.get()


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Progress | None]:
    """A callback that shows a bar on the error stream once the work has lasted a second."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    start = time.monotonic()
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=Console(stderr=True), transient=True
    )
    task = bar.add_task("", total=1.0)

    def report(share: float, what: str) -> None:
        if not bar.live.is_started and time.monotonic() - start > _BAR_AFTER_SECONDS:
            bar.start()
        bar.update(task, completed=share, description=what)

    try:
        yield report
    finally:
        bar.stop()
