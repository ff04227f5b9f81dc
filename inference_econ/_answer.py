"""Methods that all results share: display in notebooks, conversion to data, and files."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inference_econ._named import named as imported
from inference_econ.errors import InputError
from inference_econ.records.files import ending_of, write_text
from inference_econ.records.plain import Frame, flat_frame, named

if TYPE_CHECKING:
    from pathlib import Path

    from inference_econ.engine import Setup

#: Maximum number of subjects in the short text of a result, and maximum length of this text [characters].
_NAMED, _BRIEF = 2, 100


@dataclass(frozen=True, slots=True)
class Picture:
    """Picture in a notebook: interactive if the notebook supports Vega-Lite, else SVG.

    Attributes
    ----------
    svg : str
        SVG text.
    chart : altair chart or None
        Chart that users can change or combine; None for figures of the published study.
    """

    svg: str
    chart: Any = None

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:  # noqa: ARG002
        """Return the picture as SVG and as an interactive chart, which needs no network."""
        shown: dict[str, object] = {"image/svg+xml": self.svg, "text/plain": repr(self)}
        if self.chart is None:
            return shown
        return {imported("report.charts:mime_type")(): imported("report.charts:specification")(self.chart), **shown}

    def __repr__(self) -> str:
        """Return the size of the SVG text instead of the text."""
        return f"<Picture: {len(self.svg):,} characters of SVG>"


class Shown:
    """Base class of results that can be displayed.

    A result contains numbers, and converts itself to plain data, rows and files. The property ``page`` names the
    display code in :mod:`inference_econ.report`. This code is imported only for a table, a picture or a document.
    """

    __slots__ = ()

    @property
    def page(self) -> str:
        """Module and class of the page that displays the result, such as ``report.load:LoadPage``."""
        raise NotImplementedError

    def _page(self) -> Any:
        """Page that displays the result, see :mod:`inference_econ.report.pages`."""
        return imported("report.pages:page")(self)

    @property
    def displayed(self) -> Shown:
        """Result to display: the result itself, unless it contains another result."""
        return self

    @property
    def setups(self) -> Sequence[Setup]:
        """Setups of the query: by default the setup of the result; empty if the result has none."""
        setup: Setup | None = getattr(self, "setup", None)
        return () if setup is None else [setup]

    def record(self) -> Any:
        """Return the result as plain data: a dictionary, or a list of records."""
        raise NotImplementedError

    def records(self) -> Sequence[Mapping[str, Any]]:
        """Return the numbers of the result, one record per row; by default, the whole result is one record."""
        return [self.record()]

    def to_frame(self) -> Frame:
        """Return the unrounded numbers of the result as a data frame.

        Each record is a row. Column names include units.

        Predictions have additional columns ``NAME_low`` and ``NAME_high``. These columns are the ends of an interval
        that contains 80% of measured values. Without an error estimate, these columns are empty.
        """
        return flat_frame(self.records())

    def to_dict(self) -> dict[str, Any]:
        """Result as plain data with base units; ``--format json`` prints the same data."""
        return named(self.displayed.record())

    def plot(self, path: str | Path | None = None) -> Picture:
        """Draw the result.

        Parameters
        ----------
        path : str or Path, optional
            File to which the picture is also written, with the extension .svg, .png, .pdf or .html.

        Returns
        -------
        Picture
            Picture for notebooks. The picture is interactive in notebooks that support Vega-Lite, and SVG elsewhere.
            ``chart`` has the Altair chart.

        Raises
        ------
        InputError
            If the result has no picture, or the file cannot be written.
        """
        picture: Picture = self._page().picture(path)
        return picture

    def save(self, path: str | Path) -> None:
        """Write the result to a file atomically.

        Parameters
        ----------
        path : str or Path
            File with the extension .json, .csv or .md. :func:`inference_econ.load_answer` reads .json files.

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
                text = self._page().markdown()
            case ending:
                raise InputError(
                    f"{path}: answers are saved as .json, .csv or .md, not as {ending or 'a name without end'}"
                )
        write_text(path, text)

    def report(self, path: str | Path) -> None:
        """Write the result to one HTML file with charts, tables and launch script. The file needs no network.

        Parameters
        ----------
        path : str or Path
            File with the extension .html.

        Raises
        ------
        InputError
            If the extension is not supported, or the file cannot be written.
        """
        imported("extras.web.document:write_page")(path, self._page())

    def launch(self, to: str | None = None) -> str:
        """Create a script that launches the selected deployment and its load test.

        Parameters
        ----------
        to : str, optional
            Engine (``vllm``, ``sglang``, ``trtllm``); by default the engine of the prediction.

        Returns
        -------
        str
            Shell script; see the command ``launch``.

        Raises
        ------
        InputError
            If the result has no deployment, or the engine cannot be launched.
        """
        script: str = imported("report.pages:launch")(self, to)
        return script

    @property
    def about(self) -> str:
        """Short text with the models and GPUs of the result; empty if it has none."""
        subjects = list(dict.fromkeys(f"{setup.model.name} on {setup.hardware.name}" for setup in self.setups))
        further = f" and {len(subjects) - _NAMED} more" if len(subjects) > _NAMED else ""
        return ", ".join(subjects[:_NAMED]) + further

    def __repr__(self) -> str:
        """Type of the result, its models and GPUs, and its number of rows."""
        about = textwrap.shorten(self.displayed.about, _BRIEF, placeholder=" ...")
        count = len(self.displayed.records())
        rows = f"{count} row{'' if count == 1 else 's'}"
        return f"<{type(self).__name__}: {f'{about} ({rows})' if about else rows}>"

    def _repr_html_(self) -> str:
        """HTML with tables and picture, for a notebook."""
        text: str = self._page().html()
        return text
