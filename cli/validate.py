"""The command that holds predictions against measurements."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import inference_econ as ie
from inference_econ import calibration
from inference_econ.calibration import validation
from inference_econ.errors import InputError

from . import held_run, options, provenance, saved_services, show
from .help import command

#: Datasets that are not of servers, each with the file that replaces it.
Others = list[tuple[str, str | None]]


def _sorted(arguments: Sequence[str]) -> tuple[list[str], Others]:
    """Files of servers, and other datasets with the file that follows each; if none is named, all that are quick."""
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
        usual = [name for name, dataset in validation.DATASETS.items() if not dataset.on_request]
        return list(validation.SERVERS), [(name, None) for name in usual]
    return servers, others


def _is_path(text: str) -> bool:
    return text.lower().endswith((".csv", *calibration.RESULT_ENDINGS)) or Path(text).name != text


#: Options that say which run is held to which deployment, and how that is shown.
_HELD = ("datasets", "against", "choice", "form", "as_json", "as_csv", "output", "quiet", "why", "plot")
_LISTED = "\n".join(
    [
        *(f"  {name}: {description}" for name, description in validation.SERVERS.items()),
        *(
            f"  {name}: {dataset.description}{' (only if named)' if dataset.on_request else ''}"
            for name, dataset in validation.DATASETS.items()
        ),
    ]
)
_HELP = f"""Hold predictions against measurements: errors, coverage, and the rows that could not be compared.

\b
DATASET is one of these; all of them by default, but those that take long:
{_LISTED}

FILE is one of your own: servers, with the columns of a shipped file (.csv); results of vllm bench serve, SGLang's
bench_serving, genai-perf, AIPerf, GuideLLM, inference-perf, llm-d (.yaml), InferenceX or AISimulate (.json), or the
text of /metrics of vLLM or SGLang (.prom, .txt), with --hardware, --tp and so on where they do not say them; or, after
the name of a dataset that is not of servers, rows that replace it.

With -o FILE.csv, every row of servers has a line; scenarios/measured/README.md describes its columns.
"""


@command("validate", help=_HELP)
def validate(
    datasets: tuple[str, ...],
    assumptions: tuple[str, ...],
    levels: bool,
    by: tuple[str, ...],
    bound: bool,
    against: str | None,
    choice: int | None,
    output: options.Output,
    **deployment: Any,
) -> None:
    """See the help."""
    if against is not None:
        saved_services.check_alone(against, _HELD)
        show.emit(held_run.page(datasets, against, choice), output)
        return
    if choice is not None:
        raise InputError(
            "--choice names a deployment of an answer; give the answer with --against ANSWER.json", option="choice"
        )
    sources, others = _sorted(datasets)
    keys = [key.strip() for text in by for key in text.split(",") if key.strip()]
    _check(sources, keys, bound=bound)
    from inference_econ.report.validate import ValidationPage

    compared = _servers(sources, assumptions, deployment, levels=levels) if sources else ()
    context = click.get_current_context()
    words = ["inference-econ", "validate", *provenance.typed(context.command, context.params), "--format", "markdown"]
    command = shlex.join([*words, *(["-o", output.path] if output.path is not None else [])])
    answer = ie.Validated(tuple(compared), others, assumptions, bound)
    show.emit(ValidationPage(answer, keys, command, bool(datasets)), output)


def _check(sources: list[str], keys: list[str], *, bound: bool) -> None:
    """Refuse what cannot be done before anything is read."""
    if (keys or bound) and not sources:
        raise InputError("--by and --bound are about servers; name one of their datasets, or none for all", option="by")
    if keys:
        calibration.check_groups(keys)


def _servers(
    sources: list[str], assumptions: tuple[str, ...], deployment: dict[str, Any], *, levels: bool
) -> list[calibration.Servers]:
    server = ie.MeasuredServer(**{**deployment, "hardware": deployment["hardware"] or ""})
    files = calibration.validation.servers.read(sources, server)
    return [calibration.validation.servers.held(files, name, levels=levels) for name in assumptions or (None,)]
