"""Data of pictures of parts: waterfalls on their way to a whole, and the operators of a step on a roofline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from inference_econ.answers.explain import Explanation
from inference_econ.engine import OperatorCosts, bounds
from inference_econ.records.texts import layout_label
from inference_econ.report.headings import step_heading


@dataclass(frozen=True, slots=True)
class WaterfallBar:
    """A part of a whole.

    Attributes
    ----------
    name, text : str
        What it is, and how much, for people.
    start, length : float
        The parts before it, and itself, in one unit.
    """

    name: str
    start: float
    length: float
    text: str


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Parts on their way to the whole.

    Attributes
    ----------
    title, x_label : str
        Units are part of the label.
    bars : sequence of WaterfallBar
        From the top.
    whole, text : str
        What the whole is called, and how much it is.
    likely : tuple of float or None
        Where a measured whole probably lies; None where nobody knows.
    """

    title: str
    x_label: str
    bars: Sequence[WaterfallBar]
    whole: str
    text: str
    likely: tuple[float, float] | None = None

    @property
    def band(self) -> str:
        """Entry of a legend for where a measured whole probably lies."""
        return f"{100 * bounds.LEVEL:.0f} % of measured values"

    @property
    def total(self) -> float:
        """The whole."""
        return self.bars[-1].start + self.bars[-1].length


def waterfall_bars(parts: Mapping[str, float], text: Callable[[str, float], str]) -> list[WaterfallBar]:
    """Parts, each behind the ones before it; those that are nothing are left out, and a negative one leads back.

    Parameters
    ----------
    parts : mapping of str to float
        By the names that people read, in one unit.
    text : callable
        How much a part is, for people.
    """
    shown = {name: value for name, value in parts.items() if value}
    starts = accumulate(shown.values(), initial=0.0)
    return [
        WaterfallBar(name, start, value, text(name, value))
        for (name, value), start in zip(shown.items(), starts, strict=False)
    ]


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """An operator of a step on the roofline of a chip, all rows of its name together.

    Attributes
    ----------
    name, unit, bound : str
        The operator, the maths unit that it runs on, and what takes longest of it.
    flop_per_byte : float
        Arithmetic intensity [FLOP/B].
    flops_per_second : float
        Achieved over the operator's time, network and launches included [FLOP/s].
    share : float
        Of the step [1].
    """

    name: str
    unit: str
    bound: str
    flop_per_byte: float
    flops_per_second: float
    share: float


@dataclass(frozen=True, slots=True)
class RooflinePicture:
    """The operators of a step and what the chip could do.

    Attributes
    ----------
    title : str
        Above the picture.
    bytes_per_second : float
        Memory bandwidth of a chip [B/s].
    peaks : mapping of str to float
        Of the maths units in use [FLOP/s].
    points : sequence of RooflinePoint
        Largest share first.
    left_out : float
        Share of the step in operators without arithmetic or memory traffic, and outside of operators [1].
    """

    title: str
    bytes_per_second: float
    peaks: Mapping[str, float]
    points: Sequence[RooflinePoint]
    left_out: float


def step_waterfall(explanation: Explanation, parts: Mapping[str, float]) -> Waterfall:
    """The parts of a step, largest first.

    Parameters
    ----------
    explanation : Explanation
        The step.
    parts : mapping of str to float
        By the names that people read [s].
    """
    total = 1e3 * explanation.seconds

    def text(_: str, value: float) -> str:
        return f"{value:.3g} ms, {100 * value / total:.1f} %"

    largest = {name: 1e3 * seconds for name, seconds in sorted(parts.items(), key=lambda item: -item[1])}
    title, bars = f"Where does the time of a step go?\n{_setting(explanation)}", waterfall_bars(largest, text)
    return Waterfall(title, "milliseconds", bars, "step", text("", total), _likely(explanation))


def _likely(explanation: Explanation) -> tuple[float, float] | None:
    """Interval of a measured step of decode [ms]; None where nobody knows."""
    if explanation.prompt is not None:
        return None
    (instances,), total = explanation.subjects(), 1e3 * explanation.seconds
    around = bounds.around(instances, "tpot")
    return None if around is None else (total * around.low, total * around.high)


def roofline(explanation: Explanation) -> RooflinePicture:
    """The operators of a step on the roofline of its chip."""
    setup, groups = explanation.setup, _by_name(explanation.operators)
    points = [_point(name, rows, explanation.seconds) for name, rows in groups.items() if _can_be_drawn(rows)]
    units = dict.fromkeys(point.unit for point in points)
    return RooflinePicture(
        f"What keeps the operators of a step from the chip's peaks?\n{_setting(explanation)}",
        setup.hardware.hbm_bytes_per_second,
        {unit: setup.peaks[unit] for unit in units},
        sorted(points, key=lambda point: -point.share),
        max(1.0 - sum(point.share for point in points), 0.0),
    )


def _by_name(operators: Sequence[OperatorCosts]) -> dict[str, list[OperatorCosts]]:
    """Rows of one name: the same operator in layers of different kinds."""
    groups: dict[str, list[OperatorCosts]] = {}
    for row in operators:
        groups.setdefault(row.name, []).append(row)
    return groups


def _can_be_drawn(rows: Sequence[OperatorCosts]) -> bool:
    return sum(row.flop for row in rows) > 0.0 and sum(row.moved_bytes for row in rows) > 0.0


def _point(name: str, rows: Sequence[OperatorCosts], step_seconds: float) -> RooflinePoint:
    flop, seconds = sum(row.flop for row in rows), sum(row.seconds for row in rows)
    slowest = max(rows, key=lambda row: row.seconds)
    moved = sum(row.moved_bytes for row in rows)
    return RooflinePoint(name, slowest.unit, slowest.bound, flop / moved, flop / seconds, seconds / step_seconds)


def _setting(explanation: Explanation) -> str:
    """The step, its traffic and its deployment in words."""
    return f"{step_heading(explanation)}\n{layout_label(explanation.layout)}, batch {explanation.batch:g}"
