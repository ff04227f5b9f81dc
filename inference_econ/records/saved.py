"""Answers in files: written whole, and read again as the data that they are."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference_econ.errors import InputError
from inference_econ.inputs import read_text
from inference_econ.inputs.defaults import OLD_ARRANGEMENTS
from inference_econ.records.plain import Frame, csv_text, flat_frame, frame_of, json_text

if TYPE_CHECKING:
    from inference_econ.engine import Setup

#: Heads of files: of answers that Python saved, with their rows; of those of the command line, with what was asked.
_SAVED, _QUESTION = "saved", "asked"
_PROGRAM = "inference-econ"
#: Where the record of a command holds the rows of its frame; those of other commands are made of several parts.
_ROWS = {
    "buy": "crossovers",
    "fits": "instances",
    "fleet": "hours",
    "load": "points",
    "recommend": "choices",
    "rollout": "runs",
    "speculate": "rows",
}
#: Names that keys of records and options had in development versions of 0.2.0, and the values of one of them.
_OLD_KEYS = {
    "autoscaled_kept_share": "autoscaled_slo_met_share",
    "in_flight_per_instance": "concurrency_per_replica",
    "kept_share": "slo_met_share",
    "pay": "pricing",
    "planned_kept_share": "planned_slo_met_share",
    "played": "is_simulated",
    "practice": "recipe",
    "probability_capacity": "p_capacity_sufficient",
    "probability_e2e": "p_e2e_met",
    "probability_tpot": "p_tpot_met",
    "probability_ttft": "p_ttft_met",
    "promises": "slos",
    "propose_seconds": "draft_seconds",
    "proposer": "method",
    **OLD_ARRANGEMENTS,
}
#: How files are written that :func:`load_answer` reads, and those that can be asked again.
_ANY = "write one with .save('answer.json'), or on the command line with -o answer.json"
_AGAIN = "write one with 'inference-econ frontier ... -o answer.json' (or another command that answers a question)"


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
        Columns and rows of its numbers; None of an answer of the command line, which has them in its record, if at
        all.
    options : mapping
        Those of the command; empty of an answer that was saved in Python, which keeps no question.
    origin : str
        Where it was read from.
    """

    kind: str
    version: str
    record: dict[str, Any]
    rows: dict[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""

    def to_dict(self) -> dict[str, Any]:
        """All that it says."""
        return self.record

    def to_frame(self) -> Frame:
        """The numbers behind the answer, as they were.

        Raises
        ------
        InputError
            If the command line wrote the file, and its record does not hold the rows as they are.
        """
        if self.rows is not None:
            return frame_of(self.rows["data"], columns=self.rows["columns"])
        rows = self.record.get(_ROWS.get(self.kind, ""))
        if not isinstance(rows, list):
            raise InputError(
                f"an answer of {self.kind!r} has no frame in its JSON: use to_dict(), or ask the command again with "
                "-o answer.csv"
            )
        return flat_frame(rows)

    def __repr__(self) -> str:
        """Kind of the answer, and its release."""
        return f"<SavedAnswer: {self.kind} of inference-econ {self.version}>"


def question_record(command: str, options: Mapping[str, Any]) -> dict[str, object]:
    """Question as a part of an answer's JSON: enough to ask again."""
    return {_QUESTION: {"program": _PROGRAM, "version": _version(), "command": command, "options": {**options}}}


def json_of(kind: str, frame: Frame, record: Mapping[str, Any]) -> str:
    """Answer as the text of a file that :func:`load_answer` reads again."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("split", index=False)
    head = {"program": _PROGRAM, "version": _version(), "kind": kind, "rows": rows}
    return json_text({_SAVED: head, **record})


def csv_of(frame: Frame, setups: Sequence[Setup]) -> str:
    """Rows as CSV text, without the sign of a zero; what is missing is empty.

    Rows whose chip no assumptions were fitted to say ``bound``, as JSON does: all of them where no row names one.

    Raises
    ------
    OverflowError
        If a number is infinite.
    """
    chips = [setup.hardware.name for setup in setups if setup.is_bound]
    if chips and "bound" not in frame:
        if "hardware" in frame:
            bounds = frame["hardware"].isin(chips)
            frame = frame.assign(bound=bounds.where(bounds))
        elif len(chips) == len(setups):
            frame = frame.assign(bound=True)
    return csv_text(frame)


def _version() -> str:
    return metadata.version(_PROGRAM)


def load_answer(path: str | Path) -> SavedAnswer:
    """Read an answer that was saved (``inference_econ.load_answer``).

    Parameters
    ----------
    path : str or Path
        What :meth:`inference_econ._answer.Shown.save` wrote, or ``-o answer.json`` on the command line.

    Returns
    -------
    SavedAnswer
        Its data.

    Raises
    ------
    InputError
        If the file cannot be read, or is no such answer.
    """
    record = read_json(path, _ANY)
    if not isinstance(record, dict):
        raise InputError(f"{path}: no saved answer; {_ANY}")
    head = next((record[key] for key in (_SAVED, _QUESTION) if isinstance(record.get(key), dict)), None)
    if head is None or head.get("program") != _PROGRAM:
        raise InputError(f"{path}: not written by inference-econ, or of a kind that does not say so; {_ANY}")
    return _answer(record, head, str(path))


def _current(value: Any) -> Any:
    """Data of a saved answer with the names of today."""
    if isinstance(value, list):
        return [_current(item) for item in value]
    if not isinstance(value, dict):
        return value
    renamed = {_OLD_KEYS.get(key, key): _current(item) for key, item in value.items()}
    if renamed.get("serving") in OLD_ARRANGEMENTS:
        renamed["serving"] = OLD_ARRANGEMENTS[renamed["serving"]]
    return renamed


def question(path: str) -> SavedAnswer:
    """Read an answer of any command, with what it was asked.

    Raises
    ------
    InputError
        If the file cannot be read, is no answer of this program or one of another release; or if the answer was saved
        in Python, which keeps numbers, not questions.
    """
    record = read_json(path, _AGAIN)
    if isinstance(record, dict) and isinstance(record.get(_SAVED), dict):
        raise InputError(
            f"{path}: saved in Python, which keeps numbers and not what was asked; write .report('report.html') of the "
            f"answer there, or {_AGAIN}"
        )
    return of_command(record, path, _AGAIN)


def is_answer(path: str) -> bool:
    """Return whether a file says that this program wrote it; not whether it can be used."""
    try:
        record = json.loads(read_text(path))
    except (InputError, OSError, ValueError, RecursionError):
        return False
    return isinstance(record, dict) and isinstance(record.get(_QUESTION), dict)


def read_json(path: str | Path, how: str) -> object:
    """Data of a file of JSON.

    Raises
    ------
    InputError
        If the file cannot be read or is none, with how such files are written.
    """
    try:
        return json.loads(read_text(str(path)))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: no JSON, so no saved answer; {how}") from error
    except ValueError as error:  # a number of thousands of digits
        raise InputError(f"{path}: no saved answer, whose numbers have 17 digits at most; {how}") from error


def of_command(record: object, origin: str, how: str) -> SavedAnswer:
    """Answer of a command of this release.

    Raises
    ------
    InputError
        If the record does not say what was asked, with how such files are written, or is of another release.
    """
    head = record.get(_QUESTION) if isinstance(record, dict) else None
    asked = isinstance(head, dict) and head.get("program") == _PROGRAM and isinstance(head.get("command"), str)
    if not (isinstance(record, dict) and isinstance(head, dict) and asked and isinstance(head.get("options"), dict)):
        raise InputError(f"{origin}: no saved answer that says what was asked; {how}; in Python an answer has launch()")
    if head.get("version") != _version():
        command, subject = head["command"], [head["options"].get(name, "") for name in ("model", "hardware")]
        again = shlex.join([_PROGRAM, command, *map(str, subject), "...", "-o", origin])
        raise InputError(
            f"{origin}: written by inference-econ {head.get('version')}, and this is {_version()}, whose predictions "
            f"are others; ask again: {again}"
        )
    return _answer(record, head, origin)


def _answer(record: Mapping[str, Any], head: Mapping[str, Any], origin: str) -> SavedAnswer:
    kind, options = str(head.get("kind") or head.get("command")), head.get("options")
    rest = {key: value for key, value in record.items() if key not in (_SAVED, _QUESTION)}
    return SavedAnswer(
        kind, str(head.get("version")), _current(rest), head.get("rows"), _current(options or {}), origin
    )
