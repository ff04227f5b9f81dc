"""The command that makes every table and figure of the published study."""

from __future__ import annotations

import inference_econ as ie
from inference_econ import report

from . import options, show
from .help import command
from .places import check_apart


@command("reproduce")
@options.output
def reproduce(folder: str, output: options.Output) -> None:
    """Make every table and figure of "Inference economics of language models", and compare cell by cell.

    One table or figure, under other assumptions: 'table paper/table_4 --set KEY=VALUE', 'run paper/figure_1 --set ..'.
    """
    if output.path is not None:
        for place in report.gallery.places(folder):
            check_apart({"-o": output.path, "--folder": str(place)})
    with show.progress_bar(quiet=output.quiet) as progress:
        reproduction = ie.reproduce(folder, progress=progress)
    show.emit(report.gallery.ReproductionPage(reproduction), output)
