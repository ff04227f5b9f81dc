"""The ``sweep`` command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inference_econ import _missing
from inference_econ.requests import Request

if TYPE_CHECKING:
    from inference_econ.report.page import Page


def sweep(request: Request, study: str, folder: str, jobs: int | None) -> Page:
    """Evaluate all combinations of models, GPUs and settings of a study.

    STUDY is a YAML file of the kind 'sweep': a name (see 'list scenarios') or a path. The file lists models, GPUs,
    formats, workloads and prices. The results are Parquet files in a folder. You can stop a sweep at any time; the same
    command resumes it.
    """
    from inference_econ.extras.sweeps import page

    with _missing.needed("studies", "pyarrow"):
        answered = page.sweep(study, folder, jobs=jobs, progress=request.progress)
        request.tell(f"wrote {folder}")
        return page.SweepPage(answered.summary())
