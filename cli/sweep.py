"""The command of sweeps: answer every combination into a folder."""

from __future__ import annotations

from inference_econ import report

from . import extras, options, show
from .help import command


@command("sweep")
def sweep(study: str, folder: str, jobs: int | None, output: options.Output) -> None:
    """Answer every combination of models, chips, formats, traffics and prices into a folder of Parquet files.

    STUDY is a scenario of the kind 'sweep': a name (see 'inference-econ scenarios') or a path. A sweep can be stopped
    at any moment; the same command goes on where it was. Any program that reads Parquet can read the folder.
    """
    with extras.needed("studies", "pyarrow"):
        with show.progress_bar(quiet=output.quiet) as progress:
            answered = report.sweep_folder.sweep(study, folder, jobs=jobs, progress=progress)
        show.emit(report.sweep.SweepPage(answered.summary()), output)
    show.remark(f"wrote {folder}", quiet=output.quiet)
