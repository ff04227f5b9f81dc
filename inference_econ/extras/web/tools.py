"""Commands as tools of the Model Context Protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import metadata
from typing import TYPE_CHECKING, Any

import anyio
from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server

from inference_econ.extras.web.models import brief_schema, checked, request_model
from inference_econ.extras.web.questions import RefusedError, questions
from inference_econ.extras.web.replies import reply
from inference_econ.extras.web.workers import BusyError, WorkerLimits, Workers

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext

_INSTRUCTIONS = (
    "What it costs, and how fast it goes, to serve language models: predictions of a roofline and latency model that "
    "is fitted to measured servers. Names of models, GPUs, engines and presets are listed by the tools list-models, "
    "list-gpus, list-engines and list-assumptions. Times without a unit are milliseconds, prices are US dollars. "
    "Answers are tables; quote the notes below them, and warnings in any case."
)


def tools(limits: WorkerLimits | None = None) -> Server[Any]:
    """Create the MCP server.

    Parameters
    ----------
    limits : WorkerLimits, optional
        Limits on the work.
    """
    asked = questions()
    models = {name: request_model(question) for name, question in asked.items()}
    listed = [
        types.Tool(name=question.slug, description=question.text, input_schema=brief_schema(models[question.slug]))
        for question in asked.values()
    ]

    @asynccontextmanager
    async def lifespan(_: Server[Any]) -> AsyncIterator[Workers]:
        workers = Workers(WorkerLimits() if limits is None else limits)
        yield workers
        workers.close()

    async def list_tools(_: ServerRequestContext[Any], __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call(context: ServerRequestContext[Any], request: types.CallToolRequestParams) -> types.CallToolResult:
        if request.name not in models:
            return _result(f"no tool {request.name[:40]!r}; there are {', '.join(models)}", refused=True)
        try:
            fields = checked(asked[request.name], models[request.name], request.arguments or {})
            made = await context.lifespan_context.run(reply, request.name, fields, "md", _NO_TEXTS)
        except RefusedError as error:
            return _result(str(error), refused=True)
        except BusyError:
            return _result("too many questions wait; ask again in some seconds", refused=True)
        return _result(made.refused or made.body.decode(), refused=bool(made.refused))

    version = metadata.version("inference-econ")
    return Server(
        "inference-econ",
        version=version,
        instructions=_INSTRUCTIONS,
        lifespan=lifespan,
        on_list_tools=list_tools,
        on_call_tool=call,
    )


_NO_TEXTS: Mapping[str, str] = {}


def _result(text: str, *, refused: bool) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=refused)


def talk(server: Server[Any]) -> None:
    """Serve over standard streams until they are closed."""

    async def run() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(run)
