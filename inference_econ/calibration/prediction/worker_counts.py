"""How many workers a disaggregated server has, where a measurement does not say so."""

from __future__ import annotations

import math
from collections.abc import Sequence

from inference_econ.calibration.measurements import Measurement
from inference_econ.calibration.prediction import deployed
from inference_econ.inputs.assumptions import Assumptions

#: Sequences of an attention rank of decode at which the two pools are taken to be sized for each other [1]. Published
#: recipes for one model on one chip run 4 to 64 on a rank.
_FULL = 32.0
#: Fewer sequences than this on a rank are not worth a worker of their own [1].
_LEAST = 4.0
#: Share of their time that prefill workers are busy [1]: with more of it, prompts would queue for seconds.
_BUSY = 0.8
#: Prompts that a busy prefill worker reads together [1].
_TOGETHER = 8.0


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
    something to do; the prefill workers are as many as those need without being busy all the time. Of the shipped
    rows whose numbers are known, this has a median error of the time between tokens of 0.14 (known numbers: 0.02) and
    of the TTFT of 0.29 (0.17).
    """
    first = rows[0]
    assert first.prefill is not None and first.decode is not None
    ranks = first.decode.dp * first.decode.pp
    full = _FULL * ranks
    reader = deployed.workers(rows, first.prefill, assumptions, most=_TOGETHER).service(0)
    writer = deployed.workers(rows, first.decode, assumptions, most=max(full, 2.0)).service(0)
    step = float(writer.step_seconds(full))
    served = full / (reader.prefill_seconds + writer.requests.decode_steps * step)
    fed = 1.0 / (float(reader.shared_prefill_seconds(_TOGETHER)) * served)
    counts = []
    for row in rows:
        requests = row.concurrency or 1.0
        occupied = max(requests // (_LEAST * ranks), 1.0)
        writers = first.decode.workers or round(max(min(round(fed), occupied), 1.0))
        readers = first.prefill.workers or math.ceil(min(writers / fed / _BUSY, requests))
        counts.append((readers, writers))
    return counts
