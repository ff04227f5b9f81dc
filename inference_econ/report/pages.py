"""Answers of the Python API on their way to ink: functions by which each one shows itself.

:class:`inference_econ._shown.Shown` has their names, and loads them when an answer is shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference_econ._named import named
from inference_econ._shown import Shown

if TYPE_CHECKING:
    from inference_econ.report.page import AnswerPage
    from inference_econ.report.picture import Picture


def page(answer: Shown) -> AnswerPage[Any]:
    """Page of an answer, with what its command shows when nothing else is wanted: of all pages only it is imported."""
    displayed = answer.displayed
    made: AnswerPage[Any] = named(displayed.page)(displayed)
    return made


def picture(answer: Shown, path: str | Path | None) -> Picture:
    """See :meth:`inference_econ._shown.Shown.plot`."""
    from inference_econ.report import picture

    return picture.picture(page(answer), path)


def markdown(answer: Shown) -> str:
    """See :meth:`inference_econ._shown.Shown.save`."""
    return page(answer).markdown()


def report(answer: Shown, path: str | Path) -> None:
    """See :meth:`inference_econ._shown.Shown.report`."""
    named("extras.web.document:write_page")(path, page(answer))


def launch(answer: Shown, to: str | None) -> str:
    """See :meth:`inference_econ._shown.Shown.launch`."""
    from inference_econ.errors import InputError
    from inference_econ.report.questions.launch import started

    start = page(answer).start()
    if start is None:
        raise InputError(
            f"{type(answer).__name__} starts nothing; recommend, price, load and frontier choose what does"
        )
    return started(start, to)


def html(answer: Shown) -> str:
    """See :meth:`inference_econ._shown.Shown._repr_html_`."""
    from inference_econ.report import picture

    return picture.html(page(answer))
