"""The command that fits assumptions to measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

import inference_econ as ie
from inference_econ import calibration, inputs, report
from inference_econ.errors import InputError
from inference_econ.records import files
from inference_econ.requests import Request

from . import saved_services

if TYPE_CHECKING:
    from inference_econ.report.page import Page


def calibrate(
    request: Request,
    data: tuple[str, ...],
    names: str,
    targets: str,
    base: str | None,
    prior: float,
    where: tuple[str, ...],
    without: tuple[str, ...],
    most: int,
    only_levels: bool,
    engine: str,
    name: str,
    description: str,
    reference: str,
    path: str | None,
) -> Page:
    """Fit constants of the assumptions to measurements, and write them as a profile.

    DATA are CSV files with the columns of a file that comes with the package (see scenarios/measured), or the names of
    such files; or results of vllm bench serve, SGLang's bench_serving, genai-perf or AIPerf, with --hardware, --tp and
    so on. Constants that the rows do not determine keep about the value of the base; the table says which. Of fewer
    rows than constants, as of one point of a load test, only levels are fitted (--levels).
    """
    from inference_econ.calibration.calibrate import base_of
    from inference_econ.calibration.levels.own import own_profile

    if path is not None and not path.endswith((".yaml", ".yml")):
        raise InputError(f"{path}: a profile is written as YAML; end the name in .yaml (the tables are printed)")
    if reference != "user" and reference not in inputs.catalog.references():
        raise InputError(f"reference: {reference!r} is no key of references.bib; 'user' stands for your own data")
    changes = _assumption_changes(request.changes)
    measured = _Measured.of(data, where, without, most, saved_services.measured_server(request, engine))
    source = ", ".join(data) + (f" where {', '.join(where)}" if where else "")
    source += f", without {'; '.join(without)}" if without else ""
    page: Page
    if only_levels or (0 < len(measured.rows) < len(_words(names)) and not measured.first_skipped):
        if base or changes:
            raise InputError(
                "levels are over the profile of the rows' engine and chip as it was fitted: leave --base and --set "
                f"out, or fit constants with more rows than constants ({len(measured.rows)} given)"
            )
        mine = own_profile(measured.rows, date=date.today().isoformat())
        profile = None if path is None else mine.file(name or "own levels", description, reference, source)
        page, notes = report.calibrate.OwnLevelsPage(mine), measured.left_out_notes()
    else:
        preset = base or base_of(measured.rows)
        assumptions, constants = inputs.catalog.assumptions(preset, changes=changes), _words(names)
        progress = request.progress
        try:
            fitted = calibration.fit.fit(
                measured.used, constants, assumptions, targets=_words(targets), prior=prior, progress=progress
            )
        except InputError as error:
            if len(measured.rows) < len(constants):
                raise InputError(f"{error}{measured.why_few}") from error
            raise
        folds = calibration.holdout.all_folds(fitted, progress=progress)
        today, title = date.today().isoformat(), name or "fitted profile"
        provenance = calibration.Provenance(title, preset, source, reference, today, changes, description)
        profile = None if path is None else calibration.profile(fitted, folds, provenance)
        notes = [*measured.notes(fitted, most), *report.calibrate.not_reproduced(fitted)]
        page = report.calibrate.CalibrationPage(ie.Calibrated(fitted, folds, measured.left_out))
    if path is not None and profile is not None:
        files.write_text(path, inputs.yaml_text(profile))
    for note in (*notes, *([] if path is None else [f"wrote {path}"])):
        request.tell(note)
    return page


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
    def of(
        cls, data: Sequence[str], where: Sequence[str], without: Sequence[str], most: int, server: ie.MeasuredServer
    ) -> _Measured:
        """Return the measurements that the files and the options of the command name."""
        from inference_econ.calibration.calibrate import read_all

        wanted = [condition for text in where for condition in calibration.conditions(text)]
        unwanted = [calibration.conditions(text) for text in without]
        read = read_all(data, server)
        rows, left_out = calibration.chosen(read, wanted, unwanted)
        return cls(read, rows, left_out, calibration.thinned(rows, most))

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
