"""Page of the result of a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from inference_econ.records.sources import UsedSource
from inference_econ.report.page import AnswerPage, Block, Headline, Pieces, Table
from inference_econ.studies.exhibits import Cell, CellTable, like, off_by
from inference_econ.studies.results import Result

if TYPE_CHECKING:  # tables of the published study need no pages of services
    from inference_econ.report.questions.assess import AssessmentPage


class ScenarioPage(AnswerPage[Result]):
    """Page of the result of a scenario."""

    def tables(self) -> Sequence[Table]:
        """Tables, in reading order."""
        return scenario_tables(self.answer)

    def blocks(self) -> Sequence[Block]:
        """Tables, followed by the verdict on a measured deployment if the scenario has one."""
        return (*self.tables(), *map(Headline, self._verdicts()))

    def markdown(self) -> str:
        """Return the tables in Markdown.

        Several tables have titles, unless the tables are panels of one figure.
        """
        tables = self.tables()
        titled = len(tables) > 1 and not self.answer.panels
        text = "\n".join((f"**{table.title}**\n\n" if titled else "") + table.markdown() for table in tables)
        return text + "".join(f"\n{line}\n" for verdict in self._verdicts() for line in verdict)

    def _verdicts(self) -> list[Pieces]:
        """Verdicts on the measured deployment, one for each preset of assumptions."""
        if not self.answer.assessments:
            return []
        from inference_econ.report.questions.assess import verdict

        return [verdict(assessment) for assessment in self.answer.assessments]

    def draw(self, path: str) -> None:
        """Draw the figure of the scenario to a file."""
        from inference_econ.report.questions import figures

        figures.save(figures.draw(self.answer), [path])

    def sources(self) -> Sequence[UsedSource]:
        """Sources of the numbers."""
        return self.answer.sources

    @property
    def assessed(self) -> AssessmentPage | None:
        """Page of the measured deployment; None if the scenario has no measured deployment."""
        if self.answer.assessment is None:
            return None
        from inference_econ.report.questions.assess import AssessmentPage

        return AssessmentPage(self.answer.assessment)


def scenario_tables(result: Result) -> tuple[Table, ...]:
    """Tables of a scenario, in reading order."""
    if result.assessment is not None:
        from inference_econ.report.questions.assess import AssessmentPage

        return tuple(AssessmentPage(result.assessment).tables())
    tables = []
    for shown in result.tables:
        notes = shown.notes if shown.errors else (*shown.notes, *_matches(shown.cells("")))
        tables.append(replace(cell_table(shown), notes=notes))
    for panel in () if tables else (result.panels or (result,)):
        tables.append(scenario_table(panel))
        if panel.offer_records:
            tables.append(_offers_table(panel))
    return tuple(tables)


def cell_table(shown: CellTable) -> Table:
    """Table of computed and published numbers.

    A computed number has the decimals of the published number, or three digits.
    """
    compared = {column for row in shown.rows for column in row.printed}
    matched = bool(compared) and not shown.errors
    heads, rows = [*shown.names], []
    for column in shown.columns:
        heads += [column, f"{column}, printed"] if column in compared else [column]
        if shown.errors and column in compared:
            heads.append("off by")
    for row in shown.rows:
        line = [str(name) for name in row.names]
        for column, value in zip(shown.columns, row.values, strict=True):
            printed = row.printed.get(column)
            line.append(value if isinstance(value, str) else like(value, printed))
            if column in compared:
                line.append(printed or "")
            if shown.errors and column in compared:
                line.append("" if printed is None or isinstance(value, str) else off_by(value, printed))
        if matched:
            cells = replace(shown, rows=(row,)).cells("")
            line.append("" if not cells else "yes" if all(cell.match for cell in cells) else "NO")
        rows.append(tuple(line))
    return Table(shown.title, (*heads, *["match"] * matched), tuple(rows))


def _offers_table(result: Result) -> Table:
    """Table of API offers, each with the frontier (series) that the offer is compared with."""
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
        "An API offer has a list price of output tokens and a speed that a client measured. The GPUs, formats and "
        "speculation behind an offer are unknown. For each model and day, the table has the Pareto-optimal offers.",
    )
    return Table(f"{result.scenario.name}: offers of providers", columns, tuple(rows), notes)


def scenario_table(result: Result) -> Table:
    """Table of a scenario with one row per frontier (series); published values are shown where they differ."""
    shown = result.table
    if result.comparison is not None:
        rows = tuple(
            (
                str(row["model"]),
                f"{row['parameters'] / 1e9:.4g}",
                *(f"{1e3 * row[f'{name}_seconds']:.1f}" for name in ("measured", "square_root_law")),
            )
            for row in result.comparison.records()
        )
        columns = ("model", "parameters (10^9)", "measured ms/token", "square-root law ms/token")
        return Table(result.scenario.name, columns, rows)
    lines = tuple(tuple(line.values()) for line in result.lines())
    notes = _matches(result.cells)
    point = "fastest point" if shown.point == "fastest" else f"point that maximises speed^{shown.exponent:g} / cost"
    point += "" if shown.cost is None else f" at ${shown.cost:g} per million tokens"
    fronts = {curve.label: curve.frontier for curve in result.curves if curve.frontier is not None and curve.is_whole}
    why = []
    if fronts:
        from inference_econ.report.headings import frontiers_title
        from inference_econ.report.questions.frontier import assumed, unranked, warned

        notes += [*unranked(fronts), f"{frontiers_title([*fronts.values()])}.", *warned(fronts)]
        why = assumed(fronts)
    title = f"{result.scenario.name}: the {point} of each series"
    return Table(title, ("series", *(column.title for column in shown.columns)), lines, tuple(notes), tuple(why))


def _matches(compared: Sequence[Cell]) -> list[str]:
    """Sentences on the number of published table cells that agree, and on cells that differ."""
    notes = [f"{cell.row}, {cell.column}: printed {cell.printed}. {cell.note}" for cell in compared if not cell.match]
    if compared:
        notes.append(f"{sum(cell.match for cell in compared)} of {len(compared)} printed cells match.")
    return notes
