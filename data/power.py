"""Power of chips, fitted to public servers: scenarios/assumptions/power/usual.yaml and docs/evidence/power.md; seconds.

The rows are those of the ML.ENERGY leaderboard, which nobody may pass on: give the folder ``public/data/tasks`` of a
checkout of github.com/ml-energy/leaderboard. Which of its runs are used, of which model, and how long their prompts are
taken to be (that is not published), is said in data/published/power_runs.csv.
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
from inference_econ.engine import Plans, Setup, chip_power, step_seconds
from inference_econ.engine.power import ChipPower
from inference_econ.inputs import Requests, catalog
from inference_econ.serving import request_joules
from inference_econ.serving.steady import steady

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "data" / "published" / "power_runs.csv"
SPEC = ROOT / "scenarios" / "assumptions" / "power" / "usual.yaml"
PAGE = ROOT / "docs" / "evidence" / "power.md"
MARK = "<!-- What follows is written by `sh run.sh refit power FOLDER`. -->\n"
#: Steps that took longer than this over what they are predicted to are those of software that was not ready: what the
#: chips did meanwhile nobody knows [1].
LONGEST = 1.75
#: What a board draws at most over its power limit, as the highest rows show it [1].
_LIMIT = 0.985
SHARES = ("idle", "memory", "arithmetic")


@dataclass(frozen=True)
class Row:
    """One run: what its chips did, over what they could, and what they drew.

    Attributes
    ----------
    model, hardware : str
        Of the catalogue.
    shares : ndarray, shape (3,)
        Idle 1, then memory traffic and arithmetic over the peaks of the chip [1].
    watts : float
        Of one board, over its limit [1].
    longer : float
        Measured time of a step, prompts included, over that predicted of decoding [1].
    faster : float
        Predicted requests per second of such a server over the measured ones [1].
    stored_only : bool
        The chip has no maths unit for the weights.
    sorted_per_second : float
        Logits that one rank samples of: sequences times vocabulary, over the measured time of a step [1/s].
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
        """It is fitted to: neither slow software, nor weights that the chip has no unit for."""
        return self.longer <= LONGEST and not self.stored_only


def rows_of(folder: Path) -> list[Row]:
    """Every run of the table, from the files of the leaderboard."""
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
    """One result of the leaderboard, with what its chips did by the operator table."""
    weights = None if run["weights"] == "mxfp4" else run["weights"]
    setup = Setup.of(run["model"], run["hardware"], weights=weights, engine="vllm")
    requests = Requests(isl=float(run["isl"]), osl=float(result["avg_output_len"]))
    setup = replace(setup, context=requests.mean_context, spread=requests.osl.mean)
    one, batch, chips = np.ones(1), float(result["avg_batch_size"]), float(result["num_gpus"])
    # Of mixtures the results say tensor_parallel 1, but they were started with as many ranks as chips.
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
    """A chip that draws one watt for one kind of work at its peak, and nothing for any other."""
    none = replace(chip, joules_per_byte=0.0, joules_per_link_byte=0.0, arithmetic_watts=0.0)
    if name == "memory":
        return replace(none, joules_per_byte=1.0 / setup.hardware.hbm_bytes_per_second)
    return replace(none, arithmetic_watts=1.0)


def fitted(rows: Sequence[Row]) -> Array:
    """Shares of board power by which the logarithms of power are off least, with outliers counted less."""

    def errors(shares: Array) -> Array:
        return predicted_errors(rows, shares)

    start = np.array([0.3, 0.7, 1.0])
    return np.asarray(least_squares(errors, start, bounds=(0.0, 5.0), loss="soft_l1", f_scale=0.1).x)


def predicted_errors(rows: Sequence[Row], shares: Array) -> Array:
    """Logarithms of predicted over measured power, at measured rates [1]."""
    drawn = np.array([row.shares for row in rows]) @ shares
    # Beyond the limit a little slope is left, for the fit.
    drawn = np.minimum(drawn, _LIMIT) + 1e-3 * np.maximum(drawn - _LIMIT, 0.0)
    return np.asarray(np.log(drawn / np.array([row.watts for row in rows])))


def rate_errors(rows: Sequence[Row], sort_seconds: float) -> Array:
    """Logarithms of predicted over measured rates, where every step sorts its logits, each in so many seconds [1]."""
    return np.asarray([-np.log(1.0 / row.faster + sort_seconds * row.sorted_per_second) for row in rows])


def sorting(rows: Sequence[Row]) -> float:
    """Seconds per logit by which rates are off least, with outliers counted less.

    All requests of the runs sample with top_p 0.95, for which vLLM 0.11 sorts the logits of every sequence
    (docs/evidence/power.md).
    """

    def errors(tenths_of_nanoseconds: Array) -> Array:
        return rate_errors(rows, 1e-10 * float(tenths_of_nanoseconds[0]))

    return 1e-10 * float(least_squares(errors, 1.0, bounds=(0.0, 100.0), loss="soft_l1", f_scale=0.1).x[0])


def energy_errors(rows: Sequence[Row], shares: Array, sort_seconds: float = 0.0) -> Array:
    """Logarithms of predicted over measured energy of a token, where the rate is predicted as well [1]."""
    faster = np.exp(rate_errors(rows, sort_seconds))
    done = np.array([row.shares for row in rows]) * np.stack([np.ones(len(rows)), faster, faster], axis=1)
    drawn = np.minimum(done @ shares, 1.0)
    return np.asarray(np.log(drawn / faster / np.array([row.watts for row in rows])))


def left_out(rows: Sequence[Row]) -> list[tuple[Array, float]]:
    """Shares and time of sorting by which each row is judged: fitted to rows of its chip, without its model.

    Shares are fitted to rows that can be used, sorting to all.
    """
    others = {
        key: [row for row in rows if row.hardware == key[0] and row.model != key[1]]
        for key in {(row.hardware, row.model) for row in rows}
    }
    fits = {key: (fitted([row for row in rest if row.used]), sorting(rest)) for key, rest in others.items()}
    return [fits[row.hardware, row.model] for row in rows]


def written(name: str, shares: Array, rows: Sequence[Row], error: float) -> str:
    """A line of the specification."""
    models = len({row.model for row in rows})
    values = ", ".join(f"{key}: {value:.3f}" for key, value in zip(SHARES, shares, strict=True))
    return f"{{chip: {name}, {values}, rows: {len(rows)}, models: {models}, median_error: {error:.3f}}}"


def lines(rows: Sequence[Row]) -> dict[str, str]:
    """The lines of the specification that are fitted, by their keys."""
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
    """Median of sizes of errors [1]."""
    return float(np.median(np.abs(errors)))


def tables(rows: Sequence[Row]) -> str:
    """Errors by chip and model, each by a fit without the model, in Markdown."""
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
    """Median of sizes, and of errors with their sign."""
    return [f"{median(errors):.3f}", f"{np.median(errors):+.3f}"] if errors else ["", ""]


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Fit the power of each chip to its rows in FOLDER, and say how far off it is."""
    rows, spec = rows_of(folder), SPEC.read_text(encoding="utf-8").splitlines()
    new = lines(rows)
    text = [f"{key}: {new[key]}" if (key := line.partition(":")[0]) in new else line for line in spec]
    SPEC.write_text("\n".join(text) + "\n", encoding="utf-8")
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    PAGE.write_text(before + MARK + tables(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
