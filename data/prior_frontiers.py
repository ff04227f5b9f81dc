"""Compute the frontiers that 'infer' ships for the usual priors: scenarios/assumptions/priors/frontiers.csv.

Run by ``sh run.sh refit priors``; about ten minutes. Needed again after whatever moves frontiers: profiles, the cost
model, the rule by which models are scaled, the known models, or the sizes, chips and formats of the priors. With
``--new`` lines that are there already are kept, and only the others computed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

from inference_econ._types import Array
from inference_econ.extras.closed_models import scenario_kinds
from inference_econ.extras.closed_models.frontiers import (
    COST,
    FLIGHT,
    KEPT,
    SPEED,
    TTFT,
    Case,
    Surfaces,
    manners,
    points_of,
    shipped_points,
)
from inference_econ.extras.closed_models.scenario_kinds import Priors
from inference_econ.inputs import catalog


def every_case(priors: Priors) -> Iterator[Case]:
    """Return all frontiers that priors need."""
    surfaces = Surfaces(priors)
    for family in priors.families.values():
        for manner in manners(priors):
            yield from surfaces.cases(family, manner)


def table_line(case: Case, points: Array | None = None) -> str:
    """Return a line of the table, in logarithms with three decimals; computed unless its points are given."""
    kept = points_of(case) if points is None else points
    columns = [kept[[0, -1], SPEED], *(kept[:, column] for column in (COST, TTFT, FLIGHT))]
    texts = [" ".join(f"{value:.3f}" for value in column if math.isfinite(value)) for column in columns]
    named = ("" if value is None else f"{value:g}" if isinstance(value, float) else str(value) for value in case)
    return ",".join((*named, *texts))


def main() -> None:
    """Write the table to where it is read."""
    known = shipped_points() if "--new" in sys.argv else {}
    cases = list(dict.fromkeys(every_case(scenario_kinds.priors("usual"))))
    lines = [",".join((*Case._fields, *KEPT))]
    for index, case in enumerate(cases):
        lines.append(table_line(case, known.get(case)))
        sys.stderr.write(f"\r{index + 1} of {len(cases)}")
    sys.stderr.write("\n")
    path = catalog.folder("assumptions") / "priors" / "frontiers.csv"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
