"""Report that every comparison of predictions and measurements gives."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

TABLE = tomllib.loads(Path(__file__).with_name("datasets.toml").read_text(encoding="utf-8"))
#: How the rows of a set are shown: errors by kind of row, or one by one, where they are few and unlike each other.
Form = Literal["errors", "listed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPoint:
    """One measurement beside one prediction of it.

    Attributes
    ----------
    id : str
        Of the row.
    series : str
        What is compared: rows of one kind.
    subject : str
        What it was measured on.
    assumptions : str
        Under which it was predicted.
    unit : str
        Of both numbers.
    measured, predicted : float or None
        None if there is none; the note says why.
    fitted : bool
        Constants behind the prediction were fitted to this row.
    note : str
        Why there is no prediction, or why it differs.
    """

    id: str
    series: str
    subject: str
    assumptions: str
    unit: str
    measured: float | None = None
    predicted: float | None = None
    fitted: bool = False
    note: str = ""

    @property
    def log_error(self) -> float | None:
        """ln(predicted / measured); None without both [1]."""
        if self.measured is None or self.predicted is None:
            return None
        return math.log(self.predicted / self.measured)


@dataclass(frozen=True, slots=True)
class Report:
    """All rows of one set of measurements beside their predictions.

    Attributes
    ----------
    dataset : str
        Name of the set.
    title : str
        For people.
    points : sequence of ComparedPoint
        One for each row and each of the assumptions.
    notes : tuple of str
        How rows were read and predicted.
    form : str
        How the rows are shown, see :data:`Form`.
    """

    dataset: str
    title: str
    points: Sequence[ComparedPoint]
    notes: tuple[str, ...] = ()
    form: Form = "errors"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """All that were compared, in order."""
        return tuple(dict.fromkeys(point.assumptions for point in self.points))

    @property
    def series(self) -> tuple[str, ...]:
        """All kinds of rows, in order."""
        return tuple(dict.fromkeys(point.series for point in self.points))


@dataclass(frozen=True, slots=True)
class Dataset:
    """Measurements that a module of the same name predicts, an entry of ``datasets.toml``.

    Attributes
    ----------
    name : str
        As the command line takes it.
    description : str
        For people.
    files : sequence of str
        The files that come with the package, below ``scenarios/measured`` and without their suffix.
    assumptions : sequence of str
        Presets or models of collectives that are compared if none are named.
    title : str
        Of its report, with the name of the file in braces.
    columns : sequence of str
        Columns that a file of it must have.
    notes : sequence of str
        How its rows are predicted, and what is to be known of them.
    form : str
        How its rows are shown.
    """

    name: str
    description: str
    files: Sequence[str]
    assumptions: Sequence[str]
    title: str
    columns: Sequence[str]
    notes: Sequence[str] = ()
    form: Form = "errors"

    def report(self, path: Path, points: Iterable[ComparedPoint], notes: Sequence[str] | None = None) -> Report:
        """Report of the rows of a file."""
        texts = tuple(self.notes if notes is None else notes)
        return Report(self.name, self.title.format(path.name), tuple(points), texts, self.form)
