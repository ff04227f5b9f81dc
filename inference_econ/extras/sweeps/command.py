"""The ``sweep`` command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inference_econ import _missing
from inference_econ.requests import Request

if TYPE_CHECKING:
    from inference_econ.report.page import Page


def sweep(request: Request, study: str, folder: str, jobs: int | None) -> Page:
    """Answer every combination of models, chips, formats, traffics and prices into a folder of Parquet files.

    STUDY is a scenario of the kind 'sweep': a name (see 'list scenarios') or a path. A sweep can be stopped
    at any moment; the same command goes on where it was. Any program that reads Parquet can read the folder.
    """
    from inference_econ.extras.sweeps import page

    with _missing.needed("studies", "pyarrow"):
        answered = page.sweep(study, folder, jobs=jobs, progress=request.progress)
        request.tell(f"wrote {folder}")
        return page.SweepPage(answered.summary())
