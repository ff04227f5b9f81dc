"""A run beside what an answer predicted of it: tables and data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.launching.plan import UNITS, PlanPart
from inference_econ.extras import servers
from inference_econ.extras.servers import levels
from inference_econ.extras.servers.calibrate import Calibrated, shown_folds
from inference_econ.inputs import MeasuredLevels, Unlike, percent, value_of
from inference_econ.records.plain import attributes
from inference_econ.records.texts import PART_NAMES, digits, prefixed
from inference_econ.report.error_notes import WITHOUT
from inference_econ.report.page import AnswerPage, Page, Pieces, Table
from inference_econ.report.service import fleet_label

#: What a yes or no is called.
_KEPT = {True: "kept", False: "BROKEN", None: ""}


@dataclass(frozen=True)
class AgainstPage(Page):
    """A run held against an answer.

    Attributes
    ----------
    files : str
        Which run, and which answer.
    parts : sequence of PlanPart
        What was run.
    held : sequence of CheckedNumber
        Its numbers.
    suspects : sequence of Suspect
        Parts of a step that could explain the difference in TPOT.
    command : str
        What calibrates with the run.
    """

    files: str
    parts: Sequence[PlanPart]
    held: Sequence[servers.CheckedNumber]
    suspects: Sequence[servers.Suspect]
    command: str

    def tables(self) -> Sequence[Table]:
        """The numbers; the parts that could explain the difference, if there is one."""
        fleet = ", ".join(fleet_label(part.service, part.replicas) for part in self.parts)
        numbers = Table(
            f"{self.files}: {fleet}", _COLUMNS, tuple(_row(held) for held in self.held), (self.verdict,), least=_LEAST
        )
        if not self.suspects:
            return (numbers,)
        rows = tuple(
            (PART_NAMES[each.part], f"{1e3 * each.seconds:.3f}", f"{each.factor:.2f}", ", ".join(each.constants))
            for each in self.suspects
        )
        notes = (
            "Each by itself would explain the whole difference in TPOT if it took so many times as long; prompts that "
            "are read beside decoding are in none of them. One run determines one constant, more runs more: "
            f"{self.command}",
        )
        return numbers, Table("What of a decode step could explain it", _PARTS, rows, why=notes)

    @property
    def verdict(self) -> str:
        """Sentence on whether the run kept the intervals and the promises."""
        inside = [held.inside for held in self.held if held.inside is not None]
        kept = [held.kept for held in self.held if held.kept is not None]
        sentence = f"{sum(inside)} of {len(inside)} numbers lie in their intervals, which hold 80 % of measured values"
        if not kept:
            return f"{sentence}; there was no SLO."
        broken = f"{kept.count(False)} of {len(kept)} SLOs were broken"
        return f"{sentence}; {'all SLOs were met' if all(kept) else broken}."

    def record(self) -> object:
        """All of it."""
        return {
            "numbers": [checked_record(held) for held in self.held],
            "verdict": self.verdict,
            "suspects": [
                attributes(each, "part seconds factor") | {"constants": [*each.constants]} for each in self.suspects
            ],
            "calibrate": self.command,
        }


_COLUMNS = ("number", "predicted", "interval", "measured", "measured/predicted", "interval held", "promise")
#: Columns that a narrow terminal does without.
_LEAST = ("interval held", "measured/predicted")
_PARTS = ("part", "ms", "times as long", "constants")


def checked_record(held: servers.CheckedNumber) -> dict[str, object]:
    """Return one number of a run beside its prediction as plain data, in base units."""
    expected = held.expected
    return {
        **attributes(expected, "measure statistic"), "predicted": expected.value, **attributes(expected, "low high"),
        **attributes(held, "measured inside"), "promised": expected.promised, "kept": held.kept,
    }  # fmt: skip


def _row(held: servers.CheckedNumber) -> tuple[str, ...]:
    expected = held.expected
    _, unit, factor = UNITS[expected.measure]
    ends = (expected.low, expected.high)
    between = "" if None in ends else " to ".join(digits(factor * float(end or 0.0)) for end in ends)
    promised = "" if expected.promised is None else f"{_KEPT[held.kept]} ({digits(factor * expected.promised)})"
    return (
        f"{expected.name} {unit}".strip(),
        digits(factor * expected.value),
        between,
        digits(factor * held.measured),
        f"{held.measured / expected.value:.2f}",
        {True: "yes", False: "no", None: ""}[held.inside],
        promised,
    )


_LEGEND = (
    "error: median of the larger of predicted and measured over the smaller, less 1; bias: median of predicted over "
    "measured, less 1"
)

#: Median error of a target beyond which a fit does not reproduce its rows: a factor of 1.5 [1].
_POOR = math.log(1.5)


class CalibrationPage(AnswerPage[Calibrated]):
    """A fit, ready to be shown."""

    proportional = False

    def tables(self) -> Sequence[Table]:
        """The constants, then the errors, then those of fits that left something out."""
        fitted, folds = self.answer.fitted, self.answer.folds
        return constants_table(fitted), errors_table(fitted, folds), left_out_table(fitted, folds)

    def question(self) -> str:
        """Question about the constants that describe the rows."""
        return "Which constants describe these measurements?"

    def conclusion(self) -> Pieces:
        """Median errors of the fit."""
        fitted = self.answer.fitted
        errors = ", ".join(f"{target} {percent(fitted.median_error(target))}" for target in fitted.targets)
        return (f"After a fit to {len(fitted.rows)} rows, median errors are: {errors}.",)


def constants_table(fitted: servers.Fit) -> Table:
    """Each constant with its standard error, and whether the rows determine it."""
    rows = []
    for name, value, error, unknown in zip(fitted.names, fitted.values, fitted.log_errors, fitted.unknown, strict=True):
        before = value_of(fitted.base, name)
        base = "-" if before is None else _amount(name, before)
        rows.append((name, _amount(name, value), percent(error), base, unknown or "yes"))
    columns = ("constant", "value", "standard error", "base", "determined by the rows")
    days = servers.days_of(fitted.rows)
    measured = "" if days is None else f", measured {days.since} to {days.until}"
    return Table(f"Fitted to {len(fitted.rows)} rows{measured}", columns, tuple(rows))


def errors_table(fitted: servers.Fit, folds: Mapping[Unlike, Sequence[servers.Fold]]) -> Table:
    """Median errors of the fit by engine, chip and model, and of the fits that left a chip or a model out."""
    kinds = [f"{target}: {what}" for target in fitted.targets for what in ("error", "bias")]
    base = f"all, by the base ({fitted.base.name})"
    rows = [("all", *_line(fitted.errors)), (base, *_line(fitted.base_errors))]
    labels = np.array([servers.GROUPS["subject"](row) for row in fitted.rows])
    rows += [(label, *_line(fitted.errors[labels == label])) for label in sorted(set(labels.tolist()))]
    rows += [(f"{fold.left_out}, left out", *_line(fold.errors)) for fold in shown_folds(folds)]
    return Table("Errors", ("rows of", "number", *kinds), tuple(rows), why=(_LEGEND,))


def not_reproduced(fitted: servers.Fit) -> list[str]:
    """For each target whose rows the fit is far from, what to check."""
    return [
        f"{target}: the fit does not reproduce the rows, their median error is {percent(error)}: "
        "check units (seconds, milliseconds), formats of weights and KV cache, "
        "speculation and layout of the rows, or give more freedom (--prior, --fit)"
        for target in fitted.targets
        if (error := fitted.median_error(target)) > _POOR
    ]


def _line(errors: Array) -> tuple[str, ...]:
    cells = [str(len(errors))]
    for column in errors.T:
        finite = column[np.isfinite(column)]
        cells += [_middle(np.abs(finite)), _middle(finite, sign=True)] if finite.size else ["-", "-"]
    return tuple(cells)


def _middle(errors: Array, *, sign: bool = False) -> str:
    return percent(float(np.median(errors)), sign=sign)


def left_out_table(fitted: servers.Fit, folds: Mapping[Unlike, Sequence[servers.Fold]]) -> Table:
    """Errors of rows that fits to the others predict, by what was left out, and how many are in intervals of 80 %."""
    heads = (f"{target}: {what}" for target in fitted.targets for what in ("error", "in 80 %"))
    rows = []
    for by in filter(folds.get, servers.GROUPS):
        cells = [f"without {WITHOUT[by]}", str(len(folds[by]))]
        for index in range(len(fitted.targets)):
            groups = servers.held_out(folds, by, index)
            share = servers.coverage(groups)
            cells.append(_middle(np.abs(servers.joined(groups))) if groups else "-")
            cells.append(f"{100 * share:.0f} %" if math.isfinite(share) else "-")
        rows.append(tuple(cells))
    return Table("Left out", ("rows", "groups", *heads), tuple(rows), why=("intervals are made from the other groups",))


def _amount(name: str, value: float) -> str:
    return f"{prefixed(value, 'mu', '.3g')}s" if servers.CONSTANTS[name].unit == "s" else f"{value:.3g}"


@dataclass(frozen=True)
class OwnLevelsPage(Page):
    """Levels of one's own servers, ready to be shown.

    Attributes
    ----------
    fitted : levels.OwnProfile
        Levels, with errors before and after.
    """

    fitted: levels.OwnProfile

    def tables(self) -> Sequence[Table]:
        """Each deployment with its level, and how far off predictions are before and after."""
        rows = tuple(
            (
                f"{line['model']} on {line['hardware']}, {line['layout']}",
                str(line["rows"]),
                f"{line['decode']:.2f}",
                f"{line['prefill']:.2f}",
                *(_off(line[f"{quantity}_{when}"]) for quantity in levels.QUANTITIES for when in ("before", "after")),
            )
            for line in self._lines()
        )
        columns = ("server", "rows", "decode x", "prefill x", "TPOT off %", "after", "TTFT off %", "after")
        notes = (
            "Steps of these servers over those that their profile predicts; off: predicted over measured, median.",
            f"They are levels of one engine: ask with --engine {self.fitted.group.engine} beside --assumptions.",
        )
        return (Table(f"Levels over {self.fitted.group.profile}", columns, rows, notes),)

    def record(self) -> object:
        """Record of the lines of the table."""
        return {"profile": self.fitted.group.profile, "deployments": self._lines()}

    def _lines(self) -> list[dict[str, Any]]:
        fitted = self.fitted
        file = MeasuredLevels.build(fitted.levels, origin="levels")
        entries, shared = levels.known_entries(file), levels.known_shared(fitted.group, file)
        parts: dict[Any, list[int]] = {}
        for index, row in enumerate(fitted.rows):
            parts.setdefault(levels.places_of(row), []).append(index)
        lines = []
        for (decode, prefill), which in parts.items():
            beside = sum(shared.get(name, 0.0) for name in levels.shared_of(fitted.group, fitted.rows[which[0]]))
            line: dict[str, Any] = {
                "model": decode.subject[0],
                "hardware": decode.subject[1],
                "layout": decode.deployment[0],
                "rows": len(which),
                "decode": math.exp(entries[tuple(decode)].decode + beside),
                "prefill": math.exp(entries[tuple(prefill)].prefill),
            }
            for when, errors in (("before", fitted.before), ("after", fitted.after)):
                for column, quantity in enumerate(levels.QUANTITIES):
                    finite = sorted(error for error in errors[which, column].tolist() if math.isfinite(error))
                    line[f"{quantity}_{when}"] = math.expm1(finite[len(finite) // 2]) if finite else None
            lines.append(line)
        return lines


def _off(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:+z.0f}"
