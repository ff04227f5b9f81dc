"""Levels of one's own servers, from as little as one point of a load test, on top of those that are shipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from inference_econ.calibration.levels.levels_file import Entry, entries_of, known_entries, levels_data
from inference_econ.calibration.levels.observed import Group, Observed
from inference_econ.calibration.levels.pooled import DEPTHS, Spreads, level_of, pooled
from inference_econ.inputs import MeasuredLevels


def own_levels(shipped: MeasuredLevels, group: Group, rows: Sequence[Observed], *, date: str) -> dict[str, Any]:
    """Levels of one's own servers beside those of a file, as plain data.

    Parameters
    ----------
    shipped : MeasuredLevels
        Of servers that others have measured.
    group : Group
        Whose profile.
    rows : sequence of Observed
        One's own.
    date : str
        Of the fit.

    Notes
    -----
    What others have measured is where one's own levels begin: their level is the mean, and of what they have measured
    only one's own deployment may differ from it, of what they have not, all that is narrower. Errors over that are
    pooled as all are (:mod:`inference_econ.calibration.levels.pooled`).
    """
    known, spreads = known_entries(shipped), Spreads.read(shipped.spreads)
    before = {
        (group, kind, part): (entry.decode, entry.prefill)[kind] for part, entry in known.items() for kind in range(2)
    }
    beyond = [replace(row, errors=row.errors - row.slopes @ level_of(before, row)) for row in rows]
    fixed = {part for part in known if len(part) < len(DEPTHS)}
    further = pooled(beyond, spreads, fixed=fixed)
    own = dict(known)
    for part, entry in entries_of(group, rows, further).items():
        decode, prefill = (_nearest(known, part)[kind] + (entry.decode, entry.prefill)[kind] for kind in range(2))
        own[part] = Entry(entry.rows + (known[part].rows if part in known else 0), decode, prefill)
    errors = {
        unseen: {quantity: spread.model_dump(exclude_none=True, mode="json") for quantity, spread in spreads_of.items()}
        for unseen, spreads_of in shipped.errors.items()
    }
    return levels_data(group, own, spreads, errors, date=date)


def _nearest(known: dict[tuple[Any, ...], Entry], part: tuple[Any, ...]) -> tuple[float, float]:
    """The levels of decode and prefill steps that others have measured of a part, or of what it belongs to [1]."""
    parts = (part[:length] for length in range(len(part), 0, -1))
    entry = next((known[each] for each in parts if each in known), Entry(0, 0.0, 0.0))
    return entry.decode, entry.prefill
