"""The command that holds API offers against rented and owned machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import inference_econ as ie
from inference_econ import inputs
from inference_econ.errors import InputError, NothingFitsError, of_option

from . import agents, market, options, prices
from .help import question
from .price import api_prices as typed_prices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference_econ.answers.candidates import Candidate

#: Chips that are compared where none is named.
_USUAL = ("h100_sxm", "h200_sxm", "b200", "mi300x")


@question("buy")
def buy(
    chips: tuple[str, ...], api_prices: str | None, any_speed: bool, progress: options.Progress | None, **choices: Any
) -> options.Shown:
    """Buy tokens, rent machines or own them: dollars a month over traffic, and where they cross.

    API offers of the last recorded day beside fleets of every chip, those of 'recommend' within the SLOs; of the usual
    chips where none is named. Without promises fleets are as fast as offers of the model usually are; of a
    --traffic with sessions the agents are counted that they carry, or those that --agents says.
    """
    from inference_econ.answers.buy import MONTHLY

    named = tuple(dict.fromkeys(chips)) or _USUAL
    choices["price"] = prices.of_chips(choices["price"], named)
    work, ways = agents.work(choices, allowed=("api_prices",)), choices["pay"] or MONTHLY
    requests = options.requests(choices) if work is None else work.requests
    targets = options.usual_targets(choices, any_speed=any_speed) if work is None else None
    offers = _competing(choices, requests, named, required=bool(chips))
    api = _offers(api_prices, choices["model"])
    if work is not None:
        sessions = agents.played(choices, **agents.usual())
        return work.buy(offers, api, choices["agents"], ways=ways, progress=progress, **sessions)
    scv, rate = choices["arrival_scv"], choices["request_rate"]
    return ie.buy(offers, api, targets, ways=ways, arrival_scv=scv, request_rate=rate)


def _competing(
    choices: options.Choices, requests: ie.Requests, chips: Sequence[str], *, required: bool
) -> list[Candidate]:
    """Candidates on some chips; chips that cannot serve are left out unless required."""
    offers: list[Candidate] = []
    failures: list[InputError | NothingFitsError] = []
    for chip in chips:
        try:
            offers += market.candidates({**choices, "hardware": chip}, requests, chip)
        except (InputError, NothingFitsError) as error:
            if required:
                raise
            failures.append(error)
    if not offers:
        raise failures[0]
    return offers


def _offers(text: str | None, model: str) -> dict[str, dict[str, float]]:
    """Return the prices of providers by kind of token, by their names: all that are recorded, or one."""
    from inference_econ.answers import buyer
    from inference_econ.answers.buy import charged

    spec = inputs.catalog.model(model)
    if text is None:
        return charged(buyer.offers_of(spec))
    if "=" in text:
        return {"given": dict(typed_prices(text) or {})}
    with of_option("api_prices"):
        offer = buyer.offer_by(spec, text)
    return {f"{text}, {offer.date}": buyer.prices_of(offer)}
