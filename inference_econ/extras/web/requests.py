"""Parsing of requests (command, form and options), and cancellation of work for disconnected clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

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
    """Command and form in an address such as ``frontier`` or ``frontier.csv``.

    Raises
    ------
    HTTPException
        404 if the command or form is unknown.
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
        If an option that takes one value is repeated.
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
        400 if it is not JSON, 413 if it is too large, 415 without a JSON content type.
    RefusedError
        If it is not an object.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "send JSON, with the header Content-Type: application/json")
    try:
        value = json.loads(await body(request, most_bytes), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"not valid JSON: {str(error)[:200]}") from error
    if not isinstance(value, dict):
        raise RefusedError(f"a JSON object with the options is needed, got {type(value).__name__}")
    return value


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a valid JSON number")


async def body(request: Request, most_bytes: int) -> bytes:
    """Body of a request.

    Raises
    ------
    HTTPException
        413 if it exceeds the limit; :data:`GONE` if the client disconnects.
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
    """Run work that is stopped when the client disconnects.

    Waiting work is dropped. Started work has a grace period, since the same request is often repeated.

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
        except Exception as error:  # a task group would wrap the error
            results.append(error)
        group.cancel_scope.cancel()
    if not results:
        raise HTTPException(GONE)
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]
