"""Commands that answer scenarios: files with questions, among them published tables, figures and claims."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import inference_econ as ie
from inference_econ import report, studies
from inference_econ.errors import InputError

from . import options, show
from .help import command, question
from .parameters import PICTURE
from .places import check_apart


@question("run")
def run(name: str, changes: tuple[str, ...], progress: options.Progress | None) -> options.Shown:
    """Answer a scenario: a name (see 'inference-econ scenarios') or a path to a YAML file."""
    return studies.scenario.run(name, changes=changes, progress=progress)


@command("table")
def table(name: str, changes: tuple[str, ...], progress: options.Progress | None) -> options.Shown:
    """Print the table of a scenario, for example paper/table_4."""
    return studies.scenario.run(name, changes=changes, progress=progress)


@command("figure")
def figure(name: str, changes: tuple[str, ...], path: str | None, quiet: bool) -> None:
    """Draw the figure of a scenario, for example paper/figure_6."""
    target = path or PICTURE.convert(f"{Path(name).stem}.svg", None, None)
    with show.progress_bar(quiet=quiet) as progress:
        answer = studies.scenario.run(name, changes=changes, progress=progress)
    report.pages.page(answer).draw(target)
    show.remark(f"wrote {target}", quiet=quiet)


@command("claims")
def claims(name: str | None, unmet: bool, progress: options.Progress | None) -> options.Page:
    """Hold claims of publications against our numbers: what was published, ours, and whether it holds.

    NAME is a claim, or a scenario of the kind 'claims' with those of one publication (seeds/claims_study, or a path);
    all claims without it. Ours are computed under the preset of the published study and under today's profiles.
    """
    from inference_econ.report.claims import ClaimsPage

    ledger = ie.claims(name, progress=progress)
    if not unmet:
        return ClaimsPage(ledger)
    findings = tuple(finding for finding in ledger.findings if not all(map(finding.holds, finding.claim.bases)))
    if not findings:
        raise InputError(f"--unmet: every claim holds ({len(ledger.findings)} of them); ask without it", option="unmet")
    return ClaimsPage(replace(ledger, findings=findings))


@command("reproduce")
def reproduce(folder: str, output: options.Output, progress: options.Progress | None) -> options.Page:
    """Make every table and figure of "Inference economics of language models", and compare cell by cell.

    One table or figure, under other assumptions: 'table paper/table_4 --set KEY=VALUE', 'run paper/figure_1 --set ..'.
    """
    if output.path is not None:
        for place in report.gallery.places(folder):
            check_apart({"-o": output.path, "--folder": str(place)})
    return report.gallery.ReproductionPage(ie.reproduce(folder, progress=progress))
