"""The command that holds API offers against rented and owned machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import inference_econ as ie
from inference_econ import inputs
from inference_econ.errors import InputError, NothingFitsError
from inference_econ.requests import Request, prices, sessions, subject, workload

if TYPE_CHECKING:
    from inference_econ._shown import Shown
    from inference_econ.answers.candidates import Candidate
    from inference_econ.answers.lots import Way

#: Chips that are compared where none is named.
_USUAL = ("h100_sxm", "h200_sxm", "b200", "mi300x")


def buy(request: Request, chips: tuple[str, ...], api_prices: str | None, pay: tuple[Way, ...]) -> Shown:
    """Buy tokens, rent machines or own them: dollars a month over traffic, and where they cross.

    API offers of the last recorded day beside fleets of every chip, those of 'recommend' within the SLOs; of the usual
    chips where none is named. Without promises fleets are as fast as offers of the model usually are; of a
    --traffic with sessions the agents are counted that they carry, or those that --agents says.
    """
    from inference_econ.answers.buy import MONTHLY

    named = tuple(dict.fromkeys(chips)) or _USUAL
    request = replace(request, price=prices.of_chips(request.price, named))
    agents, ways = sessions.work(request, allowed=("api_prices",)), pay or MONTHLY
    requests = workload.requests(request) if agents is None else agents.requests
    targets = workload.usual_targets(request) if agents is None else None
    offers = _competing(request, requests, named, required=bool(chips))
    api, progress = _offers(api_prices, request.model), request.progress
    if agents is not None:
        played = sessions.played(request, **sessions.usual())
        return agents.buy(offers, api, request.agents, ways=ways, progress=progress, **played)
    scv, rate = request.arrival_scv, request.request_rate
    return ie.buy(offers, api, targets, ways=ways, arrival_scv=scv, request_rate=rate)


def _competing(request: Request, requests: ie.Requests, chips: Sequence[str], *, required: bool) -> list[Candidate]:
    """Candidates on some chips; chips that cannot serve are left out unless required."""
    offers: list[Candidate] = []
    failures: list[InputError | NothingFitsError] = []
    for chip in chips:
        try:
            offers += subject.candidates(replace(request, hardware=chip), requests, chip)
        except (InputError, NothingFitsError) as error:
            if required:
                raise
            failures.append(error)
    if not offers:
        raise failures[0]
    return offers


def _offers(text: str | None, model: str) -> dict[str, Mapping[str, float]]:
    """Return the prices of providers by kind of token, by their names: all that are recorded, or one."""
    from inference_econ.answers import buyer
    from inference_econ.answers.buy import charged

    spec = inputs.catalog.model(model)
    if text is None:
        return {**charged(buyer.offers_of(spec))}
    kinds, offer = prices.offered(spec, text)
    return {"given" if offer is None else f"{text}, {offer.date}": kinds}
