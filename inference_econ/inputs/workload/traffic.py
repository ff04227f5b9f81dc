"""Traffic of a server: when requests arrive, how long they are, what they repeat, and how much of it there is."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from statistics import NormalDist
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs._spec import TAG, Count, Seconds, SourcedSpec, Spec, in_file

Tokens = Annotated[int | float, Field(ge=0, allow_inf_nan=False)]
_Part = Annotated[int | float, Field(gt=0, le=1e12)]
#: Contexts that differ, each with its part of the sequences [tokens], [1].
Mix = Annotated[tuple[Annotated[tuple[Tokens, _Part], Field(strict=False)], ...], Field(min_length=1, strict=False)]
LONGEST, _MOST_VARIED = 1e9, 100.0
AtLeastOne = Annotated[int | float, Field(ge=1, le=LONGEST, allow_inf_nan=False)]

_FORMS = "2000, uniform:1600:2400, lognormal:2000:0.5 (mean, coefficient of variation), 500@0.25,2000@0.75"


def check_lengths(context: object, contexts: object, isl: object, osl: object) -> None:
    """Refuse a context beside contexts that differ, and either beside lengths of requests, with ValueError."""
    if context is not None and contexts is not None:
        raise ValueError("give either context or contexts, not both")
    name = "context" if context is not None else "contexts" if contexts is not None else None
    if name is not None and (isl is not None or osl is not None):
        raise ValueError(f"give either {name}, or isl and osl, not both")


class Length(Spec):
    """Tokens of a prompt or an answer: a number, or a distribution.

    Examples
    --------
    >>> Length.parse("uniform:800:1000").mean, Length.parse("500@0.25,2000@0.75").mean
    (900.0, 1625.0)
    >>> Length.parse("lognormal:2000:0.80").text
    'lognormal:2000:0.8'
    """

    kind: Literal["fixed", "uniform", "lognormal", "listed"] = "fixed"
    """How lengths are distributed."""
    values: Annotated[tuple[AtLeastOne, ...], Field(min_length=1, strict=False)]
    """The length; the least and the largest one; the mean; or all that occur [tokens]."""
    probabilities: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field(default=(), strict=False)
    """Of each listed value [1]."""
    variation: Annotated[int | float, Field(ge=0, le=_MOST_VARIED, allow_inf_nan=False)] = 0
    """Coefficient of variation of a lognormal length [1]."""

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
        """A length from a number or from text as people type it.

        Raises
        ------
        InputError
            If the text has none of the forms, or its numbers cannot be lengths.
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
                fields = {"values": (float(kind),)}
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
        """The length as :meth:`parse` reads it."""
        values = [f"{value:.10g}" for value in self.values]
        if self.kind == "listed":
            return ",".join(f"{value}@{share:g}" for value, share in zip(values, self.probabilities, strict=True))
        named = () if self.kind == "fixed" else (self.kind,)
        varied = (f"{self.variation:g}",) if self.kind == "lognormal" else ()
        return ":".join((*named, *values, *varied))

    @property
    def mean(self) -> float:
        """Mean [tokens]."""
        if self.kind == "listed":
            return math.fsum(v * p for v, p in zip(self.values, self.probabilities, strict=True))
        return math.fsum(self.values) / len(self.values)

    @property
    def least(self) -> float:
        """The shortest; of a lognormal length, which has none, the mean [tokens]."""
        return float(min(self.values))

    @property
    def longest(self) -> float:
        """The longest; of a lognormal length, which has none, the one that one in a thousand exceeds [tokens]."""
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
    """Refuse numbers that are no tokens, and variations that no length has.

    Raises
    ------
    InputError
        Naming the first.
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
    """Read a length of a field, whose name a mistake carries."""
    try:
        return Length.parse(value)
    except InputError as error:
        raise InputError(f"{info.field_name}: {error}") from error


#: A length, as :meth:`~inference_econ.inputs.Length.parse` reads it.
SessionLengths = Annotated[Length, BeforeValidator(in_file(Length.parse))]


class Step(Spec):
    """Turns of an agent one after the other: each prompt is all that was said before, and something new.

    Examples
    --------
    >>> Step(name="work", new_tokens=800, answer_tokens="lognormal:300:1", turns=20, pause=4).pause
    4.0
    """

    name: str = Field(min_length=1)
    """Name by which later steps refer to it."""
    turns: SessionLengths = Length(values=(1.0,))
    """Turns, drawn anew for every session and rounded to whole ones [1]."""
    new_tokens: SessionLengths
    """Tokens that a turn adds to the prompt: a question, or what tools gave [tokens]."""
    first_tokens: SessionLengths | None = None
    """Tokens that the first turn adds, if it is another length: a task, files to begin with [tokens]."""
    answer_tokens: SessionLengths
    """Answer of a turn, which stays in the prompts of those that follow [tokens]."""
    pause: Seconds = 0.0
    """Mean time from an answer to the turn that follows it: tools that run, somebody who thinks [s]."""
    pause_variation: Annotated[int | float, Field(ge=0, le=100, allow_inf_nan=False)] = 0.0
    """Coefficient of variation of these times, which are lognormal [1]."""
    after: tuple[str, ...] = Field(default=(), strict=False)
    """Steps above it that must have ended before it begins."""
    continues: str | None = None
    """The one of these whose prompts it carries on; without it, it begins with the shared prompt alone."""
    agents: Annotated[int, Field(ge=1, le=1000)] = 1
    """Agents that do the step at the same time, each with prompts of its own [1]."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


class SessionSpec(Spec):
    """Session of one user or agent from a task to its end: steps that wait for each other, without a circle.

    Examples
    --------
    >>> chat = SessionSpec(steps=[Step(name="chat", turns=5, new_tokens=100, answer_tokens=200, pause=30)])
    >>> chat.longest_context
    1500.0
    """

    shared_tokens: Tokens = 0
    """Tokens that the prompts of all sessions begin with: instructions, and descriptions of tools [tokens]."""
    steps: Annotated[tuple[Step, ...], Field(min_length=1, strict=False)]
    """Each is written below those that it waits for."""
    rest: Seconds = 0.0
    """Mean time between a session and the next one of the same agent [s]."""
    compacts_at: Annotated[int, Field(ge=1)] | None = None
    """Where a prompt with its answer would be longer, an agent goes on with a summary; what is new is cut [tokens]."""
    summary_tokens: Annotated[int, Field(ge=0)] = 2000
    """Of such a summary [tokens]."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @field_validator("steps")
    @classmethod
    def _no_circle(cls, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Refuse steps that wait for themselves or for what is not there, or carry on what they do not wait for."""
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
                refuse("name", step.name, "every step needs a name of its own")
            above[step.name] = step
        if mistakes:
            raise ValidationError.from_exception_data("steps", mistakes)
        return steps

    @property
    def longest_context(self) -> float:
        """Tokens of the longest session's last prompt with its answer, as far as lengths have a longest [tokens]."""
        ends: dict[str | None, float] = {None: float(self.shared_tokens)}
        for step in self.steps:
            first = step.new_tokens if step.first_tokens is None else step.first_tokens
            further = max(round(step.turns.longest), 1) - 1
            answers = (further + 1) * step.answer_tokens.mean
            ends[step.name] = ends[step.continues] + first.longest + further * step.new_tokens.mean + answers
        longest = max(ends.values())
        return longest if self.compacts_at is None else min(longest, float(self.compacts_at))


def _named(kind: str, lengths: Sequence[object]) -> dict[str, Any]:
    """Lengths that are given by position, by their names: the prompt's, then the answer's."""
    if len(lengths) > 2:
        raise InputError(f"{kind} takes isl and osl by position, got {len(lengths)} values; name the others")
    return dict(zip(("isl", "osl"), lengths, strict=False))


class Traffic(Spec):
    """Requests of one shape.

    Give ``context`` (every sequence at that length, as in published studies), ``contexts`` that differ, or
    ``isl`` and ``osl``; a decode step then sees the mean length ``isl + osl / 2``.

    Examples
    --------
    >>> Traffic(isl=2000, osl=500).mean_context, Traffic(2000, 500).mean_context
    (2250.0, 2250.0)
    """

    isl: Tokens | None = None
    """Input sequence length [tokens]."""
    osl: Annotated[int | float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Output sequence length [tokens]."""
    context: Tokens | None = None
    """Tokens already in the KV cache at a decode step [tokens]."""
    contexts: Mix | None = None
    """Contexts of sequences that decode in one batch, each with its part of them [tokens], [1]."""
    max_tokens_per_second: Annotated[int | float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Demand: an instance cannot sell more output tokens per second than this [tokens/s]."""

    def __init__(self, *lengths: float, **fields: Any) -> None:
        super().__init__(**_named("Traffic", lengths), **fields)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def _check_fields(self) -> None:
        check_lengths(self.context, self.contexts, self.isl, self.osl)
        if self.context is None and self.contexts is None and (self.isl is None or self.osl is None):
            raise ValueError("give context, or both isl and osl")

    @property
    def shares(self) -> tuple[tuple[float, float], ...]:
        """Contexts that differ, and the share of sequences that has each [tokens], [1]; none where all are alike."""
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
        """Tokens that contexts are spread over while answers grow; none if the context is given [tokens]."""
        return float(self.osl or 0.0)


#: A column of numbers, one for each row of a table.
Column = Annotated[
    tuple[Annotated[int | float, Field(ge=0, le=LONGEST, allow_inf_nan=False)], ...], Field(strict=False)
]
Share = Annotated[int | float, Field(ge=0, le=1)]
#: How far shares that add up to 1 may be off after rounding [1].
_ROUNDED = 1e-4


class Arrivals(Spec):
    """When requests arrive: gaps of a gamma law, at a rate that may follow the hours of a day.

    Examples
    --------
    >>> Arrivals(scv=1, rates=(1.0, 3.0), interval=3600.0).rate
    2.0
    """

    scv: Annotated[int | float, Field(ge=0, le=1000)] = 1
    """Squared coefficient of variation of the times between arrivals within an interval [1]: 1 if Poisson, more if
    bursty. Where arrivals do not know of each other it is the index of dispersion of their number in a long time."""
    rates: Annotated[tuple[Annotated[int | float, Field(ge=0, le=1e9)], ...], Field(strict=False)] = ()
    """Requests per second in each interval, the first again after the last; none if only their shape is known [1/s]."""
    interval: Annotated[Seconds, Field(gt=0)] = 3600.0
    """Of each rate: an hour, where they are those of a day [s]."""
    gaps: Annotated[tuple[Annotated[int | float, Field(ge=0, le=1e9)], ...], Field(strict=False)] = ()
    """Times between arrivals as somebody recorded them, in place of a law: requests come in the order of the table of
    their lengths, each after its gap [s]."""

    def _check_fields(self) -> None:
        if self.rates and not any(self.rates):
            raise ValueError("rates are all 0; give at least one above 0, or leave them out")
        if self.gaps and self.rates:
            raise ValueError("give either gaps, or rates, not both")
        if self.gaps and not any(self.gaps):
            raise ValueError("gaps are all 0: requests that come at once have no rate; give at least one above 0")

    @property
    def rate(self) -> float | None:
        """Requests per second on average; None if only the shape of arrivals is known [1/s]."""
        if self.gaps:
            return len(self.gaps) / math.fsum(self.gaps)
        return math.fsum(self.rates) / len(self.rates) if self.rates else None

    @property
    def is_steady(self) -> bool:
        """Whether their rate is always the same."""
        return not self.gaps and len(set(self.rates)) <= 1


#: A length of its own, or a column of a table.
ColumnOrLength = Annotated[
    Annotated[Column, Tag(TAG)] | Annotated[Length, Tag("length")],
    Discriminator(lambda value: "length" if isinstance(value, Length) else TAG),
    BeforeValidator(lambda value, info: value if isinstance(value, (list, tuple)) else length_of(value, info)),
]


class Lengths(Spec):
    """Lengths of prompts and answers: two distributions that do not know of each other, or a table of both together.

    Examples
    --------
    >>> Lengths(isl=(100.0, 900.0), osl=(80.0, 20.0), shares=(0.5, 0.5)).rows
    ((100.0, 80.0, 0.0, 0.5), (900.0, 20.0, 0.0, 0.5))
    """

    isl: ColumnOrLength
    """Prompt; of a table in each row [tokens]."""
    osl: ColumnOrLength
    """Answer; of a table in each row [tokens]."""
    cached: Column = ()
    """Of a table: tokens of the prompt that earlier requests had, in each row; none if left out [tokens]."""
    shares: Annotated[tuple[Share, ...], Field(strict=False)] = ()
    """Of a table: share of the requests in each row; the same for all if left out [1]."""

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
        """Prompt, answer, and what of the prompt earlier requests had, with the share of each row; of a table."""
        if isinstance(self.isl, Length) or isinstance(self.osl, Length):
            return ()
        count = len(self.isl)
        cached, shares = self.cached or (0.0,) * count, self.shares or (1.0 / count,) * count
        return tuple(zip(self.isl, self.osl, cached, shares, strict=True))


class Reuse(Spec):
    """Reuse of earlier prompts, counted in blocks of tokens."""

    share: Share
    """Of all blocks of prompts, or of their tokens where no blocks are known, those that an earlier request had, if
    nothing is forgotten [1]."""
    block_tokens: Count | None = None
    """Tokens of a block; left out where no blocks are known [tokens]."""
    blocks: Annotated[tuple[Count, ...], Field(strict=False)] = ()
    """Room of a cache that forgets the least recently used blocks, ascending [1]."""
    found: Annotated[tuple[Share, ...], Field(strict=False)] = ()
    """Share of all blocks that it finds, for each room [1]."""

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
    """Requests of users: prompts and answers.

    Examples
    --------
    >>> Requests(isl=2000, osl=500).mean_context
    2250.0
    """

    isl: Annotated[Length, BeforeValidator(length_of)]
    """Prompt [tokens]."""
    osl: Annotated[Length, BeforeValidator(length_of)]
    """Answer [tokens]."""
    cached: Tokens = 0
    """Tokens of a prompt that are found in the prefix cache, on average [tokens]; the shared ones at least."""
    shared_prefix: Tokens = 0
    """Tokens that all prompts begin with, a system prompt: each group of attention ranks holds them once [tokens]."""
    traffic: str = ""
    """Name of the traffic that they are those of; nothing of requests that are said by their lengths."""
    table: Lengths | None = None
    """Prompts and answers together, where they know of each other; ``isl``, ``osl`` and ``cached`` are what it has."""
    arrivals: Arrivals | None = None
    """When they come, where a traffic says it; otherwise whoever asks."""
    blocks: Annotated[tuple[tuple[int, ...], ...], Field(strict=False)] = ()
    """Of recorded ones, blocks of the prompt in each row of the table, equal where prompts are the same up to their
    end; they are played in that order, and what is cached of them follows from what the memory still holds."""
    block_tokens: int = 0
    """Of each of these blocks [tokens]."""
    longest_turn: Annotated[int, Field(ge=0, le=LONGEST)] = 0
    """Of sessions, whose mean turn the lengths are: prompt and answer of the longest; otherwise 0 [tokens]."""

    def __init__(self, *lengths: float | str | Length, **fields: Any) -> None:
        super().__init__(**_named("Requests", lengths), **fields)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def of(cls, traffic: Traffic | Requests) -> Requests:
        """Return requests of the lengths of a traffic; requests are what they are.

        Raises
        ------
        InputError
            If it is neither, or has a context or a demand: both are of decode steps.
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

    @model_validator(mode="before")
    @classmethod
    def _shared_tokens_are_cached(cls, values: object) -> object:
        """Values in which the shared prefix of all prompts counts as cached."""
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
        """Return requests whose lengths are the rows of a table, with further fields."""
        total = math.fsum(row[3] for row in lengths.rows)
        isl, osl = (_listed((row[column], row[3]) for row in lengths.rows) for column in (0, 1))
        cached = math.fsum(row[2] * row[3] / total for row in lengths.rows)
        return cls(isl, osl, cached=cached, table=lengths, **fields)

    @property
    def is_simple(self) -> bool:
        """Whether closed forms know all of them: lengths that do not know of each other, no bursts of a traffic."""
        return self.table is None and (self.arrivals is None or (self.arrivals.is_steady and self.arrivals.scv <= 1))

    @cached_property
    def unread(self) -> Length | None:
        """Tokens of prompts that must be read, where a table says what of each is cached; else None [tokens]."""
        if self.table is None or not self.table.cached:
            return None
        return _listed((isl - cached, share) for isl, _, cached, share in self.table.rows)

    @property
    def longest(self) -> float:
        """Prompt and answer of the longest request [tokens].

        Of a lognormal length, which has no longest, what one in a thousand exceeds is taken.
        """
        if self.table is not None:
            return max(isl + osl for isl, osl, *_ in self.table.rows)
        return self.longest_turn or self.isl.longest + self.osl.longest

    @property
    def new_tokens(self) -> float:
        """Tokens of a prompt that must be read, on average [tokens]."""
        return self.isl.mean - self.cached

    @property
    def decode_steps(self) -> float:
        """Steps of decoding per request: the first token comes with the prompt [1]."""
        return self.osl.mean - 1.0

    @cached_property
    def mean_context(self) -> float:
        """Mean number of cached tokens at a decode step; long answers are decoded longer [tokens]."""
        if self.table is not None:
            rows = self.table.rows
            written = math.fsum(osl * share for _, osl, _, share in rows)
            return math.fsum(share * osl * (isl + osl / 2.0) for isl, osl, _, share in rows) / written
        return self.isl.mean + self.osl.mean * (1.0 + self.osl.scv) / 2.0

    @property
    def spread(self) -> float:
        """Tokens that contexts are spread over while answers grow: twice from the prompt to the mean [tokens]."""
        return self.osl.mean * (1.0 + self.osl.scv)


class TrafficSpec(SourcedSpec):
    """Requests as a service gets them: a file of ``scenarios/traffic``, or of the user."""

    arrivals: Arrivals = Arrivals()
    """When they come; Poisson at any rate if left out."""
    lengths: Lengths | None = None
    """How long they are; left out where sessions say it."""
    reuse: Reuse | None = None
    """Reuse of each other; nothing if left out."""
    sessions: SessionSpec | None = None
    """Conversations and agents that send them, if they are known."""

    def _check_fields(self) -> None:
        if self.lengths is None and self.sessions is None:
            raise ValueError("lengths are missing; write for example 'lengths: {isl: 2000, osl: 500}'")
        if self.arrivals.gaps and (self.lengths is None or len(self.lengths.rows) != len(self.arrivals.gaps)):
            rows = 0 if self.lengths is None else len(self.lengths.rows)
            raise ValueError(f"each gap needs its row of lengths, got {len(self.arrivals.gaps)} gaps and {rows} rows")

    @property
    def requests(self) -> Requests:
        """Requests of its users, with the tokens cached that a memory which forgets nothing would have.

        Raises
        ------
        InputError
            If only its sessions are known.
        """
        if self.lengths is None:
            raise InputError(
                f"{self.name}: the lengths of its requests follow from its sessions, and are not in the file; "
                "'recommend', 'load', 'price', 'buy', 'fleet' and 'cache' play them. Elsewhere name a traffic with "
                "lengths, or give --isl and --osl"
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
    """Lengths with their shares, each once."""
    shares: dict[float, float] = {}
    for length, share in weighed:
        shares[length] = shares.get(length, 0.0) + share
    total = math.fsum(shares.values())
    return Length(kind="listed", values=tuple(shares), probabilities=tuple(share / total for share in shares.values()))
