"""Levels of one's own servers as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inference_econ.calibration.levels.levels_file import known_entries, known_shared
from inference_econ.calibration.levels.observed import QUANTITIES, places_of, shared_of
from inference_econ.calibration.levels.own import OwnProfile
from inference_econ.inputs import MeasuredLevels
from inference_econ.report.page import Page
from inference_econ.report.table import Table


@dataclass(frozen=True)
class OwnLevelsPage(Page):
    """Levels of one's own servers, ready to be shown.

    Attributes
    ----------
    mine : OwnProfile
        The answer.
    """

    mine: OwnProfile

    def tables(self) -> Sequence[Table]:
        """Each deployment with its level, and how far off predictions are before and after."""
        rows = tuple(
            (
                f"{line['model']} on {line['hardware']}, {line['layout']}",
                str(line["rows"]),
                f"{line['decode']:.2f}",
                f"{line['prefill']:.2f}",
                *(_off(line[f"{quantity}_{when}"]) for quantity in QUANTITIES for when in ("before", "after")),
            )
            for line in self._lines()
        )
        columns = ("server", "rows", "decode x", "prefill x", "TPOT off %", "after", "TTFT off %", "after")
        note = "Steps of these servers over those that their profile predicts; off: predicted over measured, median."
        return (Table(f"Levels over {self.mine.group.profile}", columns, rows, (note,)),)

    def record(self) -> object:
        """Record of the lines of the table."""
        return {"profile": self.mine.group.profile, "deployments": self._lines()}

    def _lines(self) -> list[dict[str, Any]]:
        mine = self.mine
        file = MeasuredLevels.build(mine.levels, origin="levels")
        entries, shared = known_entries(file), known_shared(mine.group, file)
        parts: dict[Any, list[int]] = {}
        for index, row in enumerate(mine.rows):
            parts.setdefault(places_of(row), []).append(index)
        lines = []
        for (decode, prefill), which in parts.items():
            beside = sum(shared.get(name, 0.0) for name in shared_of(mine.group, mine.rows[which[0]]))
            line: dict[str, Any] = {
                "model": decode.subject[0],
                "hardware": decode.subject[1],
                "layout": decode.deployment[0],
                "rows": len(which),
                "decode": math.exp(entries[tuple(decode)].decode + beside),
                "prefill": math.exp(entries[tuple(prefill)].prefill),
            }
            for when, errors in (("before", mine.before), ("after", mine.after)):
                for column, quantity in enumerate(QUANTITIES):
                    finite = sorted(error for error in errors[which, column].tolist() if math.isfinite(error))
                    line[f"{quantity}_{when}"] = math.expm1(finite[len(finite) // 2]) if finite else None
            lines.append(line)
        return lines


def _off(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:+z.0f}"
