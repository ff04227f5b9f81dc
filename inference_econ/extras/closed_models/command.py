"""The ``infer`` command: model sizes, GPU prices, acceptance rates or buyer preferences from prices and speeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import inference_econ as ie
from inference_econ.errors import InputError
from inference_econ.requests import Request, subject, workload

if TYPE_CHECKING:
    from inference_econ._answer import Shown
    from inference_econ.extras.closed_models.scenario_kinds import ObservedOffer

#: Options that apply only to --hour-price, and options that apply only to --speedup.
_HOUR = (
    "weights", "activations", "kv", "engine", "any_layout", "assumptions", "changes", "loras", "lora_rank", "power_cap",
    "price_over_cost",
)  # fmt: skip
_ACCEPTANCE = ("draft_length", "draft_cost")


def infer(
    request: Request,
    offers: tuple[str, ...],
    recorded: str | None,
    truth: str | None,
    priors: str,
    samples: int,
    hour_price: bool,
    price_over_cost: float | None,
    exponent: bool,
    speedup: float | None,
    draft_length: int | None,
    draft_cost: float | None,
) -> Shown:
    """Infer the size of a closed model from its prices and speeds.

    The result has intervals and probabilities. The command draws models of all sizes from the priors and evaluates
    their deployments. A model gets more weight if it explains the observed prices, speeds and times to first token
    better. With --hour-price, --exponent or --speedup the command infers a GPU price, a buyer's preference or an
    acceptance rate.
    """
    from inference_econ.extras.closed_models.scenario_kinds import observed_offer

    if (speedup is not None) + hour_price + exponent > 1:
        raise InputError("give one of --hour-price, --exponent and --speedup")
    for names, owner, is_asked in (
        (_HOUR, "--hour-price", hour_price),
        (_ACCEPTANCE, "--speedup", speedup is not None),
    ):
        stray = [name for name in names if request.is_given(name)]
        if stray and not is_asked:
            raise InputError(f"--{stray[0].replace('_', '-')} needs {owner}", option=stray[0])
    if speedup is not None:
        return _acceptance(speedup, draft_length, draft_cost or 0.0)
    if offers and recorded is not None:
        raise InputError("give either --offer or --recorded, not both")
    seen = ie.recorded_offers(recorded) if recorded is not None else [observed_offer(text) for text in offers]
    if not seen:
        raise InputError("nothing was observed; give --offer, for example --offer input=3,output=15,speed=60")
    if hour_price:
        # Hourly price of a GPU implied by a token price of a known model on a known chip.
        (offer, *others) = seen
        charged, output = offer.dollars_per_million_input_tokens, offer.dollars_per_million_output_tokens
        speed = offer.tokens_per_second
        if others or truth is None or offer.hardware is None or charged is None or output is None or speed is None:
            raise InputError(
                "--hour-price is of one offer of a known model: "
                "--truth MODEL --offer input=0.1,output=0.4,speed=40,on=h100_sxm",
                option="hour_price",
            )
        # Any hourly price gives the same result, because cost is proportional to it.
        setup = subject.setup(replace(request, model=truth, hardware=offer.hardware, price=1.0))
        return ie.implied_hour_price(
            ie.frontier(setup, workload.requests(request)),
            float(output),
            float(speed),
            input_price=float(charged),
            price_over_cost=price_over_cost or 1.0,
        )
    if exponent:
        return _exponents(seen, workload.requests(request))
    return ie.infer(seen, priors, samples=samples, truth=truth, progress=request.progress)


def _acceptance(speedup: float, draft_length: int | None, draft_cost: float) -> Shown:
    """Infer the acceptance rate from a measured speedup of speculative decoding."""
    from inference_econ.extras.closed_models.implied import ImpliedAcceptance

    if draft_length is None:
        raise InputError("--speedup needs --draft-length", option="draft_length")
    share = float(ie.implied_acceptance(speedup, draft_length, draft_cost))
    return ImpliedAcceptance(speedup, draft_length, draft_cost, share)


def _exponents(seen: Sequence[ObservedOffer], lengths: ie.Requests) -> Shown:
    """Infer a buyer's speed preference: the exponents a for which each offer maximizes speed^a / price (eq. 45)."""
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
