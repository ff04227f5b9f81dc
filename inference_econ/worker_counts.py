"""How many workers a disaggregated server has, where a measurement does not say so (floor 6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from inference_econ import instances
from inference_econ.measurements import Measurement
from inference_econ.spec.assumptions import Assumptions

#: Sequences of an attention rank of decode at which the two pools are taken to be sized for each other [1]. Published
#: recipes for one model on one chip run 4 to 64 on a rank, and size the pools for the upper end.
_FULL = 64.0
#: Fewer sequences than this on a rank are not worth a worker of their own [1].
_LEAST = 4.0


def assumed(rows: Sequence[Measurement], assumptions: Assumptions) -> list[tuple[int, int]]:
    """Workers for prefill and for decode, for each row, that a sensible operator would have.

    Parameters
    ----------
    rows : sequence of Measurement
        Of one disaggregated deployment; a number that is recorded is kept.
    assumptions : Assumptions
        To predict them under.

    Returns
    -------
    list of (int, int)
        For prefill and for decode, at least one of each [1].

    Notes
    -----
    One prefill worker gets as many decode workers as take what it reads when they are full, but no more than have
    something to do; if even one decode worker asks for more, the prefill workers are as many as that needs, but no
    more than the prompts that come keep busy. Of the shipped rows whose numbers are known, this has a median error of
    the time between tokens of 0.10 (known numbers: 0.03, one of each: 0.53) and of the TTFT of 0.72 (0.48, 0.71).
    """
    first = rows[0]
    assert first.prefill is not None and first.decode is not None
    ranks = first.decode.dp * first.decode.pp
    full = _FULL * ranks
    reader = instances.worker(rows, replace(first.prefill, workers=1), assumptions)
    busy = replace(first, concurrency=max(full, 2.0))
    writer = instances.worker([busy], replace(first.decode, workers=1), assumptions)

    def completed(batch: float, writers: int) -> float:
        step = float(np.interp(batch, writer.batch, writer.decode_seconds))
        return writers * batch / (reader.prefill_seconds + writer.requests.decode_steps * step)

    fed = 1.0 / (reader.prefill_busy_seconds * completed(full, 1))
    found = []
    for row in rows:
        requests = row.concurrency or 1.0
        occupied = max(requests // (_LEAST * ranks), 1.0)
        writers = first.decode.workers or round(max(min(round(fed), occupied), 1.0))
        busy_readers = math.ceil(completed(requests / writers, writers) * reader.prefill_busy_seconds)
        found.append((first.prefill.workers or max(min(round(writers / fed), busy_readers), 1), writers))
    return found
