"""Fit of the measured corrections of all profiles: scenarios/assumptions/levels; two minutes.

Run it after profiles or measurements change; data/profiles.sh does. With ``--judge``, rows are predicted again with
corrections that have not seen them. The results are written to docs/evidence/levels.md, which takes five more minutes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import click
import numpy as np

from benchmarks.validation import costs
from data.levels import judged
from data.levels.fitted import Fitted, fitted_levels
from data.levels.judged import Series
from inference_econ._types import Array
from inference_econ.extras.servers.measurements import shipped
from inference_econ.extras.servers.validation import SERVERS
from inference_econ.inputs import yaml_text

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "scenarios" / "assumptions" / "levels"
PAGE = ROOT / "docs" / "evidence" / "levels.md"
MARK = "<!-- What follows is written by `sh run.sh refit levels --judge`. -->\n"
REFERENCE = "aiconfigurator"
SOURCE = (
    "partly pooled from {rows} rows of {files}, over what {profile} predicts of them; errors of rows whose likes the "
    "levels had not seen (docs/evidence/levels.md)"
)


@click.command()
@click.option("--judge", is_flag=True, help="Predict runs with corrections fitted without them.")
def main(*, judge: bool) -> None:
    """Write a file for each engine and chip generation with a separate profile.

    The validation of costs gets corrections without the deployments that it compares.
    """
    fitted = fitted_levels(shipped(tuple(SERVERS)), date=date.today().isoformat())
    FOLDER.mkdir(exist_ok=True)
    for group, data in fitted.files.items():
        where = SOURCE.format(rows=data["rows"], files=", ".join(SERVERS), profile=data["profile"])
        source = {"ref": REFERENCE, "where": where, "kind": "derived"}
        keys = [key for key in ("form", "rows", "spreads", "errors", "shared", "subjects") if key in data]
        path = FOLDER / f"{group.engine}_{group.generation}.yaml"
        path.write_text(yaml_text({**data, "sources": dict.fromkeys(keys, source)}), encoding="utf-8")
        click.echo(f"{path.name}: {data['rows']} rows")
    best = {judged.deployment_of(row) for row in costs.best_servers()}
    left_out = judged.without_deployments(fitted.rows, fitted.spreads, best)
    lines = [f"{json.dumps(key)}: {json.dumps(left_out.get(key), separators=(',', ':'))}" for key in sorted(best)]
    costs.WITHOUT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    if judge:
        before, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
        PAGE.write_text(before + MARK + tables(fitted), encoding="utf-8")


def tables(fitted: Fitted) -> str:
    """Cross-validated errors with corrections, and errors of load curves of which one point was measured."""
    rows, spreads = fitted.rows, fitted.spreads
    splits = {"other loads known": judged.other_loads_known(rows, spreads)}
    splits |= {f"{name} left out": judged.left_out(rows, spreads, by) for name, by in judged.SPLITS.items()}
    curves = judged.by_one_point(rows, spreads)
    return written(fitted, splits, curves)


def written(fitted: Fitted, splits: dict[str, Array], curves: Sequence[tuple[Series, Array]]) -> str:
    """Tables in Markdown."""
    plain = judged.before(fitted.rows)
    head = "| | rows | TPOT | TTFT |\n|---|---|---|---|\n"
    lines = [f"| without levels | {len(plain)} | {both(plain)} |"]
    lines += [f"| {name} | {len(errors)} | {both(errors)} |" for name, errors in splits.items()]
    rest = np.concatenate([judged.before(series.rest) for series, _ in curves])
    one = np.concatenate([errors for _, errors in curves])
    lines += [f"| rest of {len(curves)} curves, without levels | {len(rest)} | {both(rest)} |"]
    lines += [f"| the same by one point of each | {len(one)} | {both(one)} |"]
    text = (
        "\n## Cross-validated errors\n\nCells have the median and the 90th percentile of |ln(predicted / measured)|. "
        "The corrections (levels) of a row are fitted without it and without similar rows, as the first column states. "
        "The constants of profiles are not fitted again.\n\n"
    )
    return f"{text}{head}{chr(10).join(lines)}\n\n{of_curves(curves)}"


def of_curves(curves: Sequence[tuple[Series, Array]]) -> str:
    """Table of the curves, those with the most points first."""
    head = (
        "## Load curves with one known point\n\nA load curve has runs of one server at several loads. In this test, "
        "the "
        "run at the middle load is known, and corrects the predictions of the other runs. All other corrections are "
        "fitted without this server. Cells have the median of |ln(predicted / measured)| of the other runs, first "
        "without corrections, then with the correction by one point.\n\n"
        "| engine | model | chip | layout | lengths | rest | TPOT | by one point | TTFT | by one point |\n"
        "|---|---|---|---|---|---|---|---|---|---|\n"
    )
    lines = []
    for series, errors in sorted(curves, key=lambda curve: -len(curve[1])):
        row, place = series.point.row, series.point.places[0]
        apart, speculates = place.way
        way = "".join(f", {text}" for text, holds in (("apart", apart), ("speculating", speculates)) if holds)
        version = f"{row.engine} {place.version}".strip()
        lengths = f"{row.isl or 0:.0f} / {row.osl or 0:.0f}"
        middle = [_median(values[:, column]) for column in range(2) for values in (judged.before(series.rest), errors)]
        cells = (version, row.model, row.hardware, place.deployment[0] + way, lengths, str(len(errors)), *middle)
        lines.append("| " + " | ".join(cells) + " |")
    return head + "\n".join(lines) + "\n"


def both(errors: Array) -> str:
    """Median and 90th percentile of TPOT and TTFT."""
    parts = []
    for column in errors.T:
        sizes = np.abs(column[np.isfinite(column)])
        parts.append(f"{np.median(sizes):.3f} / {np.quantile(sizes, 0.9):.3f}")
    return " | ".join(parts)


def _median(errors: Array) -> str:
    sizes = np.abs(errors[np.isfinite(errors)])
    return f"{np.median(sizes):.3f}" if sizes.size else "-"


if __name__ == "__main__":
    main()
