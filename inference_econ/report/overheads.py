"""Overheads of decode steps, implied and predicted, as a table."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from inference_econ.calibration import Overhead
from inference_econ.report.table import Table

#: Implied over predicted overhead that counts as right [1].
_LOW, _HIGH = 0.85, 1.15
_NOTE = (
    "Implied is what the measured time per token leaves beside predicted arithmetic, memory, transfers and prompts; "
    "predicted are launches, latencies of collectives and time of the host. Median over layouts and lengths, each at "
    "its lowest concurrency, up to eight requests at an instance."
)
#: Why engines are off where somebody found out: beginnings of engine, model and chip, and the reason.
_REASONS: tuple[tuple[str, str, str, str], ...] = (
    ("vllm", "qwen3_235b", "", "a series that says something else than its name"),
    ("trtllm", "gpt_oss", "h200", "a development version whose source is not public"),
)


def overhead_table(overheads: Sequence[Overhead]) -> Table:
    """Implied over predicted overhead by engine, model and chip; those outside of the aim say why, as far as known."""
    groups: dict[tuple[str, str, str], list[Overhead]] = defaultdict(list)
    for overhead in overheads:
        groups[overhead.row.engine, overhead.row.model, overhead.row.hardware].append(overhead)
    rows = tuple(_line(*names, groups[names]) for names in sorted(groups))
    columns = ("engine", "model", "chip", "layouts", "implied / predicted", "us per layer", "remark")
    return Table("Overhead of decode steps", columns, rows, (_NOTE,))


def _line(engine: str, model: str, chip: str, overheads: Sequence[Overhead]) -> tuple[str, ...]:
    ratios = [overhead.ratio for overhead in overheads]
    ratio = statistics.median(ratios)
    spread = f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else ""
    implied, predicted = (
        statistics.median(1e6 * seconds / overhead.layers for overhead, seconds in zip(overheads, column, strict=True))
        for column in ([overhead.implied for overhead in overheads], [overhead.predicted for overhead in overheads])
    )
    times = f"{implied:.0f} / {predicted:.0f}"
    remark = "" if _LOW <= ratio <= _HIGH else _reason(engine, model, chip)
    return engine, model, chip, str(len(overheads)), f"{ratio:.2f}{spread}", times, remark


def _reason(engine: str, model: str, chip: str) -> str:
    """Why a group is outside of the aim, as far as somebody has looked into it."""
    for begin, kind, board, why in _REASONS:
        if engine == begin and model.startswith(kind) and chip.startswith(board):
            return why
    return "not explained"
