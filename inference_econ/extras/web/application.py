"""ASGI application: commands and their results over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import anyio
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from inference_econ.extras.web import guards, models, page, requests
from inference_econ.extras.web.models import checked, request_model
from inference_econ.extras.web.page import MOST_SERIES, state
from inference_econ.extras.web.questions import Fields, RefusedError, questions
from inference_econ.extras.web.replies import FILES, Form, Reply, reply
from inference_econ.extras.web.workers import WorkerLimits, Workers
from inference_econ.inputs.units import integer

if TYPE_CHECKING:
    from pydantic import BaseModel
    from starlette.requests import Request

_DAY_SECONDS = 86_400
#: Approximate size of a cached reply in addition to its body [B].
_HEAD_BYTES = 1_000
#: Prefix of query parameters that select a deployment.
_AT = "at."
#: Indices of series that a request may select.
_ROWS = tuple(map(str, range(MOST_SERIES)))
#: Type of the application.
Application: TypeAlias = Starlette


class _Explorer:
    """Routes of one application, with shared state.

    Parameters
    ----------
    limits : WorkerLimits
        Limits on the work.
    """

    def __init__(self, limits: WorkerLimits) -> None:
        self.questions, self.limits = questions(), limits
        self.replies: requests.Recent[Reply] = requests.Recent(limits.kept_bytes)
        self.texts = requests.Texts(limits.kept_bytes)
        self.coming: dict[str, anyio.Event] = {}
        self.bundling = (
            asyncio.Lock()
        )  # Bundling takes seconds, so one thread bundles the script, and all other threads wait.

    @cached_property
    def models(self) -> Mapping[str, type[BaseModel]]:
        """Request model of each command."""
        return {name: request_model(question) for name, question in self.questions.items()}

    @cached_property
    def choices(self) -> Mapping[str, Any]:
        """Selectable values of the controls on the page."""
        return page.choices(self.questions.values())

    @cached_property
    def document(self) -> bytes:
        """OpenAPI document as JSON. Creating the document blocks the server for a third of a second."""
        return bytes(JSONResponse(models.document(self.questions, self.models)).body)

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """Run worker processes while the server runs."""
        self.workers = Workers(self.limits)
        yield
        self.workers.close()

    async def question(self, request: Request) -> Response:
        """Run the command in an address, and return its result."""
        name, form = requests.question_and_form(request, self.models)
        if request.method == "POST":
            sent = await requests.json_object(request, self.limits.upload_bytes)
        else:
            sent = requests.texts(request, self.questions[name])
        fields = checked(self.questions[name], self.models[name], sent, texts=request.method != "POST")
        answer = await self.answer(request, name, fields, form)
        named = {"Content-Disposition": f'attachment; filename="{name}.{form}"'} if form in FILES else {}
        return _response(answer, named)

    async def view(self, request: Request) -> Response:
        """Compute the content of a panel of the page, from the state of the controls."""
        name, shown = request.path_params["question"], request.query_params
        if name not in page.QUESTIONS:
            raise HTTPException(404, f"there is no panel {name[:40]!r}")
        point = {key.removeprefix(_AT): value for key, value in shown.items() if key.startswith(_AT)}
        rows = [integer(row) for row in shown.getlist("row") if row in _ROWS]
        sent = page.fields(self.questions[name], state(shown.multi_items()), rows, point)
        fields = checked(self.questions[name], self.models[name], sent, texts=True)
        return _response(await self.answer(request, name, fields, "view"), {})

    async def answer(self, request: Request, name: str, fields: Fields, form: Form | Literal["view"]) -> Reply:
        """Compute a reply in a worker while the client is connected."""
        key = requests.key(name, fields, form)
        while True:
            kept = self.replies.get(key)
            if kept is not None:
                return kept
            coming = self.coming.get(key)
            if coming is None:
                break
            await coming.wait()  # Another client may have sent the same request in the meantime.
        arguments = name, fields, form, self.texts.named(fields)
        coming = self.coming[key] = anyio.Event()
        made: Reply
        try:
            made = await requests.while_connected(request, self.workers, reply, *arguments)
            self.replies.put(key, made, len(made.body) + _HEAD_BYTES)
        except RefusedError as error:  # A repeated request would time out again, so the error is cached.
            made = Reply(b"", "", str(error), error.option)
            self.replies.put(key, made, _HEAD_BYTES)
        finally:
            del self.coming[key]
            coming.set()
        return made

    async def keep(self, request: Request) -> Response:
        """Store an uploaded text under a name that can be the value of an option."""
        content = await requests.body(request, self.limits.upload_bytes)
        return JSONResponse({"name": self.texts.keep(content)})

    async def script(self, _: Request) -> Response:
        """Script that draws charts, cached by the browser for a day."""
        async with self.bundling:
            content = await run_in_threadpool(_script)
        headers = {"Cache-Control": f"max-age={_DAY_SECONDS}"}
        return Response(content, media_type="text/javascript; charset=utf-8", headers=headers)

    def page(self, request: Request) -> Response:
        """Explorer page, with controls set to the values in the address."""
        return HTMLResponse(page.html(self.choices, request.query_params.multi_items()))

    async def openapi(self, _: Request) -> Response:
        """OpenAPI document."""
        return Response(self.document, media_type="application/json")


def application(hosts: Sequence[str] = (), limits: WorkerLimits | None = None) -> Application:
    """Create the ASGI application.

    Parameters
    ----------
    hosts : sequence of str
        Host names of the server in addition to loopback names.
    limits : WorkerLimits, optional
        Limits on the work.
    """
    explorer = _Explorer(WorkerLimits() if limits is None else limits)
    routes = [
        Route("/", explorer.page),
        Route("/view/{question}", explorer.view),
        Route("/static/vega.js", explorer.script),
        Mount("/static", StaticFiles(packages=[("inference_econ.extras.web", "static")])),
        Route("/openapi.json", explorer.openapi),
        Route("/api/v1/texts", explorer.keep, methods=["POST"]),
        Route("/api/v1/{question}", explorer.question, methods=["GET", "POST"]),
    ]
    return Starlette(
        routes=routes,
        middleware=guards.middleware(hosts),
        exception_handlers=dict(guards.HANDLERS),
        lifespan=explorer.lifespan,
    )


@cache  # All clients share one copy.
def _script() -> bytes:
    from inference_econ.report import charts

    return charts.javascript().encode()


def _response(answer: Reply, headers: Mapping[str, str]) -> Response:
    if answer.refused:
        raise RefusedError(answer.refused, answer.field)
    return Response(answer.body, media_type=answer.media, headers=dict(headers))
