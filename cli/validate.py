"""The command that holds predictions against measurements."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from inference_econ.calibration import validation
from inference_econ.errors import InputError
from inference_econ.report.files import check_place

from . import options, show

if TYPE_CHECKING:
    from inference_econ.calibration.validation import Report
    from inference_econ.calibration.validation.bound import Violation
    from inference_econ.calibration.validation.rows import Servers
    from inference_econ.report.table import Table

#: Datasets that are not of servers, each with the file that replaces it.
Asked = list[tuple[str, str | None]]

_FILES = (".csv", ".json", ".jsonl")


def _asked(arguments: Sequence[str]) -> tuple[list[str], Asked]:
    """Files of servers, and other datasets with the file that follows each; all of both if none is named."""
    servers: list[str] = []
    others: Asked = []
    before = ""
    for argument in arguments:
        if argument in validation.SERVERS:
            servers.append(argument)
        elif argument in validation.DATASETS:
            others.append((argument, None))
        elif _is_path(argument) and before in validation.DATASETS:
            others[-1] = (before, argument)
        elif _is_path(argument):
            servers.append(argument)
        else:
            validation.dataset(argument)
        before = argument
    if not arguments:
        return list(validation.SERVERS), [(name, None) for name in validation.DATASETS]
    return servers, others


def _is_path(text: str) -> bool:
    return text.lower().endswith(_FILES) or Path(text).name != text


_LISTED = "\n".join(
    [
        *(f"  {name}: {description}" for name, description in validation.SERVERS.items()),
        *(f"  {name}: {one.description}" for name, one in validation.DATASETS.items()),
    ]
)
_HELP = f"""Hold predictions against measurements: errors, coverage, and the rows that could not be compared.

\b
DATASET is one of these; all of them by default:
{_LISTED}

FILE is one of your own: servers, with the columns of a shipped file (.csv), or results of vllm bench serve, SGLang's
bench_serving, genai-perf or AIPerf (.json, with --hardware, --tp and so on); or, after the name of a dataset that is
not of servers, rows that replace it.

With -o FILE.csv, every row of servers has a line; scenarios/measured/README.md describes its columns.

\b
  inference-econ validate serving_points --by hardware,engine -o predictions.csv
  inference-econ validate result.json --hardware h100_sxm --tp 8 --weights fp8
"""


@click.command(help=_HELP)
@click.argument("datasets", nargs=-1, metavar="[DATASET|FILE]...")
@click.option(
    "--assumptions",
    multiple=True,
    metavar="NAME|PATH",
    help="Preset, or model of collectives (nccl_2_23, engines_hopper, ...); give it several times to compare.",
)
@click.option("--by", multiple=True, metavar="KEY[,KEY]...", help="Errors of servers by hardware, model, engine, ...")
@click.option("--bound", is_flag=True, help="List measurements that are faster than the preset ideal lets them be.")
@click.option("--plot", type=options.PLACE, help="Write a picture of predicted against measured: .svg, .png or .pdf.")
@click.option("--report", type=options.PLACE, help="Write the report on all shipped servers (.md), with a picture.")
@options.deployment
@options.output
def validate(
    datasets: tuple[str, ...],
    assumptions: tuple[str, ...],
    by: tuple[str, ...],
    bound: bool,
    plot: str | None,
    report: str | None,
    form: str,
    output: str | None,
    quiet: bool,
    **deployment: Any,
) -> None:
    """See the help."""
    sources, others = _asked(datasets)
    if form == "csv" and sources and others:
        if datasets:
            raise InputError("CSV: rows of servers have other columns than the rest; name datasets of one kind")
        others = []
    keys = [key.strip() for text in by for key in text.split(",") if key.strip()]
    _check(sources, keys, plot, bound=bound)
    _check_report(report, datasets)
    if report is not None:
        _write_report(report, assumptions, quiet=quiet)
        return
    servers = _servers(sources, assumptions, deployment)
    reports = [validation.validate(name, file=file, assumptions=assumptions) for name, file in others]
    answer = Answer(servers, reports, _violations(servers, bound=bound), keys)
    if plot is not None:
        answer.draw(plot)
    if form == "csv" and output is not None and servers and not quiet:
        click.echo(answer.tables(quiet=False))
    command = _command(datasets, assumptions, by, bound=bound, output=output)
    show.emit(answer.text(form, command, quiet=quiet), output, quiet=quiet)
    if plot is not None:
        show.remark(f"wrote {plot}", quiet=quiet)


@dataclass(frozen=True)
class Answer:
    """What was compared, to be shown in one form or another."""

    servers: list[Servers]
    others: list[Report]
    beyond: list[Violation] | None
    keys: list[str]

    def text(self, form: str, command: str, *, quiet: bool) -> str:
        """All of it."""
        from inference_econ.report import servers as server_tables
        from inference_econ.report import table as tables
        from inference_econ.report import validation as validation_tables

        if form == "table":
            return self.tables(quiet=quiet)
        if form == "csv" and self.servers:
            return server_tables.predictions(self.servers).text("csv")
        if form == "csv":
            return validation_tables.points_table(self.others).text("csv")
        if form == "markdown":
            lines = [line for table in self._servers() for line in (f"## {table.title}", "", *_markdown(table))]
            head = "" if self.others or not lines else "# Predictions beside measurements\n\n"
            rest = validation_tables.document(self.others, command) if self.others else f"Generated by `{command}`.\n"
            return head + rest + "\n" + "\n".join(lines)
        records = [server_tables.record(one, self.keys) for one in self.servers]
        records += [] if self.beyond is None else [server_tables.bound_record(self.beyond)]
        return tables.to_json([*records, *(validation_tables.record(report) for report in self.others)])

    def tables(self, *, quiet: bool) -> str:
        """All of it for the terminal."""
        from inference_econ.report import servers as server_tables
        from inference_econ.report import validation as validation_tables

        shown = [*self._servers(), *(table for report in self.others for table in validation_tables.tables(report))]
        text = "\n".join(show.table_text(table, quiet=quiet) for table in shown)
        notes = [note for report in self.others for note in report.notes]
        notes = [*(server_tables.NOTES if self.servers else ()), *notes]
        return text if quiet else text + "\n" + "\n".join(f"- {note}" for note in notes)

    def draw(self, path: str) -> None:
        """Predicted against measured: servers if there are any, otherwise the rest."""
        from inference_econ.report import agreement

        if not self.servers:
            agreement.draw_reports(self.others, path)
            return
        from inference_econ.calibration.validation.servers import panels

        several = len(self.servers) > 1
        agreement.draw_panels(
            [
                (f"{title}: {one.assumptions}" if several else title, points)
                for one in self.servers
                for title, points in panels(one, self.keys[0] if self.keys else "dataset")
            ],
            path,
        )

    def _servers(self) -> list[Table]:
        from inference_econ.report import servers as server_tables

        shown = [table for one in self.servers for table in server_tables.tables(one, self.keys)]
        return shown if self.beyond is None else [*shown, server_tables.beyond(self.beyond)]


def _markdown(table: Table) -> list[str]:
    return [table.text("markdown"), *(line for note in table.notes for line in (note, ""))]


def _check(sources: list[str], keys: list[str], plot: str | None, *, bound: bool) -> None:
    """Refuse what cannot be done before anything is read."""
    if (keys or bound) and not sources:
        raise InputError("--by and --bound are about servers; name one of their datasets, or none for all")
    if keys:
        from inference_econ.calibration.validation.servers import check_groups

        check_groups(keys)
    if plot is not None:
        from inference_econ.report import figures

        figures.check_path(plot)


def _check_report(report: str | None, datasets: Sequence[str]) -> None:
    """Refuse a report that cannot be written, or is not about what was named."""
    if report is None:
        return
    if not report.lower().endswith(".md"):
        raise InputError(f"{report}: the name of a report must end in .md")
    if datasets:
        raise InputError(
            f"--report is about all shipped servers: name no dataset, or write the tables with -o {report}"
        )
    check_place(_picture(report))


def _servers(sources: list[str], assumptions: tuple[str, ...], deployment: dict[str, Any]) -> list[Servers]:
    if not sources:
        return []
    from inference_econ.calibration.measurements import MeasuredServer
    from inference_econ.calibration.validation import servers

    server = None if deployment["hardware"] is None else MeasuredServer(**deployment)
    files = servers.read(sources, server)
    return [servers.held(files, name) for name in assumptions or (None,)]


def _violations(servers: list[Servers], *, bound: bool) -> list[Violation] | None:
    """What beats the bound, if it was asked for: by name or as assumptions."""
    if not servers or not (bound or any(one.assumptions == "ideal" for one in servers)):
        return None
    from inference_econ.calibration.validation.bound import violations

    return violations(servers[0].rows)


def _write_report(path: str, assumptions: tuple[str, ...], *, quiet: bool) -> None:
    """The report on all shipped servers, with its picture."""
    from inference_econ.calibration.validation import servers
    from inference_econ.calibration.validation.bound import violations
    from inference_econ.report import agreement, document
    from inference_econ.report.files import write_text

    files = servers.read(list(validation.SERVERS))
    usual = servers.held(files)
    others = [servers.held(files, name) for name in assumptions or ("deployable", "ideal")]
    picture = _picture(path)
    agreement.draw_panels(servers.panels(usual), picture)
    command = shlex.join(["inference-econ", "validate", "--report", path])
    text = document.document(usual, others, violations(usual.rows), picture.name, command)
    write_text(path, text)
    show.remark(f"wrote {path} and {picture}", quiet=quiet)


def _picture(report: str) -> Path:
    """The picture that goes with a report."""
    return Path(report).with_suffix(".png")


def _command(
    datasets: Sequence[str], assumptions: Sequence[str], by: Sequence[str], *, bound: bool, output: str | None
) -> str:
    """What was typed to get the document."""
    words = ["inference-econ", "validate", *datasets]
    words += [word for name in assumptions for word in ("--assumptions", name)]
    words += [word for key in by for word in ("--by", key)] + (["--bound"] if bound else [])
    words += ["--format", "markdown"]
    return shlex.join([*words, "-o", output] if output is not None else words)
