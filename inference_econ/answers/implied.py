"""Small questions turned round: the price of an hour behind a price of tokens, the taste behind a choice of offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inference_econ._shown import Shown
from inference_econ.answers.serving_frontier import ServiceFrontier, ServicePoint
from inference_econ.engine import Instances
from inference_econ.errors import InputError
from inference_econ.formulas import money


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

    page = "report.implied:ImpliedHourPage"

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

    page = "report.implied:ExponentsPage"

    labels: tuple[str, ...]
    tokens_per_second: tuple[float, ...]
    dollars: tuple[float, ...]
    exponents: money.Exponents


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
