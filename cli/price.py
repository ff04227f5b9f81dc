"""The command that prices tokens by kind."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import inference_econ as ie
from inference_econ import answers
from inference_econ.errors import InputError, of_option

from . import agents, market, options
from .help import question


@question("price")
def price(api_prices: str | None, any_speed: bool, progress: options.Progress | None, **choices: Any) -> options.Shown:
    """Dollars per million input, cached input and output tokens at a traffic.

    The cheapest deployment that meets the SLOs is priced; its idle time too. Without promises it is as fast as
    offers of the model usually are (the median of those that are recorded), or 20 tokens/s per user where there are
    none or nothing is as fast; --api-prices are compared at that speed. MODEL and HARDWARE as in 'frontier'.
    """
    work = agents.work(choices)
    if work is not None:
        if choices["replicas"] is not None:
            raise InputError("--replicas follow from --agents where a traffic has sessions", option="replicas")
        return agents.answer(work.price, choices, work, progress=progress)
    requests, targets = options.requests(choices), options.usual_targets(choices, any_speed=any_speed)
    layouts, rate = market.candidates(choices, requests), options.request_rate(choices, requests)
    settings = {name: choices[name] for name in ("replicas", "arrival_scv")}
    # Prices that mean nothing are refused before anything is computed.
    compared = _compared(layouts[0].setup.model, api_prices)
    return replace(ie.price(layouts, rate, targets=targets, progress=progress, **settings), **compared)


def _compared(model: ie.ModelSpec, text: str | None) -> dict[str, Any]:
    """Prices that a sheet is put beside, as its arguments: typed ones, or those of a provider's recorded offer."""
    from inference_econ.answers import buyer

    if text is None or "=" in text:
        return {"api": api_prices(text)}
    with of_option("api_prices"):
        offer = buyer.offer_by(model, text)
    return {"api": buyer.prices_of(offer), "offer": offer}


def api_prices(text: str | None) -> dict[str, float] | None:
    """Prices by kind of token that are typed; None if none are [USD per 1e6 tokens].

    Raises
    ------
    InputError
        If a part is no price of a kind.
    """
    if text is None:
        return None
    prices = {}
    for part in text.split(","):
        kind, _, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if kind.strip() not in answers.price.KINDS or not 0 <= number < math.inf:
            raise InputError(
                f"--api-prices: {part!r} is no price of a kind of token; write for example "
                "input=0.6,cached_input=0.1,output=0.6 (USD per million tokens)",
                option="api_prices",
            )
        prices[kind.strip()] = number
    return prices
