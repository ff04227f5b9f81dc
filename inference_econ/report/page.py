"""Pages of answers: one small protocol for people, spreadsheets, programs and pictures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from inference_econ._shown import Shown
from inference_econ.records.files import CHARTS, PICTURES
from inference_econ.records.plain import Frame, named
from inference_econ.records.saved import csv_of
from inference_econ.report import charts
from inference_econ.report.table import Table

if TYPE_CHECKING:
    from inference_econ.answers.launching.plan import Start
    from inference_econ.engine import Setup
    from inference_econ.records.sources import UsedSource

Answer = TypeVar("Answer", bound=Shown)
#: Parts of a sentence: texts, and amounts (:class:`.table.Amount`) that follow the price of a chip.
Pieces = Sequence[str]


@dataclass(frozen=True, slots=True)
class Sketch:
    """A line that a terminal draws with characters, upwards on a logarithmic axis.

    Attributes
    ----------
    x, y : sequence of float
        Equally long.
    x_label, y_label : str
        Units are part of the labels.
    """

    x: Sequence[float]
    y: Sequence[float]
    x_label: str
    y_label: str


@dataclass(frozen=True, slots=True)
class Bar:
    """Parts of a whole that a terminal shows as one bar.

    Attributes
    ----------
    parts : mapping of str to float
        By name, in one unit.
    """

    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Remarks:
    """Remarks on the basis of all tables; a terminal shows them when it is asked to.

    Attributes
    ----------
    lines : sequence of str
        One sentence or more each.
    """

    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Headline:
    """The answer in some lines above or below all tables, quiet or not.

    Attributes
    ----------
    lines : sequence of str
        One sentence or more each.
    """

    lines: Sequence[str]


#: What a terminal shows one below the other; quiet ones show tables only.
Block = Table | Sketch | Bar | Remarks | Headline


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
        charts.write(next(iter(self.charts().values())), path)

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
    """Page of an answer, which knows its question.

    Attributes
    ----------
    answer : answer
        What is shown.
    """

    answer: Answer

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
