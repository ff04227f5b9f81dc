"""Commands that turn questions round: the sizes, hour, acceptance and buyer behind prices, speeds and choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import inference_econ as ie
from inference_econ import inputs
from inference_econ.errors import InputError
from inference_econ.requests import Request, subject, workload

if TYPE_CHECKING:
    from inference_econ._shown import Shown
    from inference_econ.report.page import Page


def infer(
    request: Request, offers: tuple[str, ...], recorded: str | None, truth: str | None, priors: str, samples: int
) -> ie.Inferred:
    """Sizes that a closed model could have, by what was seen of its offers: intervals and probabilities, never a point.

    Models of every size are drawn from priors, served in every way that the priors allow, and weighted by how well they
    explain the prices, speeds and times to the first token that were seen.
    """
    if offers and recorded is not None:
        raise InputError("give either --offer or --recorded, not both")
    seen = _observed(offers, recorded)
    if not seen:
        raise InputError("nothing was observed; give --offer, for example --offer input=3,output=15,speed=60")
    return ie.infer(seen, priors, samples=samples, truth=truth, progress=request.progress)


def hour_price(
    request: Request, output_price: float, input_price: float, tokens_per_second: float, price_over_cost: float
) -> Shown:
    """The price of a GPU-hour that a price of tokens implies, for a known model on a known chip.

    MODEL and HARDWARE as in 'frontier'.
    """
    priced = replace(request, price=1.0 if request.price is None else request.price)
    front = ie.frontier(subject.setup(priced), workload.requests(request))
    return ie.implied_hour_price(
        front, output_price, tokens_per_second, input_price=input_price, price_over_cost=price_over_cost
    )


def acceptance(speedup: float, draft_length: int, draft_cost: float) -> Page:
    """The share of proposals accepted that a speed-up by speculation implies."""
    from inference_econ.report.implied import AcceptancePage

    share = float(ie.implied_acceptance(speedup, draft_length, draft_cost))
    return AcceptancePage(speedup, draft_length, draft_cost, share)


def exponent(request: Request, offers: tuple[str, ...], recorded: str | None) -> Shown:
    """Exponents of the preference speed^a / price, equation (45), with which a buyer chooses each of some offers."""
    if bool(offers) == (recorded is not None):
        raise InputError("give either --offer, twice at least, or --recorded")
    seen = _observed(offers, recorded)
    lengths = workload.requests(request)
    shares = (lengths.isl.mean, lengths.osl.mean)
    rows = []
    for offer in seen:
        prices = (offer.dollars_per_million_input_tokens, offer.dollars_per_million_output_tokens)
        if offer.tokens_per_second is None or None in prices:
            raise InputError(f"--offer {offer.words}: a choice is between a price of input and output and a speed")
        paid = sum(price * share for price, share in zip(prices, shares, strict=True) if price is not None)
        rows.append((offer.tokens_per_second, paid / sum(shares), offer.provider or offer.words))
    speeds, paid_by_offer, labels = (list(column) for column in zip(*rows, strict=True))
    return ie.revealed_exponents(speeds, paid_by_offer, labels)


def _observed(offers: Sequence[str], recorded: str | None) -> Sequence[inputs.ObservedOffer]:
    """Offers that are typed, or that are recorded of a model."""
    return ie.recorded_offers(recorded) if recorded is not None else [inputs.observed_offer(text) for text in offers]
