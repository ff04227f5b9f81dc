"""Kinds of values that options take, each checked before anything heavy is loaded."""

from __future__ import annotations

import math
from typing import Any

import click

from inference_econ.inputs import catalog
from inference_econ.report.files import check_picture, check_place


class Place(click.ParamType[str]):
    """A file to write: checked first, so that nothing is written if not all can be."""

    name = "PATH"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        """The path itself, if it can be written."""
        check_place(value)
        return value


class Picture(Place):
    """A picture to write, of a kind that its name tells."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The path itself, if a picture can be written there."""
        check_picture(value)
        return super().convert(value, param, ctx)


class Name(click.ParamType[str]):
    """A name of the catalogue or a path, checked before anything heavy is loaded."""

    def __init__(self, kind: catalog.Kind) -> None:
        self.kind: catalog.Kind = kind
        self.name = "NAME|PATH"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The catalogue's name of it, or the path; what it was taken for is said beside the answer."""
        del param
        name, remark = catalog.meaning(self.kind, value)
        if remark and ctx is not None:
            ctx.call_on_close(lambda: None if ctx.params.get("quiet") else click.echo(remark, err=True))
        return name


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
            from inference_econ.inputs import parse_quantity

            try:
                number = parse_quantity(value, "s")
            except UnitError as error:
                self.fail(f"{error}", param, ctx)
        if not (math.isfinite(number) and number > 0):
            self.fail(f"{value} is not a positive time; write for example '30 ms'.", param, ctx)
        return number


class Rates(click.ParamType[tuple[float, ...]]):
    """Positive numbers between commas."""

    name = "RATE,RATE,.."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """The numbers, in the order given."""
        if isinstance(value, tuple):
            return value
        try:
            rates = tuple(float(part) for part in str(value).split(","))
        except ValueError:
            rates = ()
        if not rates or not all(0 < rate < math.inf for rate in rates):
            self.fail(f"{value!r} is no list of positive request rates; write for example 1,2,5,10.", param, ctx)
        return rates


PLACE = Place()
PICTURE = Picture()
POSITIVE = Number(min=0, min_open=True)
NON_NEGATIVE = Number(min=0)
PROBABILITY = Number(min=0, max=1)
COUNT = click.IntRange(1)
