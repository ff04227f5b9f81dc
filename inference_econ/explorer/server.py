"""Run an application for the browsers of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inference_econ.explorer.application import Application


def run(app: Application, host: str, port: int) -> None:
    """Answer until somebody stops it.

    Parameters
    ----------
    app : Application
        What answers.
    host : str
        Address to listen at.
    port : int
        Port to listen at.
    """
    import uvicorn

    uvicorn.run(app, host=host, port=port, log_level="warning")
