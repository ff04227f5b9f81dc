"""Several frontiers in one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from inference_econ.report import caveats
from inference_econ.report.frontier import assumed, ends, frontier_record
from inference_econ.report.table import Table, bounded_frame, curve_frame, dollars, layout_label, size, source_records
from inference_econ.studies.results import Curve, Result

if TYPE_CHECKING:
    import pandas as pd

#: Speeds that a table shows, times powers of ten [tokens/s].
_ROUND = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
_MOST_SPEEDS = 5


def common_speeds(curves: Sequence[Curve]) -> list[float]:
    """Round speeds from the slowest to the fastest point of some frontiers [tokens/s per user]."""
    low = min(float(curve.tokens_per_second[0]) for curve in curves)
    high = max(float(curve.tokens_per_second[-1]) for curve in curves)
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    between = [speed for decade in decades for one in _ROUND if low <= (speed := one * 10.0**decade) <= high]
    if not between:
        return [high]
    chosen = np.linspace(0, len(between) - 1, min(_MOST_SPEEDS, len(between))).round().astype(int)
    return [between[index] for index in np.unique(chosen)]


def cost_at(curve: Curve, speed: float) -> float | None:
    """Cost of the cheapest point at or above a speed [USD per 1e6 tokens]; None if none is that fast."""
    enough: npt.NDArray[np.intp] = np.flatnonzero(curve.tokens_per_second >= speed)
    return float(curve.dollars[enough[0]]) if enough.size else None


def comparison_table(result: Result, speeds: Sequence[float]) -> Table:
    """One row per series: its cost at some speeds, and its preferred point.

    Parameters
    ----------
    result : Result
        From :func:`inference_econ.studies.compare.compare`.
    speeds : sequence of float
        [tokens/s per user]
    """
    curves = {curve.label: curve for curve in result.curves}
    columns = (
        "series",
        *(f"$ at {speed:g}" for speed in speeds),
        "fastest",
        "best",
        "$",
        "GPUs",
        "layout",
        "batch",
    )
    rows = []
    for label in _labels(result):
        if label in curves:
            rows.append((label, *_row(curves[label], speeds)))
        else:
            rows.append((label, *("-" for _ in speeds), "nothing fits", *("-" for _ in range(5))))
    notes = [
        "Speeds in tokens/s per user, $ per million output tokens of the cheapest deployment at or above a speed; "
        "best is the point that maximises speed^3 / cost."
    ]
    notes += [f"{label}: {reason}" for label, reason in result.missing.items()]
    notes += assumed({curve.label: curve.frontier for curve in result.curves if curve.frontier is not None})
    return Table(_title(result), columns, tuple(rows), tuple(notes))


def _labels(result: Result) -> list[str]:
    """The series in the order in which they were asked for."""
    return [series.label for series in getattr(result.scenario.ask, "series", ())]


def _title(result: Result) -> str:
    figure = result.scenario.figure
    return figure.title if figure is not None else result.scenario.name


def _row(curve: Curve, speeds: Sequence[float]) -> tuple[str, ...]:
    costs = (cost_at(curve, speed) for speed in speeds)
    assert curve.frontier is not None
    best = curve.frontier.preferred()
    return (
        *("-" if cost is None else dollars(cost) for cost in costs),
        f"{curve.tokens_per_second[-1]:.1f}",
        f"{best.tokens_per_second_per_user:.1f}",
        dollars(best.dollars_per_million_output_tokens),
        size(best.accelerators),
        layout_label(best.layout),
        size(best.batch),
    )


def comparison_record(result: Result, speeds: Sequence[float]) -> dict[str, object]:
    """All series as plain data: points, costs at some speeds and the preferred point, or why nothing fits."""
    curves = {curve.label: curve for curve in result.curves}
    series: list[dict[str, object]] = []
    for label in _labels(result):
        if label not in curves:
            series.append({"label": label, "points": [], "reason": result.missing[label]})
            continue
        front = curves[label].frontier
        assert front is not None
        record = frontier_record(front)
        record.pop("sources")
        costs = [{"tokens_per_second_per_user": speed, "dollars": cost_at(curves[label], speed)} for speed in speeds]
        best = caveats.bounded(front.preferred().record(), ends(front))
        series.append({"label": label, **record, "costs": costs, "preferred": best})
    return {"title": _title(result), "series": series, "sources": source_records(result.sources)}


def _curve_frame(curve: Curve) -> pd.DataFrame:
    assert curve.frontier is not None
    return bounded_frame(curve_frame([curve]), ends(curve.frontier))


def comparison_csv(result: Result) -> str:
    """All points of all series as CSV, one row each, and one row with the reason for a series that fits nowhere."""
    import pandas as pd

    frame = pd.concat([_curve_frame(curve) for curve in result.curves], ignore_index=True).assign(reason="")
    if result.missing:
        missing = pd.DataFrame({"series": list(result.missing), "reason": list(result.missing.values())})
        frame = pd.concat([frame, missing], ignore_index=True)
    return str(frame.to_csv(index=False, lineterminator="\n"))
