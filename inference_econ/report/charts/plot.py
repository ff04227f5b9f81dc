"""Data of line charts and of tornado charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from inference_econ.studies.exhibits import Chart, ChartLine


@dataclass(frozen=True, slots=True)
class Band:
    """Band in a line chart: the region between two edges. Points with NaN are left out.

    Attributes
    ----------
    x, y, other_x, other_y : sequence of float
        Coordinates of the two edges, each from left to right.
    """

    x: Sequence[float]
    y: Sequence[float]
    other_x: Sequence[float]
    other_y: Sequence[float]


@dataclass(frozen=True, slots=True)
class PlotSeries(ChartLine):
    """One line of a chart with its band, or points that belong to the line with the same label.

    One legend entry explains the shape of points for all lines.

    Attributes
    ----------
    band : Band or None
        Interval around the line; for points, from the left end to the right end of each interval.
    details : mapping of str to sequence
        Further hover values by name, with one value per point.
    hollow : bool
        True for points that are drawn as outlines.
    """

    band: Band | None = None
    details: Mapping[str, Sequence[float | str | None]] = field(default_factory=dict)
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class Plot(Chart):
    """Data of a line chart: lines, points and bands in one coordinate system.

    Attributes
    ----------
    bands : str
        Legend entry that explains the bands.
    from_zero : bool
        True if the x axis starts at zero.
    promises : mapping of str to float
        SLOs that are drawn as horizontal lines, by legend entry.
    dollars : str
        Axes that show dollars per token: "", "x", "y" or "xy". Their values are proportional to the price of a GPU.
    """

    lines: tuple[PlotSeries, ...]
    bands: str = ""
    from_zero: bool = False
    promises: Mapping[str, float] = field(default_factory=dict)
    dollars: str = ""


@dataclass(frozen=True, slots=True)
class TornadoBar:
    """Bar of a tornado chart: the effect on a result if one input moves to one end of its range.

    Attributes
    ----------
    name, value : str
        Display name and value of the input.
    end : str
        Legend entry for the end of the range that the bar shows.
    factor : float
        Result at this end divided by the current result [1]; NaN without a result.
    """

    name: str
    value: str
    end: str
    factor: float


@dataclass(frozen=True, slots=True)
class Tornado:
    """Data of a tornado chart, whose bars show the effect of each input on the current result.

    Attributes
    ----------
    title, label : str
        Title, and axis label.
    ends : (str, str)
        Legend entries for a smaller and for a larger input.
    bars : sequence of TornadoBar
        Two bars per input, from the top.
    """

    title: str
    label: str
    ends: tuple[str, str]
    bars: Sequence[TornadoBar]
