"""Small questions turned round: the price of an hour behind a price of tokens, the taste behind a choice of offers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from inference_econ._answer import Shown
from inference_econ.answers.deployments.serving_frontier import ServiceFrontier, ServicePoint
from inference_econ.engine import Instances, Setup, bounds
from inference_econ.errors import InputError
from inference_econ.formulas import money
from inference_econ.records.facts import HEAD, facts
from inference_econ.records.plain import attributes


@dataclass(frozen=True, slots=True, repr=False)
class ImpliedHour(Shown):
    """The price of an hour of a chip that a price of tokens implies.

    Attributes
    ----------
    front : ServiceFrontier
        What the model costs on the chip.
    point : ServicePoint
        The cheapest service that is as fast as the offer.
    dollars_per_million_input_tokens, dollars_per_million_output_tokens : float
        What the offer asks [USD per 1e6 tokens].
    tokens_per_second : float
        Its speed [tokens/s].
    price_over_cost : float
        What tokens are sold for over what they cost [1].
    """

    page = "extras.closed_models.implied_page:ImpliedHourPage"

    front: ServiceFrontier
    point: ServicePoint
    dollars_per_million_input_tokens: float
    dollars_per_million_output_tokens: float
    tokens_per_second: float
    price_over_cost: float

    @property
    def revenue(self) -> float:
        """Revenue of the tokens of a request, over its output tokens [USD per 1e6 tokens]."""
        lengths = self.front.requests
        return (
            self.dollars_per_million_output_tokens
            + self.dollars_per_million_input_tokens * lengths.isl.mean / lengths.osl.mean
        )

    @property
    def dollars_per_accelerator_hour(self) -> float:
        """The most that an hour can cost [USD/h]."""
        cost = self.point.dollars_per_million_output_tokens / self.front.dollars_per_accelerator_hour
        return self.revenue / self.price_over_cost / cost

    def subjects(self) -> tuple[Instances, ...]:
        """The service as an instance that may be unlike what was measured."""
        return self.front.subjects([self.point])

    @property
    def setups(self) -> Sequence[Setup]:
        """Setup without its price, which is a unit: the price is what was asked for."""
        return [replace(self.front.setup, price=None)]

    def ends(self) -> tuple[float | None, float | None]:
        """Interval of 80 % of the price, as more throughput pays for more [USD/h]; None where nobody knows."""
        (instances,) = self.subjects()
        likely, price = bounds.around(instances, "throughput"), self.dollars_per_accelerator_hour
        return (None, None) if likely is None else (price * likely.low, price * likely.high)

    def record(self) -> dict[str, Any]:
        """Return the price of an hour, and what it follows from, as plain data."""
        low, high = self.ends()
        inputs = "dollars_per_million_input_tokens dollars_per_million_output_tokens tokens_per_second"
        return {
            **facts(self.front.setup, *HEAD),
            **attributes(self, f"{inputs} price_over_cost dollars_per_accelerator_hour"),
            "dollars_per_accelerator_hour_low": low,
            "dollars_per_accelerator_hour_high": high,
            "point": self.point.record(),
        }

    def records(self) -> list[Mapping[str, Any]]:
        """Return the same as one row."""
        return [self.record()]


@dataclass(frozen=True, slots=True, repr=False)
class ImpliedAcceptance(Shown):
    """The share of draft tokens accepted that a speed-up implies."""

    page = "extras.closed_models.implied_page:AcceptancePage"

    speedup: float
    """Speed with speculation over that without [1]."""
    draft_length: int
    """Draft tokens of a round [1]."""
    draft_cost: float
    """Time of a draft token over that of a step [1]."""
    acceptance: float
    """Share of draft tokens accepted [1]."""

    def record(self) -> dict[str, Any]:
        """Return the speed-up and the acceptance behind it."""
        return attributes(self, "speedup draft_length draft_cost acceptance")

    def records(self) -> list[Mapping[str, Any]]:
        """Return the same as one row."""
        return [self.record()]


def implied_hour_price(
    front: ServiceFrontier,
    output_price: float,
    tokens_per_second: float,
    *,
    input_price: float = 0.0,
    price_over_cost: float = 1.0,
) -> ImpliedHour:
    """The price of a GPU-hour that a price of tokens implies, for a known model on a known chip.

    Parameters
    ----------
    front : ServiceFrontier
        What the model costs on the chip, at any price of an hour: cost is in proportion to it.
    output_price : float
        Asked for output tokens [USD per 1e6 tokens].
    tokens_per_second : float
        Speed of a user of the offer [tokens/s].
    input_price : float
        Asked for input tokens [USD per 1e6 tokens].
    price_over_cost : float
        What tokens are sold for over what they cost, 1 at cost [1].

    Returns
    -------
    ImpliedHour
        For the cheapest service of that speed, always full: whoever is less efficient pays less for an hour, or loses.

    Raises
    ------
    InputError
        If a number is not positive, or the model is never so fast on the chip.
    """
    for name, value in (("output_price", output_price), ("tokens_per_second", tokens_per_second)):
        if not value > 0:
            raise InputError(f"{name} must be positive, got {value:g}")
    if not (input_price >= 0 and price_over_cost > 0):
        raise InputError(
            f"input_price must not be negative and price_over_cost positive, got {input_price:g}, {price_over_cost:g}"
        )
    point = front.cheapest(tokens_per_second)
    return ImpliedHour(front, point, input_price, output_price, tokens_per_second, price_over_cost)


@dataclass(frozen=True, slots=True, repr=False)
class RevealedExponents(Shown):
    """Exponents that a choice among offers reveals of a buyer who maximises speed^a / price (eq. 45).

    Attributes
    ----------
    labels : tuple of str
        Of the offers, the slowest first.
    tokens_per_second, dollars : ndarray, shape (n,)
        Speed [tokens/s] and price [USD per 1e6 tokens].
    exponents : Exponents
        For each offer those that would choose it [1].
    """

    page = "extras.closed_models.implied_page:ExponentsPage"

    labels: tuple[str, ...]
    tokens_per_second: tuple[float, ...]
    dollars: tuple[float, ...]
    exponents: money.Exponents

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """Least and largest exponent that choose each offer [1]; none lies between where the first is larger."""
        return list(zip(self.exponents.low.tolist(), self.exponents.high.tolist(), strict=True))

    def record(self) -> list[Mapping[str, Any]]:
        """Return one entry per offer."""
        return self.records()

    def records(self) -> list[Mapping[str, Any]]:
        """Return one record per offer; one that nobody chooses has no exponents, the fastest no upper one."""
        columns = zip(self.labels, self.tokens_per_second, self.dollars, self.pairs, strict=True)
        return [
            {
                "offer": label,
                "tokens_per_second": speed,
                "dollars_per_million_tokens": price,
                "exponent_low": low if low <= high else None,
                "exponent_high": high if low <= high and math.isfinite(high) else None,
            }
            for label, speed, price, (low, high) in columns
        ]


def revealed_exponents(
    tokens_per_second: Sequence[float], dollars: Sequence[float], labels: Sequence[str] = ()
) -> RevealedExponents:
    """The exponents of the preference with which a buyer would choose each of some offers of one model.

    Parameters
    ----------
    tokens_per_second, dollars : sequence of float
        Speed [tokens/s] and price [USD per 1e6 tokens] of each.
    labels : sequence of str
        What they are called.

    Raises
    ------
    InputError
        If there are fewer than two, or a number is not positive.
    """
    if len(tokens_per_second) < 2:
        raise InputError("a choice needs two offers at least, each with a price and a speed")
    names = labels or [f"offer {index + 1}" for index in range(len(tokens_per_second))]
    rows = sorted(zip(tokens_per_second, dollars, names, strict=True))
    speeds, prices, ordered = (tuple(column) for column in zip(*rows, strict=True))
    return RevealedExponents(ordered, speeds, prices, money.revealed_exponents(speeds, prices))
