"""Measured servers beside predictions, as tables, plain data, and rows for spreadsheets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from inference_econ.engine import formats
from inference_econ.extras import servers
from inference_econ.extras.servers.validation.servers import by_quantity, reasons_outside
from inference_econ.inputs import catalog, number, percent
from inference_econ.records.plain import attributes
from inference_econ.report.page import Table

#: Rows that are named one by one; of more, the first and the last are.
_NAMED = 3
#: So many rows that count are shown one by one.
_FEW = 10
_ERRORS = ("rows", "predicted", "median", "mean", "p90", "bias")
LEGEND = "Errors are |ln(predicted / measured)|: 0.1 is about 10 %, 0.69 a factor of two; the bias keeps the sign."
#: How speculating servers are predicted, for people.
SPECULATING = (
    "Predicted with the draft length that they ran, in every round, and with the acceptance length that is published "
    "for their model: nothing is fitted to them, and they are not counted above. What is not recorded of that is taken "
    "from the recipe of their engine for their model, and from what is usual of their proposer."
)


def tables(report: servers.Servers, by: Sequence[str] = ()) -> list[Table]:
    """Tables of a report: who takes part, errors, errors by groups, and rows that could not be predicted.

    Of a few rows, as those of a load test, each is shown; who takes part is not where all do.

    Parameters
    ----------
    report : Servers
        What was compared.
    by : sequence of str
        What to group by, each by itself.
    """
    few = is_few(report)
    all_count = len(report.counted()) == len(report.rows)
    shown = [] if few and all_count else [coverage(report)]
    shown.append(row_by_row(report) if few else errors(report))
    shown += [grouped(report, key) for key in by]
    if any(row.assumed for row in report.counted()):
        shown.append(_assumed(report))
    if report.speculative():
        shown.append(_speculative(report))
    if report.reasons():
        shown.append(missing(report))
    return shown


def is_few(report: servers.Servers) -> bool:
    """Return whether the rows that count are shown one by one, instead of their errors in the median."""
    return 0 < len(report.counted()) <= _FEW


def coverage(report: servers.Servers) -> Table:
    """Rows by file: read, understood, counted, predicted."""
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
        "dataset", "rows", "understood", "repeats", "with speculation", "spoilt", "counted", "predicted",
        "of these assumed", "covered %",
    )  # fmt: skip
    least = ("of these assumed", "spoilt", "repeats", "understood", "with speculation")
    return Table(f"Measured servers under {_named(report)}: rows", columns, tuple(rows), least=least)


def errors(report: servers.Servers) -> Table:
    """Errors of all that count, by quantity, and of those that the assumptions were and were not fitted to."""
    rows = [
        (quantity.title, which, *_numbers(accuracy), share_inside(part, quantity))
        for quantity in servers.QUANTITIES
        for which, part in report.split().items()
        for accuracy in servers.scores(part, quantity).values()
    ]
    notes = tuple(
        _reading(title, accuracy) for title, accuracy in _overall(report.counted()) if accuracy.median is not None
    )
    columns = ("quantity", "which", *_ERRORS, "in 80 % interval")
    return Table(f"Errors under {_named(report)}", columns, tuple(rows), notes, (LEGEND,), ("p90", "mean"))


def row_by_row(report: servers.Servers) -> Table:
    """Table of measured and predicted numbers of each row that counts, and why some rows are unlike others."""
    counted = report.counted()
    named = len(report.rows) > 1
    rows = [
        ((row.id,) if named else ()) + _compared(row, quantity)
        for row in counted
        for quantity in servers.QUANTITIES
        if row.measured(quantity) is not None
    ]
    off, settings = off_by(report), tuple(dict.fromkeys(map(_settings, counted)))
    readings = ((f"Predictions are off by: {off}.",) if off else ()) + (settings if len(settings) == 1 else ())
    notes = tuple(f"{row.id}: {'; '.join(reasons)}." for row in counted if (reasons := reasons_outside(report, row)))
    columns = (("row",) if named else ()) + ("quantity", "measured", "predicted", "off by", "80 % interval")
    return Table(f"Measured beside predicted under {_named(report)}", columns, tuple(rows), readings, notes)


def _compared(row: servers.InputRow, quantity: servers.Quantity) -> tuple[str, ...]:
    unit, factor = (" [ms]", 1e3) if quantity.field.endswith("_seconds") else ("", 1.0)
    measured, predicted, where = row.measured(quantity), row.predicted(quantity), row.interval(quantity.field)
    off = "-" if not measured or predicted is None else f"{100 * (predicted / measured - 1):+z.0f} %"
    ends = "-" if where is None else f"{number(factor * where.low)} to {number(factor * where.high)}"
    values = ("-" if value is None else number(factor * value) for value in (measured, predicted))
    return (quantity.title + unit, *values, off, ends)


def share_inside(rows: Iterable[servers.InputRow], quantity: servers.Quantity) -> str:
    """Share of the measured values that are in the intervals of their predictions, in per cent; "-" without any."""
    where = servers.inside(rows, quantity)
    return f"{100 * where.held / where.known:.0f} %" if where.known else "-"


def grouped(report: servers.Servers, key: str) -> Table:
    """Errors by the values of one key, quantity after quantity."""
    rows = [
        (value, quantity.title, *_numbers(accuracy))
        for quantity in servers.QUANTITIES
        for (value,), accuracy in servers.scores(report.counted(), quantity, (key,)).items()
    ]
    return Table(f"Errors by {key} under {_named(report)}", (key, "quantity", *_ERRORS), tuple(rows))


def missing(report: servers.Servers) -> Table:
    """Table of the reasons for which rows have no prediction."""
    rows = []
    for reason, skipped in report.reasons().items():
        ids = [row.id for row in skipped]
        which = ", ".join(ids) if len(ids) <= _NAMED else f"{ids[0]} to {ids[-1]}"
        rows.append((str(len(skipped)), reason, ", ".join(dict.fromkeys(row.dataset for row in skipped)), which))
    return Table("Not predicted", ("rows", "because", "dataset", "which"), tuple(rows))


def beyond(violations: Sequence[servers.Violation]) -> Table:
    """Measurements that beat the bound, and why."""
    rows = tuple(
        (violation.row.id, violation.row.dataset, violation.quantity.title, f"{violation.measured:.4g}",
         f"{violation.bound:.4g}", f"{violation.factor:.2f}", violation.why)
        for violation in violations
    )  # fmt: skip
    columns = ("row", "dataset", "quantity", "measured", "bound", "factor", "diagnosis")
    ids = {violation.row.id for violation in violations}
    reading = f"{len(ids)} rows are faster than the preset ideal lets them be."
    return Table("Beyond the bound", columns, rows, (reading,), ("In seconds and tokens/s per accelerator.",))


def _overall(rows: Sequence[servers.InputRow]) -> list[tuple[str, servers.Accuracy]]:
    return [(quantity.title, accuracy) for quantity, accuracy in by_quantity(rows)]


def _speculative(report: servers.Servers) -> Table:
    """Speculating servers, a class of their own: all quantities, and the main one by engine, chip and draft."""
    speculating = report.speculative()
    rows = [("all", title, *_numbers(accuracy)) for title, accuracy in _overall(speculating)]
    which = ("engine", "hardware", "speculation")
    parts = servers.scores(speculating, servers.QUANTITIES[0], which)
    rows += [(" ".join(part), servers.QUANTITIES[0].title, *_numbers(accuracy)) for part, accuracy in parts.items()]
    columns = ("which", "quantity", *_ERRORS)
    title = f"Speculating servers under {_named(report)}"
    return Table(title, columns, tuple(rows), _by_recipe(speculating), (SPECULATING,))


def _by_recipe(speculating: Sequence[servers.InputRow]) -> tuple[str, ...]:
    """Sentences on assumptions for rows whose rounds are not recorded, and on how many these are."""
    assumed = Counter(row.rounds for row in speculating if row.rounds)
    return tuple(f"Not recorded of {count} rows, and assumed: {text}." for text, count in assumed.most_common())


def _assumed(report: servers.Servers) -> Table:
    assumed = [row for row in report.counted() if row.assumed]
    rows = [(title, *_numbers(accuracy)) for title, accuracy in _overall(assumed)]
    reading = "Their rows do not say how many workers there were, or how they shared the work; they count above too."
    title = f"Rows with an assumed layout under {_named(report)}"
    return Table(title, ("quantity", *_ERRORS), tuple(rows), why=(reading,))


def off_by(report: servers.Servers) -> str:
    """Line on the error of each quantity of the rows that count; empty where nothing is predicted."""
    rows = report.counted()
    return "; ".join(_off_by(rows, quantity, errors) for quantity, errors in by_quantity(rows) if errors.predicted)


def _off_by(rows: Sequence[servers.InputRow], quantity: servers.Quantity, accuracy: servers.Accuracy) -> str:
    """Words for the error of a quantity, and for whether its interval holds that."""
    where = servers.inside(rows, quantity)
    outside = where.known - where.held
    if accuracy.predicted == 1:
        beyond = ", outside of its 80 % interval" if outside else ""
        return f"{quantity.title} {percent(accuracy.bias or 0.0, sign=True)}{beyond}"
    beyond = f", {outside} outside of their 80 % intervals" if outside else ""
    return f"{quantity.title} at most {percent(accuracy.median or 0.0)} for half of {accuracy.predicted}{beyond}"


def _settings(row: servers.InputRow) -> str:
    """Sentence on the server that a row was predicted as."""
    server = row.measurement
    assert server is not None and row.assumptions is not None
    published = "" if server.weights else ", as published"
    weights = formats(catalog.model(server.model), server.weights)
    layout, engine = servers.layout_of(server) or row.assumed, servers.version_of(server) or "no engine"
    return (
        f"Predicted as {server.model} with weights in {weights}{published}, {layout} on {server.hardware}, by {engine} "
        f"({row.assumptions.name})."
    )


def _reading(title: str, accuracy: servers.Accuracy) -> str:
    half = percent(accuracy.median or 0.0)
    which = "the prediction is" if accuracy.predicted == 1 else f"half of the {accuracy.predicted} predictions are"
    return f"{title[0].upper()}{title[1:]}: {which} within {half}."


def error_cells(accuracy: servers.Accuracy) -> tuple[str, ...]:
    """Median, mean, ninth tenth and bias of some errors for people."""
    sizes = ("-" if value is None else f"{value:.3f}" for value in (accuracy.median, accuracy.mean, accuracy.p90))
    return (*sizes, "-" if accuracy.bias is None else f"{accuracy.bias:+z.3f}")


def _numbers(accuracy: servers.Accuracy) -> tuple[str, ...]:
    return (str(accuracy.rows), str(accuracy.predicted), *error_cells(accuracy))


def _named(report: servers.Servers) -> str:
    return "the profiles of their hardware" if report.assumptions == servers.BY_HARDWARE else report.assumptions
