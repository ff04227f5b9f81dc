"""Score of predicted costs against InferenceX's costs at fixed speeds: ``sh run.sh validate published-costs``.

Every row of ``published_costs.csv`` is a cost that a post of InferenceX prints for a model, a GPU, an engine and a
speed of one user. The prediction chooses the layout and the batch size of one instance: among all layouts of at most
eight GPUs, or among the layouts and concurrencies that the benchmark ran.
"""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from inference_econ.answers.deployments.serving_frontier import service_frontier
from inference_econ.answers.deployments.serving_options import market
from inference_econ.answers.slo import Likely
from inference_econ.engine import Pins, Setup, Space, Speculation
from inference_econ.errors import InputError
from inference_econ.extras.servers.measurements import Measurement, shipped
from inference_econ.extras.servers.measurements._record import MEAN_LENGTH
from inference_econ.formulas.speculation import expected_tokens_by_position
from inference_econ.inputs import Requests, catalog

TABLE = Path(__file__).with_name("published_costs.csv")
PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "published_costs.md"
#: Largest instance of the posts [GPUs].
_MACHINE = 8
_SERIES = ("model", "hardware", "weights", "engine", "engine_version", "speculation", "isl", "osl", "where")

HEAD = """# Published costs at a speed

`sh run.sh validate published-costs` writes this page. InferenceX publishes the cost of the best measured layout at
fixed user speeds. `benchmarks/validation/published_costs.csv` has {count} such costs with their places in
[InferenceX's posts](https://github.com/SemiAnalysisAI/InferenceX-app). Predictions use the published engine, price,
lengths and speculation, and choose layout and batch size. Lengths are 90% of the nominal ones.

Errors are the median of |ln(predicted / published)|, its 90th percentile, and the median of the signed value. In the
column "any layout", the prediction chooses among all layouts within one machine. In the columns "as run", it chooses
among the layouts and concurrencies that the benchmark ran on that day, with and without measured corrections. For
GLM-5, the benchmark ran no attention-DP, which is the cheapest predicted layout at low speeds.

"Runs" is the number of measured servers in the repository with the same model and GPU. "Left out" is the number of
costs without a prediction: no predicted layout is as fast, or the engine is not known to support the model on the GPU.
Published costs with two digits have rounding errors of up to 10%. MiniMax-M3 ran with the first image of vLLM that
supports it; by these costs, B200 was twice as expensive as H200.

"""


class Score(NamedTuple):
    """Published and predicted costs of one series [USD per 1e6 tokens]; a prediction is infinite if out of reach."""

    series: tuple[str, ...]
    published: Sequence[float]
    any_layout: Sequence[float]
    run: Sequence[float]
    """Costs of the layouts that the benchmark ran."""
    uncorrected: Sequence[float]
    """Costs of the layouts that the benchmark ran, without measured corrections."""
    layouts: Sequence[str]
    runs: int


def scores() -> Iterator[Score]:
    """Scores of all series in the order of the table."""
    rows = [row for row in shipped() if isinstance(row, Measurement)]
    with TABLE.open(encoding="utf-8", newline="") as file:
        for series, some in groupby(csv.DictReader(file), lambda row: tuple(row[name] for name in _SERIES)):
            costs = list(some)
            model, chip, *_ = series
            any_layout = run = uncorrected = [math.inf] * len(costs)
            layouts: Sequence[str] = ()
            # An engine may not be known to serve the model there.
            with suppress(InputError):
                (any_layout, run, uncorrected), layouts = _predicted(costs)
            runs = sum(row.model == model and row.hardware == chip for row in rows)
            published = [float(row["dollars_per_million_tokens"]) for row in costs]
            yield Score(series, published, any_layout, run, uncorrected, layouts, runs)


def _predicted(costs: Sequence[Mapping[str, str]]) -> tuple[list[list[float]], Sequence[str]]:
    """Costs of one series in the three columns [USD per 1e6 tokens], and the cheapest of all layouts."""
    row = costs[0]
    setup = Setup.of(
        row["model"],
        row["hardware"],
        weights=row["weights"] or None,
        price=float(row["dollars_per_accelerator_hour"]),
        engine=f"{row['engine']}@{row['engine_version']}".removesuffix("@"),
    )
    requests = Requests(MEAN_LENGTH * float(row["isl"]), MEAN_LENGTH * float(row["osl"]))
    speculation = None
    if row["speculation"] != "none":
        length = int(row["speculation"].removeprefix("MTP"))
        acceptance = catalog.usual_acceptance("mtp", setup.model).acceptance[:length]
        speculation = Speculation.fixed("mtp", length, float(expected_tokens_by_position(acceptance)))
    share = requests.osl.mean / (requests.isl.mean + requests.osl.mean)

    def cheapest(spaces: Sequence[tuple[Space, int | None]], *, levels: bool) -> list[Likely | None]:
        options = [
            option
            for space, slots in spaces
            for option in market(
                setup, requests, space, speculation=speculation, arrangement="aggregated", levels=levels, slots=slots
            )
        ]
        front = service_frontier(options)
        return [front.at_speed(float(cost["tokens_per_second"])) for cost in costs]

    run = list(map(_run, row["layouts"].split()))
    of_any = cheapest([(Space(max_accelerators=_MACHINE), None)], levels=True)
    columns = of_any, cheapest(run, levels=True), cheapest(run, levels=False)
    predicted = [[math.inf if it is None else share * it.dollars for it in column] for column in columns]
    return predicted, tuple(dict.fromkeys(key for it in of_any if it is not None for key in it.instances.layouts))


def _run(text: str) -> tuple[Space, int | None]:
    """Layout that the benchmark ran, and its highest concurrency [requests], from ``tp4ep4:64``."""
    layout, _, concurrency = text.partition(":")
    degrees = {name: int(degree) for name, degree in re.findall(r"(tp|dp|ep)(\d+)", layout)}
    return Space(Pins(degrees.get("tp", 1), degrees.get("dp", 1), 1, degrees.get("ep", 1))), int(concurrency)


def _errors(published: Sequence[float], predicted: Sequence[float]) -> tuple[str, int]:
    """Median, 90th percentile and bias as text, and the number of compared costs."""
    logs = np.log(np.array(predicted) / np.array(published))
    logs = logs[np.isfinite(logs)]
    if not logs.size:
        return "-", 0
    median, tail, bias = np.median(np.abs(logs)), np.quantile(np.abs(logs), 0.9), np.median(logs)
    return f"{100 * median:.1f}%, {100 * tail:.1f}%, {100 * bias:+.1f}%", int(logs.size)


def page(found: Sequence[Score]) -> str:
    """Markdown page of all series, and of groups of them."""
    lines = [HEAD.format(count=sum(len(score.published) for score in found))]
    lines += [
        "| series | costs | left out | runs | any layout | as run | as run, uncorrected | cheapest layouts |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups = {
        "all": found,
        "no run of the model and GPU": [score for score in found if not score.runs],
        "Kimi-K2.5": [score for score in found if score.series[0].startswith("kimi_k2")],
        "without speculation": [score for score in found if score.series[5] == "none"],
    }
    for name, some in (*groups.items(), *((_name(score), [score]) for score in found)):
        published = [cost for score in some for cost in score.published]
        any_layout, compared = _errors(published, [cost for score in some for cost in score.any_layout])
        run, _ = _errors(published, [cost for score in some for cost in score.run])
        uncorrected, _ = _errors(published, [cost for score in some for cost in score.uncorrected])
        alone = some[0] if len(some) == 1 else None
        cells = compared, len(published) - compared, "" if alone is None else alone.runs, any_layout, run, uncorrected
        layouts = "" if alone is None else ", ".join(alone.layouts)
        lines.append(f"| {name} | {' | '.join(map(str, cells))} | {layouts} |")
    return "\n".join(lines) + "\n"


def _name(score: Score) -> str:
    model, chip, weights, engine, version, proposed, isl, osl, _ = score.series
    speculation = "" if proposed == "none" else f", {proposed}"
    return f"{model}{weights and f' {weights}'} on {chip}, {engine} {version or '?'}{speculation}, {isl}/{osl}"


if __name__ == "__main__":
    FOUND = list(scores())
    PAGE.write_text(page(FOUND), encoding="utf-8")
    sys.stdout.write(page(FOUND))
