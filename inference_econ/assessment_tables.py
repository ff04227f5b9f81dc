"""A measured deployment beside what could be, as tables and as data (floor 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from inference_econ.assessment import NEAR, Assessment, Gap
from inference_econ.frontier import Frontier, Point
from inference_econ.frontier_tables import frontier_title
from inference_econ.study import Curve, sources
from inference_econ.tables import PART_NAMES, Table, dollars, layout_label, size, source_records

if TYPE_CHECKING:
    import pandas as pd

_STEP_NAMES = {**PART_NAMES, "unexplained": "unexplained"}


def assessment_table(found: Assessment) -> Table:
    """The measured point, the prediction for it, and the deployments that would be faster or cheaper."""
    measured = found.measured
    rows = [
        (
            "measured",
            f"{measured.tokens_per_second_per_user:.1f}",
            dollars(measured.dollars_per_million_output_tokens),
            "",
            size(measured.accelerators),
            "",
            size(measured.batch),
            f"{100 * measured.mfu:.1f}",
        )
    ]
    if found.predicted is not None:
        speed = found.predicted.tokens_per_second_per_user / measured.tokens_per_second_per_user
        rows.append(_row("predicted for it", found.predicted, f"{speed:.2f} x speed"))
    for name, gap in _gaps(found).items():
        faster, cheaper = "", ""
        if gap.speed_factor is not None and gap.cost_factor is not None:
            faster, cheaper = f"{gap.speed_factor:.2f} x speed", f"{1 / gap.cost_factor:.2f} x cost"
        elif gap.speed_factor is not None:
            faster = f"{gap.speed_factor:.2f} x speed"
        elif gap.cost_factor is not None:
            cheaper = f"{1 / gap.cost_factor:.2f} x cost"
        rows.append(_row(f"{name}: at its cost", gap.faster, faster or "none as cheap"))
        rows.append(_row(f"{name}: at its speed", gap.cheaper, cheaper or "none as fast"))
    columns = ("deployment", "tokens/s per user", "$/M output", "of measured", "GPUs", "layout", "batch", "MFU %")
    return Table(frontier_title(found.anywhere.frontier), columns, tuple(rows), findings(found))
