"""Validation report on measured servers, as one document."""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from benchmarks.components.report import Report
from benchmarks.validation import held_out
from benchmarks.validation.bound import Violation
from benchmarks.validation.by_engine import links, overview
from benchmarks.validation.cost_tables import tables as cost_tables
from benchmarks.validation.overheads import Overhead, overheads
from inference_econ.extras import servers
from inference_econ.extras.servers.pages.servers import (
    LEGEND,
    SPECULATING,
    coverage_table,
    errors,
    interval_table,
    missing,
)
from inference_econ.extras.servers.validation.servers import BY_NAME, NOTES
from inference_econ.inputs import catalog
from inference_econ.report.page import Table

_KEYS = ("hardware", "model", "engine", "load")
_TTFT = servers.Quantity("ttft", "TTFT", "ttft_seconds")


class Slice(NamedTuple):
    """Rows similar to those on which other tools report errors."""

    title: str
    beside: str
    takes: Callable[[servers.Measurement], bool]
    quantities: tuple[servers.Quantity, ...]


_TPOT, _REQUEST, _OUTPUT = (BY_NAME[name] for name in ("tpot", "request_latency", "output_rate"))
_SLICES = (
    Slice(
        "InferenceX runs on one machine",
        "AIConfigurator, AISimulate",
        lambda row: row.dataset in ("serving_points", "inferencemax_aggregated") and row.decode is None,
        (_TPOT, _TTFT),
    ),
    Slice(
        "vLLM on H100 and A100",
        "BLIS, and Vidur",
        lambda row: row.engine == "vllm" and row.hardware.startswith(("h100", "a100")),
        (_REQUEST, _TTFT, _TPOT),
    ),
    Slice("A100", "LLMCompass", lambda row: row.hardware.startswith("a100"), (_REQUEST, _TPOT)),
    Slice("RTX PRO 6000", "LLMServingSim", lambda row: row.hardware == "rtx_pro_6000", (_TPOT, _OUTPUT)),
)


def document(
    report: servers.Servers,
    others: Sequence[servers.Servers],
    violations: Sequence[Violation],
    picture: str,
    command: str,
    costs: Report | None = None,
) -> str:
    """Validation report as Markdown.

    Parameters
    ----------
    report : Servers
        All shipped files under the profiles.
    others : sequence of Servers
        All shipped files under other presets.
    violations : sequence of Violation
        Measurements faster than the bound.
    picture : str
        Path of the figure, relative to the document.
    command : str
        Command that generates the document.
    costs : Report, optional
        Cost of the best measured servers with predictions.
    """
    parts = dict(report.split())
    parts.pop("fitted", None)
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)
    speculative = {"speculation": report.speculative()}
    return environment.get_template("validation.md.j2").render(
        command=command,
        costs=costs,
        cost_tables=() if costs is None else cost_tables(costs),
        overview=overview(report),
        links=links(report, PurePath(picture).stem),
        held=interval_table(report),
        reached=held_out.reached(report),
        picture=picture,
        errors=errors(report),
        legend=LEGEND,
        compared=_compared([report, *others]),
        ours=_ours(report),
        tools=tools(),
        alike=held_out.alike(report),
        left_out=held_out.left_out(),
        intervals=held_out.intervals(),
        worst=held_out.worst(report),
        undetermined=held_out.undetermined(),
        groups={key: held_out.side_by_side(parts, key, held_out.MAIN) for key in _KEYS},
        overhead=overhead_table(overheads(report.counted())),
        coverage=coverage_table(report),
        notes=NOTES,
        speculating=SPECULATING,
        speculations=[held_out.side_by_side(speculative, key, held_out.MAIN) for key in ("engine", "speculation")],
        missing=missing(report),
        beyond=beyond(violations),
        shown=_shown,
        filled=_filled,
    )


def tools() -> Table:
    """Table of published error statements of other tools."""
    references = catalog.references()
    with catalog.measured_files()["tool_errors"].open(encoding="utf-8", newline="") as stream:
        rows = tuple(
            (line["tool"], line["error"], line["of"], line["against"],
             f"[{line['ref']}]({references[line['ref']]['url']}): {line['where']}")
            for line in csv.DictReader(stream)
        )  # fmt: skip
    return Table("", ("tool", "error", "what it is", "against what", "source"), rows)


def _compared(reports: Sequence[servers.Servers]) -> Table:
    """Table of median errors under several presets."""
    rows = []
    for quantity in servers.QUANTITIES:
        cells = [servers.overall(report.counted(), quantity) for report in reports]
        if any(cell is not None for cell in cells):
            medians = (
                "-" if cell is None or cell.median is None else f"{cell.median:.3f}, {cell.bias:+z.3f}"
                for cell in cells
            )
            rows.append((quantity.title, *medians))
    return Table("", ("median error, bias", *(report.assumptions for report in reports)), tuple(rows))


def _ours(report: servers.Servers) -> Table:
    """Table of mean absolute percentage errors for comparison with other tools: all rows, and rows outside fits."""
    lines = []
    parts = report.split()
    for subset in _SLICES:
        for quantity in subset.quantities:
            cells = [_shares(parts.get(which, ()), subset, quantity) for which in ("all", "not fitted")]
            if int(cells[0][0] or 0) >= held_out.ENOUGH:
                lines.append((subset.title, subset.beside, quantity.title, *cells[0], *cells[1]))
    heads = ("rows", "mean absolute error", "median")
    columns = ("here", "comparable with", "quantity", *heads, *(f"{head}, not fitted" for head in heads))
    return Table("", columns, tuple(lines))


def _shares(rows: Iterable[servers.InputRow], subset: Slice, quantity: servers.Quantity) -> tuple[str, str, str]:
    """Number, mean and median of |predicted / measured - 1| [1]."""
    pairs = [
        (row.measured(quantity), row.predicted(quantity))
        for row in rows
        if row.measurement is not None and subset.takes(row.measurement)
    ]
    shares = [abs(guess / real - 1.0) for real, guess in pairs if real is not None and guess is not None]
    if not shares:
        return "", "", ""
    return str(len(shares)), f"{100 * np.mean(shares):.0f} %", f"{100 * np.median(shares):.0f} %"


def _filled(table: Table) -> str:
    return _shown(table) if table.rows else "The profiles do not say; fit them again."


def _shown(table: Table) -> str:
    """Table with its notes."""
    notes = [note for note in table.every_note if note != LEGEND or "quantity" in table.columns]
    return "\n\n".join((table.markdown().rstrip("\n"), *notes))


#: Accepted range of implied over predicted overhead [1].
_LOW, _HIGH = 0.85, 1.15
_NOTE = (
    "The implied overhead is the measured time per token minus predicted arithmetic, memory reads, transfers and "
    "prefill. The predicted overhead is the sum of kernel launches, collective latency and CPU time. Values are "
    "medians over layouts and lengths, each at its lowest concurrency, with up to eight requests per instance."
)
#: Known reasons for deviations, by prefix of engine, model and chip.
_REASONS: tuple[tuple[str, str, str, str], ...] = (
    ("vllm", "qwen3_235b", "", "a series that says something else than its name"),
    ("trtllm", "gpt_oss", "h200", "a development version whose source is not public"),
)


def overhead_table(listed: Sequence[Overhead]) -> Table:
    """Table of implied over predicted overhead by engine, model and chip, with reasons outside the accepted range."""
    groups: dict[tuple[str, str, str], list[Overhead]] = defaultdict(list)
    for overhead in listed:
        groups[overhead.row.engine, overhead.row.model, overhead.row.hardware].append(overhead)
    rows = tuple(_line(*names, groups[names]) for names in sorted(groups))
    columns = ("engine", "model", "chip", "layouts", "implied / predicted", "us per layer", "remark")
    return Table("Overhead of decode steps", columns, rows, (_NOTE,))


def _line(engine: str, model: str, chip: str, listed: Sequence[Overhead]) -> tuple[str, ...]:
    ratios = [overhead.ratio for overhead in listed]
    ratio = statistics.median(ratios)
    spread = f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else ""
    implied, predicted = (
        statistics.median(1e6 * seconds / overhead.layers for overhead, seconds in zip(listed, column, strict=True))
        for column in ([overhead.implied for overhead in listed], [overhead.predicted for overhead in listed])
    )
    times = f"{implied:.0f} / {predicted:.0f}"
    remark = "" if _LOW <= ratio <= _HIGH else _reason(engine, model, chip)
    return engine, model, chip, str(len(listed)), f"{ratio:.2f}{spread}", times, remark


def _reason(engine: str, model: str, chip: str) -> str:
    """Known reason why a group is outside the accepted range."""
    for begin, kind, board, why in _REASONS:
        if engine == begin and model.startswith(kind) and chip.startswith(board):
            return why
    return "not explained"


def beyond(violations: Sequence[Violation]) -> Table:
    """Table of measurements that are faster than the bound, with a diagnosis."""
    rows = tuple(
        (violation.row.id, violation.row.dataset, violation.quantity.title, f"{violation.measured:.4g}",
         f"{violation.bound:.4g}", f"{violation.factor:.2f}", violation.why)
        for violation in violations
    )  # fmt: skip
    columns = ("row", "dataset", "quantity", "measured", "bound", "factor", "diagnosis")
    ids = {violation.row.id for violation in violations}
    reading = f"{len(ids)} rows are faster than the ideal bound (preset 'ideal')."
    return Table("Beyond the bound", columns, rows, (reading,), ("Units: seconds, and tokens/s per GPU.",))
