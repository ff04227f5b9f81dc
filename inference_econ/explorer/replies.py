"""An answer in the form that a request asks for: made where the question is answered, sent as bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from inference_econ.errors import InputError, NothingFitsError
from inference_econ.explorer.questions import Answer, Answering, Fields, RefusedError

if TYPE_CHECKING:
    from inference_econ.report.page import Page
    from inference_econ.report.table import Table

#: How answers can be had, by the ending of an address, and the type of media that each is.
Form = Literal["json", "csv", "md", "txt"]
MEDIA: Mapping[Form, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
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


def reply(answering: Answering, question: str, fields: Fields, form: Form, models: Mapping[str, str]) -> Reply:
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
        How the answer is wanted.
    models : mapping of str to str
        Texts of configurations that may be named beside the catalogue.
    """
    from inference_econ.inputs import catalog

    try:
        with catalog.names_only(models):
            return Reply(_FORMS[form](answering(question, fields)).encode(), MEDIA[form])
    except RefusedError as error:
        return Reply(b"", "", str(error), error.field)
    except (InputError, NothingFitsError) as error:
        return Reply(b"", "", str(error))


def _document(answer: Answer) -> str:
    """Everything that a page shows of an answer, as JSON."""
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


_FORMS: Mapping[Form, Callable[[Answer], str]] = {
    "json": _document,
    "csv": _csv,
    "md": lambda answer: _page(answer).markdown(),
    "txt": _text,
}
