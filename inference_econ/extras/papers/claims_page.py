"""Claims of publications as a table, data, and a documentation page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from inference_econ.extras.papers.claim_kinds import Published
from inference_econ.extras.papers.claims import BASES, Finding, Ledger
from inference_econ.records.plain import attributes
from inference_econ.records.sources import UsedSource, source_records
from inference_econ.records.texts import prefixed
from inference_econ.report.page import AnswerPage, Pieces, Table, listed

#: Smallest value that is shown without decimals [1].
_WHOLE = 1e4
#: Units with prefixes.
_PREFIXED = ("B", "FLOP", "s")
_COLUMNS = ("claim", "published", *BASES, "verdict")
_LEGEND = f"Our predictions: {'; '.join(f'{basis!r} with {name}' for basis, name in BASES.items())}."
_WRITTEN = """\
# Published claims and our predictions

`inference-econ paper claims --format markdown -o docs/evidence/claims.md` writes this page and recomputes all
predictions. The column "published" has the value or bound in the publication, with the accepted tolerance. The column
"paper" has our prediction with published constants: the preset of Erdil (2025), or rates fitted to the times in
KV-Runahead. The column "today" has our prediction with the fitted profiles, which are the default of all commands.
"""


class ClaimsPage(AnswerPage[Ledger]):
    """Page of claims."""

    proportional = False

    def tables(self) -> tuple[Table, ...]:
        """Tables with one row per claim, one table per publication."""
        tables = []
        for seed, findings in _by_seed(self.answer):
            rows = tuple((finding.claim.id, *_numbers(finding), finding.verdict) for finding in findings)
            tables.append(Table(seed, _COLUMNS, rows, (), tuple(map(_sentence, findings))))
        # Sources of several claims or settings are listed once.
        references = []
        for ref, record in {record["ref"]: record for record in source_records(self.answer.sources)}.items():
            if parts := [record[part] for part in ("title", "url") if record.get(part)]:
                references.append(f"Source {ref}: {', '.join(parts)}.")
        notes = (*_counted(self.answer.findings), _LEGEND)
        return (*tables[:-1], replace(tables[-1], notes=notes, why=(*tables[-1].why, *references)))

    def markdown(self) -> str:
        """Documentation page: one section per publication, with a table of claims, and reasons below the table."""
        parts = [_WRITTEN, *(f"{line}\n" for line in _counted(self.answer.findings))]
        for seed, findings in _by_seed(self.answer):
            rows = []
            for finding in findings:
                claim, (published, *ours) = finding.claim, _numbers(finding)
                within = f" (+-{100 * claim.tolerance:g} %)" if claim.tolerance else ""
                texts = attributes(claim, "id claim where").values()
                rows.append((*texts, f"{published}{within}", *ours, finding.verdict))
            table = Table("", ("id", "claim", "where", *_COLUMNS[1:]), tuple(rows))
            reasons = [f"`{finding.claim.id}`: {finding.claim.why}" for finding in findings if finding.claim.why]
            parts += [f"## {seed}\n", table.markdown() + listed(reasons)]
        return "\n".join(parts)

    def draw(self, path: str) -> None:
        """Draw predicted over published values."""
        from inference_econ.extras.papers import claims_figure
        from inference_econ.report.questions import figures

        figures.save(claims_figure.draw(self.answer), [path])

    def question(self) -> str:
        """Title of the page."""
        return "Which claims hold?"

    def conclusion(self) -> Pieces:
        """Sentence on the number of claims that hold."""
        return self.tables()[-1].notes[:1]

    def sources(self) -> Sequence[UsedSource]:
        """Sources of claims and their settings."""
        return self.answer.sources


def _by_seed(ledger: Ledger) -> list[tuple[str, list[Finding]]]:
    return [(seed, list(group)) for seed, group in groupby(ledger.findings, lambda finding: finding.seed)]


def _numbers(finding: Finding) -> tuple[str, ...]:
    """Cells of the published value, and of the prediction under each basis."""
    claim, cells = finding.claim, []
    for basis in BASES:
        missing = "nothing fits" if basis in finding.missing else "-"
        cells.append(quantity(finding.ours[basis], claim.unit) if basis in finding.ours else missing)
    return (published_text(claim.published, claim.unit), *cells)


def _sentence(finding: Finding) -> str:
    """Sentence on a claim, its place in the publication, and the reason for its verdict."""
    claim = finding.claim
    text = f"{claim.id} ({claim.where}): {claim.claim}"
    text += f" The tolerance is {100 * claim.tolerance:g} %." if claim.tolerance else ""
    missing = "".join(f" Under {basis}: {why}." for basis, why in finding.missing.items())
    return f"{text}{f' {claim.why}' if claim.why else ''}{missing}"


def _counted(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Sentence with counts: ``1 holds``, ``2 do not hold``."""
    parts = []
    for verdict, count in Counter(sorted((finding.verdict for finding in findings), key=len)).items():
        parts.append(f"{count} {verdict if count == 1 else verdict.replace('holds', 'hold').replace('does', 'do')}")
    return (f"{len(findings)} claims: {', '.join(parts)}.",) if len(findings) > 1 else ()


def published_text(published: Published, unit: str) -> str:
    """Published value or bounds as text.

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
    """Number with up to four digits, and its unit.

    Examples
    --------
    >>> quantity(343597383680.0, "B"), quantity(2.521e-05, "s"), quantity(152.04, "tokens/s"), quantity(10000.0, "")
    ('343.6 GB', '25.21 us', '152 tokens/s', '10,000')
    """
    if unit in _PREFIXED and value > 0:
        return f"{prefixed(value, 'GMk mu', '.4g')}{unit}"
    return f"{f'{value:,.0f}' if value >= _WHOLE else f'{value:.4g}'} {unit}".rstrip()
