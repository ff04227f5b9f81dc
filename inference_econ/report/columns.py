"""Fit a table to a width: which columns stay, how wide each is, and which are numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from inference_econ.report.table import Table

#: Between columns [characters].
GAP = 2
#: Cells that are longer may be wrapped between words [characters].
_PROSE = 40
#: Longest word in a column of numbers, such as "nothing fits" [characters].
_WORD = 12
#: Longer words, such as paths, may be wrapped behind a slash, a dot or an underscore [characters].
_PATH = 24
_PIECE = re.compile(r"[^/._]*[/._]+|[^/._]+")
#: Behind a number that is marked.
_MARK = " *"
_AMOUNT = r"[<>~]?[-+]?\$?\d[\d,]*(\.\d+)?(e[-+]?\d+)?( ?%)?"
_NUMBER = re.compile(rf"{_AMOUNT}(( to |, | : | ± |/){_AMOUNT})*")


class Column(NamedTuple):
    """A column as it is printed."""

    head: str
    cells: tuple[str, ...]
    width: int
    """Characters of a line of it; what is longer is wrapped between words."""
    right: bool
    """Its numbers are aligned at their ends."""


class Fitted(NamedTuple):
    """A table in a width."""

    columns: list[Column]
    left_out: list[str]
    """Heads of columns for which there is no room."""


def fitted(table: Table, width: int) -> Fitted:
    """The columns of a table in a width; the least important are left out where they do not all fit.

    A wide one that has gone may leave room for narrower ones that are less important.

    Parameters
    ----------
    table : Table
        Any.
    width : int
        Of a line [characters].
    """
    columns = complete = _columns(table)
    left_out: list[str] = []
    unimportant = [head for head in table.least if head in table.columns]
    while (widths := _widths(columns, width)) is None and unimportant:
        left_out.append(unimportant.pop(0))
        columns = [column for column in columns if column.head != left_out[-1]]
    for head in reversed(left_out if widths else ()):
        more = [column for column in complete if column.head == head or column in columns]
        if (room := _widths(more, width)) is not None:
            columns, widths = more, room
            left_out = [other for other in left_out if other != head]
    while widths is None and (widths := _widths(columns, width, words=True)) is None and len(columns) > 1:
        left_out.append(columns.pop().head)
    widths = widths or _floors(columns, words=True)
    shown = [_wrapped(column, room) for column, room in zip(columns, widths, strict=True)]
    return Fitted(shown, [head for head in table.columns if head in left_out])


def least_width(table: Table) -> int:
    """The width in which all columns of a table fit, long cells wrapped [characters]."""
    return _total(_floors(_columns(table), words=False))


def _columns(table: Table) -> list[Column]:
    """Columns as wide as they want to be."""
    cells = [tuple(row[index] for row in table.rows) for index in range(len(table.columns))]
    return [_column(head, column) for head, column in zip(table.columns, cells, strict=True)]


def _column(head: str, cells: tuple[str, ...]) -> Column:
    """A column as wide as it wants to be."""
    right = is_numeric(cells)
    if right and any(cell.endswith(_MARK) for cell in cells):
        # Numbers without the mark end where those with it do.
        cells = tuple(cell if cell.endswith(_MARK) else cell + " " * len(_MARK) for cell in cells)
    return Column(head, cells, max(map(len, (head, *cells))), right)


def is_numeric(cells: Sequence[str]) -> bool:
    """Return whether a column is one of numbers, perhaps with a word where there is none."""
    filled = [cell.removesuffix(_MARK) for cell in cells if cell not in ("", "-")]
    words = [cell for cell in filled if not _NUMBER.fullmatch(cell)]
    return bool(filled) and len(filled) >= 2 * len(words) and all(len(word) <= _WORD for word in words)


def _widths(columns: Sequence[Column], width: int, *, words: bool = False) -> list[int] | None:
    """The width of each column: as it wants to be, with its head wrapped, or with long or all cells wrapped.

    None where even that is too wide.
    """
    wanted = [column.width for column in columns]
    for floors in (wanted, _heads_wrapped(columns), _floors(columns, words=words)):
        if _total(floors) <= width:
            return _filled(floors, wanted, width - _total(floors))
    return None


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _heads_wrapped(columns: Sequence[Column]) -> list[int]:
    """Widths at which only heads are wrapped."""
    return [max(_longest_word(column.head), *map(len, column.cells), 1) for column in columns]


def _floors(columns: Sequence[Column], *, words: bool) -> list[int]:
    """Widths at which long cells are wrapped too, or all cells down to their longest word; numbers never are."""
    return [
        whole
        if column.right
        else max(_longest_word(column.head), *map(_longest_word, column.cells), 1 if words else min(whole, _PROSE))
        for column, whole in zip(columns, _heads_wrapped(columns), strict=True)
    ]


def _longest_word(text: str) -> int:
    return max((len(piece) for piece, _ in _pieces(text)), default=0)


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Pieces that a text may be wrapped between, each with whether a space comes before: words, parts of paths."""
    for word in text.split():
        parts = _PIECE.findall(word) if len(word) > _PATH else [word]
        yield from ((part, index == 0) for index, part in enumerate(parts))


def _wrapped(column: Column, width: int) -> Column:
    """A column in a width, its long cells in several lines, its numbers at the end of theirs."""
    if column.right:
        return column._replace(cells=tuple(cell.rjust(width) for cell in column.cells), width=width)
    cells = (cell if len(cell) <= width else _in_lines(cell, width) for cell in column.cells)
    return column._replace(cells=tuple(cells), width=width)


def _in_lines(text: str, width: int) -> str:
    """A text in lines that are as full as can be."""
    lines = [""]
    for piece, apart in _pieces(text):
        space = " " if apart and lines[-1] else ""
        if len(lines[-1]) + len(space) + len(piece) <= width or not lines[-1]:
            lines[-1] += space + piece
        else:
            lines.append(piece)
    return "\n".join(lines)


def _filled(floors: Sequence[int], wanted: Sequence[int], room: int) -> list[int]:
    """Widths when the room that is left goes to whichever wrapped column is the narrowest, character by character."""
    widths = list(floors)
    for _ in range(room):
        wrapped = [index for index, most in enumerate(wanted) if widths[index] < most]
        if not wrapped:
            break
        widths[min(wrapped, key=widths.__getitem__)] += 1
    return widths
