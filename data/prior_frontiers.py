"""Computation of the frontiers that 'infer' ships for the default priors: scenarios/assumptions/priors/frontiers.csv.

``sh run.sh refit priors`` runs it; about ten minutes. Repeat it after a change that affects frontiers: profiles, the
cost model, the scaling rule of models, the known models, or the sizes, chips and formats of the priors. With ``--new``,
only missing lines are computed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

from inference_econ._types import Array
from inference_econ.extras.closed_models import scenario_kinds
from inference_econ.extras.closed_models.infer import (
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
    """Frontiers that the priors need."""
    surfaces = Surfaces(priors)
    for family in priors.families.values():
        for manner in manners(priors):
            yield from surfaces.cases(family, manner)


def table_line(case: Case, points: Array | None = None) -> str:
    """Line of the table, in logarithms with three decimals. Its points are computed unless given."""
    kept = points_of(case) if points is None else points
    columns = [kept[[0, -1], SPEED], *(kept[:, column] for column in (COST, TTFT, FLIGHT))]
    texts = [" ".join(f"{value:.3f}" for value in column if math.isfinite(value)) for column in columns]
    named = ("" if value is None else f"{value:g}" if isinstance(value, float) else str(value) for value in case)
    return ",".join((*named, *texts))


def main() -> None:
    """Write the table to its place in the package."""
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
