"""Speculation and draft lengths of InferenceX runs that do not record them."""

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

#: Values of ``speculation`` for which facts are looked up, because they are missing or incomplete.
_OPEN = ("unrecorded", "suspected", "MTP", "mtp")
_UNKNOWN = "runs with {} and without had this description"
#: Maximum relative TPOT difference of two results of one run [1].
_SAME_RUN = 0.01


def resolved(rows: Sequence[Measurement | Skipped]) -> list[Measurement | Skipped]:
    """Rows with the speculation method and draft length from the facts on runs, and with tokens per round.

    Parameters
    ----------
    rows : sequence of Measurement or Skipped
        Rows of one file. Rows that are faster than others of the same description are marked as suspected.

    Returns
    -------
    list of Measurement or Skipped
        Rows in which ``speculation`` is the method and draft length ("MTP3"). It is set if all matching runs
        speculated, and for the faster one of two rows. A single row that matches runs with and without speculation is
        suspected.
    """
    times: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for row in rows:
        if isinstance(row, Measurement) and row.tpot_seconds is not None:
            times[_point(row)].append(row.tpot_seconds)
    return [_resolved(row, times[_point(row)]) if isinstance(row, Measurement) else row for row in rows]


def _resolved(row: Measurement, times: Sequence[float]) -> Measurement:
    return with_tokens(_named(row, times), "random" if is_run(row.source) else "text")


def _named(row: Measurement, times: Sequence[float]) -> Measurement:
    """Row with the speculation of the run that it matches; ``times`` are the TPOTs of all similar rows [s]."""
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
    """Row that speculates, with the draft length in the scripts of its run."""
    if row.speculation.upper() != "MTP" or not is_run(row.source):
        return row
    dp, facts = row.dp or 1, speculation_of_runs()
    drafts = facts.draft_length(row.model, row.engine, row.hardware, "MTP", attention_dp=dp > 1)
    return row if drafts is None else replace(row, speculation=f"MTP{drafts}")


def _point(row: Measurement) -> tuple[object, ...]:
    """Key of rows that may differ only in speculation, if the collection records no version."""
    return (
        row.model, row.hardware, row.engine, row.isl, row.osl, row.concurrency, row.tp, row.dp, row.pp, row.ep, row.kv,
        row.weights, row.decode,
    )  # fmt: skip


def _fitting(row: Measurement, runs: SpeculatingRuns, points: Iterable[RunPoint]) -> RunPoint | None:
    if runs.weights is not None and row.weights != runs.weights:
        return None
    return next((point for point in points if _fits(row, point)), None)


def _fits(row: Measurement, point: RunPoint) -> bool:
    """True if a row has the workload and the layout of a point."""
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
    """Runs with facts for the engine, model and chip of a row."""
    return tuple(
        runs
        for runs in speculation_of_runs().runs
        if (runs.model, runs.hardware, runs.engine) == (model, hardware, engine) and version in runs.versions
    )
