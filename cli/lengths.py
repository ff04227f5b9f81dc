"""Lengths of requests, with one set of defaults for every command."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

import inference_econ as ie
from inference_econ import inputs
from inference_econ.errors import InputError, of_option
from inference_econ.inputs import DEFAULT_ISL, DEFAULT_OSL
from inference_econ.inputs.options import OPTIONS, SAID_BY_TRAFFIC

from . import show
from .decorators import Choices
from .refusals import named_options, refuse


def context_or_lengths(choices: Choices) -> dict[str, Any]:
    """The context that is given, contexts that differ, or the lengths of requests [tokens].

    Raises
    ------
    InputError
        If several of them are given.
    """
    isl, osl = choices["isl"], choices["osl"]
    contexts = [name for name in ("context", "contexts") if choices.get(name) is not None]
    if len(contexts) + (isl is not None or osl is not None) > 1:
        other = "--contexts" if len(contexts) > 1 else "--isl and --osl"
        raise InputError(f"give either --{contexts[0]}, or {other}, not both", option=contexts[0])
    if contexts:
        return {contexts[0]: choices[contexts[0]]}
    return {"isl": DEFAULT_ISL if isl is None else isl, "osl": DEFAULT_OSL if osl is None else osl}


def mean_traffic(choices: Choices) -> ie.Traffic:
    """Traffic that decode steps see, by the options for mean lengths."""
    return ie.Traffic.build(context_or_lengths(choices), origin="command line")


def step_contexts(choices: Choices, prefill: float | None) -> tuple[float | None, float]:
    """The context that the step sees, and how far contexts are spread around it [tokens].

    Raises
    ------
    InputError
        If lengths of requests are given for a prefill step.
    """
    if prefill is None:
        traffic = mean_traffic(choices)
        return traffic.mean_context, traffic.spread
    text = "{} says how long requests are that decode; --prefill reads so many tokens by itself"
    refuse(named_options(choices, ("isl", "osl")), text)
    return choices["context"], 0.0


def requests(choices: Choices, *, fitted: bool = False, **lengths: object) -> ie.Requests:
    """The requests of the options for lengths, or those of other lengths.

    Those of a trace are what is fitted to it, or they come as they came.
    """
    recorded = _recorded(choices, fitted=fitted)
    if recorded is not None:
        return recorded
    named = lengths or {name: choices[name] for name in ("isl", "osl", "cached", "shared_prefix")}
    return ie.Requests.build(named, origin="command line")


#: What a traffic says in place of these options.
_OF_TRAFFIC = (*SAID_BY_TRAFFIC, "arrival_scv")


def _recorded(choices: Choices, *, fitted: bool) -> ie.Requests | None:
    """The requests of the traffic or trace that is named; None if none is.

    Raises
    ------
    InputError
        If both are, or what they say is said by another option, too.
    """
    name = next((name for name in ("traffic", "trace") if choices.get(name) is not None), None)
    if name is None:
        return None
    other = next((option for option in (*_OF_TRAFFIC, "traffic", "trace") if option != name and is_given(option)), None)
    if other is not None:
        spelled = [OPTIONS[option].spelled for option in (name, other)]
        raise InputError(f"give either {spelled[0]} or {spelled[1]}, not both: a traffic says that, too", option=name)

    with of_option(name):
        if name == "traffic":
            return inputs.catalog.traffic(choices[name]).requests
        profile, model = ie.trace(choices[name]), inputs.catalog.model(choices["model"])
        line, tokens = profile.longest
        if model.max_context is not None and tokens > model.max_context:
            raise InputError(
                f"{profile.origin}: line {line} has {tokens:,} tokens of prompt and answer, and {model.name} was made "
                f"for {model.max_context:,} at most; take another model, or leave such requests out"
            )
        remarks = [f"broken lines, left out: {profile.broken:,} ({profile.mistakes[0]})"] if profile.broken else []
        if profile.requests > len(profile.first) and not fitted:
            remarks.append(f"the first {len(profile.first):,} of {profile.requests:,} requests are played")
        for remark in remarks:
            show.remark(remark, quiet=bool(click.get_current_context().params.get("quiet")))
        return profile.traffic.requests if fitted else profile.replay


def is_given(name: str) -> bool:
    """Return whether an option of the command that runs was given, and is not as by default."""
    return click.get_current_context().get_parameter_source(name) not in (None, ParameterSource.DEFAULT)
