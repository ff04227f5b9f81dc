"""Abilities of all answers beside holding numbers: to be shown in a notebook, to become data, to be kept in files."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from inference_econ.errors import InputError
from inference_econ.records.files import ending_of, write_text
from inference_econ.records.plain import Frame, flat_frame, named

if TYPE_CHECKING:
    from pathlib import Path

    from inference_econ.engine import Setup

#: Subjects that the text of an answer names, and characters of these at most [1].
_NAMED, _BRIEF = 2, 100


class ShownPicture(Protocol):
    """A drawing that notebooks show, and the chart behind it."""

    @property
    def svg(self) -> str:
        """The drawing, as text."""

    @property
    def chart(self) -> Any:
        """Altair's chart, to be changed or combined; None for figures of the study."""

    def _repr_svg_(self) -> str: ...
    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]: ...


class Shows(Protocol):
    """Module whose functions show answers."""

    def picture(self, answer: Shown, path: str | Path | None) -> ShownPicture:
        """Picture of an answer, written to a path as well if there is one."""

    def markdown(self, answer: Shown) -> str:
        """Document of an answer."""

    def report(self, answer: Shown, path: str | Path) -> None:
        """Write an answer into one file for a browser."""

    def launch(self, answer: Shown, to: str | None) -> str:
        """Script that starts the deployment that an answer chose."""

    def html(self, answer: Shown) -> str:
        """Tables and picture of an answer for a notebook."""


#: Name of the module that shows answers: :func:`show_with` gives it, as plotting backends are given to pandas.
_shows = ""


def show_with(module: str) -> None:
    """Name the module that shows answers (:class:`Shows`), which is loaded when the first one is shown."""
    global _shows
    _shows = module


def _show() -> Shows:
    return cast("Shows", import_module(_shows))


class Shown:
    """An answer that can be shown.

    Answers own their numbers: plain data, rows and files of them need nothing of how an answer looks. That is the
    business of :mod:`inference_econ.report`, which is imported when a table, a picture or a document is wanted: answers
    are computed without it, and only name their page.
    """

    __slots__ = ()

    @property
    def page(self) -> str:
        """Module of this package and class of the page that shows the answer: ``report.load:LoadPage``."""
        raise NotImplementedError

    @property
    def displayed(self) -> Shown:
        """Answer whose page shows this one: itself, unless it holds another one."""
        return self

    @property
    def setups(self) -> Sequence[Setup]:
        """Setups that were asked about; none where an answer is about none."""
        return ()

    def record(self) -> Any:
        """Return all of the answer as plain data: under names, or a list of records where it has no names."""
        raise NotImplementedError

    def records(self) -> Sequence[Mapping[str, Any]]:
        """Return the numbers behind the answer, one record per row."""
        raise NotImplementedError

    def to_frame(self) -> Frame:
        """The numbers behind the answer, one row each, unrounded; units are part of the names of columns.

        What is predicted has columns ``NAME_low`` and ``NAME_high`` beside it, between which 80 % of measured values
        lie; they are empty where the assumptions were fitted to nothing of the kind.
        """
        return flat_frame(self.records())

    def to_dict(self) -> dict[str, Any]:
        """All of the answer as plain data, as ``--format json`` prints it: numbers in base units, texts, lists."""
        return named(self.displayed.record())

    def plot(self, path: str | Path | None = None) -> ShownPicture:
        """Draw the answer.

        Parameters
        ----------
        path : str or Path, optional
            Where to write the picture as well, ending in .svg, .png, .pdf or .html.

        Returns
        -------
        Picture
            Shown by notebooks: as a chart to point at and click where they know Vega-Lite, else as a drawing. Its
            ``chart`` is Altair's.

        Raises
        ------
        InputError
            If the answer has no picture, or the path cannot be written.
        """
        return _show().picture(self, path)

    def save(self, path: str | Path) -> None:
        """Write the answer to a file, whole or not at all.

        Parameters
        ----------
        path : str or Path
            Ending in .json, which :func:`inference_econ.load_answer` reads again, or in .csv or .md.

        Raises
        ------
        InputError
            If the ending is another one, or the path cannot be written.
        """
        from inference_econ.records import saved

        shown = self.displayed
        match ending_of(path):
            case ".json":
                text = saved.json_of(type(self).__name__, shown.to_frame(), shown.to_dict())
            case ".csv":
                text = saved.csv_of(shown.to_frame(), shown.setups)
            case ".md":
                text = _show().markdown(self)
            case ending:
                raise InputError(
                    f"{path}: answers are saved as .json, .csv or .md, not as {ending or 'a name without end'}"
                )
        write_text(path, text)

    def report(self, path: str | Path) -> None:
        """Write the answer into one file that a browser opens without a network: charts, tables, what to start.

        Parameters
        ----------
        path : str or Path
            Ending in .html.

        Raises
        ------
        InputError
            If the name ends otherwise, or the path cannot be written.
        """
        _show().report(self, path)

    def launch(self, to: str | None = None) -> str:
        """Script that starts the deployment that the answer chose, and the run that holds it to account.

        Parameters
        ----------
        to : str, optional
            Engine (``vllm``, ``sglang``, ``trtllm``); by default the one that the deployment was predicted of.

        Returns
        -------
        str
            For a shell; see the command ``launch``.

        Raises
        ------
        InputError
            If the answer chose none, or the engine is not known to start it.
        """
        return _show().launch(self, to)

    @property
    def about(self) -> str:
        """Models on chips that the answer is about, in short; empty where it is about none."""
        subjects = list(dict.fromkeys(f"{setup.model.name} on {setup.hardware.name}" for setup in self.setups))
        further = f" and {len(subjects) - _NAMED} more" if len(subjects) > _NAMED else ""
        return ", ".join(subjects[:_NAMED]) + further

    def __repr__(self) -> str:
        """Kind of the answer, what it is about, and how many rows it has."""
        about = textwrap.shorten(self.displayed.about, _BRIEF, placeholder=" ...")
        count = len(self.displayed.records())
        rows = f"{count} row{'' if count == 1 else 's'}"
        return f"<{type(self).__name__}: {f'{about} ({rows})' if about else rows}>"

    def _repr_html_(self) -> str:
        """Tables and picture for a notebook."""
        return _show().html(self)
