"""Functions that display results in Python.

:class:`inference_econ._answer.Shown` calls these functions, and imports this module when a result is displayed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference_econ._answer import Shown
from inference_econ._named import named

if TYPE_CHECKING:
    from inference_econ.report.page import AnswerPage
    from inference_econ.report.picture import Picture


def page(answer: Shown) -> AnswerPage[Any]:
    """Create the page of a result, with the default options of its command.

    Pages of other commands are not imported.
    """
    displayed = answer.displayed
    made: AnswerPage[Any] = named(displayed.page)(displayed)
    return made


def picture(answer: Shown, path: str | Path | None) -> Picture:
    """Draw a result; see :meth:`inference_econ._answer.Shown.plot`."""
    from inference_econ.report import picture

    return picture.page_picture(page(answer), path)


def markdown(answer: Shown) -> str:
    """Return a result as Markdown text, which :meth:`inference_econ._answer.Shown.save` writes to a file."""
    return page(answer).markdown()


def report(answer: Shown, path: str | Path) -> None:
    """Write a result to an HTML file; see :meth:`inference_econ._answer.Shown.report`."""
    named("extras.web.document:write_page")(path, page(answer))


def launch(answer: Shown, to: str | None = None) -> str:
    """Create a launch script; see :meth:`inference_econ._answer.Shown.launch`."""
    from inference_econ.errors import InputError
    from inference_econ.report.questions.launch import start_script

    start = page(answer).start()
    if start is None:
        raise InputError(
            f"{type(answer).__name__} starts nothing; recommend, price, load and frontier choose what does"
        )
    return start_script(start, to)


def html(answer: Shown) -> str:
    """Return a result as HTML for a notebook; see :meth:`inference_econ._answer.Shown._repr_html_`."""
    from inference_econ.report import picture

    return picture.page_html(page(answer))
