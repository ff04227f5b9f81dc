"""Print results: tables and drawings in the terminal, text to files, a bar while work lasts."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from inference_econ.report.files import write_text

if TYPE_CHECKING:
    from inference_econ._types import Progress
    from inference_econ.report.table import Table

_BAR_AFTER_SECONDS = 1.0
#: Characters of a line that a file or another program still takes [1].
_WIDEST = 140


def emit(text: str, output: str | None, *, quiet: bool) -> None:
    """Print text, or write it to a file and say so."""
    if output is None:
        try:
            click.echo(text, nl=not text.endswith("\n"))
        except BrokenPipeError:
            # The reader has gone, as `| head` does. What is left in the buffer must not be tried again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(0) from None
        return
    plain = click.unstyle(text)
    write_text(output, plain if plain.endswith("\n") else plain + "\n")
    remark(f"wrote {output}", quiet=quiet)


def emit_table(
    table: Callable[[], Table], record: Callable[[], object], form: str, output: str | None, *, quiet: bool
) -> None:
    """Print a result as a table or as data, whichever is wanted; only that is made."""
    from inference_econ.report.table import to_json

    if form == "json":
        text = to_json(record())
    elif form == "table":
        text = table_text(table(), quiet=quiet)
    else:
        text = table().text("csv" if form == "csv" else "markdown")
    emit(text, output, quiet=quiet)


def remark(text: str, *, quiet: bool) -> None:
    """Say something that is not part of the result."""
    if not quiet:
        click.echo(text, err=True)


def table_text(table: Table, *, quiet: bool = False) -> str:
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


def curve_text(x: Sequence[float], y: Sequence[float], label: str = "$/M output tokens") -> str:
    """A frontier drawn with characters: speed to the right, cost or the like upwards on a logarithmic axis."""
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(min(_width(), 100), 18)
    plotext.plot(list(x), list(y), marker="braille")
    plotext.yscale("log")
    plotext.xlabel("tokens/s per user")
    plotext.ylabel(label)
    return str(plotext.uncolorize(plotext.build()))


def bar_text(parts: Mapping[str, float], width: int = 60) -> str:
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
