"""The command that fits assumptions to measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from inference_econ.errors import InputError

from . import options, show

if TYPE_CHECKING:
    from inference_econ.calibration.fit import Fit
    from inference_econ.calibration.holdout import Fold
    from inference_econ.calibration.measurements import Measurement

_DEFAULT = ",".join(
    (
        *("chip.math_efficiency", "experts.math_efficiency", "chip.hbm_efficiency", "experts.hbm_efficiency"),
        *("host.graph_launch", "host.step_overhead"),
    )
)


@click.command()
@click.argument("data", nargs=-1, required=True, metavar="DATA...")
@click.option("--fit", "names", default=_DEFAULT, show_default=True, help="Constants to fit, with commas.")
@click.option(
    "--target",
    "targets",
    default="tpot",
    show_default=True,
    help="tpot, ttft, request, throughput; several with commas.",
)
@click.option(
    "--base",
    type=options.Name("assumptions"),
    help="Preset to begin with [default: the profile of the rows' chips and engine; of mixed ones, profiles/servers].",
)
@click.option(
    "--set", "changes", multiple=True, metavar="assumptions.FIELD=VALUE", help="Change the base before the fit."
)
@click.option(
    "--prior",
    type=float,
    default=1.0,
    show_default=True,
    help="Freedom from the base: 0.5 stays nearer to it, inf ignores it.",
)
@click.option(
    "--where", multiple=True, metavar="FIELD=VALUE,...", help="Only such rows: engine=vllm,hardware=h100_sxm|h200_sxm."
)
@click.option("--without", multiple=True, metavar="FIELD=VALUE,...", help="No rows that are all of this.")
@click.option(
    "--most",
    type=click.IntRange(10),
    default=150,
    show_default=True,
    help="Deployments to fit at most; more are thinned evenly.",
)
@options.deployment
@click.option("--name", default="", help="Of the profile, for people.")
@click.option("--description", default="", help="Of the profile, for people [default: what it was fitted to].")
@click.option("--reference", default="user", show_default=True, help="Key of references.bib that the data come from.")
@click.option("-o", "--output", type=options.PLACE, help="Write the profile, a preset of assumptions: .yaml.")
@options.form("How to print the result; csv: the constants only.")
@click.option("--quiet", is_flag=True, help="No progress bar or remarks.")
def calibrate(
    data: tuple[str, ...],
    names: str,
    targets: str,
    base: str | None,
    changes: tuple[str, ...],
    prior: float,
    where: tuple[str, ...],
    without: tuple[str, ...],
    most: int,
    name: str,
    description: str,
    reference: str,
    output: str | None,
    form: str,
    quiet: bool,
    **given: Any,
) -> None:
    """Fit constants of the assumptions to measurements, and write them as a profile.

    DATA are CSV files with the columns of a file that comes with the package (see scenarios/measured), or the names of
    such files; or results of vllm bench serve, SGLang's bench_serving, genai-perf or AIPerf, with --hardware, --tp and
    so on. Constants that the rows do not determine keep about the value of the base; the table says which.
    """
    from inference_econ.calibration import fit, holdout
    from inference_econ.calibration import rows as calibration_rows
    from inference_econ.inputs import catalog
    from inference_econ.report import calibration as calibration_tables

    _check_output(output, reference)
    settings = _settings(changes)
    asked = [condition for text in where for condition in calibration_rows.conditions(text)]
    unwanted = [calibration_rows.conditions(text) for text in without]
    measured = _read(data, given)
    rows, left_out = calibration_rows.chosen(measured, asked, unwanted)
    used = calibration_rows.thinned(rows, most)
    base = base or _base_of(rows)
    assumptions = catalog.assumptions(base, changes=settings)
    with show.progress_bar(quiet=quiet) as report:
        try:
            found = fit.fit(used, _words(names), assumptions, targets=_words(targets), prior=prior, progress=report)
        except InputError as error:
            if len(rows) < len(_words(names)):
                raise InputError(f"{error}{_why_few(measured, left_out)}") from error
            raise
        folds = holdout.all_folds(found, progress=report)
    if output is not None:
        from datetime import date

        from inference_econ.calibration.profile_file import Provenance, profile
        from inference_econ.inputs.yaml_writing import yaml_text
        from inference_econ.report.files import write_text

        provenance = Provenance(
            name or "fitted profile", base, _data(data, where, without), reference, date.today().isoformat(),
            tuple(settings), description,
        )  # fmt: skip
        write_text(output, yaml_text(profile(found, folds, provenance)))
    show.emit(_text(found, folds, left_out, form, quiet=quiet), None, quiet=quiet)
    notes = [f"left out: {count} rows: {reason}" for reason, count in left_out.items()]
    if first := _first_skipped(measured):
        notes.append(f"not understood: {first}")
    if len(used) < len(rows):
        notes.append(f"thinned: {len(used)} of {len(rows)} rows are fitted, those of {most} deployments (see --most)")
    if len(found.rows) < len(used):
        notes.append(f"left out: {len(used) - len(found.rows)} rows: without a target, or not predictable")
    notes += calibration_tables.not_reproduced(found)
    for note in notes + ([f"wrote {output}"] if output is not None else []):
        show.remark(note, quiet=quiet)


def _text(found: Fit, folds: Mapping[str, list[Fold]], left_out: Mapping[str, int], form: str, *, quiet: bool) -> str:
    from inference_econ.report import calibration as calibration_tables
    from inference_econ.report import table

    if form == "json":
        return table.to_json(calibration_tables.record(found, folds, left_out))
    constants = calibration_tables.constants_table(found)
    if form == "csv":
        return constants.text("csv")
    each = (constants, calibration_tables.errors_table(found, folds))
    if form == "markdown":
        return "\n".join(one.text("markdown") for one in each)
    return "\n".join(show.table_text(one, quiet=quiet) for one in each)


def _base_of(rows: Sequence[Measurement]) -> str:
    """The profile that all rows have, or that of all servers; for chips without one, ``deployable``."""
    from inference_econ.inputs import catalog, profiles

    names = {profiles.name_for(catalog.hardware(row.hardware).family, row.engine) for row in rows}
    if len(names) == 1:
        return names.pop()
    return "profiles/servers" if names and "deployable" not in names else "deployable"


def _why_few(measured: list[Any], left_out: Mapping[str, int]) -> str:
    """Why few rows can be fitted, and which one cannot be understood."""
    if not left_out:
        return ""
    text = "; left out: " + ", ".join(f"{count} {reason}" for reason, count in left_out.items())
    first = _first_skipped(measured)
    return f"{text} ({first})" if first else text


def _first_skipped(measured: list[Any]) -> str:
    """The first row that cannot be understood, its line, and why; empty if there is none."""
    from inference_econ.calibration.measurements import Skipped

    first = next((one for one in measured if isinstance(one, Skipped)), None)
    if first is None:
        return ""
    line = "" if first.line is None else f", line {first.line}"
    return f"the first, {first.id} of {first.dataset}{line}: {first.reason}"


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _check_output(output: str | None, reference: str) -> None:
    from inference_econ.inputs import catalog

    if output is not None and not output.endswith((".yaml", ".yml")):
        raise InputError(f"{output}: a profile is written as YAML; end the name in .yaml (the tables are printed)")
    if reference != "user" and reference not in catalog.references():
        raise InputError(f"reference: {reference!r} is no key of references.bib; 'user' stands for your own data")


def _settings(changes: tuple[str, ...]) -> tuple[str, ...]:
    found = []
    for change in changes:
        if not change.startswith("assumptions."):
            raise InputError(f"--set {change}: only assumptions can be changed here; write assumptions.FIELD=VALUE")
        found.append(change.removeprefix("assumptions."))
    return tuple(found)


def _read(data: tuple[str, ...], given: dict[str, Any]) -> list[Any]:
    from inference_econ.calibration import measurements
    from inference_econ.inputs import catalog

    files, found = catalog.measured_files(), []
    for name in data:
        path = files.get(name, name)
        known = None
        if str(path).lower().endswith((".json", ".jsonl")):
            if not given["hardware"]:
                raise InputError(
                    f"{name}: results do not say what they were measured on; give --hardware, --tp and so on"
                )
            known = measurements.MeasuredServer(**given)
        found += measurements.read(path, known)
    return found


def _data(data: tuple[str, ...], where: tuple[str, ...], without: tuple[str, ...]) -> str:
    text = ", ".join(data)
    text += f" where {', '.join(where)}" if where else ""
    return text + (f", without {'; '.join(without)}" if without else "")
