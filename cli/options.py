"""Options that commands share, and what answers take in their place."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast, get_args

import click

from inference_econ.errors import InputError, NothingFitsError
from inference_econ.inputs import Dtype
from inference_econ.report.files import ending_of

from . import prices
from .parameters import COUNT, E2E, NON_NEGATIVE, PICTURE, PLACE, POSITIVE, TPOT, TTFT, Name, Number

if TYPE_CHECKING:
    from inference_econ.answers.means import Means
    from inference_econ.answers.promises import Targets
    from inference_econ.engine import Pins, Setup, Space, Speculation
    from inference_econ.inputs import Requests
    from inference_econ.serving import Services

F = TypeVar("F", bound=Callable[..., Any])
Answer = TypeVar("Answer")
#: The options that a command was given, by their names in Python.
Choices = Mapping[str, Any]

#: Lengths of requests where none are given [tokens].
DEFAULT_ISL, DEFAULT_OSL = 2000, 500

DTYPES: tuple[str, ...] = get_args(Dtype)


def apply(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, listed in their order."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


class Output(NamedTuple):
    """Where an answer goes, and in which form."""

    form: str
    """``table``, ``json``, ``csv`` or ``markdown``."""
    path: str | None = None
    """File to write instead of printing."""
    picture: str | None = None
    """File to draw to."""
    quiet: bool = False
    """Without progress bar, drawings of characters and remarks."""


#: Forms of results, by how names of files end; text may be of any form.
_FORMS = {".csv": "csv", ".json": "json", ".md": "markdown"}
_TEXT = ".txt"


def _as_output(command: F) -> F:
    """A command that takes its :class:`Output` in one piece; a file's name asks for a form, unless one is given."""

    @functools.wraps(command)
    def run(
        *arguments: Any, form: str, quiet: bool, output: str | None = None, plot: str | None = None, **choices: Any
    ) -> Any:
        source = click.get_current_context().get_parameter_source("form")
        if output is not None:
            form = _written_form(output, None if source is click.core.ParameterSource.DEFAULT else form)
        if output is not None and plot is not None and Path(output).resolve() == Path(plot).resolve():
            raise InputError(f"-o {output} and --plot {plot} are the same file; give two names")
        return command(*arguments, output=Output(form, output, plot, quiet), **choices)

    return cast("F", run)


def _written_form(path: str, form: str | None) -> str:
    """The form of a file: as its name ends, or as is asked for.

    Raises
    ------
    InputError
        If the name ends like another form, or like none and no form is asked for.
    """
    ending = ending_of(path)
    by_name = _FORMS.get(ending)
    if form is not None and by_name not in (None, form):
        raise InputError(f"{path}: --format {form} contradicts {ending}, which is {by_name}; change one of them")
    if form is None and by_name is None and ending not in ("", _TEXT):
        raise InputError(
            f"{path}: results are written as {', '.join(_FORMS)} and {_TEXT} (a table); end the name so, or give "
            "--format"
        )
    return form or by_name or "table"


def form(text: str, default: str | bool = True) -> Callable[[F], F]:
    """How a result is printed; ``default`` is what the help says of it if that is not always the table."""
    forms = click.Choice(["table", "json", "csv", "markdown"])
    return click.option("--format", "form", type=forms, default="table", show_default=default, help=text)


def picture(text: str = "Write a picture: .svg, .png or .pdf.") -> Callable[[F], F]:
    """A picture of the answer; its path becomes part of the :class:`Output`."""
    return click.option("--plot", type=PICTURE, help=text)


output = apply(
    form("How to print the result.", "as the name after -o ends: .json, .csv, .md; else table"),
    click.option("-o", "--output", type=PLACE, help="Write the result to a file instead."),
    click.option("--quiet", is_flag=True, help="No progress bar, drawing or remarks."),
    _as_output,
)

#: What the result files of load generators do not say of the server.
deployment = apply(
    click.option("--hardware", help="Of results of a load generator: the chip."),
    click.option("--model", default="", help="Of results: the model, if not the one in the file."),
    click.option("--engine", default="", help="Of results: the engine, if not the one in the file."),
    click.option("--weights", default="", help="Of results: number format of the weights."),
    click.option("--kv", default="", help="Of results: number format of the KV cache."),
    click.option("--tp", type=COUNT, default=1, help="Of results: tensor-parallel ranks."),
    click.option("--dp", type=COUNT, default=1, help="Of results: data-parallel groups."),
    click.option("--pp", type=COUNT, default=1, help="Of results: pipeline stages."),
    click.option("--ep", type=COUNT, help="Of results: expert-parallel ranks."),
)

#: How it is served: formats, price, assumptions and what-ifs.
manner = apply(
    click.option("--weights", type=click.Choice(DTYPES), help="Number format of the weights; by default as published."),
    click.option("--activations", type=click.Choice(DTYPES), help="Of what operators exchange; by default 16-bit."),
    click.option("--kv", type=click.Choice(DTYPES), help="Of the KV cache; as activations by default."),
    prices.option,
    click.option(
        "--engine",
        metavar="NAME[@VERSION]",
        help="Layouts that it can start, under its profile: vllm, sglang, trtllm; by default those of any of them.",
    ),
    click.option("--any-layout", is_flag=True, help="Layouts that no engine can start, too: the bound of all."),
    click.option(
        "--assumptions",
        type=Name("assumptions"),
        help="Preset; by default the profile of the hardware's generation, that of all servers for chips like those "
        "that were measured, else 'deployable'; 'paper' with '--grid paper'.",
    ),
    click.option(
        "--set",
        "changes",
        multiple=True,
        metavar="KEY=VALUE",
        help="What-if: hardware.FIELD=VALUE, model.FIELD=VALUE or assumptions.FIELD=VALUE.",
    ),
)

#: What is served, on what, how; see :func:`setup`.
subject = apply(
    click.argument("model", type=Name("models")),
    click.argument("hardware", type=Name("hardware")),
    manner,
)

domain = click.option(
    "--domain",
    type=COUNT,
    help="What-if: accelerators that share the fast link; the same as --set hardware.link_domain=N.",
)

redundant_experts = click.option(
    "--redundant-experts",
    type=click.IntRange(0, 100_000),
    help="Copies of popular experts beside all of them; as few as ranks need by default.",
)
context_ranks = click.option("--dcp", type=COUNT, help="Attention ranks that split a sequence's cache by tokens [1].")

#: Lengths, search and pinned degrees of a frontier of decode steps.
workload = apply(
    click.option("--context", type=NON_NEGATIVE, help="Cached tokens per sequence; instead of --isl and --osl."),
    click.option("--isl", type=NON_NEGATIVE, help="Input tokens of a request [default: 2000]."),
    click.option("--osl", type=POSITIVE, help="Output tokens of a request [default: 500]."),
    click.option(
        "--grid",
        type=click.Choice(["whole", "paper"]),
        default="whole",
        show_default=True,
        help="Whole-number deployments, or the published study's logarithmic grid.",
    ),
    click.option("--pipeline/--no-pipeline", default=True, show_default=True, help="Try pipeline parallelism."),
    click.option(
        "--max-throughput",
        "max_tokens_per_second",
        type=POSITIVE,
        help="Demand: total tokens/s that can be sold.",
    ),
    click.option("--max-accelerators", type=POSITIVE, help="Largest instance [default: 64, or 4 x the smallest]."),
    click.option("--tp", type=COUNT, help="Pin: accelerators that share attention."),
    click.option("--dp", type=COUNT, help="Pin: groups of them in a pipeline stage."),
    click.option("--pp", type=COUNT, help="Pin: pipeline stages."),
    click.option("--ep", type=COUNT, help="Pin: expert-parallel ranks of a stage."),
    redundant_experts,
    context_ranks,
    click.option("--batch", type=POSITIVE, help="Pin: sequences decoded together by an instance."),
    click.option("--accelerators", type=POSITIVE, help="Pin: size of an instance."),
)

#: One layout, for commands that look at a single deployment.
degrees = apply(
    click.option("--tp", type=COUNT, default=1, show_default=True, help="Accelerators that share attention."),
    click.option("--dp", type=COUNT, default=1, show_default=True, help="Groups of them in a pipeline stage."),
    click.option("--pp", type=COUNT, default=1, show_default=True, help="Pipeline stages."),
    click.option("--ep", type=COUNT, help="Expert-parallel ranks of a stage; as many as possible by default."),
    redundant_experts,
    context_ranks,
)

shared_prefix = click.option(
    "--shared-prefix",
    type=NON_NEGATIVE,
    default=0,
    help="Tokens that all prompts begin with, held once and not per request.",
)

#: Requests of a service; see :func:`requests`.
lengths = apply(
    click.option(
        "--isl", default="2000", show_default=True, help="Prompt tokens: 2000, uniform:800:1000, lognormal:2000:0.5."
    ),
    click.option("--osl", default="500", show_default=True, help="Output tokens, in the same forms."),
    click.option("--cached", type=NON_NEGATIVE, default=0, help="Prompt tokens found in the prefix cache."),
    shared_prefix,
)

burstiness = click.option(
    "--arrival-scv", type=Number(min=0, max=1000), default=1, help="Burstiness: 1 if Poisson (default), more if bursty."
)

#: What users are promised; see :func:`targets`.
promises = apply(
    click.option("--ttft", type=TTFT, help="Promise: time to first token, in milliseconds, or for example '2 s'."),
    click.option("--tpot", type=TPOT, help="Promise: time per output token, in milliseconds, or for example '30 ms'."),
    click.option("--e2e", type=E2E, help="Promise: time to the last token, in milliseconds, or for example '10 s'."),
)

#: What an engine is told about its batches; see :func:`offer`.
scheduler = apply(
    click.option("--slots", type=COUNT, help="Requests in flight of an instance at most [as many as memory holds]."),
    click.option("--token-budget", type=COUNT, help="Prompt tokens that one step reads at most [of the preset]."),
)

rent = click.option(
    "--rent",
    type=click.Choice(["gpu", "node"]),
    default="gpu",
    show_default=True,
    help="Bill a fleet for the smallest machines that hold its instances, or for whole nodes.",
)

#: What there is to serve with, instead of a traffic; see :func:`given_means`.
budget = click.option("--budget", type=POSITIVE, help="The same for so many USD per hour.")
means = apply(
    click.option("--gpus", type=COUNT, help="The most traffic that so many chips carry, instead of a rate."), budget
)

traffic = apply(
    lengths,
    click.option("--request-rate", type=POSITIVE, help="Requests/s in all [default: 80 % of an instance]."),
    click.option("--throughput", type=POSITIVE, help="The same as output tokens per second."),
    burstiness,
    promises,
    click.option(
        "--percentile", type=click.Choice(["mean", "p50", "p90", "p99"]), default="p90", help="Of the promises [p90]."
    ),
)

#: Which instances a service may consist of.
largest = apply(
    click.option("--max-accelerators", type=POSITIVE, help="Largest instance [64, or 4 x the smallest]."),
    click.option("--pipeline/--no-pipeline", default=True, show_default=True, help="Try pipeline parallelism."),
)

layout = apply(
    click.option("--tp", type=COUNT, help="Accelerators that share attention; all are tried by default."),
    click.option("--dp", type=COUNT, help="Groups of them in a pipeline stage."),
    click.option("--pp", type=COUNT, help="Pipeline stages."),
    click.option("--ep", type=COUNT, help="Expert-parallel ranks of a stage."),
    redundant_experts,
    context_ranks,
    click.option("--accelerators", type=COUNT, help="Size of an instance."),
    largest,
)


#: Options that say how large a fleet is.
_SIZES = ("request_rate", "throughput", "gpus", "budget")
#: What-ifs that have an option of their own.
_OWN_OPTIONS = {
    "domain": "hardware.link_domain",
    "redundant_experts": "assumptions.experts.redundant",
    "token_budget": "assumptions.serving.prefill_chunk",
}


def what_ifs(choices: Choices) -> tuple[str, ...]:
    """What-ifs of ``--set``, and those that have an option of their own.

    Raises
    ------
    InputError
        If both change the same.
    """
    changes = tuple(choices["changes"])
    for option, key in _OWN_OPTIONS.items():
        value = choices.get(option)
        if value is None:
            continue
        if any(change.partition("=")[0].strip() == key for change in changes):
            raise InputError(f"give either --{option.replace('_', '-')} or --set {key}, not both")
        changes = (*changes, f"{key}={value}")
    return changes


def setup(choices: Choices, hardware: str | None = None) -> Setup:
    """What the options of :data:`subject` say, as one setup; perhaps on other hardware."""
    from inference_econ.engine import Setup
    from inference_econ.inputs import profiles

    chip = hardware or choices["hardware"]
    price = prices.of_chips(choices["price"], (chip,)) if hardware is None else choices["price"]
    resolved = Setup.of(
        choices["model"],
        chip,
        **{name: choices[name] for name in ("weights", "activations", "kv")},
        price=prices.of_chip(price, chip),
        assumptions=profiles.for_grid(choices["assumptions"], choices.get("grid", "whole")),
        changes=what_ifs(choices),
        engine=engine(choices),
    )
    return replace(resolved, rent=choices.get("rent", "gpu"))


def engine(choices: Choices) -> str | None:
    """The engine that layouts are asked of: that named, any layout, or all that are known (None).

    Raises
    ------
    InputError
        If an engine is named and any layout is asked for.
    """
    from inference_econ.inputs import ANY_LAYOUT

    if choices["any_layout"] and choices["engine"] is not None:
        raise InputError("give either --engine or --any-layout, not both")
    return ANY_LAYOUT if choices["any_layout"] else choices["engine"]


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


def context_or_lengths(choices: Choices) -> dict[str, float]:
    """The context that is given, or the lengths of requests [tokens].

    Raises
    ------
    InputError
        If both are given.
    """
    context, isl, osl = (choices[name] for name in ("context", "isl", "osl"))
    if context is not None and (isl is not None or osl is not None):
        raise InputError("give either --context, or --isl and --osl, not both")
    if context is not None:
        return {"context": context}
    return {"isl": DEFAULT_ISL if isl is None else isl, "osl": DEFAULT_OSL if osl is None else osl}


def pins(choices: Choices) -> Pins:
    """The degrees that are fixed, as far as a command has options for them."""
    from inference_econ.engine import Pins

    return Pins(**{name: choices.get(name) for name in ("tp", "dp", "pp", "ep", "dcp", "batch", "accelerators")})


def space(choices: Choices) -> Space:
    """Which instances the options of a command allow."""
    from inference_econ.engine import Space

    return Space(pins(choices), choices["max_accelerators"], choices["pipeline"], choices.get("grid", "whole"))


def requests(choices: Choices, **lengths: object) -> Requests:
    """The requests of :data:`lengths`, or those of other lengths."""
    from inference_econ.inputs import Requests

    named = lengths or {name: choices[name] for name in ("isl", "osl", "cached", "shared_prefix")}
    return Requests.build(named, origin="command line")


def targets(choices: Choices) -> Targets:
    """The promises of :data:`promises`; what is not given is not promised."""
    from inference_econ.answers.promises import Targets

    percentile = {"percentile": choices["percentile"]} if "percentile" in choices else {}
    ttft, tpot, e2e = (choices[name] or math.inf for name in ("ttft", "tpot", "e2e"))
    return Targets(ttft, tpot, e2e_seconds=e2e, **percentile)


def request_rate(choices: Choices, requests: Requests) -> float | None:
    """Requests per second of the whole traffic [1/s]; None if none is given.

    Raises
    ------
    InputError
        If it is given in two ways.
    """
    rate: float | None = choices["request_rate"]
    if choices["throughput"] is None:
        return rate
    if rate is not None:
        raise InputError("give either --request-rate or --throughput, not both")
    return float(choices["throughput"] / requests.osl.mean)


def check_sizes(choices: Choices) -> None:
    """Refuse more than one way to say how large a fleet is.

    Raises
    ------
    InputError
        With what was given.
    """
    named = [f"--{name.replace('_', '-')}" for name in _SIZES if choices.get(name) is not None]
    if len(named) > 1 and {"--gpus", "--budget"} & set(named):
        raise InputError(
            f"give only one of {', '.join(named)}: a rate asks for the cheapest fleet, chips or a budget ask for the "
            "most traffic"
        )


def given_means(choices: Choices) -> Means | None:
    """The chips or the budget of :data:`means`; None if neither is given."""
    from inference_econ.answers.means import Means

    if choices["gpus"] is None and choices["budget"] is None:
        return None
    return Means(choices["gpus"], choices["budget"])


def offer(
    choices: Choices, requests: Requests, hardware: str | None = None, speculation: Speculation | None = None
) -> Services:
    """Every layout that the options leave open, as a service of some requests."""
    from inference_econ.answers.offer import offer
    from inference_econ.answers.slots import with_slots

    layouts = offer(setup(choices, hardware), requests, space(choices), speculation)
    return layouts if choices.get("slots") is None else with_slots(layouts, choices["slots"])
