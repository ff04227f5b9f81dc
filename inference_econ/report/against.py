"""A run beside what an answer predicted of it: tables and data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inference_econ.answers.launching.benchmark import UNITS
from inference_econ.answers.launching.plan import Part
from inference_econ.calibration import Held, Suspect
from inference_econ.records.plain import attributes
from inference_econ.records.texts import PART_NAMES, digits
from inference_econ.report.page import Page
from inference_econ.report.service import fleet_label
from inference_econ.report.table import Table

#: What a yes or no is called.
_KEPT = {True: "kept", False: "BROKEN", None: ""}


@dataclass(frozen=True)
class AgainstPage(Page):
    """A run held against an answer.

    Attributes
    ----------
    files : str
        Which run, and which answer.
    parts : sequence of Part
        What was run.
    held : sequence of Held
        Its numbers.
    suspects : sequence of Suspect
        Parts of a step that could explain the difference in TPOT.
    command : str
        What calibrates with the run.
    """

    files: str
    parts: Sequence[Part]
    held: Sequence[Held]
    suspects: Sequence[Suspect]
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
            (
                PART_NAMES[suspect.part],
                f"{1e3 * suspect.seconds:.3f}",
                f"{suspect.factor:.2f}",
                ", ".join(suspect.constants),
            )
            for suspect in self.suspects
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
            "numbers": [held_record(held) for held in self.held],
            "verdict": self.verdict,
            "suspects": [
                {**attributes(suspect, "part seconds factor"), "constants": list(suspect.constants)}
                for suspect in self.suspects
            ],
            "calibrate": self.command,
        }


_COLUMNS = ("number", "predicted", "interval", "measured", "measured/predicted", "interval held", "promise")
#: Columns that a narrow terminal does without.
_LEAST = ("interval held", "measured/predicted")
_PARTS = ("part", "ms", "times as long", "constants")


def held_record(held: Held) -> dict[str, object]:
    """Return one number of a run beside its prediction as plain data, in base units."""
    expected = held.expected
    return {
        **attributes(expected, "measure statistic"), "predicted": expected.value, **attributes(expected, "low high"),
        **attributes(held, "measured inside"), "promised": expected.promised, "kept": held.kept,
    }  # fmt: skip


def _row(held: Held) -> tuple[str, ...]:
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
