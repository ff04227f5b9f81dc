"""Fit of the power of chips to public servers: scenarios/assumptions/power/usual.yaml, docs/evidence/power.md.

The rows are those of the ML.ENERGY leaderboard, which may not be redistributed. Give the folder ``public/data/tasks``
of a checkout of github.com/ml-energy/leaderboard. data/published/power_runs.csv lists the runs that are used, with
their models. It also has the assumed prompt lengths, which are not published. The command takes seconds.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from scipy.optimize import least_squares

from inference_econ._types import Array
from inference_econ.answers.deployments.power import request_joules
from inference_econ.engine import Plans, Setup, chip_power, step_seconds
from inference_econ.engine.power import ChipPower
from inference_econ.inputs import Requests, catalog
from inference_econ.serving.steady import steady

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "data" / "published" / "power_runs.csv"
SPEC = ROOT / "scenarios" / "assumptions" / "power" / "usual.yaml"
PAGE = ROOT / "docs" / "evidence" / "power.md"
MARK = "<!-- What follows is written by `sh run.sh refit power FOLDER`. -->\n"
#: Maximum measured over predicted step time [1]. Slower steps are those of software that was not ready, and the work of
#: the chips in the remaining time is unknown.
LONGEST = 1.75
#: Maximum power of a board over its power limit, as the highest rows show [1].
_LIMIT = 0.985
SHARES = ("idle", "memory", "arithmetic")


@dataclass(frozen=True)
class Row:
    """Run of the leaderboard: work of its chips relative to their peaks, and power.

    Attributes
    ----------
    model, hardware : str
        Catalog names.
    shares : ndarray, shape (3,)
        Idle 1, then memory traffic and arithmetic over the peaks of the chip [1].
    watts : float
        Power of one board over its limit [1].
    longer : float
        Measured time of a step, including prompts, over the predicted time of decoding [1].
    faster : float
        Predicted over measured requests per second of the server [1].
    stored_only : bool
        True if the chip has no math unit for the weights.
    sorted_per_second : float
        Logits from which one rank samples (sequences times vocabulary), over the measured time of a step [1/s].
    """

    model: str
    hardware: str
    shares: Array
    watts: float
    longer: float
    faster: float
    stored_only: bool
    sorted_per_second: float

    @property
    def used(self) -> bool:
        """True if the row is used in the fit: the software is not slow, and the chip has a unit for the weights."""
        return self.longer <= LONGEST and not self.stored_only


def rows_of(folder: Path) -> list[Row]:
    """Runs of the table, from the files of the leaderboard."""
    with RUNS.open(encoding="utf-8", newline="") as file:
        series = {
            (run["model_id"], run["gpu_model"], int(run["num_gpus"]), run["task"]): run for run in csv.DictReader(file)
        }
    rows = []
    for task in sorted({run["task"] for run in series.values()}):
        path = folder / f"{task}.json"
        if not path.is_file():
            raise click.ClickException(f"{path} is missing; give the folder public/data/tasks of ml-energy/leaderboard")
        for result in json.loads(path.read_text(encoding="utf-8"))["configurations"]:
            run = series.get((result["model_id"], result["gpu_model"], result["num_gpus"], task))
            if run is not None:
                rows.append(row_of(run, result))
    return rows


def row_of(run: Mapping[str, str], result: Mapping[str, Any]) -> Row:
    """Row of one result of the leaderboard, with the work of its chips according to the operator table."""
    weights = None if run["weights"] == "mxfp4" else run["weights"]
    setup = Setup.of(run["model"], run["hardware"], weights=weights, engine="vllm")
    requests = Requests(isl=float(run["isl"]), osl=float(result["avg_output_len"]))
    setup = replace(setup, context=requests.mean_context, spread=requests.osl.mean)
    one, batch, chips = np.ones(1), float(result["avg_batch_size"]), float(result["num_gpus"])
    # Results of MoE models record tensor_parallel 1, but they were started with as many ranks as chips.
    ranks, spread = chips / float(result["data_parallel"]), max(float(result["expert_parallel"]), 1.0)
    plans = Plans(one * chips, one * batch, one, one * ranks, one * spread, whole=True)
    rate = float(result["output_throughput_tokens_per_sec"])
    chip = chip_power(setup.hardware)
    assert chip is not None
    seconds = requests.osl.mean / rate * chips
    done = [
        float(request_joules(setup, unit_power(setup, chip, name), plans, requests)[0]) / seconds
        for name in ("memory", "arithmetic")
    ]
    step = float(np.min(step_seconds(setup, plans)))
    served = steady(setup, plans, requests)
    return Row(
        run["model"],
        run["hardware"],
        np.array([1.0, *done]),
        float(result["avg_power_watts"]) / chips / chip.limit_watts,
        batch / rate / step,
        float(served.requests_per_second[0]) * requests.osl.mean / rate,
        run["weights"] == "mxfp4" and "fp4" not in setup.peaks,
        rate / float(result["data_parallel"]) * setup.model.vocab_size,
    )


def unit_power(setup: Setup, chip: ChipPower, name: str) -> ChipPower:
    """Copy of a chip that draws one watt for one kind of work at its peak, and none for other work."""
    none = replace(chip, joules_per_byte=0.0, joules_per_link_byte=0.0, arithmetic_watts=0.0)
    if name == "memory":
        return replace(none, joules_per_byte=1.0 / setup.hardware.hbm_bytes_per_second)
    return replace(none, arithmetic_watts=1.0)


def fitted(rows: Sequence[Row]) -> Array:
    """Shares of board power with the smallest errors of the logarithm of power; outliers have less weight."""

    def errors(shares: Array) -> Array:
        return predicted_errors(rows, shares)

    start = np.array([0.3, 0.7, 1.0])
    return np.asarray(least_squares(errors, start, bounds=(0.0, 5.0), loss="soft_l1", f_scale=0.1).x)


def predicted_errors(rows: Sequence[Row], shares: Array) -> Array:
    """ln(predicted / measured) of power at measured rates [1]."""
    drawn = np.array([row.shares for row in rows]) @ shares
    # A small slope remains above the limit, which the fit needs.
    drawn = np.minimum(drawn, _LIMIT) + 1e-3 * np.maximum(drawn - _LIMIT, 0.0)
    return np.asarray(np.log(drawn / np.array([row.watts for row in rows])))


def rate_errors(rows: Sequence[Row], sort_seconds: float) -> Array:
    """ln(predicted / measured) of rates if every step sorts its logits, each in ``sort_seconds`` [1]."""
    return np.asarray([-np.log(1.0 / row.faster + sort_seconds * row.sorted_per_second) for row in rows])


def sorting(rows: Sequence[Row]) -> float:
    """Time per logit with the smallest errors of rates; outliers have less weight [s].

    All requests of the runs sample with top_p 0.95, for which vLLM 0.11 sorts the logits of every sequence
    (docs/evidence/power.md).
    """

    def errors(tenths_of_nanoseconds: Array) -> Array:
        return rate_errors(rows, 1e-10 * float(tenths_of_nanoseconds[0]))

    return 1e-10 * float(least_squares(errors, 1.0, bounds=(0.0, 100.0), loss="soft_l1", f_scale=0.1).x[0])


def energy_errors(rows: Sequence[Row], shares: Array, sort_seconds: float = 0.0) -> Array:
    """ln(predicted / measured) of the energy per token, with predicted rates [1]."""
    faster = np.exp(rate_errors(rows, sort_seconds))
    done = np.array([row.shares for row in rows]) * np.stack([np.ones(len(rows)), faster, faster], axis=1)
    drawn = np.minimum(done @ shares, 1.0)
    return np.asarray(np.log(drawn / faster / np.array([row.watts for row in rows])))


def left_out(rows: Sequence[Row]) -> list[tuple[Array, float]]:
    """Shares and sorting time by which each row is judged: fitted to rows of its chip without its model.

    Shares are fitted to usable rows, and the sorting time to all rows.
    """
    others = {
        key: [row for row in rows if row.hardware == key[0] and row.model != key[1]]
        for key in {(row.hardware, row.model) for row in rows}
    }
    fits = {key: (fitted([row for row in rest if row.used]), sorting(rest)) for key, rest in others.items()}
    return [fits[row.hardware, row.model] for row in rows]


def written(name: str, shares: Array, rows: Sequence[Row], error: float) -> str:
    """Line of the specification."""
    models = len({row.model for row in rows})
    values = ", ".join(f"{key}: {value:.3f}" for key, value in zip(SHARES, shares, strict=True))
    return f"{{chip: {name}, {values}, rows: {len(rows)}, models: {models}, median_error: {error:.3f}}}"


def lines(rows: Sequence[Row]) -> dict[str, str]:
    """Fitted lines of the specification, by key."""
    fits, errors, others = {}, {}, []
    chips = sorted({row.hardware for row in rows})
    used = {chip: [row for row in rows if row.used and row.hardware == chip] for chip in chips}
    for chip in chips:
        fits[chip] = fitted(used[chip])
        judges = left_out(used[chip])
        errors[chip] = [
            float(predicted_errors([row], fit)[0]) for row, (fit, _) in zip(used[chip], judges, strict=True)
        ]
    for chip in chips:
        (other,) = (fits[name] for name in chips if name != chip)
        others += predicted_errors(used[chip], other).tolist()
    result = {
        f"  {catalog.hardware(chip).generation}": written(chip, fits[chip], used[chip], median(errors[chip]))
        for chip in chips
    }
    mean = np.mean(list(fits.values()), axis=0)
    both = [row for chip in chips for row in used[chip]]
    return {**result, "otherwise": written(" and ".join(chips), mean, both, median(others))}


def median(errors: Sequence[float]) -> float:
    """Median of absolute errors [1]."""
    return float(np.median(np.abs(errors)))


def tables(rows: Sequence[Row]) -> str:
    """Table of errors by chip and model in Markdown, each from a fit without the model."""
    judges = left_out(rows)
    head = (
        "\n| chip | model | rows | power | bias | rows left out | power | bias | J/token | bias | sorted | bias |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|\n"
    )
    text = []
    groups = sorted({(row.hardware, row.model) for row in rows})
    for chip, model in [*((chip, "") for chip in sorted({chip for chip, _ in groups})), *groups]:
        chosen = [
            (row, fit)
            for row, fit in zip(rows, judges, strict=True)
            if row.hardware == chip and model in ("", row.model)
        ]
        cells = [chip, model or "**all**"]
        for used in (True, False):
            errors = [float(predicted_errors([row], fit)[0]) for row, (fit, _) in chosen if row.used is used]
            cells += [str(len(errors)), *both(errors)]
        for sorts in (False, True):
            cells += both([float(energy_errors([row], fit, sorts * seconds)[0]) for row, (fit, seconds) in chosen])
        text.append("| " + " | ".join(cells) + " |")
    return head + "\n".join(text) + "\n"


def both(errors: Sequence[float]) -> list[str]:
    """Median of absolute errors, and median error."""
    return [f"{median(errors):.3f}", f"{np.median(errors):+.3f}"] if errors else ["", ""]


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Fit the power of each chip to its rows in FOLDER, and print the errors."""
    rows, spec = rows_of(folder), SPEC.read_text(encoding="utf-8").splitlines()
    new = lines(rows)
    text = [f"{key}: {new[key]}" if (key := line.partition(":")[0]) in new else line for line in spec]
    SPEC.write_text("\n".join(text) + "\n", encoding="utf-8")
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    PAGE.write_text(before + MARK + tables(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
