"""Claims with published values, predictions under each basis, and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inference_econ.extras.papers.claim_kinds import Basis, Claim, Published
from inference_econ.records.plain import attributes
from inference_econ.records.sources import UsedSource, source_records
from inference_econ.studies.results import Study

#: Descriptions of the bases.
BASES: Mapping[Basis, str] = {
    "paper": "published constants (preset of Erdil 2025, or constants fitted to KV-Runahead)",
    "today": "the fitted profiles",
}
#: Relative rounding tolerance [1].
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Finding:
    """Claim with predictions.

    Attributes
    ----------
    seed : str
        Publication.
    claim : Claim
        Claim with its published value.
    ours : mapping of str to float
        Predictions by basis (settings of the published study, or of today), where available.
    missing : mapping of str to str
        Reasons for missing predictions, by basis.
    """

    seed: str
    claim: Claim
    ours: Mapping[Basis, float]
    missing: Mapping[Basis, str]

    def holds(self, basis: Basis) -> bool | None:
        """Check whether the claim is true under a basis; None if the basis does not apply."""
        if basis not in self.claim.bases:
            return None
        return basis in self.ours and met(self.ours[basis], self.claim.published, self.claim.tolerance)

    @property
    def verdict(self) -> str:
        """Verdict as text."""
        answers = {basis: self.holds(basis) for basis in self.claim.bases}
        kept = [basis for basis, holds in answers.items() if holds]
        if len(kept) == len(answers):
            return "holds"
        return f"holds only under {' and '.join(kept)}" if kept else "does not hold"

    def record(self) -> dict[str, object]:
        """Claim, published value and predictions as plain data."""
        claim = self.claim
        return {
            "id": claim.id,
            "seed": self.seed,
            **attributes(claim, "claim where unit"),
            "published": {
                name: None if text is None else float(text)
                for name, text in attributes(claim.published, "value at_least at_most").items()
            },
            "tolerance": claim.tolerance,
            **{basis: self.ours.get(basis) for basis in BASES},
            **{f"{basis}_holds": self.holds(basis) for basis in BASES},
            "verdict": self.verdict,
            "why": claim.why,
        }


@dataclass(frozen=True, slots=True, repr=False)
class Ledger(Study):
    """Claims with predictions.

    Attributes
    ----------
    findings : tuple of Finding
        Findings in the order of the publications.
    sources : tuple of UsedSource
        Sources of published values and settings.
    """

    page = "extras.papers.claims_page:ClaimsPage"

    findings: tuple[Finding, ...]
    sources: tuple[UsedSource, ...] = ()

    def __getitem__(self, name: str) -> Finding:
        """Look up a claim by id."""
        return next(finding for finding in self.findings if finding.claim.id == name)

    def record(self) -> dict[str, object]:
        """One record per claim, and the sources."""
        return {"claims": self.records(), "sources": source_records(self.sources)}

    def records(self) -> list[dict[str, object]]:
        """One record per claim."""
        return [finding.record() for finding in self.findings]


def met(ours: float, published: Published, tolerance: float) -> bool:
    """Check whether a number equals the published value, or is within its bounds, up to a tolerance.

    Examples
    --------
    >>> met(3.69, Published(value="4.0"), 0.05), met(3.69, Published(at_least="3", at_most="5"), 0.0)
    (False, True)
    """
    low, high = published.bounds
    share = tolerance + _ROUNDING
    return low * (1.0 - share) <= ours <= high * (1.0 + share)
