"""Compute the frontiers that 'infer' ships for the usual priors: scenarios/assumptions/priors/frontiers.csv.

Run by ``sh run.sh priors``; about ten minutes. Needed again after whatever moves frontiers: profiles, the cost model, the
rule by which models are scaled, the known models, or the sizes, chips and formats of the priors.
"""

from __future__ import annotations

import sys

from inference_econ.inputs import catalog
from inference_econ.studies.inference.frontiers import Surfaces, table_lines


def main() -> None:
    """Write the table to where it is read."""
    cases = list(dict.fromkeys(Surfaces(catalog.priors("usual")).every_case()))
    lines = []
    for index, line in enumerate(table_lines(cases)):
        lines.append(f"{line}\n")
        print(f"\r{index} of {len(cases)}", end="", file=sys.stderr)
    path = catalog.folder("assumptions") / "priors" / "frontiers.csv"
    path.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
