"""Similarity of error spreads of engines on a chip generation: ``sh run.sh validate error-spreads`` (a minute).

Every fitted measurement is predicted under the profile of its engine and chip. By quantity, generation and engine with
enough runs, the share of deployments within an 80% interval of all engines is printed. The variance of the log spreads,
less sampling variance, determines ``BASE_GROUPS`` of ``inference_econ/extras/servers/fit.py``. The correlation within
runs determines ``by_chance`` there (docs/howto/confidence.md).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from inference_econ._types import Array
from inference_econ.extras.servers import QUANTITIES, Servers, coverage, joined, validation
from inference_econ.extras.servers.accuracy import deployment_key
from inference_econ.extras.servers.fit import error_quantiles, held_by_run, without_misfits
from inference_econ.extras.servers.validation.servers import predict_files, read_files
from inference_econ.inputs import LEVELS, catalog, likely_ends
from inference_econ.inputs.engine import profiles

#: Fewest runs for a spread [1].
ENOUGH = 10
#: Variance of the log distances of the 10 and 90% quantiles of one run [1].
_OF_ONE = 0.9
_SHOWN = ("tpot", "ttft_under_load", "output_rate")

#: Errors of runs by engine.
Engines = dict[str, list[list[Array]]]


def main() -> None:
    """Print a line per group, and the variance."""
    report, squares, alike = predict_files(read_files(list(validation.SERVERS))), [], []
    for name in _SHOWN:
        for generation, engines in errors_by_run(report, name).items():
            everything = [group for groups in engines.values() for group in groups]
            base = error_quantiles(everything)
            for engine, groups in engines.items():
                if len(groups) < ENOUGH:
                    continue
                off = float(np.mean(np.log(_distances(groups) / _distances(everything))))
                squares.append(off**2 - _OF_ONE / len(groups))
                alike.append(correlation([run.astype(float) for group in held_by_run(groups, base) for run in group]))
                held = f"{100 * coverage(groups, base):.0f} % held, {width(groups, base):.2f} wide"
                print(f"{name} {generation} {engine}: {len(groups)} runs, {held}, own distances {off:+.2f}")  # noqa: T201
    print(f"variance of logarithms of distances: {np.mean(squares):.2f}")  # noqa: T201
    print(f"intraclass correlation of being held: {np.median(alike):.2f}")  # noqa: T201


def errors_by_run(report: Servers, name: str) -> dict[str, Engines]:
    """ln(measured / predicted) of a quantity for fitted rows, by chip generation, engine and run."""
    (quantity,) = (quantity for quantity in QUANTITIES if quantity.name == name)
    errors: dict[str, dict[str, dict[object, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for row in report.counted():
        measured, predicted, server = row.measured(quantity), row.predicted(quantity), row.measurement
        generation = "" if server is None else profiles.generation_of(catalog.hardware(server.hardware))
        if server is not None and row.fitted and generation and measured and predicted:
            run = deployment_key(server), server.engine_version
            errors[generation][server.engine][run].append(math.log(measured / predicted))
    return {
        generation: {engine: [[np.array(run)] for run in runs.values()] for engine, runs in engines.items()}
        for generation, engines in errors.items()
    }


def width(groups: Sequence[Sequence[Array]], base: Sequence[float] | None) -> float:
    """Ratio of the ends of an 80% interval [1]."""
    low, high = likely_ends(error_quantiles(groups, base) or (math.nan,) * len(LEVELS))
    return math.exp(high - low)


def correlation(runs: Sequence[Array]) -> float:
    """Intraclass correlation of rows within runs, from a one-way analysis of variance [1]."""
    sizes, means = np.array([run.size for run in runs]), np.array([run.mean() for run in runs])
    rows, everything = int(sizes.sum()), np.concatenate(runs)
    between = float(np.sum(sizes * (means - everything.mean()) ** 2)) / (sizes.size - 1)
    within = sum(float(np.sum((run - run.mean()) ** 2)) for run in runs) / (rows - sizes.size)
    usual = (rows - float(np.sum(sizes**2)) / rows) / (sizes.size - 1)
    total = between + (usual - 1.0) * within
    return max(between - within, 0.0) / total if total else 0.0


def _distances(groups: Sequence[Sequence[Array]]) -> Array:
    """Distances of the 10 and 90% quantiles from the median [1]."""
    low, middle, high = np.quantile(joined(without_misfits(groups)), (0.1, 0.5, 0.9))
    return np.array([middle - low, high - middle])


if __name__ == "__main__":
    main()
