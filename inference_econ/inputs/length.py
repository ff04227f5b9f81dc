"""Lengths of prompts and answers: numbers of tokens, or distributions of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo

from inference_econ.errors import InputError, SpecError
from inference_econ.inputs._base import Spec

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
            if kind in ("uniform", "lognormal") and len(numbers) == 2:
                first, second = (float(number) for number in numbers)
                if kind == "uniform":
                    _check(text, (first, second))
                    return cls(kind="uniform", values=(first, second))
                _check(text, (first,), second)
                return cls(kind="lognormal", values=(first,), variation=second)
            if "@" in kind and not numbers:
                pairs = [(float(value), float(share)) for value, share in (part.split("@") for part in kind.split(","))]
                _check(text, [value for value, _ in pairs])
                return cls(
                    kind="listed",
                    values=tuple(value for value, _ in pairs),
                    probabilities=tuple(share for _, share in pairs),
                )
            if not numbers:
                _check(text, [float(kind)])
                return cls(values=(float(kind),))
        except ValueError as error:
            raise InputError(f"{text!r} is no length; write for example {_FORMS}") from error
        except SpecError as error:
            mistakes = "; ".join(mistake.removeprefix("Length: ") for mistake in error.mistakes)
            raise InputError(f"{text!r} is no length: {mistakes}") from error
        raise InputError(f"{text!r} is no length; write for example {_FORMS}")

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
        raise InputError(f"{text!r} is no length: from 1 to {LONGEST:g} tokens are possible, got {wrong[0]:g}")
    if not 0.0 <= variation <= _MOST_VARIED:
        raise InputError(
            f"{text!r} is no length: a coefficient of variation is from 0 to {_MOST_VARIED:g}, got {variation:g}"
        )


def length_of(value: object, info: ValidationInfo) -> Length:
    """Read a length of a field, whose name a mistake carries."""
    try:
        return Length.parse(value)
    except InputError as error:
        raise InputError(f"{info.field_name}: {error}") from error
