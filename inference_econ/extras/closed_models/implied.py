"""Inverse calculations: hourly price from a token price, acceptance from a speedup, buyer preference from offers."""

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
    """Hourly chip price implied by the token price of an offer.

    Attributes
    ----------
    front : ServiceFrontier
        Cost and speed of services of the model on the chip.
    point : ServicePoint
        Cheapest service with the speed of the offer.
    dollars_per_million_input_tokens, dollars_per_million_output_tokens : float
        Token prices of the offer [USD per 1e6 tokens].
    tokens_per_second : float
        Speed of the offer [tokens/s].
    price_over_cost : float
        Ratio of the price of tokens to their cost [1].
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
        """Revenue of a request divided by its output tokens [USD per 1e6 tokens]."""
        lengths = self.front.requests
        return (
            self.dollars_per_million_output_tokens
            + self.dollars_per_million_input_tokens * lengths.isl.mean / lengths.osl.mean
        )

    @property
    def dollars_per_accelerator_hour(self) -> float:
        """Highest hourly price that the revenue covers [USD/h]."""
        cost = self.point.dollars_per_million_output_tokens / self.front.dollars_per_accelerator_hour
        return self.revenue / self.price_over_cost / cost

    def subjects(self) -> tuple[Instances, ...]:
        """Instance of the service, for notes on missing calibration data."""
        return self.front.subjects([self.point])

    @property
    def setups(self) -> Sequence[Setup]:
        """Setup of the frontier, without the arbitrary hourly price of its calculation."""
        return [replace(self.front.setup, price=None)]

    def ends(self) -> tuple[float | None, float | None]:
        """80% interval of the hourly price, from errors of throughput [USD/h]; None if unknown."""
        (instances,) = self.subjects()
        likely, price = bounds.around(instances, "throughput"), self.dollars_per_accelerator_hour
        return (None, None) if likely is None else (price * likely.low, price * likely.high)

    def record(self) -> dict[str, Any]:
        """Hourly price and its derivation, as plain data."""
        low, high = self.ends()
        inputs = "dollars_per_million_input_tokens dollars_per_million_output_tokens tokens_per_second"
        return {
            **facts(self.front.setup, *HEAD),
            **attributes(self, f"{inputs} price_over_cost dollars_per_accelerator_hour"),
            "dollars_per_accelerator_hour_low": low,
            "dollars_per_accelerator_hour_high": high,
            "point": self.point.record(),
        }


@dataclass(frozen=True, slots=True, repr=False)
class ImpliedAcceptance(Shown):
    """Acceptance rate implied by a speedup from speculation."""

    page = "extras.closed_models.implied_page:AcceptancePage"

    speedup: float
    """Speed with speculation divided by the speed without [1]."""
    draft_length: int
    """Draft tokens per speculation round [1]."""
    draft_cost: float
    """Time to draft a token divided by the time of a decode step [1]."""
    acceptance: float
    """Acceptance rate of draft tokens [1]."""

    def record(self) -> dict[str, Any]:
        """Speedup and acceptance, as plain data."""
        return attributes(self, "speedup draft_length draft_cost acceptance")


def implied_hour_price(
    front: ServiceFrontier,
    output_price: float,
    tokens_per_second: float,
    *,
    input_price: float = 0.0,
    price_over_cost: float = 1.0,
) -> ImpliedHour:
    """Compute the hourly GPU price that a token price implies, for a known model on a known chip.

    Parameters
    ----------
    front : ServiceFrontier
        Service frontier of the model on the chip, calculated at any hourly price.
    output_price : float
        Price of output tokens [USD per 1e6 tokens].
    tokens_per_second : float
        User speed of the offer [tokens/s].
    input_price : float
        Price of input tokens [USD per 1e6 tokens].
    price_over_cost : float
        Ratio of the token price to the cost of the tokens; 1 for a price at cost [1].

    Returns
    -------
    ImpliedHour
        Hourly price for the cheapest service at that speed, at full load. A less efficient provider must pay less per
        hour, or loses money.

    Raises
    ------
    InputError
        If a number is not positive, or the model never reaches the speed on the chip.
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
    """Exponents a of a buyer who maximizes speed^a / price (eq. 45), inferred from choices among offers.

    Attributes
    ----------
    labels : tuple of str
        Names of the offers, slowest first.
    tokens_per_second, dollars : ndarray, shape (n,)
        Speed [tokens/s] and price [USD per 1e6 tokens].
    exponents : Exponents
        Range of preference exponents a for which the buyer chooses each offer [1].
    """

    page = "extras.closed_models.implied_page:ExponentsPage"

    labels: tuple[str, ...]
    tokens_per_second: tuple[float, ...]
    dollars: tuple[float, ...]
    exponents: money.Exponents

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """Lowest and highest preference exponent for which a buyer chooses each offer [1].

        If no exponent makes the buyer choose an offer, its lowest exponent exceeds its highest.
        """
        return list(zip(self.exponents.low.tolist(), self.exponents.high.tolist(), strict=True))

    def record(self) -> list[Mapping[str, Any]]:
        """One entry per offer."""
        return self.records()

    def records(self) -> list[Mapping[str, Any]]:
        """One record per offer.

        The exponents of an offer that no buyer chooses are None. The highest exponent of the fastest offer is None.
        """
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
    """Compute the preference exponents for which a buyer would choose each offer of a model.

    Parameters
    ----------
    tokens_per_second, dollars : sequence of float
        Speed of each offer [tokens/s], and price of each offer [USD per 1e6 tokens].
    labels : sequence of str
        Names of the offers.

    Raises
    ------
    InputError
        If there are fewer than two offers, or a number is not positive.
    """
    if len(tokens_per_second) < 2:
        raise InputError("a choice needs two offers at least, each with a price and a speed")
    names = labels or [f"offer {index + 1}" for index in range(len(tokens_per_second))]
    rows = sorted(zip(tokens_per_second, dollars, names, strict=True))
    speeds, prices, ordered = (tuple(column) for column in zip(*rows, strict=True))
    return RevealedExponents(ordered, speeds, prices, money.revealed_exponents(speeds, prices))
