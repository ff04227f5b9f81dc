"""Methods that all results share: display in notebooks, conversion to data, and files."""

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

#: Maximum subjects in the text of a result, and their maximum characters [1].
_NAMED, _BRIEF = 2, 100


class ShownPicture(Protocol):
    """Picture in a notebook, and its chart."""

    @property
    def svg(self) -> str:
        """SVG text."""

    @property
    def chart(self) -> Any:
        """Altair chart that can be changed or combined; None for figures of the study."""

    def _repr_svg_(self) -> str: ...
    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]: ...


class Shows(Protocol):
    """Module with functions that display results."""

    def picture(self, answer: Shown, path: str | Path | None) -> ShownPicture:
        """Picture of a result, also written to a file if a path is given."""

    def markdown(self, answer: Shown) -> str:
        """Result as Markdown."""

    def report(self, answer: Shown, path: str | Path) -> None:
        """Write a result to one HTML file."""

    def launch(self, answer: Shown, to: str | None) -> str:
        """Script that launches the deployment that a result selected."""

    def html(self, answer: Shown) -> str:
        """Tables and picture of a result for a notebook."""


#: Display module, set by :func:`show_with`, similar to pandas plotting backends.
_shows = ""


def show_with(module: str) -> None:
    """Set the display module (:class:`Shows`), which is loaded when the first result is displayed."""
    global _shows
    _shows = module


def _show() -> Shows:
    return cast("Shows", import_module(_shows))


class Shown:
    """Result that can be displayed.

    Results have their numbers: plain data, rows and files need no display code. They are computed without
    :mod:`inference_econ.report` and only name their page. A table, picture or document imports it.
    """

    __slots__ = ()

    @property
    def page(self) -> str:
        """Page module of this package and class: ``report.load:LoadPage``."""
        raise NotImplementedError

    @property
    def displayed(self) -> Shown:
        """Result to display: this one, unless it contains another."""
        return self

    @property
    def setups(self) -> Sequence[Setup]:
        """Setups of the query; empty if it has none."""
        return ()

    def record(self) -> Any:
        """Return the result as plain data: a dictionary, or a list of records."""
        raise NotImplementedError

    def records(self) -> Sequence[Mapping[str, Any]]:
        """Return the numbers of the result, one record per row."""
        raise NotImplementedError

    def to_frame(self) -> Frame:
        """Unrounded numbers of the result, one row each; column names include units.

        Predictions have columns ``NAME_low`` and ``NAME_high`` with the ends of the interval of 80% of measured values.
        They are empty without an error estimate.
        """
        return flat_frame(self.records())

    def to_dict(self) -> dict[str, Any]:
        """Result as plain data, as printed by ``--format json``: numbers in base units, texts, lists."""
        return named(self.displayed.record())

    def plot(self, path: str | Path | None = None) -> ShownPicture:
        """Draw the result.

        Parameters
        ----------
        path : str or Path, optional
            File to write as well, with the extension .svg, .png, .pdf or .html.

        Returns
        -------
        Picture
            Picture for notebooks: interactive if they support Vega-Lite, else SVG. ``chart`` is the Altair chart.

        Raises
        ------
        InputError
            If the result has no picture, or the file cannot be written.
        """
        return _show().picture(self, path)

    def save(self, path: str | Path) -> None:
        """Write the result to a file atomically.

        Parameters
        ----------
        path : str or Path
            File with the extension .json, for :func:`inference_econ.load_answer`, or .csv or .md.

        Raises
        ------
        InputError
            If the extension is not supported, or the file cannot be written.
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
        """Write the result to one HTML file that needs no network: charts, tables, launch script.

        Parameters
        ----------
        path : str or Path
            File with the extension .html.

        Raises
        ------
        InputError
            If the extension is not supported, or the file cannot be written.
        """
        _show().report(self, path)

    def launch(self, to: str | None = None) -> str:
        """Create the script that launches the selected deployment and its load test.

        Parameters
        ----------
        to : str, optional
            Engine (``vllm``, ``sglang``, ``trtllm``); by default the predicted one.

        Returns
        -------
        str
            Shell script; see the command ``launch``.

        Raises
        ------
        InputError
            If the result has no deployment, or the engine cannot be launched.
        """
        return _show().launch(self, to)

    @property
    def about(self) -> str:
        """Models and GPUs of the result, abbreviated; empty if it has none."""
        subjects = list(dict.fromkeys(f"{setup.model.name} on {setup.hardware.name}" for setup in self.setups))
        further = f" and {len(subjects) - _NAMED} more" if len(subjects) > _NAMED else ""
        return ", ".join(subjects[:_NAMED]) + further

    def __repr__(self) -> str:
        """Kind of the result, its subjects, and the number of rows."""
        about = textwrap.shorten(self.displayed.about, _BRIEF, placeholder=" ...")
        count = len(self.displayed.records())
        rows = f"{count} row{'' if count == 1 else 's'}"
        return f"<{type(self).__name__}: {f'{about} ({rows})' if about else rows}>"

    def _repr_html_(self) -> str:
        """Tables and picture for a notebook."""
        return _show().html(self)
