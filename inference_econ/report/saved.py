"""Answers in files: written whole, and read again as the data that they are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference_econ.errors import InputError
from inference_econ.inputs import read_text
from inference_econ.report.files import ending_of, write_text
from inference_econ.report.page import csv_text, json_text

if TYPE_CHECKING:
    import pandas as pd

    from inference_econ.report.page import Page

#: What the head of a file says of itself: the program, its release, what kind of answer it is, and its rows.
_HEAD = "saved"
_HOW = "write one with .save('answer.json'), or on the command line with -o answer.json"


@dataclass(frozen=True, slots=True)
class SavedAnswer:
    """An answer as it was when it was saved: data only, since facts and fits may have changed since.

    Attributes
    ----------
    kind : str
        What it was, for example ``ServiceFrontier``; of an answer of the command line, the command.
    version : str
        Of this program, then.
    record : dict
        All that it says, as :meth:`to_dict` of the answer gave it.
    rows : dict or None
        Columns and rows of its numbers; None of an answer of the command line, which keeps them in its record only.
    """

    kind: str
    version: str
    record: dict[str, Any]
    rows: dict[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        """All that it says."""
        return self.record

    def to_frame(self) -> pd.DataFrame:
        """The numbers behind the answer, as they were.

        Raises
        ------
        InputError
            If the command line wrote the file.
        """
        import pandas as pd

        if self.rows is None:
            raise InputError("an answer of the command line has no frame in its JSON: use to_dict(), or -o answer.csv")
        return pd.DataFrame(self.rows["data"], columns=self.rows["columns"])

    def __repr__(self) -> str:
        """What it was, and of which release."""
        return f"<SavedAnswer: {self.kind} of inference-econ {self.version}>"


def save(page: Page, kind: str, path: str | Path) -> None:
    """Write an answer in the form that the end of a name asks for; see :meth:`inference_econ._shown.Shown.save`."""
    match ending_of(path):
        case ".json":
            text = json_text({_HEAD: _head(kind, page.frame()), **page.plain()})
        case ".csv":
            text = csv_text(page.frame())
        case ".md":
            text = page.markdown()
        case ending:
            raise InputError(
                f"{path}: answers are saved as .json, .csv or .md, not as {ending or 'a name without end'}"
            )
    write_text(path, text)


def _head(kind: str, frame: pd.DataFrame) -> dict[str, Any]:
    rows = frame.astype(object).where(frame.notna(), None).to_dict("split", index=False)
    return {"program": "inference-econ", "version": metadata.version("inference-econ"), "kind": kind, "rows": rows}


def load_answer(path: str | Path) -> SavedAnswer:
    """Read an answer that was saved (``inference_econ.load_answer``).

    Parameters
    ----------
    path : str or Path
        What :meth:`inference_econ._shown.Shown.save` wrote, or ``-o answer.json`` on the command line.

    Returns
    -------
    SavedAnswer
        Its data.

    Raises
    ------
    InputError
        If the file cannot be read, or is no such answer.
    """
    try:
        record = json.loads(read_text(str(path)))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: no JSON, so no saved answer; {_HOW}") from error
    if not isinstance(record, dict):
        raise InputError(f"{path}: no saved answer; {_HOW}")
    head = next((record[key] for key in (_HEAD, "asked") if isinstance(record.get(key), dict)), None)
    if head is None or head.get("program") != "inference-econ":
        raise InputError(f"{path}: not written by inference-econ, or of a kind that does not say so; {_HOW}")
    kind = str(head.get("kind") or head.get("command"))
    rest = {key: value for key, value in record.items() if key not in (_HEAD, "asked")}
    return SavedAnswer(kind, str(head.get("version")), rest, head.get("rows"))
