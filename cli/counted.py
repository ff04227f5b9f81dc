"""What a frontier counts: services with the prefill of their requests, or decode steps alone."""

from __future__ import annotations

import click

from inference_econ.errors import InputError

from . import options
from .parameters import NON_NEGATIVE

#: What of prompts is not read again.
reused = options.apply(
    click.option("--cached", type=NON_NEGATIVE, help="Of services: prompt tokens in the prefix cache."),
    click.option("--shared-prefix", type=NON_NEGATIVE, help="Of services: tokens that all prompts begin with."),
)
#: What services may be asked beside lengths, and the way to decode steps alone.
choices = options.apply(
    click.option(
        "--decode-only",
        is_flag=True,
        help="Decode steps alone, without the prefill of requests; services with it by default.",
    ),
    reused,
    options.promises,
    options.scheduler,
)
#: Options that mean something for services only.
_SERVICES_ONLY = ("y", "cached", "shared_prefix", "slots", "token_budget", "ttft", "tpot", "e2e")
#: Options that mean something for decode steps alone only, and how they are typed.
_DECODE_ONLY = {
    "every_plan": "--all",
    "context": "--context",
    "max_tokens_per_second": "--max-throughput",
    "batch": "--batch",
}


def decode_steps(choices: options.Choices) -> bool:
    """Whether decode steps alone are counted: where that is asked for, and on the published study's grid.

    Raises
    ------
    InputError
        If an option means nothing for what is counted.
    """
    study = choices["grid"] == "paper"
    if choices["decode_only"] or study:
        stray = [name for name in _SERVICES_ONLY if choices.get(name) is not None]
        if stray:
            which = "--decode-only" if choices["decode_only"] else "--grid paper"
            raise InputError(
                f"--{stray[0].replace('_', '-')} is said of services, and {which} counts decode steps alone; leave one "
                "of them out",
                option=stray[0],
            )
        return True
    stray = [typed for name, typed in _DECODE_ONLY.items() if choices.get(name) not in (None, False)]
    if stray:
        option = stray[0].removeprefix("--").replace("-", "_")
        raise InputError(f"{stray[0]} is said of decode steps alone; add --decode-only", option=option)
    return False
