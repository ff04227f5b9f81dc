"""Abilities of all answers beside holding numbers: to be shown in a notebook, to become data, to be kept in files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd


class Picture(Protocol):
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

    def frame(self, answer: Shown) -> pd.DataFrame:
        """Rows of numbers, unrounded."""

    def plain(self, answer: Shown) -> dict[str, Any]:
        """All of an answer as plain data."""

    def picture(self, answer: Shown, path: str | Path | None) -> Picture:
        """Picture of an answer, written to a path as well if there is one."""

    def save(self, answer: Shown, path: str | Path) -> None:
        """Write an answer into a file that is read again."""

    def report(self, answer: Shown, path: str | Path) -> None:
        """Write an answer into one file for a browser."""

    def launch(self, answer: Shown, to: str | None) -> str:
        """Script that starts the deployment that an answer chose."""

    def line(self, answer: Shown) -> str:
        """Kind of an answer, heading of its first table, and how many rows that has."""

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

    How an answer looks is the business of :mod:`inference_econ.report`, which is imported when something is shown:
    answers are computed without it, and only name their page.
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

    def to_frame(self) -> pd.DataFrame:
        """The numbers behind the answer, one row each, unrounded; units are part of the names of columns.

        What is predicted has columns ``NAME_low`` and ``NAME_high`` beside it, between which 80 % of measured values
        lie; they are empty where the assumptions were fitted to nothing of the kind.
        """
        return _show().frame(self)

    def to_dict(self) -> dict[str, Any]:
        """All of the answer as plain data, as ``--format json`` prints it: numbers in base units, texts, lists."""
        return _show().plain(self)

    def plot(self, path: str | Path | None = None) -> Picture:
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
        _show().save(self, path)

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

    def __repr__(self) -> str:
        """The kind of answer, the heading of its first table, and how many rows that has."""
        return _show().line(self)

    def _repr_html_(self) -> str:
        """Tables and picture for a notebook."""
        return _show().html(self)
