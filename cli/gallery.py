"""The command that makes every table and figure of the published study."""

from __future__ import annotations

from . import options, show
from .help import command
from .places import check_apart


@command("reproduce")
@options.output
def reproduce(folder: str, output: options.Output) -> None:
    """Make every table and figure of "Inference economics of language models", and compare cell by cell.

    One table or figure, under other assumptions: 'table paper/table_4 --set KEY=VALUE', 'run paper/figure_1 --set ..'.
    """
    from inference_econ.report.gallery import ReproductionPage, places, reproduce

    if output.path is not None:
        for place in places(folder):
            check_apart({"-o": output.path, "--folder": str(place)})
    with show.progress_bar(quiet=output.quiet) as progress:
        reproduction = reproduce(folder, progress=progress)
    show.emit(ReproductionPage(reproduction), output)
