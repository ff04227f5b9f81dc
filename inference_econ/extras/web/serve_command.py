"""Commands that let others ask: over HTTP, with a page for people, and an assistant over the standard streams."""

from __future__ import annotations

import sys

from inference_econ import _missing
from inference_econ.requests import Request


def serve(request: Request, host: str, port: int) -> None:
    """Serve a page to explore with the browser of this machine, and a JSON API (/openapi.json), until Ctrl-C.

    Nobody else reaches it, unless --host gives another address than 127.0.0.1: it asks for no password.
    """
    with _missing.needed("explorer"):
        from inference_econ.extras.web import application, is_loopback, listening, prepare, run

        prepare()
        with listening(host, port) as listener:
            if not is_loopback(host):
                warning = f"Warning: --host {host} lets everybody who reaches this machine ask, without a password"
                # Also with --quiet, which is about the address.
                sys.stderr.write(f"{warning}; give 127.0.0.1 for yourself alone\n")
            app = application((host,))
            if not request.quiet:
                name = f"[{host}]" if ":" in host else host
                request.host.put(f"http://{name}:{port}/  (Ctrl-C ends it)")
            run(app, listener)


_HELP = """Let an assistant ask: questions as tools of the Model Context Protocol, over standard input and output.

Its tools are the questions of this command line with the same options, and answer with tables. An assistant starts it
by settings such as these:

\b
  {"mcpServers": {"inference-econ": {"command": "inference-econ", "args": ["mcp"]}}}
"""


def mcp() -> None:
    """See the help."""
    with _missing.needed("mcp"):
        from inference_econ.extras.web import talk, tools

        talk(tools())


mcp.__doc__ = _HELP
