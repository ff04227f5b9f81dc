"""Answers to scenarios as tables and as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from inference_econ.engine.layouts.grids import WholeLayouts
from inference_econ.inputs.scenario import TableSpec
from inference_econ.report import assess, caveats
from inference_econ.report.frontier import assumed, ends
from inference_econ.report.table import Table, curve_frame, source_records
from inference_econ.studies.exhibits import Cell, CellTable, like
from inference_econ.studies.results import Curve, Result

if TYPE_CHECKING:
    import pandas as pd


def scenario_tables(result: Result) -> tuple[Table, ...]:
    """Every table of a scenario, in the order of reading."""
    if result.assessment is not None:
        return assess.every_table(result.assessment)
    if result.tables:
        return tuple(_beside_printed(one) for one in result.tables)
    return tuple(scenario_table(one) for one in result.panels or (result,))


def scenario_table(result: Result) -> Table:
    """The table of a scenario: ours, and what was printed where it differs."""
    spec = result.scenario.table
    if result.comparison is not None:
        return _comparison_table(result)
    shown = spec if spec is not None else _default_table()
    lines = []
    for curve in result.curves:
        found = values(curve, shown)
        printed = shown.printed.get(curve.label, {})
        lines.append((curve.label, *(like(found[column.key], printed.get(column.key)) for column in shown.columns)))
    compared = cells(result)
    notes = [f"{one.row}, {one.column}: printed {one.printed}. {one.note}" for one in compared if not one.match]
    if compared:
        notes.append(f"{sum(one.match for one in compared)} of {len(compared)} printed cells match.")
    point = "fastest point" if shown.point == "fastest" else f"point that maximises speed^{shown.exponent:g} / cost"
    fronts = {curve.label: curve.frontier for curve in result.curves if curve.frontier is not None and _whole(curve)}
    notes += assumed(fronts) if fronts else []
    title = f"{result.scenario.name}: the {point} of each series"
    return Table(title, ("series", *(column.title for column in shown.columns)), tuple(lines), tuple(notes))


def _whole(curve: Curve) -> bool:
    """Of deployments in whole numbers: those of the published study's grid are not held against servers."""
    return curve.frontier is not None and isinstance(curve.frontier.grid.layouts, WholeLayouts)


def _bounded(curve: Curve, columns: Mapping[str, object]) -> dict[str, object]:
    """Columns of a curve, with those beside them that say how far off they may be."""
    if curve.frontier is None or not _whole(curve):
        return dict(columns)
    return caveats.bounded(columns, ends(curve.frontier))


def _beside_printed(answer: CellTable) -> Table:
    notes = list(answer.notes)
    compared = answer.cells("")
    if compared and not answer.errors:
        notes += [f"{one.row}, {one.column}: printed {one.printed}. {one.note}" for one in compared if not one.match]
        notes.append(f"{sum(one.match for one in compared)} of {len(compared)} printed cells match.")
    return Table(answer.title, answer.heads(), tuple(answer.lines()), tuple(notes))


def _default_table() -> TableSpec:
    return TableSpec.model_validate(
        {
            "point": "preferred",
            "columns": [
                {"key": "tokens_per_second_per_user", "title": "tokens/s per user"},
                {"key": "dollars_per_million_output_tokens", "title": "$/M output tokens"},
                {"key": "accelerators", "title": "GPUs"},
                {"key": "batch", "title": "batch"},
            ],
        }
    )


def _comparison_table(result: Result) -> Table:
    found = result.comparison
    assert found is not None
    rows = tuple(
        (label, f"{parameters / 1e9:.4g}", f"{measured * 1e3:.1f}", f"{predicted * 1e3:.1f}")
        for label, parameters, measured, predicted in zip(
            found.labels, found.parameters, found.measured, found.predicted, strict=True
        )
    )
    columns = ("model", "parameters (10^9)", "measured ms/token", "square-root law ms/token")
    return Table(result.scenario.name, columns, rows)


def cells(result: Result) -> list[Cell]:
    """Every published cell of a scenario beside ours."""
    spec = result.scenario.table
    item = result.scenario.name.lower().replace(" ", "_")
    if spec is None:
        return [cell for one in result.tables for cell in one.cells(item)]
    titles = {column.key: column.title for column in spec.columns}
    found = []
    for curve in result.curves:
        ours = values(curve, spec)
        for key, printed in spec.printed.get(curve.label, {}).items():
            found.append(Cell.of(item, curve.label, titles[key], printed, ours[key]))
    return found


def values(curve: Curve, spec: TableSpec) -> dict[str, float]:
    """The quantities of one row: at the fastest or at the preferred point of a curve."""
    index = len(curve.dollars) - 1 if spec.point == "fastest" else curve.preferred_index(spec.exponent)
    return {
        "tokens_per_second_per_user": float(curve.tokens_per_second[index]),
        "dollars_per_million_output_tokens": float(curve.dollars[index]),
        "accelerators": float(curve.accelerators[index]),
        "batch": float(curve.batch[index]),
        "mfu": float(curve.frontier.mfu[index]) if curve.frontier is not None else float("nan"),
        "milliseconds": 1e3 / float(curve.tokens_per_second[index]),
    }


def result_record(result: Result) -> dict[str, object]:
    """The answer to a scenario as plain data."""
    record: dict[str, object] = {"scenario": result.scenario.name, "description": result.scenario.description}
    if result.comparison is not None:
        record["rows"] = comparison_frame(result).to_dict("records")
    spec = result.scenario.table or _default_table()
    if result.curves:
        record["rows"] = [{"series": curve.label, **_bounded(curve, _row(curve, spec))} for curve in result.curves]
        record["assumptions"] = {
            curve.label: curve.frontier.setup.assumptions.name for curve in result.curves if curve.frontier is not None
        }
    if result.curves and result.scenario.figure is not None:
        record["curves"] = [
            {"series": curve.label, **_lists(_bounded(curve, _columns(curve)))} for curve in result.curves
        ]
    if result.tables:
        record["tables"] = [one.record() for one in result.tables]
        record["charts"] = [one.record() for one in result.charts]
    if result.assessment is not None:
        record["assessment"] = assess.assessment_record(result.assessment)
    if result.panels:
        record["panels"] = [result_record(panel) for panel in result.panels]
    record["cells"] = [cell.record() for cell in cells(result)]
    record["sources"] = source_records(result.sources)
    return record


def _row(curve: Curve, spec: TableSpec) -> dict[str, float]:
    found = values(curve, spec)
    return {column.key: found[column.key] for column in spec.columns}


def _columns(curve: Curve) -> dict[str, object]:
    return {
        "tokens_per_second_per_user": curve.tokens_per_second,
        "dollars_per_million_output_tokens": curve.dollars,
        "accelerators": curve.accelerators,
        "batch": curve.batch,
    }


def _lists(columns: Mapping[str, object]) -> dict[str, object]:
    return {name: None if value is None else np.asarray(value).tolist() for name, value in columns.items()}


def result_csv(result: Result) -> str:
    """The numbers behind the table or the figure of a scenario, as CSV."""
    if result.assessment is not None:
        return assess.assessment_csv(result.assessment)
    if result.tables:
        frame = _cells_frame(result.tables)
    elif result.panels:
        frame = _panels_frame(result.panels)
    elif result.scenario.figure is None:
        return scenario_table(result).text("csv")
    elif result.comparison is not None:
        frame = comparison_frame(result)
    else:
        frame = _curves_frame(result.curves)
    return str(frame.to_csv(index=False, lineterminator="\n", float_format="%.10g"))


def comparison_frame(result: Result) -> pd.DataFrame:
    """Measured and predicted latencies, one row each."""
    import pandas as pd

    comparison = result.comparison
    assert comparison is not None
    return pd.DataFrame(
        {
            "model": comparison.labels,
            "parameters": comparison.parameters,
            "measured_seconds": comparison.measured,
            "square_root_law_seconds": comparison.predicted,
        }
    )


def _curves_frame(curves: Sequence[Curve]) -> pd.DataFrame:
    """Points of some curves, and how far off they may be."""
    import pandas as pd

    return pd.concat([pd.DataFrame(_bounded(one, dict(curve_frame([one])))) for one in curves], ignore_index=True)


def _panels_frame(panels: Sequence[Result]) -> pd.DataFrame:
    """Points of several scenarios, which may have series of the same name."""
    import pandas as pd

    frames = {panel.scenario.name: _curves_frame(panel.curves) for panel in panels}
    return pd.concat(frames, names=["panel"]).reset_index(level="panel").reset_index(drop=True)


def _cells_frame(answers: Sequence[CellTable]) -> pd.DataFrame:
    """Values of several tables, one row each, with what was printed."""
    import pandas as pd

    lines = [
        (one.title, row.label, column, value, row.printed.get(column, ""))
        for one in answers
        for row in one.rows
        for column, value in zip(one.columns, row.values, strict=True)
    ]
    return pd.DataFrame(lines, columns=["table", "row", "column", "ours", "printed"])
