"""Commands that let others ask: over HTTP, with a page for people, and an assistant over the standard streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from . import extras
from .help import command

if TYPE_CHECKING:
    from inference_econ.explorer import Application, Limits


#: What loads all that answers need.
READY = (f"{__package__}.ready",)


def application(hosts: tuple[str, ...] = (), limits: Limits | None = None) -> Application:
    """The commands that are questions, over HTTP."""
    from inference_econ import explorer

    from . import questions

    return explorer.application(questions.questions(), questions.answer, hosts=hosts, limits=limits, ready=READY)


def tools(limits: Limits | None = None) -> Any:
    """The commands that are questions, as tools of an assistant."""
    from inference_econ import explorer

    from . import questions

    return explorer.tools(questions.questions(), questions.answer, limits=limits, ready=READY)


@command("serve")
def serve(host: str, port: int, quiet: bool) -> None:
    """Serve a page to explore with the browser of this machine, and a JSON API (/openapi.json), until Ctrl-C.

    Nobody else reaches it, unless --host gives another address than 127.0.0.1: it asks for no password.
    """
    with extras.needed("explorer"):
        from inference_econ.explorer import is_loopback, listening, prepare, run

        prepare(READY)
        with listening(host, port) as listener:
            if not is_loopback(host):
                click.echo(
                    f"Warning: --host {host} lets everybody who reaches this machine ask, without a password; give "
                    "127.0.0.1 for yourself alone",
                    err=True,
                )
            app = application((host,))
            if not quiet:
                name = f"[{host}]" if ":" in host else host
                click.echo(f"http://{name}:{port}/  (Ctrl-C ends it)")
            run(app, listener)


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

        talk(tools())
