"""Answers to scenarios as tables, as data and as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from inference_econ.answers.record import bound
from inference_econ.answers.serving_frontier import ServiceFrontier
from inference_econ.answers.sources import UsedSource, source_records
from inference_econ.engine import Setup, WholeLayouts, bounds
from inference_econ.errors import NothingFitsError
from inference_econ.inputs import TableSpec
from inference_econ.report import assess
from inference_econ.report.assess import AssessmentPage
from inference_econ.report.assess_findings import verdict
from inference_econ.report.curves import assumed, curve_columns, setups_of, stacked, warned
from inference_econ.report.page import AnswerPage, Block, Headline, Page, Pieces
from inference_econ.report.speed_cost import frontiers_title
from inference_econ.report.table import Frame, Table, amount, dollars, frame_of
from inference_econ.studies.exhibits import Cell, CellTable, like
from inference_econ.studies.results import Curve, Result

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

    def record(self) -> object:
        """Rows, curves, published cells and sources."""
        return result_record(self.answer)

    def frame(self) -> Frame:
        """The numbers behind the table or the figure."""
        return result_frame(self.answer)

    def markdown(self) -> str:
        """The tables; with their titles where several are no panels of one figure."""
        tables = self.tables()
        titled = len(tables) > 1 and not self.answer.panels
        text = "\n".join((f"**{table.title}**\n\n" if titled else "") + table.markdown() for table in tables)
        return text + "".join(f"\n{line}\n" for item in self.answer.assessments for line in verdict(item))

    def draw(self, path: str) -> None:
        """Draw the figure."""
        from inference_econ.report import figures, scenario_figure

        figures.save(scenario_figure.draw(self.answer), [path])

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

    def setups(self) -> Sequence[Setup]:
        """Setups of the series, or of the measured deployment."""
        return setups_of(self.answer.curves) if self._assessed is None else self._assessed.setups()

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
    if result.tables:
        return tuple(_beside_printed(table) for table in result.tables)
    shown = result.panels or (result,)
    return tuple(table for panel in shown for table in (scenario_table(panel), *_offers_tables(panel)))


def scenario_table(result: Result) -> Table:
    """The table of a scenario: ours, and what was printed where it differs."""
    spec = result.scenario.table
    if result.comparison is not None:
        return _comparison_table(result)
    shown = spec if spec is not None else _default_table(result.curves)
    lines = []
    for curve in result.curves:
        ours = values(curve, shown)
        printed = shown.printed.get(curve.label, {})
        lines.append((curve.label, *(like(ours[column.key], printed.get(column.key)) for column in shown.columns)))
    notes = _matches(cells(result))
    point = "fastest point" if shown.point == "fastest" else f"point that maximises speed^{shown.exponent:g} / cost"
    point += "" if shown.cost is None else f" at ${shown.cost:g} per million tokens"
    fronts = {curve.label: curve.frontier for curve in result.curves if curve.frontier is not None and _whole(curve)}
    notes += [f"{frontiers_title([*fronts.values()])}.", *warned(fronts)] if fronts else []
    why = assumed(fronts) if fronts else []
    title = f"{result.scenario.name}: the {point} of each series"
    return Table(title, ("series", *(column.title for column in shown.columns)), tuple(lines), tuple(notes), tuple(why))


def _whole(curve: Curve) -> bool:
    """True for deployments in whole numbers: those of the published study's grid are not held against servers."""
    front = curve.frontier
    return isinstance(front, ServiceFrontier) or (front is not None and isinstance(front.grid.layouts, WholeLayouts))


def _bounded(curve: Curve, columns: Mapping[str, object]) -> dict[str, object]:
    """Columns of a curve, with those beside them that say how far off they may be."""
    if curve.frontier is None or not _whole(curve):
        return dict(columns)
    return bounds.bounded(columns, curve.frontier.ends())


def _beside_printed(answer: CellTable) -> Table:
    notes = answer.notes if answer.errors else (*answer.notes, *_matches(answer.cells("")))
    return Table(answer.title, answer.heads(), tuple(answer.lines()), tuple(notes))


def _matches(compared: Sequence[Cell]) -> list[str]:
    """Sentences on printed cells that are not met, and on how many are."""
    notes = [f"{cell.row}, {cell.column}: printed {cell.printed}. {cell.note}" for cell in compared if not cell.match]
    if compared:
        notes.append(f"{sum(cell.match for cell in compared)} of {len(compared)} printed cells match.")
    return notes


def _default_table(curves: Sequence[Curve]) -> TableSpec:
    services = any(isinstance(curve.frontier, ServiceFrontier) for curve in curves)
    columns = {
        "tokens_per_second_per_user": "tokens/s per user",
        "dollars_per_million_output_tokens": "$/M output tokens",
        "accelerators": "GPUs",
        **({"concurrency": "in flight", "ttft_milliseconds": "TTFT ms"} if services else {"batch": "batch"}),
    }
    named = [{"key": key, "title": title} for key, title in columns.items()]
    return TableSpec.model_validate({"point": "preferred", "columns": named})


def _comparison_table(result: Result) -> Table:
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


def cells(result: Result) -> list[Cell]:
    """Every published cell of a scenario beside ours."""
    spec = result.scenario.table
    item = result.scenario.name.lower().replace(" ", "_")
    if spec is None:
        return [cell for table in result.tables for cell in table.cells(item)]
    titles = {column.key: column.title for column in spec.columns}
    compared = []
    for curve in result.curves:
        ours = values(curve, spec)
        for key, printed in spec.printed.get(curve.label, {}).items():
            compared.append(Cell.of(item, curve.label, titles[key], printed, ours[key]))
    return compared


def _index(curve: Curve, spec: TableSpec) -> int:
    """Index of the point of a table on a curve."""
    if spec.point == "preferred":
        return curve.preferred_index(spec.exponent)
    cheap = np.flatnonzero(curve.dollars <= (np.inf if spec.cost is None else spec.cost))
    if not cheap.size:
        raise NothingFitsError(
            f"{curve.label}: nothing costs ${spec.cost:g} or less per million tokens; the least is "
            f"${dollars(float(curve.dollars[0]))}"
        )
    return int(cheap[-1])


def values(curve: Curve, spec: TableSpec) -> dict[str, float]:
    """The quantities of one row: at the fastest or at the preferred point of a curve."""
    index = _index(curve, spec)
    return {
        "tokens_per_second_per_user": float(curve.tokens_per_second[index]),
        "dollars_per_million_output_tokens": float(curve.dollars[index]),
        "accelerators": float(curve.accelerators[index]),
        "batch": float(curve.batch[index]),
        "milliseconds": 1e3 / float(curve.tokens_per_second[index]),
        **_of_its_kind(curve, index),
    }


def _of_its_kind(curve: Curve, index: int) -> dict[str, float]:
    """Quantities that only services, or only decode steps, have."""
    front = curve.frontier
    if isinstance(front, ServiceFrontier):
        waits = 1e3 * float(front.ttft_seconds[index])
        return {"concurrency": float(front.concurrency[index]), "ttft_milliseconds": waits}
    return {} if front is None else {"mfu": float(front.mfu[index])}


def result_record(result: Result) -> dict[str, object]:
    """The answer to a scenario as plain data."""
    record: dict[str, object] = {"scenario": result.scenario.name, "description": result.scenario.description}
    if result.comparison is not None:
        record["rows"] = comparison_frame(result).to_dict("records")
    spec = result.scenario.table or _default_table(result.curves)
    if result.curves:
        record["rows"] = [{"series": curve.label, **_row(curve, spec)} for curve in result.curves]
        record["assumptions"] = {
            curve.label: curve.frontier.setup.assumptions.name for curve in result.curves if curve.frontier is not None
        }
    if result.curves and result.scenario.figure is not None:
        record["curves"] = [
            {"series": curve.label, **_lists(_bounded(curve, curve_columns(curve)))} for curve in result.curves
        ]
    if result.offers:
        record["offers"] = _offer_records(result)
    if result.tables:
        record["tables"] = [table.record() for table in result.tables]
        record["charts"] = [chart.record() for chart in result.charts]
    if result.assessment is not None:
        record["assessment"] = assess.assessment_record(result.assessment)
        record["verdicts"] = {item.setup.assumptions.name: assess.verdict_record(item) for item in result.assessments}
    if result.panels:
        record["panels"] = [result_record(panel) for panel in result.panels]
    record["cells"] = [cell.record() for cell in cells(result)]
    record["sources"] = source_records(result.sources)
    return record


def _row(curve: Curve, spec: TableSpec) -> dict[str, object]:
    """The columns of a table at its point, and how far off they may be there."""
    ours = values(curve, spec)
    shown: dict[str, object] = {column.key: ours[column.key] for column in spec.columns}
    if curve.frontier is None or not _whole(curve):
        return shown
    return bounds.bounded(shown, curve.frontier.ends_at(_index(curve, spec)))


def _lists(columns: Mapping[str, object]) -> dict[str, object]:
    return {name: None if value is None else np.asarray(value).tolist() for name, value in columns.items()}


def result_frame(result: Result) -> Frame:
    """The numbers behind the table or the figure of a scenario, with ten digits."""
    if result.assessment is not None:
        return assess.assessment_frame(result.assessment)
    if result.tables:
        return _ten_digits(_cells_frame(result.tables))
    if result.panels:
        return _ten_digits(_panels_frame(result.panels))
    if result.scenario.figure is None:
        return scenario_table(result).frame()
    if result.comparison is not None:
        return _ten_digits(comparison_frame(result))
    return _ten_digits(_figure_frame(result))


def _ten_digits(frame: Frame) -> Frame:
    """Numbers as text: the last digits of a computer's numbers are not those of another."""
    numbers = frame.select_dtypes("float")
    return frame.assign(**{str(name): [_digits(value) for value in numbers[name]] for name in numbers})


def _digits(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.10g}"


def comparison_frame(result: Result) -> Frame:
    """Measured and predicted latencies, one row each."""
    comparison = result.comparison
    assert comparison is not None
    return frame_of(
        {
            "model": comparison.labels,
            "parameters": comparison.parameters,
            "measured_seconds": comparison.measured,
            "square_root_law_seconds": comparison.predicted,
        }
    )


def curve_frame(curve: Curve) -> Frame:
    """All points of a curve, one row each: the data behind a figure."""
    return frame_of({"series": curve.label, **curve_columns(curve), **bound(*setups_of([curve]))})


def _figure_frame(result: Result) -> Frame:
    """Points of the curves of a figure, and after them those of the offers beside them."""
    return stacked((_curves_frame(result.curves), _offers_frame(result)))


def _curves_frame(curves: Sequence[Curve]) -> Frame:
    """Points of some curves, and how far off they may be."""
    return stacked(frame_of(_bounded(curve, dict(curve_frame(curve)))) for curve in curves)


def _panels_frame(panels: Sequence[Result]) -> Frame:
    """Points of several scenarios, which may have series of the same name."""
    import pandas as pd

    frames = {panel.scenario.name: _figure_frame(panel) for panel in panels}
    return pd.concat(frames, names=["panel"]).reset_index(level="panel").reset_index(drop=True)


def _cells_frame(answers: Sequence[CellTable]) -> Frame:
    """Values of several tables, one row each, with what was printed."""
    lines = [
        (table.title, row.label, column, value, row.printed.get(column, ""))
        for table in answers
        for row in table.rows
        for column, value in zip(table.columns, row.values, strict=True)
    ]
    return frame_of(lines, columns=["table", "row", "column", "ours", "printed"])


def _offers_tables(result: Result) -> Sequence[Table]:
    """Offers against the series that they are drawn beside; none where a figure draws none."""
    records = _offer_records(result)
    if not records:
        return ()
    rows = tuple(
        (
            *(str(record[name]) for name in ("provider", "model_as_written", "date")),
            f"{record['tokens_per_second']:.4g}",
            f"{record['dollars_per_million_output_tokens']:g}",
            str(record["series"]),
            *_against(record),
        )
        for record in records
    )
    columns = ("provider", "model", "date", "tokens/s", "$/M", "series", "$/M of the series", "price / cost")
    notes = (
        "Offers are list prices of output tokens and speeds measured from outside: on what chips, in what formats and "
        "with what speculation they are served nobody says. Of a model and day those that no other offer beats.",
    )
    return (Table(f"{result.scenario.name}: offers of providers", columns, rows, notes),)


def _against(record: dict[str, object]) -> tuple[str, str]:
    cost, price = record["series_dollars_per_million_output_tokens"], record["dollars_per_million_output_tokens"]
    if not isinstance(cost, float) or not isinstance(price, float):
        return "too fast for it", "-"
    return f"{cost:.3g}", f"{price / cost:.3g}"


def _offer_records(result: Result) -> list[dict[str, object]]:
    """Offers as plain data, each with what its series costs at that speed; None where no point is as fast."""
    curves = {curve.label: curve for curve in result.curves}
    return [
        {
            **beside.offer.model_dump(),
            "series": beside.series,
            "series_dollars_per_million_output_tokens": curves[beside.series].dollars_at(beside.tokens_per_second),
        }
        for beside in result.offers
    ]


def _offers_frame(result: Result) -> Frame:
    """Offers as rows behind a figure: points of their series, with provider and day."""
    rows = [
        {
            "series": beside.series,
            "tokens_per_second_per_user": beside.tokens_per_second,
            "dollars_per_million_output_tokens": beside.offer.dollars_per_million_output_tokens,
            "provider": beside.offer.provider,
            "date": beside.offer.date,
        }
        for beside in result.offers
    ]
    return frame_of(rows)
