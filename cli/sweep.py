"""The commands of sweeps: answer every combination into a folder, and ask that with SQL."""

from __future__ import annotations

import shlex

import inference_econ as ie
from inference_econ import report

from . import extras, options, show
from .help import command
from .places import exists


@command("sweep")
def sweep(study: str, folder: str, jobs: int | None, scheduler: str | None, output: options.Output) -> None:
    """Answer every combination of models, chips, formats, traffics and prices into a folder of Parquet files.

    STUDY is a scenario of the kind 'sweep': a name (see 'inference-econ scenarios') or a path. A sweep can be stopped
    at any moment; the same command goes on where it was. 'inference-econ query' asks the folder.
    """
    if jobs is not None and scheduler is not None:
        raise ie.InputError("give either --jobs or --scheduler, not both")
    with extras.needed("studies", "duckdb", "pyarrow"):
        with show.progress_bar(quiet=output.quiet) as progress:
            answered = report.sweep_folder.sweep(study, folder, jobs=jobs, scheduler=scheduler, progress=progress)
        show.emit(report.sweep.SweepPage(answered.summary()), output)
    show.remark(f"wrote {folder}", quiet=output.quiet)


@command("query")
def query(sql: str, folder: str, output: options.Output) -> None:
    """Ask a sweep with SQL: SELECT over the tables points, failures and combinations.

    SQL is that of DuckDB; "DESCRIBE points" lists the columns. It can read nothing but the sweep, and writes nothing.
    It may take a minute, or with --yes as long as it takes, and 500 MB of memory.
    """
    if exists(sql) and not exists(folder):
        typed = shlex.join(["inference-econ", "query", folder, sql])
        raise ie.InputError(f"the SQL comes first, then the folder: {typed}", option="sql")
    with show.progress_bar(quiet=output.quiet):
        swept = ie.load_sweep(folder)
        rows = swept.query(sql)
    if swept.missing:
        left = f"{swept.missing:,} of {swept.combinations.product:,} combinations have not been asked yet"
        show.remark(f"{folder}: {left}", quiet=output.quiet)
    show.emit(report.sweep.QueryPage(rows), output)
