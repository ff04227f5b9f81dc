"""How far predictions are off on rows that no fit has seen, beside the aim, and what they lack."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from inference_econ.calibration import QUANTITIES, Accuracy, Row, Servers, scores
from inference_econ.inputs import Assumptions, ErrorSpread, catalog, percent
from inference_econ.inputs import Quantity as Fitted
from inference_econ.report.servers import share_inside
from inference_econ.report.table import Table

_BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}
#: What is aimed at: quantity, which rows, most of the median error and of the 90th percentile [%].
_NEAR, _FAR = "chips of a fitted family", "chips of other families"
_AIMS: tuple[tuple[str, str, float, float | None], ...] = (
    ("tpot", _NEAR, 7.0, 20.0),
    ("tpot", _FAR, 10.0, 20.0),
    ("output_rate", _NEAR, 7.0, 20.0),
    ("output_rate", _FAR, 10.0, 20.0),
    ("ttft_without_load", "all", 15.0, None),
)
#: Rows of a group that are worth a line [1].
ENOUGH = 5
#: The same of what was left out, and the lines of the table of the worst [1].
_MANY, _WORST = 20, 10
#: Profiles that are named; of more, their number is [1].
_NAMED = 3
#: Quantities of narrow tables.
MAIN = ("tpot", "ttft_under_load", "output_rate")
_KINDS = (
    "inside of the fitted range",
    "outside of it (flagged)",
    "engine not recorded",
    "layout not recorded",
    "no profile for the chip",
)
_PROFILE = "profiles/"
#: Fitted to all engines and chips together.
_ALL = "profiles/servers"
#: Fits that left some of their rows out: of all chips, and of chips of one family.
_FITS = {_ALL: "all chips", "profiles/hopper": "Hopper", "profiles/blackwell": "Blackwell"}
_FITTED: tuple[Fitted, ...] = ("tpot", "ttft", "throughput")
_TITLES: dict[Fitted, str] = {"tpot": "TPOT", "ttft": "TTFT", "throughput": "output tokens/s per accelerator"}


def reached(report: Servers) -> Table:
    """Errors of rows that the assumptions were not fitted to, and of fits that left some out, beside the aim."""
    seen, rows = unseen(report)
    lines = list(_left_out_errors())
    for name, which, median, p90 in _AIMS:
        quantity = _BY_NAME[name]
        part = [row for row in rows if which == "all" or _near(row) is (which == _NEAR)]
        accuracy = next(iter(scores(part, quantity).values()), None)
        if accuracy is None or accuracy.median is None or accuracy.p90 is None:
            continue
        aim = f"{median:.0f} %" + ("" if p90 is None else f", {p90:.0f} %")
        numbers = (
            str(accuracy.predicted),
            percent(accuracy.median),
            percent(accuracy.p90),
            share_inside(part, quantity),
        )
        lines.append((quantity.title, seen if which == "all" else f"{seen}, {which}", *numbers, aim))
    counted = report.coverage()
    if counted.plain:
        share = f"{100 * counted.predicted / counted.plain:.1f} % of {counted.plain}"
        lines.append(("rows predicted", "all that count", share, "", "", "", "95 % predicted"))
    columns = (
        "quantity",
        "which rows",
        "number",
        "median",
        "p90",
        "in 80 % interval",
        "aim: median, p90",
    )
    return Table("", columns, tuple(lines))


def _left_out_errors() -> Iterator[tuple[str, ...]]:
    """Of the profiles of all engines."""
    for name, chips in _FITS.items():
        known = catalog.assumptions(name).calibration
        if known is None:
            continue
        parts = (
            (known.errors, "without the chip or the model", "10 %, 20 %" if name == _ALL else "7 %, 20 %"),
            (known.measured_errors, "without the traffic", "7 %, 20 %"),
        )
        for spreads, which, aim in parts:
            for quantity in ("tpot", "throughput"):
                spread = spreads.get(quantity)
                if spread is not None and spread.median is not None and spread.p90 is not None:
                    covered = "-" if spread.covered is None else f"{100 * spread.covered:.0f} %"
                    numbers = (str(spread.rows), percent(spread.median), percent(spread.p90), covered)
                    yield (_TITLES[quantity], f"fits of {chips} {which}", *numbers, aim)


def unseen(report: Servers) -> tuple[str, list[Row]]:
    """Rows that count and whose deployment the assumptions were not fitted to, and what to call them.

    Where no profile says what it was fitted to, these are all of which nobody knows.
    """
    rows = report.counted()
    others, unknown = ([row for row in rows if row.fitted is which] for which in (False, None))
    return ("not known whether fitted", unknown) if unknown and not others else ("not fitted", others)


def alike(report: Servers) -> Table:
    """Errors of rows that were not fitted, by what is known of them and how like they are to those that were."""
    _, rows = unseen(report)
    parts = {kind: [row for row in rows if _kind(row) == kind] for kind in _KINDS}
    lines = []
    for kind, part in parts.items():
        cells = []
        for quantity in (_BY_NAME[name] for name in MAIN):
            accuracy = next(iter(scores(part, quantity).values()), None)
            if accuracy is None or accuracy.median is None or accuracy.p90 is None:
                cells.append("")
                continue
            held = share_inside(part, quantity)
            inside = "" if held == "-" else f", {held} in"
            cells.append(f"{accuracy.predicted}: {percent(accuracy.median)}, {percent(accuracy.p90)}{inside}")
        if any(cells):
            lines.append((kind, *cells))
    return Table("", ("rows", *(_BY_NAME[name].title for name in MAIN)), tuple(lines))


def left_out() -> Table:
    """Errors of fits that did not see a chip, a model, or an engine on a chip with a model."""
    calibration = catalog.assumptions(_ALL).calibration
    groups = () if calibration is None else calibration.left_out
    lines = []
    for group in groups:
        if group.by == "subject" and group.rows < _MANY:
            continue
        errors = (percent(group.medians[quantity]) if quantity in group.medians else "" for quantity in _FITTED)
        lines.append((group.by, group.name, str(group.rows), *errors))
    return Table(
        "", ("without", "which", "rows", *(f"{_TITLES[quantity]}, median" for quantity in _FITTED)), tuple(lines)
    )


def intervals() -> Table:
    """Errors of rows that were left out, and the share inside of intervals made without their group, by profile."""
    lines: list[tuple[str, ...]] = []
    for name, profile in _profiles().items():
        known = profile.calibration
        if known is None:
            continue
        spreads = [errors.get(quantity) for errors in (known.errors, known.measured_errors) for quantity in _FITTED]
        if any(spread is not None and spread.covered is not None for spread in spreads):
            lines.append((name.removeprefix(_PROFILE), *(_covered(spread) for spread in spreads)))
    new = (f"{_TITLES[quantity]}, {what}" for what in ("new", "traffic") for quantity in _FITTED)
    return Table("", ("profile", *new), tuple(lines))


def worst(report: Servers) -> Table:
    """Engines, chips and models whose rows, not fitted, are farthest off, and what is known of the reason."""
    ranked = []
    _, rows = unseen(report)
    for name in MAIN:
        for group, errors in scores(rows, _BY_NAME[name], ("engine", "hardware", "model")).items():
            if errors.predicted >= ENOUGH and errors.median is not None:
                ranked.append((errors.median * math.sqrt(errors.predicted), name, group, errors))
    lines = []
    for _, name, group, errors in sorted(ranked, key=lambda entry: -entry[0])[:_WORST]:
        group_rows = [row for row in rows if _subject(row) == group and row.measured(_BY_NAME[name])]
        cells = (str(errors.predicted), percent(errors.median or 0.0), percent(errors.bias or 0.0, sign=True))
        lines.append((" ".join(group), _BY_NAME[name].title, *cells, _reason(group_rows)))
    return Table("", ("engine, chip, model", "quantity", "rows", "median", "bias", "what is not known"), tuple(lines))


def undetermined() -> list[str]:
    """Constants that the rows of profiles do not determine, of most profiles first, with these or their number."""
    where: dict[str, list[str]] = {}
    profiles = _profiles()
    for name, profile in profiles.items():
        for constant in () if profile.calibration is None else profile.calibration.undetermined:
            where.setdefault(constant, []).append(name.removeprefix(_PROFILE))
    ordered = sorted(where.items(), key=lambda item: -len(item[1]))
    return [
        f"{name} ({', '.join(affected) if len(affected) <= _NAMED else f'{len(affected)} of {len(profiles)} profiles'})"
        for name, affected in ordered
    ]


def side_by_side(parts: Mapping[str, Sequence[Row]], key: str, names: Iterable[str]) -> Table:
    """Some quantities by one key, a column for each part of the rows: predictions, median error and bias.

    Groups of few rows are left out.
    """
    quantities = [_BY_NAME[name] for name in names]
    columns = [
        (quantity, which, scores(rows, quantity, (key,))) for quantity in quantities for which, rows in parts.items()
    ]
    groups = {
        group for _, _, by_group in columns for group, accuracy in by_group.items() if accuracy.predicted >= ENOUGH
    }
    total = {
        group: sum(by_group[group].predicted for _, _, by_group in columns if group in by_group) for group in groups
    }
    lines = [
        (group[0], *(_cell(by_group.get(group)) for _, _, by_group in columns))
        for group in sorted(groups, key=lambda group: (-total[group], group))
    ]
    several = len(parts) > 1
    heads = (f"{quantity.title}, {which}" if several else quantity.title for quantity, which, _ in columns)
    return Table("", (key, *heads), tuple(lines))


def _cell(accuracy: Accuracy | None) -> str:
    if accuracy is None or accuracy.median is None or accuracy.bias is None:
        return ""
    return f"{accuracy.predicted}: {percent(accuracy.median)}, {percent(accuracy.bias, sign=True)}"


def _covered(spread: ErrorSpread | None) -> str:
    if spread is None or spread.covered is None:
        return ""
    errors = "" if spread.median is None or spread.p90 is None else f"{percent(spread.median)}, {percent(spread.p90)}, "
    return f"{errors}{100 * spread.covered:.0f} % in"


def _near(row: Row) -> bool:
    """Whether the assumptions of a row were fitted to chips of its family."""
    known = None if row.assumptions is None else row.assumptions.calibration
    return known is not None and row.measurement is not None and _family(row.measurement.hardware) in known.families


@cache
def _family(hardware: str) -> str:
    return catalog.hardware(hardware).family


def _subject(row: Row) -> tuple[str, ...]:
    measured = row.measurement
    return () if measured is None else (measured.engine or "not recorded", measured.hardware, measured.model)


def _kind(row: Row) -> str:
    """The first of :data:`_KINDS` that a row is."""
    if row.assumptions is None or row.assumptions.calibration is None:
        return _KINDS[4]
    if row.assumed:
        return _KINDS[3]
    if row.measurement is not None and not row.measurement.engine:
        return _KINDS[2]
    return _KINDS[1] if row.outside else _KINDS[0]


def _reason(rows: Sequence[Row]) -> str:
    """The most frequent reason for which rows are outside of what was fitted."""
    reasons = Counter(reason for row in rows for reason in _kinds(row))
    if not reasons:
        return "no reason is known: inside of what was fitted, so that an effect is missing or the rows are odd"
    reason, count = reasons.most_common(1)[0]
    return reason if count == len(rows) else f"{reason} ({count} rows)"


def _kinds(row: Row) -> Iterator[str]:
    """Reasons in words that rows have in common."""
    if row.assumptions is None or row.assumptions.calibration is None:
        yield "no profile for the chip"
    if row.measurement is not None and not row.measurement.engine:
        yield "the engine is not recorded"
    for reason in row.unlike:
        yield reason.kind


def _profiles() -> dict[str, Assumptions]:
    names = [name for name in catalog.names("assumptions") if name.startswith(_PROFILE)]
    return {name: catalog.assumptions(name) for name in names}
