"""What rows of one collection say about each other: repeats, missing layouts, unrecorded speculation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from inference_econ.calibration.measurements._record import Measurement, Skipped

#: Two runs of one deployment agree in the time between tokens within this; other deployments hardly ever do.
_SAME_RUN = 0.01
#: A deployment that is this much faster than another of the same description has something the description lacks.
#: Plain runs of one description in the shipped collection differ by 4 % at most.
_FASTER = 1.1


def distinct(found: Iterable[Measurement]) -> list[Measurement]:
    """One measurement of those that repeat each other: same subject, lengths, demand and results.

    Of repeats the one that says most about its layout is kept, so that a collection that passed a run on twice does
    not count it twice.
    """
    best: dict[tuple[object, ...], Measurement] = {}
    for one in found:
        key = (
            one.model, one.hardware, one.isl, one.osl, one.load, one.concurrency, one.requests_per_second,
            one.ttft_seconds, one.tpot_seconds, one.request_seconds, one.output_tokens_per_second_per_accelerator,
            one.input_tokens_per_second_per_accelerator, one.total_tokens_per_second_per_accelerator,
        )  # fmt: skip
        if key not in best or (best[key].accelerators is None and one.accelerators is not None):
            best[key] = one
    return list(best.values())


def complete_pools(found: Sequence[Measurement | Skipped]) -> list[Measurement | Skipped]:
    """Fill in the pools of disaggregated rows without numbers of workers from a row of the same run that has them.

    Parameters
    ----------
    found : sequence of Measurement or Skipped
        Rows of one file. One run is passed on several times there, with more and with less of its layout, and
        measured again: with the same demand, the same time between tokens within 1 % means the same pools.
    """
    whole: dict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    for one in found:
        if isinstance(one, Measurement) and one.decode is not None and one.accelerators is not None:
            whole[_demand(one)].append(one)
    return [_completed(one, whole) for one in found]


def suspect_speculation(found: Sequence[Measurement | Skipped]) -> list[Measurement | Skipped]:
    """Mark rows that are faster than another row of the same description as suspected of speculation.

    Parameters
    ----------
    found : sequence of Measurement or Skipped
        Rows of one file. Only those are marked whose speculation is not recorded and whose layout is known; they are
        compared to rows with as many requests at a time, or fewer, which a plain step serves no slower.
    """
    runs: dict[tuple[object, ...], list[tuple[float, float]]] = defaultdict(list)
    for one in found:
        if isinstance(one, Measurement) and one.tpot_seconds is not None and one.concurrency is not None:
            runs[_description(one)].append((one.concurrency, one.tpot_seconds))
    return [_suspected(one, runs) for one in found]


def _completed(one: Measurement | Skipped, whole: dict[tuple[object, ...], list[Measurement]]) -> Any:
    if isinstance(one, Skipped) or one.decode is None or one.accelerators is not None or one.tpot_seconds is None:
        return one
    for other in whole.get(_demand(one), ()):
        if other.tpot_seconds is not None and abs(one.tpot_seconds / other.tpot_seconds - 1) <= _SAME_RUN:
            remarks = (*one.remarks, f"pools of {other.id}, which is as fast")
            return replace(
                one, prefill=other.prefill, decode=other.decode, accelerators=other.accelerators, remarks=remarks
            )
    return one


def _suspected(one: Measurement | Skipped, runs: dict[tuple[object, ...], list[tuple[float, float]]]) -> Any:
    if isinstance(one, Skipped) or one.speculation != "unrecorded":
        return one
    if one.tpot_seconds is None or one.accelerators is None or one.concurrency is None:
        return one
    no_busier = [seconds for requests, seconds in runs[_description(one)] if requests <= one.concurrency]
    ratio = max(no_busier) / one.tpot_seconds
    if ratio < _FASTER:
        return one
    remark = f"{ratio:.1f} times as fast as a run of the same description that was no busier"
    return replace(one, speculation="suspected", remarks=(*one.remarks, remark))


def _traffic(one: Measurement) -> tuple[object, ...]:
    return (one.model, one.hardware, one.engine, one.isl, one.osl, one.load)


def _demand(one: Measurement) -> tuple[object, ...]:
    return (*_traffic(one), one.concurrency)


def _description(one: Measurement) -> tuple[object, ...]:
    layout = (one.tp, one.dp, one.pp, one.ep, one.prefill, one.decode)
    return (*_traffic(one), *layout, one.weights, one.kv, one.requests_per_second)
