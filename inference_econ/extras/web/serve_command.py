"""The ``serve`` command: a web page and API over HTTP, or MCP over standard streams."""

from __future__ import annotations

import sys

from inference_econ import _missing
from inference_econ.requests import Request, refuse


def serve(request: Request, host: str, port: int) -> None:
    """Serve a web page and a JSON API, or tools for an AI assistant (MCP).

    The command runs until Ctrl-C. The API is described at /openapi.json. By default, only this machine can connect.
    With another --host, other machines can connect without a password.

    With --mcp, an AI assistant gets the same queries as tools of the Model Context Protocol, over standard input and
    output. Configure the assistant as follows:

    \b
      {"mcpServers": {"inference-econ": {"command": "inference-econ", "args": ["serve", "--mcp"]}}}
    """  # noqa: D301
    with _missing.needed("explorer"):
        from inference_econ.extras.web import application, is_loopback, listening, prepare, run

        prepare()
        with listening(host, port) as listener:
            if not is_loopback(host):
                warning = f"Warning: --host {host} lets everybody who reaches this machine ask, without a password"
                # The warning is also shown with --quiet, which only hides the address.
                sys.stderr.write(f"{warning}; give 127.0.0.1 for yourself alone\n")
            app = application((host,))
            if not request.quiet:
                name = f"[{host}]" if ":" in host else host
                request.host.put(f"http://{name}:{port}/  (Ctrl-C ends it)")
            run(app, listener)


def mcp(request: Request) -> None:
    """Serve an assistant over standard input and output."""
    refuse(filter(request.is_given, ("host", "port", "quiet")), "{} is of the page; leave it out with --mcp")
    with _missing.needed("mcp"):
        from inference_econ.extras.web import talk, tools

        talk(tools())
