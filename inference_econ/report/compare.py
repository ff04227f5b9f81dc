"""Several frontiers in one table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from inference_econ.answers.serving_frontier import ServiceFrontier, ServicePoint
from inference_econ.inputs import catalog
from inference_econ.report import bands, caveats
from inference_econ.report.charts.plot import Plot
from inference_econ.report.curves import (
    assumed,
    curve_details,
    curve_record,
    curves_title,
    measured_lengths,
    picture_title,
    stacked,
    warned,
)
from inference_econ.report.frontier import DECODED, PREFILL_TOO
from inference_econ.report.page import Page
from inference_econ.report.record import source_records
from inference_econ.report.scenario import curve_frame
from inference_econ.report.service import milliseconds
from inference_econ.report.serving_frontier import COUNTED, MEANS
from inference_econ.report.speed_cost import curve_line, speed_cost_chart
from inference_econ.report.startable import with_engines
from inference_econ.report.table import Table, amount, dollars, layout_label, size
from inference_econ.search import Point
from inference_econ.studies.results import Curve, Result
from inference_econ.studies.speeds import common_speeds

if TYPE_CHECKING:
    import pandas as pd

    from inference_econ.report.charts import AnyChart

#: Chips whose prices have a line of the title each.
_PRICE_LINES = 2


@dataclass(frozen=True)
class ComparisonPage(Page):
    """Several frontiers, ready to be shown.

    Attributes
    ----------
    result : Result
        From :func:`inference_econ.studies.compare.compare`.
    wanted_speeds : sequence of float
        Columns of the table, ascending [tokens/s per user]; round ones if none is given.
    """

    result: Result
    wanted_speeds: Sequence[float] = ()

    @property
    def speeds(self) -> Sequence[float]:
        """Columns of the table [tokens/s per user]."""
        return self.wanted_speeds or common_speeds([curve.tokens_per_second for curve in self.result.curves])

    def tables(self) -> Sequence[Table]:
        """One row per series."""
        return (comparison_table(self.result, self.speeds),)

    def record(self) -> object:
        """Every series with its points."""
        return comparison_record(self.result, self.speeds)

    def frame(self) -> pd.DataFrame:
        """Every point of every series."""
        return comparison_frame(self.result)

    def charts(self) -> Mapping[str, AnyChart]:
        """The frontiers."""
        from inference_econ.report import charts

        return {"frontiers": charts.line_chart(comparison_chart(self.result))}


def cost_at(curve: Curve, speed: float) -> float | None:
    """Cost of the cheapest point at or above a speed [USD per 1e6 tokens]; None if none is that fast."""
    place = _place_at(curve, speed)
    return None if place is None else float(curve.dollars[place])


def _place_at(curve: Curve, speed: float) -> int | None:
    """The cheapest point at or above a speed."""
    enough: npt.NDArray[np.intp] = np.flatnonzero(curve.tokens_per_second >= speed)
    return int(enough[0]) if enough.size else None


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
    fronts = {label: curve.frontier for label, curve in curves.items() if curve.frontier is not None}
    services = any(isinstance(front, ServiceFrontier) for front in fronts.values())
    last = ("in flight", "TTFT ms") if services else ("batch",)
    columns = (
        "series", *(f"$ at {speed:g}" for speed in speeds), "fastest", "best", "$", "GPUs", "layout", *last,
    )  # fmt: skip
    rows = []
    for label in _labels(result):
        if label in curves:
            rows.append((label, *_row(curves[label], speeds)))
        else:
            rows.append((label, *("-" for _ in speeds), "nothing fits", *("-" for _ in (*range(4), *last))))
    notes = [
        "$ per million output tokens at a speed in tokens/s per user; best: the point that maximises speed^3 / cost."
        + (f" {COUNTED}" if services else ""),
        *(f"{label}: {reason}" for label, reason in result.missing.items()),
        *warned(fronts),
    ]
    why = [
        f"$ at a speed: of the cheapest deployment that is as fast or faster. {MEANS if services else DECODED}",
        *assumed(fronts),
    ]
    least = (*last, "engine", "fastest", "GPUs", *(f"$ at {speed:g}" for speed in (*speeds[3:], *speeds[1:2])))
    table = Table(curves_title([*fronts.values()]), columns, tuple(rows), tuple(notes), tuple(why), least)
    shown = {label: front.preferred().layout for label, front in fronts.items()}
    setups = [front.setup for front in fronts.values()]
    return with_engines(table, [shown.get(label, {}) for label in _labels(result)], setups)


def _labels(result: Result) -> list[str]:
    """The series in the order in which they were asked for."""
    return [series.label for series in getattr(result.scenario.ask, "series", ())]


def _row(curve: Curve, speeds: Sequence[float]) -> tuple[str, ...]:
    costs = (cost_at(curve, speed) for speed in speeds)
    assert curve.frontier is not None
    best = curve.frontier.preferred()
    return (
        *("-" if cost is None else dollars(cost) for cost in costs),
        amount(float(curve.tokens_per_second[-1])),
        amount(best.tokens_per_second_per_user),
        dollars(best.dollars_per_million_output_tokens),
        size(best.accelerators),
        layout_label(best.layout),
        *_load_cells(best),
    )


def _load_cells(best: ServicePoint | Point) -> tuple[str, ...]:
    """How full the preferred point is, and how long users of a service wait there."""
    if isinstance(best, ServicePoint):
        return (f"{best.concurrency:.1f}", milliseconds(best.ttft_seconds))
    return (size(best.batch),)


def comparison_chart(result: Result) -> Plot:
    """The frontiers to be drawn, where measured values lie, and measured servers like them."""
    from inference_econ.report.measured_points import Drawn, measured_lines

    fronts = {_readable(curve.label): curve.frontier for curve in result.curves if curve.frontier is not None}
    shown = bands.are_shown(len(fronts))
    lines = [
        curve_line(label, front.axes(), front.ends() if shown else None, curve_details(front))
        for label, front in fronts.items()
    ]
    drawn = [
        Drawn(label, front.setup, lengths)
        for label, front in fronts.items()
        if shown and (lengths := measured_lengths(front)) is not None
    ]
    services = any(isinstance(front, ServiceFrontier) for front in fronts.values())
    lines += measured_lines(drawn, Drawn.dollars_per_million_output_tokens, "" if services else PREFILL_TOO)
    title = picture_title(list(fronts.values()))
    return speed_cost_chart(title, lines, [front.setup for front in fronts.values()])


def _readable(label: str) -> str:
    """The label of a series, with titles in the place of names in the catalogue."""
    return "".join(map(_titled, re.split("(, | on )", label)))


def _titled(part: str) -> str:
    if part in catalog.names("hardware"):
        return catalog.hardware(part).name
    return catalog.model(part).name if part in catalog.names("models") else part


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
        record = curve_record(front)
        record.pop("sources")
        costs = [_cost_record(curves[label], speed) for speed in speeds]
        best = caveats.bounded(front.preferred().record(), front.ends_at(front.preferred_index()))
        series.append({"label": label, **record, "costs": costs, "preferred": best})
    fronts = [curve.frontier for curve in result.curves if curve.frontier is not None]
    return {"title": curves_title(fronts), "series": series, "sources": source_records(result.sources)}


def _cost_record(curve: Curve, speed: float) -> dict[str, object]:
    """The cost of a speed as plain data, and how far off that of its point may be."""
    place = _place_at(curve, speed)
    assert curve.frontier is not None
    ends = (None, None) if place is None else curve.frontier.ends_at(place)["dollars_per_million_output_tokens"]
    return caveats.bounded({"tokens_per_second_per_user": speed, "dollars": cost_at(curve, speed)}, {"dollars": ends})


def comparison_frame(result: Result) -> pd.DataFrame:
    """All points of all series, one row each, and one row with the reason for a series that fits nowhere."""
    import pandas as pd

    points = [_bounded(curve).assign(reason="") for curve in result.curves]
    if not result.missing:
        return stacked(points)
    missing = pd.DataFrame({"series": list(result.missing), "reason": list(result.missing.values())})
    return stacked([*points, missing])


def _bounded(curve: Curve) -> pd.DataFrame:
    """Points of a curve, and how far off they may be."""
    import pandas as pd

    assert curve.frontier is not None
    return pd.DataFrame(caveats.bounded(dict(curve_frame(curve)), curve.frontier.ends()))
