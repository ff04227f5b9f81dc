"""Kinds of values that options take, each checked before anything heavy is loaded."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import click
from click.shell_completion import CompletionItem

from inference_econ.errors import InputError
from inference_econ.inputs import ALIASES, BYTES_PER_ELEMENT, catalog, check_dtype, percentiles
from inference_econ.inputs.units import parse_quantity
from inference_econ.records.files import CHARTS, PICTURES, check_picture, check_place

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


class Report(Place):
    """A file to write that a browser opens."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The path itself, if it can be written and is named like a page."""
        from inference_econ.report.web import check_name

        check_name(value)
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


class Parsed(click.ParamType[Any]):
    """A value that a function reads.

    Parameters
    ----------
    name : str
        How the help writes it.
    read : callable
        Reads a text; an InputError says what of it cannot be read.
    subject : str
        What messages begin with that need not be said of the option.
    """

    def __init__(self, name: str, read: Callable[[str], Any], subject: str = "") -> None:
        self.name, self.read, self.subject = name, read, subject

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Value that the function reads; one that was read before stays as it is."""
        if isinstance(value, tuple):
            return value
        try:
            return self.read(",".join(map(str, value)) if isinstance(value, list) else str(value))
        except click.BadParameter as error:
            message = error.message
        except InputError as error:
            message = str(error).removeprefix(self.subject)
        raise click.BadParameter(f"{message.removesuffix('.')}.", ctx, param)


def _meant(number: float) -> bool:
    """Return whether products and powers of a number stay far from the ends of floating point."""
    return number == 0.0 or _SMALLEST <= abs(number) <= _LARGEST


def _shortened(text: str) -> str:
    """A long number by how it begins."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}.. ({len(text)} digits)"


def _bare(text: str) -> float | None:
    """The number that a text without a unit is; None of texts with one."""
    try:
        return float(text)
    except ValueError:
        return None


def _watts(text: str, *, zero: bool = False) -> float:
    """Power with its unit, or in watts: above 0, or from 0 [W]."""
    watts = parse_quantity(text, "W")
    if watts < 0 or not _meant(watts) or (watts == 0 and not zero):
        raise InputError(f"{_shortened(text)} is no power that there can be; write for example 500W or 1MW")
    return watts


def _degree(text: str) -> int | str:
    """A whole number from 1, or ``any`` for all that can be."""
    if text.strip().lower() == "any":
        return "any"
    try:
        return COUNT.convert(text, None, None)
    except click.BadParameter as error:
        raise InputError(f"{error.message.rstrip('.')}; or write 'any' to try all") from error


def _time(text: str) -> float:
    """A positive time with its unit, such as ``60 s`` [s]."""
    if _bare(text) is not None:
        raise InputError(f"{text} has no unit, and could be seconds or minutes; write '{text} s'")
    return _positive(parse_quantity(text, "s"), text)


def _positive(seconds: float, text: str) -> float:
    """Seconds that can be meant; refused otherwise [s]."""
    if not (math.isfinite(seconds) and seconds > 0):
        raise InputError(f"{text} is not a positive time; write for example '30 ms'")
    if not _meant(seconds):
        raise InputError(f"{text}: {seconds:g} s {_BEYOND}")
    return seconds


def _percentile(text: str) -> str:
    """Percentile of requests that see a promise: ``mean``, or any of ``p1`` to ``p99.9``; 95 means nothing else."""
    return percentiles.percentile(f"p{text}" if text[:1].isdigit() else text)


def _latency(least_milliseconds: float, most_seconds: float) -> Parsed:
    """A promised latency: milliseconds, as load generators have it, or a time with its unit; perhaps of a percentile.

    Parameters
    ----------
    least_milliseconds : float
        Bare numbers below were meant as seconds [ms].
    most_seconds : float
        Times beyond were meant as milliseconds [s].
    """

    def read(text: str) -> float | str:
        promise = percentiles.promise(text)
        time, milliseconds = promise.time, _bare(promise.time)
        seconds = _time(time) if milliseconds is None else _positive(milliseconds / 1e3, time)
        if milliseconds is not None and milliseconds < least_milliseconds:
            raise InputError(
                f"{time} would be {milliseconds:g} ms, as numbers without a unit are milliseconds; write "
                f"{1e3 * milliseconds:g} if {time} s is meant, or '{time} ms' if it is that"
            )
        if seconds > most_seconds:
            raise InputError(
                f"{time} would be {seconds:g} s, longer than what anybody is promised (at most "
                f"{most_seconds:g} s); write the milliseconds, without a unit or as '30 ms', or leave it out"
            )
        return seconds if promise.percentile is None else f"{promise.percentile}:{seconds!r} s"

    return Parsed("[pN:]MS|TIME", read)


def _rates(text: str) -> tuple[float, ...]:
    """Positive numbers between commas, in the order given."""
    rates = [_bare(part) for part in text.split(",")]
    if not all(rate is not None and 0 < rate < math.inf for rate in rates):
        raise InputError(f"{text!r} is no list of positive numbers; write for example 1,2,5,10")
    beyond = next((rate for rate in rates if rate and not _meant(rate)), None)
    if beyond is not None:
        raise InputError(f"{beyond:g} {_BEYOND}")
    return tuple(rate or 0.0 for rate in rates)


def _span(text: str) -> tuple[float, float]:
    """Two positive ratios between a comma, the lower one first."""
    ends = [_bare(part) for part in text.split(",")]
    if len(ends) != 2 or any(end is None or not 0 < end < math.inf for end in ends):
        raise InputError(f"{text!r} is no pair of positive ratios; write for example 0.8,1.25")
    return float(ends[0] or 0.0), float(ends[1] or 0.0)


def _counts(text: str) -> tuple[int, ...]:
    """Whole numbers from 1 between commas: ascending, and each once."""
    return tuple(sorted({COUNT.convert(part.strip(), None, None) for part in text.split(",")}))


def _mix(text: str) -> tuple[tuple[float, int], ...]:
    """Contexts [tokens], and how many sequences have each [1]: ``500x16,32000x2``."""
    parts = [part.strip().partition("x") for part in text.split(",")]
    for length, times, _ in parts:
        if not times:
            raise InputError(f"{length!r} is no context with its number of sequences; write for example 500x16")
    return tuple(
        (NON_NEGATIVE.convert(length, None, None), COUNT.convert(count, None, None)) for length, _, count in parts
    )


def _chain(text: str) -> tuple[tuple[str, int], ...]:
    """Kinds of chips in the order of a chain, and how many there are of each: ``b200=2,h100_sxm=4``."""
    parts = [part.strip().rpartition("=") for part in text.split(",") if part.strip()]
    odd = next((number for name, _, number in parts if not name), None)
    if odd is not None or not parts:
        raise InputError(f"{odd or text!r} is no stage of a chain; write for example b200=2,h100_sxm=4")
    chips = Name("hardware")
    return tuple((chips.convert(name, None, None), COUNT.convert(number, None, None)) for name, _, number in parts)


def _confidence(text: str) -> float:
    """The probability that a promise is kept: ``80``, ``80 %`` or ``0.8`` [1]."""
    from inference_econ.engine import check_confidence

    number = _bare(text.strip().removesuffix("%"))
    if number is None or not math.isfinite(number):
        raise InputError(f"{text!r} is no probability; write for example 80")
    share = number if number <= 1.0 and not text.strip().endswith("%") else number / 100.0
    check_confidence(share)
    return share


#: Types of options by the kinds that tables of options name, in capital letters.
PLACE, PICTURE, CHART = Place(), Picture(PICTURES), Picture(CHARTS)
POSITIVE, NON_NEGATIVE, PROBABILITY = Number(min=0, min_open=True), Number(min=0), Number(min=0, max=1)
COUNT = Count()
WATTS, ANY_WATTS = Parsed("WATTS", _watts), Parsed("WATTS", partial(_watts, zero=True))
DEGREE = Parsed("N|any", _degree)
TIME = Parsed("TIME", _time)
TTFT, TPOT, E2E = _latency(10, 600), _latency(1, 2), _latency(100, 36_000)
CONFIDENCE = Parsed("PERCENT", _confidence, "confidence: ")
PERCENTILE = Parsed("mean|pN", _percentile, "percentile: ")
RATES, COUNTS, SPAN = Parsed("RATE,RATE,..", _rates), Parsed("N,N,..", _counts), Parsed("LOW,HIGH", _span)
MIX, CHAIN = Parsed("TOKENSxN,..", _mix), Parsed("HARDWARE=N,..", _chain)
NUMBER, NUMBER_FROM_1, SCV, REAL = Number(), Number(min=1), Number(min=0, max=1000), float
FILE, FOLDER, REPORT = click.Path(), click.Path(file_okay=False), Report()
MODEL, HARDWARE, ENGINES, TRAFFIC = Name("models"), Name("hardware"), Name("engines"), Name("traffic")
ASSUMPTIONS, SCENARIOS, MODEL_AND_CHIP = Name("assumptions"), Name("scenarios"), (MODEL, HARDWARE)
