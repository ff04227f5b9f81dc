"""The command that answers questions over HTTP, with a page for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .help import Command, example

if TYPE_CHECKING:
    from inference_econ.explorer import Application, Limits


def application(hosts: tuple[str, ...] = (), limits: Limits | None = None) -> Application:
    """The commands that are questions, over HTTP."""
    from inference_econ import explorer

    from . import questions

    return explorer.application(questions.questions(), questions.answer, hosts=hosts, limits=limits)


@click.command(cls=Command, epilog=example("inference-econ serve", "inference-econ serve --port 8000"))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", type=click.IntRange(1, 65535), default=8765, show_default=True, help="Port to listen at.")
def serve(host: str, port: int) -> None:
    """Serve a page to explore, and a JSON API, to the browser of this machine."""
    from inference_econ import explorer

    click.echo(f"http://{host}:{port}/")
    explorer.run(application((host,)), host, port)
