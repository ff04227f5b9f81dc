"""Commands ``claims`` (published claims compared with predictions) and ``prefill`` (methods to prefill one prompt)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ.errors import InputError
from inference_econ.requests import Request, prices, subject

if TYPE_CHECKING:
    from inference_econ.report.page import Page


def claims(request: Request, name: str | None, unmet: bool) -> Page:
    """Compare published claims with predictions.

    NAME is a claim, or a scenario of the kind 'claims' with all claims of one publication (seeds/claims_study, or a
    path). Without NAME the command checks all claims. Predictions use the constants of the published study and today's
    profiles.
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


def prefill(
    request: Request,
    prompt: tuple[int, ...],
    ranks: tuple[int, ...],
    chain: tuple[tuple[tuple[str, int], ...], ...],
    tp: int | None,
    batch: int,
) -> ie.PrefillWays:
    """Compare ways to split the prefill of one prompt over several GPUs.

    The command compares tensor, sequence and context parallelism, and a prefill chain (KV-Runahead). The table has the
    time to first token, and the cost of the GPUs until the first token. Context parallelism and prefill chains split
    the prompt, and each process holds the whole model. In a prefill chain, each process transfers the KV cache to the
    next process. MODEL and HARDWARE are names or paths of YAML files.
    """
    if chain and not request.is_given("ranks"):
        ranks = ()
    names = dict.fromkeys((request.hardware, *(name for stages in chain for name, _ in stages)))
    request = replace(request, price=prices.prices_of_chips(request.price, tuple(names)))
    setups = {name: subject.setup(request, name) for name in names}
    chains = [[(setups[name], chips) for name, chips in stages] for stages in chain]
    settings: dict[str, Any] = {"tp": tp, "batch": batch, "cached": request.cached or 0, "progress": request.progress}
    return ie.prefill(setups[request.hardware], prompt, ranks, chains=chains, **settings)
