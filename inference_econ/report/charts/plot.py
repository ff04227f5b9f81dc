"""Data of line charts and tornado charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from inference_econ.studies.exhibits import Chart, ChartLine


@dataclass(frozen=True, slots=True)
class Band:
    """Region between two edges; NaN values are left out.

    Attributes
    ----------
    x, y, other_x, other_y : sequence of float
        Edges, each from left to right.
    """

    x: Sequence[float]
    y: Sequence[float]
    other_x: Sequence[float]
    other_y: Sequence[float]


@dataclass(frozen=True, slots=True)
class PlotSeries(ChartLine):
    """Line with its band, or points that belong to a line. The shape of points has one legend entry for all lines.

    Attributes
    ----------
    band : Band or None
        Interval around the line; for points, from the left to the right end of each.
    details : mapping of str to sequence
        Further hover values of each point by name; as long as the line.
    hollow : bool
        True for points that are drawn as outlines.
    """

    band: Band | None = None
    details: Mapping[str, Sequence[float | str | None]] = field(default_factory=dict)
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class Plot(Chart):
    """Series over one pair of axes.

    Attributes
    ----------
    bands : str
        Legend entry of the bands.
    from_zero : bool
        True if the x axis starts at zero.
    promises : mapping of str to float
        Horizontal lines by legend entry.
    dollars : str
        Axes in dollars per tokens, which are proportional to the price of a GPU: "", "x", "y" or "xy".
    """

    lines: tuple[PlotSeries, ...]
    bands: str = ""
    from_zero: bool = False
    promises: Mapping[str, float] = field(default_factory=dict)
    dollars: str = ""


@dataclass(frozen=True, slots=True)
class TornadoBar:
    """Effect of one end of the range of an input.

    Attributes
    ----------
    name, value : str
        Display name and value of the input.
    end : str
        Legend entry of the end.
    factor : float
        Result at that end divided by the current result [1]; NaN if there is none.
    """

    name: str
    value: str
    end: str
    factor: float


@dataclass(frozen=True, slots=True)
class Tornado:
    """Bars of inputs around the current result.

    Attributes
    ----------
    title, label : str
        Title, and axis label.
    ends : (str, str)
        Legend entries for less and more of an input.
    bars : sequence of TornadoBar
        Two per input, from the top.
    """

    title: str
    label: str
    ends: tuple[str, str]
    bars: Sequence[TornadoBar]
