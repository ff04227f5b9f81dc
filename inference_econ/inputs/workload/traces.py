"""Reader of traces, which are files with recorded requests. The contents of a file show its format."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import stat
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TextIO, cast

from inference_econ.errors import InputError
from inference_econ.inputs.places import files_allowed, open_file

#: Longest accepted prompt or output [tokens].
_LONGEST = 1_000_000_000
#: Number of characters per token for traces that contain texts without token counts [1].
CHARACTERS_PER_TOKEN = 4.0
#: Tokens per block in Mooncake's traces, which do not state this number [tokens].
_MOONCAKE_BLOCK = 512
#: Limit on the length of a line, a JSON document, or an entry of a list, each of which is read at once [characters].
_LONGEST_PART = 50_000_000
#: Limits on the size of an unpacked file: this number of characters, or, if larger, this multiple of the packed size.
_UNPACKED, _RATIO = 100_000_000, 50
#: Number of characters that is added to the length of each line for this limit, because empty lines also take time.
_PER_READ = 20
#: Size of the parts in which lists are read [characters].
_CHUNK = 1 << 20
#: Number of lines that are read to detect the format [1].
_LOOKED_AT = 20
_BETWEEN = re.compile(r"[\s,]*")


class Event(NamedTuple):
    """Recorded request of a trace."""

    isl: int
    """Prompt length [tokens]."""
    osl: int
    """Output length [tokens]."""
    seconds: float | None = None
    """Arrival time; None if not recorded [s]."""
    blocks: Sequence[Hashable] = ()
    """Identifiers of the blocks of the prompt.

    Two prompts with a common identifier are equal up to the end of this block.
    """
    block_tokens: int = 0
    """Tokens per block [tokens]."""
    cached: int | None = None
    """Number of cached tokens of the prompt, or of tokens of earlier turns; None if not recorded [tokens]."""
    session: str = ""
    """Identifier of the conversation."""


class Broken(NamedTuple):
    """Line that does not contain a valid request."""

    problem: str
    """Reason why the line is invalid."""


class TraceLine(NamedTuple):
    """Content of a line of the file, or of an entry of a list."""

    number: int
    """Number of the line or entry, starting from 1."""
    event: Event | Broken
    """Request, or the reason why the line contains no valid request."""


class TraceFile(NamedTuple):
    """Trace file with recorded requests."""

    form: str
    """Name of the file format."""
    lines: Iterator[TraceLine]
    """Lines of the file, which are read one by one during iteration."""
    timed: bool = True
    """True if all times are on one clock; false if the times of each session start from zero."""


def read_trace(path: Path | str) -> TraceFile:
    """Read a trace file line by line, so that memory does not grow with the file.

    Parameters
    ----------
    path : path or str
        Azure or BurstGPT tables in CSV, or a JSON document, a JSON list, or one JSON document per line. The JSON
        formats are Mooncake and AgentX / Weka traces, ShareGPT conversations, results of ``vllm bench serve
        --save-detailed``, AIPerf's ``profile_export.jsonl`` and OpenTelemetry spans. Files that end in ``.gz`` are
        unpacked.

    Returns
    -------
    TraceFile
        Format and lines of the file. A line without a valid request contains the reason.

    Raises
    ------
    InputError
        If the file cannot be read, is empty, or has an unknown format.
    """
    with _opened(path) as handle:
        first = handle.readline(_LONGEST_PART)  # a list may be one long line, so it is read in parts
        more = 0 if first.lstrip().startswith("[") else _LOOKED_AT
        head = [line for line in (first, *(handle.readline() for _ in range(more))) if line.strip()]
    if not head:
        raise InputError(f"{path}: the file is empty; a trace has a request a line")
    table = _table(head[0])
    if table is not None:
        return TraceFile(table[0], _opened_for(path, lambda handle: _rows(handle, table[1])))
    values: Callable[[TextIO], Iterable[tuple[int, Any]]] = _json_lines
    form = next((form for line in head if (form := _form(_parsed(line)[1]))), None)
    begins, counted = head[0].lstrip()[:1], form in _LISTS
    if begins == "[" or (begins == "{" and form is None):
        values, counted = (_entries, False) if begins == "[" else (_document, True)
        with _opened(path) as handle:
            form = _form(next(values(handle), (1, None))[1])
    if form is None:
        raise InputError(
            f"{path}: has none of the forms that are known: {', '.join([*_TABLES, *_OBJECTS])}; a CSV names its "
            f"columns in the first line ({', '.join(_TABLES['Azure'].values())})"
        )
    name = form
    lines = _opened_for(path, lambda handle: _objects(values(handle), name, counted=counted))
    return TraceFile(form, lines, timed=form not in _SESSIONS)


def _opened_for(path: Path | str, lines: Callable[[TextIO], Iterator[TraceLine]]) -> Iterator[TraceLine]:
    """Lines of a file, which is closed after the last line. A read error is returned as a line without a request."""
    number = 0
    with _opened(path) as handle:
        try:
            for line in lines(handle):
                number = line.number
                yield line
        except (OSError, EOFError, zlib.error, csv.Error) as error:
            yield TraceLine(number + 1, Broken(f"cannot be read ({error}); what follows is not read"))


class _BoundedText(io.TextIOWrapper):
    """Text of a trace file. The length of a line and the size of an unpacked file are limited."""

    left: float = math.inf
    """Characters that may still be read."""

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        """Read a line."""
        line = self._counted(super().readline(_LONGEST_PART + 1 if size < 0 else size))
        if len(line) > _LONGEST_PART:
            raise OSError(f"a line of more than {_LONGEST_PART:,} characters")
        return line

    def read(self, size: int | None = -1, /) -> str:
        """Read a number of characters."""
        return self._counted(super().read(size))

    def __next__(self) -> str:  # type: ignore[override]
        if line := self.readline():
            return line
        raise StopIteration

    def _counted(self, text: str) -> str:
        self.left -= len(text) + _PER_READ
        if self.left < 0:
            raise OSError(f"it unpacks to more than {_RATIO} times its size")
        return text


@contextmanager
def _opened(path: Path | str) -> Iterator[TextIO]:
    if not files_allowed():
        raise InputError(f"{path}: files are not read here")
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise InputError(f"{path}: no regular file; a trace is one that can be read twice")
        with open_file(Path(path)) as file:
            packed = Path(path).suffix == ".gz"
            text = _BoundedText(gzip.GzipFile(fileobj=file) if packed else file, encoding="utf-8-sig", errors="replace")
            if packed:
                text.left = max(_UNPACKED, _RATIO * Path(path).stat().st_size)
            yield text
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _json_lines(handle: TextIO) -> Iterator[tuple[int, Any]]:
    """JSON values of the lines of a file, with line numbers."""
    return (_parsed(line, number) for number, line in enumerate(handle, 1) if line.strip())


def _parsed(line: str, number: int = 1) -> tuple[int, object]:
    """Line number and JSON value of a line, or line number and reason why the line has no value."""
    try:
        return number, json.loads(line)
    except (ValueError, RecursionError) as error:
        return number, Broken(f"no JSON ({error})")


def _document(handle: TextIO) -> Iterator[tuple[int, Any]]:
    """Read a file that contains a single JSON object.

    Raises
    ------
    InputError
        If the file contains no JSON object, or is too large.
    """
    text = handle.read(_LONGEST_PART + 1)
    if len(text) > _LONGEST_PART:
        raise InputError(
            f"{handle.name}: one JSON value of more than {_LONGEST_PART:,} characters; write a request a line"
        )
    value = _parsed(text)
    if isinstance(value[1], Broken):
        raise InputError(f"{handle.name}: no line is a request of a known form, and the whole is {value[1].problem}")
    yield value


def _entries(handle: TextIO) -> Iterator[tuple[int, Any]]:
    """Entries of a JSON list with their numbers.

    The list is read in parts. Reading stops at the first invalid entry.
    """
    decoder, text, at, number = json.JSONDecoder(), handle.read(_CHUNK), 0, 0
    at = text.index("[") + 1
    while True:
        place = cast("re.Match[str]", _BETWEEN.match(text, at)).end()
        if text[place : place + 1] == "]":
            return
        number += 1
        try:
            value, at = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            more = handle.read(max(_CHUNK, len(text) - place)) if len(text) - place <= _LONGEST_PART else ""
            if not more:
                yield number, Broken(f"no JSON ({error}); what follows is not read")
                return
            text, at, number = text[place:] + more, 0, number - 1
            continue
        yield number, value


def _table(line: str) -> tuple[str, Mapping[str, int]] | None:
    """Format of a table, and the positions of its columns, according to the header line."""
    names = [name.strip() for name in line.split(",")]
    for form, columns in _TABLES.items():
        needed = [name for field, name in columns.items() if field != "session"]
        if set(needed) <= set(names):
            return form, {field: names.index(name) for field, name in columns.items() if name in names}
    return None


def _rows(handle: TextIO, places: Mapping[str, int]) -> Iterator[TraceLine]:
    reader = csv.reader(handle)
    next(reader)
    for cells in reader:
        if not cells:
            continue
        try:
            named = {field: cells[place] for field, place in places.items()}
            event = Event(
                _whole(named["isl"]), _whole(named["osl"]), _clock(named["seconds"]), session=named.get("session", "")
            )
            yield TraceLine(reader.line_num, _checked(event))
        except IndexError:
            yield TraceLine(reader.line_num, Broken("cells are missing"))
        except (ValueError, OverflowError) as error:
            yield TraceLine(reader.line_num, Broken(str(error)))


def _clock(text: str) -> float:
    """Time as a number [s]. The text is a number of seconds, or a date with a time, which is in UTC by default."""
    with suppress(ValueError):
        return float(text)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is not a time") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _whole(value: object) -> int:
    """Convert a value to an integer.

    Raises
    ------
    ValueError
        If the value is not an integer.
    """
    number = float(cast("Any", value))
    if not number.is_integer():
        raise ValueError(f"{value!r} is not a token count")
    return int(number)


def _checked(event: Event) -> Event | Broken:
    """Check the numbers of a request. Return the request, or the reason why it is invalid."""
    if max(event.isl, event.osl) > _LONGEST or (event.cached or 0) < 0:
        return Broken(f"tokens are out of range, got {event.isl}, {event.osl} and {event.cached or 0} of them cached")
    if event.isl < 1 or event.osl < 1:
        return Broken(f"a request has at least 1 token of prompt and answer, got {event.isl} and {event.osl}")
    if event.seconds is not None and not 0.0 <= event.seconds < math.inf:
        return Broken(f"the time is negative or not finite, got {event.seconds:g} s")
    return event


def _form(value: object) -> str | None:
    """Name of the format of a JSON object."""
    if not isinstance(value, Mapping):
        return None
    return next((form for form, (keys, _) in _OBJECTS.items() if keys <= value.keys()), None)


def _objects(values: Iterable[tuple[int, Any]], form: str, *, counted: bool) -> Iterator[TraceLine]:
    """Requests in JSON values of one format.

    Requests are numbered by their JSON value or, if ``counted``, by their position in the value.
    """
    keys, requests = _OBJECTS[form]
    for number, value in values:
        if isinstance(value, Broken):
            yield TraceLine(number, value)
            continue
        if not isinstance(value, Mapping) or not keys <= value.keys():
            yield TraceLine(number, Broken(f"{', '.join(sorted(keys))} are needed"))
            continue
        try:
            for place, event in enumerate(requests(value), 1):
                yield TraceLine(place if counted else number, _checked(event))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            yield TraceLine(number, Broken(what))


def _mooncake(value: Mapping[str, Any]) -> Iterator[Event]:
    seconds = None if value.get("timestamp") is None else float(value["timestamp"]) / 1e3
    isl, osl, session = _whole(value["input_length"]), _whole(value["output_length"]), str(value.get("session_id", ""))
    yield Event(isl, osl, seconds, *_blocks(value, value.get("block_size", _MOONCAKE_BLOCK)), session=session)


def _blocks(value: Mapping[str, Any], size: object, name: str | None = None) -> tuple[tuple[Hashable, ...], int]:
    """Block identifiers of a prompt, and tokens per block.

    If ``name`` is given, identifiers become unique to this conversation.

    Raises
    ------
    ValueError
        If the identifiers are neither numbers nor texts, or the block size is not a positive integer.
    """
    hashes, tokens = tuple(value.get("hash_ids") or ()), _whole(size)
    if tokens < 1 or not all(isinstance(block, (int, str)) for block in hashes):
        raise ValueError("hash_ids must be numbers or texts, and blocks have at least 1 token")
    return tuple((name, block) for block in hashes) if name is not None else hashes, tokens


def _weka(value: Mapping[str, Any]) -> Iterator[Event]:
    """Requests of a coding conversation.

    In some traces, the times of a sub-agent are relative to the sub-agent's start.
    """
    name, local = str(value.get("id", "")), value.get("hash_id_scope") == "local"

    def requests(entries: Sequence[Mapping[str, Any]], begin: float) -> Iterator[Event]:
        for entry in entries:
            at = begin + float(entry["t"])
            if "requests" in entry:
                inside = entry["requests"]
                absolute = inside and min(float(request["t"]) for request in inside) >= float(entry["t"])
                yield from requests(inside, begin if absolute else at)
                continue
            blocks = _blocks(entry, value["block_size"], name if local else None)
            yield Event(_whole(entry["in"]), _whole(entry["out"]), at, *blocks, session=name)

    yield from requests(value["requests"], 0.0)


def _sharegpt(value: Mapping[str, Any]) -> Iterator[Event]:
    """Requests of a conversation that is recorded as text. Token counts are estimated from the number of characters."""
    history = cached = 0
    for turn in value["conversations"]:
        tokens = max(round(len(turn["value"]) / CHARACTERS_PER_TOKEN), 1)
        if turn["from"] in ("gpt", "assistant", "chatgpt", "bard", "bing") and history:
            yield Event(history, tokens, cached=min(cached, history - 1), session=str(value.get("id", "")))
            cached = history + tokens
        history += tokens


def _vllm(value: Mapping[str, Any]) -> Iterator[Event]:
    starts = value.get("start_times") or [None] * len(value["input_lens"])
    for isl, osl, start in zip(value["input_lens"], value["output_lens"], starts, strict=True):
        yield Event(_whole(isl), _whole(osl), None if start is None else float(start))


def _aiperf(value: Mapping[str, Any]) -> Iterator[Event]:
    metadata, metrics = value["metadata"], value["metrics"]
    if value.get("error"):
        raise ValueError(f"the request failed ({value['error'].get('type', 'error')})")
    isl, osl = (_whole(metrics[name]["value"]) for name in ("input_sequence_length", "output_sequence_length"))
    session = str(metadata.get("x_correlation_id") or metadata.get("conversation_id") or "")
    yield Event(isl, osl, float(metadata["request_start_ns"]) / 1e9, session=session)


#: Attribute names of spans for tokens of prompt, output and cache: current and former names.
_TOKENS = (
    ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    ("gen_ai.usage.cache_read.input_tokens",),
)


def _opentelemetry(value: Mapping[str, Any]) -> Iterator[Event]:
    """Requests in spans that have token counts.

    Spans of agents are skipped, because they repeat the token counts of the request spans below.
    """
    scopes = [scope for resource in value["resourceSpans"] for scope in resource.get("scopeSpans", ())]
    for span in (span for scope in scopes for span in scope.get("spans", ())):
        attributes = {entry["key"]: next(iter(entry["value"].values()), None) for entry in span.get("attributes", ())}
        isl, osl, cached = (next((attributes[name] for name in names if name in attributes), None) for names in _TOKENS)
        if isl is None or osl is None or attributes.get("gen_ai.operation.name") == "invoke_agent":
            continue
        session = str(attributes.get("gen_ai.conversation.id") or span.get("traceId", ""))
        cached_tokens = None if cached is None else _whole(cached)
        yield Event(
            _whole(isl), _whole(osl), _whole(span["startTimeUnixNano"]) / 1e9, cached=cached_tokens, session=session
        )


#: Columns of tables, by quantity. The column of sessions may be missing.
_TABLES: Mapping[str, Mapping[str, str]] = {
    "Azure": {"seconds": "TIMESTAMP", "isl": "ContextTokens", "osl": "GeneratedTokens"},
    "BurstGPT": {
        "seconds": "Timestamp", "isl": "Request tokens", "osl": "Response tokens", "session": "Session ID",
    },
}  # fmt: skip
#: Keys that identify the objects of each format, and the function that reads their requests.
_OBJECTS: Mapping[str, tuple[set[str], Callable[[Mapping[str, Any]], Iterator[Event]]]] = {
    "Mooncake": ({"input_length", "output_length"}, _mooncake),
    "AgentX / Weka": ({"requests", "block_size"}, _weka),
    "ShareGPT": ({"conversations"}, _sharegpt),
    "vLLM bench": ({"input_lens", "output_lens"}, _vllm),
    "AIPerf": ({"metadata", "metrics"}, _aiperf),
    "OpenTelemetry": ({"resourceSpans"}, _opentelemetry),
}
#: Formats in which a line contains several requests, and formats in which the times of each session start from zero.
_LISTS = ("vLLM bench",)
_SESSIONS = ("AgentX / Weka",)
