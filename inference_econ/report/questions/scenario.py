"""Answers to scenarios as tables, as data and as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from matplotlib.transforms import Bbox

from inference_econ._types import Array
from inference_econ.answers.assess import verdict
from inference_econ.answers.notes import frontiers_title
from inference_econ.records.sources import UsedSource
from inference_econ.records.texts import amount, dollars
from inference_econ.report.figures import (
    COLOURS,
    MARKERS,
    STYLE,
    chart_figure,
    charts_figure,
    label_ticks,
    plot_frontiers,
)
from inference_econ.report.page import AnswerPage, Block, Headline, Page, Pieces, Table
from inference_econ.report.questions.assess import AssessmentPage, assessment_chart
from inference_econ.report.questions.frontier import assumed, warned
from inference_econ.studies.exhibits import Cell
from inference_econ.studies.results import BesideSeries, Result, SquareRootLaw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Of the preference speed^a / cost of the published study (eq. 45) [1].
_EXPONENT = 3.0


class ScenarioPage(AnswerPage[Result]):
    """The answer to a scenario, ready to be shown."""

    def tables(self) -> Sequence[Table]:
        """Every table, in the order of reading."""
        return scenario_tables(self.answer)

    def blocks(self) -> Sequence[Block]:
        """The tables, and at the end the verdicts on a measured deployment."""
        return (*self.tables(), *(Headline(verdict(assessment)) for assessment in self.answer.assessments))

    def markdown(self) -> str:
        """The tables; with their titles where several are no panels of one figure."""
        tables = self.tables()
        titled = len(tables) > 1 and not self.answer.panels
        text = "\n".join((f"**{table.title}**\n\n" if titled else "") + table.markdown() for table in tables)
        return text + "".join(f"\n{line}\n" for item in self.answer.assessments for line in verdict(item))

    def draw(self, path: str) -> None:
        """Draw the figure."""
        from inference_econ.report import figures

        figures.save(draw(self.answer), [path])

    def question(self) -> str:
        """The description of the scenario."""
        return self.answer.scenario.description

    def conclusion(self) -> Pieces:
        """The verdict on a measured deployment, else the preferred points of all series, else what a table says."""
        if self._assessed is not None:
            return self._assessed.conclusion()
        preferred = [
            f"{curve.label} has {amount(float(curve.tokens_per_second[at]))} tokens/s per user at "
            f"${dollars(float(curve.dollars[at]))} per million output tokens"
            for curve in self.answer.curves
            for at in [curve.preferred_index(_EXPONENT)]
        ]
        if preferred:
            return (f"Where speed³ / cost is largest, {'; '.join(preferred)}.",)
        return self.tables()[0].notes[-1:]

    def sources(self) -> Sequence[UsedSource]:
        """Sources of the numbers."""
        return self.answer.sources

    @property
    def proportional(self) -> bool:
        """True for a measured deployment alone."""
        return self._assessed is not None

    @property
    def drawn(self) -> Page:
        """Page of the measured deployment, or this one."""
        return self._assessed or self

    @property
    def still(self) -> bool:
        """True if the scenario has a figure."""
        return self._assessed is None and self.answer.scenario.figure is not None

    @property
    def _assessed(self) -> AssessmentPage | None:
        """Page of the measured deployment, if that was asked for."""
        return None if self.answer.assessment is None else AssessmentPage(self.answer.assessment)


def scenario_tables(result: Result) -> tuple[Table, ...]:
    """Every table of a scenario, in the order of reading."""
    if result.assessment is not None:
        return tuple(AssessmentPage(result.assessment).tables())
    tables = []
    for shown in result.tables:
        notes = shown.notes if shown.errors else (*shown.notes, *_matches(shown.cells("")))
        tables.append(Table(shown.title, shown.heads(), tuple(shown.lines()), tuple(notes)))
    for panel in () if tables else (result.panels or (result,)):
        tables.append(scenario_table(panel))
        if panel.offer_records:
            tables.append(_offers_table(panel))
    return tuple(tables)


def _offers_table(result: Result) -> Table:
    """Offers against the series that they are drawn beside."""
    rows = []
    for record in result.offer_records:
        cost, price = record["series_dollars_per_million_output_tokens"], record["dollars_per_million_output_tokens"]
        against = ("too fast for it", "-")
        if isinstance(cost, float) and isinstance(price, float):
            against = f"{cost:.3g}", f"{price / cost:.3g}"
        names = (str(record[name]) for name in ("provider", "model_as_written", "date"))
        rows.append((*names, f"{record['tokens_per_second']:.4g}", f"{price:g}", str(record["series"]), *against))
    columns = ("provider", "model", "date", "tokens/s", "$/M", "series", "$/M of the series", "price / cost")
    notes = (
        "Offers are list prices of output tokens and speeds measured from outside: on what chips, in what formats and "
        "with what speculation they are served nobody says. Of a model and day those that no other offer beats.",
    )
    return Table(f"{result.scenario.name}: offers of providers", columns, tuple(rows), notes)


def scenario_table(result: Result) -> Table:
    """The table of a scenario: ours, and what was printed where it differs."""
    shown = result.table
    if result.comparison is not None:
        comparison = result.comparison
        assert comparison is not None
        rows = tuple(
            (label, f"{parameters / 1e9:.4g}", f"{measured * 1e3:.1f}", f"{predicted * 1e3:.1f}")
            for label, parameters, measured, predicted in zip(
                comparison.labels, comparison.parameters, comparison.measured, comparison.predicted, strict=True
            )
        )
        columns = ("model", "parameters (10^9)", "measured ms/token", "square-root law ms/token")
        return Table(result.scenario.name, columns, rows)
    lines = tuple(tuple(line.values()) for line in result.lines())
    notes = _matches(result.cells)
    point = "fastest point" if shown.point == "fastest" else f"point that maximises speed^{shown.exponent:g} / cost"
    point += "" if shown.cost is None else f" at ${shown.cost:g} per million tokens"
    fronts = {curve.label: curve.frontier for curve in result.curves if curve.frontier is not None and curve.is_whole}
    notes += [f"{frontiers_title([*fronts.values()])}.", *warned(fronts)] if fronts else []
    why = assumed(fronts) if fronts else []
    title = f"{result.scenario.name}: the {point} of each series"
    return Table(title, ("series", *(column.title for column in shown.columns)), lines, tuple(notes), tuple(why))


def _matches(compared: Sequence[Cell]) -> list[str]:
    """Sentences on printed cells that are not met, and on how many are."""
    notes = [f"{cell.row}, {cell.column}: printed {cell.printed}. {cell.note}" for cell in compared if not cell.match]
    if compared:
        notes.append(f"{sum(cell.match for cell in compared)} of {len(compared)} printed cells match.")
    return notes


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


#: Where a name may lie: to the right, in the middle or to the left, above, level or below; nearest first [points].
_ACROSS = {1: "left", -1: "right", 0: "center"}
_ALONG = {1: "bottom", -1: "top", 0: "center"}
_DISTANCES = (5.0, 14.0, 24.0, 36.0)
_FONT_SIZE = 7.5
#: Between points of a curve that are looked at, around a name, and of a point of its own [pixels].
_STEP, _AROUND, _POINT = 2.0, 3.0, 4.0
#: What a name costs that lies on another name or point, or outside the axes, and on a step of a curve [1]; a point away
#: from its own place costs 1.
_COVERED, _CROSSED = 400.0, 4.0


class Named(NamedTuple):
    """A point with a name."""

    name: str
    """Text beside it."""
    place: tuple[float, float]
    """Place in the units of the axes."""
    colour: str
    """Colour of the name."""


def write_names(axes: Axes, points: Sequence[Named]) -> None:
    """Write the name of every point where it covers least, with a thin line to it where that is not beside it.

    Limits and layout of the figure must be final.
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
            tried[right, up, distance] = _CROSSED * _inside(box, curves) + _COVERED * covered + distance, box
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
    """Points of a line in equal steps, from its corners, shape (n, 2) [pixels]."""
    if len(line) < 2:
        return line
    lengths = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
    along = np.arange(0.0, lengths[-1], _STEP)
    return np.column_stack([np.interp(along, lengths, line[:, axis]) for axis in (0, 1)])


def _inside(box: Bbox, points: Array) -> int:
    """Number of points in a box [1]."""
    return int(np.all((points >= box.min) & (points <= box.max), axis=1).sum())
