"""The check of the rule of speculation as a table and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inference_econ.records.plain import attributes, finite_or_none
from inference_econ.report.page import Page
from inference_econ.report.table import Table
from inference_econ.serving import Estimate
from inference_econ.studies.sampling_rule import UNLIKELY, Check, Fit


@dataclass(frozen=True)
class SamplingRulePage(Page):
    """Drawn tokens, ready to be shown."""

    check: Check

    def tables(self) -> Sequence[Table]:
        """One row per position."""
        return (check_table(self.check),)

    def record(self) -> object:
        """Record of the check; a p-value of an impossible token is 0, and its chi-square null."""
        check = self.check
        fits = [
            {
                "position": position,
                "tokens": fit.tokens,
                "chi_square": finite_or_none(fit.statistic),
                "degrees_of_freedom": fit.degrees,
                "p_value": fit.p_value,
            }
            for position, fit in enumerate(check.fits, 1)
        ]
        accepted = [
            {
                "expected": float(chance),
                "drawn": finite_or_none(drawn.value),
                "half_width": finite_or_none(drawn.half_width),
            }
            for chance, drawn in zip(check.acceptance, check.accepted, strict=True)
        ]
        return {
            **attributes(check, "vocabulary draft_length rounds exact"),
            "p_value": check.fit.p_value,
            "expected_tokens_per_round": check.expected_tokens,
            "drawn_tokens_per_round": check.tokens.value,
            "half_width_95": finite_or_none(check.tokens.half_width),
            "positions": fits,
            "acceptance": accepted,
        }


def check_table(check: Check) -> Table:
    """Drawn tokens beside the target's distributions, by position."""
    rows = []
    for position, fit in enumerate(check.fits):
        share = ("", "")
        if position < check.draft_length:
            share = (f"{check.acceptance[position]:.4f}", _drawn_cell(check.accepted[position]))
        rows.append((str(position + 1), *_fit_cells(fit), *share))
    rows.append(("all", *_fit_cells(check.fit), "", ""))
    columns = ("position", "tokens", "chi-square", "degrees", "p-value", "accepted, formula", "accepted, drawn")
    verdict = "EXACT: the tokens have" if check.exact else "NOT EXACT: the tokens do not have"
    meets = "inside" if check.tokens.agrees(check.expected_tokens) else "OUTSIDE"
    notes = (
        f"{verdict} the target's distribution, as far as {check.fit.tokens:,} draws tell: chance alone differs as much "
        f"or more in {_share(check.fit.p_value)} of such checks (chi-square; below {_share(UNLIKELY)}: not exact).",
        f"Tokens per round: {check.expected_tokens:.5f} by formula, {check.tokens.value:.5f} ± "
        f"{check.tokens.half_width:.5f} drawn (95 % confidence): {meets} the interval.",
    )
    name = f"Speculative sampling: {check.vocabulary} tokens, {check.draft_length} proposals, {check.rounds:,} rounds"
    return Table(name, columns, tuple(rows), notes)


def _share(probability: float) -> str:
    return f"{100 * probability:.2g} %"


def _fit_cells(fit: Fit) -> tuple[str, str, str, str]:
    statistic = f"{fit.statistic:.1f}" if np.isfinite(fit.statistic) else "impossible"
    return f"{fit.tokens:,}", statistic, str(fit.degrees), f"{fit.p_value:.3g}"


def _drawn_cell(drawn: Estimate) -> str:
    """A share that was drawn, with its interval; words where no round came so far."""
    return "not reached" if np.isnan(drawn.value) else f"{drawn.value:.4f} ± {drawn.half_width:.4f}"
