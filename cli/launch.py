"""The ``launch`` command."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Literal

import inference_econ as ie
from inference_econ import answers, report
from inference_econ.errors import InputError
from inference_econ.inputs import catalog
from inference_econ.records import saved
from inference_econ.records.files import check_ending
from inference_econ.records.plain import json_text
from inference_econ.requests import COMMANDS, Invocation, Request, subject, tables

Generator = Literal["vllm", "aiperf", "guidellm"]
#: Options that choose the output form, not the deployment.
_WRITING = (
    "answer", "hardware", "to", "form", "size", "version", "number", "model_id", "draft_model_id", "longest",
    "generator", "image", "output", "quiet", "why",
)  # fmt: skip
#: Origin of a result that is not in a file.
_HERE = "command line"
#: Allowed endings of script and manifest files.
_SCRIPT, _MANIFEST = (".sh", ""), (".yaml", ".yml", "")


def launch(
    request: Request,
    answer: str,
    to: str | None,
    version: str | None,
    form: str,
    size: int | None,
    image: str | None,
    model_id: str | None,
    draft_model_id: str | None,
    longest: int | None,
    generator: Generator,
) -> str:
    """Write the commands that start a deployment and benchmark it.

    ANSWER.json is a result that 'recommend', 'frontier' or 'fleet' wrote with -o. You can also give MODEL and HARDWARE
    with the options of 'recommend'. With --as keda or llm-d-autoscaling, the output has an autoscaler. The command
    checks all engine arguments against the options of the engine at --engine-version.
    """
    from inference_econ.answers.launching import plan
    from inference_econ.engine import node

    if request.output is not None:
        endings = _SCRIPT if form == "command" else _MANIFEST
        check_ending(request.output, f"the name of what --as {form} writes", endings)
    saved = _saved(request, answer, to, model_id)
    chosen = report.deployment_reader.chosen(saved, request.number)
    engines, which = str(chosen.practice["engine"] or ""), f"choice {request.number or 1}"
    to = to or plan.usual_engine(engines)
    if to is None:
        of_what = f"is one of {engines}, which is not started here" if engines else "is of no engine"
        raise InputError(f"{which} of {saved.origin} {of_what}; name one with --to", option="to")
    plan.check_engine(engines, to, f"{which} of {saved.origin}", f"'inference-econ {saved.kind}'")
    runner = plan.engine(to, version, image, _predicted_version(saved, to))
    parts = report.deployment_reader.parts(saved, chosen)
    speculation = report.deployment_reader.asked_speculation(saved, chosen)
    if draft_model_id is not None and (speculation is None or speculation.proposer not in ("eagle", "draft")):
        raise InputError(
            "--draft-model-id names an EAGLE head or a draft model, but the result uses neither; use --eagle or "
            "--draft MODEL",
            option="draft_model_id",
        )
    if model_id is None:
        _check_identified(str(saved.options["model"]))
    served = plan.weights(parts[0].service, model_id, draft_model_id)
    made = plan.instances(runner, parts, served, longest)
    if chosen.scaling is not None:
        variant = f"{parts[0].service.setup.hardware.family} {chosen.scaling.paid}"
        made = [replace(instance, variant=variant) for instance in made]
    size = size or node(made[0].service.setup.hardware)
    deployment = plan.LaunchPlan(
        made,
        chosen.load,
        chosen.expected,
        generator,
        _pick(saved, request.number),
        speculation,
        chosen.scaling,
        (*chosen.remarks, *report.launch.unlinked(made, size)),
    )
    return str(tables.launch_writer(form)(deployment, size))


def _predicted_version(saved: ie.SavedAnswer, engine: str) -> str | None:
    """Version of an engine that the query of a result gives (``--engine vllm@0.24.0``); None if it gives none."""
    asked = saved.options.get("engine") or ()
    named = dict(entry.split("@", 1) for entry in ([asked] if isinstance(asked, str) else asked) if "@" in entry)
    return named.get(engine)


def _pick(saved: ie.SavedAnswer, number: int | None) -> str:
    """Describe which deployment of the result is launched, and how it was selected."""
    if saved.origin != _HERE:
        return f"choice {number or 1} of {saved.origin}"
    which = "the cheapest fleet" if number in (None, 1) else f"fleet {number} by cost"
    layouts = saved.record["layouts"]
    return f"{which} of 'recommend' among {layouts} layouts; select another with --tp, --pp, --dp, --ep or --choice"


def _check_identified(model: str) -> None:
    """Reject a model name that does not identify the weights to serve.

    Such a name selects the sizes of a catalog entry. The checkpoint of the entry may have other weights.

    Raises
    ------
    InputError
        If the name is neither a name of the catalog entry nor the Hugging Face id of a checkpoint.
    """
    called = catalog.meaning("models", model)
    if called.base and catalog.model(model).huggingface_id is None:
        raise InputError(
            f"{called.remark}; the name does not identify weights. Give the Hugging Face id (ORGANIZATION/NAME) in "
            "place of the name, or add --model-id ORGANIZATION/NAME",
            option="model_id",
        )


def _saved(request: Request, answer: str, to: str | None, model_id: str | None) -> ie.SavedAnswer:
    """Result from a file, or computed from the options.

    Raises
    ------
    InputError
        If a file and options are both given, or neither gives a valid result.
    """
    if answer.endswith(".json") and not request.hardware:
        report.deployment_reader.check_alone(request, answer, _WRITING)
        return report.deployment_reader.read(answer)
    if saved.is_answer(answer):
        raise InputError(f"{request.hardware} contradicts {answer}, which has settled it; leave it out")
    if not request.hardware:
        raise InputError(
            f"{answer!r}: give a saved answer (ANSWER.json), or a model and hardware: "
            "inference-econ launch llama_3_70b h100_sxm",
            option="hardware",
        )
    if model_id is None:
        _check_identified(answer)
    return _recommended(report.deployment_reader.of_model(request, answer), to)


def _recommended(request: Request, to: str | None) -> ie.SavedAnswer:
    """Result of ``recommend`` for the options, as its file would contain it."""
    engine = subject.one_engine(replace(request, any_layout=False)) or to
    if engine and to and engine.partition("@")[0] != to:
        raise InputError(
            f"--engine {engine} contradicts --to {to}: layouts of one are not started by the other", option="engine"
        )
    if engine and not request.any_layout:
        request = replace(request, engine=(engine,))
    assert request.asked is not None
    typed = {**request.asked.values, "model": request.model, "hardware": request.hardware, "engine": request.engine}
    command = COMMANDS["recommend"]
    values = {name: typed.get(name, option.usual) for name, option in command.parameters.items()}
    answered = Invocation(command, values, request.asked.given).answer()
    rated = isinstance(answered, ie.Recommendation)
    # Bursts do not affect a launch file, and would need a simulation.
    answer = answers.recommend.recommend_record(answered, answered.targets) if rated else answered.record()
    question = {name: value for name, value in typed.items() if name not in _WRITING} | {"hardware": request.hardware}
    record = {**saved.question_record("recommend", question), **answer, "layouts": answered.layouts}
    return report.deployment_reader.startable(json.loads(json_text(record)), _HERE)
