"""Claims of publications beside our numbers: as a table, as data, as a page of the documents."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator

from inference_econ.extras.papers.asks import Basis, Published
from inference_econ.extras.papers.ledger import BASES, Finding, Ledger
from inference_econ.records.plain import attributes
from inference_econ.records.sources import UsedSource, source_records
from inference_econ.records.texts import prefixed
from inference_econ.report.figures import COLOURS, MARKERS, STYLE, label_ticks
from inference_econ.report.page import AnswerPage, Pieces, Table, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
        tables = []
        for seed, findings in _by_seed(self.answer):
            rows = tuple((finding.claim.id, *_numbers(finding), finding.verdict) for finding in findings)
            tables.append(Table(seed, _COLUMNS, rows, (), tuple(map(_sentence, findings))))
        # Sources of the claims and their settings, each once.
        references = []
        for ref, record in {record["ref"]: record for record in source_records(self.answer.sources)}.items():
            if parts := [record[part] for part in ("title", "url") if record.get(part)]:
                references.append(f"Source {ref}: {', '.join(parts)}.")
        notes = (*_counted(self.answer.findings), _LEGEND)
        return (*tables[:-1], replace(tables[-1], notes=notes, why=(*tables[-1].why, *references)))

    def markdown(self) -> str:
        """A page of the documents: a section per publication, and why claims do not hold below its table."""
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
        """Draw ours over the published numbers."""
        from inference_econ.report import figures

        figures.save(draw(self.answer), [path])

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


def _numbers(finding: Finding) -> tuple[str, ...]:
    """Cells of the published number, and of ours under each basis."""
    claim, cells = finding.claim, []
    for basis in BASES:
        missing = "nothing fits" if basis in finding.missing else "-"
        cells.append(quantity(finding.ours[basis], claim.unit) if basis in finding.ours else missing)
    return (published_text(claim.published, claim.unit), *cells)


def _sentence(finding: Finding) -> str:
    """Sentence on a claim, its place in the publication, and why it does not hold."""
    claim = finding.claim
    text = f"{claim.id} ({claim.where}): {claim.claim}"
    text += f" Tolerance {100 * claim.tolerance:g} %." if claim.tolerance else ""
    missing = "".join(f" Under {basis}: {why}." for basis, why in finding.missing.items())
    return f"{text}{f' {claim.why}' if claim.why else ''}{missing}"


def _counted(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Sentence on how many claims hold: ``1 holds``, ``2 do not hold``."""
    parts = []
    for verdict, count in Counter(sorted((finding.verdict for finding in findings), key=len)).items():
        parts.append(f"{count} {verdict if count == 1 else verdict.replace('holds', 'hold').replace('does', 'do')}")
    return (f"{len(findings)} claims: {', '.join(parts)}.",) if len(findings) > 1 else ()


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


#: The axis ends here on both sides; what lies beyond is drawn at its end, with its number [1].
_END = 20.0
#: Inches that a claim, a publication and all that is around them take.
_ROW, _BETWEEN, _AROUND = 0.21, 0.45, 1.1
_TICKS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
_MARKS: Mapping[Basis, tuple[str, str]] = {"paper": (COLOURS[0], MARKERS[0]), "today": (COLOURS[1], MARKERS[3])}
_ALLOWED = "#cfe8dc"


def draw(ledger: Ledger) -> Figure:
    """Draw every claim as a line, a mark per basis, and what was published with its tolerance behind them.

    Parameters
    ----------
    ledger : Ledger
        Claims beside our numbers.

    Returns
    -------
    matplotlib.figure.Figure
        For :func:`inference_econ.report.figures.save`.
    """
    groups = [(seed, list(members)) for seed, members in groupby(ledger.findings, lambda finding: finding.seed)]
    heights = [len(findings) * _ROW + _BETWEEN for _, findings in groups]
    with rc_context(STYLE):
        figure = Figure(figsize=(9.0, sum(heights) + _AROUND), layout="constrained")
        places = figure.subplots(len(groups), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (seed, findings) in zip(places, groups, strict=True):
            _group(axes, seed, findings)
        places[-1].set_xlabel("ours over the published number, or over its bound (of two: their geometric mean)")
        figure.legend(handles=_legend(), loc="outside lower center", ncols=2, fontsize=9)
    return figure


def _group(axes: Axes, seed: str, findings: Sequence[Finding]) -> None:
    for row, finding in enumerate(findings):
        reference = _reference(finding)
        low, high = _allowed(finding, reference)
        axes.barh(row, high - low, left=low, height=0.72, color=_ALLOWED, zorder=1)
        shares = {basis: ours / reference for basis, ours in finding.ours.items()}
        for basis, share in shares.items():
            _mark(axes, row, basis, share, holds=bool(finding.holds(basis)))
        _beyond(axes, row, list(shares.values()))
    axes.axvline(1.0, color="black", linewidth=0.8, zorder=2)
    axes.set_xscale("log")
    axes.set_xlim(1.0 / _END / 1.25, _END * 1.25)
    axes.set_ylim(len(findings) - 0.4, -0.6)
    axes.set_yticks(range(len(findings)), [finding.claim.id for finding in findings], fontsize=8.5)
    label_ticks(axes.xaxis, locator=FixedLocator(_TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_title(seed, loc="left", fontsize=10)


def _mark(axes: Axes, row: int, basis: Basis, share: float, *, holds: bool) -> None:
    """One mark, filled where the claim holds; at the end of the axis if it lies beyond."""
    colour, marker = _MARKS[basis]
    place = row - 0.13 if basis == "paper" else row + 0.13
    face = colour if holds else "white"
    axes.plot(_within_limits(share), place, marker, color=colour, markersize=5.5, markerfacecolor=face, zorder=3)


def _within_limits(share: float) -> float:
    return min(max(share, 1.0 / _END), _END)


def _beyond(axes: Axes, row: int, shares: Sequence[float]) -> None:
    """The numbers of marks that lie beyond an end of the axis."""
    for end, side, offset in ((_END, "right", -7), (1.0 / _END, "left", 7)):
        text = ", ".join(f"{share:.3g}" for share in shares if share != _within_limits(share) == end)
        axes.annotate(
            text, (end, row), xytext=(offset, 0), textcoords="offset points", ha=side, va="center", fontsize=7.5
        )


def _reference(finding: Finding) -> float:
    """Number that ours is drawn over: the published one, the only bound, or the geometric mean of two."""
    low, high = finding.claim.published.bounds
    if math.isinf(high) or low == 0.0:
        return low or high
    return math.sqrt(low * high)


def _allowed(finding: Finding, reference: float) -> tuple[float, float]:
    """Range on the axis in which the claim holds."""
    low, high = finding.claim.published.bounds
    tolerance = max(finding.claim.tolerance, 0.01)
    below, above = low * (1.0 - tolerance) / reference, high * (1.0 + tolerance) / reference
    return max(below, 1.0 / _END / 1.25), min(above, _END * 1.25)


def _legend() -> list[Line2D | Patch]:
    marks = [
        Line2D([], [], linestyle="", marker=_MARKS[basis][1], color=_MARKS[basis][0], label=f"{basis}: under {name}")
        for basis, name in BASES.items()
    ]
    hollow = Line2D([], [], linestyle="", marker="o", color="black", markerfacecolor="white", label="does not hold")
    return [*marks, Patch(color=_ALLOWED, label="as published, give or take the tolerance"), hollow]
