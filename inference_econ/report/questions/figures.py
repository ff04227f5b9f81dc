"""Figures of scenarios and of the published study, drawn with matplotlib; other results use Altair charts."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axis import XAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import Bbox

from inference_econ._types import Array
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier
from inference_econ.records.files import check_picture, ending_of, whole_file
from inference_econ.report.charts.theme import DASHES
from inference_econ.report.questions.assess import assessment_chart
from inference_econ.studies.exhibits import Chart
from inference_econ.studies.results import BesideSeries, Curve, Result, SquareRootLaw

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
            label_ticks(axis, Decades(), "{:,.10g}")
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
    label_ticks(axes.yaxis, Decades(), "${:g}")
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


def label_ticks(axis: Axis, locator: Locator, form: str = "{:g}") -> None:
    """Label the major ticks of an axis, and no minor ticks.

    Parameters
    ----------
    axis : matplotlib Axis
        Axis of a figure.
    locator : Locator
        Positions of the major ticks.
    form : str
        Format of a number.
    """
    axis.set_major_locator(locator)
    axis.set_major_formatter(FuncFormatter(lambda value, _: form.format(value)))
    axis.set_minor_formatter(NullFormatter())


#: Maximum legend entries in a corner of a figure [1].
_CORNER_ENTRIES = 5


def draw(result: Result) -> Figure:
    """Draw the figure of a scenario.

    Parameters
    ----------
    result : Result
        Result of a scenario.

    Returns
    -------
    matplotlib.figure.Figure
        Figure for :func:`inference_econ.report.questions.figures.save`.

    Raises
    ------
    InputError
        If the result has no curves to draw.
    """
    result.check_figure()
    spec = result.scenario.figure
    title = spec.title if spec is not None else result.scenario.name
    with rc_context(STYLE):
        if result.assessment is not None:
            return chart_figure(assessment_chart(result.assessment), title)
        if result.charts:
            return charts_figure(result.charts, title)
        if result.panels:
            figure = Figure(figsize=(6.25 * len(result.panels), 6.4), layout="constrained")
            places = figure.subplots(1, len(result.panels), sharey=True, squeeze=False)[0]
            for axes, panel in zip(places, result.panels, strict=True):
                inner = panel.scenario.figure
                plot_frontiers(axes, panel.curves, inner.title if inner is not None else panel.scenario.name)
                _offers(axes, panel)
                axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, fontsize=8.5)
            _name_offers(figure, list(zip(places, result.panels, strict=True)))
            return figure
        figure = Figure(figsize=(7.6, 5.2), layout="constrained")
        axes = figure.add_subplot()
        if result.comparison is not None:
            _comparison(axes, result.comparison, title)
        else:
            plot_frontiers(axes, result.curves, title)
            _offers(axes, result)
            # Many series leave no free corner: their legend goes below the axes.
            if len(axes.get_legend_handles_labels()[1]) > _CORNER_ENTRIES:
                figure.legend(loc="outside lower center", ncols=3, fontsize=8.5)
            else:
                axes.legend()
        if spec is not None and spec.x is not None:
            axes.set_xlim(spec.x)
        if spec is not None and spec.y is not None:
            axes.set_ylim(spec.y)
        _name_offers(figure, [(axes, result)])
    return figure


def _offers(axes: Axes, result: Result) -> None:
    """Draw API offers in the colors of the frontiers that they are compared with, with one marker shape per day."""
    days = list(dict.fromkeys(beside.offer.date for beside in result.offers))
    for beside in result.offers:
        marker = MARKERS[days.index(beside.offer.date) % len(MARKERS)]
        place = beside.tokens_per_second, beside.offer.dollars_per_million_output_tokens
        colour = _colour(result, beside)
        axes.plot(*place, marker, color=colour, markersize=5.5, markeredgecolor="black", markeredgewidth=0.6)
    for day, marker in zip(days, MARKERS, strict=False):
        axes.plot([], [], marker, color="white", markeredgecolor="black", label=f"offered on {day}")


def _name_offers(figure: Figure, panels: Sequence[tuple[Axes, Result]]) -> None:
    """Write the names of providers next to their offers, after the layout of the figure is final."""
    if not any(result.offers for _, result in panels):
        return
    figure.draw_without_rendering()
    for axes, result in panels:
        points = [
            Named(
                beside.offer.provider,
                (beside.tokens_per_second, beside.offer.dollars_per_million_output_tokens),
                _colour(result, beside),
            )
            for beside in sorted(result.offers, key=lambda beside: beside.tokens_per_second)
        ]
        write_names(axes, points)


def _colour(result: Result, beside: BesideSeries) -> str:
    """Color of the frontier that an API offer is compared with."""
    labels = [curve.label for curve in result.curves]
    return COLOURS[labels.index(beside.series) % len(COLOURS)]


def _comparison(axes: Axes, comparison: SquareRootLaw, title: str) -> None:
    parameters, milliseconds = comparison.parameters / 1e9, comparison.measured * 1e3
    line = np.geomspace(parameters.min() / 1.5, parameters.max() * 1.5, 50)
    law = milliseconds[0] * np.sqrt(line / parameters[0])
    axes.plot(line, law, color=COLOURS[0], label="square-root law (19) through the smallest model")
    axes.plot(parameters, milliseconds, "o", color=COLOURS[1], label="measured (Pope et al. 2022)")
    for label, x, y in zip(comparison.labels, parameters, milliseconds, strict=True):
        axes.annotate(f"{label}: {y:g} ms", (x, y), xytext=(-8, 6), textcoords="offset points", fontsize=9, ha="right")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(left=line.min() / 4)
    for axis in (axes.xaxis, axes.yaxis):
        label_ticks(axis, Decades())
    axes.set_xlabel("parameters (billions)")
    axes.set_ylabel("milliseconds per token")
    axes.set_title(title)
    axes.legend(loc="lower right")


#: Directions in which a name may lie from its point, with the alignment of its text.
_ACROSS = {1: "left", -1: "right", 0: "center"}


_ALONG = {1: "bottom", -1: "top", 0: "center"}


#: Step along a curve for overlap checks, margin around a name, and half size of a point [pixels].
_STEP, _AROUND, _POINT = 2.0, 3.0, 4.0
#: Penalties of a position for a name [1]: for covering another name, a point or the edge of the axes, and for covering
#: one step of a curve. A distance of one typographic point from the named point has the penalty 1.
_COVERED, _CROSSED = 400.0, 4.0

_DISTANCES = (5.0, 14.0, 24.0, 36.0)


_FONT_SIZE = 7.5


class Named(NamedTuple):
    """Point of a figure with a name."""

    name: str
    """Text next to the point."""
    place: tuple[float, float]
    """Position of the point in axis units."""
    colour: str
    """Color of the name."""


def write_names(axes: Axes, points: Sequence[Named]) -> None:
    """Write each name at the position with the least overlap. A thin line connects a distant name to its point.

    The limits and the layout of the figure must be final.
    """
    points_of_curves = [_stepped(axes.transData.transform(np.asarray(line.get_xydata()))) for line in axes.lines]
    curves = np.concatenate([*points_of_curves, np.empty((0, 2))])
    places = [axes.transData.transform(point.place) for point in points]
    taken = [Bbox.from_extents(*(place - _POINT), *(place + _POINT)) for place in places]
    for index, (point, place) in enumerate(zip(points, places, strict=True)):
        text = axes.text(*point.place, point.name, fontsize=_FONT_SIZE)
        size = np.array(text.get_window_extent().size)
        text.remove()
        others = [*taken[:index], *taken[index + 1 :]]
        tried = {}
        for distance, right, up in product(_DISTANCES, _ACROSS, _ALONG):
            if not right and not up:
                continue
            away = np.array([right, up]) * distance
            middle = place + away * axes.figure.dpi / 72.0 + np.array([right, up]) * size / 2.0
            box = Bbox.from_extents(*(middle - size / 2.0 - _AROUND), *(middle + size / 2.0 + _AROUND))
            covered = sum(box.overlaps(other) for other in others)
            covered += not (axes.bbox.contains(*box.min) and axes.bbox.contains(*box.max))
            crossed = int(np.all((curves >= box.min) & (curves <= box.max), axis=1).sum())
            tried[right, up, distance] = _CROSSED * crossed + _COVERED * covered + distance, box
        (right, up, distance), (_, box) = min(tried.items(), key=lambda item: item[1][0])
        leader = {"arrowstyle": "-", "color": point.colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
        axes.annotate(
            point.name,
            point.place,
            xytext=(distance * right, distance * up),
            textcoords="offset points",
            fontsize=_FONT_SIZE,
            color=point.colour,
            horizontalalignment=_ACROSS[right],
            verticalalignment=_ALONG[up],
            arrowprops=leader if distance > _DISTANCES[0] else None,
        )
        taken.append(box)


def _stepped(line: Array) -> Array:
    """Resample a line to points at equal distances, shape (n, 2) [pixels]."""
    if len(line) < 2:
        return line
    lengths = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
    along = np.arange(0.0, lengths[-1], _STEP)
    return np.column_stack([np.interp(along, lengths, line[:, axis]) for axis in (0, 1)])
