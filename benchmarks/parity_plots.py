"""Parity plots of predictions and measurements of servers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from benchmarks.compared_point import ComparedPoint
from inference_econ.errors import InputError
from inference_econ.extras.servers import QUANTITIES, Servers
from inference_econ.report.questions.figures import COLOURS, MARKERS, STYLE, label_ticks, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Ratio of the ends of an axis below which it needs more ticks [1].
_SHORT = 30.0
#: Line width of a panel title [characters].
_TITLE_WIDTH = 34
#: Errors of the bands around equality [1].
_BANDS = (0.1, 0.2)


def panels(report: Servers) -> list[tuple[str, list[ComparedPoint]]]:
    """Points for parity plots: one list per measured quantity. A file is a series."""
    pictures = []
    for quantity in QUANTITIES:
        unit = "tokens/s" if quantity.field.endswith("per_accelerator") else "s"
        points = [
            ComparedPoint(
                id=row.id, series=server.dataset, subject=server.model, assumptions=report.assumptions,
                unit=unit, measured=measured, predicted=predicted,
            )
            for row in report.counted()
            if (server := row.measurement) is not None
            and (measured := row.measured(quantity))
            and (predicted := row.predicted(quantity))
        ]  # fmt: skip
        if points:
            pictures.append((quantity.title, points))
    return pictures


def draw_panels(panels: Sequence[tuple[str, Sequence[ComparedPoint]]], path: Path | str, *, width: int = 4) -> None:
    """Draw predicted against measured values, with bands of 10 and 20% around equality.

    Parameters
    ----------
    panels : sequence of (str, sequence of ComparedPoint)
        Title and points of each panel.
    path : Path or str
        File to write, ending in .svg, .png or .pdf.
    width : int
        Panels per row [1].

    Raises
    ------
    InputError
        If the file cannot be written, or there are no panels.
    """
    if not panels:
        raise InputError("nothing was predicted, so that there is nothing to draw")
    series = list(dict.fromkeys(point.series for _, points in panels for point in points))
    columns, rows = min(width, len(panels)), -(-len(panels) // width)
    with rc_context({**STYLE, "lines.markeredgewidth": 0.0}):
        figure = Figure(figsize=(4.0 * max(columns, 2), 4.1 * rows + 0.4 + 0.07 * len(series)), layout="constrained")
        places = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, (title, points) in zip(places, panels, strict=False):
            _agreement(axes, points, series, title)
        for axes in places[len(panels) :]:
            axes.set_axis_off()
        handles = {
            label: handle for axes in places for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=4, fontsize=8.5)
        save(figure, [path])


def _agreement(axes: Axes, points: Sequence[ComparedPoint], series: Sequence[str], title: str) -> None:
    """Draw a panel with measured values on the horizontal axis, and lines at factors of 1 and 2."""
    for index, name in enumerate(series):
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[(index + index // len(COLOURS)) % len(MARKERS)]
        of_series = [point for point in points if point.series == name]
        if of_series:
            x, y = ([getattr(point, key) for point in of_series] for key in ("measured", "predicted"))
            axes.plot(x, y, marker, color=colour, markersize=3.0, label=name, zorder=2.0)
    numbers = [number for point in points for number in (point.measured, point.predicted) if number is not None]
    line = np.array([min(numbers) / 2, max(numbers) * 2])
    for share in _BANDS:
        axes.fill_between(line, line * (1.0 - share), line * (1.0 + share), color="black", alpha=0.12, linewidth=0.0)
    for factor, dash in ((1.0, "-"), (2.0, ":"), (0.5, ":")):
        axes.plot(line, factor * line, color="black", linewidth=0.8, linestyle=dash)
    unit = ", ".join(dict.fromkeys(point.unit for point in points))
    axes.set(xscale="log", yscale="log", xlim=line, ylim=line, aspect="equal")
    # With powers of ten alone, a short axis would have at most one label.
    marked = (1.0, 2.0, 5.0) if line[1] < _SHORT * line[0] else (1.0,)
    for axis, word in ((axes.xaxis, "measured"), (axes.yaxis, "predicted")):
        label_ticks(axis, LogLocator(subs=marked, numticks=8))
        axis.set_label_text(f"{word} [{unit}]")
    axes.set_title("\n".join(textwrap.wrap(title, _TITLE_WIDTH)))
