"""Results as pictures; the only module that knows matplotlib."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.report.files import check_picture, ending_of, whole_file
from inference_econ.search import Frontier
from inference_econ.studies.exhibits import Chart
from inference_econ.studies.results import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Okabe and Ito's palette: eight colours that colour-blind readers can tell apart (yellow left out: too light).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#999999")
_DASHES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D")
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "svg.hashsalt": "inference-econ",
    "svg.fonttype": "none",
    "text.parse_math": False,  # a label may hold two dollar signs
}
_TITLE_WIDTH = 76
_CHARTS_BESIDE = 3
#: A date in the file would make it another file every time.
_UNDATED: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def draw_frontier(front: Frontier, path: Path | str, title: str) -> None:
    """Draw one frontier, its preferred point marked.

    Parameters
    ----------
    front : Frontier
        The frontier.
    path : Path or str
        Where to, ending in .svg, .png or .pdf.
    title : str
        Above the axes.

    Raises
    ------
    InputError
        If the path cannot be written.
    """
    curve = Curve(
        front.setup.model.name, front.tokens_per_second, front.dollars, front.accelerators, front.batch, front
    )
    with rc_context(STYLE):
        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        axes = figure.add_subplot()
        plot_frontiers(axes, [curve], textwrap.fill(title, _TITLE_WIDTH))
        axes.plot(curve.tokens_per_second, curve.dollars, ".", color=COLOURS[0], markersize=4)
        best = front.preferred_index()
        axes.plot(curve.tokens_per_second[best], curve.dollars[best], "o", color="black", label="largest speed³ / cost")
        axes.legend()
        save(figure, [Path(path)])


def draw_curves(curves: Sequence[Curve], path: Path | str, title: str) -> None:
    """Draw several frontiers in one picture.

    Parameters
    ----------
    curves : sequence of Curve
        The frontiers.
    path : Path or str
        Where to, ending in .svg, .png or .pdf.
    title : str
        Above the axes.

    Raises
    ------
    InputError
        If the path cannot be written.
    """
    with rc_context(STYLE):
        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        axes = figure.add_subplot()
        plot_frontiers(axes, curves, textwrap.fill(title, _TITLE_WIDTH))
        axes.legend()
        save(figure, [Path(path)])


def draw_chart(chart: Chart, path: Path | str) -> None:
    """Draw one chart.

    Parameters
    ----------
    chart : Chart
        Lines over one pair of axes.
    path : Path or str
        Where to, ending in .svg, .png or .pdf.

    Raises
    ------
    InputError
        If the path cannot be written.
    """
    with rc_context(STYLE):
        save(chart_figure(chart, chart.title), [Path(path)])


def chart_figure(chart: Chart, title: str) -> Figure:
    """One chart under a title."""
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.add_subplot()
    drawn = _chart(axes, chart, [line.label for line in chart.lines])
    axes.set_title(textwrap.fill(title, _TITLE_WIDTH))
    axes.legend(drawn.values(), drawn.keys())
    return figure


def draw_charts(charts: Sequence[Chart], path: Path | str, title: str) -> None:
    """Draw charts side by side.

    Parameters
    ----------
    charts : sequence of Chart
        Lines over axes.
    path : Path or str
        Where to, ending in .svg, .png or .pdf.
    title : str
        Above all.

    Raises
    ------
    InputError
        If the path cannot be written.
    """
    with rc_context(STYLE):
        figure = charts_figure(charts, textwrap.fill(title, _TITLE_WIDTH * min(len(charts), _CHARTS_BESIDE) // 2))
        for axes in figure.axes:
            if axes.get_yscale() == "log":
                axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if _decades(axes) < 3 else (1.0,)))
        save(figure, [path])


def charts_figure(charts: Sequence[Chart], title: str) -> Figure:
    """Charts side by side under one legend; equal labels have equal colours."""
    columns = min(len(charts), _CHARTS_BESIDE)
    rows = -(-len(charts) // columns)
    figure = Figure(figsize=(1.0 + 4.2 * columns, 0.8 + 4.0 * rows), layout="constrained")
    figure.suptitle(title)
    labels = list(dict.fromkeys(line.label for chart in charts for line in chart.lines))
    drawn: dict[str, Any] = {}
    same = len({chart.y_label for chart in charts}) == 1
    places = list(figure.subplots(rows, columns, sharey=same, squeeze=False).flat)
    for axes in places[len(charts) :]:
        axes.remove()
    for axes, chart in zip(places, charts, strict=False):
        drawn.update(_chart(axes, chart, labels))
        if same:
            axes.label_outer()
    figure.legend(drawn.values(), drawn.keys(), loc="outside lower center", ncols=min(len(labels), 4), fontsize=9)
    return figure


def _chart(axes: Axes, chart: Chart, labels: Sequence[str]) -> dict[str, Any]:
    """Lines of one chart in the colours of their labels; what was drawn, by label."""
    drawn: dict[str, Any] = {}
    for line in chart.lines:
        index = labels.index(line.label)
        colour, dash = COLOURS[index % len(COLOURS)], _DASHES[index % len(_DASHES)]
        style: dict[str, Any] = {"linestyle": "", "marker": "o"} if line.points else {"linestyle": dash}
        (drawn[line.label],) = axes.plot(line.x, line.y, color=colour, **style)
    for text, place in chart.marks.items():
        axes.axvline(place, color="black", linewidth=0.8, linestyle=":")
        at = axes.get_xaxis_transform()
        axes.text(place, 0.98, text, transform=at, rotation=90, fontsize=8.5, ha="right", va="top")
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        if name in chart.logarithmic:
            (axes.set_xscale if name == "x" else axes.set_yscale)("log")
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
            axis.set_minor_formatter(NullFormatter())
    axes.set(title=chart.title, xlabel=chart.x_label, ylabel=chart.y_label)
    return drawn


def save(figure: Figure, paths: Sequence[Path | str]) -> None:
    """Write a figure to one or more files, each whole or not at all, the same bytes every time.

    Raises
    ------
    InputError
        If a path cannot be written or is no picture.
    """
    FigureCanvasAgg(figure)
    with rc_context(STYLE):
        for path in map(check_picture, paths):
            undated = _UNDATED.get(ending_of(path))
            with whole_file(path) as temporary:
                figure.savefig(temporary, dpi=130, metadata=undated)


def plot_frontiers(axes: Axes, curves: Sequence[Curve], title: str) -> None:
    """Speed to the right, cost upwards: curves further right and down are better."""
    for index, curve in enumerate(curves):
        colour, dash = COLOURS[index % len(COLOURS)], _DASHES[index // 4 % len(_DASHES)]
        marker = "o" if len(curve.dollars) == 1 else None
        axes.plot(
            curve.tokens_per_second, curve.dollars, color=colour, linestyle=dash, marker=marker, label=curve.label
        )
    axes.set_yscale("log")
    axes.set_xlim(left=0)
    _dollar_axis(axes)
    axes.set_xlabel("tokens per second per user")
    axes.set_ylabel(f"US dollars per million output tokens{_included(curves)}")
    axes.set_title(title)


def _included(curves: Sequence[Curve]) -> str:
    """What the cost of services includes; of decode steps, the study's among them, nothing is said."""
    return ", prefill included" if any(isinstance(curve.frontier, ServiceFrontier) for curve in curves) else ""


def _dollar_axis(axes: Axes) -> None:
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if _decades(axes) < 3 else (1.0,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"${value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _decades(axes: Axes) -> float:
    low, high = axes.get_ylim()
    return float(np.log10(high / low))
