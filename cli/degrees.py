"""Options for the size and the degrees of one instance, the same in every command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .decorators import Choices, apply
from .parameters import COUNT, DEGREE, POSITIVE

if TYPE_CHECKING:
    from inference_econ.engine import Pins, Space

redundant_experts = click.option(
    "--redundant-experts",
    type=click.IntRange(0, 100_000),
    help="Copies of popular experts beside all of them; as few as ranks need by default.",
)
context_ranks = click.option("--dcp", type=COUNT, help="Attention ranks that split a sequence's cache by tokens [1].")
instance_gpus = click.option("--instance-gpus", type=COUNT, help="GPUs of one instance, in all layouts of that size.")
pipeline = click.option("--pipeline/--no-pipeline", default=True, show_default=True, help="Try pipeline parallelism.")

#: Degrees that are tried where none is given.
open_degrees = apply(
    click.option("--tp", type=DEGREE, help="GPUs that share attention; with one of these the others are 1, else all."),
    click.option("--pp", type=DEGREE, help="Pipeline stages."),
    click.option("--dp", type=DEGREE, help="Groups of tp in a pipeline stage."),
    click.option("--ep", type=DEGREE, help="Expert-parallel ranks of a stage; the best if not given."),
    redundant_experts,
    context_ranks,
)

#: One layout, for commands that look at a single deployment.
degrees = apply(
    click.option("--tp", type=COUNT, default=1, show_default=True, help="GPUs that share attention."),
    click.option("--pp", type=COUNT, default=1, show_default=True, help="Pipeline stages."),
    click.option("--dp", type=COUNT, default=1, show_default=True, help="Groups of tp in a pipeline stage."),
    click.option("--ep", type=COUNT, help="Expert-parallel ranks of a stage; the best that can be started by default."),
    redundant_experts,
    context_ranks,
)

#: Which instances a service may consist of.
largest = apply(
    click.option(
        "--max-instance-gpus",
        type=POSITIVE,
        help="Largest instance [a machine, or as recipes have it; of any layout 64, or 4 x the smallest].",
    ),
    pipeline,
)

layout = apply(open_degrees, instance_gpus, largest)


def as_option(name: str, value: object) -> str:
    """An option as it is typed."""
    return f"--{name.replace('_', '-')} {value}"


def pins(choices: Choices) -> Pins:
    """The degrees that are fixed, as far as a command has options for them.

    Raises
    ------
    InputError
        If they contradict the size of the instance.
    """
    from inference_econ.engine import instance_pins

    return instance_pins(
        {name: choices.get(name) for name in ("tp", "pp", "dp", "ep")},
        choices.get("instance_gpus"),
        batch=choices.get("batch"),
        dcp=choices.get("dcp"),
        write=as_option,
    )


def space(choices: Choices) -> Space:
    """Which instances the options of a command allow."""
    from inference_econ.engine import Space

    largest, pipeline = choices.get("max_instance_gpus"), choices.get("pipeline", True)
    return Space(pins(choices), largest, pipeline, choices.get("grid", "whole"))
