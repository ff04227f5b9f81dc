"""The figures of scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from inference_econ.report.assess import assessment_chart
from inference_econ.report.figures import (
    COLOURS,
    MARKERS,
    STYLE,
    chart_figure,
    charts_figure,
    label_ticks,
    plot_frontiers,
)
from inference_econ.report.offer_labels import Named, write_names
from inference_econ.studies.offered import BesideSeries
from inference_econ.studies.results import Result, SquareRootLaw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: With more series no corner of a figure is empty [1].
_CORNER_ENTRIES = 5


def draw(result: Result) -> Figure:
    """Draw the figure of a scenario.

    Parameters
    ----------
    result : Result
        The answer to a scenario.

    Returns
    -------
    matplotlib.figure.Figure
        For :func:`inference_econ.report.figures.save`.
    """
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
            # Many series leave no empty corner: their legend goes below the axes.
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
    """Marks for the offers of providers, in the colours of the series, with a marker for each day."""
    days = list(dict.fromkeys(beside.offer.date for beside in result.offers))
    for beside in result.offers:
        marker = MARKERS[days.index(beside.offer.date) % len(MARKERS)]
        place = beside.tokens_per_second, beside.offer.dollars_per_million_output_tokens
        colour = _colour(result, beside)
        axes.plot(*place, marker, color=colour, markersize=5.5, markeredgecolor="black", markeredgewidth=0.6)
    for day, marker in zip(days, MARKERS, strict=False):
        axes.plot([], [], marker, color="white", markeredgecolor="black", label=f"offered on {day}")


def _name_offers(figure: Figure, panels: Sequence[tuple[Axes, Result]]) -> None:
    """Write the names of providers beside what they offered, once everything else has its place."""
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
    """The colour of the series that an offer is held against."""
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
        label_ticks(axis, locator=LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.set_xlabel("parameters (billions)")
    axes.set_ylabel("milliseconds per token")
    axes.set_title(title)
    axes.legend(loc="lower right")
