"""Deployments of a saved answer as services again, so that more can be asked of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ import inputs, report
from inference_econ.errors import InputError
from inference_econ.inputs.options import request_name
from inference_econ.requests import Request, kinds, subject, workload

if TYPE_CHECKING:
    from inference_econ.answers.launching.plan import PlanPart
    from inference_econ.engine import Speculation

#: Degrees that decide a layout.
_DEGREES = ("tp", "dp", "pp", "ep", "dcp")


def check_alone(request: Request, path: str, free: Collection[str]) -> None:
    """Refuse options that a saved answer has settled: all that are given but some, by their names in Python."""
    assert request.asked is not None
    parameters = request.asked.command.parameters
    typed = [parameters[name].spelled[:1] for name in parameters if name in request.asked.given and name not in free]
    if typed:
        option = "".join(typed[0])
        raise InputError(
            f"{option} contradicts {path}, which has settled it; leave it out, or ask again without the file",
            option=request_name(option),
        )


def of_model(request: Request, text: str) -> Request:
    """The request about the model that a text means, in the place of a saved answer."""
    kind = kinds.kind("model")
    remark = kind.remark(text)
    if remark:
        request.tell(remark)
    return replace(request, model=kind.read(text))


def measured_server(request: Request, engine: str) -> ie.MeasuredServer:
    """What options say of a server, in place of what result files leave out."""
    given = {name: getattr(request, name) for name in ("model", "hardware", "weights", "kv", "tp", "dp", "pp", "ep")}
    return ie.MeasuredServer(**given, engine=engine)


def parts(saved: ie.SavedAnswer, chosen: report.deployment_reader.Chosen) -> list[PlanPart]:
    """The parts of a chosen deployment as services that can be asked for their memory.

    Those that speculate propose as many tokens in every round as was best at their load: that was priced.

    Raises
    ------
    InputError
        If the answer does not say all that was asked, or a layout is none.
    """
    from inference_econ.answers.launching import plan

    try:
        answering = chosen.parts[-1]
        proposing = asked_speculation(saved, answering)
        if proposing is not None:
            service = _part(saved, answering, proposing).service
            proposing = plan.priced_drafts(service, chosen.in_flight / answering.replicas)
        return [_part(saved, part, proposing) for part in chosen.parts]
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(report.deployment_reader.mistake(saved, error)) from error
    except InputError as error:
        message = str(error).removeprefix(f"{saved.origin}: ")
        raise InputError(f"{saved.origin}: {message}") from error


def asked_speculation(saved: ie.SavedAnswer, part: report.deployment_reader.ChosenPart) -> Speculation | None:
    """Speculation by the question or by the recipe of what was chosen; None if nobody was to propose."""
    from inference_econ.engine import recorded_speculation

    question = Request.saved(saved.options)
    named = subject.speculation(question, question.hardware)
    recorded = part.practice.get("speculation")
    return recorded_speculation(recorded) if named is None and recorded is not None else named


def _part(
    saved: ie.SavedAnswer, chosen: report.deployment_reader.ChosenPart, speculation: Speculation | None
) -> PlanPart:
    from inference_econ.answers.launching import plan

    question = Request.saved(saved.options)
    degrees: dict[str, Any] = {name: chosen.layout.get(name) for name in _DEGREES}
    alone = replace(
        question,
        engine=_engine(question, chosen),
        kv=chosen.practice.get("kv") or question.kv,
        instance_gpus=None,
        max_instance_gpus=None,
        pipeline=True,
        **degrees,
    )
    services = subject.offer(alone, _requests(saved), _chip(saved, chosen.hardware), speculation)
    return plan.PlanPart(services.service(0), chosen.replicas, chosen.role, chosen.slots)


def _engine(question: Request, chosen: report.deployment_reader.ChosenPart) -> tuple[str, ...]:
    """The engine that a recipe is of, at the version that was asked for; otherwise those that were asked for."""
    settled = str(chosen.practice.get("engine") or "")
    if not settled or "," in settled or question.any_layout or question.assumptions:
        return question.engine
    return (next((engine for engine in question.engine if engine.partition("@")[0] == settled), settled),)


def _requests(saved: ie.SavedAnswer) -> ie.Requests:
    """The requests that were asked for; of agents their mean turn."""
    if saved.options.get("agents") is not None:
        return ie.Agents.of(saved.options["traffic"]).requests
    question = Request.saved(saved.options)
    reused: dict[str, Any] = {"cached": question.cached or 0, "shared_prefix": question.shared_prefix or 0}
    return workload.requests(question, **workload.context_or_lengths(replace(question, context=None)), **reused)


def _chip(saved: ie.SavedAnswer, name: str) -> str:
    """The chip of an answer by the name of its file, from what it is called there."""
    question = saved.options
    tried = [question["hardware"], *(question.get("further") or ()), question.get("decode_on")]
    for chip in dict.fromkeys(chip for chip in tried if chip):
        if inputs.catalog.hardware(chip).name == name:
            return str(chip)
    raise InputError(
        f"{saved.origin}: {name} is not among the hardware that was asked for: {', '.join(filter(None, tried))}"
    )
