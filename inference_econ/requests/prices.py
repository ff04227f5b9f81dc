"""Prices of a request: of its chips, by the hour, and of API offers, by kind of token."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from inference_econ import answers, inputs
from inference_econ.errors import InputError, of_option
from inference_econ.inputs import catalog
from inference_econ.requests.request import Rate

if TYPE_CHECKING:
    from inference_econ.inputs import ModelSpec, Offer

Prices = Rate | Mapping[str, Rate] | None


def of_chip(price: Prices, chip: str) -> Rate | None:
    """The rate of one chip; None for the default of its file."""
    return price.get(chip) if isinstance(price, Mapping) else price


def prices_of_chips(price: Prices, chips: Sequence[str]) -> Prices:
    """The rates of all chips of a question, of one source if they are to be alike.

    Raises
    ------
    InputError
        If a number is to be the price of several chips, a chip is named that is not asked about, or prices are to be
        alike and no source has all.
    """
    if isinstance(price, Mapping):
        for chip in price:
            if chip not in chips:
                raise InputError(
                    f"--price {chip}=...: {chip!r} is not among the hardware: {', '.join(chips)}", option="price"
                )
    elif len(chips) > 1 and price is not None and (not isinstance(price, str) or inputs.prices.is_amount(price)):
        pairs = " ".join(f"--price {chip}=USD" for chip in chips)
        amount = price if isinstance(price, str) else f"{price:g}"
        raise InputError(
            f"--price {amount} is a price of one kind of hardware; write {pairs}, or a kind of price for all, for "
            "example --price on_demand",
            option="price",
        )
    return inputs.prices.priced_alike(map(catalog.hardware, chips), price)


def with_unpriced(price: Prices, chips: Sequence[str]) -> Prices:
    """The rates of several chips in one table, in which a chip without any price has no costs."""
    from inference_econ.engine.pricing import or_unpriced

    rates = ((chip, or_unpriced(chip, of_chip(price, chip))) for chip in chips)
    return {chip: rate for chip, rate in rates if rate is not None} if len(chips) > 1 else price


def of_compared(price: Prices, chips: Sequence[str]) -> Prices:
    """The price of all chips, or of each one that has a price of its own.

    Raises
    ------
    InputError
        If a chip is named that is not compared.
    """
    return prices_of_chips(price, chips) if isinstance(price, Mapping) else price


def offered(model: ModelSpec, text: str) -> tuple[Mapping[str, float], Offer | None]:
    """Return prices by kind of token [USD per 1e6 tokens]: as typed, or of a provider's recorded offer, and that offer.

    Raises
    ------
    InputError
        If a part is no price of a kind, or there is no such offer.
    """
    from inference_econ.answers import price as buyer

    if "=" not in text:
        with of_option("api_prices"):
            offer = buyer.offer_by(model, text)
        return buyer.prices_of(offer), offer
    prices = {}
    for part in text.split(","):
        kind, _, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if kind.strip() not in answers.price.KINDS or not 0 <= number < math.inf:
            raise InputError(
                f"--api-prices: {part!r} is not a price of a kind of token; write for example "
                "input=0.6,cached_input=0.1,output=0.6 (USD per million tokens)",
                option="api_prices",
            )
        prices[kind.strip()] = number
    return prices, None
