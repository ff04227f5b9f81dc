"""Claims of publications beside our numbers: as a table, as data, as a page of the documents."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from inference_econ.inputs import Basis, Claim, Published
from inference_econ.records.plain import attributes
from inference_econ.records.sources import UsedSource, source_records
from inference_econ.records.texts import prefixed
from inference_econ.report.page import AnswerPage, Pieces, listed
from inference_econ.report.table import Table
from inference_econ.studies.ledger import BASES, Finding, Ledger

#: From here on numbers are whole [1].
_WHOLE = 1e4
#: Units that are written with a prefix.
_PREFIXED = ("B", "FLOP", "s")
_COLUMNS = ("claim", "published", *BASES, "verdict")
_LEGEND = f"{'; '.join(f'{basis}: ours under {name}' for basis, name in BASES.items())}."
_WRITTEN = """\
# Claims beside our numbers

Written by `inference-econ claims --format markdown -o docs/evidence/claims.md`, which computes every number of ours
again. Published: what a publication says, with how far ours may be beyond it. Paper: ours under published constants,
which are the preset of Erdil (2025), and of KV-Runahead the rates that its own times fix. Today: ours under the
profiles that predictions rest on.
"""


class ClaimsPage(AnswerPage[Ledger]):
    """Claims beside our numbers, ready to be shown."""

    proportional = False

    def tables(self) -> tuple[Table, ...]:
        """One table per publication, one line per claim."""
        groups = list(_by_seed(self.answer))
        last = (*_counted(self.answer.findings), _LEGEND)
        return tuple(
            _table(seed, findings, *((last, self._references()) if index == len(groups) - 1 else ((), ())))
            for index, (seed, findings) in enumerate(groups)
        )

    def markdown(self) -> str:
        """A page of the documents: a section per publication, and why claims do not hold below its table."""
        parts = [_WRITTEN, *(f"{line}\n" for line in _counted(self.answer.findings))]
        for seed, findings in _by_seed(self.answer):
            parts += [f"## {seed}\n", _page_table(findings).markdown() + listed(_reasons(findings))]
        return "\n".join(parts)

    def _references(self) -> tuple[str, ...]:
        """Sources of the claims and their settings, each once."""
        records = {record["ref"]: record for record in source_records(self.answer.sources)}
        named = {
            ref: [record[part] for part in ("title", "url") if record.get(part)] for ref, record in records.items()
        }
        return tuple(f"Source {ref}: {', '.join(parts)}." for ref, parts in named.items() if parts)

    def draw(self, path: str) -> None:
        """Draw ours over the published numbers."""
        from inference_econ.report import claims_figure, figures

        figures.save(claims_figure.draw(self.answer), [path])

    def question(self) -> str:
        """Question about which claims hold."""
        return "Which claims hold?"

    def conclusion(self) -> Pieces:
        """Sentence on how many claims hold."""
        return self.tables()[-1].notes[:1]

    def sources(self) -> Sequence[UsedSource]:
        """Sources of claims and their settings."""
        return self.answer.sources


def _by_seed(ledger: Ledger) -> list[tuple[str, list[Finding]]]:
    return [(seed, list(group)) for seed, group in groupby(ledger.findings, lambda finding: finding.seed)]


def _table(seed: str, findings: Sequence[Finding], notes: tuple[str, ...], references: tuple[str, ...]) -> Table:
    rows = tuple((finding.claim.id, *_numbers(finding), finding.verdict) for finding in findings)
    return Table(seed, _COLUMNS, rows, notes, (*map(_sentence, findings), *references))


def _page_table(findings: Sequence[Finding]) -> Table:
    rows = []
    for finding in findings:
        published, *ours = _numbers(finding)
        claim = attributes(finding.claim, "id claim where").values()
        rows.append((*claim, f"{published}{_within(finding.claim)}", *ours, finding.verdict))
    return Table("", ("id", "claim", "where", *_COLUMNS[1:]), tuple(rows))


def _numbers(finding: Finding) -> tuple[str, ...]:
    """Cells of the published number, and of ours under each basis."""
    claim = finding.claim
    return (published_text(claim.published, claim.unit), *(_ours(finding, basis) for basis in BASES))


def _ours(finding: Finding, basis: Basis) -> str:
    if basis in finding.ours:
        return quantity(finding.ours[basis], finding.claim.unit)
    return "nothing fits" if basis in finding.missing else "-"


def _within(claim: Claim) -> str:
    """Words for the tolerance of a claim."""
    return f" (+-{100 * claim.tolerance:g} %)" if claim.tolerance else ""


def _sentence(finding: Finding) -> str:
    """Sentence on a claim, its place in the publication, and why it does not hold."""
    claim = finding.claim
    text = f"{claim.id} ({claim.where}): {claim.claim}"
    text += f" Tolerance {100 * claim.tolerance:g} %." if claim.tolerance else ""
    missing = "".join(f" Under {basis}: {why}." for basis, why in finding.missing.items())
    return f"{text}{f' {claim.why}' if claim.why else ''}{missing}"


def _reasons(findings: Sequence[Finding]) -> list[str]:
    return [f"`{finding.claim.id}`: {finding.claim.why}" for finding in findings if finding.claim.why]


def _counted(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Sentence on how many claims hold."""
    verdicts = [finding.verdict for finding in findings]
    parts = [f"{_as_counted(verdict, verdicts.count(verdict))}" for verdict in dict.fromkeys(sorted(verdicts, key=len))]
    return (f"{len(verdicts)} claims: {', '.join(parts)}.",) if len(verdicts) > 1 else ()


def _as_counted(verdict: str, count: int) -> str:
    """So many claims with a verdict: ``1 holds``, ``2 do not hold``."""
    return f"{count} {verdict if count == 1 else verdict.replace('holds', 'hold').replace('does', 'do')}"


def published_text(published: Published, unit: str) -> str:
    """Published number, or its bounds, as text.

    Examples
    --------
    >>> published_text(Published(at_least="2", at_most="3"), ""), published_text(Published(value="81920"), "B")
    ('2 to 3', '81.92 kB')
    """
    if published.value is not None:
        return quantity(float(published.value), unit)
    low, high = published.bounds
    if published.at_least is not None and published.at_most is not None:
        return f"{quantity(low, unit)} to {quantity(high, unit)}"
    return f">= {quantity(low, unit)}" if published.at_least is not None else f"<= {quantity(high, unit)}"


def quantity(value: float, unit: str) -> str:
    """A number with four digits at most, and its unit.

    Examples
    --------
    >>> quantity(343597383680.0, "B"), quantity(2.521e-05, "s"), quantity(152.04, "tokens/s"), quantity(10000.0, "")
    ('343.6 GB', '25.21 us', '152 tokens/s', '10,000')
    """
    if unit in _PREFIXED and value > 0:
        return f"{prefixed(value, 'GMk mu', '.4g')}{unit}"
    return f"{f'{value:,.0f}' if value >= _WHOLE else f'{value:.4g}'} {unit}".rstrip()
