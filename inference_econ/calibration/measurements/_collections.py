"""Facts that rows of one file reveal about each other: repeats, unrecorded speculation, spoilt runs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from inference_econ.calibration.measurements._record import RESULTS, Measurement, Skipped
from inference_econ.inputs import catalog
from inference_econ.inputs.acceptance import Prompts

#: A deployment that is this much faster than another of the same description has something the description lacks.
#: Plain runs of one description in the shipped collection differ by 4 % at most.
_FASTER = 1.1
#: One of two runs of one configuration that differ by this much in the time between tokens is spoilt: reruns differ by
#: 13 % at most in nine of ten cases, other versions of an engine by 26 %.
_SPOILT = 1.5
#: The same of the time to the first token, which reruns differ in by 3.5 at most; others, of runs whose engine compiled
#: kernels while the first prompts waited, by 4.6 to 25.
_SPOILT_START = 4.0
#: The same of a run with no less to do on no more accelerators, in whatever layout: those that people
#: choose differ by less.
_OUTDONE = 3.0
#: What such other runs are, in words.
_SAME, _BUSIER = "a run of the same configuration", "which has no less to do on no more accelerators"
#: Keys that rows share: of one server, in one sweep of loads, in one configuration, and of one description.
_SERVER = ("engine", "model", "hardware", "weights")
_TRAFFIC = ("model", "hardware", "engine", "isl", "osl", "load")
_LAYOUT = ("tp", "dp", "pp", "ep")
_server = attrgetter(*_SERVER)
_sweep = attrgetter(*_SERVER, "engine_version", "source", "days", "isl", "osl", "spread")
_configuration = attrgetter(*_TRAFFIC, "concurrency", *_LAYOUT, "accelerators", "weights", "spread")
_description = attrgetter(*_TRAFFIC, *_LAYOUT, "prefill", "decode", "weights", "kv", "requests_per_second")
#: Of rows that repeat each other.
_repeat = attrgetter("model", "hardware", "isl", "osl", "load", "concurrency", "requests_per_second", *RESULTS)
#: Speculation of rows that a plain step may stand for.
_PLAIN = ("none", "unrecorded")


def distinct(measurements: Iterable[Measurement]) -> list[Measurement]:
    """One measurement of those that repeat each other: same subject, lengths, demand and results.

    Of repeats the one that says most about its layout is kept, so that a collection that passed a run on twice does
    not count it twice.
    """
    best: dict[tuple[object, ...], Measurement] = {}
    for row in measurements:
        key = _repeat(row)
        if key not in best or (best[key].accelerators is None and row.accelerators is not None):
            best[key] = row
    return list(best.values())


def suspect_speculation(rows: Sequence[Measurement | Skipped]) -> list[Measurement | Skipped]:
    """Mark rows that are faster than another row of the same description as suspected of speculation.

    Parameters
    ----------
    rows : sequence of Measurement or Skipped
        Rows of one file. Only those are marked whose speculation is not recorded and whose layout is known; they are
        compared to rows with as many requests at a time, or fewer, which a plain step serves no slower.
    """
    runs: dict[tuple[object, ...], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if isinstance(row, Measurement) and row.tpot_seconds is not None and row.concurrency is not None:
            runs[_description(row)].append((row.concurrency, row.tpot_seconds))
    return [_suspected(row, runs) for row in rows]


def mark_spoilt(rows: Sequence[Measurement | Skipped]) -> list[Measurement | Skipped]:
    """Mark rows that are slower by far than another run of the same configuration, or than one with no less to do.

    Parameters
    ----------
    rows : sequence of Measurement or Skipped
        Rows of one file, suspected speculation marked. Only closed loops of one pool with a known layout and without
        speculation are compared.
    """
    runs: dict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    alike: dict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    for row in rows:
        if isinstance(row, Measurement) and _is_plain_loop(row):
            runs[_configuration(row)].append(row)
            alike[_server(row)].append(row)
    compared = [_compared(row, runs, alike) for row in rows]
    sweeps: dict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    for run in compared:
        if isinstance(run, Measurement) and _is_plain_loop(run):
            sweeps[_sweep(run)].append(run)
    return [_of_spoilt_sweep(run, sweeps) for run in compared]


def _of_spoilt_sweep(
    row: Measurement | Skipped, sweeps: Mapping[tuple[object, ...], Sequence[Measurement]]
) -> Measurement | Skipped:
    """A row marked where most runs of its sweep are outdone: what slowed them slowed it as well."""
    if isinstance(row, Skipped) or row.spoilt or not _is_plain_loop(row):
        return row
    sweep = sweeps[_sweep(row)]
    outdone = sum(run.spoilt.endswith(_BUSIER) for run in sweep)
    if 2 * outdone <= len(sweep):
        return row
    return replace(row, spoilt=f"{outdone} of {len(sweep)} runs of its sweep are {_OUTDONE:g} times as slow as others")


def _is_plain_loop(row: Measurement) -> bool:
    one_pool = row.decode is None and row.tp is not None
    return one_pool and row.load == "concurrency" and row.tpot_seconds is not None and row.speculation in _PLAIN


def _compared(
    row: Measurement | Skipped,
    runs: Mapping[tuple[object, ...], Sequence[Measurement]],
    alike: Mapping[tuple[object, ...], Sequence[Measurement]],
) -> Measurement | Skipped:
    if isinstance(row, Skipped) or not _is_plain_loop(row):
        return row
    same = runs[_configuration(row)]
    busier = [other for other in alike[_server(row)] if _no_less_to_do(other, row)]
    for field, others, most, words, whose in (
        ("tpot_seconds", same, _SPOILT, "as slow", _SAME),
        ("ttft_seconds", same, _SPOILT_START, "as late", _SAME),
        ("tpot_seconds", busier, _OUTDONE, "as slow", _BUSIER),
    ):
        timed = [other for other in others if getattr(other, field) is not None]
        if getattr(row, field) is None or not timed:
            continue
        best = min(timed, key=lambda other: getattr(other, field))
        ratio = getattr(row, field) / getattr(best, field)
        if ratio >= most:
            return replace(row, spoilt=f"{ratio:.1f} times {words} as {best.id}, {whose}")
    return row


def _no_less_to_do(other: Measurement, row: Measurement) -> bool:
    """Whether a run has no fewer requests, shorter prompts, longer answers or more accelerators than another."""
    more = ((other.concurrency, row.concurrency), (other.isl, row.isl), (row.osl, other.osl))
    fewer = (row.accelerators, other.accelerators)
    return all((many or 0.0) >= (few or 0.0) for many, few in (*more, fewer))


def _suspected(row: Measurement | Skipped, runs: dict[tuple[object, ...], list[tuple[float, float]]]) -> Any:
    if isinstance(row, Skipped) or row.speculation != "unrecorded":
        return row
    if row.tpot_seconds is None or row.accelerators is None or row.concurrency is None:
        return row
    no_busier = [seconds for requests, seconds in runs[_description(row)] if requests <= row.concurrency]
    ratio = max(no_busier) / row.tpot_seconds
    if ratio < _FASTER:
        return row
    remark = f"{ratio:.1f} times as fast as a run of the same description that was no busier"
    return replace(row, speculation="suspected", remarks=(*row.remarks, remark))


#: A method, and the proposals of a round.
_FIXED = re.compile(r"(?P<method>[A-Z][A-Za-z]*3?)(?P<drafts>\d)")


def with_tokens(row: Measurement, prompts: Prompts = "text") -> Measurement:
    """Return a row with the published tokens of a round, if its method and draft length are recorded ("MTP3").

    Parameters
    ----------
    row : Measurement
        Its waits are in rounds: engines that wait count these. Those of the result are in steps of one token each.
    prompts : str
        On which its requests were; where nothing is published for such, the others stand for them.
    """
    fixed = _FIXED.fullmatch(row.speculation)
    if fixed is None:
        return row
    lengths = catalog.speculation_facts().lengths(row.model, fixed["method"], prompts)
    tokens = None if lengths is None else lengths.tokens.get(int(fixed["drafts"]))
    steps = tokens or 1.0
    return replace(row, tokens_per_round=tokens, wait_steps=row.wait_steps * steps, held_steps=row.held_steps * steps)
