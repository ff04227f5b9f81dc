"""The report on how predictions fare against measured servers, as one document."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from inference_econ.calibration import (
    QUANTITIES,
    Measurement,
    Quantity,
    Report,
    Row,
    Servers,
    Violation,
    overall,
    overheads,
)
from inference_econ.inputs import catalog
from inference_econ.report.by_engine import held, links, overview
from inference_econ.report.costs import tables as cost_tables
from inference_econ.report.held_out import (
    BY_NAME,
    ENOUGH,
    MAIN,
    alike,
    intervals,
    left_out,
    reached,
    side_by_side,
    undetermined,
    worst,
)
from inference_econ.report.overheads import overhead_table
from inference_econ.report.servers import LEGEND, NOTES, SPECULATING, beyond, coverage, errors, missing
from inference_econ.report.table import Table

_KEYS = ("dataset", "hardware", "model", "engine", "load")
_TTFT = Quantity("ttft", "TTFT", "ttft_seconds")


class Slice(NamedTuple):
    """Rows that are like those that other tools are held against."""

    title: str
    beside: str
    takes: Callable[[Measurement], bool]
    quantities: tuple[Quantity, ...]


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

_OPENING = (
    "How far predictions of servers are off, |ln(predicted / measured)| as percentages, median and 90th percentile. "
    "Fitted: by the profile of engine and chips, which has seen rows of the same deployments. Unseen: by fits of all "
    "engines and chips without any row of that engine on that chip with that model. Constants alone: "
    "levels of measured servers, which answers take too, have seen these rows; what they bring for rows that they have "
    "not seen is in [levels](levels.md). Each line has a page with its series, the worst ones first."
)
_COSTS = (
    "What a default answer costs at the speed of the best measured servers, which nobody tells it: it chooses engine, "
    "layout and batch itself. Made by `inference-econ validate costs`. No other tool is known to publish such an "
    "error: AIConfigurator and AISimulate publish those of TTFT and TPOT of servers that they are given (below), which "
    "do not say how far the best of what they would choose is from the best that was measured. Where a frontier is "
    "steep, an error of TPOT is several times as large in cost. By default answers have seen some of these servers: "
    "their levels count; the second table leaves levels out."
)
_HELD = (
    "Intervals of 80 %, and how many of the measured values they hold. Those of rows that were fitted are somewhat "
    "wide, as they are made for servers that were not; where a row is unlike what was measured, they are those of fits "
    "that left out its like ([how they are made](../howto/confidence.md))."
)
_HOW = """\
Every row of the files in `scenarios/measured` goes through the service model that answers questions: the same steps,
the same prompts between them, the same queues. Nothing in a prediction looks at what was measured in that row. The
constants of a profile were fitted to a part of the rows, though, and its `calibration` block says to which
deployments: a row counts as not fitted if neither its profile nor one that this extends has seen its deployment.

- A **closed loop** keeps a number of requests under way. All come at once at the beginning of a run; where the length
  of the run is known, they count in its mean TTFT. Engines that read all prompts before they go on decoding (SGLang)
  serve equally long requests in rounds. What the scripts of InferenceX tell an engine of its scheduling holds for
  their rows: steps between looks at new requests, prompt tokens of a step, waiting for prompts of others.
- **Random arrivals** are played from the first to the last, where their number is known; otherwise they go on for ever.
- A **batch** begins and ends together, in rounds if its cache does not fit.
- **Saturated** servers hold as many requests as fit their memory, or vLLM's own limit; servers with promises to keep as
  many as keep them. If the layout is not recorded, the one that serves most is taken.
- **Disaggregated** servers are played: a line of prompts, a pool that only decodes, workers of recipes (`recipes.csv`).
"""
_SEEN = (
    "Rows that were not fitted are few and no fair sample: older collections, chips without a profile, and runs that "
    "the fits left out on purpose since something held them back. So the errors of fits that left out traffic, "
    "versions of engines or models stand beside theirs."
)
_ALIKE = (
    "Each cell: rows, median and 90th percentile of the errors, and how many are inside of their interval of 80 %. "
    "Outside of the fitted range an interval need not hold what it says: that is what the flag is for."
)
_LEFT_OUT = (
    "The profile of all engines and chips, fitted again without each chip, each model, and each engine on a chip with "
    "a model, predicts what it did not see; medians of the errors:"
)
_INTERVALS = (
    "Intervals of 80 % are made from the errors of such fits. A question that is like the rows but for its traffic has "
    "those without the traffic; another version of the engine, a layout, a combination of engine, chip and model, or "
    "one of these that was not measured, has those without it, and of several the widest. Each cell: median and 90th "
    "percentile of the errors of rows left out, how many are inside of an interval made from the other groups, and how "
    "wide it is, as highest over lowest value."
)
_UNKNOWN = (
    "What would have to be known to do better. The engines, chips and models that are farthest off, of many rows "
    "first, and in what they are unlike the rows that were fitted:"
)
_CONSTANTS = "Constants that the rows of some profiles do not determine, whose value is mostly that of the base:"


def document(
    report: Servers,
    others: Sequence[Servers],
    violations: Sequence[Violation],
    picture: str,
    command: str,
    costs: Report | None = None,
) -> str:
    """The report as Markdown.

    Parameters
    ----------
    report : Servers
        Every shipped file under the usual assumptions.
    others : sequence of Servers
        The same under others.
    violations : sequence of Violation
        What beats the bound.
    picture : str
        Where the figure is, seen from the document.
    command : str
        What generates the document again.
    costs : Report, optional
        The best measured servers beside what answers cost at their speed.
    """
    which = dict(report.split())
    which.pop("fitted", None)
    parts = [
        "# Predictions against measured servers",
        f"Generated by `{command}`; never edited by hand. Kernels and networks are in [collectives](collectives.md).",
        *([] if costs is None else _cost_at_a_speed(costs)),
        _OPENING,
        *_filled(overview(report)),
        *links(report, PurePath(picture).stem),
        _HELD,
        *_shown(held(report)),
        *_shown(published(report)),
        "## What is reached",
        *_shown(reached(report)),
        _SEEN,
        f"![Predicted and measured: bands of 10 and 20 %, dotted lines at half and twice]({picture})",
        *_brief(errors(report)),
        *_shown(_compared([report, *others])),
        "## What other tools say of themselves",
        "No two of these numbers measure the same thing. The closest to this report are AIConfigurator's and "
        "AISimulate's, which are held against InferenceX too; they know each run's speculation and have kernels "
        "measured for its engine.",
        *_shown(_ours(report)),
        *_shown(tools()),
        "## On rows that were not fitted",
        _ALIKE,
        *_filled(alike(report)),
        _LEFT_OUT,
        *_filled(left_out()),
        _INTERVALS,
        *_filled(intervals()),
        _UNKNOWN,
        *_filled(worst(report)),
        f"{_CONSTANTS} {'; '.join(undetermined()) or 'the profiles do not say'}.",
        "## Errors by group",
        "Each cell: predictions, median error, bias. Groups of fewer than five are in the CSV file only.",
        *(line for key in _KEYS for line in (f"### By {key}", *_shown(side_by_side(which, key, MAIN)))),
        "## Overhead of decode steps",
        "With few requests a decode step is mostly launches, latencies of collectives and time of the host. Kernels "
        "are [counted by engine](../model/kernel_launches.md); of an engine, all models should have the same ratio.",
        *_shown(overhead_table(overheads(report.counted()))),
        "## How rows are predicted",
        _HOW,
        "## What takes part",
        *_shown(coverage(report)),
        *(f"- {note}" for note in NOTES),
        "## Speculation",
        SPECULATING,
        *_shown(side_by_side({"speculation": report.speculative()}, "engine", MAIN)),
        *_shown(side_by_side({"speculation": report.speculative()}, "speculation", MAIN)),
        "## Not predicted",
        *_shown(missing(report)),
        "## Faster than the bound",
        "The preset `ideal` has full peaks, no launches and free communication. What beats it by more than 3 % is a "
        "wrong fact, a wrong row, or something that the row does not record.",
        *_shown(beyond(violations)),
    ]
    return "\n".join(_spaced(parts)).rstrip() + "\n"


def _cost_at_a_speed(report: Report) -> Iterator[str]:
    """The section on answers beside the best measured servers, and what heads the sections after it."""
    yield "## Cost at a speed"
    yield _COSTS
    for table in cost_tables(report):
        yield from ([] if table.title == report.title else [f"### {table.title}"])
        yield from _shown(table)
    yield from (f"- {note}" for note in report.notes)
    yield "## Times of given servers"


def published(report: Servers) -> Table:
    """What tools publish that are held against runs of InferenceX, beside the same kind of error here."""
    subset, measure = _SLICES[0], "mean absolute percentage error"
    cells = ((quantity, _shares(report.counted(), subset, quantity)) for quantity in subset.quantities)
    numbers = [(quantity.title, number, mean) for quantity, (number, mean, _) in cells if number]
    ours = ", ".join(f"{title} {mean}" for title, _, mean in numbers)
    rows = [("here", ours, measure, f"{numbers[0][1]} rows, most of them fitted")] if numbers else []
    theirs = (line for line in _tool_errors() if "InferenceX" in line["against"])
    rows += [(line["tool"], line["error"], line["of"], line["against"]) for line in theirs]
    return Table("", ("on InferenceX runs", "error", "what it is", "against what"), tuple(rows))


def tools() -> Table:
    """What is published on the accuracy of other tools."""
    references = catalog.references()
    rows = tuple(
        (line["tool"], line["error"], line["of"], line["against"],
         f"[{line['ref']}]({references[line['ref']]['url']}): {line['where']}")
        for line in _tool_errors()
    )  # fmt: skip
    return Table("", ("tool", "error", "what it is", "against what", "source"), rows)


def _tool_errors() -> list[dict[str, str]]:
    with catalog.measured_files()["tool_errors"].open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _compared(reports: Sequence[Servers]) -> Table:
    """Median errors under several assumptions."""
    rows = []
    for quantity in QUANTITIES:
        cells = [overall(report.counted(), quantity) for report in reports]
        if any(cell is not None for cell in cells):
            medians = (
                "-" if cell is None or cell.median is None else f"{cell.median:.3f}, {cell.bias:+z.3f}"
                for cell in cells
            )
            rows.append((quantity.title, *medians))
    return Table("", ("median error, bias", *(report.assumptions for report in reports)), tuple(rows))


def _ours(report: Servers) -> Table:
    """Mean absolute percentage errors where other tools give theirs: of all rows, and of those not fitted."""
    lines = []
    parts = report.split()
    for subset in _SLICES:
        for quantity in subset.quantities:
            cells = [_shares(parts.get(which, ()), subset, quantity) for which in ("all", "not fitted")]
            if int(cells[0][0] or 0) >= ENOUGH:
                lines.append((subset.title, subset.beside, quantity.title, *cells[0], *cells[1]))
    heads = ("rows", "mean absolute error", "median")
    columns = ("here", "beside", "quantity", *heads, *(f"{head}, not fitted" for head in heads))
    return Table("", columns, tuple(lines))


def _shares(rows: Iterable[Row], subset: Slice, quantity: Quantity) -> tuple[str, str, str]:
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


def _brief(table: Table) -> list[str]:
    """Without the sentences that say the same."""
    return [table.markdown(), LEGEND]


def _filled(table: Table) -> list[str]:
    return _shown(table) if table.rows else ["The profiles do not say; fit them again."]


def _shown(table: Table) -> list[str]:
    notes = [note for note in table.every_note if note != LEGEND or "quantity" in table.columns]
    return [table.markdown(), *notes]


def _spaced(parts: Iterable[str]) -> Iterator[str]:
    """A blank line between parts, none between the items of a list."""
    before = ""
    for part in parts:
        if not (before.startswith("- ") and part.startswith("- ")) and before:
            yield ""
        yield part.rstrip("\n")
        before = part
