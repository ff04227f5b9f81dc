"""Save results to files, and load them as data."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference_econ.errors import InputError, unsafe_character
from inference_econ.inputs import read_text
from inference_econ.inputs.options import OLD_ARRANGEMENTS
from inference_econ.records.plain import Frame, csv_text, flat_frame, frame_of, json_text

if TYPE_CHECKING:
    from inference_econ.engine import Setup

_LOG = logging.getLogger(__name__)
#: Header keys of saved results. Files of the Python interface have the first key, with the rows of the result. Files of
#: the command line have the second key, with the query.
_SAVED, _QUESTION = "saved", "asked"
_PROGRAM = "inference-econ"
#: Record key with the rows of the data frame, by command. Records of other commands have several parts.
_ROWS = {
    "buy": "crossovers",
    "fits": "instances",
    "fleet": "hours",
    "load": "points",
    "recommend": "choices",
    "rollout": "runs",
    "speculate": "rows",
}
#: Current name by old name of record keys and options. Files of 0.2.0 development versions have the old names.
_OLD_KEYS = {
    "binding": "limiting_constraint",
    "autoscaled_kept_share": "autoscaled_slo_met_share",
    "in_flight_per_instance": "concurrency_per_replica",
    "kept_share": "slo_met_share",
    "lots": "rental_units",
    "lots_by_hour": "rental_units_by_hour",
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
    "room": "largest_that_fits",
    **{f"room_to_{name}": f"{name}_margin_elasticity" for name in ("ttft", "tpot", "e2e")},
    "way": "schedule",
    "ways": "prefill_methods",
    **OLD_ARRANGEMENTS,
}
#: Advice on how to write files that :func:`load_answer` reads, and files with a query that can be repeated.
_ANY = "write one with .save('answer.json'), or on the command line with -o answer.json"
_AGAIN = "write one with 'inference-econ frontier ... -o answer.json' (or another command that answers a question)"


@dataclass(frozen=True, slots=True)
class SavedAnswer:
    """Result that was loaded from a file; only data, because the catalog may have changed since the result was saved.

    Attributes
    ----------
    kind : str
        Type of the result, for example ``ServiceFrontier``. If the command line wrote the file, name of the command.
    version : str
        Version of inference_econ that wrote the file.
    record : dict
        Record of the result, see :meth:`to_dict`.
    rows : dict or None
        Columns and rows of the data frame; None if the command line wrote the file, because then ``record`` may have
        the rows.
    options : mapping
        Options of the command; empty if Python saved the result, because such files do not have the query.
    origin : str
        Path of the file.
    """

    kind: str
    version: str
    record: dict[str, Any]
    rows: dict[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Record of the result."""
        return self.record

    def to_frame(self) -> Frame:
        """Return the saved rows of the result as a data frame.

        Raises
        ------
        InputError
            If the command line wrote the file and the record does not have the rows.
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
        """Type of the result, and the inference_econ version that wrote the file."""
        return f"<SavedAnswer: {self.kind} of inference-econ {self.version}>"


def question_record(command: str, options: Mapping[str, Any]) -> dict[str, object]:
    """JSON field with the command and options of a query, which is sufficient to repeat the query."""
    return {_QUESTION: {"program": _PROGRAM, "version": _version(), "command": command, "options": {**options}}}


def json_of(kind: str, frame: Frame, record: Mapping[str, Any]) -> str:
    """JSON text of a result that :func:`load_answer` can read."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("split", index=False)
    head = {"program": _PROGRAM, "version": _version(), "kind": kind, "rows": rows}
    return json_text({_SAVED: head, **record})


def csv_of(frame: Frame, setups: Sequence[Setup]) -> str:
    """Convert the rows of a result to CSV text; missing values become empty cells, and -0.0 becomes 0.0.

    The column ``bound`` marks rows whose assumptions were fitted without servers that have the GPU. If rows do not name
    their GPU, all rows are marked, provided that this holds for all setups.

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
    from importlib import metadata  # takes longer than many commands

    return metadata.version(_PROGRAM)


def load_answer(path: str | Path) -> SavedAnswer:
    """Load a saved result (``inference_econ.load_answer``).

    Parameters
    ----------
    path : str or Path
        File written by :meth:`inference_econ._answer.Shown.save`, or by ``-o answer.json`` on the command line.

    Returns
    -------
    SavedAnswer
        Data of the result.

    Raises
    ------
    InputError
        If the file cannot be read, or is not a saved result.
    """
    record = read_json(path, _ANY)
    if not isinstance(record, dict):
        raise InputError(f"{path}: not a saved result; {_ANY}")
    head = next((record[key] for key in (_SAVED, _QUESTION) if isinstance(record.get(key), dict)), None)
    if head is None or head.get("program") != _PROGRAM:
        raise InputError(f"{path}: not written by inference-econ, or of a kind that does not say so; {_ANY}")
    return _answer(record, head, str(path))


def _current(value: Any) -> Any:
    """Convert old names in the data of a saved result to the current names."""
    if isinstance(value, list):
        return [_current(item) for item in value]
    if not isinstance(value, dict):
        return value
    renamed = {_OLD_KEYS.get(key, key): _current(item) for key, item in value.items()}
    if renamed.get("serving") in OLD_ARRANGEMENTS:
        renamed["serving"] = OLD_ARRANGEMENTS[renamed["serving"]]
    return renamed


def question(path: str) -> SavedAnswer:
    """Load a result that the command line wrote, including the options of its query.

    Raises
    ------
    InputError
        If the file cannot be read, if another version of inference_econ wrote it, or if Python saved it (without a
        query).
    """
    record = read_json(path, _AGAIN)
    if isinstance(record, dict) and isinstance(record.get(_SAVED), dict):
        raise InputError(
            f"{path}: was saved in Python, so it has numbers but no query; call .report('report.html') on the result "
            f"in Python, or {_AGAIN}"
        )
    return of_command(record, path, _AGAIN)


def is_answer(path: str) -> bool:
    """Return True if a file has the header of a saved result, even if the rest of the file is invalid."""
    try:
        record = json.loads(read_text(path))
    except (InputError, OSError, ValueError, RecursionError):
        return False
    return isinstance(record, dict) and isinstance(record.get(_QUESTION), dict)


def read_json(path: str | Path, how: str) -> object:
    """Data of a JSON file.

    Raises
    ------
    InputError
        If the file cannot be read or is not JSON. The message ends with the advice ``how``.
    """
    try:
        data: object = json.loads(read_text(str(path)))
        if character := unsafe_character(data):
            raise InputError(f"{path}: a text contains {character}, which is not printable; {how}")
        return data
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not JSON, so not a saved result; {how}") from error
    except ValueError as error:  # for example a number with thousands of digits
        raise InputError(f"{path}: not a saved result, whose numbers have at most 17 digits; {how}") from error


def of_command(record: object, origin: str, how: str) -> SavedAnswer:
    """Convert the JSON record that a command wrote to a saved result.

    Raises
    ------
    InputError
        If the record has no query, or if another version of inference_econ wrote it.
    """
    head = record.get(_QUESTION) if isinstance(record, dict) else None
    asked = isinstance(head, dict) and head.get("program") == _PROGRAM and isinstance(head.get("command"), str)
    if not (isinstance(record, dict) and isinstance(head, dict) and asked and isinstance(head.get("options"), dict)):
        raise InputError(f"{origin}: not a saved result with its query; {how}; in Python, results have launch()")
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
    current = _current(rest)
    if current != rest:
        _LOG.warning("note: %s has old names of keys, which are read until 0.3.0; save it again", origin)
    return SavedAnswer(kind, str(head.get("version")), current, head.get("rows"), _current(options or {}), origin)
