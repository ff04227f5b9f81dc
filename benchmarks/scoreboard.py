"""Compare predictors on the same measured servers: ``sh run.sh validate scoreboard`` (ten minutes).

Every predictor that can be installed predicts every shipped closed-loop measurement. The page lists the number of rows
that each rejects. docs/evidence/scoreboard.md describes rows, queries and results. Other predictors run in a separate
environment, and only their errors are stored.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib import metadata
from pathlib import Path

import numpy as np

from inference_econ.extras.servers import GROUPS, Fit, Measurement, accuracy, chosen, conditions, validation
from inference_econ.extras.servers import fit as holdout
from inference_econ.extras.servers.accuracy import was_fitted
from inference_econ.extras.servers.fit import CONSTANTS, Meter, problem_of, with_constants
from inference_econ.extras.servers.measurements import shipped
from inference_econ.extras.servers.prediction.predict import predict
from inference_econ.extras.servers.validation.servers import of_hardware
from inference_econ.inputs import Assumptions, catalog, value_of
from inference_econ.inputs.engine import profiles
from inference_econ.records.files import write_text

PAGE = Path(__file__).parent.parent / "docs" / "evidence" / "scoreboard.md"
#: Engines that every predictor supports.
ENGINES: Mapping[str, str] = {"sglang": "SGLang", "trtllm": "TensorRT-LLM", "vllm": "vLLM"}
#: Scored quantities by field of measurements and predictions.
QUANTITIES: Mapping[str, str] = {
    "tpot_seconds": "TPOT",
    "ttft_seconds": "TTFT",
    "output_tokens_per_second_per_accelerator": "output tokens/s per GPU",
}
#: Profile of all engines and chips for cross-validation, and its targets.
_ALL = "profiles/servers"
_TARGETS = ("tpot", "ttft", "throughput")
#: The other predictor, at the version that ``run.sh`` installs.
OTHER = "aiconfigurator"
#: Chip and format names in its tables that differ from the catalog.
_SYSTEMS = {"b200": "b200_sxm", "gb200_nvl72": "gb200"}
_FORMATS = {"bf16": "bfloat16", "fp16": "bfloat16"}
#: Predictors without scores, with reasons.
NOT_SCORED: Mapping[str, str] = {
    "aisimulate": "the package (0.12.0 to 0.13.0) fetches a wheel from another package index during installation. "
    "This index could not be reached. aisimulate is the successor of aiconfigurator, uses its tables, and simulates "
    "schedulers step by step. Published errors are in [the "
    "validation](validation.md#what-other-tools-say-of-themselves).",
    "Vidur, LLMServingSim, BLIS, GenZ, LLMCompass": "have no package and were not tried. Their published errors are on "
    "the same page.",
}

HEAD = """# Scoreboard of predictors

Written by `sh run.sh validate scoreboard` (`benchmarks/scoreboard.py`) on {date}: {versions}.

- **Rows**: servers of SGLang, TensorRT-LLM and vLLM at constant concurrency, from `scenarios/measured/servers`. They
  are aggregated and run without speculation. Repeated, disturbed and second-hand runs are left out. Each predictor
  gets the same inputs: model, chip, recorded formats, parallelism, lengths and concurrency.
- **Errors** are |ln(predicted / measured)| of rows that a predictor accepts: 0.1 is about 10 %, and 0.69 is a factor
  of two. Each cell has the number of rows, the median and the 90th percentile. A table below lists the reasons for
  rejected rows. A predictor that rejects difficult rows looks better than it is, so the second table has only the rows
  that all predictors accept.
- **inference_econ** is the prediction of `validate` with the profile of the engine and generation, and with measured
  corrections (levels). It has seen most of these rows. **inference_econ, unseen** uses a profile of all engines and
  chips, fitted without the rows of that engine, model and chip, and no levels. Compare this one with predictors that
  were not fitted to servers.
- **aiconfigurator** uses kernels measured for each engine and chip, and fits nothing to servers. The comparison uses
  `cli_estimate` (aggregated) with its current tables and defaults. `SILICON`, its default, rejects cases that are not
  in the tables, and `HYBRID` estimates them. It infers unrecorded formats from the model. Lengths are the rounded means
  of a run: for InferenceX 0.9 of the nominal lengths.

"""


@dataclass(frozen=True, slots=True)
class Answer:
    """Prediction of a row: values by field of :data:`QUANTITIES` in base units, or a reason for none."""

    values: Mapping[str, float]
    refused: str = ""


def asked_rows() -> list[Measurement]:
    """Rows for every predictor."""
    rows, _ = chosen(shipped(tuple(validation.SERVERS)), conditions("load=concurrency"))
    return [row for row in rows if row.engine in ENGINES and row.decode is None]


def ours(rows: Sequence[Measurement], assumed: Callable[[Measurement], Assumptions]) -> list[Answer]:
    """Our predictions under given assumptions."""
    predictions = predict(rows, assumed, processes=os.cpu_count() or 1)
    return [
        Answer({field: value for field in QUANTITIES if (value := getattr(one, field))}, one.skipped)
        for one in predictions
    ]


def without_subjects() -> Callable[[Measurement], Assumptions]:
    """Profiles of all servers, each fitted without the rows of one engine, model and chip.

    Notes
    -----
    Each fit starts from usual constants, so its prior is independent of the rows too. Derivatives are those at the
    shipped constants, as in :func:`inference_econ.extras.servers.fit.cross_validated`.
    """
    profile = catalog.as_fitted(_ALL)
    names = [name for name in CONSTANTS if name in profile.sources and profile.sources[name].kind == "derived"]
    begun = with_constants(profile, names, [CONSTANTS[name].start for name in names])
    rows, _ = chosen(shipped(tuple(validation.SERVERS)))
    problem = problem_of(
        [row for row in rows if was_fitted(row, profile.calibration)], names, begun, _TARGETS, prior=1.0
    )
    values = np.array([float(value_of(profile, name)) for name in names])
    errors = problem.errors(np.log(values))
    derivatives = problem.jacobian(np.log(values), errors, Meter(None, 1))
    fitted = Fit(
        tuple(names), values, np.empty((0, 0)), (), begun, profile, _TARGETS, errors, errors, derivatives,
        problem.rows, 1.0,
    )  # fmt: skip
    folds = holdout.cross_validated(fitted, "subject")
    known = {fold.left_out: with_constants(begun, names, fold.values) for fold in folds}
    everything = with_constants(begun, names, values)
    return lambda row: known.get(GROUPS["subject"](row), everything)


def theirs(rows: Sequence[Measurement], mode: str) -> list[Answer]:
    """Predictions of aiconfigurator from its tables only (SILICON), or with estimates beyond them (HYBRID)."""
    estimate = importlib.import_module(f"{OTHER}.cli.api").cli_estimate
    logging.disable(logging.CRITICAL)
    answers = []
    for row in rows:
        try:
            with warnings.catch_warnings(action="ignore"):
                found = estimate(**asked_of_theirs(row), database_mode=mode)
        except Exception as error:  # any exception is a rejection
            answers.append(Answer({}, reason_of(error)))
            continue
        values = (found.tpot / 1000.0, found.ttft / 1000.0, found.raw["tokens/s/gpu"])
        answers.append(Answer(dict(zip(QUANTITIES, map(float, values), strict=True))))
    logging.disable(logging.NOTSET)
    return answers


def asked_of_theirs(row: Measurement) -> dict[str, object]:
    """Row as aiconfigurator options: requests per attention rank, and experts over the full instance."""
    model = catalog.model(row.model)
    tp, dp, pp = row.tp or 1, row.dp or 1, row.pp or 1
    replicas = (row.accelerators or tp * dp * pp) / (tp * dp * pp)
    asked: dict[str, object] = {
        "model_path": model.huggingface_id,
        "system_name": _SYSTEMS.get(row.hardware, row.hardware),
        "backend_name": row.engine,
        "backend_version": "current",
        "isl": round(row.isl or 0),
        "osl": round(row.osl or 0),
        "batch_size": max(1, math.ceil((row.concurrency or 1) / replicas / dp)),
        "tp_size": int(tp),
        "pp_size": int(pp),
        "attention_dp_size": int(dp),
    }
    if model.mixtures:
        spread = int(row.ep or 1)
        asked |= {"moe_ep_size": spread, "moe_tp_size": int(tp * dp) // spread}
    if row.weights and row.weights != model.weights:
        dtype = _FORMATS.get(row.weights, row.weights)
        asked |= {"gemm_quant_mode": dtype, "moe_quant_mode": dtype}
    if row.kv:
        asked["kvcache_quant_mode"] = _FORMATS.get(row.kv, row.kv)
    return asked


def reason_of(error: Exception) -> str:
    """Reason for a rejection, without numbers and paths of the row."""
    text = re.sub(r"\{.*?\}|\(.*?\)|\[.*|'.*?'| at /\S+|=|\b[\d.]+\b|\. .*", "", str(error).split("\n")[0])
    return f"{type(error).__name__}: {' '.join(text.split()).strip(' :.')}"


def table(rows: Sequence[Measurement], answers: Mapping[str, Sequence[Answer]]) -> Iterator[str]:
    """Table lines by predictor, engine and chip generation, totals first."""
    yield f"| engine | chips | predictor | rows | rejected | {' | '.join(QUANTITIES.values())} |"
    yield f"| {' | '.join(['---'] * (5 + len(QUANTITIES)))} |"
    groups = [(row.engine, profiles.generation_of(catalog.hardware(row.hardware)) or row.hardware) for row in rows]
    for group in (None, *sorted(set(groups))):
        indices = [index for index, own in enumerate(groups) if group in (None, own)]
        engine, chips = (ENGINES[group[0]], group[1].capitalize()) if group else ("all", "all")
        for name, all_answers in answers.items():
            own = [(rows[index], all_answers[index]) for index in indices]
            refused = sum(bool(answer.refused) for _, answer in own)
            cells = [engine, chips, name, f"{len(own):,}", f"{refused:,}", *(cell(own, field) for field in QUANTITIES)]
            yield f"| {' | '.join(cells)} |"


def cell(pairs: Sequence[tuple[Measurement, Answer]], field: str) -> str:
    """Number of scored rows, with median and 90th percentile of errors."""
    both = [(getattr(row, field), answer.values.get(field)) for row, answer in pairs]
    both = [(measured, predicted) for measured, predicted in both if measured and predicted]
    if not both:
        return ""
    found = accuracy.accuracy(*zip(*both, strict=True))
    return f"{found.predicted:,}: {found.median:.3f}, {found.p90:.3f}"


def refusals(answers: Mapping[str, Sequence[Answer]]) -> Iterator[str]:
    """Reasons for rejections by predictor, most frequent first."""
    yield "| predictor | rows | reason |\n| --- | --- | --- |"
    for name, own in answers.items():
        for reason, count in Counter(answer.refused for answer in own if answer.refused).most_common():
            yield f"| {name} | {count:,} | `{reason}` |"


def page(rows: Sequence[Measurement], answers: Mapping[str, Sequence[Answer]], versions: str, day: str) -> str:
    """Markdown of the page."""
    all_answer = [index for index in range(len(rows)) if not any(own[index].refused for own in answers.values())]
    shared = {name: [own[index] for index in all_answer] for name, own in answers.items()}
    parts = (
        HEAD.format(date=day, versions=versions).rstrip() + "\n",
        "## All rows\n",
        *table(rows, answers),
        "\n## Rows that all predictors accept\n",
        *table([rows[index] for index in all_answer], shared),
        "\n## Rejected rows\n",
        *refusals(answers),
        "\n## Not scored\n",
        *(f"- **{name}**: {reason}" for name, reason in NOT_SCORED.items()),
    )
    return "\n".join(parts) + "\n"


def main() -> int:
    """Run every predictor and write the page."""
    try:
        version = metadata.version(OTHER)
    except metadata.PackageNotFoundError:
        print(f"{OTHER} is not installed; 'sh run.sh validate scoreboard' does it", file=sys.stderr)  # noqa: T201
        return 2
    rows = asked_rows()
    name = f"{OTHER} {version}"
    answers = {
        "inference_econ": ours(rows, lambda row: of_hardware(row.hardware, row.engine)),
        "inference_econ, unseen": ours(rows, without_subjects()),
        **{f"{name}, {mode}": theirs(rows, mode) for mode in ("SILICON", "HYBRID")},
    }
    versions = f"inference_econ {metadata.version('inference_econ')}, {name}"
    write_text(PAGE, page(rows, answers, versions, date.today().isoformat()))
    print(PAGE)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
