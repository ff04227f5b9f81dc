"""Correlations of prediction errors: ``sh run.sh validate error-correlations`` (a minute or two).

Every shipped measurement is predicted under the profile of its chip. Rank correlations (Spearman) of ln(measured /
predicted) are printed between quantities of a row, and between the TPOT of two chips with the same engine, model,
lengths and concurrency. They justify the profile as an uncertain input (``docs/howto/uncertainty.md``): one quantile
for all quantities of a server, and another for each chip.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence

from scipy.stats import spearmanr

from inference_econ.extras.servers import validation
from inference_econ.extras.servers.validation.servers import InputRow, predict_files, read_files

#: Quantities by field of measurement and prediction.
_FIELDS = {
    "time per token": "tpot_seconds",
    "time to the first token": "ttft_seconds",
    "output throughput": "output_tokens_per_second_per_accelerator",
    "total throughput": "total_tokens_per_second_per_accelerator",
}
#: Fewest pairs for a correlation [1].
_FEWEST = 20


def main() -> None:
    """Print both tables."""
    rows = [row for row in predict_files(read_files(list(validation.SERVERS))).counted() if row.prediction is not None]
    for one, other in itertools.combinations(_FIELDS, 2):
        _print(f"{one}, {other}", [(_error(row, one), _error(row, other)) for row in rows])
    for chips, pairs in sorted(_by_chips(rows).items()):
        _print(f"time per token of {' and '.join(chips)}", pairs)


def _error(row: InputRow, quantity: str) -> float | None:
    """ln(measured / predicted); None if either is unknown."""
    measured, predicted = (getattr(side, _FIELDS[quantity], None) for side in (row.measurement, row.prediction))
    return math.log(measured / predicted) if measured and predicted else None


def _by_chips(rows: Sequence[InputRow]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Pairs of TPOT errors under equal conditions, by the two chips."""
    measured: dict[object, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        error, server = _error(row, "time per token"), row.measurement
        if error is not None and server is not None and server.concurrency:
            measured[server.engine, server.model, server.isl, server.concurrency][server.hardware].append(error)
    pairs: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for chips in measured.values():
        for one, other in _pairs(sorted(chips)):
            pairs[one, other].append((statistics.mean(chips[one]), statistics.mean(chips[other])))
    return pairs


def _pairs(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    return itertools.combinations(names, 2)


def _print(what: str, pairs: Sequence[tuple[float | None, float | None]]) -> None:
    known = [pair for pair in pairs if None not in pair]
    if len(known) >= _FEWEST:
        rank = spearmanr([one for one, _ in known], [other for _, other in known]).statistic
        print(f"{what}: {rank:+.2f} ({len(known):,} pairs)")  # noqa: T201


if __name__ == "__main__":
    main()
