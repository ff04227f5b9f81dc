"""The ``validate`` and ``calibrate`` commands."""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import inference_econ as ie
from inference_econ import inputs, report
from inference_econ.errors import InputError, UnknownNameError
from inference_econ.extras import servers
from inference_econ.extras.servers import validation
from inference_econ.extras.servers.result_files import RESULT_ENDINGS
from inference_econ.records import files
from inference_econ.requests import Request

if TYPE_CHECKING:
    from inference_econ.extras.servers.pages import run_vs_prediction
    from inference_econ.extras.servers.validation.servers import InputRow
    from inference_econ.report.page import Page

#: Largest number of rows whose reasons a message lists [1].
_MOST_REASONS = 3


def _sources(arguments: Sequence[str]) -> list[str]:
    """Files of measured servers; all shipped files if ``arguments`` is empty."""
    for name in arguments:
        is_path = name.lower().endswith((".csv", *RESULT_ENDINGS)) or Path(name).name != name
        if name not in validation.SERVERS and not is_path:
            near = difflib.get_close_matches(name, validation.SERVERS, n=2)
            hint = f"did you mean {' or '.join(near)}? " if near else ""
            raise UnknownNameError(
                f"unknown dataset {name!r}; {hint}known: {', '.join(validation.SERVERS)}; or a file of measured "
                "servers (.csv, .json)"
            )
    return list(arguments) or list(validation.SERVERS)


#: Options that are allowed when a run is compared with a deployment.
_HELD = ("datasets", "against", "choice", "form", "as_json", "as_csv", "output", "quiet", "why")
_LISTED = "\n".join(f"  {name}: {description}" for name, description in validation.SERVERS.items())
_HELP = f"""Compare predictions with measurements, and report errors and coverage.

\b
DATASET is one of these (default: all):
{_LISTED}

FILE is your own file. CSV files have the columns of a shipped file. Results of load generators are JSON files of vllm
bench serve, SGLang's bench_serving, genai-perf, AIPerf, GuideLLM, inference-perf or InferenceX, or YAML
files of llm-d. The text of /metrics of vLLM or SGLang has the suffix .prom or .txt. If a file lacks the GPU, degrees
and so on, give --hardware, --tp and so on.

-o FILE.csv writes one line per measurement of a server; scenarios/measured/README.md describes its columns.
"""


def validate(
    request: Request,
    datasets: tuple[str, ...],
    assumptions: tuple[str, ...],
    levels: bool,
    by: tuple[str, ...],
    against: str | None,
    choice: int | None,
    engine: str,
) -> Page:
    """Run the ``validate`` command, whose help text is set elsewhere."""
    if against is not None:
        report.deployment_reader.check_alone(request, against, _HELD)
        return _against(datasets, against, choice)
    if choice is not None:
        raise InputError(
            "--choice names a deployment of an answer; give the answer with --against ANSWER.json", option="choice"
        )
    keys = [key.strip() for text in by for key in text.split(",") if key.strip()]
    sources = _sources(datasets)
    servers.check_groups(keys)
    from inference_econ.extras.servers.pages.servers import ValidationPage
    from inference_econ.extras.servers.validation import servers as measured

    files = measured.read_files(sources, _measured_server(request, engine))
    compared = tuple(measured.predict_files(files, name, levels=levels) for name in assumptions or (None,))
    _check_compared(compared[0].rows)
    assert request.asked is not None
    words = [*request.asked.words(), "--format", "markdown"]
    command = shlex.join([*words, *(["-o", request.output] if request.output is not None else [])])
    return ValidationPage(ie.Validated(compared), keys, command)


validate.__doc__ = _HELP


def _check_compared(rows: Sequence[InputRow]) -> None:
    """Raise InputError if no row has a prediction. The message has the reasons of the first rows."""
    if all(row.skipped for row in rows):
        reasons = [f"{row.dataset}, {row.id}: {row.skipped}" for row in rows[:_MOST_REASONS]]
        others = len(rows) - len(reasons)
        more = f"; and {_rows(others, 'more ')}" if others else ""
        raise InputError(f"no row can be compared: {'; '.join(reasons) or 'the files have no rows'}{more}")


def _measured_server(request: Request, engine: str) -> ie.MeasuredServer:
    """Description of a measured server from options, which adds what the result files of a benchmark lack."""
    given = {name: getattr(request, name) for name in ("model", "hardware", "weights", "kv", "tp", "dp", "pp", "ep")}
    return ie.MeasuredServer(**given, engine=engine, draft_tokens=request.draft_length)


def _against(results: Sequence[str], path: str, number: int | None) -> run_vs_prediction.AgainstPage:
    """Compare a run with a saved result.

    Raises
    ------
    InputError
        If there is not exactly one run, or if the load of the run differs from the load of the saved result.
    """
    from inference_econ.answers.deployments.serving_options import engine_of
    from inference_econ.answers.launching.instance import LaunchDegrees
    from inference_econ.extras.servers.pages import run_vs_prediction

    if len(results) != 1:
        raise InputError(f"--against {path}: give one result of a load generator, got {len(results)}", option="against")
    saved = report.deployment_reader.read(path)
    chosen = report.deployment_reader.chosen(saved, number)
    parts = report.deployment_reader.parts(saved, chosen)
    replicas = 1 if len(parts) > 1 else parts[0].replicas
    run = servers.read_run(results[0])
    part = parts[-1]
    try:
        held = servers.hold(chosen.expected, chosen.load, replicas, part.service, run)
    except InputError as error:
        raise InputError(f"{results[0]} against {path}: {error}", error.option) from error
    # Parts of a step that could explain a TPOT outside its interval.
    outside = [entry for entry in held if entry.expected.measure == "tpot" and entry.inside is False]
    suspects = servers.suspects(part.service, chosen.in_flight / part.replicas, outside[0]) if outside else ()
    # Command that fits corrections to the run. It fits no constants, because a run determines at most one.
    degrees, question, precision = LaunchDegrees.of(part.service), saved.options, part.service.setup.precision
    named = {
        "--hardware": question.get("decode_on") or question["hardware"],
        "--model": question["model"],
        "--engine": engine_of(part.service.setup).partition(" ")[0],
        "--weights": precision.weights,
        "--kv": precision.kv,
        "--tp": degrees.tp,
        "--dp": degrees.dp,
        "--pp": degrees.pp,
        "--ep": degrees.ep,
    }
    words = [str(word) for name, value in named.items() if value not in (1, "") for word in (name, value)]
    command = shlex.join(["inference-econ", "calibrate", results[0], *words, "-o", "mine.yaml"])
    return run_vs_prediction.AgainstPage(f"{results[0]} against {path}", parts, held, suspects, command)


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
    """Fit efficiencies and overheads to measurements, and write a profile.

    DATA are CSV files with the columns of a shipped file (see scenarios/measured), or names of shipped files. DATA may
    also be results of vllm bench serve, SGLang's bench_serving, genai-perf or AIPerf, with --hardware, --tp and so on.
    Constants that the data do not determine stay close to the preset of --base; the table lists them. If the data have
    fewer measurements than constants, the command fits correction factors only (--levels).
    """
    from inference_econ.extras.servers.calibrate import base_of
    from inference_econ.extras.servers.levels import own_profile
    from inference_econ.extras.servers.pages import run_vs_prediction

    if path is not None and not path.endswith((".yaml", ".yml")):
        raise InputError(f"{path}: a profile is written as YAML; end the name in .yaml (the tables are printed)")
    if reference != "user" and reference not in inputs.catalog.references():
        raise InputError(f"reference: {reference!r} is not a key of references.bib; write 'user' for your own data")
    changes = tuple(change.removeprefix("assumptions.") for change in request.changes)
    for change in request.changes:
        if not change.startswith("assumptions."):
            raise InputError(f"--set {change}: only assumptions can be changed here; write assumptions.FIELD=VALUE")
    measured = _Measured.of(data, where, without, most, _measured_server(request, engine))
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
        page, notes = run_vs_prediction.OwnLevelsPage(mine), measured.notes(None, most)
    else:
        preset = base or base_of(measured.rows)
        assumptions, constants = inputs.catalog.assumptions(preset, changes=changes), _words(names)
        progress = request.progress
        try:
            fitted = servers.fit.fit(
                measured.used, constants, assumptions, targets=_words(targets), prior=prior, progress=progress
            )
        except InputError as error:
            if len(measured.rows) < len(constants):
                raise InputError(f"{error}{measured.why_few}") from error
            raise
        folds = servers.fit.all_folds(fitted, progress=progress)
        today, title = date.today().isoformat(), name or "fitted profile"
        if path is not None and preset not in inputs.catalog.names("assumptions") and inputs.catalog.is_file(preset):
            preset = os.path.relpath(preset, Path(path).parent)
        provenance = servers.Provenance(title, preset, source, reference, today, changes, description)
        profile = None if path is None else servers.profile(fitted, folds, provenance)
        notes = [*measured.notes(fitted, most), *run_vs_prediction.not_reproduced(fitted)]
        page = run_vs_prediction.CalibrationPage(ie.Calibrated(fitted, folds, measured.left_out))
    if path is not None and profile is not None:
        files.write_text(path, inputs.yaml_text(profile))
    for note in (*notes, *([] if path is None else [f"wrote {path}"])):
        request.tell(note)
    return page


class _Measured(NamedTuple):
    """Measurements that the ``calibrate`` command read and selected."""

    rows: list[servers.Measurement]
    """Measurements that can be fitted and are selected."""
    left_out: Mapping[str, int]
    """Number of excluded measurements by reason [1]."""
    used: list[servers.Measurement]
    """Fitted subset of :attr:`rows`."""
    first_skipped: str
    """First unreadable measurement, with its line and the reason; empty if all are readable."""

    @classmethod
    def of(
        cls, data: Sequence[str], where: Sequence[str], without: Sequence[str], most: int, server: ie.MeasuredServer
    ) -> _Measured:
        """Read the measurements that files and options select."""
        from inference_econ.extras.servers.calibrate import read_all

        wanted = [condition for text in where for condition in servers.conditions(text)]
        unwanted = [servers.conditions(text) for text in without]
        read = read_all(data, server)
        rows, left_out = servers.chosen(read, wanted, unwanted)
        first, skipped = next((row for row in read if isinstance(row, servers.Skipped)), None), ""
        if first is not None:
            line = "" if first.line is None else f", line {first.line}"
            skipped = f"the first, {first.id} of {first.dataset}{line}: {first.reason}"
        return cls(rows, left_out, servers.thinned(rows, most), skipped)

    @property
    def why_few(self) -> str:
        """Reasons why few measurements can be fitted."""
        if not self.left_out:
            return ""
        text = "; left out: " + ", ".join(f"{count} {reason}" for reason, count in self.left_out.items())
        return f"{text} ({self.first_skipped})" if self.first_skipped else text

    def notes(self, fitted: servers.Fit | None, most: int) -> list[str]:
        """Notes on measurements that are excluded."""
        rows, used = len(self.rows), len(self.used)
        notes = [f"left out: {_rows(count)}: {reason}" for reason, count in self.left_out.items()]
        if fitted is None:
            return notes
        if self.first_skipped:
            notes.append(f"not understood: {self.first_skipped}")
        if used < rows:
            notes.append(f"thinned: {used} of {rows} rows are fitted, those of {most} deployments (see --most)")
        if len(fitted.rows) < used:
            notes.append(f"left out: {_rows(used - len(fitted.rows))}: without a target, or not predictable")
        return notes


def _rows(count: int, kind: str = "") -> str:
    """Number of rows as text."""
    return f"{count} {kind}{'row' if count == 1 else 'rows'}"


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
