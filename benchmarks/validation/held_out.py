"""Errors on measurements outside the fits, compared with targets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from inference_econ.extras.servers import Accuracy, InputRow, Measurement, Quantity, Servers, by_chance, overall, scores
from inference_econ.extras.servers.pages.servers import of_chance, share_inside
from inference_econ.extras.servers.validation.servers import BY_NAME
from inference_econ.inputs import Assumptions, ErrorSpread, Unlike, catalog, percent
from inference_econ.inputs import Quantity as Fitted
from inference_econ.report.notes import WITHOUT
from inference_econ.report.page import Table


class Aim(NamedTuple):
    """Target for an error |ln(predicted / measured)|."""

    title: str
    """Title."""
    quantity: Quantity
    """Predicted quantity."""
    median: float
    """Largest median [1]."""
    p90: float | None = None
    """Largest 90th percentile [1]."""
    fitted: Fitted | None = None
    """Name of the quantity in the matching cross-validation errors."""
    takes: Callable[[Measurement], bool] | None = None
    """Filter of rows; all by default."""


def _aggregated(row: Measurement) -> bool:
    return row.dataset in ("serving_points", "inferencemax_aggregated") and row.decode is None


def _pools_of(engine: str) -> Callable[[Measurement], bool]:
    return lambda row: row.decode is not None and row.engine == engine


_AIMS = (
    Aim("TPOT of InferenceX on one machine", BY_NAME["tpot"], 0.075, 0.23, "tpot", _aggregated),
    Aim("TTFT under load of InferenceX on one machine", BY_NAME["ttft_under_load"], 0.25, None, "ttft", _aggregated),
    Aim("TTFT without load", BY_NAME["ttft_without_load"], 0.20),
    Aim("TTFT of static batches", BY_NAME["ttft_of_batches"], 0.20),
    Aim("output tokens/s per accelerator", BY_NAME["output_rate"], 0.06, None, "throughput"),
    Aim("TPOT of disaggregated TensorRT-LLM", BY_NAME["tpot"], 0.10, takes=_pools_of("trtllm")),
    Aim("TPOT of disaggregated SGLang", BY_NAME["tpot"], 0.20, takes=_pools_of("sglang")),
)
_SPECULATING = Aim("TPOT of servers with speculation", BY_NAME["tpot"], 0.15)
#: Held-out groups whose errors are shown.
_BESIDE: tuple[Unlike, ...] = ("traffic", "version", "model")
#: Fewest rows of a listed group [1].
ENOUGH = 5
#: Fewest rows of a listed held-out group, and lines of the table of the worst [1].
_MANY, _WORST = 20, 10
#: Most profiles that are named instead of counted [1].
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
#: Profile fitted to all engines and chips.
SERVERS_PROFILE = "profiles/servers"
_REACHED = (
    "Each cell has the median and the 90th percentile of |ln(predicted / measured)|: 0.1 is about 10 %, and 0.69 is a "
    "factor of two. The columns 'new ...' have cross-validated errors of profiles/servers, the fit of all engines and "
    "GPUs: the fit left out all rows with the same lengths and load, engine version, or model."
)
_OF_ALL_ENGINES = (SERVERS_PROFILE, "profiles/hopper", "profiles/blackwell")
_FITTED: tuple[Fitted, ...] = ("tpot", "ttft", "throughput")
_TITLES: dict[Fitted, str] = {"tpot": "TPOT", "ttft": "TTFT", "throughput": "output tokens/s per accelerator"}


def reached(report: Servers) -> Table:
    """Table of errors and targets: all rows, rows outside fits, and cross-validation."""
    counted, (_, others) = report.counted(), unseen(report)
    lines = [_aim_line(aim, counted, others) for aim in _AIMS]
    lines.append(_aim_line(_SPECULATING, report.speculative(), report.speculative()))
    columns = ("errors", "rows", "all", "not fitted", *(f"new {WITHOUT[by]}" for by in _BESIDE), "aim")
    coverage = report.coverage()
    share = f"{coverage.predicted:,} of {coverage.plain:,} usable rows are predicted."
    return Table("", columns, tuple(line for line in lines if line[1]), (_REACHED, share))


def _aim_line(aim: Aim, rows: Iterable[InputRow], others: Iterable[InputRow]) -> tuple[str, ...]:
    """Row of a target with counts and errors; without a count if nothing is predicted."""
    accuracy, unfitted = (overall(_taken(aim, part), aim.quantity) for part in (rows, others))
    number = "" if accuracy is None or not accuracy.predicted else str(accuracy.predicted)
    wanted = _pair(aim.median, aim.p90)
    return (aim.title, number, *map(_errors_of, (accuracy, unfitted, *_left_out(aim.fitted))), wanted)


def _left_out(target: Fitted | None) -> list[ErrorSpread | None]:
    """Cross-validated errors of a quantity for each of :data:`_BESIDE`, from fits to all engines and chips."""
    calibration = catalog.assumptions(SERVERS_PROFILE).calibration
    if calibration is None or target is None:
        return [None] * len(_BESIDE)
    return [calibration.errors.get(by, {}).get(target) for by in _BESIDE]


def _taken(aim: Aim, rows: Iterable[InputRow]) -> list[InputRow]:
    return [row for row in rows if row.measurement is not None and (aim.takes is None or aim.takes(row.measurement))]


def _errors_of(errors: Accuracy | ErrorSpread | None) -> str:
    return "" if errors is None or errors.median is None else _pair(errors.median, errors.p90)


def _pair(median: float, p90: float | None) -> str:
    return f"{median:.3f}" + ("" if p90 is None else f", {p90:.3f}")


def unseen(report: Servers) -> tuple[str, list[InputRow]]:
    """Included rows outside the fits, and their description.

    If no profile lists its fitted deployments, these are the rows of unknown status.
    """
    rows = report.counted()
    others, unknown = ([row for row in rows if row.fitted is which] for which in (False, None))
    return ("not known whether fitted", unknown) if unknown and not others else ("not fitted", others)


def alike(report: Servers) -> Table:
    """Table of errors of rows outside the fits, by similarity to the calibration data."""
    _, rows = unseen(report)
    parts = {kind: [row for row in rows if _kind(row) == kind] for kind in _KINDS}
    lines = []
    for kind, part in parts.items():
        cells = []
        for quantity in (BY_NAME[name] for name in MAIN):
            held = share_inside(part, quantity)
            errors = counted_text(overall(part, quantity))
            cells.append(errors + ("" if held == "-" or not errors else f", {held} in"))
        if any(cells):
            lines.append((kind, *cells))
    return Table("", ("rows", *(BY_NAME[name].title for name in MAIN)), tuple(lines))


def left_out() -> Table:
    """Table of cross-validated errors by held-out chip, model, or engine on a chip with a model."""
    calibration = catalog.assumptions(SERVERS_PROFILE).calibration
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
    """Table of cross-validated errors, and of interval coverage, for profiles of all engines.

    Profiles of single engines contain the same statistics in their files.
    """
    lines: list[tuple[str, ...]] = []
    for name in _OF_ALL_ENGINES:
        calibration = catalog.assumptions(name).calibration
        for by, errors in ({} if calibration is None else calibration.errors).items():
            spreads = [errors.get(quantity) for quantity in _FITTED]
            if any(spread is not None and spread.covered is not None for spread in spreads):
                cells = (_covered(spread) for spread in spreads)
                lines.append((name.removeprefix(_PROFILE), WITHOUT[by], *cells))
    return Table("", ("profile", "new in the prediction", *(_TITLES[quantity] for quantity in _FITTED)), tuple(lines))


def worst(report: Servers) -> Table:
    """Table of the engines, chips and models with the largest errors outside fits, with known reasons."""
    ranked = []
    _, rows = unseen(report)
    for name in MAIN:
        for group, errors in scores(rows, BY_NAME[name], ("engine", "hardware", "model")).items():
            if errors.predicted >= ENOUGH and errors.median is not None:
                ranked.append((errors.median * math.sqrt(errors.predicted), name, group, errors))
    lines = []
    for _, name, group, errors in sorted(ranked, key=lambda entry: -entry[0])[:_WORST]:
        group_rows = [row for row in rows if _subject(row) == group and row.measured(BY_NAME[name])]
        cells = (str(errors.predicted), percent(errors.median or 0.0), percent(errors.bias or 0.0, sign=True))
        lines.append((" ".join(group), BY_NAME[name].title, *cells, reason_of(group_rows)))
    return Table("", ("engine, chip, model", "quantity", "rows", "median", "bias", "what is not known"), tuple(lines))


def undetermined() -> list[str]:
    """Constants that profiles do not determine, with the profiles or their number, most frequent first."""
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


def side_by_side(parts: Mapping[str, Sequence[InputRow]], key: str, names: Iterable[str]) -> Table:
    """Table of quantities by one key, with predictions, median error and bias for each part of the rows.

    Small groups are omitted.
    """
    quantities = [BY_NAME[name] for name in names]
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
        (group[0], *(counted_text(by_group.get(group), "bias") for _, _, by_group in columns))
        for group in sorted(groups, key=lambda group: (-total[group], group))
    ]
    several = len(parts) > 1
    heads = (f"{quantity.title}, {which}" if several else quantity.title for quantity, which, _ in columns)
    return Table("", (key, *heads), tuple(lines))


def errors_text(accuracy: Accuracy | None, second: Literal["p90", "bias"] = "p90") -> str:
    """Median error and 90th percentile or bias, in percent; empty without predictions."""
    if accuracy is None or accuracy.median is None:
        return ""
    return f"{percent(accuracy.median)}, {percent(getattr(accuracy, second), sign=second == 'bias')}"


def counted_text(accuracy: Accuracy | None, second: Literal["p90", "bias"] = "p90") -> str:
    """Number of predictions with their :func:`errors_text`."""
    errors = errors_text(accuracy, second)
    return errors and f"{accuracy.predicted}: {errors}"  # type: ignore[union-attr]


def _covered(spread: ErrorSpread | None) -> str:
    if spread is None or spread.covered is None:
        return ""
    errors = "" if spread.median is None or spread.p90 is None else f"{percent(spread.median)}, {percent(spread.p90)}, "
    # With too few groups, the statistics are those of the base.
    chance = " (few groups)"
    if spread.own is None and spread.groups:
        chance = of_chance(spread.covered, by_chance([spread.rows / spread.groups] * spread.groups))
    return f"{errors}{100 * spread.covered:.0f} %{chance} in, {spread.width:.2f} wide"


def _subject(row: InputRow) -> tuple[str, ...]:
    measured = row.measurement
    return () if measured is None else (measured.engine or "not recorded", measured.hardware, measured.model)


def _kind(row: InputRow) -> str:
    """First of :data:`_KINDS` that applies to a row."""
    if row.assumptions is None or row.assumptions.calibration is None:
        return _KINDS[4]
    if row.assumed:
        return _KINDS[3]
    if row.measurement is not None and not row.measurement.engine:
        return _KINDS[2]
    return _KINDS[1] if row.outside else _KINDS[0]


def reason_of(rows: Sequence[InputRow]) -> str:
    """Most frequent reason why rows are outside the calibration data, or a text without one."""
    reasons = Counter(reason for row in rows for reason in _kinds(row))
    if not reasons:
        return "no known reason: the calibration data cover these rows, so an effect is missing or the rows are wrong"
    reason, count = reasons.most_common(1)[0]
    return reason if count == len(rows) else f"{reason} ({count} rows)"


def _kinds(row: InputRow) -> Iterator[str]:
    """Reasons in words, without numbers of single rows."""
    if row.assumptions is None or row.assumptions.calibration is None:
        yield "no profile for the chip"
    if row.measurement is not None and not row.measurement.engine:
        yield "the engine is not recorded"
    for reason in row.unlike:
        yield reason.kind


def _profiles() -> dict[str, Assumptions]:
    names = [name for name in catalog.names("assumptions") if name.startswith(_PROFILE)]
    return {name: catalog.assumptions(name) for name in names}
