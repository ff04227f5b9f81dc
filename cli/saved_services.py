"""Deployments of a saved answer as services again, so that more can be asked of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import click

import inference_econ as ie
from inference_econ import inputs, report
from inference_econ.errors import InputError
from inference_econ.inputs.options import request_name

from . import options, proposals
from .refusals import given

if TYPE_CHECKING:
    from inference_econ.answers.launching.plan import Part
    from inference_econ.engine import Speculation

#: Degrees that decide a layout.
_DEGREES = ("tp", "dp", "pp", "ep", "dcp")


def check_alone(path: str, free: Collection[str]) -> None:
    """Refuse options that a saved answer has settled: all that are given but some, by their names in Python."""
    typed = [parameter.opts[0] for parameter in given(click.get_current_context()) if parameter.name not in free]
    if typed:
        raise InputError(
            f"{typed[0]} contradicts {path}, which has settled it; leave it out, or ask again without the file",
            option=request_name(typed[0]),
        )


def parts(saved: ie.SavedAnswer, chosen: report.chosen.Chosen) -> list[Part]:
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
        raise InputError(report.chosen.mistake(saved, error)) from error
    except InputError as error:
        message = str(error).removeprefix(f"{saved.origin}: ")
        raise InputError(f"{saved.origin}: {message}") from error


def asked_speculation(saved: ie.SavedAnswer, part: report.chosen.ChosenPart) -> Speculation | None:
    """Speculation by the question or by the recipe of what was chosen; None if nobody was to propose."""
    from inference_econ.engine import recorded_speculation

    named = proposals.speculation(saved.options, saved.options["hardware"]) if "draft" in saved.options else None
    recorded = part.practice.get("speculation")
    return recorded_speculation(recorded) if named is None and recorded is not None else named


def _part(saved: ie.SavedAnswer, chosen: report.chosen.ChosenPart, speculation: Speculation | None) -> Part:
    from inference_econ.answers.launching import plan

    question = saved.options
    degrees = {name: chosen.layout.get(name) for name in _DEGREES}
    practice = {"engine": _engine(question, chosen), "kv": chosen.practice.get("kv") or question.get("kv")}
    alone = {**question, **practice, **degrees, "instance_gpus": None, "max_instance_gpus": None, "pipeline": True}
    services = options.offer(alone, _requests(question), _chip(saved, chosen.hardware), speculation)
    return plan.Part(services.service(0), chosen.replicas, chosen.role, chosen.slots)


def _engine(question: options.Choices, chosen: report.chosen.ChosenPart) -> object:
    """The engine that a recipe is of, at the version that was asked for; otherwise those that were asked for."""
    settled, named = str(chosen.practice.get("engine") or ""), question.get("engine")
    if not settled or "," in settled or question.get("any_layout") or question.get("assumptions"):
        return named
    listed = [named] if isinstance(named, str) else named or ()
    return next((engine for engine in listed if engine.partition("@")[0] == settled), settled)


def _requests(question: options.Choices) -> ie.Requests:
    """The requests that were asked for; of agents their mean turn."""
    if question.get("agents") is None:
        reused: dict[str, Any] = {name: question[name] or 0 for name in ("cached", "shared_prefix")}
        return options.requests(question, **options.context_or_lengths({"context": None, **question}), **reused)
    return ie.Agents.of(question["traffic"]).requests


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
