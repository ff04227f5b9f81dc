"""The command that holds predictions against measurements."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import inference_econ as ie
from inference_econ import calibration, report
from inference_econ.calibration import validation
from inference_econ.errors import InputError
from inference_econ.requests import Request

from . import saved_services

if TYPE_CHECKING:
    from inference_econ.answers.launching.plan import Part
    from inference_econ.report.page import Page


#: Datasets that are not of servers, each with the file that replaces it.
Others = list[tuple[str, str | None]]


def _sorted(arguments: Sequence[str]) -> tuple[list[str], Others]:
    """Files of servers, and other datasets with the file that follows each; if none is named, all."""
    servers: list[str] = []
    others: Others = []
    before = ""
    for argument in arguments:
        if argument in validation.SERVERS:
            servers.append(argument)
        elif argument in validation.DATASETS:
            others.append((argument, None))
        elif _is_path(argument) and before in validation.DATASETS:
            others[-1] = (before, argument)
        elif _is_path(argument):
            servers.append(argument)
        else:
            validation.dataset(argument)
        before = argument
    if not arguments:
        return list(validation.SERVERS), [(name, None) for name in validation.DATASETS]
    return servers, others


def _is_path(text: str) -> bool:
    return text.lower().endswith((".csv", *calibration.RESULT_ENDINGS)) or Path(text).name != text


#: Options that say which run is held to which deployment, and how that is shown.
_HELD = ("datasets", "against", "choice", "form", "as_json", "as_csv", "output", "quiet", "why", "plot")
_LISTED = "\n".join(
    [
        *(f"  {name}: {description}" for name, description in validation.SERVERS.items()),
        *(f"  {name}: {dataset.description}" for name, dataset in validation.DATASETS.items()),
    ]
)
_HELP = f"""Hold predictions against measurements: errors, coverage, and the rows that could not be compared.

\b
DATASET is one of these; all of them by default:
{_LISTED}

FILE is one of your own: servers, with the columns of a shipped file (.csv); results of vllm bench serve, SGLang's
bench_serving, genai-perf, AIPerf, GuideLLM, inference-perf, llm-d (.yaml), InferenceX or AISimulate (.json), or the
text of /metrics of vLLM or SGLang (.prom, .txt), with --hardware, --tp and so on where they do not say them; or, after
the name of a dataset that is not of servers, rows that replace it.

With -o FILE.csv, every row of servers has a line; scenarios/measured/README.md describes its columns.
"""


def validate(
    request: Request,
    datasets: tuple[str, ...],
    assumptions: tuple[str, ...],
    levels: bool,
    by: tuple[str, ...],
    bound: bool,
    against: str | None,
    choice: int | None,
    engine: str,
) -> Page:
    """See the help."""
    if against is not None:
        saved_services.check_alone(request, against, _HELD)
        return _against(datasets, against, choice)
    if choice is not None:
        raise InputError(
            "--choice names a deployment of an answer; give the answer with --against ANSWER.json", option="choice"
        )
    sources, others = _sorted(datasets)
    keys = [key.strip() for text in by for key in text.split(",") if key.strip()]
    if (keys or bound) and not sources:
        raise InputError("--by and --bound are about servers; name one of their datasets, or none for all", option="by")
    if keys:
        calibration.check_groups(keys)
    compared: list[calibration.Servers] = []
    if sources:
        from inference_econ.calibration.validation import servers

        files = servers.read(sources, saved_services.measured_server(request, engine))
        compared = [servers.held(files, name, levels=levels) for name in assumptions or (None,)]
    assert request.asked is not None
    words = [*request.asked.words(), "--format", "markdown"]
    command = shlex.join([*words, *(["-o", request.output] if request.output is not None else [])])
    answer = ie.Validated(tuple(compared), others, assumptions, bound)
    return report.validate.ValidationPage(answer, keys, command, bool(datasets))


validate.__doc__ = _HELP


def _against(results: Sequence[str], path: str, number: int | None) -> report.against.AgainstPage:
    """The numbers of a run beside those of an answer.

    Raises
    ------
    InputError
        If there is not one result, or it is of another load than the answer.
    """
    if len(results) != 1:
        raise InputError(f"--against {path}: give one result of a load generator, got {len(results)}", option="against")
    saved = report.chosen.read(path)
    chosen = report.chosen.chosen(saved, number)
    parts = saved_services.parts(saved, chosen)
    replicas = 1 if len(parts) > 1 else parts[0].replicas
    run = calibration.read_run(results[0])
    try:
        held = calibration.hold(chosen.expected, chosen.load, replicas, parts[-1].service, run)
    except InputError as error:
        raise InputError(f"{results[0]} against {path}: {error}", error.option) from error
    suspects = _suspects(chosen, parts[-1], held)
    return report.against.AgainstPage(
        f"{results[0]} against {path}", parts, held, suspects, _calibrate(results[0], saved, parts[-1])
    )


def _suspects(
    chosen: report.chosen.Chosen, part: Part, held: Sequence[calibration.Held]
) -> Sequence[calibration.Suspect]:
    """Parts of a step that could explain a TPOT of the median, or the mean, outside its interval."""
    outside = [entry for entry in held if entry.expected.measure == "tpot" and entry.inside is False]
    if not outside:
        return ()
    return calibration.suspects(part.service, chosen.in_flight / part.replicas, outside[0])


def _calibrate(result: str, saved: ie.SavedAnswer, part: Part) -> str:
    """Command line that fits levels to the run; constants, of which it determines one at most, stay where they were."""
    from inference_econ.answers.candidates import engine_of
    from inference_econ.answers.launching.instance import Degrees

    service, degrees = part.service, Degrees.of(part.service)
    question = saved.options
    named = {
        "--hardware": question.get("decode_on") or question["hardware"],
        "--model": question["model"],
        "--engine": engine_of(service.setup).partition(" ")[0],
        "--weights": service.setup.precision.weights,
        "--kv": service.setup.precision.kv,
        "--tp": degrees.tp,
        "--dp": degrees.dp,
        "--pp": degrees.pp,
        "--ep": degrees.ep,
    }
    words = ["inference-econ", "calibrate", result]
    words += [str(word) for name, value in named.items() if value not in (1, "") for word in (name, value)]
    return shlex.join([*words, "-o", "mine.yaml"])
