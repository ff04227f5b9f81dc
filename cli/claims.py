"""The command that holds claims of publications against our numbers."""

from __future__ import annotations

import inference_econ as ie

from . import options, show
from .help import command


@command("claims")
@options.output
def claims(name: str | None, output: options.Output) -> None:
    """Hold claims of publications against our numbers: what was published, ours, and whether it holds.

    NAME is a claim, or a scenario of the kind 'claims' with those of one publication (seeds/claims_study, or a path);
    all claims without it. Ours are computed under the preset of the published study and under today's profiles.
    """
    from inference_econ.report.claims import ClaimsPage

    with show.progress_bar(quiet=output.quiet) as progress:
        ledger = ie.claims(name, progress=progress)
    show.emit(ClaimsPage(ledger), output)
