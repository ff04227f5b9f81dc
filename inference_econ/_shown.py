"""What all answers can do beside holding numbers: show themselves in a notebook, become data, and be kept in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from inference_econ.report.page import Page
    from inference_econ.report.picture import Picture


class Shown:
    """An answer that knows its tables and its picture.

    How each kind of answer looks is the business of :mod:`inference_econ.report`, which is imported when something is
    shown: answers are computed without it.
    """

    __slots__ = ()

    def to_frame(self) -> pd.DataFrame:
        """The numbers behind the answer, one row each, unrounded; units are part of the names of columns.

        What is predicted has columns ``NAME_low`` and ``NAME_high`` beside it, between which 80 % of measured values
        lie; they are empty where the assumptions were fitted to nothing of the kind.
        """
        return self._page().frame()

    def to_dict(self) -> dict[str, Any]:
        """All of the answer as plain data, as ``--format json`` prints it: numbers in base units, texts, lists."""
        return self._page().plain()

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
        from inference_econ.report.picture import picture

        return picture(self._page(), path)

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
        from inference_econ.report.saved import save

        save(self._page(), type(self).__name__, path)

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
        from inference_econ.report.web import Asked, check_name, write

        check_name(path)
        write(path, [Asked(self._page())])

    def __repr__(self) -> str:
        """The kind of answer, the heading of its first table, and how many rows that has."""
        from inference_econ.report.picture import brief

        return f"<{type(self).__name__}: {brief(self._page())}>"

    def _repr_html_(self) -> str:
        """Tables and picture for a notebook."""
        from inference_econ.report.picture import html

        return html(self._page())

    def _page(self) -> Page:
        from inference_econ.report.pages import page

        return page(self)
