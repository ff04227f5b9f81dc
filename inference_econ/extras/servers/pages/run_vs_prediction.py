"""Pages that compare a run with a prediction, and pages that show a calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inference_econ._types import Array
from inference_econ.answers.launching.plan import UNITS, Expected, OfferedLoad, PlanPart
from inference_econ.answers.load import load_sweep_record, sweep
from inference_econ.answers.slo import Targets
from inference_econ.errors import InputError
from inference_econ.extras import servers
from inference_econ.extras.servers import BenchmarkRun, CheckedNumber, hold, levels
from inference_econ.extras.servers.calibrate import Calibrated, shown_folds
from inference_econ.inputs import MeasuredLevels, Unlike, percent, value_of
from inference_econ.records.plain import attributes, finite_or_none
from inference_econ.records.texts import PART_NAMES, digits, prefixed
from inference_econ.report.deployment_reader import expected_under_load
from inference_econ.report.headings import speculation_label
from inference_econ.report.notes import WITHOUT
from inference_econ.report.page import AnswerPage, Page, Pieces, Table
from inference_econ.report.service import fleet_label
from inference_econ.serving import Service

#: Words for met, missed and missing SLOs.
_KEPT = {True: "met", False: "VIOLATED", None: ""}


@dataclass(frozen=True)
class AgainstPage(Page):
    """Comparison of a run with a saved result.

    Attributes
    ----------
    files : str
        Names of the files with the run and the saved result.
    parts : sequence of PlanPart
        Predicted deployment of the run.
    held : sequence of CheckedNumber
        Measured numbers with their predictions.
    suspects : sequence of Suspect
        Parts of a step that could explain the difference in TPOT.
    command : str
        Command that calibrates with the run.
    """

    files: str
    parts: Sequence[PlanPart]
    held: Sequence[servers.CheckedNumber]
    suspects: Sequence[servers.Suspect]
    command: str

    def tables(self) -> Sequence[Table]:
        """Tables of measured and predicted numbers, and of step parts that could explain a TPOT difference."""
        fleet = ", ".join(fleet_label(part.service, part.replicas) for part in self.parts)
        numbers = Table(
            f"{self.files}: {fleet}", _COLUMNS, tuple(_row(held) for held in self.held), (self.verdict,), least=_LEAST
        )
        if not self.suspects:
            return (numbers,)
        rows = tuple(
            (PART_NAMES[each.part], f"{1e3 * each.seconds:.3f}", f"{each.factor:.2f}", ", ".join(each.constants))
            for each in self.suspects
        )
        notes = (
            "'times as long': factor by which this part alone must be longer to explain the measured TPOT. Prefill of "
            "other requests is excluded. A fit to one run determines one constant; use more runs for more constants: "
            f"{self.command}",
        )
        return numbers, Table("Parts of a decode step that could explain the difference", _PARTS, rows, why=notes)

    @property
    def verdict(self) -> str:
        """Sentence on the measured numbers inside their predicted intervals, and on met SLOs."""
        inside = [held.inside for held in self.held if held.inside is not None]
        kept = [held.kept for held in self.held if held.kept is not None]
        sentence = f"{sum(inside)} of {len(inside)} measured numbers are in their 80% intervals"
        if not kept:
            return f"{sentence}. The plan has no SLO."
        broken = f"{kept.count(False)} of {len(kept)} SLOs were violated"
        return f"{sentence}. {'All SLOs were met' if all(kept) else broken}."

    def record(self) -> object:
        """Full record of the comparison."""
        return {
            "numbers": [checked_record(held) for held in self.held],
            "verdict": self.verdict,
            "suspects": [
                attributes(each, "part seconds factor") | {"constants": [*each.constants]} for each in self.suspects
            ],
            "calibrate": self.command,
        }


_COLUMNS = ("number", "predicted", "interval", "measured", "measured/predicted", "in interval", "SLO")
#: Columns that a narrow terminal omits.
_LEAST = ("in interval", "measured/predicted")
_PARTS = ("part", "ms", "times as long", "constants")


def checked_record(held: servers.CheckedNumber) -> dict[str, object]:
    """Measured number of a run and its prediction as plain data, in base units."""
    expected = held.expected
    return {
        **attributes(expected, "measure statistic"), "predicted": expected.value, **attributes(expected, "low high"),
        **attributes(held, "measured inside"), "promised": expected.promised, "kept": held.kept,
    }  # fmt: skip


def _row(held: servers.CheckedNumber) -> tuple[str, ...]:
    expected = held.expected
    _, unit, factor = UNITS[expected.measure]
    ends = (expected.low, expected.high)
    between = "" if None in ends else " to ".join(digits(factor * float(end or 0.0)) for end in ends)
    promised = "" if expected.promised is None else f"{_KEPT[held.kept]} ({digits(factor * expected.promised)})"
    return (
        f"{expected.name} {unit}".strip(),
        digits(factor * expected.value),
        between,
        digits(factor * held.measured),
        f"{held.measured / expected.value:.2f}",
        {True: "yes", False: "no", None: ""}[held.inside],
        promised,
    )


_LEGEND = (
    "'error': median relative error, the larger of predicted and measured value over the smaller, minus 1. 'bias': "
    "median of predicted / measured - 1."
)

#: Median log error above which a fit does not reproduce its data: a factor of 1.5 [1].
_POOR = math.log(1.5)


class CalibrationPage(AnswerPage[Calibrated]):
    """Page of a calibration."""

    proportional = False

    def tables(self) -> Sequence[Table]:
        """Tables of constants, errors, and cross-validation."""
        fitted, folds = self.answer.fitted, self.answer.folds
        return constants_table(fitted), errors_table(fitted, folds), left_out_table(fitted, folds)

    def question(self) -> str:
        """Title of the page."""
        return "Which constants describe these measurements?"

    def conclusion(self) -> Pieces:
        """Sentence with the median errors of the fit."""
        fitted = self.answer.fitted
        errors = ", ".join(f"{target} {percent(fitted.median_error(target))}" for target in fitted.targets)
        return (f"After a fit to {len(fitted.rows)} measurements, the median errors are: {errors}.",)


def constants_table(fitted: servers.Fit) -> Table:
    """Table of constants with standard errors, and whether the data determine each constant."""
    rows = []
    for name, value, error, unknown in zip(fitted.names, fitted.values, fitted.log_errors, fitted.unknown, strict=True):
        before = value_of(fitted.base, name)
        base = "-" if before is None else _amount(name, before)
        rows.append((name, _amount(name, value), percent(error), base, unknown or "yes"))
    columns = ("constant", "value", "standard error", "base", "determined by the rows")
    days = servers.days_of(fitted.rows)
    measured = "" if days is None else f", measured {days.since} to {days.until}"
    return Table(f"Fitted to {len(fitted.rows)} rows{measured}", columns, tuple(rows))


def errors_table(fitted: servers.Fit, folds: Mapping[Unlike, Sequence[servers.Fold]]) -> Table:
    """Table of median errors by engine, chip and model, including left-out chips and models."""
    kinds = [f"{target}: {what}" for target in fitted.targets for what in ("error", "bias")]
    base = f"all, by the base ({fitted.base.name})"
    rows = [("all", *_line(fitted.errors)), (base, *_line(fitted.base_errors))]
    labels = np.array([servers.GROUPS["subject"](row) for row in fitted.rows])
    rows += [(label, *_line(fitted.errors[labels == label])) for label in sorted(set(labels.tolist()))]
    rows += [(f"{fold.left_out}, left out", *_line(fold.errors)) for fold in shown_folds(folds)]
    return Table("Errors", ("rows of", "number", *kinds), tuple(rows), why=(_LEGEND,))


def not_reproduced(fitted: servers.Fit) -> list[str]:
    """Advice for each target with large errors."""
    return [
        f"{target}: the fit does not reproduce the rows (median error {percent(error)}). "
        "Check units (seconds, milliseconds), formats of weights and KV cache, "
        "speculation and layout of the rows, or fit more constants (--prior, --fit)."
        for target in fitted.targets
        if (error := fitted.median_error(target)) > _POOR
    ]


def _line(errors: Array) -> tuple[str, ...]:
    cells = [str(len(errors))]
    for column in errors.T:
        finite = column[np.isfinite(column)]
        cells += [_middle(np.abs(finite)), _middle(finite, sign=True)] if finite.size else ["-", "-"]
    return tuple(cells)


def _middle(errors: Array, *, sign: bool = False) -> str:
    return percent(float(np.median(errors)), sign=sign)


def left_out_table(fitted: servers.Fit, folds: Mapping[Unlike, Sequence[servers.Fold]]) -> Table:
    """Table of cross-validated errors, and of the coverage of 80% intervals."""
    heads = (f"{target}: {what}" for target in fitted.targets for what in ("error", "in 80 %"))
    rows = []
    for by in filter(folds.get, servers.GROUPS):
        cells = [f"without the {WITHOUT[by]}", str(len(folds[by]))]
        for index in range(len(fitted.targets)):
            groups = servers.held_out(folds, by, index)
            share = servers.coverage(groups)
            cells.append(_middle(np.abs(servers.joined(groups))) if groups else "-")
            cells.append(f"{100 * share:.0f} %" if math.isfinite(share) else "-")
        rows.append(tuple(cells))
    why = (
        "A fit to all other groups predicts each group. The interval of a group comes from the errors of the other "
        "groups.",
    )
    return Table("Left out", ("rows", "groups", *heads), tuple(rows), why=why)


def _amount(name: str, value: float) -> str:
    return f"{prefixed(value, 'mu', '.3g')}s" if servers.CONSTANTS[name].unit == "s" else f"{value:.3g}"


@dataclass(frozen=True)
class OwnLevelsPage(Page):
    """Page of corrections fitted to your servers.

    Attributes
    ----------
    fitted : levels.OwnProfile
        Fitted corrections, with prediction errors before and after the fit.
    """

    fitted: levels.OwnProfile

    def tables(self) -> Sequence[Table]:
        """Table with one row per deployment: correction, and prediction errors with and without the correction."""
        rows = tuple(
            (
                f"{line['model']} on {line['hardware']}, {line['layout']}",
                str(line["rows"]),
                f"{line['decode']:.2f}",
                f"{line['prefill']:.2f}",
                *(_off(line[f"{quantity}_{when}"]) for quantity in levels.QUANTITIES for when in ("before", "after")),
            )
            for line in self._lines()
        )
        columns = ("server", "rows", "decode x", "prefill x", "TPOT off %", "after", "TTFT off %", "after")
        notes = (
            "'decode x' and 'prefill x': measured step times divided by those of the profile. 'off %': median of "
            "predicted / measured - 1, before and after the correction.",
            f"The factors are for one engine. Use them with --engine {self.fitted.group.engine} and --assumptions.",
            *self._left_out(),
        )
        return (Table(f"Measured factors over {self.fitted.group.profile}", columns, rows, notes),)

    def _left_out(self) -> tuple[str, ...]:
        """Note on quantities to which the corrections are not fitted."""
        others = [name.upper() for name in levels.QUANTITIES if name not in self.fitted.quantities]
        if not others:
            return ()
        return (
            f"The factors are not fitted to {' and '.join(others)}, because the fit would increase the error of TPOT. "
            "Measure TTFT at a low load to fit prefill.",
        )

    def record(self) -> object:
        """Rows of the table as plain data."""
        return {"profile": self.fitted.group.profile, "deployments": self._lines()}

    def _lines(self) -> list[dict[str, Any]]:
        fitted = self.fitted
        file = MeasuredLevels.build(fitted.levels, origin="levels")
        entries, shared = levels.known_entries(file), levels.known_shared(fitted.group, file)
        releases = levels.known_releases(file)
        parts: dict[Any, list[int]] = {}
        for index, row in enumerate(fitted.rows):
            parts.setdefault(levels.places_of(row), []).append(index)
        lines = []
        for (decode, prefill), which in parts.items():
            names = levels.shared_of(fitted.group, fitted.rows[which[0]], releases.get(fitted.group.engine, {}))
            beside = [sum(shared.get(name, 0.0) for name in names if name[1] == kind) for kind in range(2)]
            line: dict[str, Any] = {
                "model": decode.subject[0],
                "hardware": decode.subject[1],
                "layout": decode.deployment[0],
                "rows": len(which),
                "decode": math.exp(entries[tuple(decode)].decode + beside[0]),
                "prefill": math.exp(entries[tuple(prefill)].prefill + beside[1]),
            }
            for when, errors in (("before", fitted.before), ("after", fitted.after)):
                for column, quantity in enumerate(levels.QUANTITIES):
                    finite = sorted(error for error in errors[which, column].tolist() if math.isfinite(error))
                    line[f"{quantity}_{when}"] = math.expm1(finite[len(finite) // 2]) if finite else None
            lines.append(line)
        return lines


def _off(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:+z.0f}"


#: Measures in a line, and widths of its columns [characters].
_SHOWN, _WIDTHS = ("ttft", "tpot", "throughput"), (14, 12, 23, 23, 10)


@dataclass(frozen=True, slots=True)
class Watched:
    """One window between two readings of a server's metrics.

    Attributes
    ----------
    at : str
        End time, or the file of the second reading.
    run : BenchmarkRun or None
        Means of the window; None if the window has no requests.
    held : sequence of CheckedNumber
        Measured numbers with predictions at the measured request rate; empty if the request lengths differ.
    reason : str
        Reason for a missing comparison; empty if there is none.
    remarks : sequence of str
        Differences between the window and the prediction.
    """

    at: str
    run: BenchmarkRun | None
    held: Sequence[CheckedNumber]
    reason: str = ""
    remarks: Sequence[str] = ()

    @property
    def outside(self) -> Sequence[str]:
        """Measured numbers outside their intervals, each with ``above`` or ``below``."""
        sides = {True: "above", False: "below"}
        wrong = [held for held in self.held if held.inside is False]
        return [f"{held.expected.name} {sides[held.measured > held.expected.value]}" for held in wrong]

    @property
    def state(self) -> str:
        """``inside``, ``outside`` or ``not compared``."""
        return "not compared" if self.reason else "outside" if self.outside else "inside"

    @property
    def text(self) -> str:
        """Line for a table below the text of :func:`heading`."""
        by_measure = {held.expected.measure: held for held in self.held if held.expected.statistic == "mean"}
        numbers = [_number(by_measure[name]) if name in by_measure else "" for name in _SHOWN]
        rate = "" if self.run is None else f"{self.run.requests_per_second:.4g}"
        broken = [f"SLO of {held.expected.name} VIOLATED" for held in self.held if held.kept is False]
        outside = f"OUTSIDE: {', '.join(self.outside)}" if self.outside else "inside"
        verdict = f"not compared: {self.reason}" if self.reason else "; ".join((outside, *broken, *self.remarks))
        return f"{_columns((self.at, rate, *numbers))}{verdict}"

    def record(self) -> dict[str, object]:
        """Window as plain data, in base units."""
        run = self.run
        server = dict.fromkeys(("model", "engine")) if run is None else attributes(run.told, "model engine")
        means = {} if run is None else attributes(run, "requests_per_second concurrency isl osl cached_share")
        load = ("request_rate", "in_flight", "isl", "osl", "cached_share")
        return {
            "at": self.at,
            **server,
            "state": self.state,
            "reason": self.reason or None,
            "remarks": list(self.remarks),
            **dict.fromkeys(load),
            **{name: value and finite_or_none(value) for name, value in zip(load, means.values(), strict=False)},
            "numbers": [checked_record(held) for held in self.held],
        }


def heading(service: Service) -> str:
    """Deployment that the server is compared with, and the column headings."""
    columns = _columns(("at", "requests/s", "TTFT mean ms", "TPOT mean ms", "tokens/s"))
    proposer = f", {speculation_label(service.speculation)}" if service.speculation else ""
    return f"Compared with {service.setup.model.name}, {fleet_label(service, 1)}{proposer}\n{columns}in 80 % interval"


def watched(at: str, service: Service, run: BenchmarkRun, targets: Targets, arrival_scv: float) -> Watched:
    """Compare a window with the prediction at its request rate.

    Parameters
    ----------
    at : str
        End of the window.
    service : Service
        Predicted instance.
    run : BenchmarkRun
        Means of the window, with its request rate.
    targets : Targets
        SLOs.
    arrival_scv : float
        Squared coefficient of variation of interarrival times [1].

    Returns
    -------
    Watched
        Window with its comparison. A window is not compared if the request lengths differ from the prediction. Above
        the predicted capacity, output throughput is compared with the throughput of a full instance.
    """
    rate, osl = run.requests_per_second or 0.0, service.requests.osl.mean
    points = sweep(service, [rate], targets=targets, arrival_scv=arrival_scv)
    record: Any = load_sweep_record(points, targets, [point.record(targets) for point in points])
    expected: Sequence[Expected] = expected_under_load(record["points"][0], record["targets"], osl, "mean")
    if points[0].load.saturated:
        full = (record[f"requests_per_second_when_full{end}"] for end in ("", "_low", "_high"))
        expected = (*expected[:-1], Expected("throughput", "mean", *(end and end * osl for end in full)))
    # End-to-end latency adds no information, unless it has an SLO.
    expected = [entry for entry in expected if entry.measure in _SHOWN or entry.promised is not None]
    # Prompts in a cache have a lower TTFT than a prediction without a cache.
    remarks = () if service.requests.cached or service.requests.shared_prefix else run.remarks
    try:
        held = hold(expected, OfferedLoad(rate), 1, service, run)
        reason = "" if any(entry.inside is not None for entry in held) else "these assumptions have no known interval"
        return Watched(at, run, held, reason, remarks)
    except InputError as error:
        # The advice to run a benchmark is omitted, because users determine the requests of a live server.
        return Watched(at, run, (), str(error).partition("; run the")[0])


def _columns(cells: Sequence[str]) -> str:
    return "".join(
        f"{cell:<{width}}" if len(cell) < width else f"{cell} " for cell, width in zip(cells, _WIDTHS, strict=True)
    )


def _number(held: CheckedNumber) -> str:
    """Measured number with its predicted interval."""
    expected, factor = held.expected, UNITS[held.expected.measure][2]
    if expected.low is None or expected.high is None:
        return f"{factor * held.measured:.4g}"
    return f"{factor * held.measured:.4g} ({factor * expected.low:.4g} to {factor * expected.high:.4g})"
