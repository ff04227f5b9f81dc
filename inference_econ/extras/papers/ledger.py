"""Claims with what was published, ours under each basis, and whether they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inference_econ.extras.papers.claim_kinds import Basis, Claim, Published
from inference_econ.records.plain import attributes
from inference_econ.records.sources import UsedSource, source_records
from inference_econ.studies.results import Study

#: What a claim can be held against, as people call it.
BASES: Mapping[Basis, str] = {
    "paper": "published constants (the preset of Erdil 2025; of KV-Runahead its own)",
    "today": "the profiles that predictions rest on",
}
#: Rounding of a computer is no reason for a claim to fail [1].
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim beside our numbers.

    Attributes
    ----------
    seed : str
        The publication.
    claim : Claim
        What it says, and what was published.
    ours : mapping of str to float
        By basis, of those that it was asked of and that gave a number.
    missing : mapping of str to str
        By basis, why there is none.
    """

    seed: str
    claim: Claim
    ours: Mapping[Basis, float]
    missing: Mapping[Basis, str]

    def holds(self, basis: Basis) -> bool | None:
        """Return whether it holds under a basis; None if it was not asked of it."""
        if basis not in self.claim.bases:
            return None
        return basis in self.ours and met(self.ours[basis], self.claim.published, self.claim.tolerance)

    @property
    def verdict(self) -> str:
        """Words for whether it holds, or under which basis."""
        answers = {basis: self.holds(basis) for basis in self.claim.bases}
        kept = [basis for basis, holds in answers.items() if holds]
        if len(kept) == len(answers):
            return "holds"
        return f"holds only under {' and '.join(kept)}" if kept else "does not hold"

    def record(self) -> dict[str, object]:
        """Return the claim, what was published, and ours under each basis as plain data."""
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
    """Claims beside our numbers.

    Attributes
    ----------
    findings : tuple of Finding
        In the order of the publications.
    sources : tuple of UsedSource
        What the published numbers and the settings rest on.
    """

    page = "extras.papers.claims_page:ClaimsPage"

    findings: tuple[Finding, ...]
    sources: tuple[UsedSource, ...] = ()

    def __getitem__(self, name: str) -> Finding:
        """The claim with an id."""
        return next(finding for finding in self.findings if finding.claim.id == name)

    def record(self) -> dict[str, object]:
        """Return one record per claim, and the sources."""
        return {"claims": self.records(), "sources": source_records(self.sources)}

    def records(self) -> list[dict[str, object]]:
        """Return one record per claim."""
        return [finding.record() for finding in self.findings]


def met(ours: float, published: Published, tolerance: float) -> bool:
    """Return whether a number is what was published, or within its bounds, give or take a tolerance.

    Examples
    --------
    >>> met(3.69, Published(value="4.0"), 0.05), met(3.69, Published(at_least="3", at_most="5"), 0.0)
    (False, True)
    """
    low, high = published.bounds
    share = tolerance + _ROUNDING
    return low * (1.0 - share) <= ours <= high * (1.0 + share)
