"""Commands on publications: ``claims`` and ``reproduce`` (the published study), and ``prefill`` (prefill methods)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ.errors import InputError
from inference_econ.requests import Request, prices, subject
from inference_econ.requests.places import check_apart

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


def reproduce(request: Request, folder: str) -> Page:
    """Reproduce all tables and figures of the published study, cell by cell.

    The study is "Inference economics of language models". To change an assumption of one table or figure, use 'paper
    table paper/table_4 --set KEY=VALUE' or 'paper run paper/figure_1 --set KEY=VALUE'.
    """
    from inference_econ.extras.papers import gallery

    if request.output is not None:
        for place in gallery.places(folder):
            check_apart({"-o": request.output, "--folder": str(place)})
    return gallery.ReproductionPage(gallery.reproduce(folder, progress=request.progress))
