"""Compute the frontiers that 'infer' ships for the usual priors: scenarios/assumptions/priors/frontiers.csv.

Run by ``sh run.sh priors``; about ten minutes. Needed again after whatever moves frontiers: profiles, the cost model,
the rule by which models are scaled, the known models, or the sizes, chips and formats of the priors. With ``--new``
lines that are there already are kept, and only the others computed.
"""

from __future__ import annotations

import sys

from inference_econ.inputs import catalog
from inference_econ.studies.inference.frontiers import Surfaces, shipped_points, table_head, table_line


def main() -> None:
    """Write the table to where it is read."""
    known = shipped_points() if "--new" in sys.argv else {}
    cases = list(dict.fromkeys(Surfaces(catalog.priors("usual")).every_case()))
    lines = [table_head()]
    for index, case in enumerate(cases):
        lines.append(table_line(case, known.get(case)))
        sys.stderr.write(f"\r{index + 1} of {len(cases)}")
    sys.stderr.write("\n")
    path = catalog.folder("assumptions") / "priors" / "frontiers.csv"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
