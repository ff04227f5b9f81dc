"""Base classes of result pages, which provide tables, records, data frames and charts."""

from __future__ import annotations

import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from inference_econ._answer import Picture, Shown
from inference_econ.engine import Setup
from inference_econ.errors import InputError
from inference_econ.records.files import CHARTS, PICTURES, check_picture
from inference_econ.records.plain import Frame, frame_of, named
from inference_econ.records.saved import csv_of
from inference_econ.report import charts

if TYPE_CHECKING:
    from inference_econ.answers.launching.plan import Start
    from inference_econ.records.sources import UsedSource


@dataclass(frozen=True, slots=True)
class Table:
    """Table of text cells."""

    title: str
    """Title above the table."""
    columns: tuple[str, ...]
    """Headings, with units."""
    rows: tuple[tuple[str, ...], ...]
    """Rows, with one text per column."""
    notes: tuple[str, ...] = ()
    """Notes below the table, most consequential first, at most 25 words each; a terminal shows the first three."""
    why: tuple[str, ...] = ()
    """Basis of the numbers: assumptions, intervals, definitions, engines. A terminal shows it with ``--why``."""
    least: tuple[str, ...] = ()
    """Columns that a narrow terminal may leave out, least important first."""

    @property
    def every_note(self) -> tuple[str, ...]:
        """Notes, followed by the basis of the numbers, for outputs that show both."""
        return (*self.notes, *self.why)

    def frame(self) -> Frame:
        """Table as a DataFrame of text."""
        return frame_of([list(row) for row in self.rows], list(self.columns))

    def markdown(self) -> str:
        """Table in Markdown, without title and notes."""
        lines = [self.columns, tuple("---" for _ in self.columns), *self.rows]
        cells = ([" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in lines)
        return "".join(f"| {' | '.join(line)} |\n" for line in cells)


Answer = TypeVar("Answer", bound=Shown)
#: Parts of a sentence: texts, and amounts (:class:`inference_econ.records.texts.Amount`) that are proportional to the
#: price of a GPU.
Pieces = Sequence[str]


@dataclass(frozen=True, slots=True)
class Sketch:
    """Line plot of characters on a terminal, with a logarithmic y axis."""

    x: Sequence[float]
    """Values of the points on the x axis."""
    y: Sequence[float]
    """Values of the points on the y axis."""
    x_label: str
    """Label of the x axis, with its unit."""
    y_label: str
    """Label of the y axis, with its unit."""


@dataclass(frozen=True, slots=True)
class ShareBar:
    """Stacked bar of characters on a terminal, which shows the parts of a whole."""

    parts: Mapping[str, float]
    """Amount of each part by name; all amounts have the same unit."""


@dataclass(frozen=True, slots=True)
class Remarks:
    """Sentences on the basis of the numbers in all tables; a terminal shows them with ``--why``."""

    lines: Sequence[str]
    """Lines of one sentence or more."""


@dataclass(frozen=True, slots=True)
class Headline:
    """Result in a few lines above or below the tables; ``--quiet`` does not hide them."""

    lines: Sequence[str]
    """Lines of one sentence or more."""


#: Blocks that a terminal shows in sequence; ``--quiet`` shows tables only.
Block = Table | Sketch | ShareBar | Remarks | Headline


#: Template: tables with their notes, then the chart.
_HTML = """\
{% for table in tables %}<p><b>{{ table.title }}</b></p>
<table><thead><tr>{% for column in table.columns %}<th>{{ column }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in table.rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table>
{% for note in table.notes %}<p><small>{{ note }}</small></p>
{% endfor %}{% endfor %}{{ drawing }}"""


class Page(ABC):
    """Base class of pages that display a result. A page creates each output format on demand."""

    @abstractmethod
    def tables(self) -> Sequence[Table]:
        """Tables, in reading order."""

    @abstractmethod
    def record(self) -> object:
        """Result as plain data for JSON."""

    def plain(self) -> dict[str, Any]:
        """Result as a dictionary of plain data; a bare list becomes ``rows``."""
        return named(self.record())

    def frame(self) -> Frame:
        """Result as rows for spreadsheets; by default the first table."""
        return self.tables()[0].frame()

    def csv(self) -> str:
        """Rows as CSV text, without negative zeros; missing values are empty.

        Rows for a GPU without fitted assumptions have the mark ``bound``, as in JSON. If rows do not name their GPU,
        all rows have this mark.

        Raises
        ------
        OverflowError
            If a number is infinite.
        """
        return csv_of(self.frame(), self.setups())

    def markdown(self) -> str:
        """Result as Markdown; by default the tables with all notes."""
        return "\n".join(table.markdown() + listed(table.every_note) for table in self.tables())

    def blocks(self) -> Sequence[Block]:
        """Result on a terminal: its tables, and blocks that only a terminal shows."""
        return self.tables()

    def summary(self) -> Sequence[Block]:
        """Blocks that a terminal shows in addition when the rows are written to a CSV file; by default empty."""
        return ()

    def charts(self) -> Mapping[str, charts.AnyChart]:
        """Interactive charts by name, most important first; empty without charts."""
        return {}

    @property
    def has_picture(self) -> bool:
        """True if :meth:`draw` draws a picture."""
        return type(self).charts is not Page.charts or type(self).draw is not Page.draw

    @property
    def endings(self) -> tuple[str, ...]:
        """File extensions that a picture of the result supports; charts also support HTML."""
        return PICTURES if type(self).charts is Page.charts else CHARTS

    def draw(self, path: str) -> None:
        """Draw the first chart of the result into a file.

        Parameters
        ----------
        path : str
            File with the extension .svg, .png, .pdf or, for charts, .html.

        Raises
        ------
        NotImplementedError
            If the result has no picture.
        InputError
            If the file cannot be written.
        """
        if not self.has_picture:
            raise NotImplementedError(f"{type(self).__name__} has no picture: {path}")
        charts.write_chart(next(iter(self.charts().values())), path)

    def picture(self, path: str | Path | None = None) -> Picture:
        """Create the picture of the result. If a path is given, also write it to a file.

        Raises
        ------
        InputError
            If the result has no picture, or the file cannot be written.
        """
        if not self.has_picture:
            raise InputError("this answer has no picture; to_frame() has its numbers")
        target = None if path is None else check_picture(path, self.endings)
        chart = next(iter(self.charts().values()), None)
        if chart is None:
            if target is not None:
                self.draw(str(target))
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / "picture.svg"
                self.draw(str(copy))
                text = copy.read_text(encoding="utf-8")
            return Picture(text[text.index("<svg") :])
        if target is not None:
            charts.write_chart(chart, target)
        return Picture(charts.svg(chart), chart)

    def html(self) -> str:
        """Tables and picture of the result as HTML, for a notebook."""
        from jinja2 import Environment
        from markupsafe import Markup

        drawing = Markup(self.picture().svg) if self.has_picture else ""
        template = Environment(autoescape=True).from_string(_HTML)
        return template.render(tables=self.tables(), drawing=drawing)

    def question(self) -> str:
        """Question that the page answers; by default, the title of the first table."""
        return f"{self.tables()[0].title}?"

    def conclusion(self) -> Pieces:
        """Parts of the sentence that states the result; by default, the first note of a table."""
        return self.tables()[0].notes[:1]

    def setups(self) -> Sequence[Setup]:
        """Setups that the query uses."""
        return ()

    def sources(self) -> Sequence[UsedSource]:
        """Sources of the result's inputs, from setups that have a price."""
        from inference_econ.records.sources import priced_sources

        priced = (setup for setup in self.setups() if setup.price is not None)
        return tuple(dict.fromkeys(source for setup in priced for source in priced_sources(setup)))

    @property
    def proportional(self) -> bool:
        """True if all displayed amounts are proportional to the price of a GPU."""
        return True

    def start(self) -> Start | None:
        """Deployment of the result as input of a launch plan; None if the result has no single best deployment."""
        return None


@dataclass(frozen=True)
class AnswerPage(Page, Generic[Answer]):
    """Page that displays a result object, which also contains the query."""

    answer: Answer
    """Result to display."""

    def record(self) -> object:
        """Result as plain data."""
        return self.answer.record()

    def frame(self) -> Frame:
        """Unrounded numbers of the result."""
        return self.answer.to_frame()

    def setups(self) -> Sequence[Setup]:
        """Setups that the query uses."""
        return self.answer.setups


def listed(lines: Sequence[str]) -> str:
    """Format sentences as a Markdown list below a table; empty without sentences."""
    return "\n" + "".join(f"- {line}\n" for line in lines) if lines else ""


#: Space between columns [characters].
GAP = 2
#: Width above which a cell may be wrapped between words [characters].
_PROSE = 40
#: Longest word in a column of numbers, such as "nothing fits" [characters].
_WORD = 12
#: Length above which a word, such as a path, may be wrapped after a slash, a dot or an underscore [characters].
_PATH = 24
_PIECE = re.compile(r"[^/._]*[/._]+|[^/._]+")
#: Suffix of marked numbers.
_MARK = " *"
_AMOUNT = r"[<>~]?[-+]?\$?\d[\d,]*(\.\d+)?(e[-+]?\d+)?( ?%)?"
_NUMBER = re.compile(rf"{_AMOUNT}(( to |, | : | ± |/){_AMOUNT})*")


class TableColumn(NamedTuple):
    """Heading, cells and width of one printed column."""

    head: str
    cells: tuple[str, ...]
    width: int
    """Width of the column [characters]; longer cells are wrapped between words."""
    right: bool
    """True if numbers are right-aligned."""


class Fitted(NamedTuple):
    """Columns of a table that is fitted to a line width."""

    columns: list[TableColumn]
    left_out: list[str]
    """Headings of the columns that are left out because they do not fit."""


def fitted(table: Table, width: int) -> Fitted:
    """Fit the columns of a table to a width; if necessary, the least important ones are left out.

    After a wide column is left out, narrower and less important columns may fit again.

    Parameters
    ----------
    table : Table
        Table.
    width : int
        Line width [characters].
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
    """Smallest line width that fits all columns of a table if long cells are wrapped [characters]."""
    return _total(_floors(_columns(table), words=False))


def _columns(table: Table) -> list[TableColumn]:
    """Columns of a table, each with the width that its contents need."""
    columns = []
    for index, head in enumerate(table.columns):
        cells = tuple(row[index] for row in table.rows)
        right = is_numeric(cells)
        if right and any(cell.endswith(_MARK) for cell in cells):
            # Align numbers with and without the mark at their last digit.
            cells = tuple(cell if cell.endswith(_MARK) else cell + " " * len(_MARK) for cell in cells)
        columns.append(TableColumn(head, cells, max(map(len, (head, *cells))), right))
    return columns


def is_numeric(cells: Sequence[str]) -> bool:
    """Return True if a column has numbers. A few cells may have a word instead of a number."""
    filled = [cell.removesuffix(_MARK) for cell in cells if cell not in ("", "-")]
    words = [cell for cell in filled if not _NUMBER.fullmatch(cell)]
    return bool(filled) and len(filled) >= 2 * len(words) and all(len(word) <= _WORD for word in words)


def _widths(columns: Sequence[TableColumn], width: int, *, words: bool = False) -> list[int] | None:
    """Width of each column.

    Columns keep the width of their contents if possible. Otherwise headings are wrapped, then long cells, and with
    ``words`` all cells. The result is None if the columns still do not fit.
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
    """Widths of the columns if only headings are wrapped."""
    return [max(_longest_word(column.head), *map(len, column.cells), 1) for column in columns]


def _floors(columns: Sequence[TableColumn], *, words: bool) -> list[int]:
    """Smallest widths of the columns if long cells are wrapped, or with ``words`` if all cells are wrapped.

    Numbers are never wrapped.
    """
    return [
        whole
        if column.right
        else max(_longest_word(column.head), *map(_longest_word, column.cells), 1 if words else min(whole, _PROSE))
        for column, whole in zip(columns, _heads_wrapped(columns), strict=True)
    ]


def _longest_word(text: str) -> int:
    return max((len(piece) for piece, _ in _pieces(text)), default=0)


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Split a text into pieces that may be on separate lines: words, or parts of long paths.

    Yield each piece with True if a space precedes it.
    """
    for word in text.split():
        parts = _PIECE.findall(word) if len(word) > _PATH else [word]
        yield from ((part, index == 0) for index, part in enumerate(parts))


def _wrapped(column: TableColumn, width: int) -> TableColumn:
    """Copy of a column with a given width: long cells are on several lines, and numbers are right-aligned."""
    if column.right:
        return column._replace(cells=tuple(cell.rjust(width) for cell in column.cells), width=width)
    cells = (cell if len(cell) <= width else _in_lines(cell, width) for cell in column.cells)
    return column._replace(cells=tuple(cells), width=width)


def _in_lines(text: str, width: int) -> str:
    """Wrap a text into lines of at most ``width`` characters."""
    lines = [""]
    for piece, apart in _pieces(text):
        space = " " if apart and lines[-1] else ""
        if len(lines[-1]) + len(space) + len(piece) <= width or not lines[-1]:
            lines[-1] += space + piece
        else:
            lines.append(piece)
    return "\n".join(lines)
