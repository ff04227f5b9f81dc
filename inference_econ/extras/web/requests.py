"""Parse requests, cancel work for disconnected clients, and cache recent replies and uploaded texts."""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from inference_econ.extras.web.questions import Fields, RefusedError
from inference_econ.extras.web.replies import MEDIA, Form
from inference_econ.extras.web.workers import Workers
from inference_econ.requests import Command

if TYPE_CHECKING:
    from starlette.requests import Request

T = TypeVar("T")
#: Status of a disconnected client; never sent.
GONE = 499


def question_and_form(request: Request, questions: Iterable[str]) -> tuple[str, Form]:
    """Command and result format in an address such as ``frontier`` or ``frontier.csv``.

    Raises
    ------
    HTTPException
        404 if the command or format is unknown.
    """
    name, _, ending = str(request.path_params["question"]).partition(".")
    if name not in questions:
        raise HTTPException(404, f"no question {name[:40]!r}; there are {', '.join(questions)}")
    form = next((form for form in MEDIA if form == (ending or "json")), None)
    if form is None:
        raise HTTPException(404, f"answers are had as {', '.join(MEDIA)}, not as {ending[:40]!r}")
    return name, form


def texts(request: Request, question: Command) -> Fields:
    """Options in an address, as texts; repeated options as lists.

    Raises
    ------
    RefusedError
        If an option that accepts only one value is repeated.
    """
    many = {option.field for option in question.asked if option.repeat}
    values: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in many:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise RefusedError(f"{name[:40]}: given twice; give it once", name)
        else:
            values[name] = value
    return values


async def json_object(request: Request, most_bytes: int) -> Fields:
    """JSON object in the body of a request.

    Raises
    ------
    HTTPException
        400 if the body is not JSON, 413 if it is too large, 415 without a JSON content type.
    RefusedError
        If the JSON is not an object, or a name is repeated in an object.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "send JSON, with the header Content-Type: application/json")
    try:
        content = await body(request, most_bytes)
        value = json.loads(content, parse_constant=_refuse_constant, object_pairs_hook=_named_once)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"not valid JSON: {str(error)[:200]}") from error
    if not isinstance(value, dict):
        raise RefusedError(f"a JSON object with the options is needed, got {type(value).__name__}")
    return value


def _named_once(pairs: list[tuple[str, Any]]) -> Fields:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise RefusedError(f"{name[:40]}: given twice; give it once", name)
        values[name] = value
    return values


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a valid JSON number")


async def body(request: Request, most_bytes: int) -> bytes:
    """Body of a request.

    Raises
    ------
    HTTPException
        413 if the body exceeds the limit; :data:`GONE` if the client disconnects.
    """
    content = bytearray()
    try:
        async for part in request.stream():
            content += part
            if len(content) > most_bytes:
                raise HTTPException(413, f"at most {most_bytes / 1e6:g} MB can be sent")
    except ClientDisconnect as error:
        raise HTTPException(GONE) from error
    return bytes(content)


async def while_connected(request: Request, workers: Workers, work: Callable[..., T], *arguments: object) -> T:
    """Run work in a worker, and stop the work when the client disconnects.

    Queued work is dropped. Started work continues for a grace period, because the same request is often repeated.

    Raises
    ------
    HTTPException
        :data:`GONE` if the client disconnected.
    """
    results: list[T | Exception] = []
    client = request.client.host if request.client is not None else ""
    begun = anyio.Event()

    async def until_gone(scope: anyio.CancelScope) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        if begun.is_set():
            await anyio.sleep(workers.limits.grace_seconds)
        scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(until_gone, group.cancel_scope)
        try:
            results.append(await workers.run(work, *arguments, begun=begun, client=client))
        except Exception as error:  # A task group would wrap the error in an exception group.
            results.append(error)
        group.cancel_scope.cancel()
    if not results:
        raise HTTPException(GONE)
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]


#: Prefix of the names of uploaded texts.
OWN = "own/"
#: Length of a text's digest [hexadecimal digits].
_DIGITS = 16
_NAME = re.compile(rf"{OWN}[0-9a-f]{{{_DIGITS}}}\.(?:json|csv)")


class Recent(Generic[T]):
    """Cache by key, with least-recently-used eviction.

    Parameters
    ----------
    most_bytes : int
        Capacity [B].
    """

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes = most_bytes, 0
        self._entries: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def get(self, key: str) -> T | None:
        """Look up an entry; None if missing."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key: str, value: T, size: int) -> None:
        """Insert an entry of ``size`` [B], unless the size exceeds the capacity."""
        if key in self._entries or size > self._most:
            return
        self._entries[key] = value, size
        self._bytes += size
        while self._bytes > self._most:
            _, (_, gone) = self._entries.popitem(last=False)
            self._bytes -= gone


class Texts:
    """Cache of uploaded texts, which are named by their content and never written to files.

    Parameters
    ----------
    most_bytes : int
        Capacity [B].
    """

    def __init__(self, most_bytes: int) -> None:
        self._texts: Recent[str] = Recent(most_bytes)

    def keep(self, content: bytes) -> str:
        """Store a text and return its name. The extension of the name depends on the kind of file.

        Raises
        ------
        RefusedError
            If the content is not UTF-8.
        """
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise RefusedError(f"not a text in UTF-8 ({error.reason})") from error
        ending = "json" if text.lstrip().startswith(("{", "[")) else "csv"
        name = f"{OWN}{hashlib.sha256(content).hexdigest()[:_DIGITS]}.{ending}"
        self._texts.put(name, text, len(content) + 1)
        return name

    def named(self, fields: Fields) -> Mapping[str, str]:
        """Uploaded texts that options name.

        Raises
        ------
        RefusedError
            If a text was evicted.
        """
        texts = {}
        for field, name in _own_names(fields):
            text = self._texts.get(name)
            if text is None:
                raise RefusedError(f"{name[:60]}: this text is not kept any more; send it again", field)
            texts[name] = text
        return texts


def _own_names(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield options whose values are names of uploaded texts, including settings of series."""
    for field, value in fields.items():
        for item in value if isinstance(value, list) else [value]:
            for name in _NAME.findall(item) if isinstance(item, str) else ():
                yield field, name


def key(*parts: object) -> str:
    """Cache key of a reply, independent of the order of options."""
    return json.dumps(parts, sort_keys=True)
