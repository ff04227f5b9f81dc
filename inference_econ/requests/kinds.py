"""Types of option values, which convert and check texts or JSON values; checks run before slow imports."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from inference_econ import inputs
from inference_econ.errors import InputError, UnitError, of_option
from inference_econ.inputs import ALIASES, BYTES_PER_ELEMENT, catalog, check_dtype
from inference_econ.inputs.units import integer, parse_quantity, real, shortened
from inference_econ.inputs.workload import percentiles
from inference_econ.records.files import CHARTS, PICTURES, check_page, check_picture, check_place

#: Placeholder of a number format in the help.
FORMAT = "FORMAT"
#: Range of accepted numbers [1]. Other numbers would overflow in calculations.
_SMALLEST, _LARGEST = 1e-15, 1e15
_BEYOND = f"is out of range; numbers from {_SMALLEST:g} to {_LARGEST:g} are possible."
#: Message if each number is valid, but together they overflow.
UNCOUNTABLE = "the numbers that were given are together too large or too small to calculate with; give others"
#: Upper limit on GPUs, concurrent requests and tokens of a step [1]; it is exact as a float.
_MOST = 1_000_000_000
#: Number of values for each workload in a mixture [1].
_PARTS = 3


class BadValueError(InputError):
    """Error for an invalid value. The message does not name the option; the caller adds it."""


class ValueKind:
    """Base class of option types. The base class itself accepts any text.

    Parameters
    ----------
    metavar : str
        Placeholder of the value in the help.
    """

    json: Any = float | str
    """JSON type of the value."""
    limits: Mapping[str, float] = {}
    """Limits of numbers, by the names of pydantic: ``ge``, ``gt``, ``le`` and ``lt``."""
    catalog: catalog.Kind | None = None
    """Kind of catalog entry, if the value is a catalog name."""

    def __init__(self, metavar: str = "TEXT") -> None:
        self.metavar = metavar

    def read(self, value: Any) -> Any:
        """Convert a text or a JSON value.

        Raises
        ------
        BadValueError
            If the value has another type.
        InputError
            If the value is invalid for another reason.
        """
        return str(value)

    def remark(self, value: object) -> str:
        """Note about how a name was interpreted, if it is not obvious; otherwise empty."""
        return "" if self.catalog is None else catalog.remark(self.catalog, str(value))

    def gather(self, values: Sequence[Any]) -> Any:
        """Combine the values of an option that is given several times."""
        return tuple(values)


class Flag(ValueKind):
    """Option without a value. A user may set it, leave it out, or negate it by ``--no-``.

    Parameters
    ----------
    value : object
        Value if the flag is set.
    absent : bool or None
        Value if the flag is left out.
    negative : bool
        True if the flag can be negated by ``--no-``.
    """

    json = bool

    def __init__(self, value: object = True, absent: bool | None = False, *, negative: bool = False) -> None:
        super().__init__()
        self.value, self.absent, self.negative = value, absent, negative

    def read(self, value: Any) -> Any:
        """Return the value of the option for a flag that is set (True) or negated (False)."""
        return value if self.value is True else self.value if value else None


class ChoiceKind(ValueKind):
    """Type of an option whose value is one of several words."""

    def __init__(self, words: Sequence[str], metavar: str = "") -> None:
        super().__init__(metavar)
        self.words, self.json = tuple(words), Literal[tuple(words)]

    def read(self, value: Any) -> str:
        """Check that the value is one of the words."""
        if value in self.words:
            return str(value)
        raise BadValueError(f"{value!r} is not one of {', '.join(map(repr, self.words))}.")


class FormatKind(ChoiceKind):
    """Type of an option whose value is a number format such as ``fp8``, or a common synonym."""

    def __init__(self) -> None:
        super().__init__([*BYTES_PER_ELEMENT, *ALIASES], FORMAT)

    def read(self, value: Any) -> str:
        """Return the name of the number format. The name may include a block or group size."""
        with contextlib.suppress(InputError):
            return check_dtype(value, "number format")
        chosen = super().read(value)
        return ALIASES.get(chosen, chosen)


class Number(ValueKind):
    """Type of an option whose value is a number in a range.

    Parameters
    ----------
    least, most : float, optional
        Smallest and largest number.
    above : bool
        True if the smallest number itself is excluded.
    whole : bool
        True for integers. If False, numbers must be finite and in the accepted range.
    any_size : bool
        True to accept finite numbers of any size.
    """

    def __init__(
        self,
        least: float | None = None,
        most: float | None = None,
        *,
        above: bool = False,
        whole: bool = False,
        any_size: bool = False,
    ) -> None:
        super().__init__("FLOAT" if any_size else "N" if whole else "NUMBER")
        self.json = int if whole else float | str if any_size else float
        self.least, self.most, self.above, self.whole, self.any_size = least, most, above, whole, any_size
        ends = {"gt" if above else "ge": least, "le": most}
        self.limits = {name: end for name, end in ends.items() if end is not None}

    @property
    def range(self) -> str:
        """Limits as text, such as ``0<=x<=1``; empty without limits."""
        if self.least is None or self.most is None:
            low = "" if self.least is None else f"x>{'' if self.above else '='}{self.least}"
            return low if self.most is None else f"x<={self.most}"
        return f"{self.least}<{'' if self.above else '='}x<={self.most}"

    def read(self, value: Any) -> Any:
        """Convert to a number. A negative zero becomes zero."""
        try:
            if isinstance(value, str):
                number = integer(value) if self.whole else real(value)
            else:
                number = int(value) if self.whole else float(value)
        except UnitError:
            raise BadValueError(
                f"{shortened(str(value))!r} is not a valid {'integer' if self.whole else 'number'}; write digits "
                "without a unit."
            ) from None
        low = self.least is not None and (number <= self.least if self.above else number < self.least)
        if low or (self.most is not None and number > self.most):
            raise BadValueError(f"{number} is not in the range {self.range}.")
        if self.whole or self.any_size:
            return number
        if not math.isfinite(number):
            raise BadValueError(f"{value} is not a finite number.")
        if not _meant(number):
            raise BadValueError(f"{value} {_BEYOND}")
        return number + 0.0


class Count(Number):
    """Integer of at least 1."""

    def __init__(self) -> None:
        super().__init__(1, whole=True)

    def read(self, value: Any) -> int:
        """Convert to an integer of at least 1."""
        number = int(super().read(value))
        if number > _MOST:
            raise BadValueError(f"{shortened(str(value))} is too large; at most {_MOST:,} are possible.")
        return number


class Name(ValueKind):
    """Name in the catalog, or a path."""

    json = str

    def __init__(self, kind: catalog.Kind) -> None:
        super().__init__("NAME|PATH")
        self.catalog: catalog.Kind = kind

    def read(self, value: Any) -> str:
        """Convert to the name in the catalog, or to a path."""
        return catalog.meaning(self.catalog, str(value)).name


class AnswerKind(Name):
    """Type of an argument that is the path of a saved result or the name of a model.

    HTTP requests accept only models.
    """

    def read(self, value: Any) -> str:
        """Return the text unchanged; the command interprets it."""
        return str(value)


class PlaceKind(ValueKind):
    """Type of an option that names an output file. All paths are checked before any file is written."""

    def __init__(self, check: Callable[[str], object] = str) -> None:
        super().__init__("PATH")
        self.check = check

    def read(self, value: Any) -> str:
        """Return the path if it can be written."""
        if value or self.check is check_page:
            self.check(value)
        if not value:
            raise BadValueError("the name of the file to write is empty.")
        check_place(value)
        return str(value)


class FileKind(ValueKind):
    """Path of an input file."""

    json = str


class FolderKind(ValueKind):
    """Path of a folder that may not exist yet."""

    def read(self, value: Any) -> str:
        """Return the path, unless it is a file."""
        with contextlib.suppress(OSError, ValueError):
            if Path(value).is_file():
                raise BadValueError(f"Directory {value!r} is a file.")
        return str(value)


class Parsed(ValueKind):
    """Type of an option whose value a function parses.

    Parameters
    ----------
    metavar : str
        Placeholder of the value in the help.
    parse : callable
        Function that parses a text, and raises an InputError that names invalid text.
    subject : str
        Text at the start of the parser's messages that repeats the option name; :meth:`read` removes this text.
    json : type
        JSON type of the value.
    """

    def __init__(self, metavar: str, parse: Callable[[str], Any], subject: str = "", json: Any = float | str) -> None:
        super().__init__(metavar)
        self.parse, self.subject, self.json = parse, subject, json

    def read(self, value: Any) -> Any:
        """Parse a text. Values that are already parsed are unchanged."""
        if isinstance(value, tuple):
            return value
        try:
            return self.parse(",".join(map(str, value)) if isinstance(value, list) else str(value))
        except InputError as error:
            raise BadValueError(f"{str(error).removeprefix(self.subject).removesuffix('.')}.") from error


class PriceKind(ValueKind):
    """Type of an option with one price for all GPUs, or one price for each GPU."""

    def gather(self, values: Sequence[Any]) -> Rate | Mapping[str, Rate] | None:
        """Combine the values of the option: one price for all GPUs, prices by GPU, or None without a value.

        Raises
        ------
        BadValueError
            If a text is not a price, or a price for all GPUs is combined with another price.
        """
        if len(values) == 1 and "=" not in values[0]:
            return _rate(values[0])
        by_chip: dict[str, Rate] = {}
        for text in values:
            name, sign, rate = (part.strip() for part in text.rpartition("="))
            with of_option("price"):
                chip = catalog.meaning("hardware", name).name if sign else ""
            if not chip or chip in by_chip:
                raise BadValueError(f"{text!r}: write one price for all, or HARDWARE=PRICE once for each chip.")
            by_chip[chip] = _rate(rate)
        return by_chip or None


class Pair(ValueKind):
    """Type of an option with two values: a model and a GPU."""

    json = str
    parts = (Name("models"), Name("hardware"))

    def read(self, value: Any) -> tuple[str, ...]:
        """Return the names of the model and the GPU.

        Raises
        ------
        BadValueError
            If there are fewer or more than two names.
        """
        words = value.split() if isinstance(value, str) else value
        if len(words) != len(self.parts):
            raise BadValueError(f"{value!r} is not a model and a GPU; write for example 'llama_3_8b h100_sxm'")
        return tuple(part.read(word) for part, word in zip(self.parts, words, strict=True))


#: Price of one GPU [USD/h]. As text, it is a kind of price, or a price per node [USD/h].
Rate = float | str


def _rate(text: str) -> Rate:
    try:
        real(text)
    except UnitError:
        try:
            return inputs.prices.checked(text)
        except InputError as error:
            raise BadValueError(f"{error}.") from error
    return float(POSITIVE.read(text))


def _meant(number: float) -> bool:
    """Return True if a number is 0 or so far from the limits of floats that calculations with it cannot overflow."""
    return number == 0.0 or _SMALLEST <= abs(number) <= _LARGEST


def _bare(text: str) -> float | None:
    """Number in a text without a unit; None if the text has a unit."""
    try:
        return real(text)
    except UnitError:
        return None


def _watts(text: str, *, zero: bool = False) -> float:
    """Power with its unit, or a number in watts; above 0, or at least 0 with ``zero`` [W]."""
    watts = parse_quantity(text, "W")
    if watts < 0 or not _meant(watts) or (watts == 0 and not zero):
        raise InputError(f"{shortened(text)} is not a valid power; write for example 500W or 1MW")
    return watts


def _degree(text: str) -> int | str:
    """Integer of at least 1, or ``any`` to search over the degree."""
    if text.strip().lower() == "any":
        return "any"
    try:
        return COUNT.read(text)
    except BadValueError as error:
        raise InputError(f"{str(error).rstrip('.')}; or write 'any' to try all") from error


def _time(text: str) -> float:
    """Positive time with a unit, such as ``60 s`` [s]."""
    if _bare(text) is not None:
        raise InputError(f"{text} has no unit, and could be seconds or minutes; write '{text} s'")
    return _positive(parse_quantity(text, "s"), text)


def _positive(seconds: float, text: str) -> float:
    """Return a time if it is positive and in the accepted range [s]; otherwise raise an error."""
    if not (math.isfinite(seconds) and seconds > 0):
        raise InputError(f"{text} is not a positive time; write for example '30 ms'")
    if not _meant(seconds):
        raise InputError(f"{text}: {seconds:g} s {_BEYOND}")
    return seconds


def _percentile(text: str) -> str:
    """Statistic of an SLO: ``mean``, or ``p1`` to ``p99.9``. The number 95 means p95."""
    return percentiles.percentile(f"p{text}" if text[:1].isdigit() else text)


#: Advice on a latency SLO that cannot be read.
_TIME_FORMS = "write the milliseconds, without a unit or as '30 ms', or leave it out"


def _latency(least_milliseconds: float, most_seconds: float) -> Parsed:
    """SLO on a latency. A number without a unit is in milliseconds, as in load generators. A percentile is optional.

    Parameters
    ----------
    least_milliseconds : float
        Smallest accepted number without a unit [ms]. Smaller numbers were probably meant as seconds.
    most_seconds : float
        Longest accepted time [s]. Longer times were probably meant as milliseconds.
    """

    def read(text: str) -> float | str:
        promise = percentiles.promise(text)
        time, milliseconds = promise.time, _bare(promise.time)
        if not any(map(str.isdigit, time)):
            raise InputError(f"{time!r} is not a time; {_TIME_FORMS}")
        seconds = _positive(parse_quantity(time, "s") if milliseconds is None else milliseconds / 1e3, time)
        if milliseconds is not None and milliseconds < least_milliseconds:
            raise InputError(
                f"{time} means {milliseconds:g} ms, because numbers without a unit are milliseconds; write "
                f"{1e3 * milliseconds:g} if {time} s is meant, or '{time} ms' if it is that"
            )
        if seconds > most_seconds:
            raise InputError(
                f"{time} means {seconds:g} s, longer than the longest possible SLO (at most "
                f"{most_seconds:g} s); {_TIME_FORMS}"
            )
        return seconds if promise.percentile is None else f"{promise.percentile}:{seconds!r} s"

    return Parsed("[PN:]MS|TIME", read)


def _rates(text: str) -> tuple[float, ...]:
    """Positive numbers, separated by commas; their order is kept."""
    rates = [_bare(part) for part in text.split(",")]
    if not all(rate is not None and 0 < rate < math.inf for rate in rates):
        raise InputError(f"{text!r} is not a list of positive numbers; write for example 1,2,5,10")
    beyond = next((rate for rate in rates if rate and not _meant(rate)), None)
    if beyond is not None:
        raise InputError(f"{beyond:g} {_BEYOND}")
    return tuple(rate or 0.0 for rate in rates)


def _span(text: str) -> tuple[float, float]:
    """Two positive ratios from a text with a comma; the smaller ratio is first."""
    ends = [_bare(part) for part in text.split(",")]
    if len(ends) != 2 or any(end is None or not 0 < end < math.inf for end in ends):
        raise InputError(f"{text!r} is not a pair of positive ratios; write for example 0.8,1.25")
    return float(ends[0] or 0.0), float(ends[1] or 0.0)


def _counts(text: str) -> tuple[int, ...]:
    """Integers of at least 1 from a text with commas, ascending and without duplicates."""
    return tuple(sorted({COUNT.read(part.strip()) for part in text.split(",")}))


def _mix(text: str) -> tuple[tuple[float, int], ...]:
    """Contexts [tokens], each with its number of sequences [1]: ``500x16,32000x2``."""
    parts = [part.strip().partition("x") for part in text.split(",")]
    for length, times, _ in parts:
        if not times:
            raise InputError(f"{length!r} is not a context length with a number of sequences; write for example 500x16")
    return tuple((NON_NEGATIVE.read(length), COUNT.read(count)) for length, _, count in parts)


def _workloads(text: str) -> tuple[tuple[float, ...], ...]:
    """Workloads, each with input tokens, output tokens and share: ``500:200:0.7,3000:300:0.3``."""
    rows = [[_bare(part) for part in row.split(":")] for row in text.split(",")]
    known = [tuple(part for part in row if part is not None) for row in rows]
    if any(len(row) != len(asked) or len(row) != _PARTS for row, asked in zip(known, rows, strict=True)):
        raise InputError(
            f"{text!r} is not a mix of workloads; write ISL:OSL:SHARE for each, for example 500:200:0.7,3000:300:0.3"
        )
    return tuple(known)


def _chain(text: str) -> tuple[tuple[str, int], ...]:
    """GPU types along a prefill chain (KV-Runahead), each with its number of GPUs: ``b200=2,h100_sxm=4``."""
    parts = [part.strip().rpartition("=") for part in text.split(",") if part.strip()]
    odd = next((number for name, _, number in parts if not name), None)
    if odd is not None or not parts:
        raise InputError(f"{odd or text!r} is not a stage of a chain; write for example b200=2,h100_sxm=4")
    chips = Name("hardware")
    return tuple((chips.read(name), COUNT.read(number)) for name, _, number in parts)


def _gigabytes(text: str, unit: str) -> float:
    """Memory or bandwidth above 0 [B or B/s]. A number without a unit is in GB or GB/s."""
    bare = _bare(text)
    size = parse_quantity(text, unit) if bare is None else 1e9 * bare
    if not 1e6 <= size <= 1e15:
        raise InputError(f"{text!r} is out of range; write for example {'64' if unit == 'B' else '89.6'}")
    return size


def _times(text: str) -> float:
    """Factor of at least 1: ``3x`` or ``3``."""
    factor = _bare(text.strip().lower().removesuffix("x"))
    if factor is None or not 1.0 <= factor < math.inf:
        raise InputError(f"{text!r} is not a factor of at least 1; write for example 3x")
    return factor


def _percent(text: str) -> float:
    """Percentage. A share such as 0.3 is rejected, because it could mean 30% or 0.3%."""
    number = _bare(text.strip().removesuffix("%"))
    if number is None or not 0.0 <= number < math.inf:
        raise InputError(f"{text!r} is not a percentage; write for example 30")
    if 0.0 < number < 1.0 and not text.strip().endswith("%"):
        raise InputError(f"{text} could be a share; write {100.0 * number:g} for {100.0 * number:g} %, or '{text}%'")
    return number


def _confidence(text: str) -> float:
    """Probability that an SLO is met: ``80``, ``80 %`` or ``0.8`` [1]."""
    from inference_econ.engine import check_confidence

    number = _bare(text.strip().removesuffix("%"))
    if number is None or not math.isfinite(number):
        raise InputError(f"{text!r} is not a probability; write for example 80")
    share = number if number <= 1.0 and not text.strip().endswith("%") else number / 100.0
    check_confidence(share)
    return share


#: Types by the names that option tables use. Tables may also have words (``1d|2d``) and integer ranges (``1..``).
COUNT = Count()
POSITIVE, NON_NEGATIVE = Number(0, above=True), Number(0)
DEGREE = Parsed("N|ANY", _degree, json=int | Literal["any"])
TIME, TTFT, TPOT, E2E = Parsed("TIME", _time), _latency(10, 600), _latency(1, 2), _latency(100, 36_000)
RATES = Parsed("RATE,RATE,..", _rates, json=list[float] | float | str)
_KINDS: Mapping[str, ValueKind] = {
    "": ValueKind(), "lengths": ValueKind(), "text": ValueKind(), "words": ValueKind(),
    "answer": AnswerKind("models"),
    "any_watts": Parsed("WATTS", partial(_watts, zero=True)),
    "assumptions": Name("assumptions"),
    "carbon": ValueKind("GRID|G/KWH"),
    "chain": Parsed("HARDWARE=N,..", _chain),
    "chart": PlaceKind(partial(check_picture, endings=CHARTS)),
    "confidence": Parsed("PERCENT", _confidence, "confidence: "),
    "count": COUNT,
    "counts": Parsed("N,N,..", _counts),
    "degree": DEGREE,
    "e2e": E2E,
    "either": Flag(absent=None, negative=True),
    "engine": ValueKind("NAME[@VERSION]"),
    "engines": Name("engines"),
    "figure": PlaceKind(partial(check_picture, endings=(*PICTURES, ".csv"))),
    "file": FileKind("PATH"),
    "flag": Flag(),
    "folder": FolderKind("DIRECTORY"),
    "format": FormatKind(),
    "gigabytes": Parsed("GB", partial(_gigabytes, unit="B")),
    "gigabytes_per_second": Parsed("GB/S", partial(_gigabytes, unit="B/s")),
    "hardware": Name("hardware"),
    "mix": Parsed("TOKENSXN,..", _mix),
    "model": Name("models"),
    "model_and_chip": Pair(),
    "non_negative": NON_NEGATIVE,
    "number": Number(),
    "number_from_1": Number(1),
    "percent": Parsed("PERCENT", _percent),
    "percentile": Parsed("MEAN|PN", _percentile, "percentile: ", json=str),
    "picture": PlaceKind(partial(check_picture, endings=PICTURES)),
    "place": PlaceKind(),
    "positive": POSITIVE,
    "price": PriceKind("[HARDWARE=]USD[/node]|KIND"),
    "probabilities": ValueKind("P|P,P,..."),
    "probability": Number(0, 1),
    "rates": RATES,
    "real": Number(any_size=True),
    "recomputed": Flag("recomputed", absent=None),
    "report": PlaceKind(check_page),
    "scenarios": Name("scenarios"),
    "scv": Number(0, 1000),
    "share": Number(0, 1, above=True),
    "span": Parsed("LOW,HIGH", _span),
    "switch": Flag(negative=True),
    "tiers": ValueKind("NAME|PATH"),
    "time": TIME,
    "times": Parsed("FACTOR", _times),
    "tpot": TPOT,
    "traffic": Name("traffic"),
    "workloads": Parsed("ISL:OSL:SHARE,..", _workloads),
    "ttft": TTFT,
    "watts": Parsed("WATTS", _watts),
    "what_ifs": ValueKind("KEY=VALUE"),
    "yes": Flag(),
}  # fmt: skip


def kind(name: str) -> ValueKind:
    """Return the option type that an option table names: words (``1d|2d``), an integer range (``1..``), or a name."""
    if "|" in name:
        return ChoiceKind(name.split("|"))
    if ".." in name:
        least, most = (integer(end) if end else None for end in name.split(".."))
        return Number(least, most, whole=True)
    return _KINDS[name]
