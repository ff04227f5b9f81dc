"""An answer in the form that a request asks for: made where the question is answered, sent as bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from inference_econ.errors import InputError, NothingFitsError
from inference_econ.explorer import view
from inference_econ.explorer.questions import Answer, Answering, Fields, RefusedError

if TYPE_CHECKING:
    from inference_econ.report.page import Page
    from inference_econ.report.table import Table

#: How answers can be had, by the ending of an address, and the type of media that each is.
Form = Literal["json", "csv", "md", "txt", "svg", "png", "html", "yaml"]
MEDIA: Mapping[Form, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "html": "text/html; charset=utf-8",
    "yaml": "application/yaml",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent.

    Attributes
    ----------
    body : bytes
        The answer, or what is wrong.
    media : str
        Its type.
    refused : str
        Why there is no answer; empty if there is one.
    field : str or None
        The option that caused it, if it is a single one.
    """

    body: bytes
    media: str
    refused: str = ""
    field: str | None = None


def reply(
    answering: Answering, question: str, fields: Fields, form: Form | Literal["view"], models: Mapping[str, str]
) -> Reply:
    """Answer a question, or say what is wrong with it; runs in a process of its own.

    Parameters
    ----------
    answering : callable
        Answers questions.
    question : str
        Its name.
    fields : mapping
        Its options.
    form : str
        How the answer is wanted; ``view`` is what the page shows.
    models : mapping of str to str
        Texts of configurations that may be named beside the catalogue.
    """
    from inference_econ.inputs import catalog

    try:
        with catalog.names_only(models):
            return _sent(question, fields, answering(question, fields), form)
    except RefusedError as error:
        return Reply(b"", "", str(error), error.field)
    except (InputError, NothingFitsError) as error:
        return Reply(b"", "", str(error))


def _sent(question: str, fields: Fields, answer: Answer, form: Form | Literal["view"]) -> Reply:
    if form == "view":
        return Reply(view.text(question, fields, answer).encode(), MEDIA["json"])
    content = _FORMS[form](answer)
    return Reply(content.encode() if isinstance(content, str) else content, MEDIA[form])


def _document(answer: Answer) -> str:
    """Everything that a page says of an answer, as JSON."""
    from inference_econ.report.page import json_text

    page = answer.page
    document: dict[str, Any] = {"command": answer.command, "text": answer.text}
    if page is not None:
        tables = [_table(table) for table in page.tables()]
        document |= {"answer": {**answer.asked, **page.plain()}, "tables": tables}
    return json_text(document)


def _table(table: Table) -> Mapping[str, object]:
    names: Sequence[str] = ("title", "columns", "rows", "notes", "why")
    return {name: getattr(table, name) for name in names}


def _page(answer: Answer) -> Page:
    if answer.page is None:
        raise RefusedError("this answer is a text: ask for it as .txt or .json")
    return answer.page


def _csv(answer: Answer) -> str:
    from inference_econ.report.page import csv_text

    return csv_text(_page(answer).frame())


def _text(answer: Answer) -> str:
    return answer.text or f"{answer.command}\n"


def _picture(answer: Answer, ending: str) -> bytes:
    """The first chart of an answer as a file.

    Raises
    ------
    RefusedError
        If it has none.
    """
    from inference_econ.report import charts

    shown = _page(answer).charts()
    if not shown:
        raise RefusedError("this answer has no picture: ask for it as .json or .csv")
    return charts.drawn(next(iter(shown.values())), ending)


def _report(answer: Answer) -> str:
    from inference_econ.report import web

    return web.text([web.section(web.Asked(_page(answer), answer.command))], answer.command)


def _scenario(answer: Answer) -> str:
    """The scenario that asks the same.

    Raises
    ------
    RefusedError
        If it is no comparison.
    """
    from inference_econ.inputs import spec_text
    from inference_econ.report.compare import ComparisonPage

    page = _page(answer)
    if not isinstance(page, ComparisonPage):
        raise RefusedError("only comparisons are had as a scenario: ask 'compare'")
    return spec_text(page.result.scenario)


_FORMS: Mapping[Form, Callable[[Answer], str | bytes]] = {
    "json": _document,
    "csv": _csv,
    "md": lambda answer: _page(answer).markdown(),
    "txt": _text,
    "svg": lambda answer: _picture(answer, ".svg"),
    "png": lambda answer: _picture(answer, ".png"),
    "html": _report,
    "yaml": _scenario,
}
