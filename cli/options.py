"""Options that commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from inference_econ import catalog

F = TypeVar("F", bound=Callable[..., Any])

DTYPES = (
    *("fp32", "bf16", "fp16", "fp8", "fp8_block", "mxfp8", "int8", "int8_g128"),
    *("fp4", "mxfp4", "nvfp4", "int4", "int4_g32", "int4_channel"),
)


class Name(click.ParamType[str]):
    """A name of the catalogue or a path, checked before anything heavy is loaded."""

    def __init__(self, kind: catalog.Kind) -> None:
        self.kind: catalog.Kind = kind
        self.name = "NAME|PATH"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself, if it can be found."""
        del param, ctx
        catalog.locate(self.kind, value)
        return value


class Number(click.FloatRange):
    """A finite number in a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class Seconds(click.ParamType[float]):
    """A positive time: a quantity such as ``30 ms``, or a bare number of seconds."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            from inference_econ.errors import UnitError
            from inference_econ.units import parse_quantity

            try:
                number = parse_quantity(value, "s")
            except UnitError as error:
                self.fail(f"{error}", param, ctx)
        if not (math.isfinite(number) and number > 0):
            self.fail(f"{value} is not a positive time; write for example '30 ms'.", param, ctx)
        return number


POSITIVE = Number(min=0, min_open=True)
NON_NEGATIVE = Number(min=0)
PROBABILITY = Number(min=0, max=1)


def apply(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, listed in their order."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


output = apply(
    click.option(
        "--format",
        "form",
        type=click.Choice(["table", "json", "csv", "markdown"]),
        default="table",
        show_default=True,
        help="How to print the result.",
    ),
    click.option("-o", "--output", type=click.Path(), help="Write the result to a file instead."),
    click.option("--quiet", is_flag=True, help="No progress bar, drawing or remarks."),
)

subject = apply(
    click.argument("model", type=Name("models")),
    click.argument("hardware", type=Name("hardware")),
    click.option("--weights", type=click.Choice(DTYPES), help="Number format of the weights; by default as published."),
    click.option("--activations", type=click.Choice(DTYPES), help="Of what operators exchange; by default 16-bit."),
    click.option("--kv", type=click.Choice(DTYPES), help="Of the KV cache; as activations by default."),
    click.option("--price", type=POSITIVE, help="USD per accelerator and hour; by default the first of the file."),
    click.option(
        "--assumptions",
        type=Name("assumptions"),
        help="Preset; by default 'deployable', and 'paper' with '--grid paper'.",
    ),
    click.option(
        "--set",
        "changes",
        multiple=True,
        metavar="KEY=VALUE",
        help="What-if: hardware.FIELD=VALUE, model.FIELD=VALUE or assumptions.FIELD=VALUE.",
    ),
)
