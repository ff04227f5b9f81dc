"""Runs of InferenceX that speculated, and how many proposals a round of theirs had."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from data.measurements.facts import RunPoint, SpeculatingRuns, speculation_of_runs
from data.measurements.inferencex import is_run
from inference_econ.extras.servers.measurements import Measurement, Skipped
from inference_econ.extras.servers.measurements._record import MEAN_LENGTH
from inference_econ.extras.servers.measurements._tables import with_tokens

#: What the facts of runs are asked about: a collection that says nothing, or too little.
_OPEN = ("unrecorded", "suspected", "MTP", "mtp")
_UNKNOWN = "runs with {} and without had this description"
#: Two results of one run agree in the time between tokens within this [1].
_SAME_RUN = 0.01


def resolved(rows: Sequence[Measurement | Skipped]) -> list[Measurement | Skipped]:
    """Return rows with their method and draft length where the facts of runs say so, and the tokens of their rounds.

    Parameters
    ----------
    rows : sequence of Measurement or Skipped
        Rows of one file, those faster than others of the same description marked as suspected.

    Returns
    -------
    list of Measurement or Skipped
        ``speculation`` becomes the method and the draft length ("MTP3") of what only ran so, and of the faster one
        of two; a single row that fits a run with speculation and one without stays, or becomes, suspected.
    """
    times: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for row in rows:
        if isinstance(row, Measurement) and row.tpot_seconds is not None:
            times[_point(row)].append(row.tpot_seconds)
    return [_resolved(row, times[_point(row)]) if isinstance(row, Measurement) else row for row in rows]


def _resolved(row: Measurement, times: Sequence[float]) -> Measurement:
    return with_tokens(_named(row, times), "random" if is_run(row.source) else "text")


def _named(row: Measurement, times: Sequence[float]) -> Measurement:
    """A row with the speculation of the run that it fits; ``times`` between tokens are those of all like it [s]."""
    if row.speculation not in _OPEN or row.decode is not None:
        return row
    for runs in _runs(row.model, row.hardware, row.engine, row.engine_version):
        point = _fitting(row, runs, runs.speculating)
        if point is not None:
            name = f"{runs.method}{point.drafts}"
            if row.speculation != "unrecorded" or _fitting(row, runs, runs.plain) is None:
                return replace(row, speculation=name)
            if not times or max(times) <= (1.0 + _SAME_RUN) * min(times):
                return replace(row, speculation="suspected", remarks=(*row.remarks, _UNKNOWN.format(name)))
    return _with_drafts(row)


def _with_drafts(row: Measurement) -> Measurement:
    """A row that is known to speculate, with the draft length of the scripts that it is a run of."""
    if row.speculation.upper() != "MTP" or not is_run(row.source):
        return row
    dp, facts = row.dp or 1, speculation_of_runs()
    drafts = facts.draft_length(row.model, row.engine, row.hardware, "MTP", attention_dp=dp > 1)
    return row if drafts is None else replace(row, speculation=f"MTP{drafts}")


def _point(row: Measurement) -> tuple[object, ...]:
    """The description that two runs share which differ in speculation alone, if the collection names no version."""
    return (
        row.model, row.hardware, row.engine, row.isl, row.osl, row.concurrency, row.tp, row.dp, row.pp, row.ep, row.kv,
        row.weights, row.decode,
    )  # fmt: skip


def _fitting(row: Measurement, runs: SpeculatingRuns, points: Iterable[RunPoint]) -> RunPoint | None:
    if runs.weights is not None and row.weights != runs.weights:
        return None
    return next((point for point in points if _fits(row, point)), None)


def _fits(row: Measurement, point: RunPoint) -> bool:
    """Return whether a row has the traffic and the layout of a point."""
    lengths = (MEAN_LENGTH * point.isl, MEAN_LENGTH * point.osl)
    layout = (point.tp, point.dp, point.ep)
    fewest, most = point.concurrency
    return (
        (row.isl, row.osl) == lengths
        and (row.tp, row.dp or 1, row.ep or 1) == layout
        and row.concurrency is not None
        and fewest <= row.concurrency <= most
    )


@cache
def _runs(model: str, hardware: str, engine: str, version: str) -> tuple[SpeculatingRuns, ...]:
    """The runs that have facts for what a row was measured on."""
    return tuple(
        runs
        for runs in speculation_of_runs().runs
        if (runs.model, runs.hardware, runs.engine) == (model, hardware, engine) and version in runs.versions
    )
