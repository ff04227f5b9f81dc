"""Layouts of measured deployments, as far as the columns tell."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from inference_econ.calibration.measurements._record import Pool
from inference_econ.calibration.measurements._rows import Row, UnusableRowError

#: Degrees that a run was started with, in ids like ``..._c64_tp8_ep8_937``.
_STARTED_WITH = re.compile(r"_tp(\d+)(?:_0)?_ep(?:\d+|none)")


def layout(row: Row, prefix: str = "", *, concurrency: float | None = None) -> tuple[Pool, tuple[str, ...]]:
    """The layout in the columns of aiconfigurator, those of one pool if they have a prefix.

    Parameters
    ----------
    row : Row
        With ``tp_size``, and ``pp_size``, ``attention_dp_size``, ``moe_tp_size``, ``moe_ep_size`` as far as recorded.
    prefix : str
        ``prefill_`` or ``decode_``.
    concurrency : float, optional
        Requests of the whole server at a time; a ``batch_size`` below it is that of one attention rank [1].

    Returns
    -------
    Pool, tuple of str
        A single worker, and what was read into it: attention-DP is filled in from the experts' degrees, or from the
        batch of one rank, if it is not recorded.

    Notes
    -----
    The collection multiplies tp by ep where a run had both: its ``tp8_ep8`` on one machine of eight GPUs says
    ``moe_tp_size`` 8, ``moe_ep_size`` 8 and 64 ranks of attention. The same measurements stand in the same file with 8.
    """
    tp = row.count(f"{prefix}tp_size")
    pp = row.whole(f"{prefix}pp_size") or 1
    dp = row.whole(f"{prefix}attention_dp_size")
    moe_tp, ep = row.whole(f"{prefix}moe_tp_size") or 1, row.whole(f"{prefix}moe_ep_size")
    width = moe_tp * (ep or 1)
    remarks: list[str] = []
    if dp is None:
        tp, dp = _attention(tp, width, concurrency, row.number("batch_size"))
        if dp > 1:
            remarks.append(f"attention-DP {dp} is inferred")
    if moe_tp == ep and ep > 1 and tp * dp == width and 1 in (tp, dp) and _started_with(row) != width:
        remarks.append(f"{width} accelerators are {ep}: tp was multiplied by ep")
        tp, dp = (ep, 1) if dp == 1 else (1, ep)
    return Pool(workers=1, tp=tp, dp=dp, pp=pp, ep=ep), tuple(remarks)


def replicas(row: Row, concurrency: float) -> tuple[int, tuple[str, ...]]:
    """Number of servers that shared the requests of an aggregated row, and what was read into it.

    Where attention is recorded as not data-parallel, a ``batch_size`` below the concurrency is that of one of several
    servers.
    """
    batch = row.number("batch_size")
    if row.whole("attention_dp_size") != 1 or batch is None or batch >= concurrency:
        return 1, ()
    copies = concurrency / batch
    if copies != round(copies):
        raise UnusableRowError(
            f"{concurrency:g} requests at a time are no multiple of batch_size {batch:g}: how many servers there were "
            "is not recorded"
        )
    return round(copies), (f"{round(copies)} servers: batch_size {batch:g} of {concurrency:g} requests at a time",)


def pool(row: Row, prefix: str, concurrency: float | None = None) -> tuple[Pool, tuple[str, ...]]:
    """One pool of a disaggregated server, and what was read into it.

    Parameters
    ----------
    row : Row
        With the columns of that prefix.
    prefix : str
        ``prefill_`` or ``decode_``.
    concurrency : float, optional
        Requests that are in the pool at a time [1]: with the batch of one attention rank they give the number of
        workers, for want of a recorded one.
    """
    single, remarks = layout(row, prefix)
    workers, batch = row.whole(f"{prefix}num_workers"), row.number(f"{prefix}batch_size")
    if workers is None and concurrency is not None and batch is not None:
        workers = max(round(concurrency / (batch * single.dp * single.pp)), 1)
        remarks = (*remarks, f"{prefix}num_workers {workers} is inferred from the batch of one")
    return replace(single, workers=workers), remarks


def _attention(tp: int, width: int, concurrency: float | None, batch: float | None) -> tuple[int, int]:
    """Ranks of attention, and groups of them, if attention-DP is not recorded."""
    if width > tp and width % tp == 0:
        return tp, width // tp
    groups = concurrency / batch if concurrency and batch else 1.0
    if groups > 1 and groups == round(groups) and tp % round(groups) == 0:
        return tp // round(groups), round(groups)
    return tp, 1


def _started_with(row: Row) -> int | None:
    match = _STARTED_WITH.search(row.text("id"))
    return None if match is None else int(match[1])


@dataclass(frozen=True, slots=True)
class Degrees:
    """Accelerators, and the degrees as far as they are recorded."""

    accelerators: int
    tp: int | None
    dp: int | None
    pp: int | None
    ep: int | None


def degrees(row: Row, accelerators: int | None) -> Degrees:
    """Degrees in the columns ``n_gpus``, ``tp``, ``pp``, ``ep`` and ``dp``.

    Parameters
    ----------
    row : Row
        Of a file of points.
    accelerators : int or None
        What the name of the hardware says ("8x H100"), for want of ``n_gpus`` [1].

    Returns
    -------
    Degrees
        With dp filled in if tp is recorded, for replicas as for attention-DP.
    """
    tp, pp, ep, dp = (row.whole(column) for column in ("tp", "pp", "ep", "dp"))
    total = row.whole("n_gpus") or accelerators
    if total is None:
        if tp is None:
            raise UnusableRowError("the number of accelerators is not recorded")
        total = tp * (pp or 1) * (dp or 1)
    if tp is None:
        return Degrees(total, None, dp, pp, ep)
    pp = pp or 1
    if dp is None and total % (tp * pp) == 0:
        dp = total // (tp * pp)
    if tp * pp * (dp or 1) != total:
        raise UnusableRowError(f"tp {tp} x pp {pp} x dp {dp or 1} are not the {total} accelerators")
    return Degrees(total, tp, dp, pp, ep)
