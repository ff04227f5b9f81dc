"""Prices of a request: hourly prices of GPUs, and API prices by kind of token."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from inference_econ import answers, inputs
from inference_econ.errors import InputError, of_option
from inference_econ.inputs import catalog
from inference_econ.requests.request import Rate, Request

if TYPE_CHECKING:
    from inference_econ.inputs import ModelSpec, Offer

Prices = Rate | Mapping[str, Rate] | None


def of_chip(price: Prices, chip: str) -> Rate | None:
    """Price that the user gave for a GPU; None for the default price in the file of the GPU."""
    return price.get(chip) if isinstance(price, Mapping) else price


def prices_of_chips(price: Prices, chips: Sequence[str]) -> Prices:
    """Prices of all GPUs in a query. For the price ``alike``, all prices are from one source.

    Raises
    ------
    InputError
        If one number is given for several GPUs, a GPU is not in the query, or no source has prices of all GPUs.
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
    """Prices of several GPUs for one table. A GPU without a price has no costs."""
    from inference_econ.engine.pricing import or_unpriced

    rates = ((chip, or_unpriced(chip, of_chip(price, chip))) for chip in chips)
    return {chip: rate for chip, rate in rates if rate is not None} if len(chips) > 1 else price


def optional(request: Request) -> Request:
    """Request in which a GPU may have no price. Results without prices have no costs, or costs in GPU-hours."""
    from inference_econ.engine.pricing import or_unpriced

    return request if request.price is not None else replace(request, price=or_unpriced(request.hardware, None))


def of_compared(price: Prices, chips: Sequence[str]) -> Prices:
    """Check the prices of a comparison: one price for all GPUs, or separate prices for some GPUs.

    Raises
    ------
    InputError
        If a GPU is not part of the comparison.
    """
    return prices_of_chips(price, chips) if isinstance(price, Mapping) else price


def offered(model: ModelSpec, text: str) -> tuple[Mapping[str, float], Offer | None]:
    """Return API prices by kind of token [USD per 1e6 tokens], and the recorded offer with these prices.

    The offer is None if ``text`` contains the prices. Without a price of cached input, it costs the same as other input
    (:func:`inference_econ.answers.price.prices_of`).

    Raises
    ------
    InputError
        If a price is invalid, the price of input or output is missing, or there is no matching offer.
    """
    from inference_econ.answers import price as buyer

    if "=" not in text:
        with of_option("api_prices"):
            offer = buyer.offer_by(model, text)
        return buyer.prices_of(offer), offer
    prices = dict[str, float]()
    for part in text.split(","):
        kind, _, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if kind.strip() in prices:
            raise InputError(f"--api-prices: {kind.strip()} is given twice; give it once", option="api_prices")
        if kind.strip() not in answers.price.KINDS or not 0 <= number < math.inf:
            raise InputError(
                f"--api-prices: {part!r} is not a price of a kind of token; write for example "
                "input=0.6,cached_input=0.1,output=0.6 (USD per million tokens)",
                option="api_prices",
            )
        prices[kind.strip()] = number
    for kind in ("input", "output"):
        if kind not in prices:
            raise InputError(
                f"--api-prices: the price of {kind} tokens is missing (got {text}); add {kind}=USD, or {kind}=0",
                option="api_prices",
            )
    return {"cached_input": prices["input"], **prices}, None
