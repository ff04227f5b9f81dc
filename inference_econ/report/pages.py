"""Pages of results, and launch scripts of the deployments that results selected.

:class:`inference_econ._answer.Shown` calls these functions, and imports this module when a result is displayed.
"""

from __future__ import annotations

from typing import Any

from inference_econ._answer import Shown
from inference_econ._named import named
from inference_econ.errors import InputError
from inference_econ.report.page import AnswerPage


def page(answer: Shown) -> AnswerPage[Any]:
    """Create the page of a result, with the default options of its command.

    Pages of other commands are not imported.
    """
    displayed = answer.displayed
    made: AnswerPage[Any] = named(displayed.page)(displayed)
    return made


def launch(answer: Shown, to: str | None = None) -> str:
    """Create a launch script; see :meth:`inference_econ._answer.Shown.launch`."""
    from inference_econ.report.questions.launch import start_script

    start = page(answer).start()
    if start is None:
        raise InputError(
            f"{type(answer).__name__} starts nothing; recommend, price, load and frontier choose what does"
        )
    return start_script(start, to)
