"""Replies to requests: results in the requested format, created in a worker and sent as bytes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from inference_econ.errors import InputError, NothingFitsError
from inference_econ.extras.web import page
from inference_econ.extras.web.questions import Answer, Fields, RefusedError, answer

if TYPE_CHECKING:
    from inference_econ.report.page import Page

#: Formats of results by the ending of an address, and media type of each format.
Form = Literal["json", "csv", "md", "txt", "yaml", "html", "svg", "png"]
MEDIA: Mapping[Form, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "yaml": "application/yaml; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}
#: Formats that a browser downloads. Reports contain scripts, which must not run on pages of this server.
FILES: tuple[Form, ...] = ("csv", "yaml", "html", "svg", "png")


@dataclass(frozen=True, slots=True)
class Reply:
    """Reply to a request.

    Attributes
    ----------
    body : bytes
        Result or error message.
    media : str
        Media type of the body.
    refused : str
        Reason for an error; empty for a result.
    field : str or None
        Option that caused the error, if any.
    """

    body: bytes
    media: str
    refused: str = ""
    field: str | None = None


def reply(question: str, fields: Fields, form: Form | Literal["view"], texts: Mapping[str, str]) -> Reply:
    """Run a command in a worker process, and return its result or error.

    Parameters
    ----------
    question : str
        Name of the command.
    fields : mapping
        Options of the command.
    form : str
        Format of the result; ``view`` is the content of a panel.
    texts : mapping of str to str
        Uploaded texts that options may name, by name.
    """
    from inference_econ.inputs import catalog

    try:
        with catalog.names_only(texts), catalog.uncopied():
            made = answer(question, fields)
            if form == "view":
                return Reply(page.text(question, fields, made).encode(), MEDIA["json"])
            content = _FORMS[form](made)
            return Reply(content.encode() if isinstance(content, str) else content, MEDIA[form])
    except (InputError, NothingFitsError) as error:
        return Reply(b"", "", str(error), error.option)


def _json(answer: Answer) -> str:
    """Result as JSON, with plain data and with tables."""
    from inference_econ.records.plain import json_text

    document: dict[str, Any] = {"command": answer.command, "remarks": answer.remarks, "text": answer.text}
    if answer.page is not None:
        shown = ("title", "columns", "rows", "notes", "why")
        tables = [{name: getattr(table, name) for name in shown} for table in answer.page.tables()]
        document |= {"answer": {**answer.question, **answer.page.plain()}, "tables": tables}
    return json_text(document)


def _page(answer: Answer) -> Page:
    if answer.page is None:
        raise RefusedError("this answer is a text: ask for it as .txt or .json")
    return answer.page


def _markdown(answer: Answer) -> str:
    """Result as Markdown, after the command line and remarks."""
    shown = f"```sh\n{answer.text}\n```\n" if answer.page is None else _tables(answer.page)
    return f"`{answer.command}`\n\n{_remarks(answer)}{shown}"


def _text(answer: Answer) -> str:
    """Result as text: a script, or the command line with remarks and tables."""
    return answer.text if answer.page is None else f"{answer.command}\n\n{_remarks(answer)}{_tables(answer.page)}"


def _remarks(answer: Answer) -> str:
    return "".join(f"{remark}\n\n" for remark in answer.remarks)


def _tables(page: Page) -> str:
    """Title, and tables with their notes."""
    return f"{page.tables()[0].title}\n\n{page.markdown()}"


def _yaml(answer: Answer) -> str:
    """Scenario file of the command.

    Raises
    ------
    RefusedError
        If scenarios do not support the command.
    """
    if answer.scenario is None:
        raise RefusedError("scenarios hold questions of frontier and compare: ask this one as .json or .txt")
    return answer.scenario()


def _report(answer: Answer) -> str:
    """Result as a self-contained report."""
    from inference_econ.extras.web import document

    head: Any = answer.question.get("asked", {})
    options = head.get("options", {})
    engine = options.get("engine")
    named = engine.partition("@")[0] if isinstance(engine, str) else options.get("to")
    section = document.section(document.Asked(_page(answer), answer.command, (), named))
    question = answer.command.removeprefix("inference-econ ")
    return document.document_text([section], shlex.join(["inference-econ", "report", question, "-o", "report.html"]))


def _picture(answer: Answer, ending: str) -> bytes:
    """First chart of a result as a file.

    Raises
    ------
    RefusedError
        If the result has no chart.
    """
    from inference_econ.report import charts

    shown = _page(answer).charts()
    if not shown:
        raise RefusedError("this answer has no picture: ask for it as .json or .csv")
    return charts.drawn(next(iter(shown.values())), ending)


_FORMS: Mapping[Form, Callable[[Answer], str | bytes]] = {
    "json": _json,
    "csv": lambda answer: _page(answer).csv(),
    "md": _markdown,
    "txt": _text,
    "yaml": _yaml,
    "html": _report,
    "svg": lambda answer: _picture(answer, ".svg"),
    "png": lambda answer: _picture(answer, ".png"),
}
