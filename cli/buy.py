"""The command that holds API offers against rented and owned machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inference_econ.errors import InputError, NothingFitsError, of_option

from . import agents, market, options, prices, show
from .help import command
from .price import api_prices as typed_prices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference_econ.answers.candidates import Candidate
    from inference_econ.inputs import Requests

#: Chips that are compared where none is named.
_USUAL = ("h100_sxm", "h200_sxm", "b200", "mi300x")


@command(
    "buy",
    "model chips manner lengths sessions arrival_scv promises percentile request_rate pay api_prices any_speed rent "
    "batching layout proposer plot yes",
    "inference-econ buy llama_3_70b",
    "inference-econ buy deepseek_v3 h200_sxm b200 --request-rate 5",
)
@options.output
def buy(
    chips: tuple[str, ...], api_prices: str | None, any_speed: bool, output: options.Output, **choices: Any
) -> None:
    """Buy tokens, rent machines or own them: dollars a month over traffic, and where they cross.

    API offers of the last recorded day beside fleets of every chip, as large as the traffic needs within the SLOs; of
    the usual chips where none is named. Without promises fleets are as fast as offers of the model usually are; of a
    --traffic with sessions the agents are counted that they carry, or those that --agents says.
    """
    from inference_econ.answers.buy import MONTHLY, buy

    named = tuple(dict.fromkeys(chips)) or _USUAL
    choices["price"] = prices.of_chips(choices["price"], named)
    ready, ways = agents.work(choices, allowed=("api_prices",)), choices["pay"] or MONTHLY
    if ready is not None:
        with show.progress_bar(quiet=output.quiet) as progress:
            offers = _competing(choices, ready.requests, named, required=bool(chips), apart=True)
            api, sessions = _offers(api_prices, choices["model"]), agents.played(choices, **agents.usual())
            answered = ready.buy(offers, api, choices["agents"], ways=ways, progress=progress, **sessions)
        show.answer(answered, output)
        return
    requests, targets = options.requests(choices), options.usual_targets(choices, any_speed=any_speed)
    with show.progress_bar(quiet=output.quiet):
        offers = _competing(choices, requests, named, required=bool(chips))
        scv, api = choices["arrival_scv"], _offers(api_prices, choices["model"])
        rate = choices["request_rate"]
        bought = buy(offers, api, targets, ways=ways, arrival_scv=scv, request_rate=rate)
    show.answer(bought, output)


def _competing(
    choices: options.Choices, requests: Requests, chips: Sequence[str], *, required: bool, apart: bool = False
) -> list[Candidate]:
    """Instances that do both on some chips, or pools as well; chips that cannot serve are left out unless required."""
    offers: list[Candidate] = []
    failures: list[InputError | NothingFitsError] = []
    for chip in chips:
        try:
            offers += market.candidates({**choices, "hardware": chip, "together": not apart}, requests, chip)
        except (InputError, NothingFitsError) as error:
            if required:
                raise
            failures.append(error)
    if not offers:
        raise failures[0]
    return offers


def _offers(text: str | None, model: str) -> dict[str, dict[str, float]]:
    """What providers charge by kind of token, by their names: all that are recorded, or one."""
    from inference_econ.answers import buyer
    from inference_econ.answers.buy import charged
    from inference_econ.inputs import catalog

    spec = catalog.model(model)
    if text is None:
        return charged(buyer.offers_of(spec))
    if "=" in text:
        return {"given": dict(typed_prices(text) or {})}
    with of_option("api_prices"):
        offer = buyer.offer_by(spec, text)
    return {f"{text}, {offer.date}": buyer.prices_of(offer)}
