"""The commands of sweeps: answer every combination into a folder, and ask that with SQL."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ import report
from inference_econ.requests import Request
from inference_econ.requests.places import exists

from . import extras

if TYPE_CHECKING:
    from inference_econ.report.page import Page


def sweep(request: Request, study: str, folder: str, jobs: int | None, scheduler: str | None) -> Page:
    """Answer every combination of models, chips, formats, traffics and prices into a folder of Parquet files.

    STUDY is a scenario of the kind 'sweep': a name (see 'inference-econ scenarios') or a path. A sweep can be stopped
    at any moment; the same command goes on where it was. 'inference-econ query' asks the folder.
    """
    if jobs is not None and scheduler is not None:
        raise ie.InputError("give either --jobs or --scheduler, not both")
    with extras.needed("studies", "duckdb", "pyarrow"):
        settings: dict[str, Any] = {"jobs": jobs, "scheduler": scheduler, "progress": request.progress}
        answered = report.sweep_folder.sweep(study, folder, **settings)
        request.tell(f"wrote {folder}")
        return report.sweep.SweepPage(answered.summary())


def query(request: Request, sql: str, folder: str) -> Page:
    """Ask a sweep with SQL: SELECT over the tables points, failures and combinations.

    SQL is that of DuckDB; "DESCRIBE points" lists the columns. It can read nothing but the sweep, and writes nothing.
    It may take a minute, or with --yes as long as it takes, and 500 MB of memory.
    """
    if exists(sql) and not exists(folder):
        typed = shlex.join(["inference-econ", "query", folder, sql])
        raise ie.InputError(f"the SQL comes first, then the folder: {typed}", option="sql")
    swept = ie.load_sweep(folder)
    rows = swept.query(sql)
    if swept.missing:
        left = f"{swept.missing:,} of {swept.combinations.product:,} combinations have not been asked yet"
        request.tell(f"{folder}: {left}")
    return report.sweep.QueryPage(rows)
