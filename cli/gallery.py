"""The command that makes every table and figure of the published study."""

from __future__ import annotations

import inference_econ as ie
from inference_econ import report

from . import options
from .help import command
from .places import check_apart


@command("reproduce")
def reproduce(folder: str, output: options.Output, progress: options.Progress | None) -> options.Page:
    """Make every table and figure of "Inference economics of language models", and compare cell by cell.

    One table or figure, under other assumptions: 'table paper/table_4 --set KEY=VALUE', 'run paper/figure_1 --set ..'.
    """
    if output.path is not None:
        for place in report.gallery.places(folder):
            check_apart({"-o": output.path, "--folder": str(place)})
    return report.gallery.ReproductionPage(ie.reproduce(folder, progress=progress))
