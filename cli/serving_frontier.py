"""The frontier of services: what users see in continuous batching against what it costs."""

from __future__ import annotations

import click

from inference_econ.errors import InputError

from . import options, proposals, provenance, show
from .parameters import NON_NEGATIVE

choices = options.apply(
    click.option(
        "--serving",
        is_flag=True,
        help="Of services: 1/TPOT with the prefill of others, in continuous batching, against --y.",
    ),
    click.option(
        "--y",
        type=click.Choice(["cost", "throughput", "power"]),
        help="With --serving: $/M tokens of input and output [default], or output tokens/s per GPU or per MW.",
    ),
    click.option("--cached", type=NON_NEGATIVE, help="With --serving: prompt tokens in the prefix cache."),
    click.option("--shared-prefix", type=NON_NEGATIVE, help="With --serving: tokens that all prompts begin with."),
)
#: Options that mean nothing for decode steps.
_SERVING_ONLY = ("y", "cached", "shared_prefix")
#: Options that mean something else, or nothing, for services.
_REFUSED = {
    "context": "--context",
    "max_tokens_per_second": "--max-throughput",
    "batch": "--batch",
}


def wanted(choices: options.Choices, *, every_plan: bool) -> bool:
    """Whether services are asked for.

    Raises
    ------
    InputError
        If the options do not go with each other.
    """
    if not choices["serving"]:
        alone = [f"--{name.replace('_', '-')}" for name in _SERVING_ONLY if choices[name] is not None]
        if alone:
            raise InputError(f"{alone[0]} goes with --serving only")
        return False
    refused = [option for name, option in _REFUSED.items() if choices[name] is not None]
    if every_plan:
        refused.insert(0, "--all")
    if choices["grid"] != "whole":
        refused.append("--grid paper")
    if refused:
        raise InputError(f"{refused[0]} does not go with --serving")
    return True


def run(choices: options.Choices, output: options.Output) -> None:
    """Find the frontier and show it."""
    from inference_econ.answers.serving_frontier import service_frontier
    from inference_econ.report.serving_frontier import ServingFrontierPage

    reused = {name: choices[name] or 0 for name in ("cached", "shared_prefix")}
    lengths = {**options.context_or_lengths(choices), **reused}
    requests = options.requests(choices, **lengths)
    layouts = options.offer(choices, requests, speculation=proposals.speculation(choices))
    show.emit(ServingFrontierPage(service_frontier(layouts), choices["y"] or "cost"), output, provenance.asked())
