"""Results as tables: for people, for spreadsheets and for programs (floor 7)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from inference_econ.cells import Cell, CellTable, like
from inference_econ.precision import Precision
from inference_econ.question import Question
from inference_econ.sources import UsedSource, question_sources
from inference_econ.spec.dtype import BYTES_PER_ELEMENT
from inference_econ.spec.scenario import TableSpec
from inference_econ.study import Curve, Result

if TYPE_CHECKING:
    import pandas as pd

TextFormat = Literal["csv", "markdown"]

#: What each part of a step is called.
PART_NAMES = {
    "compute": "arithmetic",
    "weights": "weight reads",
    "activations": "activation traffic",
    "kv_cache": "KV cache reads",
    "all_reduce_latency": "all-reduce latency",
    "all_reduce_bandwidth": "all-reduce bandwidth",
    "all_to_all_latency": "all-to-all latency",
    "all_to_all_bandwidth": "all-to-all bandwidth",
    "pipeline": "pipeline hand-offs",
    "launches": "kernel launches",
    "host": "host per step",
    "draft": "draft model",
}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a head, ready to be shown.

    Attributes
    ----------
    title : str
        Above the table.
    columns : tuple of str
        The head; units are part of it.
    rows : tuple of tuple of str
        One text per column.
    notes : tuple of str
        Below the table.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def frame(self) -> pd.DataFrame:
        """The table as a DataFrame of text."""
        import pandas as pd

        return pd.DataFrame([list(row) for row in self.rows], columns=list(self.columns))

    def text(self, form: TextFormat) -> str:
        """The table as CSV or Markdown."""
        if form == "csv":
            return str(self.frame().to_csv(index=False, lineterminator="\n"))
        lines = [self.columns, tuple("---" for _ in self.columns), *self.rows]
        return "".join(f"| {' | '.join(map(_markdown_cell, line))} |\n" for line in lines)


def _markdown_cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def layout_label(layout: Mapping[str, float | str]) -> str:
    """A layout as people write it: ``tp8``, ``tp4pp2``, ``dp16ep16``, ``tp8 attn4`` where half of the chips wait.

    Examples
    --------
    >>> layout_label({"tp": 4.0, "dp": 1.0, "pp": 2.0, "stage": 4.0, "cut": "1d"})
    'tp4pp2'
    >>> layout_label({"tp": 2.0, "dp": 8.0, "pp": 1.0, "ep": 4.0, "moe_tp": 4.0, "stage": 16.0, "cut": "1d"})
    'tp2dp8ep4'
    """
    attention, groups, stage = float(layout["tp"]), float(layout["dp"]), float(layout["stage"])
    waiting = not math.isclose(attention * groups, stage)
    degrees = [
        ("tp", stage if waiting else attention),
        ("dp", groups),
        ("pp", float(layout["pp"])),
        ("ep", float(layout.get("ep", 1.0))),
    ]
    label = "".join(f"{name}{size(value)}" for name, value in degrees if value != 1.0) or "tp1"
    if waiting:
        label += f" attn{size(attention)}"
    if layout["cut"] == "2d":
        label += " 2d"
    if "draft_tokens" in layout:
        label += f" +{layout['draft_tokens']} drafted"
    return label


def formats_label(precision: Precision) -> str:
    """Number formats of the weights, and of the groups of them that have another.

    Examples
    --------
    >>> formats_label(Precision("bf16", "bf16", "mxfp4", "bf16", "bf16", "bf16", "bf16"))
    'weights bf16, experts mxfp4'
    """
    groups = {
        "attention": precision.attention,
        "experts": precision.experts,
        "shared experts": precision.shared_experts,
        "embeddings": precision.embeddings,
    }
    others = (f"{name} {dtype}" for name, dtype in groups.items() if dtype != precision.weights)
    return ", ".join((f"weights {precision.weights}", *others))


def remarks(question: Question) -> list[str]:
    """What a reader must know about the model, the formats and the what-ifs of a question."""
    model, precision = question.model, question.precision
    notes = []
    for dtype, name in {precision.experts: "experts", precision.weights: "weights"}.items():
        unit = question.unit(dtype)
        if BYTES_PER_ELEMENT[unit] > 1.5 * BYTES_PER_ELEMENT[dtype]:
            notes.append(f"{dtype} {name} run on the {unit} units of this chip.")
    if model.max_context is not None and question.context > model.max_context:
        notes.append(f"The model was made for {model.max_context:,} tokens of context at most.")
    changed = [used.source.where for used in question_sources(question) if used.source.where.startswith("--set")]
    if changed:
        notes.append(f"What if: {', '.join(changed)}.")
    if model.rumoured:
        notes.append("The architecture of this model is a rumour.")
    return notes


def size(value: float) -> str:
    """Write a number of chips or sequences: whole if it is, three digits of a fraction."""
    return f"{value:.0f}" if value == round(value) or value >= 1000 else f"{value:.3g}"


def dollars(value: float) -> str:
    """Write an amount with three digits, and cents from ten dollars on."""
    return f"{value:.2f}" if value >= 10 else f"{value:#.3g}"


def source_records(used: Sequence[UsedSource]) -> list[dict[str, str]]:
    """Sources as plain data."""
    return [one.record() for one in used]


def curve_frame(curves: Sequence[Curve]) -> pd.DataFrame:
    """All points of some curves, one row each: the data behind a figure."""
    import pandas as pd

    frames = [
        pd.DataFrame(
            {
                "series": curve.label,
                "tokens_per_second_per_user": curve.tokens_per_second,
                "dollars_per_million_output_tokens": curve.dollars,
                "accelerators": curve.accelerators,
                "batch": curve.batch,
            }
        )
        for curve in curves
    ]
    return pd.concat(frames, ignore_index=True)


def _panels_frame(panels: Sequence[Result]) -> pd.DataFrame:
    """Points of several scenarios, which may have series of the same name."""
    import pandas as pd

    frames = {panel.scenario.name: curve_frame(panel.curves) for panel in panels}
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


def scenario_tables(result: Result) -> tuple[Table, ...]:
    """Every table of a scenario, in the order of reading."""
    if result.tables:
        return tuple(_beside_printed(one) for one in result.tables)
    return tuple(scenario_table(one) for one in result.panels or (result,))


def _beside_printed(answer: CellTable) -> Table:
    notes = list(answer.notes)
    compared = answer.cells("")
    if compared and not answer.errors:
        notes += [f"{one.row}, {one.column}: printed {one.printed}. {one.note}" for one in compared if not one.match]
        notes.append(f"{sum(one.match for one in compared)} of {len(compared)} printed cells match.")
    return Table(answer.title, answer.heads(), tuple(answer.lines()), tuple(notes))


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
    title = f"{result.scenario.name}: the {point} of each series"
    return Table(title, ("series", *(column.title for column in shown.columns)), tuple(lines), tuple(notes))


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


def to_json(record: object) -> str:
    """Plain data as JSON text; NaN and infinity never appear in results."""
    return json.dumps(record, indent=2, allow_nan=False) + "\n"


def result_record(result: Result) -> dict[str, object]:
    """The answer to a scenario as plain data."""
    record: dict[str, object] = {"scenario": result.scenario.name, "description": result.scenario.description}
    if result.comparison is not None:
        record["rows"] = comparison_frame(result).to_dict("records")
    spec = result.scenario.table or _default_table()
    if result.curves:
        record["rows"] = [
            {"series": curve.label, **{column.key: values(curve, spec)[column.key] for column in spec.columns}}
            for curve in result.curves
        ]
    if result.scenario.figure is not None and not result.charts:
        record["curves"] = [
            {
                "series": curve.label,
                "tokens_per_second_per_user": curve.tokens_per_second.tolist(),
                "dollars_per_million_output_tokens": curve.dollars.tolist(),
                "accelerators": curve.accelerators.tolist(),
                "batch": curve.batch.tolist(),
            }
            for curve in result.curves
        ]
    if result.tables:
        record["tables"] = [one.record() for one in result.tables]
        record["charts"] = [one.record() for one in result.charts]
    if result.panels:
        record["panels"] = [result_record(panel) for panel in result.panels]
    record["cells"] = [cell.record() for cell in cells(result)]
    record["sources"] = source_records(result.sources)
    return record


def result_csv(result: Result) -> str:
    """The numbers behind the table or the figure of a scenario, as CSV."""
    if result.tables:
        frame = _cells_frame(result.tables)
    elif result.panels:
        frame = _panels_frame(result.panels)
    elif result.scenario.figure is None:
        return scenario_table(result).text("csv")
    elif result.comparison is not None:
        frame = comparison_frame(result)
    else:
        frame = curve_frame(result.curves)
    return str(frame.to_csv(index=False, lineterminator="\n", float_format="%.10g"))
