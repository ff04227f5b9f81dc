"""Data of charts of lines and of tornados, before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from inference_econ.studies.exhibits import Chart, ChartLine


@dataclass(frozen=True, slots=True)
class Band:
    """The region between two edges; values that are NaN are left out.

    Attributes
    ----------
    x, y, other_x, other_y : sequence of float
        The edges, each from left to right.
    """

    x: Sequence[float]
    y: Sequence[float]
    other_x: Sequence[float]
    other_y: Sequence[float]


@dataclass(frozen=True, slots=True)
class PlotSeries(ChartLine):
    """A line with what is known around it, or points beside one.

    Attributes
    ----------
    band : Band or None
        Where it may lie.
    beside : str
        Points only: the label of the line that they belong to, whose colour they have; they are told by their shape,
        which the legend shows once for all lines.
    details : mapping of str to sequence
        What else is said of each point when somebody points at it, numbers or texts by name; as long as the line.
    """

    band: Band | None = None
    beside: str = ""
    details: Mapping[str, Sequence[float | str | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plot(Chart):
    """Series over one pair of axes.

    Attributes
    ----------
    bands : str
        What the legend says of the bands.
    from_zero : bool
        The x axis begins at zero.
    promises : mapping of str to float
        Horizontal lines by what the legend says of them.
    dollars : str
        Axes of dollars per tokens, which are in proportion to the price of a chip: "", "x", "y" or "xy".
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
        The input and its value there, for people.
    end : str
        Which end: an entry of the legend.
    factor : float
        The answer there over what it is [1]; NaN where there is none.
    """

    name: str
    value: str
    end: str
    factor: float


@dataclass(frozen=True, slots=True)
class Tornado:
    """Bars of inputs around what an answer is.

    Attributes
    ----------
    title, label : str
        Above the bars, and of the axis.
    ends : (str, str)
        What the legend says of less and of more of an input.
    bars : sequence of TornadoBar
        Two of each input, from the top.
    """

    title: str
    label: str
    ends: tuple[str, str]
    bars: Sequence[TornadoBar]
