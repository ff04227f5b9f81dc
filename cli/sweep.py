"""The commands of sweeps: answer every combination into a folder, and ask that with SQL."""

from __future__ import annotations

from . import extras, options, show
from .help import command


@command("sweep")
@options.printed
def sweep(study: str, folder: str, jobs: int | None, scheduler: str | None, output: options.Output) -> None:
    """Answer every combination of models, chips, formats, traffics and prices into a folder of Parquet files.

    STUDY is a scenario of the kind 'sweep': a name (see 'inference-econ scenarios') or a path. A sweep can be stopped
    at any moment; the same command goes on where it was. 'inference-econ query' asks the folder.
    """
    from inference_econ.errors import InputError

    if jobs is not None and scheduler is not None:
        raise InputError("give either --jobs or --scheduler, not both")
    with extras.needed("studies", "duckdb", "pyarrow"):
        from inference_econ.report import sweep_folder
        from inference_econ.report.sweep import SweepPage

        with show.progress_bar(quiet=output.quiet) as progress:
            answered = sweep_folder.sweep(study, folder, jobs=jobs, scheduler=scheduler, progress=progress)
        show.emit(SweepPage(answered.summary()), output)
    show.remark(f"wrote {folder}", quiet=output.quiet)


@command("query")
@options.output
def query(sql: str, folder: str, output: options.Output) -> None:
    """Ask a sweep with SQL: SELECT over the tables points, failures and combinations.

    SQL is that of DuckDB; "DESCRIBE points" lists the columns. It can read nothing but the sweep, and writes nothing.
    It may take a minute, or with --yes as long as it takes, and 500 MB of memory.
    """
    from inference_econ.report.sweep import QueryPage
    from inference_econ.report.sweep_folder import load_sweep

    with show.progress_bar(quiet=output.quiet):
        swept = load_sweep(folder)
        rows = swept.query(sql)
    if swept.missing:
        left = f"{swept.missing:,} of {swept.combinations.product:,} combinations have not been asked yet"
        show.remark(f"{folder}: {left}", quiet=output.quiet)
    show.emit(QueryPage(rows), output)
