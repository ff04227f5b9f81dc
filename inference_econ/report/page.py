"""Pages of answers: one small protocol for people, spreadsheets, programs and pictures."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from inference_econ._answer import Shown
from inference_econ.engine import Setup
from inference_econ.records.files import CHARTS, PICTURES
from inference_econ.records.plain import Frame, frame_of, named
from inference_econ.records.saved import csv_of
from inference_econ.report import charts

if TYPE_CHECKING:
    from inference_econ.answers.launching.plan import Start
    from inference_econ.records.sources import UsedSource


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a head, ready to be shown."""

    title: str
    """Above the table."""
    columns: tuple[str, ...]
    """The head; units are part of it."""
    rows: tuple[tuple[str, ...], ...]
    """One text per column."""
    notes: tuple[str, ...] = ()
    """Below the table: warnings and what a reader needs to use the result, in a short line or two."""
    why: tuple[str, ...] = ()
    """Basis of the numbers: assumptions, intervals, definitions, engines. A terminal shows it on request."""
    least: tuple[str, ...] = ()
    """Columns that a narrow terminal may leave out, the least important first."""

    @property
    def every_note(self) -> tuple[str, ...]:
        """All that is said below the table where there is room for it."""
        return (*self.notes, *self.why)

    def frame(self) -> Frame:
        """The table as a DataFrame of text."""
        return frame_of([list(row) for row in self.rows], list(self.columns))

    def markdown(self) -> str:
        """The table in Markdown, without its title and notes."""
        lines = [self.columns, tuple("---" for _ in self.columns), *self.rows]
        return "".join(f"| {' | '.join(map(_markdown_cell, line))} |\n" for line in lines)


def _markdown_cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


Answer = TypeVar("Answer", bound=Shown)
#: Parts of a sentence: texts, and amounts (:class:`.table.Amount`) that follow the price of a chip.
Pieces = Sequence[str]


@dataclass(frozen=True, slots=True)
class Sketch:
    """A line that a terminal draws with characters, upwards on a logarithmic axis."""

    x: Sequence[float]
    """Positions across."""
    y: Sequence[float]
    """Values, as many as ``x``."""
    x_label: str
    """Label across, with its unit."""
    y_label: str
    """Label of the values, with its unit."""


@dataclass(frozen=True, slots=True)
class ShareBar:
    """Parts of a whole that a terminal shows as one bar."""

    parts: Mapping[str, float]
    """Parts by name, in one unit."""


@dataclass(frozen=True, slots=True)
class Remarks:
    """Remarks on the basis of all tables; a terminal shows them when it is asked to."""

    lines: Sequence[str]
    """One sentence or more each."""


@dataclass(frozen=True, slots=True)
class Headline:
    """The answer in some lines above or below all tables, quiet or not."""

    lines: Sequence[str]
    """One sentence or more each."""


#: What a terminal shows one below the other; quiet ones show tables only.
Block = Table | Sketch | ShareBar | Remarks | Headline


class Page(ABC):
    """Page of an answer; each form is made only when it is asked for."""

    @abstractmethod
    def tables(self) -> Sequence[Table]:
        """The answer for people, in the order of reading."""

    @abstractmethod
    def record(self) -> object:
        """The answer as plain data, for JSON."""

    def plain(self) -> dict[str, Any]:
        """The answer as plain data under names; what has no names of its own are ``rows``."""
        return named(self.record())

    def frame(self) -> Frame:
        """The answer as rows, for spreadsheets: the first table, unless there is more to say."""
        return self.tables()[0].frame()

    def csv(self) -> str:
        """The rows as CSV text, without the sign of a zero; what is missing is empty.

        Rows whose chip no assumptions were fitted to say ``bound``, as JSON does: all of them where no row names one.

        Raises
        ------
        OverflowError
            If a number is infinite.
        """
        return csv_of(self.frame(), self.setups())

    def markdown(self) -> str:
        """The answer as a Markdown text: the tables with all that is said below them, unless there is more to say."""
        return "\n".join(table.markdown() + listed(table.every_note) for table in self.tables())

    def blocks(self) -> Sequence[Block]:
        """The answer on a terminal: the tables, and what only a terminal shows between them."""
        return self.tables()

    def summary(self) -> Sequence[Block]:
        """Blocks that a terminal shows while the rows go into a file: none, unless the rows hide the answer."""
        return ()

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Interactive pictures of the answer by name, the one that says most first; none if it has no picture."""
        return {}

    @property
    def has_picture(self) -> bool:
        """True if :meth:`draw` draws something."""
        return type(self).charts is not Page.charts or type(self).draw is not Page.draw

    @property
    def endings(self) -> tuple[str, ...]:
        """Endings that the name of a picture may have: charts are written as pages too."""
        return PICTURES if type(self).charts is Page.charts else CHARTS

    def draw(self, path: str) -> None:
        """Draw the answer: the first of its charts.

        Parameters
        ----------
        path : str
            Where to, ending in .svg, .png, .pdf or, if there are charts, .html.

        Raises
        ------
        NotImplementedError
            If the answer has no picture.
        InputError
            If the path cannot be written.
        """
        if not self.has_picture:
            raise NotImplementedError(f"{type(self).__name__} has no picture: {path}")
        charts.write_chart(next(iter(self.charts().values())), path)

    def question(self) -> str:
        """The question in one sentence: the title of the first table, unless there is a better one."""
        return f"{self.tables()[0].title}?"

    def conclusion(self) -> Pieces:
        """Pieces of the sentence that answers it: the first note of a table, unless there is a better one."""
        return self.tables()[0].notes[:1]

    def setups(self) -> Sequence[Setup]:
        """Setups that were asked about."""
        return ()

    def sources(self) -> Sequence[UsedSource]:
        """Sources of the answer: those of setups that have a price."""
        from inference_econ.records.sources import priced_sources

        priced = (setup for setup in self.setups() if setup.price is not None)
        return tuple(dict.fromkeys(source for setup in priced for source in priced_sources(setup)))

    @property
    def proportional(self) -> bool:
        """True if all that is shown as an amount is in proportion to the price of a chip."""
        return True

    def start(self) -> Start | None:
        """Deployment that the answer is about, to be started; None where it is about none, or about several."""
        return None

    def mix(self) -> Mapping[str, float] | None:
        """Costs by kind of token and lengths of a request, where its input may be cached [USD per 1e6 tokens]."""
        return None

    @property
    def drawn(self) -> Page:
        """Page whose charts a report shows."""
        return self

    @property
    def still(self) -> bool:
        """True if a report shows the picture that :meth:`draw` draws, which is no chart."""
        return False


@dataclass(frozen=True)
class AnswerPage(Page, Generic[Answer]):
    """Page of an answer, which knows its question."""

    answer: Answer
    """The result that the page shows."""

    def record(self) -> object:
        """The answer as plain data."""
        return self.answer.record()

    def frame(self) -> Frame:
        """The numbers behind the answer, unrounded."""
        return self.answer.to_frame()

    def setups(self) -> Sequence[Setup]:
        """Setups that were asked about."""
        return self.answer.setups

    @abstractmethod
    def question(self) -> str:
        """The question in one sentence."""


def listed(lines: Sequence[str]) -> str:
    """Sentences as a list in Markdown, below a table."""
    return "\n" + "".join(f"- {line}\n" for line in lines) if lines else ""


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


class TableColumn(NamedTuple):
    """A column as it is printed."""

    head: str
    cells: tuple[str, ...]
    width: int
    """Characters of a line of it; what is longer is wrapped between words."""
    right: bool
    """Its numbers are aligned at their ends."""


class Fitted(NamedTuple):
    """A table in a width."""

    columns: list[TableColumn]
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


def _columns(table: Table) -> list[TableColumn]:
    """Columns as wide as they want to be."""
    cells = [tuple(row[index] for row in table.rows) for index in range(len(table.columns))]
    return [_column(head, column) for head, column in zip(table.columns, cells, strict=True)]


def _column(head: str, cells: tuple[str, ...]) -> TableColumn:
    """A column as wide as it wants to be."""
    right = is_numeric(cells)
    if right and any(cell.endswith(_MARK) for cell in cells):
        # Numbers without the mark end where those with it do.
        cells = tuple(cell if cell.endswith(_MARK) else cell + " " * len(_MARK) for cell in cells)
    return TableColumn(head, cells, max(map(len, (head, *cells))), right)


def is_numeric(cells: Sequence[str]) -> bool:
    """Return whether a column is one of numbers, perhaps with a word where there is none."""
    filled = [cell.removesuffix(_MARK) for cell in cells if cell not in ("", "-")]
    words = [cell for cell in filled if not _NUMBER.fullmatch(cell)]
    return bool(filled) and len(filled) >= 2 * len(words) and all(len(word) <= _WORD for word in words)


def _widths(columns: Sequence[TableColumn], width: int, *, words: bool = False) -> list[int] | None:
    """The width of each column: as it wants to be, with its head wrapped, or with long or all cells wrapped.

    None where even that is too wide.
    """
    wanted = [column.width for column in columns]
    for floors in (wanted, _heads_wrapped(columns), _floors(columns, words=words)):
        if _total(floors) <= width:
            widths = list(floors)
            for _ in range(width - _total(floors)):
                wrapped = [index for index, most in enumerate(wanted) if widths[index] < most]
                if not wrapped:
                    break
                widths[min(wrapped, key=widths.__getitem__)] += 1
            return widths
    return None


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _heads_wrapped(columns: Sequence[TableColumn]) -> list[int]:
    """Widths at which only heads are wrapped."""
    return [max(_longest_word(column.head), *map(len, column.cells), 1) for column in columns]


def _floors(columns: Sequence[TableColumn], *, words: bool) -> list[int]:
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


def _wrapped(column: TableColumn, width: int) -> TableColumn:
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
