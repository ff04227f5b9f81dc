"""Options that commands share, and what answers take in their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar

import click

import inference_econ as ie
from inference_econ import answers, inputs
from inference_econ.errors import InputError, NothingFitsError, of_option
from inference_econ.inputs import DEFAULT_ISL, DEFAULT_OSL
from inference_econ.inputs.options import GROUPS, OPTIONS, SAID_BY_TRAFFIC, WHAT_IFS

from . import prices, show
from .decorators import Choices as Choices
from .outputs import Output as Output
from .refusals import given, named_options, refuse

if TYPE_CHECKING:
    from inference_econ._shown import Shown as Shown
    from inference_econ._types import Progress as Progress
    from inference_econ.engine import Pins, Setup, Space, Speculation
    from inference_econ.report.page import Page as Page
    from inference_econ.serving import Services

Answer = TypeVar("Answer")

#: Options that one setup, its layouts and its proposer are made of.
_RESOLVED = [option.name for group in ("Model, chip and price", "Layout", "Speculation") for option in GROUPS[group]]
#: Options that say how large a fleet is.
_SIZES = ("request_rate", "throughput", "agents", "gpus", "budget", "power_budget")
_MEANS = ("gpus", "budget", "power_budget")
#: What a traffic says in place of these options.
_OF_TRAFFIC = (*SAID_BY_TRAFFIC, "arrival_scv")


def what_ifs(choices: Choices) -> tuple[str, ...]:
    """What-ifs of ``--set``, and those that have an option of their own.

    Raises
    ------
    InputError
        If both change the same, or a rank is given without adapters.
    """
    changes = tuple(choices["changes"])
    if choices.get("lora_rank") is not None and choices.get("loras") is None:
        raise InputError("--lora-rank is that of --loras; give --loras N, too", option="lora_rank")
    for name, key in WHAT_IFS.items():
        value = choices.get(name)
        if value is None:
            continue
        if any(change.partition("=")[0].strip() == key for change in changes):
            raise InputError(f"give either {OPTIONS[name].spelled} or --set {key}, not both", option=name)
        changes = (*changes, f"{key}={value}")
    return changes


def settings(choices: Choices, hardware: str | None = None) -> inputs.Settings:
    """Return what options say of what is served, its layout and who proposes; engines are :func:`engine`.

    Each value is checked already, by the type of its option.

    Parameters
    ----------
    choices : mapping
        Options by name.
    hardware : str, optional
        Another chip than they name.
    """
    chip = hardware or choices["hardware"]
    derived = {"hardware": chip, "price": prices.of_chip(choices["price"], chip), "changes": what_ifs(choices)}
    chosen = {name: choices.get(name) for name in ("model", *_RESOLVED) if name in inputs.Settings.model_fields}
    values: dict[str, Any] = {name: value for name, value in {**chosen, **derived}.items() if value is not None}
    return inputs.Settings.model_construct(**{**values, "engine": None})


def setup(choices: Choices, hardware: str | None = None) -> Setup:
    """Return what the options for a setup say, as one setup; perhaps on other hardware."""
    from inference_econ.answers.settings import setup_of

    if hardware is None:
        prices.of_chips(choices["price"], (choices["hardware"],))
    resolved = setup_of(settings(choices, hardware), engine(choices))
    grid = choices.get("carbon")
    return replace(resolved, rent=choices.get("rent", "gpu"), grid=None if grid is None else inputs.grids.grid(grid))


def pins(choices: Choices) -> Pins:
    """Return the degrees that are fixed, as far as a command has options for them.

    Raises
    ------
    InputError
        If they contradict the size of the instance.
    """
    from inference_econ.answers.settings import pins_of

    return pins_of(settings(choices), as_option)


def space(choices: Choices) -> Space:
    """Return which instances the options of a command allow; see :func:`pins` for the errors."""
    from inference_econ.answers.settings import space_of

    return space_of(settings(choices), as_option)


def engine(choices: Choices) -> str | tuple[str, ...] | None:
    """The engines that layouts are asked of: those named, any layout, or all that are known (None).

    Raises
    ------
    InputError
        If an engine is named and any layout is asked for.
    """
    named = choices["engine"] or ()
    if choices["any_layout"] and named:
        raise InputError("give either --engine or --any-layout, not both", option="engine")
    if choices["any_layout"]:
        return inputs.ANY_LAYOUT
    names = (named,) if isinstance(named, str) else tuple(dict.fromkeys(named))
    return names[0] if len(names) == 1 else names or None


def one_engine(choices: Choices) -> str | None:
    """Return the engine where a question is of one engine, or None where it leaves that open.

    Raises
    ------
    InputError
        If several are named.
    """
    named = engine(choices)
    if isinstance(named, tuple):
        raise InputError(
            f"give --engine once here, got {', '.join(named)}; 'compare' holds several against each other",
            option="engine",
        )
    return named


def among_startable(choices: Choices, answer: Callable[[Choices], Answer]) -> Answer | None:
    """The answer among layouts that engines can start, where any layout is asked for.

    None where that is not asked, no engine is known, or none can start what is pinned or has room for it.
    """
    if not choices["any_layout"] or choices.get("grid") == "paper":
        return None
    startable = {**choices, "any_layout": False}
    try:
        return answer(startable) if setup(startable).engines else None
    except (InputError, NothingFitsError):
        return None


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


def step_contexts(choices: Choices, prefill: float | None) -> tuple[float | None, float]:
    """The context that the step sees, and how far contexts are spread around it [tokens].

    Raises
    ------
    InputError
        If lengths of requests are given for a prefill step.
    """
    if prefill is None:
        traffic = ie.Traffic.build(context_or_lengths(choices), origin="command line")
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
    return any(parameter.name == name for parameter in given(click.get_current_context()))


def targets(choices: Choices, **usual: float) -> ie.Targets:
    """The promises of the options for them; what is not given is as usual, otherwise not promised."""
    from inference_econ.answers.promises import NAMES

    named: dict[str, Any] = {
        **usual,
        **{name: choices[name] for name in ("percentile", "confidence") if name in choices},
    }
    for name in NAMES:
        if choices[name] is not None:
            promise = inputs.percentiles.promise(str(choices[name]))
            named[f"{name}_seconds"] = inputs.parse_quantity(promise.time, "s")
            named[f"{name}_percentile"] = promise.percentile
    return ie.Targets(**named)


def usual_targets(choices: Choices, *, any_speed: bool) -> ie.Targets | None:
    """The promises that are given, or none with ``--any-speed``; None for the usual speed of the model.

    Raises
    ------
    InputError
        If both are given.
    """
    promises = targets(choices)
    if any_speed and promises.given:
        raise InputError(
            f"--any-speed promises nothing, which contradicts {promises.text}; leave one of them out",
            option="any_speed",
        )
    return promises if any_speed or promises.given else None


def request_rate(choices: Choices, requests: ie.Requests) -> float | None:
    """Requests per second of the whole traffic [1/s]: as given, else as the traffic has it; None if neither says it.

    Raises
    ------
    InputError
        If it is given in two ways.
    """
    rate: float | None = choices["request_rate"]
    if choices["throughput"] is None:
        of_traffic = None if requests.arrivals is None else requests.arrivals.rate
        return of_traffic if rate is None else rate
    if rate is not None:
        raise InputError("give either --request-rate or --throughput, not both", option="request_rate")
    return float(choices["throughput"] / requests.osl.mean)


def check_sizes(choices: Choices) -> None:
    """Refuse more than one way to say how large a fleet is.

    Raises
    ------
    InputError
        With what was given.
    """
    named = [name for name in _SIZES if choices.get(name) is not None]
    if len(named) > 1 and set(_MEANS) & set(named):
        raise InputError(
            f"give only one of {', '.join(OPTIONS[name].spelled for name in named)}: a rate asks for the cheapest "
            "fleet, and so do agents; chips, a budget or power ask for the most traffic",
            option=named[0],
        )


def given_means(choices: Choices) -> ie.Means | None:
    """The chips, the budget or the power of the options for means; None if none of them is given."""
    values = [choices.get(name) for name in _MEANS]
    return None if values == [None, None, None] else ie.Means(*values)


def offer(
    choices: Choices, requests: ie.Requests, hardware: str | None = None, speculation: Speculation | None = None
) -> Services:
    """Every layout that the options leave open, as a service of some requests."""
    layouts = ie.offer(setup(choices, hardware), requests, space(choices), speculation)
    return layouts if choices.get("slots") is None else answers.slots.with_slots(layouts, choices["slots"])


def fewest(choices: Choices, answer: Callable[[Choices], Answer]) -> Answer:
    """The answer for the fewest GPUs that hold the model, where no degree is given; for one GPU and those otherwise.

    Raises
    ------
    NothingFitsError
        If none of the instances that are tried holds it: of 1, 2, 4, .. GPUs of a link domain. That of a single one.
    """
    if any(choices[name] not in (None, 1) for name in ("tp", "pp", "dp", "ep")) or choices["tp"] is not None:
        return answer({**choices, "tp": choices["tp"] or 1})
    domain, failures = inputs.catalog.hardware(choices["hardware"]).link_domain or 1, []
    for size in takewhile(lambda size: size <= domain, (2**power for power in range(10))):
        try:
            return answer({**choices, "tp": size})
        except NothingFitsError as error:
            failures.append(error)
    raise failures[0]


def as_option(name: str, value: object) -> str:
    """An option as it is typed."""
    return f"--{name.replace('_', '-')} {value}"
