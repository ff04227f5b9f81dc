"""The command that lets an assistant ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import extras, serve
from .help import command

if TYPE_CHECKING:
    from inference_econ.explorer import Limits


def server(limits: Limits | None = None) -> Any:
    """The commands that are questions, as tools."""
    from inference_econ import explorer

    from . import questions

    return explorer.tools(questions.questions(), questions.answer, limits=limits, ready=serve.READY)


_HELP = """Let an assistant ask: questions as tools of the Model Context Protocol, over standard input and output.

Its tools are the questions of this command line with the same options, and answer with tables. An assistant starts it
by settings such as these:

\b
  {"mcpServers": {"inference-econ": {"command": "inference-econ", "args": ["mcp"]}}}
"""


@command("mcp", help=_HELP)
def mcp() -> None:
    """See the help."""
    with extras.needed("mcp"):
        from inference_econ.explorer import talk

        talk(server())
