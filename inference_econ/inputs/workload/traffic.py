"""Workload of a server: arrivals, lengths, prefix reuse and sessions of requests."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs._spec import (
    TAG,
    AfterValidator,
    BeforeValidator,
    Count,
    Discriminator,
    Field,
    Seconds,
    SourcedSpec,
    Spec,
    Tag,
    in_file,
)

if TYPE_CHECKING:
    from pydantic import ValidationInfo
    from pydantic_core import InitErrorDetails

Tokens = Annotated[int | float, Field(ge=0, allow_inf_nan=False)]
_Part = Annotated[int | float, Field(gt=0, le=1e12)]
#: Contexts [tokens], each with the number or the share of the sequences that have it [1].
Mix = Annotated[tuple[Annotated[tuple[Tokens, _Part], Field(strict=False)], ...], Field(min_length=1, strict=False)]
LONGEST, _MOST_VARIED = 1e9, 100.0
AtLeastOne = Annotated[int | float, Field(ge=1, le=LONGEST, allow_inf_nan=False)]

_FORMS = "2000, uniform:1600:2400, lognormal:2000:0.5 (mean, coefficient of variation), 500@0.25,2000@0.75"


def check_lengths(context: object, contexts: object, isl: object, osl: object) -> None:
    """Raise ValueError if more than one of ``context``, ``contexts``, and the request lengths is given."""
    if context is not None and contexts is not None:
        raise ValueError("give either context or contexts, not both")
    name = "context" if context is not None else "contexts" if contexts is not None else None
    if name is not None and (isl is not None or osl is not None):
        raise ValueError(f"give either {name}, or isl and osl, not both")


class Length(Spec):
    """Length of a prompt or an output: a fixed number, or a distribution.

    Examples
    --------
    >>> Length.parse("uniform:800:1000").mean, Length.parse("500@0.25,2000@0.75").mean
    (900.0, 1625.0)
    >>> Length.parse("lognormal:2000:0.80").text
    'lognormal:2000:0.8'
    """

    kind: Literal["fixed", "uniform", "lognormal", "listed"] = "fixed"
    """Kind of distribution."""
    values: Annotated[tuple[AtLeastOne, ...], Field(min_length=1, strict=False)]
    """Values that define the distribution: the length (``fixed``); minimum and maximum (``uniform``); the mean
    (``lognormal``); or all possible lengths (``listed``) [tokens].
    """
    probabilities: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field(default=(), strict=False)
    """Probability of each listed value [1]."""
    variation: Annotated[int | float, Field(ge=0, le=_MOST_VARIED, allow_inf_nan=False)] = 0
    """Coefficient of variation of a lognormal distribution [1]."""

    def _check_fields(self) -> None:
        if self.kind == "listed" and (
            len(self.probabilities) != len(self.values) or abs(math.fsum(self.probabilities) - 1) > 1e-6
        ):
            total = math.fsum(self.probabilities)
            raise ValueError(f"each listed length needs a probability, and they must add up to 1, got {total:g}")
        if self.kind == "uniform" and not (len(self.values) == 2 and self.values[0] <= self.values[1]):
            raise ValueError("a uniform length needs its least and its largest value, in this order")

    @classmethod
    def parse(cls, text: object) -> Length:
        """Create a length from a number or a text.

        Raises
        ------
        InputError
            If the text has an unknown form, or its numbers are out of range.
        """
        if isinstance(text, Length):
            return text
        kind, *numbers = str(text).split(":")
        try:
            fields: dict[str, Any]
            if kind in ("uniform", "lognormal") and len(numbers) == 2:
                first, second = (float(number) for number in numbers)
                ends = {"values": (first, second)} if kind == "uniform" else {"values": (first,), "variation": second}
                fields = {"kind": kind, **ends}
            elif "@" in kind and not numbers:
                pairs = [(float(value), float(share)) for value, share in (part.split("@") for part in kind.split(","))]
                values, probabilities = zip(*pairs, strict=True)
                fields = {"kind": "listed", "values": values, "probabilities": probabilities}
            elif not numbers:
                fixed = (float(kind),)
                _check(text, fixed)
                return cls.model_construct(values=fixed)
            else:
                raise ValueError(kind)
            _check(text, fields["values"], fields.get("variation", 0.0))
            return cls(**fields)
        except ValueError as error:
            raise InputError(f"{text!r} is not a valid length; write for example {_FORMS}") from error
        except SpecError as error:
            mistakes = "; ".join(mistake.removeprefix("Length: ") for mistake in error.mistakes)
            raise InputError(f"{text!r} is not a valid length: {mistakes}") from error

    @property
    def text(self) -> str:
        """Length as text for :meth:`parse`."""
        values = [f"{value:.10g}" for value in self.values]
        if self.kind == "listed":
            return ",".join(f"{value}@{share:g}" for value, share in zip(values, self.probabilities, strict=True))
        named = () if self.kind == "fixed" else (self.kind,)
        varied = (f"{self.variation:g}",) if self.kind == "lognormal" else ()
        return ":".join((*named, *values, *varied))

    @property
    def mean(self) -> float:
        """Mean length [tokens]."""
        if self.kind == "listed":
            return math.fsum(v * p for v, p in zip(self.values, self.probabilities, strict=True))
        return math.fsum(self.values) / len(self.values)

    @property
    def least(self) -> float:
        """Minimum length [tokens]. A lognormal distribution has no minimum, so its mean is returned."""
        return float(min(self.values))

    @property
    def longest(self) -> float:
        """Maximum length [tokens]. A lognormal distribution has no maximum, so its 99.9th percentile is returned."""
        if self.kind != "lognormal":
            return float(max(self.values))
        variance = math.log1p(self.variation**2)
        return float(self.values[0] * math.exp(NormalDist().inv_cdf(0.999) * math.sqrt(variance) - variance / 2.0))

    @property
    def scv(self) -> float:
        """Squared coefficient of variation [1]."""
        if self.kind == "listed":
            squares = math.fsum(v * v * p for v, p in zip(self.values, self.probabilities, strict=True))
            return max(squares / self.mean**2 - 1.0, 0.0)
        if self.kind == "uniform":
            return float((self.values[1] - self.values[0]) ** 2 / 12 / self.mean**2)
        return float(self.variation**2)


def _check(text: object, values: Sequence[float], variation: float = 0.0) -> None:
    """Reject invalid token counts and variations.

    Raises
    ------
    InputError
        If a number is out of range; the message names the first such number.
    """
    wrong = [value for value in values if not 1.0 <= value <= LONGEST]
    if wrong:
        raise InputError(f"{text!r} is not a valid length: from 1 to {LONGEST:g} tokens are possible, got {wrong[0]:g}")
    if not 0.0 <= variation <= _MOST_VARIED:
        raise InputError(
            f"{text!r} is not a valid length: the coefficient of variation must be from 0 to {_MOST_VARIED:g}, "
            f"got {variation:g}"
        )


def length_of(value: object, info: ValidationInfo) -> Length:
    """Read a length in a field; errors name the field."""
    try:
        return Length.parse(value)
    except InputError as error:
        raise InputError(f"{info.field_name}: {error}") from error


#: Length in a file, as :meth:`~inference_econ.inputs.Length.parse` reads it.
SessionLengths = Annotated[Length, BeforeValidator(in_file(Length.parse))]


class Step(Spec):
    """Consecutive turns of an agent. The prompt of a turn contains the conversation so far, and new tokens.

    Examples
    --------
    >>> Step(name="work", new_tokens=800, answer_tokens="lognormal:300:1", turns=20, pause=4).pause
    4.0
    """

    name: str = Field(min_length=1)
    """Name of the step, by which later steps refer to the step."""
    turns: SessionLengths = Length.model_construct(values=(1.0,))
    """Number of turns [1]. Every session has a random number from the distribution, rounded to an integer."""
    new_tokens: SessionLengths
    """Tokens that each turn adds to the prompt, such as a question or tool output [tokens]."""
    first_tokens: SessionLengths | None = None
    """Tokens that the first turn adds, if different: for example a task and initial files [tokens]."""
    answer_tokens: SessionLengths
    """Length of the output of a turn, which later prompts contain [tokens]."""
    pause: Seconds = 0.0
    """Mean time between an output and the next turn [s]. The agent runs tools in this time, or the user thinks."""
    pause_variation: Annotated[int | float, Field(ge=0, le=100, allow_inf_nan=False)] = 0.0
    """Coefficient of variation of the pause, which has a lognormal distribution [1]."""
    after: tuple[str, ...] = Field(default=(), strict=False)
    """Earlier steps that must end before this step starts."""
    continues: str | None = None
    """Earlier step whose conversation this step continues. By default, the step starts from the shared prompt."""
    agents: Annotated[int, Field(ge=1, le=1000)] = 1
    """Number of agents that run the step in parallel, with separate prompts [1]."""


def _no_circle(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Reject cyclic or missing dependencies, and steps that continue a step for which they do not wait."""
    from pydantic import ValidationError
    from pydantic_core import InitErrorDetails, PydanticCustomError

    mistakes: list[InitErrorDetails] = []
    above: dict[str, Step] = {}

    def refuse(field: str, value: object, problem: str) -> None:
        error = PydanticCustomError("sessions", "{problem}", {"problem": problem})
        mistakes.append(InitErrorDetails(type=error, loc=(len(above), field), input=value))

    for step in steps:
        listed = ", ".join(above) or "none"
        if not set(step.after) <= set(above):
            refuse("after", list(step.after), f"steps can wait for steps above them alone, here {listed}, so that "
                   "they never wait in a circle")  # fmt: skip
        elif step.continues is not None and step.continues not in step.after:
            refuse("continues", step.continues, "what a step carries on must be in its 'after'")
        elif step.continues is not None and above[step.continues].agents > 1:
            refuse("continues", step.continues, "a step of several agents has no single prompt to carry on")
        if step.name in above:
            refuse("name", step.name, "every step needs its own name")
        above[step.name] = step
    if mistakes:
        raise ValidationError.from_exception_data("steps", mistakes)
    return steps


class SessionSpec(Spec):
    """Session of a user or an agent, from the task to the end.

    A session consists of steps, which can depend on earlier steps.

    Examples
    --------
    >>> chat = SessionSpec(steps=[Step(name="chat", turns=5, new_tokens=100, answer_tokens=200, pause=30)])
    >>> chat.longest_context
    1500.0
    """

    shared_tokens: Tokens = 0
    """Tokens at the start of all prompts, such as instructions and tool descriptions [tokens]."""
    steps: Annotated[tuple[Step, ...], Field(min_length=1, strict=False), AfterValidator(_no_circle)]
    """Steps in order: each step comes after the steps for which it waits."""
    rest: Seconds = 0.0
    """Mean time between sessions of the same agent [s]."""
    compacts_at: Annotated[int, Field(ge=1)] | None = None
    """Maximum length of prompt plus output [tokens].

    If a turn would exceed this length, the agent continues with a summary of its conversation. New tokens that do not
    fit after the summary are cut off.
    """
    summary_tokens: Annotated[int, Field(ge=0)] = 2000
    """Length of the summary that replaces a conversation at ``compacts_at`` [tokens]."""

    @property
    def longest_context(self) -> float:
        """Prompt plus output of the last turn of the longest session [tokens].

        The number of turns and the tokens of first turns are at their maximum; other lengths are at their mean.
        """
        ends: dict[str | None, float] = {None: float(self.shared_tokens)}
        for step in self.steps:
            first = step.new_tokens if step.first_tokens is None else step.first_tokens
            further = max(round(step.turns.longest), 1) - 1
            answers = (further + 1) * step.answer_tokens.mean
            ends[step.name] = ends[step.continues] + first.longest + further * step.new_tokens.mean + answers
        longest = max(ends.values())
        return longest if self.compacts_at is None else min(longest, float(self.compacts_at))


def _named(kind: str, lengths: Sequence[object]) -> dict[str, Any]:
    """Assign the names ``isl`` and ``osl`` to lengths that are given by position."""
    if len(lengths) > 2:
        raise InputError(f"{kind} takes isl and osl by position, got {len(lengths)} values; name the others")
    return dict(zip(("isl", "osl"), lengths, strict=False))


def _are_tokens(values: Iterable[object]) -> bool:
    """Return True if all values are finite numbers of at least 0."""
    return all(type(value) in (int, float) and 0 <= value < math.inf for value in values)  # type: ignore[operator]


class Traffic(Spec):
    """Requests with fixed lengths, or decode steps with a fixed context.

    Set ``context``, ``contexts``, or ``isl`` and ``osl``. ``context`` is equal for all sequences, as in published
    studies. ``contexts`` are different contexts in one batch. With ``isl`` and ``osl``, the mean context of a decode
    step is ``isl + osl / 2``.

    Examples
    --------
    >>> Traffic(isl=2000, osl=500).mean_context, Traffic(2000, 500).mean_context
    (2250.0, 2250.0)
    """

    isl: Tokens | None = None
    """Input tokens per request [tokens]."""
    osl: Annotated[int | float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Output tokens per request [tokens]."""
    context: Tokens | None = None
    """Cached tokens of a sequence in a decode step [tokens]."""
    contexts: Mix | None = None
    """Contexts in a batch [tokens], each with the number or the share of the sequences that have it [1]."""
    max_tokens_per_second: Annotated[int | float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Demand: maximum output rate that an instance can sell [tokens/s]."""

    def __init__(self, *lengths: float, **fields: Any) -> None:
        super().__init__(**_named("Traffic", lengths), **fields)

    @classmethod
    def build(cls, data: Mapping[str, object], *, origin: str) -> Self:
        """Validate plain data; valid numbers need no import of pydantic."""
        positive = 0 not in (data.get("osl"), data.get("max_tokens_per_second"))
        given = (value for value in data.values() if value is not None)
        if data.keys() <= cls.fields.keys() and _are_tokens(given) and positive:
            made = cls.model_construct(**data)
            with suppress(ValueError):
                made._check_fields()
                return made
        return super().build(data, origin=origin)

    def _check_fields(self) -> None:
        check_lengths(self.context, self.contexts, self.isl, self.osl)
        if self.context is None and self.contexts is None and (self.isl is None or self.osl is None):
            raise ValueError("give context, or both isl and osl")

    @property
    def shares(self) -> tuple[tuple[float, float], ...]:
        """Contexts [tokens], each with the share of the sequences that have it [1]; empty if all contexts are equal."""
        total = sum(part for _, part in self.contexts or ())
        return tuple((float(length), part / total) for length, part in self.contexts or ())

    @property
    def mean_context(self) -> float:
        """Mean number of cached tokens during decode [tokens]."""
        if self.context is not None:
            return float(self.context)
        if self.contexts is not None:
            return sum(length * share for length, share in self.shares)
        assert self.isl is not None and self.osl is not None
        return self.isl + self.osl / 2

    @property
    def spread(self) -> float:
        """Growth of the context of a sequence while its output is generated [tokens]; 0 for a fixed context."""
        return float(self.osl or 0.0)


#: Column of a table, with one number per row.
Column = Annotated[
    tuple[Annotated[int | float, Field(ge=0, le=LONGEST, allow_inf_nan=False)], ...], Field(strict=False)
]
Share = Annotated[int | float, Field(ge=0, le=1)]
#: Tolerance of the sum of shares, because of rounding [1].
_ROUNDED = 1e-4


class Arrivals(Spec):
    """Arrivals of requests. Gaps have a gamma distribution, and the rate can vary over the hours of a day.

    Examples
    --------
    >>> Arrivals(scv=1, rates=(1.0, 3.0), interval=3600.0).rate
    2.0
    """

    scv: Annotated[int | float, Field(ge=0, le=1000)] = 1
    """Squared coefficient of variation of the gaps between requests within an interval [1].

    Poisson arrivals have the value 1, and bursty arrivals have larger values. If gaps are independent, the value is
    also the variance of the number of arrivals over a long time, divided by the mean number.
    """
    rates: Annotated[tuple[Annotated[int | float, Field(ge=0, le=1e9)], ...], Field(strict=False)] = ()
    """Request rate of each interval [1/s]. After the last interval, the list starts again.

    The list is empty if only the variation of arrivals is known.
    """
    interval: Annotated[Seconds, Field(gt=0)] = 3600.0
    """Length of an interval [s]; an hour for daily profiles."""
    gaps: Annotated[tuple[Annotated[int | float, Field(ge=0, le=1e9)], ...], Field(strict=False)] = ()
    """Recorded gaps, which replace a distribution [s].

    Requests arrive after their gaps, in the order of the table of lengths.
    """

    def _check_fields(self) -> None:
        if self.rates and not any(self.rates):
            raise ValueError("rates are all 0; give at least one above 0, or leave them out")
        if self.gaps and self.rates:
            raise ValueError("give either gaps, or rates, not both")
        if self.gaps and not any(self.gaps):
            raise ValueError("gaps are all 0: requests that come at once have no rate; give at least one above 0")

    @property
    def rate(self) -> float | None:
        """Mean request rate [1/s]; None if only the variation of arrivals is known."""
        if self.gaps:
            return len(self.gaps) / math.fsum(self.gaps)
        return math.fsum(self.rates) / len(self.rates) if self.rates else None

    @property
    def is_steady(self) -> bool:
        """True if the rate is constant."""
        return not self.gaps and len(set(self.rates)) <= 1


#: Independent length, or column of a table.
ColumnOrLength = Annotated[
    Annotated[Column, Tag(TAG)] | Annotated[Length, Tag("length")],
    Discriminator(lambda value: "length" if isinstance(value, Length) else TAG),
    BeforeValidator(lambda value, info: value if isinstance(value, (list, tuple)) else length_of(value, info)),
]


class Lengths(Spec):
    """Lengths of prompts and outputs: two independent distributions, or a table with both lengths per row.

    Examples
    --------
    >>> Lengths(isl=(100.0, 900.0), osl=(80.0, 20.0), shares=(0.5, 0.5)).rows
    ((100.0, 80.0, 0.0, 0.5), (900.0, 20.0, 0.0, 0.5))
    """

    isl: ColumnOrLength
    """Prompt length; one per row in a table [tokens]."""
    osl: ColumnOrLength
    """Output length; one per row in a table [tokens]."""
    cached: Column = ()
    """Number of prompt tokens per row that were already in an earlier request [tokens]; 0 by default. Only tables of
    requests have cached tokens.
    """
    shares: Annotated[tuple[Share, ...], Field(strict=False)] = ()
    """Share of the requests that have the lengths of a row; equal by default [1]. Only a table has shares."""

    def _check_fields(self) -> None:
        columns = {name: value for name in ("isl", "osl", "cached", "shares") if (value := getattr(self, name)) != ()}
        lengths = {name: len(value) for name, value in columns.items() if not isinstance(value, Length)}
        if not lengths:
            return
        if len(lengths) < len(columns) or len(set(lengths.values())) > 1 or not {"isl", "osl"} <= set(columns):
            counts = ", ".join(f"{name} {lengths.get(name, 'one')}" for name in columns)
            raise ValueError(f"a table needs as many isl as osl, cached and shares, got {counts}")
        if self.shares and abs(math.fsum(self.shares) - 1) > _ROUNDED:
            raise ValueError(f"shares must add up to 1, got {math.fsum(self.shares):g}")
        for row, (isl, osl, cached, _) in enumerate(self.rows, 1):
            if isl < 1 or osl < 1 or not cached <= isl - 1:
                raise ValueError(
                    f"row {row} must have at least 1 token of prompt and answer, and one that is not cached, got isl "
                    f"{isl:g}, cached {cached:g}, osl {osl:g}"
                )

    @cached_property
    def rows(self) -> tuple[tuple[float, float, float, float], ...]:
        """Rows of the table: prompt, output and repeated prompt tokens [tokens], and share of requests [1]."""
        if isinstance(self.isl, Length) or isinstance(self.osl, Length):
            return ()
        count = len(self.isl)
        cached, shares = self.cached or (0.0,) * count, self.shares or (1.0 / count,) * count
        return tuple(zip(self.isl, self.osl, cached, shares, strict=True))


class Reuse(Spec):
    """Reuse of prompt prefixes between requests, in blocks of tokens."""

    share: Share
    """Share of prompt blocks, or of prompt tokens if blocks are unknown, that were in an earlier request [1].

    A prefix cache of unlimited size has this hit rate.
    """
    block_tokens: Count | None = None
    """Tokens per block; absent if blocks are unknown [tokens]."""
    blocks: Annotated[tuple[Count, ...], Field(strict=False)] = ()
    """Sizes of a cache that removes the least recently used blocks, in blocks, in ascending order [1]."""
    found: Annotated[tuple[Share, ...], Field(strict=False)] = ()
    """Hit rate of the cache for each size in ``blocks``, as a share of all prompt blocks [1]."""

    def _check_fields(self) -> None:
        if len(self.blocks) != len(self.found):
            raise ValueError(
                f"each number of blocks needs its share found, got {len(self.blocks)} and {len(self.found)}"
            )
        if list(self.blocks) != sorted(self.blocks) or list(self.found) != sorted(self.found):
            raise ValueError("blocks and found must be ascending")
        if self.found and self.found[-1] > self.share + _ROUNDED:
            raise ValueError(f"no cache finds more than share ({self.share:g}), got {self.found[-1]:g}")


class Requests(Spec):
    """Requests of users: lengths of prompts and outputs, caching, and arrivals.

    Examples
    --------
    >>> Requests(isl=2000, osl=500).mean_context
    2250.0
    """

    isl: Annotated[Length, BeforeValidator(length_of)]
    """Prompt length [tokens]."""
    osl: Annotated[Length, BeforeValidator(length_of)]
    """Output length [tokens]."""
    cached: Tokens = 0
    """Mean number of cached prompt tokens, including the shared prefix [tokens]."""
    shared_prefix: Tokens = 0
    """Tokens at the start of all prompts, such as a system prompt [tokens].

    Attention-DP groups store the shared prefix once.
    """
    traffic: str = ""
    """Name of the workload; empty if the query gives the lengths of requests."""
    table: Lengths | None = None
    """Table whose rows have prompt and output lengths that belong together.

    ``isl``, ``osl`` and ``cached`` are computed from the table.
    """
    arrivals: Arrivals | None = None
    """Arrivals of the workload; None if the query determines them."""
    blocks: Annotated[tuple[tuple[int, ...], ...], Field(strict=False)] = ()
    """Identifiers of the prompt's blocks, for each row of the table, if requests are recorded.

    Two prompts with a common identifier are equal up to the end of this block. The simulation sends the requests in the
    order of the rows, and cache hits follow from the contents of the cache.
    """
    block_tokens: int = 0
    """Tokens per block [tokens]."""
    longest_turn: Annotated[int, Field(ge=0, le=LONGEST)] = 0
    """Prompt plus output of the longest turn of a session; 0 without sessions [tokens].

    If this field is set, the other fields have the lengths of the mean turn.
    """

    def __init__(self, *lengths: float | str | Length, **fields: Any) -> None:
        super().__init__(**_named("Requests", lengths), **fields)

    @classmethod
    def build(cls, data: Mapping[str, object], *, origin: str) -> Self:
        """Validate plain data; valid numbers need no import of pydantic."""
        values = cls._prepared(dict(data))
        plain = not values.keys() - {"isl", "osl", "cached", "shared_prefix"}
        if plain and _are_tokens((values.get("cached", 0), values.get("shared_prefix", 0))):
            with suppress(InputError, KeyError, ValueError):
                made = cls.model_construct(**values | {name: Length.parse(values[name]) for name in ("isl", "osl")})
                made._check_fields()
                return made
        return super().build(data, origin=origin)

    @classmethod
    def of(cls, traffic: Traffic | Requests) -> Requests:
        """Requests with the lengths of fixed-length traffic. An object of this class is returned unchanged.

        Raises
        ------
        InputError
            If the argument has another type, or if it has a context or a demand, which are only valid for decode steps.
        """
        if isinstance(traffic, Requests):
            return traffic
        if not isinstance(traffic, Traffic):
            raise InputError(f"traffic: got {reprlib.repr(traffic)}; give lengths, for example Requests(2000, 500)")
        if traffic.isl is None or traffic.osl is None:
            raise InputError("a context is that of decode steps alone (decode_frontier); services need isl and osl")
        if traffic.max_tokens_per_second is not None:
            raise InputError("max_tokens_per_second is a demand for decode steps alone (decode_frontier); leave it out")
        return cls.build({"isl": traffic.isl, "osl": traffic.osl}, origin="traffic")

    @classmethod
    def _prepared(cls, values: Any) -> Any:
        """Include the shared prefix in the cached tokens."""
        if not isinstance(values, dict):
            return values
        shared, cached = values.get("shared_prefix", 0), values.get("cached", 0)
        numbers = isinstance(shared, (int, float)) and isinstance(cached, (int, float))
        return {**values, "cached": max(shared, cached)} if numbers and shared > 0 else values

    def _check_fields(self) -> None:
        if self.shared_prefix > self.isl.least - 1:
            raise ValueError(
                f"shared_prefix must leave at least one new token of every prompt ({self.isl.least:g} or more), got "
                f"{self.shared_prefix:g}"
            )
        if self.cached > self.isl.mean - 1:
            raise ValueError(
                f"cached must leave at least one new token of the mean prompt ({self.isl.mean:g}), got {self.cached:g}"
            )

    @classmethod
    def of_table(cls, lengths: Lengths, **fields: Any) -> Requests:
        """Requests whose lengths are the rows of a table; other arguments are fields of the class."""
        total = math.fsum(row[3] for row in lengths.rows)
        isl, osl = (_listed((row[column], row[3]) for row in lengths.rows) for column in (0, 1))
        cached = math.fsum(row[2] * row[3] / total for row in lengths.rows)
        return cls(isl, osl, cached=cached, table=lengths, **fields)

    @property
    def is_simple(self) -> bool:
        """True if the analytical model is valid: lengths are independent of each other, and arrivals are not bursty."""
        return self.table is None and (self.arrivals is None or (self.arrivals.is_steady and self.arrivals.scv <= 1))

    @cached_property
    def unread(self) -> Length | None:
        """Uncached prompt tokens per row of the table [tokens].

        The result is None if no table states the cached tokens.
        """
        if self.table is None or not self.table.cached:
            return None
        return _listed((isl - cached, share) for isl, _, cached, share in self.table.rows)

    @property
    def longest(self) -> float:
        """Prompt and output length of the longest request [tokens].

        A lognormal length has no maximum, so its 99.9th percentile is used.
        """
        if self.table is not None:
            return max(isl + osl for isl, osl, *_ in self.table.rows)
        return self.longest_turn or self.isl.longest + self.osl.longest

    @property
    def new_tokens(self) -> float:
        """Mean number of prompt tokens that are not cached [tokens]."""
        return self.isl.mean - self.cached

    @property
    def decode_steps(self) -> float:
        """Decode steps per request [1]. The first output token comes from the prefill, without a decode step."""
        return self.osl.mean - 1.0

    @cached_property
    def mean_context(self) -> float:
        """Mean number of cached tokens in a decode step [tokens].

        Requests with longer outputs have more weight, because they have more steps.
        """
        if self.table is not None:
            rows = self.table.rows
            written = math.fsum(osl * share for _, osl, _, share in rows)
            return math.fsum(share * osl * (isl + osl / 2.0) for isl, osl, _, share in rows) / written
        return self.isl.mean + self.osl.mean * (1.0 + self.osl.scv) / 2.0

    @property
    def spread(self) -> float:
        """Range of contexts during the decode steps of a request, with the mean context at the center [tokens]."""
        return self.osl.mean * (1.0 + self.osl.scv)


class TrafficSpec(SourcedSpec):
    """Workload of a service: a file in ``scenarios/traffic``, or a file of the user."""

    arrivals: Arrivals = Arrivals.model_construct()
    """Arrivals of requests; by default, Poisson arrivals at any rate."""
    lengths: Lengths | None = None
    """Lengths of requests; absent if sessions determine them."""
    reuse: Reuse | None = None
    """Reuse of prompt prefixes; by default none."""
    sessions: SessionSpec | None = None
    """Sessions of conversations or agents that send the requests; absent if unknown."""

    def _check_fields(self) -> None:
        if self.lengths is None and self.sessions is None:
            raise ValueError("lengths are missing; write for example 'lengths: {isl: 2000, osl: 500}'")
        if self.arrivals.gaps and (self.lengths is None or len(self.lengths.rows) != len(self.arrivals.gaps)):
            rows = 0 if self.lengths is None else len(self.lengths.rows)
            raise ValueError(f"each gap needs its row of lengths, got {len(self.arrivals.gaps)} gaps and {rows} rows")

    @property
    def requests(self) -> Requests:
        """Requests of the workload. Cached tokens of requests assume a prefix cache of unlimited size.

        Raises
        ------
        InputError
            If only the sessions of the workload are known.
        """
        if self.lengths is None:
            raise InputError(
                f"{self.name}: the file has sessions, which determine the lengths of requests; only 'recommend', "
                "'load', 'price', 'buy', 'fleet' and 'cache' simulate sessions. For other commands, name a workload "
                "with lengths, or give --isl and --osl"
            )
        share = 0.0 if self.reuse is None else self.reuse.share
        lengths = self.lengths
        if lengths.rows and not lengths.cached:
            lengths = lengths.replace(cached=tuple(min(share * isl, isl - 1) for isl, *_ in lengths.rows))
        rows, fields = lengths.rows, {"traffic": self.name, "arrivals": self.arrivals}
        if not rows:
            isl = Length.parse(lengths.isl)
            return Requests(isl, Length.parse(lengths.osl), cached=min(share * isl.mean, isl.mean - 1), **fields)
        return Requests.of_table(lengths, **fields)


def _listed(weighed: Iterable[tuple[float, float]]) -> Length:
    """Length with a list of possible values, from pairs of a value and its share of the requests."""
    shares: dict[float, float] = {}
    for length, share in weighed:
        shares[length] = shares.get(length, 0.0) + share
    total = math.fsum(shares.values())
    return Length(kind="listed", values=tuple(shares), probabilities=tuple(share / total for share in shares.values()))
