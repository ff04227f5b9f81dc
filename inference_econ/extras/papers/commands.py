"""The command that compares claims of publications with our numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from inference_econ.errors import InputError
from inference_econ.requests import Request

if TYPE_CHECKING:
    from inference_econ.report.page import Page


def claims(request: Request, name: str | None, unmet: bool) -> Page:
    """Hold claims of publications against our numbers: what was published, ours, and whether it holds.

    NAME is a claim, or a scenario of the kind 'claims' with those of one publication (seeds/claims_study, or a path);
    all claims without it. Ours are computed under the preset of the published study and under today's profiles.
    """
    from inference_econ.extras.papers.claims import claims as claims_of
    from inference_econ.extras.papers.claims_page import ClaimsPage

    ledger = claims_of(name, progress=request.progress)
    if not unmet:
        return ClaimsPage(ledger)
    findings = tuple(finding for finding in ledger.findings if not all(map(finding.holds, finding.claim.bases)))
    if not findings:
        raise InputError(f"--unmet: every claim holds ({len(ledger.findings)} of them); ask without it", option="unmet")
    return ClaimsPage(replace(ledger, findings=findings))
