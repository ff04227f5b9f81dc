"""Tables and page of the validation on measured servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inference_econ.engine import formats
from inference_econ.extras import servers
from inference_econ.extras.servers.validation import servers as measured_servers
from inference_econ.extras.servers.validation.servers import NOTES, Validated
from inference_econ.inputs import catalog, number, percent
from inference_econ.records.plain import attributes
from inference_econ.records.texts import ENGINE_NAMES
from inference_econ.report.page import AnswerPage, Block, Pieces, Remarks, Table

#: Maximum number of rows that are named one by one [1]. If there are more rows, only the first and last are named.
_NAMED = 3
#: Maximum number of rows that are shown one by one [1].
_FEW = 10
_ERRORS = ("rows", "predicted", "median", "mean", "p90", "bias")
LEGEND = "Errors are |ln(predicted / measured)|: 0.1 is about 10 %, and 0.69 is a factor of two. The bias has a sign."
#: Note on predictions of servers with speculation.
SPECULATING = (
    "The predictions use the draft length of each server and the published acceptance length of its model. If a value "
    "was not recorded, it comes from the engine's recipe for the model or from defaults of the speculation method. "
    "Nothing is fitted to these servers, and the tables above exclude them."
)


def error_tables(report: servers.Servers, by: Sequence[str] = ()) -> list[Table]:
    """Tables of a report: coverage, errors, errors by group, and rows without a prediction.

    If there are few rows, as from a load test, each row is shown.

    Parameters
    ----------
    report : Servers
        Rows with predictions.
    by : sequence of str
        Keys to group by, one table each.
    """
    few = is_few(report)
    all_count = len(report.counted()) == len(report.rows)
    shown = [] if few and all_count else [coverage_table(report)]
    shown.append(row_by_row(report) if few else errors(report))
    shown += [grouped(report, key) for key in by]
    if assumed := [row for row in report.counted() if row.assumed]:
        rows = tuple(
            (quantity.title, *_numbers(accuracy)) for quantity, accuracy in measured_servers.by_quantity(assumed)
        )
        why = "These rows do not record the number of workers or their layout. The errors above include them."
        title = f"Rows with an assumed layout under {_named(report)}"
        shown.append(Table(title, ("quantity", *_ERRORS), rows, why=(why,)))
    if report.speculative():
        shown.append(_speculative(report))
    if report.reasons():
        shown.append(missing(report))
    return shown


def is_few(report: servers.Servers) -> bool:
    """Check whether the rows are shown one by one, in place of their median errors."""
    return 0 < len(report.counted()) <= _FEW


def coverage_table(report: servers.Servers) -> Table:
    """Table with the number of rows by file: read, understood, included, predicted."""
    names: list[str | None] = [*report.datasets]
    if len(names) > 1:
        names.append(None)
    rows = []
    for name in names:
        counts = report.coverage(name)
        numbers = attributes(counts, "read mapped repeats speculative spoilt plain predicted assumed").values()
        share = f"{100 * counts.predicted / counts.plain:.0f}" if counts.plain else "-"
        rows.append((name or "all", *map(str, numbers), share))
    columns = (
        "dataset", "rows", "understood", "repeats", "with speculation", "invalid", "counted", "predicted",
        "of these assumed", "covered %",
    )  # fmt: skip
    least = ("of these assumed", "invalid", "repeats", "understood", "with speculation")
    return Table(f"Measured servers under {_named(report)}: rows", columns, tuple(rows), least=least)


def errors(report: servers.Servers) -> Table:
    """Table of errors by quantity, also separately for fitted and other deployments."""
    rows = [
        (quantity.title, which, *_numbers(accuracy), share_inside(part, quantity))
        for quantity in servers.QUANTITIES
        for which, part in report.split().items()
        for accuracy in servers.scores(part, quantity).values()
    ]
    notes = _unrecorded_runs(report)
    for quantity, accuracy in measured_servers.by_quantity(report.counted()):
        if accuracy.median is not None:
            what = "error" if accuracy.predicted == 1 else f"median error of {accuracy.predicted} predictions"
            name = f"{quantity.title[0].upper()}{quantity.title[1:]}"
            notes.append(f"{name}: the {what} is {percent(accuracy.median or 0.0)}.")
    columns = ("quantity", "which", *_ERRORS, "in 80 % interval")
    title = f"Errors under {_named(report)}"
    return Table(title, columns, tuple(rows), tuple(notes), (LEGEND,), ("p90", "mean"))


def _unrecorded_runs(report: servers.Servers) -> list[str]:
    """Note on user rows without facts on the run, which matter because the first prompts of a run wait longest."""
    counted = [row.measurement for row in report.counted() if row.dataset not in catalog.server_files()]
    timed = [row for row in counted if row is not None and row.load == "concurrency" and row.ttft_seconds is not None]
    lacking = sum(row.requests is None for row in timed)
    if not lacking:
        return []
    return [
        f"{lacking} of {len(timed)} rows lack facts on the run: requests, spread, step_tokens, captured_tokens. TTFT "
        "errors of InferenceX tables are three times as large without them. Add these columns: "
        "scenarios/measured/README.md."
    ]


def row_by_row(report: servers.Servers) -> Table:
    """Table of measured and predicted values per row, with notes on rows outside the calibration data."""
    counted = report.counted()
    named, rows, settings = len(report.rows) > 1, [], dict[str, None]()
    for row in counted:
        for quantity in servers.QUANTITIES:
            measured, predicted = row.measured(quantity), row.predicted(quantity)
            if measured is None:
                continue
            unit, factor = (" [ms]", 1e3) if quantity.field.endswith("_seconds") else ("", 1.0)
            where = row.interval(quantity.field)
            off = "-" if not measured or predicted is None else f"{100 * (predicted / measured - 1):+z.0f} %"
            ends = "-" if where is None else f"{number(factor * where.low)} to {number(factor * where.high)}"
            values = ("-" if value is None else number(factor * value) for value in (measured, predicted))
            rows.append((*((row.id,) if named else ()), quantity.title + unit, *values, off, ends))
        # The measurement contains the server for which the row was predicted.
        server = row.measurement
        assert server is not None and row.assumptions is not None
        published = "" if server.weights else ", as published"
        weights = formats(catalog.model(server.model), server.weights)
        layout, engine = servers.layout_of(server) or row.assumed, servers.version_of(server) or "no engine"
        settings[
            f"Predicted as {server.model} with {weights} weights{published}, {layout} on {server.hardware}, served by "
            f"{engine} ({row.assumptions.name})."
        ] = None
    off = off_by(report)
    readings = [f"Prediction errors: {off}."] if off else []
    readings += [*_unrecorded_runs(report), *(settings if len(settings) == 1 else ())]
    notes = tuple(
        f"{row.id}: {'; '.join(reasons)}."
        for row in counted
        if (reasons := measured_servers.reasons_outside(report, row))
    )
    columns = (("row",) if named else ()) + ("quantity", "measured", "predicted", "off by", "80 % interval")
    return Table(f"Measured and predicted by {_named(report)}", columns, tuple(rows), tuple(readings), notes)


def share_inside(rows: Iterable[servers.InputRow], quantity: servers.Quantity) -> str:
    """Share of measured values within the predicted intervals, in percent; "-" without intervals."""
    where = servers.inside(rows, quantity)
    return f"{100 * where.held / where.known:.0f} %" if where.known else "-"


def grouped(report: servers.Servers, key: str) -> Table:
    """Table of errors by the values of one key, for each quantity."""
    rows = [
        (value, quantity.title, *_numbers(accuracy))
        for quantity in servers.QUANTITIES
        for (value,), accuracy in servers.scores(report.counted(), quantity, (key,)).items()
    ]
    return Table(f"Errors by {key} under {_named(report)}", (key, "quantity", *_ERRORS), tuple(rows))


def missing(report: servers.Servers) -> Table:
    """Table of reasons for missing predictions."""
    rows = []
    for reason, skipped in report.reasons().items():
        ids = [row.id for row in skipped]
        which = ", ".join(ids) if len(ids) <= _NAMED else f"{ids[0]} to {ids[-1]}"
        rows.append((str(len(skipped)), reason, ", ".join(dict.fromkeys(row.dataset for row in skipped)), which))
    return Table("Not predicted", ("rows", "because", "dataset", "which"), tuple(rows))


def _speculative(report: servers.Servers) -> Table:
    """Table of errors for servers with speculation, by quantity; TPOT errors also by engine, chip and draft length."""
    speculating, main = report.speculative(), servers.QUANTITIES[0]
    rows = [
        ("all", quantity.title, *_numbers(accuracy)) for quantity, accuracy in measured_servers.by_quantity(speculating)
    ]
    parts = servers.scores(speculating, main, ("engine", "hardware", "speculation"))
    rows += [(" ".join(part), main.title, *_numbers(accuracy)) for part, accuracy in parts.items()]
    assumed = Counter(row.rounds for row in speculating if row.rounds)
    notes = tuple(f"{count} rows lack a record, so this is assumed: {text}." for text, count in assumed.most_common())
    title = f"Servers with speculation, predicted by {_named(report)}"
    return Table(title, ("which", "quantity", *_ERRORS), tuple(rows), notes, (SPECULATING,))


def off_by(report: servers.Servers) -> str:
    """Line with the error of each quantity, and the number of values outside 80% intervals; empty without any."""
    rows, parts = report.counted(), []
    for quantity, accuracy in measured_servers.by_quantity(rows):
        where = servers.inside(rows, quantity)
        outside = where.known - where.held
        if accuracy.predicted == 1:
            beyond = ", outside of its 80 % interval" if outside else ""
            parts.append(f"{quantity.title} {percent(accuracy.bias or 0.0, sign=True)}{beyond}")
        elif accuracy.predicted:
            beyond = f", {outside} of {accuracy.predicted} outside their 80 % intervals" if outside else ""
            half = percent(accuracy.median or 0.0)
            parts.append(f"{quantity.title} median {half}{beyond}")
    return "; ".join(parts)


def error_cells(accuracy: servers.Accuracy) -> tuple[str, ...]:
    """Cells with the median, mean, 90th percentile and bias of errors."""
    sizes = ("-" if value is None else f"{value:.3f}" for value in (accuracy.median, accuracy.mean, accuracy.p90))
    return (*sizes, "-" if accuracy.bias is None else f"{accuracy.bias:+z.3f}")


def _numbers(accuracy: servers.Accuracy) -> tuple[str, ...]:
    return (str(accuracy.rows), str(accuracy.predicted), *error_cells(accuracy))


def _named(report: servers.Servers) -> str:
    return "the default profile of each GPU" if report.assumptions == servers.BY_HARDWARE else report.assumptions


_LEGEND = (
    "Each cell has the number of rows, and the share of rows in their 80 % interval. Parentheses contain the range of "
    "this share in 19 of 20 random samples if the true share is 80 %; 'off' marks a share outside this range. The last "
    "number is the median ratio of the upper to the lower end of an interval. In lines of left-out deployments, each "
    "interval comes from the other deployments of the profile. `scenarios/measured/misfits.yaml` lists outliers."
)


def interval_table(report: servers.Servers) -> Table:
    """Table of coverage and width of 80% intervals, by engine and chips.

    The rows are fitted deployments, other deployments, and deployments left out in the profile's cross-validation.
    """
    lines = tuple(
        (
            ENGINE_NAMES[line["engine"]],
            line["chips"].capitalize(),
            line["which"],
            *(_cell(line[name]) for name in measured_servers.JUDGED),
        )
        for line in measured_servers.interval_record(report)
    )
    columns = ("engine", "chips", "which", *(measured_servers.BY_NAME[name].title for name in measured_servers.JUDGED))
    return Table("Intervals of 80 % by engine and generation of chips", columns, lines, (), (_LEGEND,))


def of_chance(share: float, chance: tuple[float, float]) -> str:
    """Text in brackets: the range of coverage that random variation can explain, marked if ``share`` is outside."""
    low, high = chance
    return f" ({100 * low:.0f} to {100 * high:.0f}{'' if low <= share <= high else ': off'})"


def _cell(intervals: measured_servers.Held) -> str:
    share, width, chance = intervals["inside"], intervals["width"], intervals["by_chance"]
    if share is None or width is None:
        return ""
    return f"{intervals['rows']}: {100 * share:.0f} %{of_chance(share, chance) if chance else ''}, {width:.2f}"


@dataclass(frozen=True)
class ValidationPage(AnswerPage[Validated]):
    """Page that compares predictions with measurements of servers.

    Attributes
    ----------
    keys : sequence of str
        Keys to group errors of servers by.
    command : str
        Command that generates the document.
    """

    proportional = False

    keys: Sequence[str] = ()
    command: str = "inference-econ validate"

    def question(self) -> str:
        """Title of the page."""
        return "How far are predictions from measurements?"

    def conclusion(self) -> Pieces:
        """Sentence with the prediction errors on measured servers."""
        errors = list(filter(None, map(off_by, self.answer.servers)))
        return (f"Prediction errors: {'; '.join(errors)}.",) if errors else ()

    def tables(self) -> Sequence[Table]:
        """Tables of errors and of intervals."""
        shown = []
        for report in self.answer.servers:
            shown += error_tables(report, self.keys)
            if not is_few(report) and (intervals := interval_table(report)).rows:
                shown.append(intervals)
        return shown

    def record(self) -> object:
        """One record per comparison."""
        return self.answer.record(self.keys)

    def markdown(self) -> str:
        """Document of all comparisons."""
        lines = ["# Predictions and measurements", "", f"Generated by `{self.command}`.", ""]
        for table in self.tables():
            lines += [f"## {table.title}", "", table.markdown()]
            lines += [line for note in table.every_note for line in (note, "")]
        return "\n".join(lines)

    def blocks(self) -> Sequence[Block]:
        """Tables, followed by notes on the selection of rows."""
        return [*self.tables(), Remarks(NOTES)]

    def summary(self) -> Sequence[Block]:
        """Tables and notes, which a terminal shows while rows are written to a file."""
        return self.blocks()
