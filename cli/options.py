"""Options that commands share, and what answers take in their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs.options import GROUPS, OPTIONS, WHAT_IFS

from . import prices
from .bounded import yes as yes
from .decorators import Choices as Choices
from .decorators import apply as apply
from .decorators import option as option
from .decorators import options as options
from .degrees import as_option as as_option
from .degrees import degrees as degrees
from .degrees import fewest as fewest
from .degrees import instance_gpus as instance_gpus
from .degrees import largest as largest
from .degrees import layout as layout
from .degrees import open_degrees as open_degrees
from .lengths import context_or_lengths as context_or_lengths
from .lengths import is_given as is_given
from .lengths import lengths as lengths
from .lengths import mean_lengths as mean_lengths
from .lengths import mean_traffic as mean_traffic
from .lengths import plain_lengths as plain_lengths
from .lengths import requests as requests
from .lengths import shared_prefix as shared_prefix
from .lengths import step_contexts as step_contexts
from .outputs import Output as Output
from .outputs import form as form
from .outputs import output as output
from .outputs import picture as picture
from .outputs import printed as printed
from .parameters import COUNT, Name

if TYPE_CHECKING:
    from inference_econ.answers.means import Means
    from inference_econ.answers.promises import Targets
    from inference_econ.engine import Pins, Setup, Space, Speculation
    from inference_econ.inputs import Requests, Settings
    from inference_econ.serving import Services

Answer = TypeVar("Answer")


#: What the result files of load generators do not say of the server.
deployment = apply(
    click.option("--hardware", help="Of results of a load generator: the chip, if not the one in the file."),
    click.option("--model", default="", help="Of results: the model, if not the one in the file."),
    click.option("--engine", default="", help="Of results: the engine, if not the one in the file."),
    click.option("--weights", default="", help="Of results: number format of the weights."),
    click.option("--kv", default="", help="Of results: number format of the KV cache."),
    click.option("--tp", type=COUNT, help="Of results: tensor-parallel ranks [as in the file, else 1]."),
    click.option("--dp", type=COUNT, help="Of results: data-parallel groups [as in the file, else 1]."),
    click.option("--pp", type=COUNT, help="Of results: pipeline stages [as in the file, else 1]."),
    click.option("--ep", type=COUNT, help="Of results: expert-parallel ranks."),
)

#: How it is served: formats, price, assumptions and what-ifs.
manner = options(
    "weights",
    "activations",
    "kv",
    "price",
    "engine",
    "any_layout",
    "assumptions",
    "changes",
    "loras",
    "lora_rank",
    "power_cap",
)

#: What is served, on what, how; see :func:`setup`.
subject = apply(
    click.argument("model", type=Name("models")),
    click.argument("hardware", type=Name("hardware")),
    manner,
)

domain = option("domain")

#: Whose electricity is used; see :func:`inference_econ.inputs.grids.grid`.
carbon = option("carbon")

#: Search and pinned degrees of a frontier; and lengths, too.
search = apply(
    options("grid", "max_tokens_per_second"),
    largest,
    open_degrees,
    option("batch"),
    option("instance_gpus", "positive"),
)
workload = apply(mean_lengths, search)

#: What pictures hold against speed.
metric = click.option(
    "--y",
    type=click.Choice(["cost", "blended", "throughput", "power", "joules", "gpus", "mfu"]),
    default="cost",
    show_default=True,
    help="Against speed: $/M output tokens, or of services $/M of input and output; output tokens/s per GPU or per MW, "
    "J per output token, GPUs of an instance, or of decode steps alone their MFU.",
)
burstiness = option("arrival_scv")

#: Times that users are promised.
latencies = options("ttft", "tpot", "e2e")

#: What users are promised; see :func:`targets`.
promises = apply(latencies, option("confidence"))

#: What an engine is told about its batches; see :func:`offer`.
scheduler = options("slots", "token_budget", "usable_memory")

#: A recorded traffic, played as it came.
trace = option("trace")

rent = option("rent")

#: What there is to serve with, instead of a traffic; see :func:`given_means`.
means = options("gpus", "budget", "power_budget")

traffic = apply(lengths, options("request_rate", "throughput"), burstiness, promises, option("percentile"))

#: Options that one setup, its layouts and its proposer are made of.
_RESOLVED = [option.name for group in ("Model, chip and price", "Layout", "Speculation") for option in GROUPS[group]]
#: Options that say how large a fleet is.
_SIZES = ("request_rate", "throughput", "agents", "gpus", "budget", "power_budget")
_MEANS = ("gpus", "budget", "power_budget")


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


def settings(choices: Choices, hardware: str | None = None) -> Settings:
    """Return what options say of what is served, its layout and who proposes; engines are :func:`engine`.

    Each value is checked already, by the type of its option.

    Parameters
    ----------
    choices : mapping
        Options by name.
    hardware : str, optional
        Another chip than they name.
    """
    from inference_econ.inputs import Settings

    chip = hardware or choices["hardware"]
    own = {"hardware": chip, "price": prices.of_chip(choices["price"], chip), "changes": what_ifs(choices)}
    given = {name: choices.get(name) for name in ("model", *_RESOLVED) if name in Settings.model_fields}
    values: dict[str, Any] = {name: value for name, value in {**given, **own}.items() if value is not None}
    return Settings.model_construct(**{**values, "engine": None})


def setup(choices: Choices, hardware: str | None = None) -> Setup:
    """Return what the options of :data:`subject` say, as one setup; perhaps on other hardware."""
    from inference_econ.answers.settings import setup_of
    from inference_econ.inputs import grids

    if hardware is None:
        prices.of_chips(choices["price"], (choices["hardware"],))
    resolved = setup_of(settings(choices, hardware), engine(choices))
    grid = choices.get("carbon")
    return replace(resolved, rent=choices.get("rent", "gpu"), grid=None if grid is None else grids.grid(grid))


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
    from inference_econ.inputs import ANY_LAYOUT

    named = choices["engine"] or ()
    if choices["any_layout"] and named:
        raise InputError("give either --engine or --any-layout, not both", option="engine")
    if choices["any_layout"]:
        return ANY_LAYOUT
    names = (named,) if isinstance(named, str) else tuple(dict.fromkeys(named))
    return names[0] if len(names) == 1 else names or None


def one_engine(choices: Choices) -> str | None:
    """The same where a question is of one engine, or leaves it open.

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
    asked = {**choices, "any_layout": False}
    try:
        return answer(asked) if setup(asked).engines else None
    except (InputError, NothingFitsError):
        return None


def targets(choices: Choices, **usual: float) -> Targets:
    """The promises of :data:`promises`; what is not given is as usual, otherwise not promised."""
    from inference_econ.answers.promises import NAMES, Targets
    from inference_econ.inputs import parse_quantity, percentiles

    named: dict[str, Any] = {
        **usual,
        **{name: choices[name] for name in ("percentile", "confidence") if name in choices},
    }
    for name in NAMES:
        if choices[name] is not None:
            promise = percentiles.promise(str(choices[name]))
            named[f"{name}_seconds"] = parse_quantity(promise.time, "s")
            named[f"{name}_percentile"] = promise.percentile
    return Targets(**named)


def usual_targets(choices: Choices, *, any_speed: bool) -> Targets | None:
    """The promises that are given, or none with ``--any-speed``; None for the usual speed of the model.

    Raises
    ------
    InputError
        If both are given.
    """
    given = targets(choices)
    if any_speed and given.given:
        raise InputError(
            f"--any-speed promises nothing, which contradicts {given.text}; leave one of them out", option="any_speed"
        )
    return given if any_speed or given.given else None


def request_rate(choices: Choices, requests: Requests) -> float | None:
    """Requests per second of the whole traffic [1/s]: as given, else as the traffic has it; None if neither says it.

    Raises
    ------
    InputError
        If it is given in two ways.
    """
    rate: float | None = choices["request_rate"]
    if choices["throughput"] is None:
        own = None if requests.arrivals is None else requests.arrivals.rate
        return own if rate is None else rate
    if rate is not None:
        raise InputError("give either --request-rate or --throughput, not both", option="request_rate")
    return float(choices["throughput"] / requests.osl.mean)


def spelled(name: str) -> str:
    """How an option of the table is typed."""
    return OPTIONS[name].spelled


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


def given_means(choices: Choices) -> Means | None:
    """The chips, the budget or the power of :data:`means`; None if none of them is given."""
    from inference_econ.answers.means import Means

    values = [choices.get(name) for name in _MEANS]
    return None if values == [None, None, None] else Means(*values)


def offer(
    choices: Choices, requests: Requests, hardware: str | None = None, speculation: Speculation | None = None
) -> Services:
    """Every layout that the options leave open, as a service of some requests."""
    from inference_econ.answers.offer import offer
    from inference_econ.answers.slots import with_slots

    layouts = offer(setup(choices, hardware), requests, space(choices), speculation)
    return layouts if choices.get("slots") is None else with_slots(layouts, choices["slots"])
