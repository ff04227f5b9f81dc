"""Recomputes the services of a deployment in a saved result, as inputs of further queries."""

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

#: Parallelism degrees that define a layout.
_DEGREES = ("tp", "dp", "pp", "ep", "dcp")


def check_alone(request: Request, path: str, free: Collection[str]) -> None:
    """Reject options that a saved result already fixes; ``free`` lists the allowed options by their Python names."""
    assert request.asked is not None
    parameters = request.asked.command.parameters
    typed = [parameters[name].spelled[:1] for name in parameters if name in request.asked.given and name not in free]
    if typed:
        option = "".join(typed[0])
        raise InputError(
            f"{option} contradicts {path}, which has settled it; remove it, or run the command without the file",
            option=request_name(option),
        )


def of_model(request: Request, text: str) -> Request:
    """Copy of a request with a model name in place of a saved result."""
    kind = kinds.kind("model")
    remark = kind.remark(text)
    if remark:
        request.tell(remark)
    return replace(request, model=kind.read(text))


def measured_server(request: Request, engine: str) -> ie.MeasuredServer:
    """Description of a measured server from options, which adds what the result files of a benchmark lack."""
    given = {name: getattr(request, name) for name in ("model", "hardware", "weights", "kv", "tp", "dp", "pp", "ep")}
    return ie.MeasuredServer(**given, engine=engine, draft_tokens=request.draft_length)


def parts(saved: ie.SavedAnswer, chosen: report.deployment_reader.Chosen) -> list[PlanPart]:
    """Recompute the instances of a selected deployment.

    Instances have the best draft length at their load, as in the prediction.

    Raises
    ------
    InputError
        If the saved result lacks an input, or a layout is invalid.
    """
    from inference_econ.answers.launching import plan

    try:
        answering, proposing = chosen.parts[-1], asked_speculation(saved, chosen)
        if proposing is not None:
            service = _part(saved, chosen, answering, proposing).service
            proposing = plan.priced_drafts(service, chosen.in_flight / answering.replicas)
        return [_part(saved, chosen, part, proposing) for part in chosen.parts]
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(report.deployment_reader.mistake(saved, error)) from error
    except InputError as error:
        message = str(error).removeprefix(f"{saved.origin}: ")
        raise InputError(f"{saved.origin}: {message}") from error


def asked_speculation(saved: ie.SavedAnswer, chosen: report.deployment_reader.Chosen) -> Speculation | None:
    """Speculation method of the query, or of the selected recipe; None without speculation."""
    from inference_econ.engine import recorded_speculation

    question = Request.saved(saved.options)
    named = subject.speculation(question, question.hardware)
    recorded = chosen.practice["speculation"]
    return recorded_speculation(recorded) if named is None and recorded is not None else named


def _part(
    saved: ie.SavedAnswer,
    chosen: report.deployment_reader.Chosen,
    part: report.deployment_reader.ChosenPart,
    speculation: Speculation | None,
) -> PlanPart:
    from inference_econ.answers.launching import plan

    question, options = Request.saved(saved.options), saved.options
    # Engine of the recipe, at the requested version.
    engine, settled = question.engine, str(chosen.practice["engine"] or "")
    if settled and "," not in settled and not question.any_layout and not question.assumptions:
        engine = (next((name for name in engine if name.partition("@")[0] == settled), settled),)
    kv = chosen.practice["kv"] or question.kv
    open_sizes: dict[str, Any] = {"instance_gpus": None, "max_instance_gpus": None, "pipeline": True}
    degrees: dict[str, Any] = {name: part.layout.get(name) for name in _DEGREES}
    alone = replace(question, engine=engine, kv=kv, **open_sizes, **degrees)
    # Requests of the query; for agents, their mean turn.
    if options.get("agents") is not None:
        requests = ie.Agents.of(options["traffic"]).requests
    else:
        reused: dict[str, Any] = {"cached": question.cached or 0, "shared_prefix": question.shared_prefix or 0}
        requests = workload.requests(question, **workload.context_or_lengths(replace(question, context=None)), **reused)
    # Find the GPU by the name in its file.
    tried = [options["hardware"], *(options.get("further") or ()), options.get("decode_on")]
    named = (chip for chip in dict.fromkeys(filter(None, tried)) if inputs.catalog.hardware(chip).name == part.hardware)
    chip = next(named, None)
    if chip is None:
        listed = ", ".join(filter(None, tried))
        raise InputError(f"{saved.origin}: {part.hardware} is not among the hardware of the query: {listed}")
    services = subject.offer(alone, requests, str(chip), speculation)
    return plan.PlanPart(services.service(0), part.replicas, part.role, part.slots)
