"""The command that turns an answer into what one types to start it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

import inference_econ as ie
from inference_econ import answers, report
from inference_econ.errors import InputError
from inference_econ.records import saved
from inference_econ.records.files import check_ending
from inference_econ.records.plain import json_text

from . import agents, market, options, saved_services, show
from .help import command
from .parameters import Name

if TYPE_CHECKING:
    from inference_econ.answers.launching.plan import LaunchPlan

#: Options that say how a deployment is written, not which.
_WRITING = (
    "answer", "hardware", "to", "form", "size", "version", "number", "model_id", "draft_model_id", "longest",
    "generator", "image", "output", "quiet", "why",
)  # fmt: skip
#: Where an answer comes from that no file holds.
_HERE = "command line"
#: How names of its file may end: scripts, and manifests.
_SCRIPT, _MANIFEST = (".sh", ""), (".yaml", ".yml", "")


@command("launch")
def launch(output: str | None, quiet: bool, **choices: Any) -> None:
    """What one types to start a deployment, and the run that holds it to account.

    ANSWER.json is what 'recommend', 'frontier' or 'fleet' wrote with -o; instead, MODEL and HARDWARE
    with the options of 'recommend'. Of a fleet --as keda and llm-d-autoscaling write its autoscaler, too. Every command
    line is held against the options of the engine's own parser at --engine-version.
    """
    from inference_econ.engine import node

    manifests = report.manifests
    writers = {
        "command": report.launch.script, "compose": manifests.compose, "kubernetes": manifests.kubernetes,
        "leaderworkerset": manifests.leader_worker_set, "llm-d": manifests.llm_d, "dynamo": manifests.dynamo,
        "keda": manifests.keda, "llm-d-autoscaling": manifests.llm_d_autoscaling,
    }  # fmt: skip
    if output is not None:
        endings = _SCRIPT if choices["form"] == "command" else _MANIFEST
        check_ending(output, f"the name of what --as {choices['form']} writes", endings)
    with show.progress_bar(quiet=quiet):
        deployment = _deployment(choices)
    size = choices["size"] or node(deployment.instances[0].service.setup.hardware)
    deployment = replace(deployment, said=(*deployment.said, *report.launch.unlinked(deployment.instances, size)))
    show.put(writers[choices["form"]](deployment, size), output, quiet=quiet)


def _deployment(choices: options.Choices) -> LaunchPlan:
    from inference_econ.answers.launching import plan

    saved = _saved(choices)
    deployment = report.chosen.chosen(saved, choices["number"])
    engines, which = str(deployment.parts[-1].practice.get("engine") or ""), f"choice {choices['number'] or 1}"
    to = choices["to"] or plan.usual_engine(engines)
    if to is None:
        of_what = f"is one of {engines}, which is not started here" if engines else "is of no engine"
        raise InputError(f"{which} of {saved.origin} {of_what}; name one with --to", option="to")
    plan.check_engine(engines, to, f"{which} of {saved.origin}")
    runner = plan.engine(to, choices["version"], choices["image"])
    parts = saved_services.parts(saved, deployment)
    speculation = saved_services.asked_speculation(saved, deployment.parts[-1])
    if choices["draft_model_id"] is not None and (
        speculation is None or speculation.proposer not in ("eagle", "draft")
    ):
        raise InputError(
            "--draft-model-id names an EAGLE head or a draft model, and nobody proposes by one; ask with --eagle or "
            "--draft MODEL",
            option="draft_model_id",
        )
    served = plan.weights(parts[0].service, choices["model_id"], choices["draft_model_id"])
    made = plan.instances(runner, parts, served, choices["longest"])
    pick, scaling = _pick(saved, choices["number"]), deployment.scaling
    if scaling is not None:
        variant = f"{parts[0].service.setup.hardware.family} {scaling.paid}"
        made = [replace(instance, variant=variant) for instance in made]
    load, expected, remarks = deployment.load, deployment.expected, deployment.remarks
    return plan.LaunchPlan(made, load, expected, choices["generator"], pick, speculation, scaling, remarks)


def _pick(saved: ie.SavedAnswer, number: int | None) -> str:
    """Words for the deployment of an answer that is started."""
    if saved.origin != _HERE:
        return f"choice {number or 1} of {saved.origin}"
    which = "the cheapest fleet" if number in (None, 1) else f"the cheapest fleet but {number - 1}"
    layouts = saved.record["layouts"]
    return f"{which} of 'recommend', of {layouts} layouts; --tp, --pp, --dp and --ep or --choice take another"


def _saved(choices: options.Choices) -> ie.SavedAnswer:
    """The answer of a file, or of the options.

    Raises
    ------
    InputError
        If both are given, or it is neither.
    """
    if choices["answer"].endswith(".json") and choices["hardware"] is None:
        saved_services.check_alone(choices["answer"], _WRITING)
        return report.chosen.read(choices["answer"])
    if saved.is_answer(choices["answer"]):
        raise InputError(f"{choices['hardware']} contradicts {choices['answer']}, which has settled it; leave it out")
    if choices["hardware"] is None:
        raise InputError(
            f"{choices['answer']!r}: give a saved answer (ANSWER.json), or a model and hardware: "
            "inference-econ launch llama_3_70b h100_sxm",
            option="hardware",
        )
    return _recommended(choices)


def _recommended(choices: options.Choices) -> ie.SavedAnswer:
    """Answer of recommend to the options, as its file would have it."""
    model = Name("models").convert(choices["answer"], None, click.get_current_context())
    named = {"model": model, "hardware": choices["hardware"]}
    question = {name: value for name, value in choices.items() if name not in _WRITING} | named
    engine = options.one_engine({"any_layout": False, "engine": question.get("engine")}) or choices["to"]
    if engine and choices["to"] and engine.partition("@")[0] != choices["to"]:
        raise InputError(
            f"--engine {engine} contradicts --to {choices['to']}: layouts of one are not started by the other",
            option="engine",
        )
    if engine and not question.get("any_layout"):
        question["engine"] = engine
    work = agents.work(question)
    if work is not None:
        offered = market.candidates(question, work.requests)
        carried = work.recommend(offered, question["agents"], **agents.played(question))
        layouts, answer = carried.layouts, carried.record()
    else:
        requests, targets = options.requests(question), options.targets(question)
        offered = market.candidates(question, requests)
        rate = options.request_rate(question, requests)
        deployments = ie.recommend(offered, rate, targets, arrival_scv=question["arrival_scv"])
        layouts, answer = deployments.layouts, answers.recommend.recommend_record(deployments, targets)
    record = {**saved.question_record("recommend", question), **answer, "layouts": layouts}
    return report.chosen.startable(json.loads(json_text(record)), _HERE)
