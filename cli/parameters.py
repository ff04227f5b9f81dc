"""Kinds of values that options take, each checked before anything heavy is loaded."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import click
from click.shell_completion import CompletionItem

from inference_econ.errors import InputError, UnitError
from inference_econ.inputs import ALIASES, BYTES_PER_ELEMENT, catalog, check_dtype
from inference_econ.inputs.units import parse_quantity
from inference_econ.report.files import CHARTS, PICTURES, check_picture, check_place

#: What stands for a number format, of which there are many.
FORMAT = "FORMAT"
#: Numbers beyond these cannot be meant, and would overflow on the way to a result [1].
_SMALLEST, _LARGEST = 1e-15, 1e15
_BEYOND = f"cannot be meant; numbers from {_SMALLEST:g} to {_LARGEST:g} are possible."
#: What is said where numbers that are possible each, but not together, lead out of floating point.
UNCOUNTABLE = "the numbers that were given are together too large or too small to calculate with; give others"
#: More chips, requests in flight or tokens of a step than anybody has; exact as floating-point numbers [1].
_MOST = 1_000_000_000
#: Digits of a number that a message repeats [1].
_SHOWN = 20


class Place(click.ParamType[str]):
    """A file to write: checked first, so that nothing is written if not all can be."""

    name = "PATH"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The path itself, if it can be written."""
        if not value:
            self.fail("the name of the file to write is empty.", param, ctx)
        check_place(value)
        return value


class Picture(Place):
    """A picture to write, of a kind that its name tells."""

    def __init__(self, endings: tuple[str, ...]) -> None:
        self.endings = endings

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The path itself, if a picture can be written there."""
        if value:
            check_picture(value, self.endings)
        return super().convert(value, param, ctx)


class Name(click.ParamType[str]):
    """A name of the catalogue or a path, checked before anything heavy is loaded."""

    def __init__(self, kind: catalog.Kind) -> None:
        self.kind: catalog.Kind = kind
        self.name = "NAME|PATH"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names that begin so, for the shell; files where none does."""
        del ctx, param
        names = [CompletionItem(name) for name in catalog.names(self.kind) if name.startswith(incomplete)]
        return names or [CompletionItem(incomplete, type="file")]

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The catalogue's name of it, or the path; what it was taken for is said beside the answer."""
        del param
        name, remark, *_ = catalog.meaning(self.kind, value)
        if remark and ctx is not None:
            ctx.call_on_close(lambda: None if ctx.params.get("quiet") else click.echo(remark, err=True))
        return name


class Format(click.Choice[str]):
    """A number format, or a name that people have for one."""

    def __init__(self) -> None:
        super().__init__([*BYTES_PER_ELEMENT, *ALIASES])

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The format, also one in blocks or groups of a size of its own."""
        with contextlib.suppress(InputError):
            return check_dtype(value, "number format")
        chosen = super().convert(value, param, ctx)
        return ALIASES.get(chosen, chosen)


class Number(click.FloatRange):
    """A finite number in a range, that results can be calculated with."""

    def _describe_range(self) -> str:
        """Its limits in the help: without any, click writes ``x<=None``."""
        return "" if self.min is None and self.max is None else super()._describe_range()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        if not _meant(number):
            self.fail(f"{value} {_BEYOND}", param, ctx)
        return number + 0.0  # without the sign of a zero


class Watts(click.ParamType[float]):
    """Power with its unit, or in watts: positive, or from 0."""

    name = "WATTS"

    def __init__(self, *, none: bool = False) -> None:
        self.none = none

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The power in watts."""
        try:
            watts = parse_quantity(value, "W")
        except UnitError as error:
            self.fail(f"{error}.", param, ctx)
        if not (watts > 0 and _meant(watts)) and not (self.none and watts == 0):
            given = _shortened(str(value))
            self.fail(f"{given} is no power that there can be; write for example 500W or 1MW.", param, ctx)
        return watts


class Count(click.IntRange):
    """A whole number from 1."""

    def __init__(self) -> None:
        super().__init__(1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        number = int(super().convert(value, param, ctx))
        if number > _MOST:
            self.fail(f"{_shortened(str(value))} is too large; at most {_MOST:,} are possible.", param, ctx)
        return number


class Degree(click.ParamType[int | str]):
    """A whole number from 1, or ``any`` for all that can be."""

    name = "N|any"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """The number, or the word."""
        if str(value).strip().lower() == "any":
            return "any"
        try:
            return COUNT.convert(value, param, ctx)
        except click.BadParameter as error:
            self.fail(f"{error.message.rstrip('.')}; or write 'any' to try all.", param, ctx)


def _meant(number: float) -> bool:
    """Whether products and powers of a number stay far from the ends of floating point."""
    return number == 0.0 or _SMALLEST <= abs(number) <= _LARGEST


def _shortened(text: str) -> str:
    """A long number by how it begins."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}.. ({len(text)} digits)"


class Time(click.ParamType[float]):
    """A positive time with its unit, such as ``60 s``."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        if _bare(value) is not None:
            self.fail(f"{value} has no unit, and could be seconds or minutes; write '{value} s'.", param, ctx)
        return self._seconds(value, param, ctx)

    def _seconds(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from inference_econ.errors import UnitError
        from inference_econ.inputs import parse_quantity

        try:
            seconds = parse_quantity(value, "s")
        except UnitError as error:
            self.fail(f"{error}", param, ctx)
        return self.positive(seconds, value, param, ctx)

    def positive(self, seconds: float, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds that can be meant; refused otherwise."""
        if not (math.isfinite(seconds) and seconds > 0):
            self.fail(f"{value} is not a positive time; write for example '30 ms'.", param, ctx)
        if not _meant(seconds):
            self.fail(f"{value}: {seconds:g} s {_BEYOND}", param, ctx)
        return seconds


class Percentile(click.ParamType[str]):
    """Which requests must see a promise: ``mean``, or any of ``p1`` to ``p99.9``."""

    name = "mean|pN"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Its name."""
        from inference_econ.errors import InputError
        from inference_econ.inputs import percentiles

        try:
            # 95 can mean nothing else here; in a promise a bare number is a time.
            return percentiles.percentile(f"p{value}" if str(value)[:1].isdigit() else str(value))
        except InputError as error:
            self.fail(f"{str(error).removeprefix('percentile: ')}.", param, ctx)


class Latency(click.ParamType[float | str]):
    """A promised latency: milliseconds, as load generators have it, or a time with its unit; perhaps of a percentile.

    Parameters
    ----------
    least_milliseconds : float
        Bare numbers below were meant as seconds [ms].
    most_seconds : float
        Times beyond were meant as milliseconds [s].
    """

    name = "[pN:]MS|TIME"

    def __init__(self, least_milliseconds: float, most_seconds: float) -> None:
        self.least_milliseconds, self.most_seconds = least_milliseconds, most_seconds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Seconds; with the percentile before them, and their unit, where one is given."""
        from inference_econ.errors import InputError
        from inference_econ.inputs import percentiles

        try:
            promise = percentiles.promise(str(value))
        except InputError as error:
            self.fail(f"{error}.", param, ctx)
        seconds = self._seconds(promise.time, param, ctx)
        return seconds if promise.percentile is None else f"{promise.percentile}:{seconds!r} s"

    def _seconds(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> float:
        milliseconds = _bare(value)
        if milliseconds is None:
            seconds = TIME.convert(value, param, ctx)
        else:
            seconds = TIME.positive(milliseconds / 1e3, value, param, ctx)
            if milliseconds < self.least_milliseconds:
                self.fail(
                    f"{value} would be {milliseconds:g} ms, as numbers without a unit are milliseconds; write "
                    f"{1e3 * milliseconds:g} if {value} s is meant, or '{value} ms' if it is that.",
                    param,
                    ctx,
                )
        if seconds > self.most_seconds:
            self.fail(
                f"{value} would be {seconds:g} s, longer than what anybody is promised (at most "
                f"{self.most_seconds:g} s); write the milliseconds, without a unit or as '30 ms', or leave it out.",
                param,
                ctx,
            )
        return seconds


def _bare(value: Any) -> float | None:
    """The number that a text without a unit is; None of texts with one."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


class Rates(click.ParamType[tuple[float, ...]]):
    """Positive numbers between commas."""

    name = "RATE,RATE,.."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """The numbers, in the order given."""
        parts = value if isinstance(value, (tuple, list)) else str(value).split(",")
        try:
            rates = tuple(map(float, parts))
        except ValueError:
            rates = ()
        if not rates or not all(0 < rate < math.inf for rate in rates):
            text = value if isinstance(value, str) else ",".join(map(str, parts))
            self.fail(f"{text!r} is no list of positive request rates; write for example 1,2,5,10.", param, ctx)
        for rate in rates:
            if not _meant(rate):
                self.fail(f"{rate:g} {_BEYOND}", param, ctx)
        return rates


class Span(click.ParamType[tuple[float, float]]):
    """Two positive ratios between a comma, the lower one first."""

    name = "LOW,HIGH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        """The ratios."""
        if isinstance(value, tuple):
            return value
        ends = [_bare(part) for part in str(value).split(",")]
        if len(ends) != 2 or any(end is None or not 0 < end < math.inf for end in ends):
            self.fail(f"{value!r} is no pair of positive ratios; write for example 0.8,1.25.", param, ctx)
        return float(ends[0] or 0.0), float(ends[1] or 0.0)


class Counts(click.ParamType[tuple[int, ...]]):
    """Whole numbers from 1 between commas."""

    name = "N,N,.."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """The numbers, ascending and each once."""
        if isinstance(value, tuple):
            return value
        return tuple(sorted({COUNT.convert(part.strip(), param, ctx) for part in str(value).split(",")}))


class Mix(click.ParamType[tuple[tuple[float, int], ...]]):
    """Contexts, and how many sequences have each: ``500x16,32000x2``."""

    name = "TOKENSxN,.."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[float, int], ...]:
        """Lengths [tokens] with their numbers of sequences [1]."""
        if isinstance(value, tuple):
            return value
        mix = []
        for part in str(value).split(","):
            length, times, count = part.strip().partition("x")
            if not times:
                self.fail(f"{part!r} is no context with its number of sequences; write for example 500x16.", param, ctx)
            mix.append((NON_NEGATIVE.convert(length, param, ctx), COUNT.convert(count, param, ctx)))
        return tuple(mix)


class Chain(click.ParamType[tuple[tuple[str, int], ...]]):
    """Kinds of chips in the order of a chain, and how many there are of each: ``b200=2,h100_sxm=4``."""

    name = "HARDWARE=N,.."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[str, int], ...]:
        """Names or paths of hardware with numbers of chips [1]."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip().rpartition("=") for part in str(value).split(",") if part.strip()]
        odd = next((number for name, _, number in parts if not name), None)
        if odd is not None or not parts:
            self.fail(f"{odd or value!r} is no stage of a chain; write for example b200=2,h100_sxm=4.", param, ctx)
        chips = Name("hardware")
        return tuple((chips.convert(name, param, ctx), COUNT.convert(number, param, ctx)) for name, _, number in parts)


class Confidence(click.ParamType[float]):
    """The probability that a promise is kept: ``80``, ``80 %`` or ``0.8``."""

    name = "PERCENT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The probability [1]."""
        from inference_econ.engine import check_confidence
        from inference_econ.errors import InputError

        text = str(value).strip()
        number = _bare(text.removesuffix("%"))
        if number is None or not math.isfinite(number):
            self.fail(f"{value!r} is no probability; write for example 80.", param, ctx)
        share = number if number <= 1.0 and not text.endswith("%") else number / 100.0
        try:
            check_confidence(share)
        except InputError as error:
            self.fail(f"{str(error).removeprefix('confidence: ')}.", param, ctx)
        return share


PLACE = Place()
PICTURE = Picture(PICTURES)
CHART = Picture(CHARTS)
POSITIVE = Number(min=0, min_open=True)
NON_NEGATIVE = Number(min=0)
PROBABILITY = Number(min=0, max=1)
COUNT = Count()
WATTS, ANY_WATTS = Watts(), Watts(none=True)
DEGREE = Degree()
TIME = Time()
SPAN = Span()
TTFT = Latency(least_milliseconds=10, most_seconds=600)
E2E = Latency(least_milliseconds=100, most_seconds=36_000)
CONFIDENCE = Confidence()
PERCENTILE = Percentile()
TPOT = Latency(least_milliseconds=1, most_seconds=2)
