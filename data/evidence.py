"""Number of measured runs by setup: ``sh run.sh refit evidence`` writes scenarios/measured/evidence.csv; seconds.

Run it after the tables of measured servers change. A row has the number of runs for an engine, model, GPU, weight
format, arrangement and layout.
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

from inference_econ.extras.servers.levels import places_of
from inference_econ.extras.servers.measurements import Measurement, distinct, shipped
from inference_econ.extras.servers.validation import SERVERS
from inference_econ.inputs import catalog

FILE = Path(__file__).resolve().parents[1] / "scenarios" / "measured" / "evidence.csv"
COLUMNS = ("engine", "model", "hardware", "weights", "arrangement", "speculates", "layout", "prefill_layout", "runs")


def counted(rows: list[Measurement]) -> list[tuple[object, ...]]:
    """Lines of the table, with the display names of models and GPUs."""
    runs: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        decode, prefill = places_of(row)
        apart, speculates = decode.way
        arrangement = "disaggregated" if apart else "aggregated"
        layout, weights = decode.deployment
        names = catalog.title("models", row.model), catalog.title("hardware", row.hardware)
        beside = prefill.deployment[0] if apart else ""
        runs[row.engine, *names, weights, arrangement, "yes" if speculates else "no", layout, beside] += 1
    return [(*key, count) for key, count in sorted(runs.items())]


def usable() -> list[Measurement]:
    """Measured servers with a known engine and layout, without duplicates and invalid runs."""
    measured = [row for row in shipped(tuple(SERVERS)) if isinstance(row, Measurement)]
    return [row for row in distinct(measured) if row.engine and (row.tp or row.decode) and not row.spoilt]


def main() -> None:
    """Write the table."""
    with FILE.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(counted(usable()))


if __name__ == "__main__":
    main()
