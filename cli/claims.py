"""The command that holds claims of publications against our numbers."""

from __future__ import annotations

import inference_econ as ie

from . import options
from .help import command


@command("claims")
def claims(name: str | None, progress: options.Progress | None) -> options.Page:
    """Hold claims of publications against our numbers: what was published, ours, and whether it holds.

    NAME is a claim, or a scenario of the kind 'claims' with those of one publication (seeds/claims_study, or a path);
    all claims without it. Ours are computed under the preset of the published study and under today's profiles.
    """
    from inference_econ.report.claims import ClaimsPage

    return ClaimsPage(ie.claims(name, progress=progress))
