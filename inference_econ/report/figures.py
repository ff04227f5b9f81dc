"""Figures of the published study, drawn with matplotlib; other results use Altair charts."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axis import XAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.records.files import check_picture, ending_of, whole_file
from inference_econ.report.charts.theme import DASHES
from inference_econ.studies.exhibits import Chart
from inference_econ.studies.results import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.ticker import Locator

#: Okabe and Ito's palette of eight colors for color-blind readers, without yellow, which is too light.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#999999")
#: Dash patterns of charts, in units of the line width, so that lines do not differ by color only.
_DASHES = tuple((0, [length / 2.0 for length in dashes]) for dashes in DASHES)
MARKERS = ("o", "s", "^", "D", "v", "X")
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "svg.hashsalt": "inference-econ",
    "svg.fonttype": "none",
    "legend.handlelength": 3.2,  # a whole period of each dash pattern
    "text.parse_math": False,  # a label may have two dollar signs
}
_TITLE_WIDTH = 92
_TITLE_SIZE = 10.5
#: Legend line length [characters], characters per inch, and characters of the marker before each label.
_LEGEND_WIDTH, _LEGEND_DENSITY, _LEGEND_SIGN = 41, 13.0, 10
_CHARTS_BESIDE = 3
#: Number of points above which points are drawn smaller [1].
_FEW_POINTS = 12
#: Omit dates, so that equal figures give equal files.
_UNDATED: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def chart_figure(chart: Chart, title: str) -> Figure:
    """Draw one chart with its title above and its legend below."""
    figure = Figure(figsize=(7.6, 5.4), layout="constrained")
    figure.suptitle("\n".join(textwrap.fill(line, _TITLE_WIDTH) for line in title.splitlines()), fontsize=_TITLE_SIZE)
    _legend_below(figure, _chart(figure.add_subplot(), replace(chart, title=""), _coloured([chart])))
    return figure


def charts_figure(charts: Sequence[Chart], title: str) -> Figure:
    """Draw charts side by side with one legend; equal labels have equal colors."""
    columns = min(len(charts), _CHARTS_BESIDE)
    rows = -(-len(charts) // columns)
    figure = Figure(figsize=(1.0 + 4.2 * columns, 0.8 + 4.0 * rows), layout="constrained")
    figure.suptitle(title, fontsize=_TITLE_SIZE)
    labels = _coloured(charts)
    drawn: dict[str, Any] = {}
    same = len({chart.y_label for chart in charts}) == 1
    places = list(figure.subplots(rows, columns, sharey=same, squeeze=False).flat)
    for axes in places[len(charts) :]:
        axes.remove()
    for index, (axes, chart) in enumerate(zip(places, charts, strict=False)):
        drawn |= _chart(axes, chart, labels)
        if same and index % columns:
            axes.set_ylabel("")
    _legend_below(figure, drawn)
    return figure


def _legend_below(figure: Figure, drawn: Mapping[str, Any]) -> None:
    """Draw the legend below the axes, with the largest number of columns that fits."""
    texts = [textwrap.fill(label, _LEGEND_WIDTH) for label in drawn]
    longest = max(len(line) for text in texts for line in text.splitlines())
    columns = int(figure.get_figwidth() * _LEGEND_DENSITY / (longest + _LEGEND_SIGN))
    columns = max(min(columns, len(texts), 4), 1)
    figure.legend(drawn.values(), texts, loc="outside lower center", ncols=columns, fontsize=9)


def _coloured(charts: Sequence[Chart]) -> list[str]:
    """Labels of all lines that need a separate color."""
    return list(dict.fromkeys(line.beside or line.label for chart in charts for line in chart.lines))


def _chart(axes: Axes, chart: Chart, labels: Sequence[str]) -> dict[str, Any]:
    """Draw the lines of a chart in the colors of their labels; return the artists by label."""
    drawn: dict[str, Any] = {}
    for line in chart.lines:
        index = labels.index(line.beside or line.label)
        style: dict[str, Any] = {"linestyle": _DASHES[index % len(_DASHES)]}
        if line.points:
            size = 6 if len(line.x) <= _FEW_POINTS else 3.5
            style = {"linestyle": "", "marker": MARKERS[index % len(MARKERS)], "markersize": size}
        (drawn[line.label],) = axes.plot(line.x, line.y, color=COLOURS[index % len(COLOURS)], **style)
    for (text, place), dash in zip(chart.marks.items(), cycle((":", "--", "-.")), strict=False):
        drawn[text] = axes.axvline(place, color="black", linewidth=0.8, linestyle=dash)
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        if name in chart.logarithmic:
            (axes.set_xscale if name == "x" else axes.set_yscale)("log")
            label_ticks(axis, "{:,.10g}", Decades())
    axes.set(title=chart.title, xlabel=chart.x_label, ylabel=chart.y_label)
    return drawn


def save(figure: Figure, paths: Sequence[Path | str]) -> None:
    """Write a figure to files atomically, with reproducible bytes.

    Raises
    ------
    InputError
        If a path cannot be written, or has no picture extension.
    """
    FigureCanvasAgg(figure)
    with rc_context(STYLE), warnings.catch_warnings():
        # A character that the font lacks appears as a box.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from")
        for path in map(check_picture, paths):
            ending = ending_of(path)
            # Draw before writing: a disk that fills up during a PDF does not raise an OSError.
            drawn = io.BytesIO()
            figure.savefig(drawn, format=ending.removeprefix("."), dpi=130, metadata=_UNDATED.get(ending))
            with whole_file(path) as temporary:
                temporary.write_bytes(drawn.getvalue())


def plot_frontiers(axes: Axes, curves: Sequence[Curve], title: str) -> None:
    """Plot cost against speed; curves to the right and below are better."""
    for index, curve in enumerate(curves):
        colour, dash = COLOURS[index % len(COLOURS)], _DASHES[index % len(_DASHES)]
        marker = "o" if len(curve.dollars) == 1 else None
        axes.plot(
            curve.tokens_per_second, curve.dollars, color=colour, linestyle=dash, marker=marker, label=curve.label
        )
    axes.set_yscale("log")
    axes.set_xlim(left=0)
    label_ticks(axes.yaxis, "${:g}", Decades())
    axes.set_xlabel("tokens per second per user")
    # The cost of services includes prefill; the cost of decode steps does not.
    services = any(isinstance(curve.frontier, ServiceFrontier) for curve in curves)
    axes.set_ylabel(f"US dollars per million output tokens{', prefill included' * services}")
    axes.set_title(title)


class Decades(LogLocator):
    """Ticks of a logarithmic axis at powers of ten.

    If few powers of ten are visible, ticks at 2 and 5, or at all digits, are added between them.
    """

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Positions of the ticks between two ends."""
        wide = isinstance(self.axis, XAxis)  # labels side by side need more space
        for digits, fewest in (((1.0,), 3 if wide else 4), ((1.0, 2.0, 5.0), 3), (range(1, 10), 2)):
            self.set_params(subs=digits)
            ticks = np.asarray(super().tick_values(vmin, vmax))
            if np.sum((ticks >= vmin) & (ticks <= vmax)) >= fewest:
                return ticks
        return MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(vmin, vmax)


def label_ticks(axis: Axis, form: str = "{:g}", locator: Locator | None = None) -> None:
    """Label the major ticks of an axis, and no minor ticks.

    Parameters
    ----------
    axis : matplotlib Axis
        Axis of a figure.
    form : str
        Format of a number.
    locator : Locator, optional
        Positions of the major ticks; None for the default.
    """
    if locator is not None:
        axis.set_major_locator(locator)
    axis.set_major_formatter(FuncFormatter(lambda value, _: form.format(value)))
    axis.set_minor_formatter(NullFormatter())
