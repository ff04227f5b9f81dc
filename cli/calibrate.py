"""The command that fits assumptions to measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

import inference_econ as ie
from inference_econ import calibration, inputs, report
from inference_econ.errors import InputError
from inference_econ.records import files

from . import options, show
from .help import command

#: Fields of a deployment that result files do not say.
_DEPLOYMENT = ("hardware", "model", "engine", "weights", "kv", "tp", "dp", "pp", "ep")


@command("calibrate")
def calibrate(
    data: tuple[str, ...],
    names: str,
    targets: str,
    path: str | None,
    only_levels: bool,
    output: options.Output,
    **choices: Any,
) -> None:
    """Fit constants of the assumptions to measurements, and write them as a profile.

    DATA are CSV files with the columns of a file that comes with the package (see scenarios/measured), or the names of
    such files; or results of vllm bench serve, SGLang's bench_serving, genai-perf or AIPerf, with --hardware, --tp and
    so on. Constants that the rows do not determine keep about the value of the base; the table says which. Of fewer
    rows than constants, as of one point of a load test, only levels are fitted (--levels).
    """
    from inference_econ.calibration.calibrate import base_of

    if path is not None and not path.endswith((".yaml", ".yml")):
        raise InputError(f"{path}: a profile is written as YAML; end the name in .yaml (the tables are printed)")
    reference = choices["reference"]
    if reference != "user" and reference not in inputs.catalog.references():
        raise InputError(f"reference: {reference!r} is no key of references.bib; 'user' stands for your own data")
    changes = _assumption_changes(choices["changes"])
    measured = _Measured.of(data, choices)
    if only_levels or (0 < len(measured.rows) < len(_words(names)) and not measured.first_skipped):
        _fit_levels(measured, data, path, output, choices)
        return
    preset = choices["base"] or base_of(measured.rows)
    base, constants = inputs.catalog.assumptions(preset, changes=changes), _words(names)
    with show.progress_bar(quiet=output.quiet) as progress:
        try:
            fitted = calibration.fit.fit(
                measured.used, constants, base, targets=_words(targets), prior=choices["prior"], progress=progress
            )
        except InputError as error:
            if len(measured.rows) < len(constants):
                raise InputError(f"{error}{measured.why_few}") from error
            raise
        folds = calibration.holdout.all_folds(fitted, progress=progress)
    if path is not None:
        provenance = calibration.Provenance(
            choices["name"] or "fitted profile",
            preset,
            _data(data, choices),
            reference,
            date.today().isoformat(),
            changes,
            choices["description"],
        )
        files.write_text(path, inputs.yaml_text(calibration.profile(fitted, folds, provenance)))
    notes = [*measured.notes(fitted, choices["most"]), *report.calibrate.not_reproduced(fitted)]
    _show(report.calibrate.CalibrationPage(ie.Calibrated(fitted, folds, measured.left_out)), notes, path, output)


def _fit_levels(
    measured: _Measured, data: tuple[str, ...], path: str | None, output: options.Output, choices: options.Choices
) -> None:
    """Fit by how much measured servers differ from their profile, and write it with these levels."""
    from inference_econ.calibration.levels.own import own_profile

    if choices["base"] or choices["changes"]:
        raise InputError(
            "levels are over the profile of the rows' engine and chip as it was fitted: leave --base and --set out, or "
            f"fit constants with more rows than constants ({len(measured.rows)} given)"
        )
    mine = own_profile(measured.rows, date=date.today().isoformat())
    if path is not None:
        described = (choices["description"], choices["reference"], _data(data, choices))
        files.write_text(path, inputs.yaml_text(mine.file(choices["name"] or "own levels", *described)))
    _show(report.calibrate.OwnLevelsPage(mine), measured.left_out_notes(), path, output)


def _show(page: options.Page, notes: Iterable[str], path: str | None, output: options.Output) -> None:
    """Show what was fitted, what is to be said of its rows, and where it was written."""
    show.emit(page, output)
    for note in (*notes, *([] if path is None else [f"wrote {path}"])):
        show.remark(note, quiet=output.quiet)


class _Measured(NamedTuple):
    """Measurements that were read, and what becomes of them."""

    read: list[calibration.Measurement | calibration.Skipped]
    """Every row of the files."""
    rows: list[calibration.Measurement]
    """Rows that can be fitted and are wanted."""
    left_out: Mapping[str, int]
    """Number of other rows by reason [1]."""
    used: list[calibration.Measurement]
    """Rows of :attr:`rows` that are fitted: thinned if there are many."""

    @classmethod
    def of(cls, data: Sequence[str], choices: options.Choices) -> _Measured:
        """Return the measurements that the files and the options of the command name."""
        from inference_econ.calibration.calibrate import read_all

        wanted = [condition for text in choices["where"] for condition in calibration.conditions(text)]
        unwanted = [calibration.conditions(text) for text in choices["without"]]
        deployment = {name: choices[name] for name in _DEPLOYMENT}
        server = ie.MeasuredServer(**{**deployment, "hardware": deployment["hardware"] or ""})
        read = read_all(data, server)
        rows, left_out = calibration.chosen(read, wanted, unwanted)
        return cls(read, rows, left_out, calibration.thinned(rows, choices["most"]))

    @property
    def why_few(self) -> str:
        """Words for why few rows can be fitted, with the first that cannot be understood."""
        if not self.left_out:
            return ""
        text = "; left out: " + ", ".join(f"{count} {reason}" for reason, count in self.left_out.items())
        return f"{text} ({self.first_skipped})" if self.first_skipped else text

    @property
    def first_skipped(self) -> str:
        """The first row that cannot be understood, its line, and why; empty if there is none."""
        first = next((row for row in self.read if isinstance(row, calibration.Skipped)), None)
        if first is None:
            return ""
        line = "" if first.line is None else f", line {first.line}"
        return f"the first, {first.id} of {first.dataset}{line}: {first.reason}"

    def left_out_notes(self) -> list[str]:
        """Notes on rows that cannot be fitted, or are not wanted."""
        return [f"left out: {count} rows: {reason}" for reason, count in self.left_out.items()]

    def notes(self, fitted: calibration.Fit, most: int) -> list[str]:
        """Notes on rows that were not fitted."""
        rows, used, notes = len(self.rows), len(self.used), self.left_out_notes()
        if self.first_skipped:
            notes.append(f"not understood: {self.first_skipped}")
        if used < rows:
            notes.append(f"thinned: {used} of {rows} rows are fitted, those of {most} deployments (see --most)")
        if len(fitted.rows) < used:
            notes.append(f"left out: {used - len(fitted.rows)} rows: without a target, or not predictable")
        return notes


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _assumption_changes(changes: tuple[str, ...]) -> tuple[str, ...]:
    fields = []
    for change in changes:
        if not change.startswith("assumptions."):
            raise InputError(f"--set {change}: only assumptions can be changed here; write assumptions.FIELD=VALUE")
        fields.append(change.removeprefix("assumptions."))
    return tuple(fields)


def _data(data: Sequence[str], choices: options.Choices) -> str:
    where, without = choices["where"], choices["without"]
    text = ", ".join(data) + (f" where {', '.join(where)}" if where else "")
    return text + (f", without {'; '.join(without)}" if without else "")
